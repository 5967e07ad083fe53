//! Samples of evenly strided rows.

use memfold_index::{Row, VectorMatrix};

/// Copies up to `rows_max` evenly strided rows.
pub(crate) fn strided(matrix: &VectorMatrix<'_>, rows_max: usize) -> Vec<f32> {
    let rows = positions(matrix.len(), rows_max).map(|at| matrix.vector(Row(at as u32)));
    rows.flatten().copied().collect()
}

/// Returns up to `limit` positions of `0..len`, evenly strided.
pub(crate) fn positions(len: usize, limit: usize) -> impl Iterator<Item = usize> {
    let count = len.min(limit);
    (0..count).map(move |k| (k as u64 * len as u64 / count as u64) as usize)
}
