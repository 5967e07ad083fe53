//! [`Covariance`]: mean and covariance of given vectors, and the [`Shape`] that follows them.

use std::ops::Range;

use memfold_index::{Pool, Row, VectorMatrix};
use memfold_simd::Kernels;

use super::background::{RANK, Shape};
use super::stream::{self, Stream};

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
    /// Orthonormal; directions of the largest variance first, about.
    pub(crate) directions: Vec<Vec<f64>>,
    /// Along each direction.
    pub(crate) leading: Vec<f64>,
}

impl Covariance {
    /// Reads up to [`SHAPE_ROWS_MAX`] rows.
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
        let mut stream = Stream::new(0, stream::START, k as u64);
        (0..dim).map(|_| stream.normal()).collect()
    };
    let mut directions: Vec<Vec<f64>> = (0..RANK.min(dim)).map(start).collect();
    for _ in 0..ITERATIONS {
        directions = orthonormalize(covariance_times(rows, &directions, pool));
    }
    directions
}

impl Shape {
    /// Splits a covariance into a few factors and the rest in each dimension.
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
    // Each sum over rows runs in row order, for any number of threads.
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

/// The largest code.
const CODE_MAX: f64 = 127.0;
/// Rows that are compared with a tile of others while it is in the cache: most of the time goes
/// into reading tiles.
const BATCH_QUERIES: usize = 16;
/// Codes of a tile: an eighth of a small second-level cache.
const TILE_CODES: usize = 32 << 10;

/// Unit vectors in steps of one size.
///
/// The similarity of two rows is off by about 0.001 at random, more below 64 dimensions.
#[derive(Debug)]
pub(crate) struct Codes {
    codes: Vec<i8>,
    dim: usize,
    /// The value of a unit in the product of two codes.
    unit: f64,
}

impl Codes {
    /// Rounds the directions of `values`, whole rows of `dim` components.
    pub(crate) fn of(values: &[f32], dim: usize, pool: &Pool) -> Self {
        const BATCH_ROWS: usize = 1024;
        let batches: Vec<&[f32]> = values.chunks(BATCH_ROWS * dim).collect();
        let largest = |values: &[f32]| {
            directions(values, dim).flatten().fold(0.0_f64, |most, value| most.max(value.abs()))
        };
        let largest = pool.map(batches.len(), |batch| largest(batches[batch]));
        let step = largest.into_iter().fold(f64::MIN_POSITIVE, f64::max) / CODE_MAX;
        let codes = pool.map(batches.len(), |batch| {
            let values = directions(batches[batch], dim).flatten();
            values.map(|value| (value / step).round_ties_even() as i8).collect::<Vec<i8>>()
        });
        Self { codes: codes.concat(), dim, unit: step * step }
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.codes.len() / self.dim
    }

    /// Returns, for up to `queries_max` evenly strided rows, the mean similarity to their neighbours of each range
    /// of ranks; rank 0 is the nearest other row. A range beyond the last neighbour takes the last one.
    pub(crate) fn neighbors(
        &self,
        queries_max: usize,
        ranks: &[Range<usize>],
        pool: &Pool,
        kernels: &Kernels,
    ) -> Vec<Vec<f64>> {
        let deepest = ranks.iter().map(|range| range.end).max().unwrap_or(0).min(self.len() - 1);
        self.each_query(queries_max, pool, kernels, |query, mut dots| {
            dots.swap_remove(query);
            if deepest < dots.len() {
                dots.select_nth_unstable_by(deepest, |a, b| b.cmp(a));
            }
            let nearest = &mut dots[..deepest];
            nearest.sort_unstable_by(|a, b| b.cmp(a));
            ranks.iter().map(|range| self.mean(nearest, range)).collect()
        })
    }

    /// Returns the similarities of up to `queries_max` evenly strided rows to `others` strided others, ascending.
    pub(crate) fn strangers(
        &self,
        queries_max: usize,
        others: usize,
        pool: &Pool,
        kernels: &Kernels,
    ) -> Vec<f64> {
        let found = self.each_query(queries_max, pool, kernels, |query, dots| {
            let others = positions(self.len(), others).filter(|&other| other != query);
            others.map(|other| f64::from(dots[other]) * self.unit).collect::<Vec<f64>>()
        });
        let mut found = found.concat();
        found.sort_unstable_by(f64::total_cmp);
        found
    }

    /// Calls `look` with up to `queries_max` evenly strided rows and the products of each with all
    /// rows; returns its results, in row order.
    fn each_query<T: Send>(
        &self,
        queries_max: usize,
        pool: &Pool,
        kernels: &Kernels,
        look: impl Fn(usize, Vec<i32>) -> T + Sync + Send,
    ) -> Vec<T> {
        let queries: Vec<usize> = positions(self.len(), queries_max).collect();
        let batches: Vec<&[usize]> = queries.chunks(BATCH_QUERIES).collect();
        let found = pool.map(batches.len(), |batch| {
            let queries = batches[batch];
            let dots = self.dots(queries, kernels);
            queries.iter().zip(dots).map(|(&query, dots)| look(query, dots)).collect::<Vec<T>>()
        });
        found.into_iter().flatten().collect()
    }

    fn dots(&self, queries: &[usize], kernels: &Kernels) -> Vec<Vec<i32>> {
        let mut dots: Vec<Vec<i32>> =
            queries.iter().map(|_| Vec::with_capacity(self.len())).collect();
        let tile_rows = (TILE_CODES / self.dim).max(1);
        for tile in self.codes.chunks(tile_rows * self.dim) {
            for (&query, dots) in queries.iter().zip(&mut dots) {
                kernels.dots_i8(&self.codes[query * self.dim..][..self.dim], tile, dots);
            }
        }
        dots
    }

    fn mean(&self, nearest: &[i32], range: &Range<usize>) -> f64 {
        let end = range.end.min(nearest.len());
        let picked = &nearest[range.start.min(end.saturating_sub(1))..end];
        let sum: i64 = picked.iter().map(|&dot| i64::from(dot)).sum();
        sum as f64 / picked.len().max(1) as f64 * self.unit
    }
}

fn directions(values: &[f32], dim: usize) -> impl Iterator<Item = Vec<f64>> {
    values.chunks_exact(dim).map(|row| {
        let mut direction: Vec<f64> = row.iter().map(|&value| value.into()).collect();
        debug_assert!(dot(&direction, &direction) > 0.0, "a row without a direction");
        normalize(&mut direction);
        direction
    })
}

/// Partial sums of [`dot`].
const LANES: usize = 8;

/// A direction shorter than this share of its former length is rounding noise.
const NOISE: f64 = 1e-9;

/// Returns the dot product: lane `k` sums the products of the elements `i` with `i % 8 == k`, then the
/// lanes are summed in order.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let ((a_chunks, a_tail), (b_chunks, b_tail)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for k in 0..LANES {
            lanes[k] += a[k] * b[k];
        }
    }
    for ((lane, a), b) in lanes.iter_mut().zip(a_tail).zip(b_tail) {
        *lane += a * b;
    }
    lanes.iter().sum()
}

/// Adds `factor` times `from` to `to`.
pub(crate) fn add_scaled(to: &mut [f64], factor: f64, from: &[f64]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to += factor * from;
    }
}

/// Gives `values` length 1, unless all are zero.
pub(crate) fn normalize(values: &mut [f64]) {
    let norm = dot(values, values).sqrt();
    if norm > 0.0 {
        let inverse = 1.0 / norm;
        values.iter_mut().for_each(|value| *value *= inverse);
    }
}

/// Makes directions orthonormal in the given order (Gram–Schmidt, twice); directions without a part
/// of their own are dropped.
pub(crate) fn orthonormalize(directions: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let mut kept: Vec<Vec<f64>> = Vec::with_capacity(directions.len());
    for mut direction in directions {
        let before = dot(&direction, &direction).sqrt();
        for _ in 0..2 {
            for other in &kept {
                let along = dot(&direction, other);
                add_scaled(&mut direction, -along, other);
            }
        }
        if dot(&direction, &direction).sqrt() > NOISE * before {
            normalize(&mut direction);
            kept.push(direction);
        }
    }
    kept
}

/// Solves `matrix` · x = `right` for a symmetric positive definite matrix (elimination without pivoting).
pub(crate) fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let size = right.len();
    for pivot in 0..size {
        for row in pivot + 1..size {
            let factor = matrix[row][pivot] / matrix[pivot][pivot];
            let (above, below) = matrix.split_at_mut(row);
            add_scaled(&mut below[0], -factor, &above[pivot]);
            right[row] -= factor * right[pivot];
        }
    }
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|at| matrix[row][at] * right[at]).sum();
        right[row] = (right[row] - known) / matrix[row][row];
    }
    right
}

/// Copies up to `rows_max` evenly strided rows.
pub(crate) fn strided(matrix: &VectorMatrix<'_>, rows_max: usize) -> Vec<f32> {
    let rows = positions(matrix.len(), rows_max).map(|at| matrix.vector(Row(at as u32)));
    rows.flatten().copied().collect()
}

/// Returns up to `limit` positions of `0..len`, evenly strided.
pub(crate) fn positions(len: usize, limit: usize) -> impl Iterator<Item = usize> {
    let count = len.min(limit);
    (0..count).map(move |k| (k as u64 * len as u64 / count as u64) as usize)
}

#[cfg(test)]
mod codes_tests {
    use super::*;

    #[test]
    fn neighbors_come_by_rank() {
        // Angles of 0°, 36.9° and 90°, each at another length.
        let codes = Codes::of(&[1.0, 0.0, 1.6, 1.2, 0.0, 3.0], 2, &Pool::new(None).unwrap());
        let pool = Pool::new(None).unwrap();
        let found = codes.neighbors(2, &[0..1, 1..2, 0..2, 5..9], &pool, Kernels::active());
        for (found, expected) in found[0].iter().zip([0.8, 0.0, 0.4, 0.0]) {
            assert!((found - expected).abs() < 0.01, "{found} for {expected}");
        }
        assert_eq!(found.len(), 2);
        let strangers = codes.strangers(3, 3, &pool, Kernels::active());
        assert_eq!(strangers.len(), 6);
        assert!((strangers[5] - 0.8).abs() < 0.01, "{strangers:?}");
    }
}

#[cfg(test)]
mod linear_tests {
    use super::*;

    #[test]
    fn equations_are_solved() {
        let matrix = vec![vec![4.0, 2.0, 1.0], vec![2.0, 5.0, 3.0], vec![1.0, 3.0, 6.0]];
        let found = solve(matrix, vec![11.0, 21.0, 25.0]);
        for (found, expected) in found.iter().zip([1.0, 2.0, 3.0]) {
            assert!((found - expected).abs() < 1e-12, "{found} for {expected}");
        }
        assert!(solve(Vec::new(), Vec::new()).is_empty());
    }

    #[test]
    fn the_tail_takes_part() {
        let a: Vec<f64> = (1..=11).map(f64::from).collect();
        assert!((dot(&a, &a) - 506.0).abs() < 1e-9);
    }

    #[test]
    fn dependent_directions_are_dropped() {
        let kept = orthonormalize(vec![vec![3.0, 4.0, 0.0], vec![6.0, 8.0, 0.0], vec![1.0; 3]]);
        assert_eq!(kept.len(), 2);
        assert!(dot(&kept[0], &kept[1]).abs() < 1e-15);
        assert!((dot(&kept[1], &kept[1]) - 1.0).abs() < 1e-15);
    }
}
