//! [`Rerank`]: the last test of a pair, by the canonical similarity, which alone decides.

use std::ops::Range;

use memfold_simd::{Kernels, Similarity};

use super::Pair;
use crate::VectorMatrix;
use crate::distinct::DistinctRows;
use crate::transform::f32_dot_error;

/// Squared norms for which an f32 dot product neither overflows nor loses terms that matter.
const SAFE_SQUARED_NORMS: Range<f64> = 1e-20..1e30;

/// Compares distinct rows, named by their position among the distinct ones, by the canonical similarity.
#[derive(Clone, Copy)]
pub(super) struct Rerank<'a> {
    pub(super) matrix: &'a VectorMatrix<'a>,
    pub(super) distinct: &'a DistinctRows,
    pub(super) kernels: &'static Kernels,
    pub(super) threshold: Similarity,
}

impl<'a> Rerank<'a> {
    /// Returns the vector of a distinct row.
    pub(super) fn vector(&self, position: usize) -> &'a [f32] {
        self.matrix.vector(self.distinct.rows[position])
    }

    /// Returns the vectors of some distinct rows, without a copy.
    pub(super) fn vectors(&self, positions: impl Iterator<Item = usize>) -> VectorMatrix<'a> {
        let rows = positions.map(|position| self.vector(position)).collect();
        VectorMatrix::from_chunks(rows, self.matrix.dim()).expect("chunks of one row each")
    }

    /// Returns the canonical similarity; distinct rows have norms above zero, so there is one.
    pub(super) fn similarity(&self, left: usize, right: usize) -> Option<Similarity> {
        let norms = [self.distinct.squared_norms[left], self.distinct.squared_norms[right]];
        self.kernels.similarity(self.vector(left), self.vector(right), norms)
    }

    /// Returns the pair if its canonical similarity is at or above the threshold.
    pub(super) fn pair(&self, left: usize, right: usize) -> Option<Pair> {
        if self.is_certainly_far(left, right) {
            return None;
        }
        let similarity = self.similarity(left, right).filter(|found| *found >= self.threshold)?;
        Some(Pair { left: self.distinct.rows[left], right: self.distinct.rows[right], similarity })
    }

    /// Tells by a fast product whether the pair is certainly below the threshold.
    fn is_certainly_far(&self, left: usize, right: usize) -> bool {
        let norms = [self.distinct.squared_norms[left], self.distinct.squared_norms[right]];
        if !norms.iter().all(|norm| SAFE_SQUARED_NORMS.contains(norm)) {
            return false;
        }
        let fast = f64::from(self.kernels.dot_f32(self.vector(left), self.vector(right)));
        // 1e-6 covers underflow of terms beside norms of at least 1e-10, and all f64 rounding.
        let slack = f32_dot_error(self.matrix.dim()) + 1e-6;
        fast < (self.threshold.get() - slack) * (norms[0] * norms[1]).sqrt()
    }
}
