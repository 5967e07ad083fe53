//! Which rows a transform is learned from.

use memfold_simd::Kernels;
use twox_hash::XxHash3_64;

use crate::scan::squared_norm;
use crate::transform::normalize_into;
use crate::{Pool, Row, ScanError, VectorMatrix};

/// Distinct vectors from which directions are learned.
pub const SAMPLED_ROWS: usize = 4_096;

/// Rows of a task.
const BATCH_ROWS: usize = 1_024;

/// Returns the unit vectors of up to [`SAMPLED_ROWS`] distinct rows, those with the smallest hashes, and checks that
/// every row has a direction.
pub(super) fn sampled_units(
    matrix: &VectorMatrix<'_>,
    pool: &Pool,
    kernels: &Kernels,
) -> Result<Vec<f32>, ScanError> {
    let batches = pool.map(matrix.len().div_ceil(BATCH_ROWS), |batch| {
        let rows = batch * BATCH_ROWS..matrix.len().min((batch + 1) * BATCH_ROWS);
        let mut hashed: Vec<(u64, Row)> = rows
            .map(|row| {
                // A matrix has fewer than 2³² rows.
                let row = Row(row as u32);
                let vector = matrix.vector(row);
                squared_norm(vector, kernels).ok_or(ScanError::InvalidRow { row: row.0 })?;
                Ok((XxHash3_64::oneshot(bytemuck::cast_slice(vector)), row))
            })
            .collect::<Result<_, ScanError>>()?;
        keep_smallest(&mut hashed);
        Ok(hashed)
    });
    let mut sample = Vec::new();
    for batch in batches {
        sample.extend(batch?);
        if sample.len() > 16 * SAMPLED_ROWS {
            keep_smallest(&mut sample);
        }
    }
    keep_smallest(&mut sample);
    let (mut units, mut unit) = (Vec::with_capacity(sample.len() * matrix.dim()), Vec::new());
    for (_, row) in sample {
        let vector = matrix.vector(row);
        normalize_into(vector, kernels.dot(vector, vector), &mut unit);
        units.extend_from_slice(&unit);
    }
    Ok(units)
}

/// Keeps the smallest hashes, each once, in order.
fn keep_smallest(hashed: &mut Vec<(u64, Row)>) {
    hashed.sort_unstable();
    hashed.dedup_by_key(|&mut (hash, _)| hash);
    hashed.truncate(SAMPLED_ROWS);
}
