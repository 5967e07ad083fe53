//! [`Covariance`]: in which directions a sample of vectors differs most.

use memfold_simd::{FloatPanel, Kernels};

use super::{CODE_MAX, CoordinateRanges, FINE_CODES, PREFIX_CODES, Projection, squared_norm_max};
use crate::Pool;

/// Coordinates that take part in learning; further ones of very long vectors are left out.
const LEARNED_DIM_MAX: usize = 4_096;

/// Bounds the multiplications for the covariance, so that long vectors learn from fewer rows.
const COVARIANCE_COST_MAX: usize = 16_000_000_000;

/// Rounds of subspace iteration: the leading directions separate well before, and an imperfect basis
/// costs survivors, never pairs.
const ITERATIONS: usize = 5;

/// Columns that a task takes.
const COLUMNS_TOGETHER: usize = 48;

/// Directions that a task turns.
const DIRECTIONS_TOGETHER: usize = 24;

/// A direction shorter than this share of its former length is rounding noise.
const NOISE: f32 = 1e-4;

/// How the coordinates of a sample vary together.
#[derive(Debug)]
pub(crate) struct Covariance {
    /// Symmetric, one row for each coordinate that takes part.
    matrix: Vec<f32>,
    picked: Vec<usize>,
    dim: usize,
    products: Products,
}

/// How products of many vectors are taken.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Products {
    /// By the fastest kernels; the last bits depend on the level.
    Fast,
    /// By the canonical dot product: the same bytes everywhere, at about a tenth of the speed.
    Canonical,
}

impl Covariance {
    /// Takes `units`, a sample of rows of `dim` values.
    ///
    /// Cost: about `rows · dim² / 2` multiplications, bounded.
    pub(crate) fn of(
        products: Products,
        units: &[f32],
        dim: usize,
        pool: &Pool,
        kernels: &Kernels,
    ) -> Self {
        let count = dim.min(LEARNED_DIM_MAX);
        let picked: Vec<usize> = (0..count).map(|k| k * dim / count).collect();
        let row_limit = (COVARIANCE_COST_MAX / (picked.len() * picked.len())).max(256);
        let row_count = (units.len() / dim).min(row_limit);
        let columns = centered_columns(&units[..row_count * dim], dim, &picked, pool);
        let matrix = products.of_all(&columns, row_count, pool, kernels);
        Self { matrix, picked, dim, products }
    }

    /// Returns a projection on up to `width` principal directions, strongest first.
    ///
    /// Any sample gives a sound projection; a good one keeps near and far apart. Cost: about
    /// `width · dim² · 5 + width² · dim · 6` multiplications.
    pub(crate) fn leading(&self, width: usize, pool: &Pool, kernels: &Kernels) -> Projection {
        let directions = self.leading_directions(width, pool, kernels);
        Projection::from_directions(&directions, self.dim, kernels)
    }

    /// Returns the directions themselves, orthonormal, one after the other: by subspace iteration.
    pub(crate) fn leading_directions(
        &self,
        width: usize,
        pool: &Pool,
        kernels: &Kernels,
    ) -> Vec<f32> {
        let count = self.picked.len();
        if self.matrix.is_empty() {
            return Vec::new();
        }
        let mut leading: Vec<Vec<f32>> = (0..width.min(count))
            .map(|k| (0..count).map(|at| hashed((k * count + at) as u64)).collect())
            .collect();
        // The matrix is symmetric: its rows are its columns.
        let panel = self.products.panel(&self.matrix, count);
        let columns: Vec<&[f32]> = self.matrix.chunks_exact(count).collect();
        for _ in 0..ITERATIONS {
            let parts: Vec<&[Vec<f32>]> = leading.chunks(DIRECTIONS_TOGETHER).collect();
            let turned = pool.map(parts.len(), |part| {
                let rows: Vec<&[f32]> = parts[part].iter().map(Vec::as_slice).collect();
                let products = self.products.of_rows(&rows, &columns, panel.as_ref(), kernels);
                products.chunks_exact(count).map(<[f32]>::to_vec).collect::<Vec<_>>()
            });
            leading = orthonormalize(turned.concat(), kernels);
        }
        // Once more, without the rounding errors along the others.
        let leading = orthonormalize(leading, kernels);
        let mut directions = vec![0.0; leading.len() * self.dim];
        for (to, from) in directions.chunks_exact_mut(self.dim).zip(leading) {
            for (&at, value) in self.picked.iter().zip(from) {
                to[at] = value;
            }
        }
        directions
    }

    /// Returns a projection on the `width` coordinates that vary most: no worse than principal directions where
    /// all directions are alike, and for nothing.
    pub(crate) fn axes(&self, width: usize) -> Projection {
        let count = self.picked.len();
        let mut strongest: Vec<usize> = (0..count.min(self.matrix.len())).collect();
        let variance = |at: usize| self.matrix[at * count + at];
        strongest.sort_by(|&a, &b| variance(b).total_cmp(&variance(a)).then(a.cmp(&b)));
        strongest.truncate(width);
        let axes = strongest.into_iter().map(|at| self.picked[at]).collect();
        Projection::from_axes(axes, self.dim)
    }
}

/// Returns the picked columns, each without its mean, one after the other.
fn centered_columns(units: &[f32], dim: usize, picked: &[usize], pool: &Pool) -> Vec<f32> {
    let row_count = units.len() / dim;
    let parts: Vec<&[usize]> = picked.chunks(COLUMNS_TOGETHER).collect();
    let columns = pool.map(parts.len(), |part| {
        let part = parts[part];
        let mut columns = vec![0.0_f32; part.len() * row_count];
        // A row's values lie together: they are read once for all these columns.
        for (at, row) in units.chunks_exact(dim).enumerate() {
            for (to, &from) in columns[at..].iter_mut().step_by(row_count).zip(part) {
                *to = row[from];
            }
        }
        for column in columns.chunks_exact_mut(row_count.max(1)) {
            let sum: f64 = column.iter().map(|&value| f64::from(value)).sum();
            let mean = sum / row_count as f64;
            for value in column {
                *value = (f64::from(*value) - mean) as f32;
            }
        }
        columns
    });
    columns.concat()
}

impl Products {
    /// Returns the symmetric matrix of all dot products of columns of `row_count` values.
    fn of_all(self, columns: &[f32], row_count: usize, pool: &Pool, kernels: &Kernels) -> Vec<f32> {
        if row_count == 0 {
            return Vec::new();
        }
        let panel = self.panel(columns, row_count);
        let columns: Vec<&[f32]> = columns.chunks_exact(row_count).collect();
        let width = columns.len();
        let lower = pool.map(width.div_ceil(COLUMNS_TOGETHER), |part| {
            let end = width.min((part + 1) * COLUMNS_TOGETHER);
            let rows = &columns[part * COLUMNS_TOGETHER..end];
            self.of_rows(rows, &columns[..end], panel.as_ref(), kernels)
        });
        let mut matrix = vec![0.0; width * width];
        for (part, products) in lower.iter().enumerate() {
            let start = part * COLUMNS_TOGETHER;
            let end = width.min(start + COLUMNS_TOGETHER);
            for (i, row) in (start..end).zip(products.chunks_exact(end)) {
                for (j, &value) in row[..=i].iter().enumerate() {
                    matrix[i * width + j] = value;
                    matrix[j * width + i] = value;
                }
            }
        }
        matrix
    }

    /// Packs columns for fast kernels.
    fn panel(self, columns: &[f32], dim: usize) -> Option<FloatPanel> {
        matches!(self, Self::Fast).then(|| FloatPanel::pack(columns, dim))
    }

    /// Returns the product of each row with each of the columns, which are the panel's first, row by row.
    fn of_rows(
        self,
        rows: &[&[f32]],
        columns: &[&[f32]],
        panel: Option<&FloatPanel>,
        kernels: &Kernels,
    ) -> Vec<f32> {
        let mut products = Vec::with_capacity(rows.len() * columns.len());
        match panel {
            Some(panel) => kernels.products_f32(rows, panel, columns.len(), &mut products),
            None => products.extend(
                rows.iter()
                    .flat_map(|row| columns.iter().map(|column| kernels.dot(row, column) as f32)),
            ),
        }
        products
    }
}

/// Gram–Schmidt in the given order; directions without a part of their own are dropped.
fn orthonormalize(directions: Vec<Vec<f32>>, kernels: &Kernels) -> Vec<Vec<f32>> {
    let mut kept: Vec<Vec<f32>> = Vec::with_capacity(directions.len());
    for mut direction in directions {
        let norm_before = kernels.dot(&direction, &direction).sqrt();
        scale(&mut direction, 1.0 / norm_before);
        for other in &kept {
            let share = kernels.dot(&direction, other) as f32;
            for (value, along) in direction.iter_mut().zip(other) {
                *value -= share * along;
            }
        }
        let norm = kernels.dot(&direction, &direction).sqrt();
        // Also false for NaN, which a covariance of zeros leads to.
        if norm > f64::from(NOISE) {
            scale(&mut direction, 1.0 / norm);
            kept.push(direction);
        }
    }
    kept
}

fn scale(direction: &mut [f32], factor: f64) {
    for value in direction {
        *value = (f64::from(*value) * factor) as f32;
    }
}

/// Returns a value in \[−1, 1), spread evenly (splitmix64).
fn hashed(position: u64) -> f32 {
    let mut bits = position.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((bits ^ (bits >> 31)) >> 40) as f32 / 8_388_608.0 - 1.0
}

/// A smaller step would tell rows apart by their rounding.
const STEP_MIN: f64 = 1e-6;

/// The sample's range of fine coordinates is widened by this, so that few other rows are clipped.
const FINE_MARGIN: f64 = 1.25;

/// Bounds are raised by this before they are rounded to f32.
const ROUNDED_UP: f64 = 1.0 + 1e-6;

/// Directions without middles and steps.
#[derive(Debug)]
pub(crate) struct LearnedDirections {
    directions: Vec<f32>,
    dim: usize,
}

impl LearnedDirections {
    /// Learns directions from a sample of rows of `dim` values and length 1, and the ranges of its coordinates; the same
    /// bytes on every machine.
    pub(crate) fn of(
        units: &[f32],
        dim: usize,
        pool: &Pool,
        kernels: &Kernels,
    ) -> (Self, CoordinateRanges) {
        let covariance = Covariance::of(Products::Canonical, units, dim, pool, kernels);
        let width = PREFIX_CODES + FINE_CODES;
        let learned = Self { directions: covariance.leading_directions(width, pool, kernels), dim };
        let mut sampled = CoordinateRanges::none(width);
        for unit in units.chunks_exact(dim) {
            learned.widen(&mut sampled, unit, 1.0, kernels);
        }
        (learned, sampled)
    }

    /// Widens the ranges of the first coordinates by a row and its squared norm.
    pub(crate) fn widen(
        &self,
        ranges: &mut CoordinateRanges,
        row: &[f32],
        squared_norm: f64,
        kernels: &Kernels,
    ) {
        let norm = squared_norm.sqrt();
        let directions = self.directions.chunks_exact(self.dim);
        ranges.widen(directions.map(|direction| kernels.dot(direction, row) / norm));
    }

    /// Returns the numbers of a transform that clips none of the first coordinates within these ranges.
    pub(crate) fn into_numbers(self, ranges: &CoordinateRanges, kernels: &Kernels) -> Vec<f32> {
        let width = self.directions.len() / self.dim;
        // `+ 0.0` turns −0 into +0, of which a least or greatest value may be either.
        let middles = ranges.middles().take(width).map(|middle| middle as f32 + 0.0);
        let middles: Vec<f32> = middles.collect();
        let halves: Vec<f64> = ranges
            .iter()
            .zip(&middles)
            .map(|((low, high), &middle)| (high - f64::from(middle)).max(f64::from(middle) - low))
            .collect();
        let (first, fine) = halves.split_at(width.min(PREFIX_CODES));
        let norm = squared_norm_max(&self.directions, self.dim, kernels) * ROUNDED_UP;
        let head = [step_of(first, 1.0), step_of(fine, FINE_MARGIN), norm as f32];
        let mut numbers = head.map(|number| number.max(f32::MIN_POSITIVE)).to_vec();
        numbers.extend(middles);
        numbers.extend(self.directions);
        numbers
    }
}

/// Returns the step with which half ranges, widened, are coded.
fn step_of(halves: &[f64], margin: f64) -> f32 {
    let step = halves.iter().copied().fold(0.0, f64::max) * margin / CODE_MAX;
    // Without a range every code is 0.
    if step > STEP_MIN { (step * ROUNDED_UP) as f32 } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pool;

    fn learned(units: &[f32], dim: usize, width: usize) -> Projection {
        let (pool, kernels) = (pool(2), Kernels::active());
        Covariance::of(Products::Fast, units, dim, &pool, kernels).leading(width, &pool, kernels)
    }

    #[test]
    fn the_strongest_direction_comes_first() {
        let units: Vec<f32> = (0..64)
            .flat_map(|row| {
                let (strong, weak) = (hashed(row), hashed(row + 64));
                [0.1 * weak, 0.2, 0.8 * strong, 0.0]
            })
            .collect();
        let projection = learned(&units, 4, 4);
        let mut strongest = Vec::new();
        projection.apply(&[&[0.0, 0.0, 1.0, 0.0]], 1, Kernels::active(), &mut strongest);
        assert!(strongest[0].abs() > 0.99, "{projection:?}");
        // Two coordinates do not change: they have no direction.
        assert_eq!(projection.width(), 2);
    }

    #[test]
    fn equal_rows_have_no_directions() {
        assert_eq!(learned(&[0.6, 0.8, 0.6, 0.8], 2, 2).width(), 0);
        assert_eq!(learned(&[], 5, 4).width(), 0);
    }

    #[test]
    fn differences_are_not_stretched_beyond_the_bound() {
        let units: Vec<f32> = (0..100 * 24).map(|at| hashed(at) / 24_f32.sqrt()).collect();
        let projection = learned(&units, 24, 16);
        assert_eq!(projection.width(), 16);
        assert!((1.0..1.001).contains(&projection.squared_norm_max()), "{projection:?}");
    }

    #[test]
    fn the_axes_that_vary_most_come_first() {
        let units: Vec<f32> =
            (0..64).flat_map(|row| [0.1 * hashed(row), 0.2, 0.8 * hashed(row + 64)]).collect();
        let (pool, kernels) = (pool(2), Kernels::active());
        let of = |units: &[f32]| Covariance::of(Products::Fast, units, 3, &pool, kernels);
        let covariance = of(&units);
        let axes = covariance.axes(2);
        assert_eq!((axes.width(), covariance.axes(9).width()), (2, 3));
        let mut coordinates = Vec::new();
        axes.apply(&[&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]], 2, kernels, &mut coordinates);
        assert_eq!(coordinates, [3.0, 1.0, 6.0, 4.0]);
        assert_eq!(of(&[]).axes(2).width(), 0);
    }
}
