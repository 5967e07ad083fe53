//! simsimd behind our types: pair kernels for element types where no bit contract holds, and the
//! yardstick for ours.
//!
//! The only file that names the crate. Its kernels choose their own instruction set, sum in their
//! own order and approximate square roots: results here never decide, are never stored and differ
//! between machines in their last digits. What simsimd calls `cos` is a *distance*; here it is a
//! [`Similarity`], larger is nearer.

use ::simsimd::SpatialSimilarity;

pub use ::simsimd::{bf16 as Bf16, f16 as F16};

use crate::Similarity;

/// An element type that simsimd has pair kernels for.
pub trait Element: SpatialSimilarity + private::Sealed {}

impl Element for f32 {}
impl Element for F16 {}
impl Element for Bf16 {}
impl Element for i8 {}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for super::F16 {}
    impl Sealed for super::Bf16 {}
    impl Sealed for i8 {}
}

/// Returns the dot product, to about the precision of the element type.
///
/// # Panics
/// When the lengths differ.
#[must_use]
pub fn dot<T: Element>(a: &[T], b: &[T]) -> f64 {
    T::dot(a, b).expect("vectors of different length")
}

/// Returns the cosine similarity, to about the precision of the element type; `None` where it is
/// not a number.
///
/// A zero vector has similarity 1 to a zero vector and 0 to others, unlike the canonical similarity,
/// which has none.
///
/// # Panics
/// When the lengths differ.
#[must_use]
pub fn similarity<T: Element>(a: &[T], b: &[T]) -> Option<Similarity> {
    Similarity::clamped(1.0 - T::cos(a, b).expect("vectors of different length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearer_is_larger_for_every_type() {
        fn check<T: Element>(of: impl Fn(i8) -> T) {
            let vector = |values: [i8; 4]| values.map(&of);
            let (a, near, far) =
                (vector([3, 4, 0, 1]), vector([3, 5, 0, 1]), vector([-3, -4, 0, -1]));
            let one = similarity(&a, &a).unwrap().get();
            let near = similarity(&a, &near).unwrap().get();
            let opposite = similarity(&a, &far).unwrap().get();
            assert!((one - 1.0).abs() < 1e-2, "{one}");
            assert!(near > 0.9 && near < one, "{near}");
            assert!((opposite + 1.0).abs() < 1e-2, "{opposite}");
            assert!((dot(&a, &a) - 26.0).abs() < 0.3);
        }
        check(f32::from);
        check(|x| F16::from_f32(f32::from(x)));
        check(|x| Bf16::from_f32(f32::from(x)));
        check(|x| x);
    }

    #[test]
    fn agrees_with_the_canonical_similarity() {
        let a: Vec<f32> = (0..384u16).map(|i| f32::from(i % 17) - 8.0).collect();
        let b: Vec<f32> = (0..384u16).map(|i| f32::from(i % 13) - 5.0).collect();
        let ours = crate::canonical::similarity(&a, &b).unwrap().get();
        assert!((similarity(&a, &b).unwrap().get() - ours).abs() < 1e-4);
    }
}
