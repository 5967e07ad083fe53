//! [`DedupRequest`]: what is to be done with the pairs of a join.

use memfold_index::{JoinOptions, Row, VectorMatrix};
use memfold_simd::Similarity;

use super::KeepOrder;

/// Which member of a cluster stays, its survivor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// The first in an order, which is the processing order too.
    Best(KeepOrder),
    /// The member with the largest mean cosine to the members; of members within 1e-9 of the largest the smallest row.
    ///
    /// Clusters are made in order of rows. The sum of a member's cosines is taken as its cosine
    /// with the sum of all members' unit vectors, in f64 and in order of rows: time grows with the members,
    /// not with their pairs.
    MostCentral,
}

/// What makes a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterLinkage {
    /// Every two members are near; rows choose their cluster in the order of keeping.
    GreedyComplete,
    /// A chain of near rows joins them: connected components. Members may be far from the survivor.
    Single,
}

/// What is to be done with the pairs of a join.
pub struct DedupRequest<'a> {
    /// The rows that were joined.
    pub matrix: &'a VectorMatrix<'a>,
    /// The number under which a row is known outside; larger for larger rows.
    pub ordinal: &'a (dyn Fn(Row) -> u64 + Sync),
    /// Which rows stay.
    pub keep: &'a Keep,
    /// What makes a cluster.
    pub linkage: ClusterLinkage,
    /// At or above which similarities; none below the join's threshold.
    pub thresholds: &'a [Similarity],
    /// What the join ran with: workers, kernels, scratch folder, progress.
    pub options: &'a JoinOptions<'a>,
}
