//! [`PrefixTransform`]: from a vector to the codes of a flat index.

use memfold_simd::{Kernels, Similarity};

use super::{BIAS_LIMIT, CODE_MAX, SIMILARITY_SLACK, quantize};
use crate::Damaged;

/// Codes of each row that every scan reads.
pub(crate) const PREFIX_CODES: usize = 64;

/// Codes of each row that are read where the first let it pass.
pub(crate) const FINE_CODES: usize = 128;

/// Numbers before the middles: the two steps, and the bound of `‖P‖²`.
pub(super) const HEAD: usize = 3;

/// Covers the rounding of a row's coordinates in f64.
const ERROR_SLACK: f64 = 1e-10;

/// Allowance of (6) beyond half a step for each coordinate.
const STEP_SLACK: f64 = 1e-3;

/// Stands for the squared length of fine codes that (6) does not hold for.
const UNKNOWN_LENGTH: i32 = -1;

/// Up to 192 principal directions, the middle of each coordinate and the steps between codes, borrowed as they are
/// stored.
///
/// The numbers are: the step of the first 64 coordinates, the step of the others, a bound of `‖P‖²`, `width` middles,
/// `width` directions of `dim` values. Damaged numbers make wrong codes and nothing else.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrefixTransform<'a> {
    squared_norm_max: f64,
    first: Part<'a>,
    fine: Part<'a>,
    dim: usize,
}

/// Consecutive coordinates with one step.
#[derive(Debug, Clone, Copy)]
struct Part<'a> {
    step: f64,
    middles: &'a [f32],
    directions: &'a [f32],
}

/// The codes of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PrefixCodes {
    /// Codes of the sign test.
    pub(crate) first: [i8; PREFIX_CODES],
    /// Further ones, with a smaller step.
    pub(crate) fine: [i8; FINE_CODES],
}

/// Bounds of a row for the tests, beside its codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PrefixBounds {
    /// `b(u)` of (7).
    pub(crate) bias: i32,
    /// `|q(u)|²` of the fine codes; negative where they say nothing.
    pub(crate) fine_length: i32,
}

/// Bounds of a query for the tests, beside its codes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct QueryBounds {
    squared_norm_max: f64,
    first: PartBounds,
    fine: PartBounds,
}

/// `Δ`, `E + e(v)` and `|q(v)|²` of some coordinates.
#[derive(Debug, Clone, Copy, PartialEq)]
struct PartBounds {
    step: f64,
    error: f64,
    squared_length: f64,
}

/// Rounding of some coordinates: `e` and `|q|²`.
struct Rounded {
    error: f64,
    squared_length: f64,
}

impl<'a> PrefixTransform<'a> {
    /// Takes stored numbers for vectors of `dim` values, without looking at more than three of them.
    ///
    /// # Errors
    /// When there are not as many as `dim` asks for, or a step or the norm is not positive.
    pub(crate) fn new(numbers: &'a [f32], dim: usize) -> Result<Self, Damaged> {
        let found = numbers.len();
        let width = found.saturating_sub(HEAD) / dim.saturating_add(1);
        let whole = dim.checked_add(1).and_then(|each| each.checked_mul(width)?.checked_add(HEAD));
        if dim == 0 || width > dim.min(PREFIX_CODES + FINE_CODES) || whole != Some(found) {
            return Err(Damaged::Range {
                number: "the length of the prefix transform",
                found,
                expected: "3 numbers, and a middle and a vector for each of up to 192 directions",
            });
        }
        let (head, numbers) = numbers.split_at(HEAD);
        let is_positive = |&number: &f32| number.is_finite() && number > 0.0;
        if !head.iter().all(is_positive) {
            return Err(Damaged::NotPositive {
                number: "a step between codes or the norm of the directions",
            });
        }
        let (middles, directions) = numbers.split_at(width);
        let (first_middles, fine_middles) = middles.split_at(width.min(PREFIX_CODES));
        let (first_directions, fine_directions) = directions.split_at(first_middles.len() * dim);
        let part = |step: f32, middles, directions| Part { step: step.into(), middles, directions };
        Ok(Self {
            squared_norm_max: head[2].into(),
            first: part(head[0], first_middles, first_directions),
            fine: part(head[1], fine_middles, fine_directions),
            dim,
        })
    }

    /// Returns the dimension of the vectors.
    pub(crate) const fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the codes and bounds of a row.
    pub(crate) fn encode_row(
        &self,
        row: &[f32],
        squared_norm: f64,
        kernels: &Kernels,
    ) -> (PrefixCodes, PrefixBounds) {
        let (codes, first, fine) = self.encode(row, squared_norm, kernels);
        let is_bounded = first.error <= self.first.error_max();
        // Half of an integer, rounded towards +∞.
        let bias = -(first.squared_length / 2.0).floor() as i32;
        let is_known = fine.error <= self.fine.error_max();
        let bounds = PrefixBounds {
            bias: if is_bounded { bias } else { BIAS_LIMIT as i32 },
            fine_length: if is_known { fine.squared_length as i32 } else { UNKNOWN_LENGTH },
        };
        (codes, bounds)
    }

    /// Returns the codes and bounds of a query.
    pub(crate) fn encode_query(
        &self,
        query: &[f32],
        squared_norm: f64,
        kernels: &Kernels,
    ) -> (PrefixCodes, QueryBounds) {
        let (codes, first, fine) = self.encode(query, squared_norm, kernels);
        let bounds = |part: &Part<'_>, rounded: &Rounded| PartBounds {
            step: part.step,
            error: rounded.error + part.error_max(),
            squared_length: rounded.squared_length,
        };
        let bounds = QueryBounds {
            squared_norm_max: self.squared_norm_max,
            first: bounds(&self.first, &first),
            fine: bounds(&self.fine, &fine),
        };
        (codes, bounds)
    }

    fn encode(
        &self,
        vector: &[f32],
        squared_norm: f64,
        kernels: &Kernels,
    ) -> (PrefixCodes, Rounded, Rounded) {
        let mut codes = PrefixCodes { first: [0; PREFIX_CODES], fine: [0; FINE_CODES] };
        let norm = squared_norm.sqrt();
        let first = self.first.encode(vector, norm, kernels, &mut codes.first);
        let fine = self.fine.encode(vector, norm, kernels, &mut codes.fine);
        (codes, first, fine)
    }
}

impl Part<'_> {
    /// Returns `E` of (6).
    fn error_max(&self) -> f64 {
        ((self.middles.len() as f64).sqrt() / 2.0 + STEP_SLACK) * self.step
    }

    fn encode(&self, vector: &[f32], norm: f64, kernels: &Kernels, codes: &mut [i8]) -> Rounded {
        let inverse_step = 1.0 / self.step;
        let (mut squared_error, mut squared_length) = (0.0, 0.0);
        let directions = self.directions.chunks_exact(vector.len());
        for ((direction, &middle), to) in directions.zip(self.middles).zip(codes) {
            let moved = kernels.dot(direction, vector) / norm - f64::from(middle);
            let code;
            (*to, code) = quantize(moved * inverse_step, CODE_MAX);
            let error = moved - code * self.step;
            squared_error += error * error;
            squared_length += code * code;
        }
        Rounded { error: squared_error.sqrt() * (1.0 + 1e-9) + ERROR_SLACK, squared_length }
    }
}

impl QueryBounds {
    /// The bias with which every row passes.
    pub(crate) const BIAS_OF_ALL: i32 = BIAS_LIMIT as i32;

    /// Returns the query's bias in (7): rows that fail with it are less similar than `threshold`.
    pub(crate) fn bias(&self, threshold: Similarity) -> i32 {
        let reach = (self.reach(threshold) + self.first.error) / self.first.step;
        let bias = ((reach * reach - self.first.squared_length) / 2.0 + 1e-3).ceil();
        // Also where damaged numbers made it NaN.
        if bias < BIAS_LIMIT { bias.max(-BIAS_LIMIT) as i32 } else { Self::BIAS_OF_ALL }
    }

    /// Returns the largest [`squared_distance`](Self::squared_distance) of rows of at least this similarity: the right
    /// side of (8).
    pub(crate) fn squared_distance_max(&self, threshold: Similarity) -> f64 {
        let errors = [self.first.error, self.fine.error].map(|error| error * error);
        let reach = self.reach(threshold) + (errors[0] + errors[1]).sqrt();
        reach * reach * (1.0 + 1e-9)
    }

    /// Returns the left side of (8), given a row's score of the sign test without the query's bias, the product of its
    /// fine codes and the query's, and their squared length.
    pub(crate) fn squared_distance(&self, score: i32, fine_dot: i32, fine_length: i32) -> f64 {
        if fine_length < 0 {
            return f64::NEG_INFINITY;
        }
        let first = self.first.squared_length - 2.0 * f64::from(score);
        let fine = self.fine.squared_length + f64::from(fine_length) - 2.0 * f64::from(fine_dot);
        first * self.first.step * self.first.step + fine * self.fine.step * self.fine.step
    }

    /// Returns `s` of (2).
    fn reach(&self, threshold: Similarity) -> f64 {
        (self.squared_norm_max * (2.0 - 2.0 * threshold.get() + SIMILARITY_SLACK)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Values, pool};
    use crate::transform::{LearnedDirections, push_unit};

    const DIM: usize = 100;

    /// Rows around a centre, with a spread that shrinks from coordinate to coordinate.
    fn units(count: usize, spread: f32, noise: &mut Values) -> Vec<f32> {
        let mut units = Vec::new();
        for _ in 0..count {
            let value = |at: usize| 1.0 + spread * noise.next() / (1 + at) as f32;
            let row: Vec<f32> = (0..DIM).map(value).collect();
            let squared_norm = Kernels::active().dot(&row, &row);
            push_unit(&row, squared_norm, &mut units);
        }
        units
    }

    #[test]
    fn rows_at_the_threshold_pass_wherever_the_sample_was() {
        let (kernels, pool) = (Kernels::active(), pool(2));
        let noise = &mut Values(7);
        let sample = units(300, 1.0, noise);
        let (learned, sampled) = LearnedDirections::of(&sample, DIM, &pool, kernels);
        let numbers = learned.into_numbers(&sampled, kernels);
        let transform = PrefixTransform::new(&numbers, DIM).unwrap();
        let (mut clipped, mut clipped_fine) = (0, 0);
        // From rows like the sample to rows that are clipped in most coordinates.
        for spread in [0.9, 2.0, 5.0, 40.0] {
            let rows = units(60, spread, noise);
            let rows: Vec<&[f32]> = rows.chunks_exact(DIM).collect();
            for (row, query) in rows.iter().flat_map(|row| rows.iter().map(move |q| (row, q))) {
                let norms = [kernels.dot(row, row), kernels.dot(query, query)];
                let threshold = kernels.similarity(row, query, norms).unwrap();
                let (row, row_bounds) = transform.encode_row(row, norms[0], kernels);
                let (query, bounds) = transform.encode_query(query, norms[1], kernels);
                let score = kernels.dot_i8(&row.first, &query.first) + row_bounds.bias;
                assert!(score + bounds.bias(threshold) >= 0, "{spread}: {threshold}");
                let fine_dot = kernels.dot_i8(&row.fine, &query.fine);
                let distance = bounds.squared_distance(score, fine_dot, row_bounds.fine_length);
                let distance_max = bounds.squared_distance_max(threshold);
                assert!(distance <= distance_max, "{spread}: {distance} > {distance_max}");
                clipped += usize::from(row_bounds.bias == QueryBounds::BIAS_OF_ALL);
                clipped_fine += usize::from(row_bounds.fine_length == UNKNOWN_LENGTH);
            }
        }
        assert!(clipped > 3_000 && clipped_fine > 3_000, "{clipped} {clipped_fine}");
    }
}
