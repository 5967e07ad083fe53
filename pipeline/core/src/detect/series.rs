//! Spaces with more near pairs than the budget allows: a threshold that gives so many does not tell memories apart.
//!
//! Memories near to very many others ("Build #17 passed") are a series, of which only equal texts merge: they are found
//! by a sample and left out of the join. Where the rest is still too dense, it is joined at a higher threshold, which
//! the sample gives as well.

use std::collections::HashMap;

use memfold_index::{
    GraphJoin, JoinError, JoinOptions, MeasuredRecall, Pair, PairStream, Row, VectorMatrix,
    default_pair_budget, join_pairs, join_pairs_by_graph,
};
use memfold_simd::Similarity;

/// Rows with more neighbours than this are a series; the next bound where the rest is still too dense.
pub(super) const NEIGHBORS_MAX: [u64; 5] = [1_000, 250, 64, 16, 4];

/// Pairs for each row that a raised threshold is to give; the next number where it gives more than the budget.
const RAISED_PAIRS_PER_ROW: [u64; 2] = [8, 2];

/// A space of so many vectors is compared as a whole, a larger one with a sample of it.
const COMPARED_ROWS_MAX: usize = 4_096;
const SAMPLED_ROWS: usize = 1_024;
/// Rows that are compared with the sample to estimate pairs by their similarity.
const ESTIMATED_ROWS: usize = 65_536;
/// A space of more vectors is joined only where an estimate promises no more pairs than the budget.
const JOINED_ROWS_MAX: usize = 262_144;

/// Rows that one task compares with the sample.
const ROWS_PER_TASK: usize = 256;

/// The near pairs of one space.
pub(super) struct SpaceJoin {
    pairs: PairStream,
    /// The rows that were joined, where some were left out.
    kept: Option<Vec<Row>>,
    /// The rows that were left out.
    pub(super) series: Vec<Row>,
    /// The threshold of the join, where it had to be raised.
    pub(super) raised: Option<Similarity>,
}

impl SpaceJoin {
    /// Joins a space; where its pairs are more than the budget allows, without its series or at a higher threshold.
    pub(super) fn new(
        matrix: &VectorMatrix<'_>,
        threshold: Similarity,
        by: Option<&GraphJoin>,
        options: &JoinOptions<'_>,
    ) -> Result<Self, JoinError> {
        let join = |matrix: &VectorMatrix<'_>, threshold: Similarity| {
            let found = match by {
                Some(by) => join_pairs_by_graph(matrix, threshold, options, by),
                None => join_pairs(matrix, threshold, options),
            };
            match found {
                Err(JoinError::PairBudget { .. }) => Ok(None),
                found => found.map(Some),
            }
        };
        let is_large = matrix.len() > JOINED_ROWS_MAX;
        let space = is_large.then(|| Space::of(matrix, threshold, options));
        let is_dense = |space: &Space<'_>| space.estimate(&space.by_hash).is_dense();
        if !space.as_ref().is_some_and(is_dense)
            && let Some(pairs) = join(matrix, threshold)?
        {
            return Ok(Self { pairs, kept: None, series: Vec::new(), raised: None });
        }
        let space = space.unwrap_or_else(|| Space::of(matrix, threshold, options));
        let density = space.density();
        for most in if is_large { &NEIGHBORS_MAX[..1] } else { &NEIGHBORS_MAX[..] } {
            let is_series = |row: &Row| density[space.distinct[row.index()]] > *most;
            let (series, kept): (Vec<Row>, Vec<Row>) = matrix.rows().partition(is_series);
            let estimate = is_large.then(|| space.estimate(&space.distinct_of(&kept)));
            let is_dense = estimate.as_ref().is_some_and(Estimate::is_dense);
            let mut thresholds = vec![];
            if !series.is_empty() && !is_dense {
                thresholds.push(None);
            }
            if let Some(estimate) = estimate {
                let raised = RAISED_PAIRS_PER_ROW.map(|pairs| estimate.raised(pairs));
                thresholds.extend(raised.into_iter().filter(Option::is_some));
            }
            for raised in thresholds {
                if options.progress.cancelled() {
                    return Err(JoinError::Cancelled);
                }
                let threshold = raised.unwrap_or(threshold);
                if let Some(pairs) = join_rows(matrix, &kept, |matrix| join(matrix, threshold))? {
                    return Ok(Self { pairs, kept: Some(kept), series, raised });
                }
            }
        }
        let series = matrix.rows().collect();
        let pairs = join_rows(matrix, &[], |matrix| join(matrix, threshold))?;
        let pairs = pairs.expect("no rows have no pairs");
        Ok(Self { pairs, kept: Some(Vec::new()), series, raised: None })
    }

    fn row(&self, row: Row) -> Row {
        self.kept.as_ref().map_or(row, |kept| kept[row.index()])
    }

    /// Returns the groups of bit-equal rows, as the join found them.
    pub(super) fn groups(&self) -> impl Iterator<Item = Vec<Row>> + '_ {
        let groups = self.pairs.groups().iter();
        groups.map(|group| group.iter().map(|&row| self.row(row)).collect())
    }

    /// Returns the pairs of distinct rows.
    pub(super) fn pairs(&self) -> impl Iterator<Item = Pair> + '_ {
        self.pairs.pairs().map(|pair| Pair {
            left: self.row(pair.left),
            right: self.row(pair.right),
            ..pair
        })
    }

    /// Returns how many of the pairs at or above `threshold` were found, where that had to be measured.
    pub(super) fn measured_recall(&self, threshold: Similarity) -> Option<MeasuredRecall> {
        self.pairs.measured_recall(threshold)
    }
}

fn join_rows<T>(
    matrix: &VectorMatrix<'_>,
    rows: &[Row],
    join: impl Fn(&VectorMatrix<'_>) -> T,
) -> T {
    let values: Vec<f32> = rows.iter().flat_map(|&row| matrix.vector(row)).copied().collect();
    let part = VectorMatrix::from_slice(&values, matrix.dim());
    join(&part.expect("whole rows of a valid matrix"))
}

/// The distinct rows of a space, which are compared with a sample of them.
struct Space<'a> {
    matrix: &'a VectorMatrix<'a>,
    threshold: Similarity,
    options: &'a JoinOptions<'a>,
    /// For each row, its place among the distinct ones.
    distinct: Vec<usize>,
    /// The distinct rows.
    rows: Vec<Row>,
    /// The distinct rows by their bits, so that a sample does not depend on the order of the store.
    by_hash: Vec<Row>,
}

impl<'a> Space<'a> {
    fn of(
        matrix: &'a VectorMatrix<'a>,
        threshold: Similarity,
        options: &'a JoinOptions<'a>,
    ) -> Self {
        let hash = |row: Row| {
            let bytes: Vec<u8> =
                matrix.vector(row).iter().flat_map(|value| value.to_le_bytes()).collect();
            *blake3::hash(&bytes).as_bytes()
        };
        let mut places: HashMap<[u8; 32], usize> = HashMap::new();
        let mut rows: Vec<(Row, [u8; 32])> = Vec::new();
        let distinct = matrix.rows().map(|row| {
            let hash = hash(row);
            *places.entry(hash).or_insert_with(|| {
                rows.push((row, hash));
                rows.len() - 1
            })
        });
        let distinct: Vec<usize> = distinct.collect();
        let in_order = rows.iter().map(|(row, _)| *row).collect();
        rows.sort_unstable_by_key(|(_, hash)| *hash);
        let by_hash = rows.into_iter().map(|(row, _)| row).collect();
        Self { matrix, threshold, options, distinct, rows: in_order, by_hash }
    }

    /// Returns how many neighbours each distinct row has, estimated where the space is large.
    fn density(&self) -> Vec<u64> {
        let sampled = match self.by_hash.len() > COMPARED_ROWS_MAX {
            true => &self.by_hash[..SAMPLED_ROWS],
            false => &self.by_hash,
        };
        let counts = self.compared(&self.rows, sampled, |near| near.len() as u64);
        let scaled = |near: u64| near * self.rows.len() as u64 / (sampled.len() as u64).max(1);
        counts.into_iter().map(scaled).collect()
    }

    /// Estimates the pairs of some rows, which are given by hash.
    fn estimate(&self, rows: &[Row]) -> Estimate {
        let sampled = &rows[..rows.len().min(SAMPLED_ROWS)];
        let compared = &rows[..rows.len().min(ESTIMATED_ROWS)];
        let mut similarities = self.compared(compared, sampled, <[f64]>::to_vec).concat();
        similarities.sort_unstable_by(|a, b| b.total_cmp(a));
        let comparisons = (compared.len() * sampled.len()) as u64;
        Estimate { rows: rows.len() as u64, comparisons, similarities }
    }

    /// Compares rows with others, and returns the outcome of the near ones for each row.
    fn compared<T: Send>(
        &self,
        rows: &[Row],
        others: &[Row],
        outcome: impl Fn(&[f64]) -> T + Sync,
    ) -> Vec<T> {
        let JoinOptions { pool, kernels, .. } = *self.options;
        let norm = |row: Row| kernels.dot(self.matrix.vector(row), self.matrix.vector(row));
        let others: Vec<(Row, f64)> = others.iter().map(|row| (*row, norm(*row))).collect();
        let of = |row: Row, near: &mut Vec<f64>| {
            let (x, norm_x) = (self.matrix.vector(row), norm(row));
            let similarities =
                others.iter().filter(|(other, _)| *other != row).filter_map(|(other, norm_y)| {
                    kernels.similarity(x, self.matrix.vector(*other), [norm_x, *norm_y])
                });
            near.clear();
            near.extend(
                similarities
                    .filter(|similarity| *similarity >= self.threshold)
                    .map(Similarity::get),
            );
            outcome(near)
        };
        let tasks: Vec<&[Row]> = rows.chunks(ROWS_PER_TASK).collect();
        let outcomes = pool.map(tasks.len(), |task| {
            let mut near = Vec::new();
            tasks[task].iter().map(|row| of(*row, &mut near)).collect::<Vec<T>>()
        });
        outcomes.into_iter().flatten().collect()
    }

    /// Returns the distinct ones of some rows, by hash.
    fn distinct_of(&self, rows: &[Row]) -> Vec<Row> {
        let mut is_kept = vec![false; self.rows.len()];
        rows.iter().for_each(|row| is_kept[self.distinct[row.index()]] = true);
        let kept = self.by_hash.iter().filter(|row| is_kept[self.distinct[row.index()]]);
        kept.copied().collect()
    }
}

/// The pairs of some rows by their similarity, estimated by comparing some of the rows with a sample of them.
struct Estimate {
    rows: u64,
    comparisons: u64,
    /// The similarities at or above the threshold, the highest first.
    similarities: Vec<f64>,
}

impl Estimate {
    /// Tells whether it promises more pairs than the budget allows.
    fn is_dense(&self) -> bool {
        self.raised(default_pair_budget(self.rows) / self.rows.max(1)).is_some()
    }

    /// Returns the similarity at or above which the rows have about so many pairs for each; `None` where the threshold
    /// gives no more.
    fn raised(&self, pairs_per_row: u64) -> Option<Similarity> {
        // Each pair counts for both of its rows; of a row's neighbours the sample holds its share of the rows.
        let wanted = 2 * pairs_per_row * self.comparisons / self.rows.max(1);
        let similarity = self.similarities.get(wanted as usize)?;
        Similarity::clamped((similarity * 1000.0).ceil() / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use memfold_index::Pool;

    use super::*;

    #[test]
    fn a_raised_threshold_gives_about_the_pairs_that_are_wanted() {
        const ROWS: usize = 3_000;
        let mut state = 7_u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
        };
        let values: Vec<f32> = (0..ROWS * 8).map(|_| draw()).collect();
        let matrix = VectorMatrix::from_slice(&values, 8).unwrap();
        let pool = Pool::new(None).unwrap();
        let options = JoinOptions::new(&pool);
        let half = Similarity::clamped(0.5).unwrap();
        let space = Space::of(&matrix, half, &options);
        let near = |least: Similarity| {
            let near = |near: &[f64]| near.iter().filter(|near| **near >= least.get()).count();
            space.compared(&space.by_hash, &space.by_hash, near).iter().sum::<usize>() / 2
        };
        let estimate = space.estimate(&space.by_hash);
        let raised = estimate.raised(8).unwrap();
        assert!((6 * ROWS..=10 * ROWS).contains(&near(raised)), "{raised:?}: {}", near(raised));
        // As many as there are: nothing is raised.
        assert_eq!(estimate.raised(ROWS as u64), None);
        assert!(!estimate.is_dense() && near(half) > 64 * ROWS);
    }
}
