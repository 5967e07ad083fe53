//! The built-in embedding: the vector of a text is the sum of the vectors of its word pieces.
//!
//! The table was distilled from all-MiniLM-L6-v2 (`datasets/data/README.md`). It needs no model, no
//! provider and no network, knows English, and gives the same bits on every machine: sums are taken
//! in the order of the pieces.

use std::ops::Range;

use memfold_index::Pool;
use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

/// The name of the model, with the version of its table.
pub const MODEL: &str = "memfold-static-1";
/// Components of a vector.
pub const DIM: usize = 128;

static TABLE: &[u8] = include_bytes!("../data/memfold-static-1.bin");

/// Bytes of the longest piece.
const PIECE_BYTES_MAX: usize = 18;
/// Longer words are unknown as a whole, as in the reference.
const WORD_CHARS_MAX: usize = 100;
/// The name, and the numbers of pieces and components.
const HEADER_BYTES: usize = 24;
const COUNTS_BYTES: usize = 2 * PIECE_BYTES_MAX * 4;
const UNKNOWN: &str = "[UNK]";
/// Texts that one task embeds.
const TEXTS_PER_TASK: usize = 512;

/// Returns the vector of a text, of unit length; `None` where no piece of it is known, or most of its letters are not
/// Latin: the table knows English, and single characters of other scripts say nothing.
///
/// # Examples
///
/// ```
/// use memfold_datasets::embedding::embed;
///
/// let dot = |a: &str, b: &str| -> f32 {
///     embed(a).unwrap().iter().zip(embed(b).unwrap()).map(|(x, y)| x * y).sum()
/// };
/// assert!(dot("Deploys happen on Friday", "Deploys every Friday") > 0.8);
/// assert!(dot("Deploys happen on Friday", "Bob likes green tea") < 0.4);
/// assert_eq!(embed("🎉"), None);
/// assert_eq!(embed("ゲートウェイは 8080 番ポート"), None);
/// ```
#[must_use]
pub fn embed(text: &str) -> Option<[f32; DIM]> {
    if is_latin(text) { vector_of(text) } else { None }
}

/// Returns the vector of a text in any script.
fn vector_of(text: &str) -> Option<[f32; DIM]> {
    let table = Table::open();
    let mut sum = [0_f32; DIM];
    let mut is_known = false;
    table.each_piece(text, |piece| {
        is_known |= piece != table.unknown;
        let scale = table.scale(piece);
        for (sum, &value) in sum.iter_mut().zip(table.vector(piece)) {
            *sum += scale * f32::from(value.cast_signed());
        }
    });
    let norm = sum.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt();
    (is_known && norm > 0.0).then(|| sum.map(|value| (f64::from(value) / norm) as f32))
}

/// Returns the vectors of texts in order, computed by the workers of a pool.
#[must_use]
pub fn embed_all(texts: &[&str], pool: &Pool) -> Vec<Option<[f32; DIM]>> {
    let tasks = pool.map(texts.len().div_ceil(TEXTS_PER_TASK), |task| {
        let end = texts.len().min((task + 1) * TEXTS_PER_TASK);
        texts[task * TEXTS_PER_TASK..end].iter().map(|text| embed(text)).collect::<Vec<_>>()
    });
    tasks.concat()
}

/// Where the parts of the table are. Pieces are sorted by whether they continue a word, by length,
/// by bytes, so that a piece is found by a binary search among the pieces of its length.
struct Table {
    /// First piece and first byte of each length, of pieces that begin a word and of pieces that
    /// continue one.
    groups: [[Group; PIECE_BYTES_MAX]; 2],
    scales: Range<usize>,
    vectors: usize,
    unknown: u32,
}

#[derive(Clone, Copy, Default)]
struct Group {
    first: u32,
    count: u32,
    at: usize,
}

impl Table {
    fn open() -> Self {
        let number = |at: usize| {
            u32::from_le_bytes(TABLE[at..at + 4].try_into().expect("four bytes make a number"))
        };
        let pieces = number(HEADER_BYTES - 8);
        let (mut first, mut at) = (0, HEADER_BYTES + COUNTS_BYTES);
        let mut groups = [[Group::default(); PIECE_BYTES_MAX]; 2];
        for (i, group) in groups.iter_mut().flatten().enumerate() {
            let count = number(HEADER_BYTES + 4 * i);
            *group = Group { first, count, at };
            first += count;
            at += count as usize * (i % PIECE_BYTES_MAX + 1);
        }
        let vectors = at + 4 * pieces as usize;
        let mut table = Self { groups, scales: at..vectors, vectors, unknown: 0 };
        table.unknown = table.find(UNKNOWN, 0).expect("the table has a piece for unknown words");
        table
    }

    /// Finds a piece that begins a word (0) or continues one (1).
    fn find(&self, text: &str, inner: usize) -> Option<u32> {
        let length = text.len();
        let group = self.groups[inner].get(length.checked_sub(1)?)?;
        let (mut low, mut high) = (0, group.count);
        while low < high {
            let middle = low.midpoint(high);
            let at = group.at + middle as usize * length;
            match TABLE[at..at + length].cmp(text.as_bytes()) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(group.first + middle),
            }
        }
        None
    }

    fn scale(&self, piece: u32) -> f32 {
        let at = self.scales.start + 4 * piece as usize;
        f32::from_le_bytes(TABLE[at..at + 4].try_into().expect("four bytes make a number"))
    }

    fn vector(&self, piece: u32) -> &[u8] {
        let at = self.vectors + DIM * piece as usize;
        &TABLE[at..at + DIM]
    }

    /// Visits the pieces of a text in order, as BERT's uncased tokenizer cuts it.
    fn each_piece(&self, text: &str, mut visit: impl FnMut(u32)) {
        let mut word = String::new();
        let mut take = |character: char| {
            if character.is_whitespace() {
                self.cut(&word, &mut visit);
                word.clear();
            } else if is_alone(character) {
                self.cut(&word, &mut visit);
                word.clear();
                word.push(character);
                self.cut(&word, &mut visit);
                word.clear();
            } else {
                word.push(character);
            }
        };
        if text.is_ascii() {
            let kept = text.chars().filter(|&character| !is_dropped(character));
            kept.for_each(|character| take(character.to_ascii_lowercase()));
        } else {
            let kept = text.chars().filter(|&character| !is_dropped(character));
            let plain =
                kept.nfd().filter(|c| c.general_category() != GeneralCategory::NonspacingMark);
            plain.flat_map(char::to_lowercase).for_each(&mut take);
        }
        take(' ');
    }

    /// Cuts a word into the longest pieces from its start; a word that cannot be cut is unknown.
    fn cut(&self, word: &str, visit: &mut impl FnMut(u32)) {
        if word.is_empty() {
            return;
        }
        let mut pieces = [0_u32; WORD_CHARS_MAX];
        let (mut count, mut rest) = (0, word);
        while !rest.is_empty() && count < pieces.len() {
            let inner = usize::from(count > 0);
            let ends = (1..=rest.len().min(PIECE_BYTES_MAX)).rev();
            let mut ends = ends.filter(|&end| rest.is_char_boundary(end));
            let found = ends.find_map(|end| Some((self.find(&rest[..end], inner)?, end)));
            let Some((piece, end)) = found else { break };
            pieces[count] = piece;
            (count, rest) = (count + 1, &rest[end..]);
        }
        if rest.is_empty() && word.chars().count() <= WORD_CHARS_MAX {
            pieces[..count].iter().for_each(|&piece| visit(piece));
        } else {
            visit(self.unknown);
        }
    }
}

/// Tells whether at least half of the letters of a text are Latin.
fn is_latin(text: &str) -> bool {
    let mut latin = 0_isize;
    for letter in text.chars().filter(|character| character.is_alphabetic()) {
        latin += if matches!(letter, ..'\u{250}' | '\u{1e00}'..='\u{1eff}') { 1 } else { -1 };
    }
    latin >= 0
}

/// Tells whether a character is no part of any word: controls and unassigned code points.
fn is_dropped(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => false,
        '\u{fffd}' => true,
        ' '..='~' => false,
        _ => character.general_category_group() == GeneralCategoryGroup::Other,
    }
}

/// Tells whether a character is a word on its own: punctuation, and Chinese characters.
fn is_alone(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_punctuation();
    }
    matches!(
        u32::from(character),
        0x3400..=0x4DBF
            | 0x4E00..=0x9FFF
            | 0xF900..=0xFAFF
            | 0x20000..=0x2A6DF
            | 0x2A700..=0x2B73F
            | 0x2B740..=0x2B81F
            | 0x2B920..=0x2CEAF
            | 0x2F800..=0x2FA1F
    ) || character.general_category_group() == GeneralCategoryGroup::Punctuation
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(text: &str) -> String {
        let table = Table::open();
        let mut pieces = Vec::new();
        table.each_piece(text, |piece| pieces.push(table.text(piece)));
        pieces.join(" ")
    }

    impl Table {
        fn text(&self, piece: u32) -> String {
            for (i, group) in self.groups.iter().flatten().enumerate() {
                if (group.first..group.first + group.count).contains(&piece) {
                    let length = i % PIECE_BYTES_MAX + 1;
                    let at = group.at + (piece - group.first) as usize * length;
                    let text = std::str::from_utf8(&TABLE[at..at + length]).unwrap();
                    return if i < PIECE_BYTES_MAX { text.into() } else { format!("##{text}") };
                }
            }
            unreachable!("every piece is in a group")
        }
    }

    /// The expected pieces come from the package `tokenizers` (BertWordPieceTokenizer, lower case).
    #[test]
    fn texts_are_cut_as_the_reference_cuts_them() {
        let cases: Vec<(String, String)> =
            serde_json::from_str(include_str!("../data/pieces.json")).unwrap();
        assert!(cases.len() > 30);
        for (text, expected) in cases {
            assert_eq!(pieces(&text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_table_is_whole() {
        let table = Table::open();
        assert_eq!(&TABLE[..MODEL.len()], MODEL.as_bytes());
        let count = table.groups.iter().flatten().map(|group| group.count).sum::<u32>() as usize;
        assert_eq!(table.vectors + DIM * count, TABLE.len());
        assert_eq!(table.text(table.unknown), UNKNOWN);
    }

    /// Pinned: the bits of vectors are part of every plan that rests on them.
    #[test]
    fn vectors_keep_their_bits() {
        let texts = ["Deploys every Friday", "naïve café", "我喜欢绿茶", "kubectl get pods"];
        let bits = texts.iter().flat_map(|text| vector_of(text).unwrap()).map(f32::to_bits);
        let mixed = bits.fold(0_u64, |mixed, bits| {
            (mixed.rotate_left(5) ^ u64::from(bits)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        });
        assert_eq!(mixed, 4_516_825_681_153_651_051);
    }

    #[test]
    fn capitals_and_spacing_do_not_count() {
        assert_eq!(embed("Deploys  every FRIDAY"), embed("deploys every friday"));
        assert_eq!(embed(""), None);
        assert_eq!(embed("🎉 🎉"), None);
        for foreign in ["当前只保留一个角色", "Сервер слушает порт 8080", "ゲートウェイは 8080 番"]
        {
            assert_eq!(embed(foreign), None, "{foreign}");
        }
        assert!(
            ["OpenClaw gateway 端口", "Größe über 7", "8080"]
                .iter()
                .all(|text| embed(text).is_some())
        );
    }

    proptest! {
        #[test]
        fn any_text_gets_a_unit_vector_or_none(text in any::<String>()) {
            if let Some(vector) = embed(&text) {
                let norm: f64 = vector.iter().map(|&x| f64::from(x).powi(2)).sum();
                prop_assert!((norm - 1.0).abs() < 1e-5);
            }
        }
    }
}
