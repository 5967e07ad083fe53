//! [`Encoder`]: codes of distinct rows.

use super::verdict::Verdict;
use crate::transform::{Projection, Quantizer, RowBounds, normalize_into};

/// Rows that are projected together: a multiple of every kernel's tile.
const ROWS_TOGETHER: usize = 48;

/// Squared norms for which f32 products neither overflow nor lose terms that matter.
const SAFE_SQUARED_NORMS: std::ops::Range<f64> = 1e-12..1e12;

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
        let squared_norms = || positions.iter().map(|&at| self.verdict.distinct.squared_norms[at]);
        let (width, kernels) = (self.projection.width(), self.verdict.kernels);
        let rows: Vec<&[f32]> = positions.iter().map(|&at| self.verdict.vector(at)).collect();
        if squared_norms().all(|norm| SAFE_SQUARED_NORMS.contains(&norm)) {
            self.projection.apply(&rows, width, kernels, &mut self.coordinates);
            for (coordinates, norm) in
                self.coordinates.chunks_exact_mut(width.max(1)).zip(squared_norms())
            {
                let scale = 1.0 / norm.sqrt();
                for coordinate in coordinates {
                    *coordinate = (f64::from(*coordinate) * scale) as f32;
                }
            }
        } else {
            self.units.clear();
            for (row, squared_norm) in rows.iter().zip(squared_norms()) {
                normalize_into(row, squared_norm, &mut self.unit);
                self.units.extend_from_slice(&self.unit);
            }
            let units: Vec<&[f32]> = self.units.chunks_exact(self.verdict.matrix.dim()).collect();
            self.projection.apply(&units, width, kernels, &mut self.coordinates);
        }
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
