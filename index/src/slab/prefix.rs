//! [`PrefixSlab`]: the codes of all rows, built.

use memfold_simd::{ColumnPanel, Kernels};

use super::SlabView;
use super::sample::sampled_units;
use crate::transform::prefix::{CoordinateRanges, LearnedDirections};
use crate::transform::{PREFIX_CODES, PrefixTransform};
use crate::{Pool, Row, ScanError, VectorMatrix};

/// Rows of a task: whole groups.
const BATCH_ROWS: usize = 2_048;

/// The codes of all rows and what they were made with, in memory.
///
/// [`transform`](Self::transform), [`codes`](Self::codes) and [`biases`](Self::biases) are what a file stores and what
/// [`SlabView::new`] takes.
#[derive(Debug, Clone)]
pub struct PrefixSlab {
    transform: Vec<f32>,
    panel: ColumnPanel,
    dim: usize,
}

impl PrefixSlab {
    /// Learns a transform from the rows and encodes them.
    ///
    /// Reads every row three times; cost: about `rows · dim · 128` multiplications in f64. Holds 72 bytes for each row.
    ///
    /// # Errors
    /// When a row has no direction.
    pub fn build(
        matrix: &VectorMatrix<'_>,
        pool: &Pool,
        kernels: &Kernels,
    ) -> Result<Self, ScanError> {
        let dim = matrix.dim();
        let units = sampled_units(matrix, pool, kernels)?;
        let directions = LearnedDirections::of(&units, dim, pool, kernels);
        let ranges = in_batches(matrix, pool, |rows| {
            let mut ranges = CoordinateRanges::NONE;
            for vector in rows.map(|row| matrix.vector(row)) {
                let squared_norm = kernels.dot(vector, vector);
                directions.widen(&mut ranges, vector, squared_norm, kernels);
            }
            ranges
        });
        let ranges = ranges.iter().fold(CoordinateRanges::NONE, CoordinateRanges::joined);
        let numbers = directions.into_numbers(&ranges, kernels);
        let transform = PrefixTransform::of_learned(&numbers, dim);
        let mut panel = ColumnPanel::default();
        for batch in in_batches(matrix, pool, |rows| encode(matrix, rows, &transform, kernels)) {
            panel.append(&batch);
        }
        Ok(Self { transform: numbers, panel, dim })
    }

    /// Returns the transform's numbers.
    #[must_use]
    pub fn transform(&self) -> &[f32] {
        &self.transform
    }

    /// Returns the codes in groups of 32 rows.
    #[must_use]
    pub fn codes(&self) -> &[i8] {
        self.panel.as_packed().0
    }

    /// Returns the biases in groups of 32 rows.
    #[must_use]
    pub fn biases(&self) -> &[i32] {
        self.panel.as_packed().1
    }

    /// Returns the number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.panel.len()
    }

    /// Tells whether there are no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.panel.is_empty()
    }

    /// Lends the slab to a scan.
    #[must_use]
    pub fn view(&self) -> SlabView<'_> {
        SlabView {
            transform: PrefixTransform::of_learned(&self.transform, self.dim),
            columns: self.panel.columns(),
            row_count: self.panel.len(),
        }
    }
}

/// Computes `task` for batches of rows and returns the results in their order.
fn in_batches<T: Send>(
    matrix: &VectorMatrix<'_>,
    pool: &Pool,
    task: impl Fn(&mut dyn ExactSizeIterator<Item = Row>) -> T + Sync + Send,
) -> Vec<T> {
    pool.map(matrix.len().div_ceil(BATCH_ROWS), |batch| {
        let end = matrix.len().min((batch + 1) * BATCH_ROWS);
        // A matrix has fewer than 2³² rows.
        let rows = batch as u32 * BATCH_ROWS as u32..end as u32;
        task(&mut rows.map(Row))
    })
}

fn encode(
    matrix: &VectorMatrix<'_>,
    rows: &mut dyn ExactSizeIterator<Item = Row>,
    transform: &PrefixTransform<'_>,
    kernels: &Kernels,
) -> ColumnPanel {
    let mut codes = Vec::with_capacity(rows.len() * PREFIX_CODES);
    let mut biases = Vec::with_capacity(rows.len());
    let mut row_codes = [0; PREFIX_CODES];
    for vector in rows.map(|row| matrix.vector(row)) {
        let squared_norm = kernels.dot(vector, vector);
        biases.push(transform.encode_row(vector, squared_norm, kernels, &mut row_codes));
        codes.extend_from_slice(&row_codes);
    }
    let mut panel = ColumnPanel::default();
    panel.pack(&codes, &biases, PREFIX_CODES);
    panel
}
