//! Projections that shrink vectors and int8 codes that never overstate a distance.
//!
//! # Why no pair is missed
//!
//! Let `u = x / |x|`, `v = y / |y|`, and let the canonical similarity of `x` and `y` be at least `t`.
//! The canonical sum of `dim ≤ 65,536` products in 16 lanes differs from the true cosine by less than
//! 1e-11, so with a slack of 1e-9
//!
//! ```text
//! |u − v|² = 2 − 2 cos ≤ 2 − 2t + 1e-9                                                            (1)
//! ```
//!
//! A [`Projection`] is a matrix `P`; its value in a point, after any translation `m` (which is how
//! centring enters), is `f(u) = P u − m`. No matrix stretches a difference by more than its norm:
//!
//! ```text
//! |f(u) − f(v)| = |P (u − v)| ≤ ‖P‖ |u − v| ≤ s,   s² = ‖P‖² (2 − 2t + 1e-9)                      (2)
//! ```
//!
//! `‖P‖²` is bounded by the largest absolute row sum of `P Pᵀ`, taken in f64 from the values as stored;
//! so `P` need be neither exactly orthogonal nor a true principal basis. That only decides how
//! many pairs pass.
//!
//! A [`Quantizer`] rounds `f(u)` to `Δ q(u)` with integers `q`, clipped to ±127, and measures for each
//! row the error `e(u) ≥ |f(u) − Δ q(u)|`, clipping included. By the triangle inequality
//!
//! ```text
//! Δ |q(u) − q(v)| ≤ s + e(u) + e(v) = A(u) + A(v),   A(u) = s/2 + e(u)                            (3)
//! ```
//!
//! and from `(A + B)² ≤ 2A² + 2B²`, which loses only `(A − B)²`,
//!
//! ```text
//! ⟨q(u), q(v)⟩ + b(u) + b(v) ≥ 0,   b(u) ≥ A(u)²/Δ² − |q(u)|²/2                                   (4)
//! ```
//!
//! with `b` rounded up to an integer: a sign test of integers, exact on every machine. A larger `b` only
//! lets more pairs pass. All of this holds for the first few coordinates as well, with the error of these
//! alone. `b` is cut at [`BIAS_LIMIT`], where every pair passes anyway.
//!
//! # Cells
//!
//! For any vector `W`, (3) and the Cauchy–Schwarz inequality give `⟨W, q(v) − q(u)⟩ ≤ |W| (A(u) + A(v)) / Δ`. Let
//! `a` and `b` be centroids of two cells, `u` in the one and `v` in the other, and `W = b − a`:
//!
//! ```text
//! k(u) + k(v) ≥ 0,   k(u) ≥ ⟨b − a, q(u)⟩ + |b − a| A(u)/Δ,   k(v) ≥ ⟨a − b, q(v)⟩ + |b − a| A(v)/Δ  (5)
//! ```
//!
//! with keys `k` rounded up to integers. Whatever the centroids are, pairs with a negative sum are far; centroids
//! in the middle of their rows make negative sums frequent. Rows sorted by keys leave them out without looking at them.
//!
//! # One bias for every threshold
//!
//! A flat index is scanned with any threshold, so its rows' biases must not know it. [`PrefixTransform`] has a step so large
//! that no row of the flat index is clipped: each of the `K` first coordinates is rounded by at most half a step, and
//!
//! ```text
//! e(u) ≤ (√K / 2 + 1e-3) Δ = E                                                                     (6)
//! ```
//!
//! A query is measured, clipping included. From the first part of (3)
//!
//! ```text
//! ⟨q(u), q(v)⟩ + b(u) + b(v) ≥ 0,   b(u) ≥ −|q(u)|²/2,   b(v) ≥ ((s + E + e(v))²/Δ² − |q(v)|²)/2        (7)
//! ```
//!
//! with both rounded up. A row that breaks (6) all the same has the bias [`BIAS_LIMIT`], with which it
//! always passes. Further coordinates have codes `p` with a smaller step `δ`, and errors `F` and `f` in place of `E` and
//! `e`. By the triangle inequality over all coordinates
//!
//! ```text
//! Δ² |q(u) − q(v)|² + δ² |p(u) − p(v)|² ≤ (s + √((E + e(v))² + (F + f(v))²))²                            (8)
//! ```
//!
//! and the first term follows from the score of (7). Rows that break (6) with `F` always pass this second test.
//!
//! # Codes of 7 bits
//!
//! All of this holds for any step and any largest code, so the first test may have codes of its own. With codes of at most
//! 63 and `|q|² < 2¹⁴` a score fits 16 bits, of which AVX2 compares twice as many in one instruction; the step is at least twice as large, and
//! more pairs pass. A row that would be longer has zeros as codes, and all of it as error.
//!
//! # Rounding
//!
//! Coordinates come from f32 dot products. In any order of additions, fused or not, their error is at most
//! `γ |P_k| |x|` with `γ = dim · 2⁻²⁴ / (1 − dim · 2⁻²⁴)`; storing `x / |x|` as f32 before, or the product
//! divided by `|x|` after, adds `2⁻²⁴ |P_k|`. The norm of
//! these errors over all coordinates, plus 1e-9 for underflow and the f64 arithmetic of (3), is
//! [`Projection::rounding_error`] and is part of `e(u)`. The f64 arithmetic of (4) is exact to 1e-6
//! below the cut, and 1e-3 is added. The products of (5) are taken in f32 with both factors raised by 1e-6, and 2 is
//! added for their rounding and for the cut to an integer.
//!
//! Coordinates of a [`PrefixTransform`] are canonical dot products in f64, divided by `|x|`: off by less than 1e-10 in
//! all, which is added to each error, and the same bits on every machine, as is all that follows from them.

mod covariance;
mod prefix;

use memfold_simd::panel::{I7_CODE_MAX, I7_SQUARED_LENGTH_MAX};
use memfold_simd::{FloatPanel, Kernels};

pub(crate) use covariance::{Covariance, LearnedDirections, Products};
pub(crate) use prefix::{FINE_CODES, PREFIX_CODES, PrefixCodes, PrefixTransform, QueryBounds};

/// Covers the rounding of the canonical similarity in `2 − 2t`.
pub(crate) const SIMILARITY_SLACK: f64 = 1e-9;

/// Bounds the relative error of a dot product of `dim` terms in f32, in any order of additions.
pub(crate) fn f32_dot_error(dim: usize) -> f64 {
    // 1.01 ≥ 1 / (1 − dim · 2⁻²⁴) up to dim = 65,536; two more terms for the operands' own rounding.
    (dim as f64 + 2.0) * (0.5 * f64::from(f32::EPSILON)) * 1.01
}

/// Appends `vector / √squared_norm`, computed in f64 and rounded once.
pub(crate) fn push_unit(vector: &[f32], squared_norm: f64, units: &mut Vec<f32>) {
    let norm = squared_norm.sqrt();
    units.extend(vector.iter().map(|&value| (f64::from(value) / norm) as f32));
}

/// The largest magnitude of a bias; see [`Quantizer::encode`].
pub(crate) const BIAS_LIMIT: f64 = 268_435_456.0;

/// The most coordinates for which [`BIAS_LIMIT`] exceeds every negative part of a score.
pub(crate) const WIDTH_MAX: usize = 8_192;

/// The sample's range is widened by this share, so that few other rows are clipped.
const RANGE_MARGIN: f64 = 0.02;

/// The largest code.
pub(crate) const CODE_MAX: f64 = 127.0;

/// Rounds a small number to an integer by leaving no room for a fraction: far cheaper than a call on
/// processors without a rounding instruction.
pub(crate) const NO_FRACTION: f64 = 6_755_399_441_055_744.0;

/// Rounds a coordinate in steps to a code within ±`code_max`; returns it as it is stored, and as a number.
#[inline]
pub(crate) fn quantize(scaled: f64, code_max: f64) -> (i8, f64) {
    let sum = scaled.clamp(-code_max, code_max) + NO_FRACTION;
    // The lowest bits of the sum are the code's.
    (sum.to_bits() as i8, sum - NO_FRACTION)
}

/// The least and greatest value of each coordinate of some rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CoordinateRanges(Vec<(f64, f64)>);

impl CoordinateRanges {
    /// Returns the ranges of no rows.
    pub(crate) fn none(width: usize) -> Self {
        Self(vec![(f64::INFINITY, f64::NEG_INFINITY); width])
    }

    /// Widens the ranges of the first coordinates by a row; further ones are not computed.
    pub(crate) fn widen(&mut self, coordinates: impl Iterator<Item = f64>) {
        for ((low, high), value) in self.0.iter_mut().zip(coordinates) {
            (*low, *high) = (low.min(value), high.max(value));
        }
    }

    /// Returns the ranges of these rows and others, of which the first coordinates may suffice.
    pub(crate) fn joined(mut self, other: &Self) -> Self {
        for ((low, high), other) in self.0.iter_mut().zip(&other.0) {
            (*low, *high) = (low.min(other.0), high.max(other.1));
        }
        self
    }

    /// Returns lowest and highest values, infinite for coordinates of no rows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (f64, f64)> {
        self.0.iter().copied()
    }

    /// Returns the middle of each range; 0 where there were no rows.
    pub(crate) fn middles(&self) -> impl Iterator<Item = f64> {
        self.iter().map(|(low, high)| if low <= high { (low + high) / 2.0 } else { 0.0 })
    }
}

/// Coordinates that are encoded side by side.
const LANES: usize = 8;

/// Turns coordinates into int8 codes with one global step, and into a bias for the sign test.
#[derive(Debug, Clone)]
pub(crate) struct Quantizer {
    /// The translation `m`: the middle of each coordinate's range.
    middles: Vec<f64>,
    /// The step `Δ`.
    step: f64,
    size: CodeSize,
    /// `s / 2` plus the rounding error of coordinates.
    reach: f64,
}

/// How large codes may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeSize {
    /// The largest magnitude of a code.
    max: f64,
    /// The largest sum of squares of a row's codes; a longer row has zeros.
    squared_length_max: f64,
}

impl CodeSize {
    /// All that int8 holds.
    pub(crate) const I8: Self = Self { max: CODE_MAX, squared_length_max: f64::INFINITY };
    /// As [`Kernels::hits_i7`] takes them: the step is at least twice as large, and the test as much weaker as the
    /// rounding demands.
    pub(crate) const I7: Self =
        Self { max: I7_CODE_MAX as f64, squared_length_max: I7_SQUARED_LENGTH_MAX as f64 };
}

/// Bounds of a row for the tests, beside its codes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RowBounds {
    /// The bias of the sign test over the first codes.
    pub(crate) prefix_bias: i32,
    /// The bias of the sign test over all codes.
    pub(crate) bias: i32,
    /// `A / Δ`: two near rows' codes differ by no more than the sum of their allowances.
    pub(crate) allowance: f64,
}

impl Quantizer {
    /// Fits the first `width` coordinates of a sample of rows of `projection.width()` coordinates, for a
    /// test of similarity ≥ `threshold`.
    ///
    /// # Panics
    /// When `width` is larger than the projection's or than 8,192 components.
    pub(crate) fn fit(
        projection: &Projection,
        width: usize,
        size: CodeSize,
        coordinates: &[f32],
        threshold: f64,
    ) -> Self {
        assert!(width <= projection.width() && width <= WIDTH_MAX, "{width} coordinates");
        let mut ranges = CoordinateRanges::none(width);
        for row in coordinates.chunks_exact(projection.width().max(1)) {
            ranges.widen(row.iter().map(|&value| value.into()));
        }
        let halves =
            ranges.iter().filter(|(low, high)| low <= high).map(|(low, high)| (high - low) / 2.0);
        let half = halves.fold(0.0, f64::max);
        let distance_max =
            (projection.squared_norm_max() * (2.0 - 2.0 * threshold + SIMILARITY_SLACK)).sqrt();
        let middles: Vec<f64> = ranges.middles().collect();
        let squared_length =
            |row: &[f32]| row.iter().zip(&middles).map(|(x, m)| (f64::from(*x) - m).powi(2)).sum();
        let rows = coordinates.chunks_exact(projection.width().max(1));
        let longest = rows.map(squared_length).fold(0.0, f64::max).sqrt();
        let step = (half / size.max).max(longest / size.squared_length_max.sqrt());
        let step = step * (1.0 + RANGE_MARGIN);
        Self {
            middles,
            size,
            // Without a range every code is 0 and every pair passes.
            step: if step > 1e-12 { step } else { 1.0 },
            reach: distance_max / 2.0 + projection.rounding_error(width),
        }
    }

    /// Returns the codes of each row: the width, rounded up to a multiple of 4, at least 4.
    pub(crate) fn dim(&self) -> usize {
        self.middles.len().next_multiple_of(4).max(4)
    }

    /// Appends [`dim`](Self::dim) codes for one row's coordinates (further ones are ignored) and returns the
    /// bounds for tests of all of them and of the first `prefix`.
    ///
    /// Two rows within reach have `Σ code · code + bias + bias ≥ 0`, over the prefix as over all. At the
    /// limit a bias exceeds `127² · WIDTH_MAX · 3 / 2`, more than the rest of a score can take away.
    pub(crate) fn encode(
        &self,
        coordinates: &[f32],
        prefix: usize,
        codes: &mut Vec<i8>,
    ) -> RowBounds {
        let (width, start) = (self.middles.len(), codes.len());
        codes.resize(start + self.dim(), 0);
        let (first, rest) = codes[start..start + width].split_at_mut(prefix.min(width));
        let whole = coordinates;
        let (coordinates, more) = coordinates[..width].split_at(first.len());
        let (middles, more_middles) = self.middles.split_at(first.len());
        let mut first = self.encode_part(coordinates, middles, first);
        let mut all = first.plus(self.encode_part(more, more_middles, rest));
        if all.squared_length > self.size.squared_length_max {
            codes[start..].fill(0);
            all = self.of_zeros(whole);
            first = all;
        }
        RowBounds {
            prefix_bias: self.bias(&first),
            bias: self.bias(&all),
            allowance: self.allowance(&all),
        }
    }

    /// The sums of a row with zeros as codes.
    fn of_zeros(&self, coordinates: &[f32]) -> Sums {
        let moved = coordinates.iter().zip(&self.middles).map(|(x, middle)| f64::from(*x) - middle);
        Sums { squared_error: moved.map(|x| x * x).sum(), squared_length: 0.0 }
    }

    /// Lanes add up apart, so that the compiler may use registers of any width.
    fn encode_part(&self, coordinates: &[f32], middles: &[f64], codes: &mut [i8]) -> Sums {
        let (inverse_step, code_max) = (1.0 / self.step, self.size.max);
        let mut lanes = [Sums::default(); LANES];
        let chunks = coordinates.chunks(LANES).zip(middles.chunks(LANES));
        for ((coordinates, middles), codes) in chunks.zip(codes.chunks_mut(LANES)) {
            let values = coordinates.iter().zip(middles).zip(codes);
            for (((&coordinate, middle), to), sums) in values.zip(&mut lanes) {
                let moved = f64::from(coordinate) - middle;
                let code;
                (*to, code) = quantize(moved * inverse_step, code_max);
                let error = moved - code * self.step;
                sums.squared_error += error * error;
                sums.squared_length += code * code;
            }
        }
        lanes.into_iter().fold(Sums::default(), Sums::plus)
    }

    fn allowance(&self, sums: &Sums) -> f64 {
        (self.reach + sums.squared_error.sqrt() * (1.0 + 1e-9)) / self.step
    }

    fn bias(&self, sums: &Sums) -> i32 {
        let allowance = self.allowance(sums);
        let bias = (allowance * allowance - sums.squared_length / 2.0 + 1e-3).ceil();
        bias.clamp(-BIAS_LIMIT, BIAS_LIMIT) as i32
    }
}

/// Sums over the coordinates of a row.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    squared_error: f64,
    squared_length: f64,
}

impl Sums {
    fn plus(self, other: Self) -> Self {
        Self {
            squared_error: self.squared_error + other.squared_error,
            squared_length: self.squared_length + other.squared_length,
        }
    }
}

/// Directions (rows of a matrix `P` in f32) with a proven bound on how much they stretch.
#[derive(Debug, Clone)]
pub(crate) struct Projection {
    directions: Directions,
    squared_norm_max: f64,
}

#[derive(Debug, Clone)]
enum Directions {
    /// Any vectors.
    Free(FloatPanel),
    /// Coordinates as they are, of rows of `dim` values.
    Axes { axes: Vec<usize>, dim: usize },
}

impl Projection {
    /// Takes directions as they are, `dim` values each.
    pub(super) fn from_directions(directions: &[f32], dim: usize, kernels: &Kernels) -> Self {
        Self {
            directions: Directions::Free(FloatPanel::pack(directions, dim)),
            squared_norm_max: squared_norm_max(directions, dim, kernels),
        }
    }

    /// Takes different coordinates of rows of `dim` values.
    pub(super) const fn from_axes(axes: Vec<usize>, dim: usize) -> Self {
        Self { directions: Directions::Axes { axes, dim }, squared_norm_max: 1.0 }
    }

    /// Returns the number of directions.
    pub(crate) const fn width(&self) -> usize {
        match &self.directions {
            Directions::Free(panel) => panel.len(),
            Directions::Axes { axes, .. } => axes.len(),
        }
    }

    /// Returns an upper bound of `‖P‖²`, for these and for the first few directions alike.
    pub(crate) const fn squared_norm_max(&self) -> f64 {
        self.squared_norm_max
    }

    /// Returns an upper bound of `|computed − P u|` over the first `width` coordinates of a unit vector.
    pub(crate) fn rounding_error(&self, width: usize) -> f64 {
        let dim = match &self.directions {
            Directions::Free(panel) => panel.dim(),
            Directions::Axes { dim, .. } => *dim,
        };
        f32_dot_error(dim) * (width as f64 * self.squared_norm_max).sqrt() + 1e-9
    }

    /// Writes the first `width` products of each row with a direction, row by row: the coordinates of unit
    /// vectors, or of others times their length.
    pub(crate) fn apply(
        &self,
        rows: &[&[f32]],
        width: usize,
        kernels: &Kernels,
        products: &mut Vec<f32>,
    ) {
        products.clear();
        match &self.directions {
            Directions::Free(panel) => kernels.products_f32(rows, panel, width, products),
            Directions::Axes { axes, .. } => {
                let axes = &axes[..width];
                products.extend(rows.iter().flat_map(|row| axes.iter().map(|&at| row[at])));
            }
        }
    }
}

/// Returns an upper bound of `‖P‖²` for directions of `dim` values each, the same bits on every level.
pub(super) fn squared_norm_max(directions: &[f32], dim: usize, kernels: &Kernels) -> f64 {
    let rows = || directions.chunks_exact(dim);
    let sums = rows().map(|a| rows().map(|b| kernels.dot(a, b).abs()).sum::<f64>());
    // The sums are of exact products in f64.
    sums.fold(0.0, f64::max) * (1.0 + 1e-9)
}

#[cfg(test)]
mod tests {
    use memfold_simd::Kernels;
    use proptest::prelude::*;

    use super::*;
    use crate::testing::pool;

    const DIM: usize = 10;

    fn units(values: &[f32]) -> Vec<f32> {
        let mut units = Vec::new();
        for vector in values.chunks_exact(DIM) {
            push_unit(vector, Kernels::active().dot(vector, vector).max(1e-30), &mut units);
        }
        units
    }

    proptest! {
        #[test]
        fn pairs_at_the_threshold_pass(
            values in prop::collection::vec(-1.0_f32..1.0, DIM * 12),
            sampled in 1_usize..12,
            width in 1_usize..=DIM,
            prefix in 1_usize..=DIM,
            on_axes: bool,
        ) {
            let kernels = Kernels::active();
            let units = units(&values);
            let rows: Vec<_> = units.chunks_exact(DIM).collect();
            let pool = pool(2);
            let covariance = Covariance::of(Products::Fast, &units[..sampled * DIM], DIM, &pool, kernels);
            let projection =
                if on_axes { covariance.axes(width) } else { covariance.leading(width, &pool, kernels) };
            let width = projection.width();
            let mut sample = Vec::new();
            let mut coordinates = Vec::new();
            for row in &rows[..sampled] {
                projection.apply(&[*row], width, kernels, &mut coordinates);
                sample.extend_from_slice(&coordinates);
            }
            for pair in rows.windows(2) {
                let cosine = kernels.dot(pair[0], pair[1]).clamp(-1.0, 1.0);
                let i7 = Quantizer::fit(&projection, width, CodeSize::I7, &sample, cosine);
                let (mut codes, mut biases) = (Vec::new(), 0);
                for row in pair {
                    projection.apply(&[*row], width, kernels, &mut coordinates);
                    biases += i7.encode(&coordinates, 0, &mut codes).bias;
                }
                let (left, right) = codes.split_at(i7.dim());
                for codes in [left, right] {
                    prop_assert!(codes.iter().all(|code| code.abs() <= I7_CODE_MAX));
                    prop_assert!(kernels.dot_i8(codes, codes) <= I7_SQUARED_LENGTH_MAX);
                }
                prop_assert!(kernels.dot_i8(left, right) + biases >= 0);
                let quantizer = Quantizer::fit(&projection, width, CodeSize::I8, &sample, cosine);
                let mut codes = Vec::new();
                let mut bounds = Vec::new();
                for row in pair {
                    projection.apply(&[*row], width, kernels, &mut coordinates);
                    bounds.push(quantizer.encode(&coordinates, prefix, &mut codes));
                }
                let (left, right) = codes.split_at(quantizer.dim());
                let bias = bounds[0].bias + bounds[1].bias;
                prop_assert!(kernels.dot_i8(left, right) + bias >= 0);
                let bias = bounds[0].prefix_bias + bounds[1].prefix_bias;
                let prefix = prefix.min(quantizer.dim());
                prop_assert!(kernels.dot_i8(&left[..prefix], &right[..prefix]) + bias >= 0);
                let difference = left.iter().zip(right).map(|(a, b)| f64::from(*a) - f64::from(*b));
                let distance = difference.map(|x| x * x).sum::<f64>().sqrt();
                prop_assert!(distance <= bounds[0].allowance + bounds[1].allowance);
            }
        }
    }
}
