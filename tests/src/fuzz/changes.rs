//! [`Changes`]: bytes of a fuzzer, read as changes of an intact file.

/// Numbers at which arithmetic breaks.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    7,
    64,
    255,
    4_095,
    4_096,
    65_536,
    i32::MAX as u64,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    1 << 56,
    i64::MAX as u64,
    u64::MAX,
];

/// Most changes of one file.
const CHANGES_MAX: usize = 24;

/// No text beyond this many bytes is changed further: a line that is repeated doubles it each time.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Longest piece that is added or moved.
const PIECE_BYTES_MAX: usize = 4_096;
/// Regions where files keep their metadata: this many bytes at the start and at the end.
const EDGE_BYTES: usize = 2_048;

/// Bytes read from front to back; behind their end there are zeros.
#[derive(Debug, Clone)]
pub(super) struct Changes<'a> {
    bytes: &'a [u8],
}

impl<'a> Changes<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Tells whether nothing is left.
    pub(super) const fn is_over(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the remaining bytes.
    pub(super) fn rest(self) -> &'a [u8] {
        self.bytes
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        first
    }

    fn wide(&mut self, count: usize) -> u64 {
        (0..count).fold(0, |sum, _| sum << 8 | u64::from(self.byte()))
    }

    /// Returns a number in 0‥`bound`; 0 for a bound of 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let count = match bound {
            0..=256 => 1,
            257..=65_536 => 2,
            _ => 4,
        };
        (self.wide(count) % bound.max(1) as u64) as usize
    }

    /// Returns one of several.
    pub(super) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }

    /// Returns any number, often a small one or one at an edge.
    pub(super) fn number(&mut self) -> u64 {
        match self.below(4) {
            0 => self.wide(8),
            1 => self.wide(1),
            2 => self.wide(2),
            _ => self.pick(&EDGES),
        }
    }

    /// Changes bytes until nothing is left to read.
    pub(super) fn apply(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..CHANGES_MAX {
            if self.is_over() {
                break;
            }
            self.change(bytes);
        }
    }

    /// Changes bytes in one place.
    pub(super) fn change(&mut self, bytes: &mut Vec<u8>) {
        let kind = self.below(10);
        let at = self.position(bytes.len());
        match kind {
            0 | 1 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            2 if at < bytes.len() => bytes[at] = self.byte(),
            3 | 4 => self.overwrite(bytes, at / 4 * 4),
            5 => self.overwrite(bytes, at),
            6 => bytes.truncate(at),
            7 => {
                let count = self.below(PIECE_BYTES_MAX);
                bytes.splice(at..at, std::iter::repeat_n(self.byte(), count));
            }
            8 => {
                let end = bytes.len().min(at + self.below(PIECE_BYTES_MAX));
                bytes.drain(at..end);
            }
            _ => {
                let end = bytes.len().min(at + self.below(PIECE_BYTES_MAX));
                let to = self.position(bytes.len() - (end - at));
                bytes.copy_within(at..end, to);
            }
        }
    }

    /// Overwrites bytes with a number of 4 or 8 bytes.
    fn overwrite(&mut self, bytes: &mut [u8], at: usize) {
        let number = self.number().to_le_bytes();
        let end = bytes.len().min(at + self.pick(&[4, 8]));
        bytes[at..end].copy_from_slice(&number[..end - at]);
    }

    /// Returns a place in 0‥=`length`, often near the start or the end.
    fn position(&mut self, length: usize) -> usize {
        match self.below(4) {
            0 => self.below(length.min(EDGE_BYTES) + 1),
            1 => length - self.below(length.min(EDGE_BYTES) + 1),
            _ => self.below(length + 1),
        }
    }

    /// Changes a text until nothing is left to read: its words, its lines, sometimes its bytes.
    pub(super) fn apply_to_text(&mut self, text: &mut Vec<u8>, words: &str) {
        for _ in 0..CHANGES_MAX {
            if self.is_over() || text.len() > TEXT_BYTES_MAX {
                break;
            }
            match self.below(8) {
                0 => self.change(text),
                1 => self.move_line(text),
                2 => self.nest(text),
                _ => self.change_word(text, words),
            }
        }
    }

    /// Puts another word, or a number, in the place of one.
    fn change_word(&mut self, text: &mut Vec<u8>, words: &str) {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+.".contains(&byte);
        let at = self.below(text.len() + 1);
        let start = at + text[at..].iter().take_while(|byte| !is_word(**byte)).count();
        let end = start + text[start..].iter().take_while(|byte| is_word(**byte)).count();
        let new = match self.below(4) {
            0 => self.number().to_string(),
            1 => format!("-{}e{}", self.number(), self.byte()),
            _ => self.pick(&words.split(' ').collect::<Vec<_>>()).to_owned(),
        };
        text.splice(start..end, new.into_bytes());
    }

    /// Repeats, moves or drops a line.
    fn move_line(&mut self, text: &mut Vec<u8>) {
        let mut lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
        let (from, to) = (self.below(lines.len()), self.below(lines.len()));
        match self.below(3) {
            _ if lines.is_empty() => {}
            0 => lines.insert(to, lines[from]),
            1 => lines.swap(from, to),
            _ => drop(lines.remove(from)),
        }
        *text = lines.concat();
    }

    /// Puts brackets around nothing, many deep.
    fn nest(&mut self, text: &mut Vec<u8>) {
        let at = self.below(text.len() + 1);
        let opening = self.pick(&["[", "{\"a\":", "- ", "(", "&a [*a,", "{a: "]);
        let count = self.below(PIECE_BYTES_MAX) / opening.len();
        text.splice(at..at, opening.repeat(count).into_bytes());
    }
}
