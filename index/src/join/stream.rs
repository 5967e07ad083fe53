//! [`PairStream`]: the answer of a join, larger than memory should hold.

use bytemuck::{Pod, Zeroable};
use memfold_simd::Similarity;

use super::audit::PairAudit;
use super::collect::logical_pairs;
use super::recall::MeasuredRecall;
use super::{JoinCounters, JoinedPairs, Pair};
use crate::distinct::DistinctRows;
use crate::{Row, Sorted};

/// All pairs at or above a threshold in order, with bit-equal vectors collapsed.
///
/// A *distinct* row is the smallest row of a group of bit-equal vectors. [`pairs`](Self::pairs) joins
/// distinct rows only; the pairs inside and between groups follow from [`groups`](Self::groups). Memory is
/// bounded where [`super::JoinOptions::scratch_dir`] names a folder.
#[derive(Debug)]
pub struct PairStream {
    sorted: Sorted<PairRecord>,
    groups: Vec<Vec<Row>>,
    distinct_rows: u64,
    logical_pairs: u64,
    counters: JoinCounters,
    /// `None`: the join was exact.
    audit: Option<PairAudit>,
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
    /// Puts together what a join found; pairs join distinct rows.
    pub(super) fn new(
        sorted: Sorted<PairRecord>,
        distinct: DistinctRows,
        counters: JoinCounters,
        audit: Option<PairAudit>,
    ) -> Self {
        let logical_pairs = logical_pairs(&distinct, sorted.iter().map(Pair::from));
        let distinct_rows = distinct.len() as u64;
        Self { sorted, groups: distinct.groups, distinct_rows, logical_pairs, counters, audit }
    }

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

    /// Returns the exact audit of a sample; `None` where the join itself was exact.
    #[must_use]
    pub const fn audit(&self) -> Option<&PairAudit> {
        self.audit.as_ref()
    }

    /// Returns how many of the distinct pairs at or above `threshold` were found, as the audit measured it; `None` where
    /// the join was exact. Not below the join's own threshold.
    #[must_use]
    pub fn measured_recall(&self, threshold: Similarity) -> Option<MeasuredRecall> {
        Some(self.audit()?.recall(self.pairs(), threshold))
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
