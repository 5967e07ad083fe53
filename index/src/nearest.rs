//! [`Nearest`]: what every index that answers single queries has in common.

use memfold_simd::Similarity;

use crate::slab::SlabScan;
use crate::{Neighbor, Scan, ScanError};

/// Answers queries one by one; neighbours come best first, with canonical similarities, and of rows equally similar
/// the smaller ones come first.
///
/// [`Scan`] and [`SlabScan`] find every row they should; others say what they miss.
pub trait Nearest {
    /// Returns the `k` rows most similar to `query`.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    fn k_nearest(&mut self, query: &[f32], k: usize) -> Result<Vec<Neighbor>, ScanError>;

    /// Returns the rows with a similarity of at least `threshold`.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    fn range(&mut self, query: &[f32], threshold: Similarity) -> Result<Vec<Neighbor>, ScanError>;
}

impl Nearest for Scan<'_> {
    fn k_nearest(&mut self, query: &[f32], k: usize) -> Result<Vec<Neighbor>, ScanError> {
        Scan::k_nearest(self, query, k)
    }

    fn range(&mut self, query: &[f32], threshold: Similarity) -> Result<Vec<Neighbor>, ScanError> {
        Scan::range(self, query, threshold)
    }
}

impl Nearest for SlabScan<'_> {
    fn k_nearest(&mut self, query: &[f32], k: usize) -> Result<Vec<Neighbor>, ScanError> {
        SlabScan::k_nearest(self, query, k).map(<[_]>::to_vec)
    }

    fn range(&mut self, query: &[f32], threshold: Similarity) -> Result<Vec<Neighbor>, ScanError> {
        SlabScan::range(self, query, threshold).map(<[_]>::to_vec)
    }
}
