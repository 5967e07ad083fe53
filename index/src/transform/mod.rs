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
//! alone. `b` is cut at [`quantizer::BIAS_LIMIT`], where every pair passes anyway.
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
//! in the middle of their rows make such sums frequent. Rows sorted by keys leave them out without looking at them.
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
//! with both rounded up. A row that breaks (6) all the same has the bias [`quantizer::BIAS_LIMIT`], with which it
//! always passes. Further coordinates have codes `p` with a smaller step `δ`, and errors `F` and `f` in place of `E` and
//! `e`. By the triangle inequality over all coordinates
//!
//! ```text
//! Δ² |q(u) − q(v)|² + δ² |p(u) − p(v)|² ≤ (s + √((E + e(v))² + (F + f(v))²))²                            (8)
//! ```
//!
//! whose first term follows from the score of (7). Rows that break (6) with `F` always pass this second test.
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

pub mod quantizer;
pub mod covariance;
pub mod prefix;

pub use covariance::Covariance;
pub(crate) use prefix::{FINE_CODES, PREFIX_CODES};
pub use prefix::{PrefixBounds, PrefixCodes, PrefixTransform, QueryBounds};
pub use quantizer::{Projection, Quantizer, RowBounds};

/// Covers the rounding of the canonical similarity in `2 − 2t`.
pub(crate) const SIMILARITY_SLACK: f64 = 1e-9;

/// Bounds the relative error of a dot product of `dim` terms in f32, in any order of additions.
#[must_use]
pub(crate) fn f32_dot_error(dim: usize) -> f64 {
    // 1.01 ≥ 1 / (1 − dim · 2⁻²⁴) up to dim = 65,536; two more terms for the operands' own rounding.
    (dim as f64 + 2.0) * (0.5 * f64::from(f32::EPSILON)) * 1.01
}

/// Appends `vector / √squared_norm`, computed in f64 and rounded once.
pub(crate) fn push_unit(vector: &[f32], squared_norm: f64, units: &mut Vec<f32>) {
    let norm = squared_norm.sqrt();
    units.extend(vector.iter().map(|&value| (f64::from(value) / norm) as f32));
}
