//! [`Searcher`]: k-nearest and range queries, answered by the canonical similarity.

use memfold_simd::{Kernels, Similarity};

use super::nearest::Near;
use super::traversal::{Breadth, Traversal};
use super::view::{GraphView, SCANNED_NODES_MAX};
use crate::{BestNeighbors, Damaged, Neighbor, Row, VectorError, VectorMatrix};

/// Nodes that are reranked for `k` rows at most: codes misplace a few.
const fn reranked_nodes(k: usize) -> usize {
    k.saturating_add(k / 2).saturating_add(8)
}

/// Nodes whose vectors are on their way from memory while one is reranked.
const FETCHED_AHEAD: usize = 3;

/// A range is searched a little farther than it reaches, to come around gaps between its nodes: by an eighth.
const RANGE_MARGIN: i32 = 8;

/// Which of the rows behind proposed nodes are found.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    Best(usize),
    From(Similarity),
}

/// Searches a graph, with memory that is used again: after some queries, one allocates nothing.
///
/// Codes and links only propose. What is returned was reranked by the canonical similarity over `vectors`, and is
/// ordered by it, then by row. All rows of a group of equal vectors are returned, each for itself.
#[derive(Debug)]
pub struct Searcher<'a> {
    graph: &'a GraphView<'a>,
    vectors: &'a VectorMatrix<'a>,
    kernels: &'static Kernels,
    memory: SearchMemory,
}

/// The memory of a [`Searcher`], which another one may use again, also for another graph.
#[derive(Debug, Default)]
pub struct SearchMemory {
    traversal: Traversal,
    /// The nodes to be reranked.
    proposed: Vec<Near>,
    best: BestNeighbors,
    found: Vec<Neighbor>,
}

impl<'a> Searcher<'a> {
    /// Makes a searcher of a graph over the vectors that it was built from.
    ///
    /// # Errors
    /// When the vectors have another dimension.
    pub fn new(
        graph: &'a GraphView<'a>,
        vectors: &'a VectorMatrix<'a>,
        kernels: &'static Kernels,
    ) -> Result<Self, Damaged> {
        Self::with_memory(SearchMemory::default(), graph, vectors, kernels)
    }

    /// Makes a searcher with the memory of an earlier one.
    ///
    /// # Errors
    /// When the vectors have another dimension.
    pub fn with_memory(
        mut memory: SearchMemory,
        graph: &'a GraphView<'a>,
        vectors: &'a VectorMatrix<'a>,
        kernels: &'static Kernels,
    ) -> Result<Self, Damaged> {
        if graph.dim() != vectors.dim() {
            return Err(Damaged::Vectors {
                index: [graph.row_count(), graph.dim()],
                found: [vectors.len(), vectors.dim()],
            });
        }
        memory.traversal.kernels = kernels;
        Ok(Self { graph, vectors, kernels, memory })
    }

    /// Returns the memory for another searcher.
    #[must_use]
    pub fn into_memory(self) -> SearchMemory {
        self.memory
    }

    /// Returns about the `k` rows most similar to `query`, best first; of rows equally similar the smaller ones.
    ///
    /// A larger `ef_search` finds more and takes longer, about in proportion: so many nodes are followed, and up to
    /// eight times as many where the wanted ones are hardly nearer than others.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    pub fn k_nearest(
        &mut self,
        query: &[f32],
        k: usize,
        ef_search: usize,
    ) -> Result<&[Neighbor], VectorError> {
        let norm = self.encode(query)?;
        self.propose(Breadth::finding(k, ef_search.max(reranked_nodes(k))), reranked_nodes(k));
        self.rerank(query, norm, Wanted::Best(k));
        Ok(&self.memory.found)
    }

    /// Returns about every row with a similarity of at least `threshold`, best first.
    ///
    /// The search comes near; from there every link within the range is followed, so that the number of rows found is
    /// not limited by `ef_search`.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    pub fn range(
        &mut self,
        query: &[f32],
        threshold: Similarity,
        ef_search: usize,
    ) -> Result<&[Neighbor], VectorError> {
        let norm = self.encode(query)?;
        let squared_radius = self.graph.coding.squared_radius(threshold.get());
        if self.graph.node_count() > SCANNED_NODES_MAX {
            self.memory.traversal.search(self.graph, Breadth::fixed(ef_search.max(1)));
            let farther = squared_radius.saturating_add(squared_radius / RANGE_MARGIN);
            self.memory.proposed.clear();
            self.memory
                .proposed
                .extend_from_slice(self.memory.traversal.flood(self.graph, farther));
        } else {
            self.propose(Breadth::fixed(1), usize::MAX);
        }
        self.memory.proposed.retain(|near| near.distance <= squared_radius);
        self.rerank(query, norm, Wanted::From(threshold));
        Ok(&self.memory.found)
    }

    /// Encodes the query and returns its squared norm.
    fn encode(&mut self, query: &[f32]) -> Result<f64, VectorError> {
        let (expected, found) = (self.graph.dim(), query.len());
        if expected != found {
            return Err(VectorError::Dimension { expected, found });
        }
        self.graph
            .coding
            .encode_query(query, self.kernels, &mut self.memory.traversal.query)
            .ok_or(VectorError::InvalidQuery { query: 0 })
    }

    /// Proposes the nearest `count` nodes of those that are found.
    fn propose(&mut self, breadth: Breadth, count: usize) {
        if self.graph.node_count() > SCANNED_NODES_MAX {
            self.memory.traversal.search(self.graph, breadth);
        } else {
            self.memory.traversal.scan(self.graph);
        }
        self.memory.proposed.clear();
        self.memory.proposed.extend(self.memory.traversal.found().take(count));
    }

    /// Judges the rows of proposed nodes, until the codes of the next ones say that they are too far.
    fn rerank(&mut self, query: &[f32], norm: f64, wanted: Wanted) {
        let (limit, threshold) = match wanted {
            Wanted::Best(limit) => (limit, None),
            Wanted::From(threshold) => (usize::MAX, Some(threshold)),
        };
        self.memory.best.reset(limit);
        // Each row stands behind one node. Where a damaged file says otherwise, as many are reranked as there are.
        let mut left = self.vectors.len();
        self.memory.proposed.iter().take(FETCHED_AHEAD).for_each(|near| self.fetch(Some(near)));
        for (at, near) in self.memory.proposed.iter().enumerate() {
            let worst = self.memory.best.similarity_min();
            if worst
                .is_some_and(|least| near.distance > self.graph.coding.squared_radius(least.get()))
            {
                break;
            }
            self.fetch(self.memory.proposed.get(at + FETCHED_AHEAD));
            let mut similarity = None;
            for (row, repeats) in self.graph.members.rows(near.node).take(left) {
                left -= 1;
                if row.index() >= self.vectors.len() {
                    continue;
                }
                if !repeats {
                    similarity = self.similarity(query, norm, row);
                }
                let passes =
                    similarity.filter(|found| threshold.is_none_or(|least| *found >= least));
                if let Some(similarity) = passes {
                    self.memory.best.offer(Neighbor { row, similarity });
                }
            }
        }
        self.memory.found.clear();
        self.memory.best.drain_into(&mut self.memory.found);
        self.memory.found.sort_unstable();
    }

    /// Asks for the first vector of a node that will be reranked soon.
    fn fetch(&self, near: Option<&Near>) {
        let row = near.and_then(|near| self.graph.members.rows(near.node).next());
        if let Some((row, _)) = row.filter(|(row, _)| row.index() < self.vectors.len()) {
            self.kernels.prefetch(bytemuck::cast_slice(self.vectors.vector(row)));
        }
    }

    fn similarity(&self, query: &[f32], norm: f64, row: Row) -> Option<Similarity> {
        let vector = self.vectors.vector(row);
        self.kernels.similarity(query, vector, (norm, self.kernels.dot(vector, vector)))
    }
}
