//! The canonical similarity: the one that decides, is stored and is reported.
//!
//! `similarity = dot(x, y) / √(dot(x, x) · dot(y, y))`, clamped to \[−1, 1\], where `dot` is
//! defined so that every processor gives the same bits:
//!
//! * Each product of two f32 is formed in f64, where it is exact (24 + 24 ≤ 53 bits, and no product
//!   of finite f32 leaves the exponent range). So a fused multiply-add and a multiplication followed
//!   by an addition agree.
//! * Lane `k` of [`LANES`] sums the products of the elements `i` with `i % LANES == k`, in order,
//!   from +0. A tail shorter than [`LANES`] simply ends in fewer lanes.
//! * The lanes are summed by halving: lane `k` takes lane `k + 8`, then `k + 4`, `k + 2`, `k + 1`.
//!
//! One square root of the product of the norms, not two roots: √(n·n) = n in IEEE arithmetic, so
//! bit-equal vectors have similarity exactly 1. Norms and their product cannot overflow or vanish
//! in f64 for finite f32 of any length that fits in memory.

use crate::{Kernels, Similarity};

/// Partial sums of the canonical dot product.
pub const LANES: usize = 16;

/// Returns the canonical dot product: the definition, which kernels of every level repeat.
///
/// # Panics
/// When the lengths differ.
#[must_use]
pub fn dot(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len(), "vectors of different length");
    let mut lanes = [0.0; LANES];
    let ((a_chunks, a_tail), (b_chunks, b_tail)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        accumulate(&mut lanes, a, b);
    }
    finish(lanes, a_tail, b_tail)
}

/// Returns the canonical similarity of two vectors, or `None` where one of them is zero or not
/// finite.
///
/// Costs three dot products; with norms at hand use [`Kernels::similarity`].
///
/// # Panics
/// When the lengths differ.
#[must_use]
pub fn similarity(a: &[f32], b: &[f32]) -> Option<Similarity> {
    let kernels = Kernels::active();
    kernels.similarity(a, b, [kernels.dot(a, a), kernels.dot(b, b)])
}

/// Adds the tails to the lanes and sums the lanes.
#[inline]
pub(crate) fn finish(mut lanes: [f64; LANES], a_tail: &[f32], b_tail: &[f32]) -> f64 {
    accumulate(&mut lanes, a_tail, b_tail);
    reduce(lanes)
}

#[inline]
fn accumulate(lanes: &mut [f64; LANES], a: &[f32], b: &[f32]) {
    for ((lane, &a), &b) in lanes.iter_mut().zip(a).zip(b) {
        *lane += f64::from(a) * f64::from(b);
    }
}

#[inline]
fn reduce(mut lanes: [f64; LANES]) -> f64 {
    let mut half = LANES / 2;
    while half > 0 {
        let (low, high) = lanes.split_at_mut(half);
        for (low, high) in low.iter_mut().zip(high) {
            *low += *high;
        }
        half /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lanes_and_tree_are_as_documented() {
        let a: Vec<f32> = (0..37u8).map(|i| 1.0 + f32::from(i) * 1e-3).collect();
        let mut lanes = [0.0_f64; LANES];
        for (i, &x) in a.iter().enumerate() {
            lanes[i % LANES] += f64::from(x) * f64::from(x);
        }
        let eight: [f64; 8] = std::array::from_fn(|k| lanes[k] + lanes[k + 8]);
        let four: [f64; 4] = std::array::from_fn(|k| eight[k] + eight[k + 4]);
        let expected = (four[0] + four[2]) + (four[1] + four[3]);
        assert_eq!(dot(&a, &a).to_bits(), expected.to_bits());
    }

    #[test]
    fn zero_and_non_finite_vectors_have_no_similarity() {
        assert_eq!(similarity(&[0.0, -0.0], &[1.0, 2.0]), None);
        assert_eq!(similarity(&[], &[]), None);
        assert_eq!(similarity(&[f32::NAN, 1.0], &[1.0, 2.0]), None);
        assert_eq!(similarity(&[f32::INFINITY, 1.0], &[1.0, 2.0]), None);
    }

    #[test]
    fn extreme_magnitudes_neither_overflow_nor_vanish() {
        for x in [f32::MAX, f32::MIN_POSITIVE, f32::from_bits(1)] {
            assert_eq!(similarity(&[x, -x, x], &[x, -x, x]), Some(Similarity::ONE));
            assert_eq!(similarity(&[x, -x], &[-x, x]), Similarity::new(-1.0));
        }
    }

    proptest! {
        #[test]
        fn equal_vectors_have_similarity_one(a in prop::collection::vec(-1e30_f32..1e30, 1..200)) {
            prop_assume!(a.iter().any(|&x| x != 0.0));
            prop_assert_eq!(similarity(&a, &a), Some(Similarity::ONE));
        }

        #[test]
        fn similarity_is_symmetric(
            (a, b) in (1usize..200).prop_flat_map(|dim| {
                let vector = || prop::collection::vec(-1.0_f32..1.0, dim);
                (vector(), vector())
            }),
        ) {
            prop_assert_eq!(similarity(&a, &b), similarity(&b, &a));
        }
    }
}
