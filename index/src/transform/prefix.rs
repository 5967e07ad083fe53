//! [`PrefixTransform`]: from a vector to the 64 codes of a slab.

use memfold_simd::{Kernels, Similarity};

use super::projection::squared_norm_max;
use super::quantizer::{BIAS_LIMIT, CODE_MAX, NO_FRACTION};
use super::{Covariance, SIMILARITY_SLACK};
use crate::Pool;

/// Codes of each row of a slab.
pub const PREFIX_CODES: usize = 64;

/// Numbers before the middles: the step, and the bound of `‖P‖²`.
const HEAD: usize = 2;

/// Covers the rounding of a row's coordinates, in steps and in f64.
const ERROR_SLACK: f64 = 1e-10;

/// What (6) allows beyond half a step for each coordinate.
const STEP_SLACK: f64 = 1e-3;

/// A smaller step would tell rows apart by their rounding.
const STEP_MIN: f64 = 1e-6;

/// Up to 64 principal directions, the middle of each coordinate and the step between codes, borrowed as they are stored.
///
/// The numbers are: the step, a bound of `‖P‖²`, `width` middles, `width` directions of `dim` values. Damaged numbers
/// make wrong codes and nothing else.
#[derive(Debug, Clone, Copy)]
pub struct PrefixTransform<'a> {
    step: f64,
    squared_norm_max: f64,
    middles: &'a [f32],
    directions: &'a [f32],
    dim: usize,
}

/// Numbers that are no transform.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamagedTransform {
    /// Two numbers stand before the directions, each of which has a middle and `dim` values.
    #[error("{found} numbers are no transform of vectors of dimension {dim}")]
    Length {
        /// The vectors' dimension.
        dim: usize,
        /// Numbers found.
        found: usize,
    },
    /// Step and norm are positive and finite.
    #[error("the step between codes or the norm of the directions is not a positive number")]
    Scale,
}

/// A query ready for the sign test (7).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EncodedQuery {
    /// `(E + e(v)) / Δ`.
    error: f64,
    /// `|q(v)|²`.
    squared_length: f64,
    step: f64,
    squared_norm_max: f64,
}

/// What became of a vector's coordinates.
struct Rounded {
    /// `e / Δ`.
    error: f64,
    squared_length: f64,
}

impl<'a> PrefixTransform<'a> {
    /// Takes stored numbers for vectors of `dim` values, without looking at more than two of them.
    ///
    /// # Errors
    /// When there are not as many as `dim` asks for, or step or norm is not positive.
    pub fn new(numbers: &'a [f32], dim: usize) -> Result<Self, DamagedTransform> {
        let found = numbers.len();
        let width = found.saturating_sub(HEAD) / dim.saturating_add(1);
        let whole = dim.checked_add(1).and_then(|each| each.checked_mul(width)?.checked_add(HEAD));
        if dim == 0 || width > PREFIX_CODES || whole != Some(found) {
            return Err(DamagedTransform::Length { dim, found });
        }
        let (head, numbers) = numbers.split_at(HEAD);
        let (middles, directions) = numbers.split_at(width);
        let is_positive = |&number: &f32| number.is_finite() && number > 0.0;
        if !head.iter().all(is_positive) {
            return Err(DamagedTransform::Scale);
        }
        let (step, squared_norm_max) = (f64::from(head[0]), f64::from(head[1]));
        Ok(Self { step, squared_norm_max, middles, directions, dim })
    }

    /// Takes what [`LearnedDirections::into_numbers`] made.
    pub(crate) fn of_learned(numbers: &'a [f32], dim: usize) -> Self {
        Self::new(numbers, dim).expect("as many numbers as directions ask for, and a positive step")
    }

    /// Returns the dimension of the vectors.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Writes the codes of a row and returns its bias.
    #[must_use]
    pub fn encode_row(
        &self,
        row: &[f32],
        squared_norm: f64,
        kernels: &Kernels,
        codes: &mut [i8; PREFIX_CODES],
    ) -> i32 {
        let rounded = self.encode(row, squared_norm, kernels, codes);
        if rounded.error <= self.row_error_max() {
            // Half of an integer, rounded towards +∞.
            -(rounded.squared_length / 2.0).floor() as i32
        } else {
            BIAS_LIMIT as i32
        }
    }

    /// Writes the codes of a query and returns what biases for it follow from.
    #[must_use]
    pub fn encode_query(
        &self,
        query: &[f32],
        squared_norm: f64,
        kernels: &Kernels,
        codes: &mut [i8; PREFIX_CODES],
    ) -> EncodedQuery {
        let rounded = self.encode(query, squared_norm, kernels, codes);
        EncodedQuery {
            error: rounded.error + self.row_error_max(),
            squared_length: rounded.squared_length,
            step: self.step,
            squared_norm_max: self.squared_norm_max,
        }
    }

    /// Returns `E / Δ` of (6).
    fn row_error_max(&self) -> f64 {
        (self.middles.len() as f64).sqrt() / 2.0 + STEP_SLACK
    }

    fn encode(
        &self,
        vector: &[f32],
        squared_norm: f64,
        kernels: &Kernels,
        codes: &mut [i8; PREFIX_CODES],
    ) -> Rounded {
        let inverse_step = 1.0 / self.step;
        let (mut squared_error, mut squared_length) = (0.0, 0.0);
        *codes = [0; PREFIX_CODES];
        let coordinates = coordinates(self.directions, vector, squared_norm, kernels);
        for ((coordinate, &middle), to) in coordinates.zip(self.middles).zip(codes) {
            let moved = coordinate - f64::from(middle);
            let scaled = (moved * inverse_step).clamp(-CODE_MAX, CODE_MAX) + NO_FRACTION;
            let code = scaled - NO_FRACTION;
            let error = moved - code * self.step;
            squared_error += error * error;
            squared_length += code * code;
            // The lowest bits of the sum are the code's.
            *to = scaled.to_bits() as i8;
        }
        let error = (squared_error.sqrt() * (1.0 + 1e-9) + ERROR_SLACK) / self.step;
        Rounded { error, squared_length }
    }
}

impl EncodedQuery {
    /// Returns the query's bias in (7): rows that fail with it are less similar than `threshold`.
    #[must_use]
    pub fn bias(&self, threshold: Similarity) -> i32 {
        let squared = self.squared_norm_max * (2.0 - 2.0 * threshold.get() + SIMILARITY_SLACK);
        let reach = squared.sqrt() / self.step + self.error;
        let bias = ((reach * reach - self.squared_length) / 2.0 + 1e-3).ceil();
        // Also where damaged numbers made it NaN.
        if bias < BIAS_LIMIT { bias.max(-BIAS_LIMIT) as i32 } else { BIAS_LIMIT as i32 }
    }

    /// Returns the bias with which every row passes.
    #[must_use]
    pub const fn bias_of_all() -> i32 {
        BIAS_LIMIT as i32
    }
}

/// Returns the product of a vector, brought to length 1, with each direction.
fn coordinates<'a>(
    directions: &'a [f32],
    vector: &'a [f32],
    squared_norm: f64,
    kernels: &'a Kernels,
) -> impl Iterator<Item = f64> + 'a {
    let norm = squared_norm.sqrt();
    directions.chunks_exact(vector.len()).map(move |axis| kernels.dot(axis, vector) / norm)
}

/// A transform on its way: directions without middles and step.
#[derive(Debug)]
pub(crate) struct LearnedDirections {
    directions: Vec<f32>,
    dim: usize,
}

/// The least and greatest value of each coordinate of some rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CoordinateRanges {
    lowest: [f64; PREFIX_CODES],
    highest: [f64; PREFIX_CODES],
}

impl LearnedDirections {
    /// Learns directions from a sample of rows of `dim` values and length 1; the same bytes on every machine.
    pub(crate) fn of(units: &[f32], dim: usize, pool: &Pool, kernels: &Kernels) -> Self {
        let covariance = Covariance::portable(units, dim, pool, kernels);
        Self { directions: covariance.leading_directions(PREFIX_CODES, pool, kernels), dim }
    }

    /// Widens ranges by a row.
    pub(crate) fn widen(
        &self,
        ranges: &mut CoordinateRanges,
        row: &[f32],
        squared_norm: f64,
        kernels: &Kernels,
    ) {
        let limits = ranges.lowest.iter_mut().zip(&mut ranges.highest);
        let coordinates = coordinates(&self.directions, row, squared_norm, kernels);
        for (coordinate, (low, high)) in coordinates.zip(limits) {
            *low = low.min(coordinate);
            *high = high.max(coordinate);
        }
    }

    /// Returns the numbers of a transform that clips no coordinate within these ranges.
    pub(crate) fn into_numbers(self, ranges: &CoordinateRanges, kernels: &Kernels) -> Vec<f32> {
        let width = self.directions.len() / self.dim;
        let limits = || ranges.lowest.iter().zip(&ranges.highest).take(width);
        let middle = |(low, high): (&f64, &f64)| if low <= high { (low + high) / 2.0 } else { 0.0 };
        // `+ 0.0` turns −0 into +0, of which a least or greatest value may be either.
        let middles: Vec<f32> = limits().map(|limits| middle(limits) as f32 + 0.0).collect();
        let half = limits()
            .zip(&middles)
            .map(|((low, high), &middle)| (high - f64::from(middle)).max(f64::from(middle) - low))
            .fold(0.0, f64::max);
        let step = half / CODE_MAX;
        let norm = squared_norm_max(&self.directions, self.dim, kernels);
        // Without a range every code is 0. Bounds are rounded up to f32.
        let step = if step > STEP_MIN { step * (1.0 + 1e-6) } else { 1.0 };
        let norm = norm.max(f64::MIN_POSITIVE) * (1.0 + 1e-6);
        let mut numbers = vec![step as f32, (norm as f32).max(f32::MIN_POSITIVE)];
        numbers.extend(middles);
        numbers.extend(self.directions);
        numbers
    }
}

impl CoordinateRanges {
    /// The ranges of no rows.
    pub(crate) const NONE: Self =
        Self { lowest: [f64::INFINITY; PREFIX_CODES], highest: [f64::NEG_INFINITY; PREFIX_CODES] };

    /// Returns the ranges of these rows and others.
    pub(crate) fn joined(mut self, other: &Self) -> Self {
        for (low, other) in self.lowest.iter_mut().zip(&other.lowest) {
            *low = low.min(*other);
        }
        for (high, other) in self.highest.iter_mut().zip(&other.highest) {
            *high = high.max(*other);
        }
        self
    }
}
