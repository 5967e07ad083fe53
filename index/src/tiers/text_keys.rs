//! [`TextKeys`]: which rows may hold a text?

use crate::Row;
use crate::snapshot::SectionId;

/// The section of [`TextKeys`].
pub const TEXT_KEYS: SectionId = SectionId::new(8);

/// Rows by the hashes of their texts, sorted: 32 bits of hash above 32 bits of row.
///
/// Half a hash proposes only: among a million rows, a text that is not there meets another's half once in 4,000 times. Whoever
/// asks compares the texts.
///
/// # Examples
/// ```
/// use memfold_index::Row;
/// use memfold_index::tiers::TextKeys;
///
/// let (noon, dusk) = (0xAAAA_0000_0000_0000, 0xBBBB_0000_0000_0000);
/// let sorted = TextKeys::sorted([(noon, Row(0)), (dusk, Row(1)), (noon, Row(2))]);
/// let keys = TextKeys::new(&sorted);
/// assert_eq!(keys.rows(noon).collect::<Vec<_>>(), [Row(0), Row(2)]);
/// assert_eq!(keys.rows(7).count(), 0);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct TextKeys<'a> {
    sorted: &'a [u64],
}

/// The half of a hash that is kept.
const HASH: u64 = !(u32::MAX as u64);

impl<'a> TextKeys<'a> {
    /// Returns what is stored for rows with these hashes, of whose bits the upper ones count.
    #[must_use]
    pub fn sorted(hashed: impl IntoIterator<Item = (u64, Row)>) -> Vec<u64> {
        let mut keys: Vec<u64> =
            hashed.into_iter().map(|(hash, row)| hash & HASH | u64::from(row.0)).collect();
        keys.sort_unstable();
        keys
    }

    /// Takes what [`sorted`](Self::sorted) returned; other numbers give wrong rows and nothing worse.
    #[must_use]
    pub const fn new(sorted: &'a [u64]) -> Self {
        Self { sorted }
    }

    /// Returns the hash of each row's text, of which the lower half is zero; `None` unless each of `row_count` rows has one.
    #[must_use]
    pub fn hashes(&self, row_count: usize) -> Option<Vec<u64>> {
        let mut hashes = vec![None; row_count];
        for &key in self.sorted {
            // The lower half.
            let hash = hashes.get_mut(key as u32 as usize)?;
            if hash.replace(key & HASH).is_some() {
                return None;
            }
        }
        hashes.into_iter().collect()
    }

    /// Returns the rows whose text may have this hash, ascending.
    pub fn rows(&self, hash: u64) -> impl Iterator<Item = Row> + use<'a> {
        let first = self.sorted.partition_point(|&key| key < hash & HASH);
        let same = self.sorted[first..].iter().take_while(move |&&key| key & HASH == hash & HASH);
        // The lower half.
        same.map(|&key| Row(key as u32))
    }
}
