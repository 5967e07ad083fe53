//! [`PairStream`]: the answer of a join, larger than memory should hold.

use bytemuck::{Pod, Zeroable};
use memfold_simd::Similarity;

use super::{JoinCounters, JoinedPairs, Pair};
use crate::{Row, Sorted};

/// All pairs at or above a threshold in order, with bit-equal vectors collapsed.
///
/// A *distinct* row is the smallest row of a group of bit-equal vectors. [`pairs`](Self::pairs) joins
/// distinct rows only; the pairs inside and between groups follow from [`groups`](Self::groups). Memory is
/// bounded where [`super::JoinOptions::scratch_dir`] names a folder.
#[derive(Debug)]
pub struct PairStream {
    pub(super) sorted: Sorted<PairRecord>,
    pub(super) groups: Vec<Vec<Row>>,
    pub(super) distinct_rows: u64,
    pub(super) logical_pairs: u64,
    pub(super) counters: JoinCounters,
}

/// A pair as it is sorted and stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
pub(super) struct PairRecord {
    left: u32,
    right: u32,
    similarity_bits: u64,
}

impl PairStream {
    /// Returns the pairs of distinct rows, sorted by (left, right); can be called again.
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = Pair> {
        self.sorted.iter().map(Pair::from)
    }

    /// Returns the groups of two or more bit-equal rows: members ascending, groups by their smallest row.
    #[must_use]
    pub fn groups(&self) -> &[Vec<Row>] {
        &self.groups
    }

    /// Returns how many distinct rows there are.
    #[must_use]
    pub const fn distinct_rows(&self) -> u64 {
        self.distinct_rows
    }

    /// Returns how many pairs of distinct rows there are.
    #[must_use]
    pub fn pair_count(&self) -> u64 {
        self.sorted.len() as u64
    }

    /// Returns the number of all logical pairs (inside groups, between groups, between distinct rows).
    #[must_use]
    pub const fn logical_pairs(&self) -> u64 {
        self.logical_pairs
    }

    /// Returns what the join did.
    #[must_use]
    pub const fn counters(&self) -> &JoinCounters {
        &self.counters
    }

    /// Takes all pairs into memory, 16 bytes each.
    #[must_use]
    pub fn collect(self) -> JoinedPairs {
        JoinedPairs {
            pairs: self.pairs().collect(),
            groups: self.groups,
            distinct_rows: self.distinct_rows,
            logical_pairs: self.logical_pairs,
        }
    }
}

impl From<Pair> for PairRecord {
    fn from(pair: Pair) -> Self {
        Self {
            left: pair.left.0,
            right: pair.right.0,
            similarity_bits: pair.similarity.get().to_bits(),
        }
    }
}

impl From<PairRecord> for Pair {
    fn from(record: PairRecord) -> Self {
        Self {
            left: Row(record.left),
            right: Row(record.right),
            // A similarity's own bits: nothing is changed by the clamp.
            similarity: Similarity::clamped(f64::from_bits(record.similarity_bits))
                .unwrap_or_default(),
        }
    }
}
