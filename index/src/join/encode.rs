//! [`Encoder`]: codes of distinct rows.

use super::verdict::Verdict;
use crate::transform::{Projection, Quantizer, RowBounds, normalize_into};

/// Encodes rows one after the other, with memory that is used again.
pub(super) struct Encoder<'a> {
    verdict: &'a Verdict<'a>,
    projection: &'a Projection,
    quantizer: &'a Quantizer,
    unit: Vec<f32>,
    coordinates: Vec<f32>,
}

impl<'a> Encoder<'a> {
    pub(super) const fn new(
        verdict: &'a Verdict<'a>,
        projection: &'a Projection,
        quantizer: &'a Quantizer,
    ) -> Self {
        Self { verdict, projection, quantizer, unit: Vec::new(), coordinates: Vec::new() }
    }

    /// Appends the codes of the distinct row at `position` and returns its bounds, with `prefix` directions in
    /// the first test.
    pub(super) fn encode(
        &mut self,
        position: usize,
        prefix: usize,
        codes: &mut Vec<i8>,
    ) -> RowBounds {
        let squared_norm = self.verdict.distinct.squared_norms[position];
        normalize_into(self.verdict.vector(position), squared_norm, &mut self.unit);
        let width = self.projection.width();
        self.projection.apply(&self.unit, width, self.verdict.kernels, &mut self.coordinates);
        self.quantizer.encode(&self.coordinates, prefix, codes)
    }
}
