//! [`Encoder`]: codes of distinct rows.

use super::verdict::Verdict;
use crate::transform::{Projection, Quantizer, RowBounds, normalize_into};

/// Rows that are projected together.
const ROWS_TOGETHER: usize = 16;

/// Encodes rows, a few at a time, with memory that is used again.
pub(super) struct Encoder<'a> {
    verdict: &'a Verdict<'a>,
    projection: &'a Projection,
    units: Vec<f32>,
    unit: Vec<f32>,
    coordinates: Vec<f32>,
}

impl<'a> Encoder<'a> {
    pub(super) const fn new(verdict: &'a Verdict<'a>, projection: &'a Projection) -> Self {
        Self { verdict, projection, units: Vec::new(), unit: Vec::new(), coordinates: Vec::new() }
    }

    /// Returns all coordinates of the distinct rows at some positions, row by row.
    fn project(&mut self, positions: &[usize]) -> &[f32] {
        self.units.clear();
        for &position in positions {
            let squared_norm = self.verdict.distinct.squared_norms[position];
            normalize_into(self.verdict.vector(position), squared_norm, &mut self.unit);
            self.units.extend_from_slice(&self.unit);
        }
        let width = self.projection.width();
        self.projection.apply(&self.units, width, self.verdict.kernels, &mut self.coordinates);
        &self.coordinates
    }

    /// Appends the codes of these rows and their bounds, with `prefix` directions in the first test.
    pub(super) fn encode(
        &mut self,
        positions: &[usize],
        (quantizer, prefix): (&Quantizer, usize),
        codes: &mut Vec<i8>,
        bounds: &mut Vec<RowBounds>,
    ) {
        for positions in positions.chunks(ROWS_TOGETHER) {
            let width = self.projection.width();
            let coordinates = self.project(positions);
            for row in 0..positions.len() {
                let coordinates = &coordinates[row * width..(row + 1) * width];
                bounds.push(quantizer.encode(coordinates, prefix, codes));
            }
        }
    }
}
