//! [`VectorRecipe::like`]: a recipe learned from given vectors.

use std::sync::Arc;

use memfold_index::{
    JoinError, JoinOptions, JoinedPairs, PairStream, Pool, Row, VectorMatrix, join_pairs,
};
use memfold_simd::Similarity;

use super::background::{RANK, Shape};
use super::linear::{add_scaled, dot, normalize, orthonormalize};
use super::random::Stream;
use super::recipe::{GroupSizes, Similarities};
use super::{VectorRecipe, VectorRecipeBuilder, purpose};

/// Rows that mean and covariance are learned from, …
const SHAPE_ROWS_MAX: usize = 16_384;
/// … or fewer, so that they have at most this many components.
const SHAPE_VALUES_MAX: usize = 8 << 20;
/// Rows whose duplicates are counted.
const DUPLICATE_ROWS_MAX: usize = 131_072;
/// Thresholds at which a row is a duplicate: the first one that discriminates.
const DUPLICATE_THRESHOLDS: [f64; 3] = [0.85, 0.95, 0.98];
/// Similarities kept of those seen.
const QUANTILES: usize = 1_024;
/// Rounds of subspace iteration; the directions that carry most variance settle first.
const ITERATIONS: usize = 3;
/// Directions that a task multiplies while a row is in the cache.
const BATCH_DIRECTIONS: usize = 8;

/// Vectors from which no recipe could be learned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LikeError {
    /// There is nothing to learn from.
    #[error("no rows to learn from")]
    NoRows,
    /// The duplicates could not be counted.
    #[error("count duplicates: {0}")]
    Join(#[from] JoinError),
}

impl LikeError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoRows => None,
            Self::Join(error) => error.hint(),
        }
    }
}

impl VectorRecipe {
    /// Begins with what `matrix` shows: mean and covariance of its directions (96 leading ones and a
    /// variance for each dimension), the share of duplicates, their group sizes and similarities.
    ///
    /// A duplicate is a row at 0.85 or more to an earlier one that is not itself a duplicate; 0.95 or
    /// 0.98 where that does not discriminate. The recipe is a function of `matrix` and its row order.
    /// Looks at up to 16,384 evenly strided rows for the shape and 131,072 for the duplicates: groups of
    /// a larger matrix are thinned. Costs some seconds.
    ///
    /// # Errors
    /// When there are no rows, one has no direction, or the join is cancelled.
    pub fn like(
        matrix: &VectorMatrix<'_>,
        rows: u32,
        seed: u64,
        options: &JoinOptions<'_>,
    ) -> Result<VectorRecipeBuilder, LikeError> {
        if matrix.is_empty() {
            return Err(LikeError::NoRows);
        }
        let duplicates = Duplicates::count(matrix, options)?;
        let mut builder = Self::builder(rows, matrix.dim(), seed);
        let recipe = &mut builder.recipe;
        recipe.duplicate_share = duplicates.share;
        recipe.exact_share = duplicates.exact_share;
        if !duplicates.group_sizes.is_empty() {
            recipe.group_sizes = GroupSizes::Observed(duplicates.group_sizes.into());
        }
        if !duplicates.similarities.is_empty() {
            recipe.similarities = Similarities::Observed(duplicates.similarities.into());
        }
        recipe.shape = Some(Arc::new(Shape::of(matrix, options.pool)));
        Ok(builder)
    }
}

/// What duplicates a sample holds.
#[derive(Debug, Default, PartialEq)]
struct Duplicates {
    /// Rows in groups of two or more.
    share: f64,
    /// Bit-equal ones among the copies.
    exact_share: f64,
    /// Sizes of two or more, ascending.
    group_sizes: Vec<u32>,
    /// Quantiles of the other copies' similarities to the first of their group, ascending.
    similarities: Vec<f64>,
}

impl Duplicates {
    fn count(matrix: &VectorMatrix<'_>, options: &JoinOptions<'_>) -> Result<Self, JoinError> {
        let values = strided(matrix, DUPLICATE_ROWS_MAX);
        let sample =
            VectorMatrix::from_slice(&values, matrix.dim()).expect("whole rows of a matrix");
        let mut refused = None;
        for threshold in DUPLICATE_THRESHOLDS {
            match join_pairs(&sample, Similarity::clamped(threshold).unwrap_or_default(), options)
                .map(PairStream::collect)
            {
                Ok(joined) => return Ok(Self::of(&joined, sample.len())),
                Err(error @ JoinError::PairBudget { .. }) => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        // Nearly every row is a duplicate of every other: that is how such vectors look.
        refused.map_or_else(|| Ok(Self::default()), Err)
    }

    /// Gathers rows around the first one that is near: stars, as they are generated.
    fn of(joined: &JoinedPairs, row_count: usize) -> Self {
        let mut multiplicities = vec![1_u32; row_count];
        for group in &joined.groups {
            multiplicities[group[0].index()] = group.len() as u32;
            group[1..].iter().for_each(|row| multiplicities[row.index()] = 0);
        }
        let mut taken = vec![false; row_count];
        let mut group_sizes = Vec::new();
        let mut similarities = Vec::new();
        let mut exact = 0_u64;
        let mut pairs = joined.pairs.as_slice();
        for row in 0..row_count {
            let own = pairs.partition_point(|pair| pair.left <= Row(row as u32));
            let (neighbors, later) = pairs.split_at(own);
            pairs = later;
            if taken[row] || multiplicities[row] == 0 {
                continue;
            }
            let mut size = multiplicities[row];
            exact += u64::from(size - 1);
            for pair in neighbors.iter().filter(|pair| !taken[pair.right.index()]) {
                let copies = multiplicities[pair.right.index()];
                size += copies;
                similarities.extend((0..copies).map(|_| pair.similarity.get()));
            }
            neighbors.iter().for_each(|pair| taken[pair.right.index()] = true);
            if size > 1 {
                group_sizes.push(size);
            }
        }
        group_sizes.sort_unstable();
        similarities.sort_unstable_by(f64::total_cmp);
        let in_groups: u64 = group_sizes.iter().map(|&size| u64::from(size)).sum();
        let copies = exact + similarities.len() as u64;
        Self {
            share: in_groups as f64 / row_count as f64,
            exact_share: exact as f64 / copies.max(1) as f64,
            group_sizes,
            similarities: positions(similarities.len(), QUANTILES)
                .map(|at| similarities[at])
                .collect(),
        }
    }
}

impl Shape {
    /// Learns the shape of the rows' directions.
    fn of(matrix: &VectorMatrix<'_>, pool: &Pool) -> Self {
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
        let (factors, residual) = factorize(&rows, variances, pool);
        Self { mean, factors, residual }
    }
}

/// Splits the covariance of centred `rows` into a few factors and what they leave to each dimension.
///
/// The left-over variance also lies along the factors, so they are shortened by it (Tipping and
/// Bishop, *Probabilistic principal component analysis*, 1999).
fn factorize(rows: &[f64], variances: Vec<f64>, pool: &Pool) -> (Vec<Vec<f64>>, Vec<f64>) {
    let dim = variances.len();
    let start = |k: usize| {
        let mut stream = Stream::new(0, purpose::START, k as u64);
        (0..dim).map(|_| stream.normal()).collect()
    };
    let mut directions: Vec<Vec<f64>> = (0..RANK.min(dim)).map(start).collect();
    for _ in 0..ITERATIONS {
        directions = orthonormalize(covariance_times(rows, &directions, pool));
    }
    let row_count = (rows.len() / dim) as f64;
    let turned = covariance_times(rows, &directions, pool);
    let leading: Vec<f64> =
        directions.iter().zip(&turned).map(|(q, t)| dot(q, t) / row_count).collect();
    let total: f64 = variances.iter().sum();
    let rest = total - leading.iter().sum::<f64>();
    let noise = (rest / (dim - directions.len()).max(1) as f64).max(0.0);
    let mut residual = variances;
    let mut factors = directions;
    for (factor, variance) in factors.iter_mut().zip(&leading) {
        let deviation = (variance - noise).max(0.0).sqrt();
        factor.iter_mut().for_each(|value| *value *= deviation);
        residual.iter_mut().zip(&*factor).for_each(|(left, value)| *left -= value * value);
    }
    residual.iter_mut().for_each(|left| *left = left.max(0.0).sqrt());
    (factors, residual)
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

/// Copies up to `rows_max` evenly strided rows.
fn strided(matrix: &VectorMatrix<'_>, rows_max: usize) -> Vec<f32> {
    let rows = positions(matrix.len(), rows_max).map(|at| matrix.vector(Row(at as u32)));
    rows.flatten().copied().collect()
}

/// Returns up to `limit` positions of `0..len`, evenly strided.
fn positions(len: usize, limit: usize) -> impl Iterator<Item = usize> {
    let count = len.min(limit);
    (0..count).map(move |k| (k as u64 * len as u64 / count as u64) as usize)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use memfold_index::NoProgress;
    use memfold_simd::Kernels;

    use super::*;
    use crate::VectorGenerator;

    fn options(pool: &Pool) -> JoinOptions<'_> {
        let kernels = Kernels::active();
        JoinOptions { pool, kernels, pair_budget: None, scratch_dir: None, progress: &NoProgress }
    }

    fn generated(recipe: VectorRecipe) -> Vec<f32> {
        let generator = VectorGenerator::new(recipe);
        let mut values = vec![0.0; generator.len() * generator.dim()];
        for (row, vector) in (0..).zip(values.chunks_exact_mut(generator.dim())) {
            generator.row(row, vector);
        }
        values
    }

    fn like(values: &[f32], dim: usize, rows: u32, threads: usize) -> VectorRecipe {
        let pool = Pool::new(NonZeroUsize::new(threads)).unwrap();
        let matrix = VectorMatrix::from_slice(values, dim).unwrap();
        VectorRecipe::like(&matrix, rows, 9, &options(&pool)).unwrap().build().unwrap()
    }

    #[test]
    fn duplicates_gather_around_the_first() {
        let pool = Pool::new(None).unwrap();
        // 0 = 4, near 1; 1 near 2, 2 not near 0; 3 alone.
        let values = [1.0, 0.0, 0.9, 0.43, 0.7, 0.7, -1.0, 0.0, 1.0, 0.0];
        let matrix = VectorMatrix::from_slice(&values, 2).unwrap();
        let found = Duplicates::count(&matrix, &options(&pool)).unwrap();
        assert_eq!((found.share, found.exact_share), (0.6, 0.5));
        assert_eq!(found.group_sizes, [3]);
        assert!((found.similarities[0] - 0.902).abs() < 1e-3, "{found:?}");
    }

    #[test]
    fn threads_leave_no_trace() {
        let source = generated(VectorRecipe::builder(700, 20, 3).build().unwrap());
        assert_eq!(like(&source, 20, 50, 1), like(&source, 20, 50, 8));
    }

    #[test]
    fn rows_are_the_same_on_every_machine() {
        let source = generated(VectorRecipe::builder(400, 12, 5).build().unwrap());
        let values = generated(like(&source, 12, 60, 2));
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(&blake3::hash(&bytes).to_hex()[..16], "e49c0ba5e9f4c972");
    }

    #[test]
    fn a_constant_embedder_gives_a_constant() {
        let recipe = like(&[0.6, 0.8].repeat(20), 2, 10, 1);
        assert_eq!((recipe.duplicate_share, recipe.exact_share), (1.0, 1.0));
        assert_eq!(generated(recipe), [0.6, 0.8].repeat(10));
    }

    #[test]
    fn nothing_to_learn_from_is_refused() {
        let pool = Pool::new(None).unwrap();
        let refused = |values: &[f32]| {
            let matrix = VectorMatrix::from_slice(values, 2).unwrap();
            VectorRecipe::like(&matrix, 5, 1, &options(&pool)).unwrap_err().to_string()
        };
        assert_eq!(refused(&[]), "no rows to learn from");
        let invalid = refused(&[1.0, 0.0, 0.0, 0.0]);
        assert_eq!(invalid, "count duplicates: row 1: the vector is all zeros");
    }
}
