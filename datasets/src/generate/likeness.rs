//! [`Likeness`]: the figures that generated vectors share with those they are like.

use std::collections::BTreeMap;

use memfold_index::{JoinError, JoinOptions, VectorMatrix};

use super::LikeError;
use super::codes::Codes;
use super::covariance::Covariance;
use super::duplicates::Duplicates;
use super::like::ROWS_MAX;
use super::linear::dot;
use super::strides::strided;

/// Neighbours whose similarity is measured: the nearest, the tenth, the hundredth.
pub const NEIGHBOR_RANKS: [usize; 3] = [1, 10, 100];
/// Similarities at which duplicates are counted.
pub const DUPLICATE_THRESHOLDS: [f64; 3] = [0.85, 0.92, 0.95];
/// Shares of rows, or pairs, whose similarity is at or below the quantile.
pub const QUANTILE_SHARES: [f64; 15] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99];
/// Quantiles that [`SimilarityQuantiles::largest_difference`] compares: from 0.05 to 0.95.
const COMPARED: std::ops::RangeInclusive<usize> = 2..=12;
/// Rows whose neighbours are looked up.
const QUERIES_MAX: usize = 2_048;
/// Other rows that each of them is compared with for the similarity of strangers.
const STRANGERS_MAX: usize = 256;

/// What vectors look like.
#[derive(Debug, Clone, PartialEq)]
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
    pub neighbors: Vec<SimilarityQuantiles>,
    /// Between random rows.
    pub strangers: SimilarityQuantiles,
    /// At each of [`DUPLICATE_THRESHOLDS`].
    pub duplicates: Vec<DuplicateCounts>,
}

/// A distribution of similarities; off by 0.001 at random, since they are computed from int8 codes.
#[derive(Debug, Clone, PartialEq)]
pub struct SimilarityQuantiles {
    /// At each of [`QUANTILE_SHARES`].
    pub quantiles: Vec<f64>,
}

/// Groups of rows around the first one that is near.
#[derive(Debug, Clone, PartialEq)]
pub struct DuplicateCounts {
    /// How near a copy is at least.
    pub threshold: f64,
    /// Rows in groups of two or more.
    pub share: f64,
    /// How many groups have how many rows.
    pub group_sizes: BTreeMap<u32, usize>,
}

impl Likeness {
    /// Measures `matrix`: up to 16,384 evenly strided rows for mean and covariance, 131,072 for duplicates and
    /// neighbours, which 2,048 of them look up. Costs some seconds. Equal on every machine.
    ///
    /// # Errors
    /// When there are fewer than two rows, one has no direction, nearly all are duplicates of each other, or the
    /// caller asked to stop.
    pub fn measure(
        matrix: &VectorMatrix<'_>,
        options: &JoinOptions<'_>,
    ) -> Result<Self, LikeError> {
        if matrix.len() < 2 {
            return Err(LikeError::NoRows);
        }
        let JoinOptions { pool, kernels, .. } = *options;
        let values = strided(matrix, ROWS_MAX);
        let sample =
            VectorMatrix::from_slice(&values, matrix.dim()).expect("whole rows of a matrix");
        // First, since it refuses rows without a direction.
        let count = |&threshold: &f64| {
            let found = Duplicates::at(&sample, threshold, options)?;
            let mut group_sizes = BTreeMap::new();
            found.sizes().for_each(|size| *group_sizes.entry(size).or_default() += 1);
            Ok(DuplicateCounts { threshold, share: found.share, group_sizes })
        };
        let duplicates: Result<_, JoinError> = DUPLICATE_THRESHOLDS.iter().map(count).collect();
        let duplicates = duplicates?;
        let codes = Codes::of(&values, matrix.dim(), pool);
        let ranks = NEIGHBOR_RANKS.map(|rank| rank - 1..rank);
        let found = codes.neighbors(QUERIES_MAX, &ranks, pool, kernels);
        let neighbors = (0..ranks.len()).map(|rank| {
            SimilarityQuantiles::of(found.iter().map(|similarities| similarities[rank]).collect())
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

    /// Returns the share of the variance along so many leading directions, or along all that are known.
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
        Self { quantiles: QUANTILE_SHARES.into_iter().map(at).collect() }
    }

    /// Returns the median.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.quantiles[QUANTILE_SHARES.len() / 2]
    }

    /// Returns by how much a quantile differs at most, of those from 0.05 to 0.95.
    #[must_use]
    pub fn largest_difference(&self, other: &Self) -> f64 {
        let both = self.quantiles[COMPARED].iter().zip(&other.quantiles[COMPARED]);
        both.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
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
        let medians = [&found.neighbors[0], &found.neighbors[1]].map(SimilarityQuantiles::median);
        assert!((medians[0] - 1.0).abs() < 0.01 && medians[1].abs() < 0.01, "{found:?}");
        let counts = &found.duplicates[2];
        assert!((counts.threshold - 0.95).abs() < 1e-12 && (counts.share - 1.0).abs() < 1e-12);
        assert_eq!(counts.group_sizes, BTreeMap::from([(3, 2)]));
        let away = SimilarityQuantiles { quantiles: vec![0.25; QUANTILE_SHARES.len()] };
        assert!((away.largest_difference(&found.neighbors[0]) - 0.75).abs() < 0.01);
    }

    #[test]
    fn one_row_has_no_neighbor() {
        let pool = Pool::new(None).unwrap();
        let options = JoinOptions::new(&pool);
        let matrix = VectorMatrix::from_slice(&[1.0, 0.0], 2).unwrap();
        assert!(Likeness::measure(&matrix, &options).is_err());
    }
}
