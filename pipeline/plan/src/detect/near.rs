//! The near tier: pairs of nodes whose vectors are near, and how many rows they stand for.

use memfold_index::{
    GraphJoin, JoinError, JoinOptions, JoinedPairs, MeasuredRecall, Pair, PairAudit, Row,
    VectorMatrix, join_pairs, join_pairs_by_graph,
};
use memfold_simd::Similarity;

use super::DetectError;
use super::nodes::{DistinctVectors, Nodes, pairs_of};
use memfold_model::memory::{SpaceIndex, VectorSpace};

/// Two nodes with near or equal vectors; `a < b`, so `a` holds the newer row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NodePair {
    pub(super) a: u32,
    pub(super) b: u32,
    pub(super) similarity: Similarity,
}

/// The joins of all spaces.
pub struct Joins {
    pub(super) distinct: DistinctVectors,
    joined: Vec<JoinedPairs>,
    /// What is known of the completeness of each join; none where they were exact.
    audits: Vec<PairAudit>,
}

/// Joins every space at `threshold`, never across spaces: by a graph, or exactly. A `threshold` of `None`: no pairs are asked
/// for, and none looked for.
///
/// # Errors
/// When a space cannot be joined (see [`join_pairs`] and [`join_pairs_by_graph`]), or when cancelled.
pub fn join_spaces(
    spaces: &[VectorSpace],
    matrices: &[VectorMatrix<'_>],
    threshold: Option<Similarity>,
    by: Option<&GraphJoin>,
    options: &JoinOptions<'_>,
) -> Result<Joins, DetectError> {
    let (mut joined, mut audits) = (Vec::with_capacity(matrices.len()), Vec::new());
    let Some(threshold) = threshold else {
        joined.resize_with(matrices.len(), JoinedPairs::default);
        return Ok(Joins { distinct: number_vectors(matrices, &joined), joined, audits });
    };
    for (space, matrix) in spaces.iter().zip(matrices) {
        let found = match by {
            Some(by) => join_pairs_by_graph(matrix, threshold, options, by),
            None => join_pairs(matrix, threshold, options),
        };
        let found = found.map_err(|error| match error {
            JoinError::Cancelled => DetectError::Cancelled,
            error => DetectError::Join { model: space.model.to_string(), dim: space.dim, error },
        })?;
        audits.extend(found.audit().cloned());
        joined.push(found.collect());
    }
    let distinct = number_vectors(matrices, &joined);
    Ok(Joins { distinct, joined, audits })
}

fn number_vectors(matrices: &[VectorMatrix<'_>], joined: &[JoinedPairs]) -> DistinctVectors {
    let mut places = Vec::new();
    let mut numbers = Vec::with_capacity(matrices.len());
    for (space, (matrix, join)) in matrices.iter().zip(joined).enumerate() {
        let mut representative: Vec<Row> = matrix.rows().collect();
        for group in &join.groups {
            for row in group {
                representative[row.index()] = group[0];
            }
        }
        let mut of_row = vec![0_u32; matrix.len()];
        for row in matrix.rows() {
            let first = representative[row.index()];
            of_row[row.index()] = if first == row {
                places.push((SpaceIndex(space as u32), row));
                places.len() as u32 - 1
            } else {
                of_row[first.index()]
            };
        }
        numbers.push(of_row);
    }
    DistinctVectors { numbers, places }
}

impl Joins {
    /// Returns the pairs of distinct vectors, by their numbers.
    fn pairs(&self) -> impl Iterator<Item = (u32, u32, Similarity)> {
        self.joined.iter().zip(&self.distinct.numbers).flat_map(|(joined, numbers)| {
            joined.pairs.iter().map(|&Pair { left, right, similarity }| {
                (numbers[left.index()], numbers[right.index()], similarity)
            })
        })
    }

    /// Expands near vectors to pairs of nodes with different texts or vectors, sorted.
    ///
    /// With `within`, nodes that share a vector are paired as well.
    pub(super) fn node_pairs(
        &self,
        nodes: &Nodes,
        within: bool,
        budget: u64,
    ) -> Result<Vec<NodePair>, DetectError> {
        let mut pairs = Vec::new();
        let mut push = |x: u32, y: u32, similarity| {
            pairs.push(NodePair { a: x.min(y), b: x.max(y), similarity });
            pairs.len() as u64 <= budget
        };
        let over = || DetectError::TextPairs { budget };
        for (x, y, similarity) in self.pairs() {
            for a in nodes.of_vector(x) {
                for b in nodes.of_vector(y) {
                    if !push(a, b, similarity) {
                        return Err(over());
                    }
                }
            }
        }
        for vector in nodes.vectors().filter(|_| within) {
            let mut same = nodes.of_vector(vector);
            while let Some(a) = same.next() {
                for b in same.clone() {
                    if !push(a, b, Similarity::ONE) {
                        return Err(over());
                    }
                }
            }
        }
        pairs.sort_unstable_by_key(|pair| (pair.a, pair.b));
        Ok(pairs)
    }

    /// Returns how many of the pairs of distinct vectors at or above `threshold` were found, as far as that had to be
    /// measured.
    pub(super) fn measured_recall(&self, threshold: Similarity) -> Option<MeasuredRecall> {
        let joined = self.joined.iter().zip(&self.audits);
        let recalls =
            joined.map(|(joined, audit)| audit.recall(joined.pairs.iter().copied(), threshold));
        MeasuredRecall::combined(&recalls.collect::<Vec<_>>())
    }

    /// Counts the pairs of live rows whose vectors are at least `threshold` similar, arithmetically.
    pub(super) fn live_pairs(&self, live_rows: &[u64], threshold: Similarity) -> u64 {
        let count = |vector: u32| live_rows[vector as usize];
        let within: u64 = live_rows.iter().map(|&n| pairs_of(n)).sum();
        let between: u64 = self
            .pairs()
            .filter(|&(_, _, similarity)| similarity >= threshold)
            .map(|(x, y, _)| count(x) * count(y))
            .sum();
        within + between
    }
}
