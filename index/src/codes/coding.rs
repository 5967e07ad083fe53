//! [`Coding`]: from a vector to int8 codes.

use memfold_simd::Kernels;
use twox_hash::XxHash3_64;

use crate::distinct::DistinctRows;
use crate::scan::squared_norm;
use crate::{Pool, VectorMatrix};

/// Rows from which mean and step are learned: those with the smallest hashes.
const SAMPLED_ROWS: usize = 65_536;

/// Sampled rows of a task.
const BATCH_ROWS: usize = 1_024;

/// Half the coded range, in root mean squares of a coordinate: a few coordinates of real embeddings reach far.
const RANGE_SPREADS: f64 = 8.0;

/// The largest code.
const CODE_MAX: f64 = 127.0;

/// Unit coordinates are summed as multiples of 2⁻³⁰: 2³² of them fit an i64.
const FIXED_POINT: f64 = 1_073_741_824.0;

/// Deviations are squared as multiples of 2⁻²⁰: a row of 65,536 fits an i64.
const SQUARED_POINT: f64 = 1_048_576.0;

/// Rounds a small number to the nearest integer by leaving no room for a fraction.
const NO_FRACTION: f64 = 6_755_399_441_055_744.0;

/// Turns vectors into int8 codes: `round((x / |x| − mean) / step)`, clipped to ±127.
///
/// Division, square root and rounding are exact in IEEE arithmetic and nothing is fused, so codes are the same
/// bytes on every machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Coding {
    mean: Vec<f32>,
    step: f32,
}

/// Bytes that are no coding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamagedCoding {
    /// Vectors have at least one coordinate and codes at most 32,768.
    #[error("dimension must be between 1 and 32,768, found {found}")]
    Dimension {
        /// The dimension found.
        found: usize,
    },
    /// The step is positive and finite.
    #[error("the step between codes is not a positive number")]
    Step,
}

impl Coding {
    /// The largest dimension whose distances fit an i32.
    pub const DIM_MAX: usize = 32_768;

    /// Takes a mean of `dim` values and the step between two codes.
    ///
    /// # Errors
    /// When the dimension is out of range or the step is not positive.
    pub fn new(mean: Vec<f32>, step: f32) -> Result<Self, DamagedCoding> {
        if mean.is_empty() || mean.len() > Self::DIM_MAX {
            return Err(DamagedCoding::Dimension { found: mean.len() });
        }
        if !(step.is_finite() && step > 0.0) {
            return Err(DamagedCoding::Step);
        }
        Ok(Self { mean, step })
    }

    /// Learns mean and step from distinct rows.
    pub(crate) fn learn(
        matrix: &VectorMatrix<'_>,
        distinct: &DistinctRows,
        pool: &Pool,
    ) -> Result<Self, DamagedCoding> {
        let mut sample: Vec<usize> = (0..distinct.len()).collect();
        pool.sort_by_key(&mut sample, |&at| (distinct.hashes[at], at));
        sample.truncate(SAMPLED_ROWS);
        let sampled = Sampled { matrix, distinct, positions: &sample };
        let mean = sampled.mean(pool);
        let (mean_square, largest) = sampled.spread(&mean, pool);
        let range = largest.min(RANGE_SPREADS * mean_square.sqrt());
        // Without a range every code is 0.
        let step = if range > 1e-12 { (range / CODE_MAX) as f32 } else { 1.0 };
        Self::new(mean.into_iter().map(|value| value as f32).collect(), step)
    }

    /// Returns the mean, one value for each coordinate.
    #[must_use]
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    /// Returns the step between two codes.
    #[must_use]
    pub const fn step(&self) -> f32 {
        self.step
    }

    /// Returns the codes of each vector: its dimension, rounded up to a multiple of 4; the last ones are 0.
    #[must_use]
    pub const fn code_dim(&self) -> usize {
        self.mean.len().next_multiple_of(4)
    }

    /// Returns the largest squared distance of codes at which two vectors of a cosine of at least `threshold` are
    /// expected: rounding adds a twelfth for each coordinate of both and a random part, taken six times.
    #[must_use]
    pub fn squared_radius(&self, threshold: f64) -> i32 {
        let apart = (2.0 - 2.0 * threshold).max(0.0).sqrt() / f64::from(self.step);
        let rounding = self.mean.len() as f64 / 6.0;
        let radius = apart * apart + rounding + 6.0 * ((apart * apart + rounding) / 6.0).sqrt();
        (radius + 4.0).min(f64::from(i32::MAX)) as i32
    }

    /// Writes the codes of a vector of the coding's dimension.
    ///
    /// # Panics
    /// When `codes` is not [`code_dim`](Self::code_dim) long.
    pub fn encode(&self, vector: &[f32], squared_norm: f64, codes: &mut [i8]) {
        assert_eq!(codes.len(), self.code_dim(), "codes of another dimension");
        let norm = squared_norm.sqrt();
        let inverse_step = 1.0 / f64::from(self.step);
        for ((code, &value), &mean) in codes.iter_mut().zip(vector).zip(&self.mean) {
            let scaled = (f64::from(value) / norm - f64::from(mean)) * inverse_step;
            // The lowest bits of the sum are the rounded number's.
            *code = (scaled.clamp(-CODE_MAX, CODE_MAX) + NO_FRACTION).to_bits() as i8;
        }
        codes[self.mean.len()..].fill(0);
    }
}

/// Rows from which a coding is learned.
struct Sampled<'a> {
    matrix: &'a VectorMatrix<'a>,
    distinct: &'a DistinctRows,
    positions: &'a [usize],
}

impl Sampled<'_> {
    /// Returns the mean of the unit vectors, by exact sums.
    fn mean(&self, pool: &Pool) -> Vec<f64> {
        let dim = self.matrix.dim();
        let sums = self.map(pool, |positions| {
            let mut sums = vec![0_i64; dim];
            self.each_unit(positions, |at, value| {
                sums[at] += rounded(value * FIXED_POINT);
            });
            sums
        });
        let count = self.positions.len().max(1) as f64;
        let sum = |at: usize| sums.iter().map(|sums| sums[at]).sum::<i64>();
        (0..dim).map(|at| sum(at) as f64 / FIXED_POINT / count).collect()
    }

    /// Returns the mean square of deviations from `mean`, by exact sums, and the largest deviation.
    fn spread(&self, mean: &[f64], pool: &Pool) -> (f64, f64) {
        let parts = self.map(pool, |positions| {
            let (mut squares, mut largest) = (0_i128, 0.0_f64);
            self.each_unit(positions, |at, value| {
                let deviation = value - mean[at];
                let fixed = rounded(deviation * SQUARED_POINT);
                squares += i128::from(fixed * fixed);
                largest = largest.max(deviation.abs());
            });
            (squares, largest)
        });
        let squares: i128 = parts.iter().map(|(squares, _)| squares).sum();
        let count = (self.positions.len() * mean.len()).max(1) as f64;
        let mean_square = squares as f64 / (SQUARED_POINT * SQUARED_POINT) / count;
        (mean_square, parts.iter().map(|&(_, largest)| largest).fold(0.0, f64::max))
    }

    fn map<T: Send>(&self, pool: &Pool, task: impl Fn(&[usize]) -> T + Sync + Send) -> Vec<T> {
        let batches: Vec<&[usize]> = self.positions.chunks(BATCH_ROWS).collect();
        pool.map(batches.len(), |batch| task(batches[batch]))
    }

    fn each_unit(&self, positions: &[usize], mut take: impl FnMut(usize, f64)) {
        for &position in positions {
            let norm = self.distinct.squared_norms[position].sqrt();
            let vector = self.matrix.vector(self.distinct.rows[position]);
            for (at, &value) in vector.iter().enumerate() {
                take(at, f64::from(value) / norm);
            }
        }
    }
}

/// Returns the nearest integer of a number below 2⁵⁰, to the even one from the middle.
fn rounded(number: f64) -> i64 {
    ((number + NO_FRACTION) - NO_FRACTION) as i64
}

/// Returns a hash of codes: it spreads samples, levels and orders whatever the order of rows.
pub(crate) fn hash_codes(codes: &[i8]) -> u64 {
    XxHash3_64::oneshot(bytemuck::cast_slice(codes))
}

/// Encodes vectors of which only the codes are wanted, such as queries.
impl Coding {
    /// Writes the codes of a vector and returns its canonical squared norm, or `None` where it has no direction.
    ///
    /// # Panics
    /// When the vector has another dimension.
    pub fn encode_query(
        &self,
        vector: &[f32],
        kernels: &Kernels,
        codes: &mut Vec<i8>,
    ) -> Option<f64> {
        assert_eq!(vector.len(), self.mean.len(), "vector of another dimension");
        let squared_norm = squared_norm(vector, kernels)?;
        codes.resize(self.code_dim(), 0);
        self.encode(vector, squared_norm, codes);
        Some(squared_norm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NoProgress;

    fn learned(values: &[f32], dim: usize, threads: usize) -> Coding {
        let pool = Pool::new(std::num::NonZeroUsize::new(threads)).unwrap();
        let matrix = VectorMatrix::from_slice(values, dim).unwrap();
        let distinct = DistinctRows::of(&matrix, Kernels::active(), &pool, &NoProgress).unwrap();
        Coding::learn(&matrix, &distinct, &pool).unwrap()
    }

    #[test]
    fn the_mean_is_subtracted_and_the_range_is_used() {
        let coding = learned(&[1.0, 0.0, 0.0, 2.0], 2, 1);
        assert_eq!((coding.mean(), coding.code_dim()), (&[0.5, 0.5][..], 4));
        let mut codes = Vec::new();
        assert_eq!(coding.encode_query(&[3.0, 0.0], Kernels::active(), &mut codes), Some(9.0));
        assert_eq!(codes, [127, -127, 0, 0]);
        assert_eq!(coding.encode_query(&[0.0, 0.0], Kernels::active(), &mut codes), None);
        assert_eq!(coding.encode_query(&[f32::NAN, 0.0], Kernels::active(), &mut codes), None);
    }

    #[test]
    fn it_depends_on_the_set_of_vectors_only() {
        let values: Vec<f32> =
            (0..3_000 * 5).map(|at| ((at * 7_919 % 1_013) as f32) - 500.0).collect();
        let mut turned = values.clone();
        turned.rotate_left(5 * 1_234);
        let coding = learned(&values, 5, 1);
        assert_eq!(coding, learned(&turned, 5, 8));
        assert_eq!(coding, learned(&[values.as_slice(), &values[..500]].concat(), 5, 2));
    }

    #[test]
    fn equal_rows_have_codes_of_zero() {
        let coding = learned(&[0.6, 0.8, 0.0, 0.6, 0.8, 0.0], 3, 1);
        let mut codes = Vec::new();
        coding.encode_query(&[0.6, 0.8, 0.0], Kernels::active(), &mut codes).unwrap();
        assert_eq!(codes, [0; 4]);
    }

    #[test]
    fn what_is_no_coding_is_refused() {
        assert_eq!(Coding::new(vec![], 1.0), Err(DamagedCoding::Dimension { found: 0 }));
        assert_eq!(
            Coding::new(vec![0.0; 40_000], 1.0),
            Err(DamagedCoding::Dimension { found: 40_000 })
        );
        for step in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert_eq!(Coding::new(vec![0.0], step), Err(DamagedCoding::Step));
        }
        // A damaged mean gives codes, whatever they mean.
        let coding = Coding::new(vec![f32::NAN, f32::INFINITY], f32::MIN_POSITIVE).unwrap();
        coding.encode_query(&[1.0, 1.0], Kernels::active(), &mut Vec::new()).unwrap();
    }
}
