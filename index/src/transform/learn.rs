//! [`LearnedDirections`]: the numbers of a [`PrefixTransform`](super::PrefixTransform), learned.

use memfold_simd::Kernels;

use super::Covariance;
use super::prefix::{FINE_CODES, PREFIX_CODES};
use super::projection::squared_norm_max;
use super::quantizer::CODE_MAX;
use crate::Pool;

/// The most directions.
const WIDTH_MAX: usize = PREFIX_CODES + FINE_CODES;

/// A smaller step would tell rows apart by their rounding.
const STEP_MIN: f64 = 1e-6;

/// The sample's range of fine coordinates is widened by this, so that few other rows are clipped.
const FINE_MARGIN: f64 = 1.25;

/// Bounds are raised by this before they are rounded to f32.
const ROUNDED_UP: f64 = 1.0 + 1e-6;

/// Directions without middles and steps.
#[derive(Debug)]
pub(crate) struct LearnedDirections {
    directions: Vec<f32>,
    sampled: CoordinateRanges,
    dim: usize,
}

/// The least and greatest value of each coordinate of some rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CoordinateRanges {
    lowest: [f64; WIDTH_MAX],
    highest: [f64; WIDTH_MAX],
}

impl LearnedDirections {
    /// Learns directions from a sample of rows of `dim` values and length 1; the same bytes on every machine.
    pub(crate) fn of(units: &[f32], dim: usize, pool: &Pool, kernels: &Kernels) -> Self {
        let covariance = Covariance::portable(units, dim, pool, kernels);
        let directions = covariance.leading_directions(WIDTH_MAX, pool, kernels);
        let mut learned = Self { directions, sampled: CoordinateRanges::NONE, dim };
        let mut sampled = CoordinateRanges::NONE;
        for unit in units.chunks_exact(dim) {
            learned.widen(&mut sampled, WIDTH_MAX, (unit, 1.0), kernels);
        }
        learned.sampled = sampled;
        learned
    }

    /// Widens the ranges of the coordinates of the sign test by a row and its squared norm.
    pub(crate) fn widen_first(
        &self,
        ranges: &mut CoordinateRanges,
        row: (&[f32], f64),
        kernels: &Kernels,
    ) {
        self.widen(ranges, PREFIX_CODES, row, kernels);
    }

    fn widen(
        &self,
        ranges: &mut CoordinateRanges,
        count: usize,
        (row, squared_norm): (&[f32], f64),
        kernels: &Kernels,
    ) {
        let norm = squared_norm.sqrt();
        let limits = ranges.lowest.iter_mut().zip(&mut ranges.highest);
        let directions = self.directions.chunks_exact(self.dim).take(count);
        for (direction, (low, high)) in directions.zip(limits) {
            let coordinate = kernels.dot(direction, row) / norm;
            *low = low.min(coordinate);
            *high = high.max(coordinate);
        }
    }

    /// Returns the numbers of a transform that clips none of the first coordinates within these ranges.
    pub(crate) fn into_numbers(self, ranges: &CoordinateRanges, kernels: &Kernels) -> Vec<f32> {
        let width = self.directions.len() / self.dim;
        let ranges = ranges.joined(&self.sampled);
        let limits = || ranges.lowest.iter().zip(&ranges.highest).take(width);
        let middle = |(low, high): (&f64, &f64)| if low <= high { (low + high) / 2.0 } else { 0.0 };
        // `+ 0.0` turns −0 into +0, of which a least or greatest value may be either.
        let middles: Vec<f32> = limits().map(|limits| middle(limits) as f32 + 0.0).collect();
        let halves: Vec<f64> = limits()
            .zip(&middles)
            .map(|((low, high), &middle)| (high - f64::from(middle)).max(f64::from(middle) - low))
            .collect();
        let (first, fine) = halves.split_at(width.min(PREFIX_CODES));
        let norm = squared_norm_max(&self.directions, self.dim, kernels) * ROUNDED_UP;
        let head = [step_of(first, 1.0), step_of(fine, FINE_MARGIN), norm as f32];
        let mut numbers = head.map(|number| number.max(f32::MIN_POSITIVE)).to_vec();
        numbers.extend(middles);
        numbers.extend(self.directions);
        numbers
    }
}

/// Returns the step with which half ranges, widened, are coded.
fn step_of(halves: &[f64], margin: f64) -> f32 {
    let step = halves.iter().copied().fold(0.0, f64::max) * margin / CODE_MAX;
    // Without a range every code is 0.
    if step > STEP_MIN { (step * ROUNDED_UP) as f32 } else { 1.0 }
}

impl CoordinateRanges {
    /// The ranges of no rows.
    pub(crate) const NONE: Self =
        Self { lowest: [f64::INFINITY; WIDTH_MAX], highest: [f64::NEG_INFINITY; WIDTH_MAX] };

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
