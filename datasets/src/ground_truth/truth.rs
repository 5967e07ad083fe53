//! [`GroundTruth`]: exact answers for one set of vectors.

use memfold_index::{
    JoinError, JoinOptions, JoinedPairs, Neighbor, Pool, Scan, ScanError, VectorMatrix, join_pairs,
};
use memfold_simd::{Kernels, Similarity};

use super::VectorsDigest;

/// Exact answers for one set of vectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroundTruth {
    /// The vectors that are answered about.
    pub vectors: VectorsDigest,
    /// Nearest neighbours of some queries.
    pub nearest: Option<NearestTruth>,
    /// All near pairs.
    pub pairs: Option<PairTruth>,
}

/// The `k` nearest rows of each query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NearestTruth {
    /// The queries.
    pub queries: VectorsDigest,
    /// Rows for each query; fewer where there are fewer.
    pub k: u32,
    /// For each query its rows, best first; of rows equally similar the smaller ones.
    pub neighbors: Vec<Vec<Neighbor>>,
}

/// Every pair at or above a threshold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairTruth {
    /// The least similarity.
    pub threshold: Similarity,
    /// The pairs, with bit-equal rows collapsed.
    pub joined: JoinedPairs,
}

impl GroundTruth {
    /// Begins without answers; reads every row once for the checksum.
    #[must_use]
    pub fn of(vectors: &VectorMatrix<'_>) -> Self {
        Self { vectors: VectorsDigest::of(vectors), nearest: None, pairs: None }
    }
}

impl NearestTruth {
    /// Compares every query with every row.
    ///
    /// # Errors
    /// When a row or a query has no direction, or the dimensions differ.
    pub fn find(
        vectors: &VectorMatrix<'_>,
        queries: &VectorMatrix<'_>,
        k: u32,
        pool: &Pool,
    ) -> Result<Self, ScanError> {
        let scan = Scan::new(vectors, pool, Kernels::active())?;
        let neighbors = scan.k_nearest_batch(queries, k as usize, pool)?;
        Ok(Self { queries: VectorsDigest::of(queries), k, neighbors })
    }
}

impl PairTruth {
    /// Joins the rows with each other.
    ///
    /// # Errors
    /// When a row has no direction, the pair budget is exceeded, or the join is cancelled.
    pub fn find(
        vectors: &VectorMatrix<'_>,
        threshold: Similarity,
        options: &JoinOptions<'_>,
    ) -> Result<Self, JoinError> {
        Ok(Self { threshold, joined: join_pairs(vectors, threshold, options)?.collect() })
    }
}
