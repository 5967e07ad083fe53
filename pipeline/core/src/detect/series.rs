//! Series: memories near to very many others ("Build #17 passed"), of which only equal texts merge.
//!
//! A threshold that gives more pairs than the budget allows does not tell them apart. They are found by a
//! sample, left out of the join, and the rest of the space is joined without them.

use std::collections::HashMap;

use memfold_index::{
    GraphJoin, JoinError, JoinOptions, MeasuredRecall, Pair, PairStream, Row, VectorMatrix,
    join_pairs, join_pairs_by_graph,
};
use memfold_simd::Similarity;

/// Rows with more neighbours than this are a series; the next bound where the rest is still too dense.
pub(super) const NEIGHBORS_MAX: [u64; 5] = [1_000, 250, 64, 16, 4];

/// A space of so many vectors is compared as a whole, a larger one with a sample of it.
const COMPARED_ROWS_MAX: usize = 4_096;
const SAMPLED_ROWS: usize = 1_024;

/// Rows that one task compares with the sample.
const ROWS_PER_TASK: usize = 256;

/// The near pairs of one space.
pub(super) struct SpaceJoin {
    pairs: PairStream,
    /// The rows that were joined, where some were left out.
    kept: Option<Vec<Row>>,
    /// The rows that were left out.
    pub(super) series: Vec<Row>,
}

impl SpaceJoin {
    /// Joins a space; where its pairs are more than the budget allows, without its series.
    pub(super) fn new(
        matrix: &VectorMatrix<'_>,
        threshold: Similarity,
        by: Option<&GraphJoin>,
        options: &JoinOptions<'_>,
    ) -> Result<Self, JoinError> {
        let join = |matrix: &VectorMatrix<'_>| match by {
            Some(by) => join_pairs_by_graph(matrix, threshold, options, by),
            None => join_pairs(matrix, threshold, options),
        };
        match join(matrix) {
            Err(JoinError::PairBudget { .. }) => {}
            found => return Ok(Self { pairs: found?, kept: None, series: Vec::new() }),
        }
        let density = Density::of(matrix, threshold, options);
        for most in NEIGHBORS_MAX {
            if options.progress.cancelled() {
                return Err(JoinError::Cancelled);
            }
            let (series, kept) = density.split(most);
            if series.is_empty() {
                continue;
            }
            match join_rows(matrix, &kept, join) {
                Err(JoinError::PairBudget { .. }) => {}
                found => return Ok(Self { pairs: found?, kept: Some(kept), series }),
            }
        }
        let series = matrix.rows().collect();
        Ok(Self { pairs: join_rows(matrix, &[], join)?, kept: Some(Vec::new()), series })
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

fn join_rows(
    matrix: &VectorMatrix<'_>,
    rows: &[Row],
    join: impl Fn(&VectorMatrix<'_>) -> Result<PairStream, JoinError>,
) -> Result<PairStream, JoinError> {
    let values: Vec<f32> = rows.iter().flat_map(|&row| matrix.vector(row)).copied().collect();
    let part = VectorMatrix::from_slice(&values, matrix.dim());
    join(&part.expect("whole rows of a valid matrix"))
}

/// How many neighbours the rows of a space have, bit-equal rows counted once.
struct Density {
    /// For each row, its place among the distinct ones.
    distinct: Vec<usize>,
    /// Neighbours of each distinct row, estimated where the space was sampled.
    neighbors: Vec<u64>,
}

impl Density {
    fn of(matrix: &VectorMatrix<'_>, threshold: Similarity, options: &JoinOptions<'_>) -> Self {
        let JoinOptions { pool, kernels, .. } = *options;
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
        // By their bits, so that the sample does not depend on the order of the store.
        let mut sample = rows.clone();
        sample.sort_unstable_by_key(|(_, hash)| *hash);
        if sample.len() > COMPARED_ROWS_MAX {
            sample.truncate(SAMPLED_ROWS);
        }
        let norm = |row: Row| kernels.dot(matrix.vector(row), matrix.vector(row));
        let sample: Vec<(Row, f64)> = sample.iter().map(|(row, _)| (*row, norm(*row))).collect();
        let count = |row: Row| {
            let (x, norm_x) = (matrix.vector(row), norm(row));
            let is_near = |&&(other, norm_y): &&(Row, f64)| {
                let similarity = kernels.similarity(x, matrix.vector(other), (norm_x, norm_y));
                other != row && similarity.is_some_and(|similarity| similarity >= threshold)
            };
            let near = sample.iter().filter(is_near).count() as u64;
            near * rows.len() as u64 / (sample.len() as u64).max(1)
        };
        let counts = pool.map(rows.len().div_ceil(ROWS_PER_TASK), |task| {
            let end = rows.len().min((task + 1) * ROWS_PER_TASK);
            rows[task * ROWS_PER_TASK..end].iter().map(|(row, _)| count(*row)).collect::<Vec<_>>()
        });
        Self { distinct, neighbors: counts.concat() }
    }

    /// Returns the rows with more neighbours than `most`, and the others.
    fn split(&self, most: u64) -> (Vec<Row>, Vec<Row>) {
        let rows = (0..self.distinct.len() as u32).map(Row);
        rows.partition(|row| self.neighbors[self.distinct[row.index()]] > most)
    }
}
