//! [`Covariance`]: mean and covariance of given vectors, and the [`Shape`] that follows them.

use memfold_index::{Pool, VectorMatrix};

use super::background::{RANK, Shape};
use super::linear::{add_scaled, dot, normalize, orthonormalize};
use super::purpose;
use super::random::Stream;
use super::strides::strided;

/// Rows that mean and covariance are learned from, …
const SHAPE_ROWS_MAX: usize = 16_384;
/// … or fewer, so that they have at most this many components.
const SHAPE_VALUES_MAX: usize = 8 << 20;
/// Rounds of subspace iteration; the directions that carry most variance settle first.
const ITERATIONS: usize = 3;
/// Directions that a task multiplies while a row is in the cache.
const BATCH_DIRECTIONS: usize = 8;

/// The covariance of some rows' directions.
pub(crate) struct Covariance {
    pub(crate) mean: Vec<f64>,
    /// Of each dimension.
    pub(crate) variances: Vec<f64>,
    /// Orthonormal; those of the largest variance first, about.
    pub(crate) directions: Vec<Vec<f64>>,
    /// Along each direction.
    pub(crate) leading: Vec<f64>,
}

impl Covariance {
    /// Looks at up to [`SHAPE_ROWS_MAX`] rows.
    pub(crate) fn of(matrix: &VectorMatrix<'_>, pool: &Pool) -> Self {
        let dim = matrix.dim();
        let rows_max = SHAPE_ROWS_MAX.min((SHAPE_VALUES_MAX / dim).max(1));
        let values = strided(matrix, rows_max);
        let mut rows: Vec<f64> = values.iter().map(|&value| value.into()).collect();
        rows.chunks_exact_mut(dim).for_each(normalize);
        let row_count = (rows.len() / dim) as f64;
        let mut mean = vec![0.0; dim];
        rows.chunks_exact(dim).for_each(|row| add_scaled(&mut mean, 1.0 / row_count, row));
        let mut variances = vec![0.0; dim];
        for row in rows.chunks_exact_mut(dim) {
            add_scaled(row, -1.0, &mean);
            for (variance, value) in variances.iter_mut().zip(&*row) {
                *variance += value * value / row_count;
            }
        }
        let directions = leading_directions(&rows, dim, pool);
        let turned = covariance_times(&rows, &directions, pool);
        let leading = directions.iter().zip(&turned).map(|(q, t)| dot(q, t) / row_count).collect();
        Self { mean, variances, directions, leading }
    }
}

/// Returns up to [`RANK`] orthonormal directions along which centred `rows` vary most.
fn leading_directions(rows: &[f64], dim: usize, pool: &Pool) -> Vec<Vec<f64>> {
    let start = |k: usize| {
        let mut stream = Stream::new(0, purpose::START, k as u64);
        (0..dim).map(|_| stream.normal()).collect()
    };
    let mut directions: Vec<Vec<f64>> = (0..RANK.min(dim)).map(start).collect();
    for _ in 0..ITERATIONS {
        directions = orthonormalize(covariance_times(rows, &directions, pool));
    }
    directions
}

impl Shape {
    /// Splits a covariance into a few factors and what they leave to each dimension.
    ///
    /// The left-over variance also lies along the factors, so they are shortened by it (Tipping and
    /// Bishop, *Probabilistic principal component analysis*, 1999).
    pub(crate) fn of(covariance: Covariance) -> Self {
        let Covariance { mean, variances, directions, leading } = covariance;
        let total: f64 = variances.iter().sum();
        let rest = total - leading.iter().sum::<f64>();
        let noise = (rest / (mean.len() - directions.len()).max(1) as f64).max(0.0);
        let mut residual = variances;
        let mut factors = directions;
        for (factor, variance) in factors.iter_mut().zip(&leading) {
            let deviation = (variance - noise).max(0.0).sqrt();
            factor.iter_mut().for_each(|value| *value *= deviation);
            residual.iter_mut().zip(&*factor).for_each(|(left, value)| *left -= value * value);
        }
        residual.iter_mut().for_each(|left| *left = left.max(0.0).sqrt());
        Self { mean, factors, residual }
    }
}

/// Returns the unscaled covariance matrix times each direction, without forming it.
fn covariance_times(rows: &[f64], directions: &[Vec<f64>], pool: &Pool) -> Vec<Vec<f64>> {
    let Some(dim) = directions.first().map(Vec::len) else { return Vec::new() };
    let batches: Vec<_> = directions.chunks(BATCH_DIRECTIONS).collect();
    // Each sum over rows runs in row order, whatever the threads.
    let products = pool.map(batches.len(), |batch| {
        let mut products = vec![vec![0.0; dim]; batches[batch].len()];
        for row in rows.chunks_exact(dim) {
            for (product, direction) in products.iter_mut().zip(batches[batch]) {
                add_scaled(product, dot(row, direction), row);
            }
        }
        products
    });
    products.concat()
}
