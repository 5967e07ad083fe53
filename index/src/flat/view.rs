//! [`FlatView`]: a flat index where it lies.

use memfold_simd::panel::{PACKED_BIASES, PACKED_COLUMNS};
use memfold_simd::{ColumnPanel, Columns, Kernels};

use crate::sample::hash_values;
use crate::scan::squared_norm;
use crate::transform::covariance::LearnedDirections;
use crate::transform::quantizer::CoordinateRanges;
use crate::transform::{FINE_CODES, PREFIX_CODES, PrefixTransform, push_unit};
use crate::{Damaged, NoProgress, Pool, Progress, Row, VectorError, VectorMatrix};

/// A borrowed flat index: of a [`FlatIndex`](super::FlatIndex) or of a mapped file.
#[derive(Debug, Clone, Copy)]
pub struct FlatView<'a> {
    pub(super) transform: PrefixTransform<'a>,
    pub(super) columns: Columns<'a>,
    /// [`FINE_CODES`] for each row.
    pub(super) fine_codes: &'a [i8],
    /// One for each row.
    pub(super) fine_lengths: &'a [i32],
}

impl<'a> FlatView<'a> {
    /// Takes what a [`FlatIndex`](super::FlatIndex) of `row_count` vectors of `dim` values stored, in constant time.
    ///
    /// # Errors
    /// When lengths do not fit each other, or codes and norms do not begin at a multiple of 64 bytes.
    pub fn new(
        transform: &'a [f32],
        codes: &'a [i8],
        norms: &'a [i32],
        row_count: usize,
        dim: usize,
    ) -> Result<Self, Damaged> {
        let transform = PrefixTransform::new(transform, dim)?;
        let groups = row_count.div_ceil(PACKED_COLUMNS);
        let first_codes = groups.saturating_mul(PACKED_COLUMNS * PREFIX_CODES);
        let code_count = first_codes.saturating_add(row_count.saturating_mul(FINE_CODES));
        let bias_count = groups.saturating_mul(PACKED_BIASES);
        let norm_count = bias_count.saturating_add(row_count);
        let lengths = [("codes", code_count, codes.len()), ("norms", norm_count, norms.len())];
        for (part, expected, found) in lengths {
            if expected != found {
                return Err(Damaged::Length { part, found, expected });
            }
        }
        let (first_codes, fine_codes) = codes.split_at(first_codes);
        let (biases, fine_lengths) = norms.split_at(bias_count);
        let columns = Columns::from_packed(first_codes, biases, PREFIX_CODES);
        let columns = columns.ok_or(Damaged::Alignment)?;
        Ok(Self { transform, columns, fine_codes, fine_lengths })
    }

    /// Returns the number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.fine_lengths.len()
    }

    /// Tells whether there are no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.fine_lengths.is_empty()
    }

    /// Returns the dimension of the rows.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.transform.dim()
    }
}

/// Distinct vectors from which directions are learned.
pub(crate) const SAMPLED_ROWS: usize = 4_096;

/// Rows of a task.
const BATCH_ROWS: usize = 1_024;

/// Returns the unit vectors of up to [`SAMPLED_ROWS`] distinct rows, those with the smallest hashes, and checks that
/// every row has a direction.
pub(super) fn sampled_units(
    matrix: &VectorMatrix<'_>,
    pool: &Pool,
    kernels: &Kernels,
) -> Result<Vec<f32>, VectorError> {
    let batches = pool.map(matrix.len().div_ceil(BATCH_ROWS), |batch| {
        let rows = batch * BATCH_ROWS..matrix.len().min((batch + 1) * BATCH_ROWS);
        let mut bits = Vec::with_capacity(matrix.dim());
        let mut hashed: Vec<(u64, Row)> = rows
            .map(|row| {
                // A matrix has fewer than 2³² rows.
                let row = Row(row as u32);
                let vector = matrix.vector(row);
                squared_norm(vector, kernels).ok_or(VectorError::InvalidRow { row: row.0 })?;
                Ok((hash_values(vector, &mut bits), row))
            })
            .collect::<Result<_, VectorError>>()?;
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
    let mut units = Vec::with_capacity(sample.len() * matrix.dim());
    for (_, row) in sample {
        let vector = matrix.vector(row);
        push_unit(vector, kernels.dot(vector, vector), &mut units);
    }
    Ok(units)
}

/// Keeps the smallest hashes, each once, in order.
fn keep_smallest(hashed: &mut Vec<(u64, Row)>) {
    hashed.sort_unstable();
    hashed.dedup_by_key(|&mut (hash, _)| hash);
    hashed.truncate(SAMPLED_ROWS);
}

/// Rows of a task: whole groups.
const TASK_ROWS: usize = 2_048;

/// The codes of all rows and what they were made with, in memory.
///
/// [`transform`](Self::transform), [`codes`](Self::codes) and [`norms`](Self::norms) are what a file stores and what
/// [`FlatView::new`] takes.
#[derive(Debug, Clone)]
pub struct FlatIndex {
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

impl FlatIndex {
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
    ) -> Result<Self, VectorError> {
        let built = Self::build_watched(matrix, pool, kernels, &NoProgress)?;
        Ok(built.expect("nobody asks to stop"))
    }

    /// As [`build`](Self::build); `None` where the caller asked to stop.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_watched(
        matrix: &VectorMatrix<'_>,
        pool: &Pool,
        kernels: &Kernels,
        progress: &dyn Progress,
    ) -> Result<Option<Self>, VectorError> {
        let dim = matrix.dim();
        let units = sampled_units(matrix, pool, kernels)?;
        if progress.cancelled() {
            return Ok(None);
        }
        let (directions, sampled) = LearnedDirections::of(&units, dim, pool, kernels);
        // A matrix has fewer than 2³² rows.
        let vector = |row: usize| matrix.vector(Row(row as u32));
        let ranges = pool.map_batches(matrix.len(), TASK_ROWS, progress, |rows| {
            let mut ranges = CoordinateRanges::none(PREFIX_CODES);
            for vector in rows.map(vector) {
                let squared_norm = kernels.dot(vector, vector);
                directions.widen(&mut ranges, vector, squared_norm, kernels);
            }
            ranges
        });
        let Some(ranges) = ranges else { return Ok(None) };
        let ranges = ranges.iter().fold(sampled, CoordinateRanges::joined);
        let numbers = directions.into_numbers(&ranges, kernels);
        let transform = transform_of(&numbers, dim);
        let batches = pool.map_batches(matrix.len(), TASK_ROWS, progress, |rows| {
            Encoded::of(rows.map(vector), &transform, kernels)
        });
        let Some(batches) = batches else { return Ok(None) };
        let mut encoded = Encoded::default();
        batches.into_iter().for_each(|batch| encoded.append(&batch));
        Ok(Some(Self { transform: numbers, encoded, dim }))
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
    ) -> Result<Self, Damaged> {
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

    /// Lends the flat index to a scan.
    #[must_use]
    pub fn view(&self) -> FlatView<'_> {
        FlatView {
            transform: transform_of(&self.transform, self.dim),
            columns: self.encoded.panel.columns(),
            fine_codes: &self.encoded.fine_codes,
            fine_lengths: &self.encoded.fine_lengths,
        }
    }
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
