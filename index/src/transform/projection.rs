//! [`Projection`]: directions in which the vectors differ most.

use memfold_simd::{FloatPanel, Kernels};

use super::f32_dot_error;

/// Directions (rows of a matrix `P` in f32) with a proven bound on how much they stretch.
#[derive(Debug, Clone)]
pub struct Projection {
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
    #[must_use]
    pub const fn width(&self) -> usize {
        match &self.directions {
            Directions::Free(panel) => panel.len(),
            Directions::Axes { axes, .. } => axes.len(),
        }
    }

    /// Returns an upper bound of `‖P‖²`, for these and for the first few directions alike.
    #[must_use]
    pub const fn squared_norm_max(&self) -> f64 {
        self.squared_norm_max
    }

    /// Returns an upper bound of `|computed − P u|` over the first `width` coordinates of a unit vector.
    #[must_use]
    pub fn rounding_error(&self, width: usize) -> f64 {
        let dim = match &self.directions {
            Directions::Free(panel) => panel.dim(),
            Directions::Axes { dim, .. } => *dim,
        };
        f32_dot_error(dim) * (width as f64 * self.squared_norm_max).sqrt() + 1e-9
    }

    /// Writes the first `width` products of each row with a direction, row by row: the coordinates of unit
    /// vectors, and those of others times their length.
    pub fn apply(&self, rows: &[&[f32]], width: usize, kernels: &Kernels, products: &mut Vec<f32>) {
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
