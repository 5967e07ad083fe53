//! [`Clustering`]: what one threshold gives.

use memfold_index::{MeasuredRecall, Row};
use memfold_simd::Similarity;

use super::PairsDigest;

/// A row of a cluster of two or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The row.
    pub row: Row,
    /// The row of its cluster that stays; it is a member too.
    pub survivor: Row,
    /// The canonical similarity of the two: 1 for the survivor itself.
    pub similarity: Similarity,
}

/// The pairs and clusters at one threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Clustering {
    /// The threshold.
    pub threshold: Similarity,
    /// Pairs of distinct rows.
    pub distinct_pairs: u64,
    /// How many of all distinct pairs these are, as measured; `None`: the join was exact.
    pub recall: Option<MeasuredRecall>,
    /// All pairs of rows, counted arithmetically.
    pub logical_pairs: u64,
    /// The digest of the pairs.
    pub pairs_digest: PairsDigest,
    /// Rows in clusters of two or more, by survivor and row.
    pub members: Vec<Member>,
}

impl Clustering {
    /// Returns the clusters of two or more by their survivors; members ascend.
    pub fn clusters(&self) -> impl Iterator<Item = &[Member]> {
        self.members.chunk_by(|a, b| a.survivor == b.survivor)
    }

    /// Returns how many rows would go if only survivors stayed.
    #[must_use]
    pub fn duplicate_rows(&self) -> u64 {
        self.members.iter().filter(|member| member.row != member.survivor).count() as u64
    }
}
