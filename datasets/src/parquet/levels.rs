//! Checks of the levels of a page, run by run: whether every value is there, and where rows begin.
//!
//! Levels are stored in Parquet's hybrid encoding: runs of equal levels, and packed bits.

/// Levels that stand together.
enum Run<'a> {
    Equal {
        level: u8,
        count: usize,
    },
    /// From the lowest bits on.
    Packed {
        bytes: &'a [u8],
        count: usize,
    },
}

/// Takes `count` levels of `bit_width` bits, 1 to 8, run by run; `None` where they end too early, or
/// `take` returns it.
fn walk<'a>(
    mut bytes: &'a [u8],
    bit_width: usize,
    count: usize,
    mut take: impl FnMut(Run<'a>) -> Option<()>,
) -> Option<()> {
    let mut left = count;
    while left > 0 {
        let header = number(&mut bytes)?;
        let length = usize::try_from(header >> 1).ok().filter(|&length| length > 0)?;
        let (run, count) = if header & 1 == 0 {
            let (&level, count) = (bytes.split_off_first()?, left.min(length));
            (Run::Equal { level, count }, count)
        } else {
            let packed = bytes.split_off(..length.checked_mul(bit_width)?)?;
            let count = left.min(length.checked_mul(8)?);
            (Run::Packed { bytes: packed, count }, count)
        };
        take(run)?;
        left -= count;
    }
    Some(())
}

/// Reads a number of 7 bits in each byte, the lowest first.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..35).step_by(7) {
        let byte = bytes.split_off_first()?;
        number |= u64::from(byte & 127) << shift;
        if byte & 128 == 0 {
            return Some(number);
        }
    }
    None
}

/// Tells whether the `count` definition levels are all `level`, 1 to 3 and the largest there is: no
/// list and no component is null, and no list is empty.
pub(super) fn are_all(bytes: &[u8], level: u8, count: usize) -> bool {
    let bit_width = if level == 1 { 1 } else { 2 };
    let packed_byte = if level == 1 { 0xFF } else { 0x55 * level };
    let is_full = |run: Run<'_>| {
        let is_level = match run {
            Run::Equal { level: found, .. } => found == level,
            Run::Packed { bytes, count } => {
                let (whole, rest_bits) = (count * bit_width / 8, count * bit_width % 8);
                let rest_mask = (1_u8 << rest_bits) - 1;
                let rest = bytes.get(whole).map_or(0, |byte| (byte ^ packed_byte) & rest_mask);
                bytes[..whole].iter().all(|byte| *byte == packed_byte) && rest == 0
            }
        };
        is_level.then_some(())
    };
    walk(bytes, bit_width, count, is_full).is_some()
}

/// Follows the repetition levels of lists that have all as many components.
#[derive(Debug)]
pub(super) struct EvenRows {
    dim: usize,
    /// Components since the last row began; a row may go on in the next page.
    components: usize,
}

impl EvenRows {
    /// Begins before the first of rows with `dim` components, at least 1.
    pub(super) const fn new(dim: usize) -> Self {
        Self { dim, components: 0 }
    }

    /// Tells whether all rows that began have ended.
    pub(super) const fn is_between_rows(&self) -> bool {
        self.components == 0
    }

    /// Follows the `count` levels of a page, 0 where a row begins and 1 elsewhere; `None` where a row
    /// has another length.
    pub(super) fn follow(&mut self, bytes: &[u8], count: usize) -> Option<()> {
        walk(bytes, 1, count, |run| match run {
            Run::Equal { level: 1, count } => self.go_on(count),
            Run::Equal { level: 0, count } => self.begin(count),
            Run::Equal { .. } => None,
            Run::Packed { bytes, count } => (0..count).try_for_each(|i| {
                if bytes[i / 8] >> (i % 8) & 1 == 1 { self.go_on(1) } else { self.begin(1) }
            }),
        })
    }

    /// Takes components of the row that began.
    fn go_on(&mut self, count: usize) -> Option<()> {
        let has_room = self.components > 0 && count <= self.dim - self.components;
        self.components = has_room.then_some((self.components + count) % self.dim)?;
        Some(())
    }

    /// Takes the first components of rows.
    fn begin(&mut self, count: usize) -> Option<()> {
        let is_in_place = self.components == 0 && (count == 1 || self.dim == 1);
        self.components = is_in_place.then_some(1 % self.dim)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes levels as runs where at least `run_min` are equal, else as packed bits.
    fn encoded(levels: &[u8], bit_width: usize, run_min: usize) -> Vec<u8> {
        let (mut bytes, mut at) = (Vec::new(), 0);
        let put = |bytes: &mut Vec<u8>, mut number: usize| {
            while number > 127 {
                bytes.push(number as u8 | 128);
                number >>= 7;
            }
            bytes.push(number as u8);
        };
        while at < levels.len() {
            let equal = levels[at..].iter().take_while(|level| **level == levels[at]).count();
            if equal >= run_min {
                put(&mut bytes, equal << 1);
                bytes.push(levels[at]);
                at += equal;
                continue;
            }
            let mut packed = 0_u64;
            for (i, &level) in levels[at..].iter().take(8).enumerate() {
                packed |= u64::from(level) << (i * bit_width);
            }
            put(&mut bytes, 1 << 1 | 1);
            bytes.extend_from_slice(&packed.to_le_bytes()[..bit_width]);
            at += 8;
        }
        bytes
    }

    fn rows(dim: usize, count: usize) -> Vec<u8> {
        (0..dim * count).map(|i| u8::from(i % dim != 0)).collect()
    }

    #[test]
    fn even_rows_are_followed_over_pages_of_any_length() {
        for (dim, run_min) in [(1, 2), (1, 99), (2, 1), (3, 2), (8, 4), (13, 8), (384, 8)] {
            let levels = rows(dim, 9);
            for page_levels in [1, 2, 7, dim, dim + 1, levels.len()] {
                let mut even = EvenRows::new(dim);
                for page in levels.chunks(page_levels) {
                    let bytes = encoded(page, 1, run_min);
                    assert_eq!(even.follow(&bytes, page.len()), Some(()), "{dim} {page_levels}");
                }
                assert!(even.is_between_rows());
            }
        }
    }

    #[test]
    fn rows_of_another_length_are_not() {
        for dim in [1, 2, 5, 20] {
            for at in 0..4 * dim {
                let mut levels = rows(dim, 4);
                levels[at] ^= 1;
                for run_min in [1, 2, 99] {
                    let mut even = EvenRows::new(dim);
                    let followed = even.follow(&encoded(&levels, 1, run_min), levels.len());
                    assert!(followed.is_none(), "{dim} {at} {run_min}");
                }
            }
        }
        let mut even = EvenRows::new(4);
        assert!(even.follow(&encoded(&rows(4, 2)[..7], 1, 2), 7).is_some());
        assert!(!even.is_between_rows());
    }

    #[test]
    fn one_other_definition_level_is_seen() {
        for level in [1_u8, 2, 3] {
            let bit_width = if level == 1 { 1 } else { 2 };
            for run_min in [2, 99] {
                for count in [1, 3, 4, 8, 9, 40] {
                    let full = vec![level; count];
                    let bytes = encoded(&full, bit_width, run_min);
                    assert!(are_all(&bytes, level, count), "{level} {count}");
                    for at in 0..count {
                        let mut one_less = full.clone();
                        one_less[at] -= 1;
                        let bytes = encoded(&one_less, bit_width, run_min);
                        assert!(!are_all(&bytes, level, count), "{level} {count} {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn levels_that_end_early_or_claim_too_much_are_refused() {
        let bytes = encoded(&rows(20, 3), 1, 8);
        for length in 0..bytes.len() {
            assert!(EvenRows::new(20).follow(&bytes[..length], 60).is_none(), "{length}");
        }
        // Packed bits of 2⁶² bytes, a run of nothing, a number without end.
        for bytes in [&[0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 1][..], &[0, 1, 0, 1], &[0x80; 12]] {
            assert!(!are_all(bytes, 1, 4) && EvenRows::new(1).follow(bytes, 4).is_none());
        }
    }
}
