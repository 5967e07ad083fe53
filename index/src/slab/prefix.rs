//! [`PrefixSlab`]: the codes of all rows, built.

use memfold_simd::{ColumnPanel, Kernels};

use super::SlabView;
use super::sample::sampled_units;
use crate::transform::learn::{CoordinateRanges, LearnedDirections};
use crate::transform::{DamagedTransform, PREFIX_CODES, PrefixTransform};
use crate::{Pool, Row, ScanError, VectorMatrix};

/// Rows of a task: whole groups.
const BATCH_ROWS: usize = 2_048;

/// The codes of all rows and what they were made with, in memory.
///
/// [`transform`](Self::transform), [`codes`](Self::codes) and [`norms`](Self::norms) are what a file stores and what
/// [`SlabView::new`] takes.
#[derive(Debug, Clone)]
pub struct PrefixSlab {
    transform: Vec<f32>,
    encoded: Encoded,
    dim: usize,
}

/// Rows with their codes.
#[derive(Debug, Clone, Default)]
struct Encoded {
    panel: ColumnPanel,
    fine_codes: Vec<i8>,
    fine_lengths: Vec<i32>,
}

impl PrefixSlab {
    /// Learns a transform from the rows and encodes them.
    ///
    /// Reads every row three times; cost: about `rows · dim · 256` multiplications in f64. Holds 204 bytes for each row.
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
                directions.widen_first(&mut ranges, (vector, squared_norm), kernels);
            }
            ranges
        });
        let ranges = ranges.iter().fold(CoordinateRanges::NONE, CoordinateRanges::joined);
        let numbers = directions.into_numbers(&ranges, kernels);
        let transform = transform_of(&numbers, dim);
        let batches = in_batches(matrix, pool, |rows| {
            Encoded::of(rows.map(|row| matrix.vector(row)), &transform, kernels)
        });
        let mut encoded = Encoded::default();
        batches.into_iter().for_each(|batch| encoded.append(&batch));
        Ok(Self { transform: numbers, encoded, dim })
    }

    /// Encodes rows by the numbers of a transform that was learned from others: complete all the same, only slower to scan
    /// where these lie elsewhere.
    ///
    /// # Errors
    /// When the numbers are no transform of these rows' dimension.
    pub fn encode(
        matrix: &VectorMatrix<'_>,
        transform: &[f32],
        kernels: &Kernels,
    ) -> Result<Self, DamagedTransform> {
        let dim = matrix.dim();
        let rows = matrix.rows().map(|row| matrix.vector(row));
        let encoded = Encoded::of(rows, &PrefixTransform::new(transform, dim)?, kernels);
        Ok(Self { transform: transform.to_vec(), encoded, dim })
    }

    /// Returns the transform's numbers.
    #[must_use]
    pub fn transform(&self) -> &[f32] {
        &self.transform
    }

    /// Returns the codes of the sign test in groups of 32 rows, then the fine codes row after row.
    #[must_use]
    pub fn codes(&self) -> [&[i8]; 2] {
        [self.encoded.panel.as_packed().0, &self.encoded.fine_codes]
    }

    /// Returns the biases in groups of 32 rows, then the squared lengths of fine codes.
    #[must_use]
    pub fn norms(&self) -> [&[i32]; 2] {
        [self.encoded.panel.as_packed().1, &self.encoded.fine_lengths]
    }

    /// Returns the bytes of transform, codes and norms.
    #[must_use]
    pub fn byte_count(&self) -> u64 {
        let codes: usize = self.codes().iter().map(|codes| codes.len()).sum();
        let norms: usize = self.norms().iter().map(|norms| norms.len()).sum();
        (codes + 4 * (norms + self.transform.len())) as u64
    }

    /// Returns the number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.encoded.panel.len()
    }

    /// Tells whether there are no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.encoded.panel.is_empty()
    }

    /// Lends the slab to a scan.
    #[must_use]
    pub fn view(&self) -> SlabView<'_> {
        SlabView {
            transform: transform_of(&self.transform, self.dim),
            columns: self.encoded.panel.columns(),
            fine_codes: &self.encoded.fine_codes,
            fine_lengths: &self.encoded.fine_lengths,
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

fn transform_of(numbers: &[f32], dim: usize) -> PrefixTransform<'_> {
    PrefixTransform::new(numbers, dim).expect("whole directions and positive steps were learned")
}

impl Encoded {
    fn of<'a>(
        vectors: impl Iterator<Item = &'a [f32]>,
        transform: &PrefixTransform<'_>,
        kernels: &Kernels,
    ) -> Self {
        let mut encoded = Self::default();
        let (mut codes, mut biases) = (Vec::new(), Vec::new());
        for vector in vectors {
            let squared_norm = kernels.dot(vector, vector);
            let (row, bounds) = transform.encode_row(vector, squared_norm, kernels);
            codes.extend_from_slice(&row.first);
            biases.push(bounds.bias);
            encoded.fine_codes.extend_from_slice(&row.fine);
            encoded.fine_lengths.push(bounds.fine_length);
        }
        encoded.panel.pack(&codes, &biases, PREFIX_CODES);
        encoded
    }

    fn append(&mut self, other: &Self) {
        self.panel.append(&other.panel);
        self.fine_codes.extend_from_slice(&other.fine_codes);
        self.fine_lengths.extend_from_slice(&other.fine_lengths);
    }
}
