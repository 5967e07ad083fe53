//! [`VectorRecipe::like`]: a recipe learned from given vectors.

use super::recipe::GenerateError;
use std::collections::BTreeMap;
use std::sync::Arc;

use memfold_index::{JoinError, JoinOptions, VectorMatrix};
use serde::Serialize;

use super::background::{Neighborhoods, Shape};
use super::covariance::{Codes, Covariance, dot, strided};
use super::duplicates::{Duplicates, ObservedGroup};
use super::recipe::{Groups, LearnedBackground};
use super::{VectorRecipe, VectorRecipeBuilder};

/// Maximum number of rows with measured duplicates and neighbours.
pub(super) const ROWS_MAX: usize = 131_072;

impl VectorRecipe {
    /// Begins with the statistics of `matrix`: mean and covariance of its directions (96 leading
    /// ones and a variance for each dimension), how near rows come to their neighbours at every
    /// rank to 1,023, and its groups of duplicates with their similarities.
    ///
    /// A duplicate is a row at 0.85 or more to an earlier one that is not itself a duplicate; 0.95
    /// or 0.98 where that does not discriminate. Groups are the measured ones: copies are as near
    /// to the first row and to the copies around them. Neighbours are measured among rows that are
    /// not copies; any number of generated rows has them as near as measured, so more rows make
    /// more neighbourhoods, not denser ones.
    ///
    /// The recipe is a function of `matrix` and its row order. Reads up to 16,384 evenly strided
    /// rows for the shape and 131,072 for duplicates and neighbours: the rows of a larger matrix
    /// are thinned. Costs some seconds, a minute at most, and about six bytes for each component
    /// that is read. No vector of `matrix` is kept.
    ///
    /// # Errors
    /// When there are no rows, one has no direction, or the caller cancelled.
    pub fn like(
        matrix: &VectorMatrix<'_>,
        rows: u32,
        seed: u64,
        options: &JoinOptions<'_>,
    ) -> Result<VectorRecipeBuilder, GenerateError> {
        if matrix.is_empty() {
            return Err(GenerateError::NoRows);
        }
        let JoinOptions { pool, kernels, progress, .. } = *options;
        let values = strided(matrix, ROWS_MAX);
        let sample =
            VectorMatrix::from_slice(&values, matrix.dim()).expect("whole rows of a matrix");
        let duplicates = Duplicates::count(&sample, options)?;
        let shape = Arc::new(Shape::of(Covariance::of(matrix, pool)));
        let firsts = duplicates.firsts.iter().flat_map(|&row| sample.vector(row));
        let firsts: Vec<f32> = firsts.copied().collect();
        let neighborhoods = Neighborhoods::learn(&firsts, &shape, pool, kernels, progress);
        if progress.cancelled() {
            return Err(JoinError::Cancelled.into());
        }
        let mut builder = Self::builder(rows, matrix.dim(), seed);
        let recipe = &mut builder.recipe;
        recipe.duplicate_share = duplicates.share;
        if !duplicates.groups.is_empty() {
            let groups = duplicates.groups.iter();
            let learn = |star| ObservedGroup::learn(&sample, star, kernels);
            recipe.groups = Groups::Observed(groups.map(learn).collect());
        }
        let neighborhoods = Arc::new(neighborhoods);
        recipe.background = Some(LearnedBackground { shape, neighborhoods });
        Ok(builder)
    }
}

/// Ranks of neighbours with a measured similarity: the nearest, the tenth, the hundredth.
pub const NEIGHBOR_RANKS: [usize; 3] = [1, 10, 100];
/// Similarities at which duplicates are counted.
pub const DUPLICATE_THRESHOLDS: [f64; 3] = [0.85, 0.92, 0.95];
/// Shares of rows, or pairs, with a similarity at or below the quantile.
pub const QUANTILE_SHARES: [f64; 15] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99];
/// Quantiles that [`SimilarityQuantiles::largest_difference`] compares: from 0.05 to 0.95.
const COMPARED: std::ops::RangeInclusive<usize> = 2..=12;
/// Number of rows with measured neighbours.
const QUERIES_MAX: usize = 2_048;
/// Other rows that each of them is compared with for the similarity of strangers.
const STRANGERS_MAX: usize = 256;

/// The statistics of vectors.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Likeness {
    /// Rows of the matrix.
    pub rows: usize,
    /// Components of each.
    pub dim: usize,
    /// Length of the mean of all directions, in \[0, 1\].
    pub mean_norm: f64,
    /// Shares of the variance along the leading directions, descending; 96 at most.
    pub spectrum: Vec<f64>,
    /// To the neighbour of each of [`NEIGHBOR_RANKS`].
    pub neighbors: Vec<Neighbors>,
    /// Between random rows.
    pub strangers: SimilarityQuantiles,
    /// At each of [`DUPLICATE_THRESHOLDS`].
    pub duplicates: Vec<DuplicateCounts>,
}

/// How near rows are to the neighbour of a rank.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Neighbors {
    /// 1 for the nearest.
    pub rank: usize,
    /// Of the similarity.
    pub quantiles: SimilarityQuantiles,
}

/// A distribution of similarities at each of [`QUANTILE_SHARES`]; off by 0.001 at random, since they are
/// computed from int8 codes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimilarityQuantiles(pub Vec<f64>);

/// Groups of rows around the first one that is near.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DuplicateCounts {
    /// How near a copy is at least.
    pub threshold: f64,
    /// Rows in groups of two or more.
    pub share: f64,
    /// How many groups there are of each size, ascending.
    pub group_sizes: Vec<GroupSize>,
}

/// Groups of equal size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct GroupSize {
    /// Of each, two or more.
    pub rows: u32,
    /// How many there are.
    pub groups: usize,
}

impl Likeness {
    /// Measures `matrix`: up to 16,384 evenly strided rows for mean and covariance, 131,072 for duplicates and
    /// neighbours, which 2,048 of them look up. Costs some seconds. Equal on every machine.
    ///
    /// # Errors
    /// When there are fewer than two rows, one has no direction, nearly all are duplicates of each
    /// other, or the caller cancelled.
    pub fn measure(
        matrix: &VectorMatrix<'_>,
        options: &JoinOptions<'_>,
    ) -> Result<Self, GenerateError> {
        if matrix.len() < 2 {
            return Err(GenerateError::NoRows);
        }
        let JoinOptions { pool, kernels, .. } = *options;
        let values = strided(matrix, ROWS_MAX);
        let sample =
            VectorMatrix::from_slice(&values, matrix.dim()).expect("whole rows of a matrix");
        // First, since it refuses rows without a direction.
        let count = |&threshold: &f64| {
            let found = Duplicates::at(&sample, threshold, options)?;
            let mut sizes = BTreeMap::new();
            found.sizes().for_each(|size| *sizes.entry(size).or_default() += 1);
            let group_sizes = sizes.into_iter().map(|(rows, groups)| GroupSize { rows, groups });
            let group_sizes = group_sizes.collect();
            Ok(DuplicateCounts { threshold, share: found.share, group_sizes })
        };
        let duplicates: Result<_, JoinError> = DUPLICATE_THRESHOLDS.iter().map(count).collect();
        let duplicates = duplicates?;
        let codes = Codes::of(&values, matrix.dim(), pool);
        let ranks = NEIGHBOR_RANKS.map(|rank| rank - 1..rank);
        let found = codes.neighbors(QUERIES_MAX, &ranks, pool, kernels);
        let neighbors = NEIGHBOR_RANKS.iter().enumerate().map(|(at, &rank)| {
            let found = found.iter().map(|similarities| similarities[at]).collect();
            Neighbors { rank, quantiles: SimilarityQuantiles::of(found) }
        });
        let strangers = codes.strangers(QUERIES_MAX, STRANGERS_MAX, pool, kernels);
        let covariance = Covariance::of(matrix, pool);
        let total: f64 = covariance.variances.iter().sum();
        let share = |variance: &f64| if total > 0.0 { variance / total } else { 0.0 };
        let mut spectrum: Vec<f64> = covariance.leading.iter().map(share).collect();
        spectrum.sort_unstable_by(|a, b| b.total_cmp(a));
        Ok(Self {
            rows: matrix.len(),
            dim: matrix.dim(),
            mean_norm: dot(&covariance.mean, &covariance.mean).sqrt(),
            spectrum,
            neighbors: neighbors.collect(),
            strangers: SimilarityQuantiles::of(strangers),
            duplicates,
        })
    }

    /// Returns the share of the variance along this many leading directions, or along all known
    /// ones.
    #[must_use]
    pub fn explained(&self, directions: usize) -> f64 {
        self.spectrum.iter().take(directions).sum()
    }
}

impl SimilarityQuantiles {
    fn of(mut similarities: Vec<f64>) -> Self {
        similarities.sort_unstable_by(f64::total_cmp);
        let last = similarities.len() - 1;
        let at = |share: f64| similarities[(share * last as f64).round() as usize];
        Self(QUANTILE_SHARES.into_iter().map(at).collect())
    }

    /// Returns the median.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.0[QUANTILE_SHARES.len() / 2]
    }

    /// Returns the largest difference of a quantile, from 0.05 to 0.95.
    #[must_use]
    pub fn largest_difference(&self, other: &Self) -> f64 {
        let both = self.0[COMPARED].iter().zip(&other.0[COMPARED]);
        both.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod like_tests {
    use std::num::NonZeroUsize;

    use memfold_index::Pool;

    use super::super::stream::Stream;
    use super::*;
    use crate::synthetic::{Likeness, VectorGenerator};

    fn options(pool: &Pool) -> JoinOptions<'_> {
        JoinOptions::new(pool)
    }

    fn generated(recipe: VectorRecipe) -> Vec<f32> {
        VectorGenerator::new(recipe).all()
    }

    fn like(values: &[f32], dim: usize, rows: u32, threads: usize) -> VectorRecipe {
        let pool = Pool::new(NonZeroUsize::new(threads)).unwrap();
        let matrix = VectorMatrix::from_slice(values, dim).unwrap();
        VectorRecipe::like(&matrix, rows, 9, &options(&pool)).unwrap().build().unwrap()
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
        assert_eq!(&blake3::hash(&bytes).to_hex()[..16], "d36c3f7bd52e0e6d");
    }

    #[test]
    fn a_constant_embedder_gives_a_constant() {
        let recipe = like(&[0.6, 0.8].repeat(20), 2, 10, 1);
        assert_eq!(recipe.duplicate_share.to_bits(), 1.0_f64.to_bits());
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

    fn measured(values: &[f32], dim: usize) -> Likeness {
        let pool = Pool::new(None).unwrap();
        let matrix = VectorMatrix::from_slice(values, dim).unwrap();
        Likeness::measure(&matrix, &options(&pool)).unwrap()
    }

    /// Rows around 60 centres of different spread, a tenth of them copies: none of it is how rows are generated.
    fn clustered(rows: usize, dim: usize) -> Vec<f32> {
        let mut stream = Stream::new(77, 0, 0);
        let mut direction = |spread: f64| -> Vec<f64> {
            (0..dim).map(|at| spread * stream.normal() / (1.0 + at as f64 / 12.0)).collect()
        };
        let centres: Vec<Vec<f64>> = (0..60).map(|_| direction(1.0)).collect();
        let mut values: Vec<f32> = Vec::with_capacity(rows * dim);
        for row in 0..rows {
            let at = row * 7919 % 60;
            let spread = if row % 10 == 9 { 0.05 } else { 0.25 + at as f64 / 60.0 };
            let own = direction(spread);
            let base: Vec<f64> = match row % 10 {
                9 => values[(row - 9) * dim..][..dim].iter().map(|&value| value.into()).collect(),
                _ => centres[at].clone(),
            };
            values.extend(base.iter().zip(&own).map(|(base, own)| (base + own) as f32));
        }
        values
    }

    #[test]
    fn what_is_generated_is_like_what_was_given() {
        let (rows, dim) = (6_000, 48);
        let source = clustered(rows, dim);
        let real = measured(&source, dim);
        let synthetic = measured(&generated(like(&source, dim, rows as u32, 2)), dim);
        assert!((real.mean_norm - synthetic.mean_norm).abs() < 0.05, "{real:?} {synthetic:?}");
        for leading in [1, 4, 16] {
            let shares = [&real, &synthetic].map(|of| of.spectrum[..leading].iter().sum::<f64>());
            assert!((shares[0] - shares[1]).abs() < 0.05, "{leading} directions: {shares:?}");
        }
        // Among so few rows groups hold 64 at most: the hundredth neighbour stands in another one.
        let tolerances = [0.08, 0.08, 0.15];
        let neighbors = real.neighbors.iter().zip(&synthetic.neighbors).zip(tolerances);
        for ((real, synthetic), tolerance) in neighbors {
            let off = real.quantiles.largest_difference(&synthetic.quantiles);
            assert!(off < tolerance, "{real:?} {synthetic:?}: {off}");
        }
        // Neighbours just below the threshold spill over it.
        for (real, synthetic) in real.duplicates.iter().zip(&synthetic.duplicates) {
            assert!((real.share - synthetic.share).abs() < 0.1, "{real:?} {synthetic:?}");
        }
    }

    #[test]
    fn few_rows_and_many_are_as_near_as_those_given() {
        let (rows, dim) = (3_000, 32);
        let source = clustered(rows, dim);
        let real = measured(&source, dim);
        for count in [rows as u32 / 2, rows as u32 * 2] {
            let synthetic = measured(&generated(like(&source, dim, count, 2)), dim);
            let off =
                real.neighbors[0].quantiles.largest_difference(&synthetic.neighbors[0].quantiles);
            assert!(off < 0.1, "{count} rows: {off}");
        }
    }
}

#[cfg(test)]
mod likeness_tests {
    use memfold_index::Pool;

    use super::*;

    #[test]
    fn figures_are_those_of_the_rows() {
        let pool = Pool::new(None).unwrap();
        let options = JoinOptions::new(&pool);
        // Two directions at a right angle, three rows along each.
        let values = [[1.0, 0.0], [0.0, 1.0]].repeat(3).concat();
        let matrix = VectorMatrix::from_slice(&values, 2).unwrap();
        let found = Likeness::measure(&matrix, &options).unwrap();
        assert!((found.mean_norm - 0.5_f64.sqrt()).abs() < 1e-12, "{found:?}");
        assert!((found.spectrum[0] - 1.0).abs() < 1e-9 && found.spectrum.len() <= 2, "{found:?}");
        assert!((found.explained(9) - 1.0).abs() < 1e-9);
        let medians = [0, 1].map(|at: usize| found.neighbors[at].quantiles.median());
        assert!((medians[0] - 1.0).abs() < 0.01 && medians[1].abs() < 0.01, "{found:?}");
        let counts = &found.duplicates[2];
        assert!((counts.threshold - 0.95).abs() < 1e-12 && (counts.share - 1.0).abs() < 1e-12);
        assert_eq!(counts.group_sizes, [GroupSize { rows: 3, groups: 2 }]);
        let away = SimilarityQuantiles(vec![0.25; QUANTILE_SHARES.len()]);
        assert!((away.largest_difference(&found.neighbors[0].quantiles) - 0.75).abs() < 0.01);
    }

    #[test]
    fn one_row_has_no_neighbor() {
        let pool = Pool::new(None).unwrap();
        let options = JoinOptions::new(&pool);
        let matrix = VectorMatrix::from_slice(&[1.0, 0.0], 2).unwrap();
        assert!(Likeness::measure(&matrix, &options).is_err());
    }
}
