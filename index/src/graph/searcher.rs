//! [`Searcher`]: k-nearest and range queries, answered by the canonical similarity.

use memfold_simd::panel::BIAS_MAX;
use memfold_simd::{ColumnPanel, Kernels, RowBlock, ScoredHit, Similarity};

use super::DamagedGraph;
use super::build::SCANNED_NODES_MAX;
use super::traversal::Traversal;
use super::view::GraphView;
use crate::codes::CodeRows;
use crate::{Neighbor, Row, ScanError, VectorMatrix};

/// Nodes that are judged for `k` rows: codes misplace a few.
const fn judged_nodes(k: usize) -> usize {
    k.saturating_add(k / 2).saturating_add(8)
}

/// Nodes whose vectors are on their way from memory while one is judged.
const FETCHED_AHEAD: usize = 3;

/// A range is searched a little farther than it reaches, to come around gaps between its nodes: by an eighth.
const RANGE_MARGIN: i32 = 8;

/// Where fewer rows than one in 16 are wanted, they are all judged instead.
const SELECTIVE: usize = 16;

/// Nodes by which the share of wanted rows is estimated.
const ESTIMATED_NODES: usize = 512;

/// Searches a graph, with memory that is used again: after some queries, one allocates nothing.
///
/// Codes and links only propose. What is returned was judged by the canonical similarity over `vectors`, and is
/// ordered by it, then by row. All rows of a group of equal vectors are returned, each for itself.
#[derive(Debug)]
pub struct Searcher<'a> {
    graph: &'a GraphView<'a>,
    vectors: &'a VectorMatrix<'a>,
    kernels: &'static Kernels,
    traversal: Traversal,
    /// The nodes to be judged.
    proposed: Vec<Near>,
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
    ) -> Result<Self, DamagedGraph> {
        let (expected, found) = (graph.dim(), vectors.dim());
        if expected != found {
            return Err(DamagedGraph::Dimension { expected, found });
        }
        let traversal = Traversal::new(kernels);
        Ok(Self { graph, vectors, kernels, traversal, proposed: Vec::new(), found: Vec::new() })
    }

    /// Returns about the `k` rows most similar to `query`, best first; of rows equally similar the smaller ones.
    ///
    /// A larger `ef_search` finds more and takes longer, about in proportion.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    pub fn k_nearest(
        &mut self,
        query: &[f32],
        k: usize,
        ef_search: usize,
    ) -> Result<&[Neighbor], ScanError> {
        let norm = self.encode(query)?;
        self.propose(ef_search.max(judged_nodes(k)), judged_nodes(k));
        self.judge(query, norm, |_| true, None);
        self.found.truncate(k);
        Ok(&self.found)
    }

    /// Returns about the `k` most similar of the rows that `keep` holds for.
    ///
    /// Where it holds for few, all of them are judged, and the answer is exact.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    pub fn k_nearest_where(
        &mut self,
        query: &[f32],
        (k, ef_search): (usize, usize),
        keep: impl Fn(Row) -> bool,
    ) -> Result<&[Neighbor], ScanError> {
        let norm = self.encode(query)?;
        let (kept, seen) = self.estimate(&keep);
        if kept * SELECTIVE < seen {
            self.judge_all(query, norm, &keep);
        } else {
            let widen = |count: usize| count.saturating_mul(seen) / kept.max(1);
            let ef_search = widen(ef_search.max(judged_nodes(k)));
            self.propose(ef_search, ef_search);
            let members = self.graph.members;
            self.proposed.retain(|near| members.rows(near.node).any(|(row, _)| keep(row)));
            self.proposed.truncate(judged_nodes(k));
            self.judge(query, norm, &keep, None);
        }
        self.found.truncate(k);
        Ok(&self.found)
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
    ) -> Result<&[Neighbor], ScanError> {
        let norm = self.encode(query)?;
        let squared_radius = self.graph.coding.squared_radius(threshold.get());
        if self.graph.node_count() > SCANNED_NODES_MAX {
            self.traversal.search(self.graph, ef_search.clamp(1, self.graph.node_count()));
            let farther = squared_radius.saturating_add(squared_radius / RANGE_MARGIN);
            self.proposed.clear();
            self.proposed.extend_from_slice(self.traversal.flood(self.graph, farther));
        } else {
            self.propose(usize::MAX, usize::MAX);
        }
        self.proposed.retain(|near| near.distance <= squared_radius);
        self.judge(query, norm, |_| true, Some(threshold));
        Ok(&self.found)
    }

    /// Encodes the query and returns its squared norm.
    fn encode(&mut self, query: &[f32]) -> Result<f64, ScanError> {
        let (expected, found) = (self.graph.dim(), query.len());
        if expected != found {
            return Err(ScanError::Dimension { expected, found });
        }
        self.graph
            .coding
            .encode_query(query, self.kernels, &mut self.traversal.query)
            .ok_or(ScanError::InvalidQuery { query: 0 })
    }

    /// Proposes the nearest `count` of about `ef_search` nodes.
    fn propose(&mut self, ef_search: usize, count: usize) {
        if self.graph.node_count() > SCANNED_NODES_MAX {
            self.traversal.search(self.graph, ef_search.clamp(1, self.graph.node_count()));
        } else {
            self.traversal.scan(self.graph);
        }
        self.proposed.clear();
        self.proposed.extend(self.traversal.found().take(count));
    }

    /// Judges the rows of all proposed nodes.
    fn judge(
        &mut self,
        query: &[f32],
        norm: f64,
        keep: impl Fn(Row) -> bool,
        threshold: Option<Similarity>,
    ) {
        self.found.clear();
        // Each row stands behind one node. Where a damaged file says otherwise, as many are judged as there are.
        let mut left = self.vectors.len();
        for (at, near) in self.proposed.iter().enumerate() {
            self.fetch(self.proposed.get(at + FETCHED_AHEAD));
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
                if let Some(similarity) = passes.filter(|_| keep(row)) {
                    self.found.push(Neighbor { row, similarity });
                }
            }
        }
        self.found.sort_unstable();
    }

    /// Asks for the first vector of a node that will be judged soon.
    fn fetch(&self, near: Option<&Near>) {
        let row = near.and_then(|near| self.graph.members.rows(near.node).next());
        if let Some((row, _)) = row.filter(|(row, _)| row.index() < self.vectors.len()) {
            self.kernels.prefetch(bytemuck::cast_slice(self.vectors.vector(row)));
        }
    }

    /// Judges every row that is wanted.
    fn judge_all(&mut self, query: &[f32], norm: f64, keep: impl Fn(Row) -> bool) {
        self.found.clear();
        for row in self.vectors.rows().filter(|&row| keep(row)) {
            let similarity = self.similarity(query, norm, row);
            self.found.extend(similarity.map(|similarity| Neighbor { row, similarity }));
        }
        self.found.sort_unstable();
    }

    fn similarity(&self, query: &[f32], norm: f64, row: Row) -> Option<Similarity> {
        let vector = self.vectors.vector(row);
        self.kernels.similarity(query, vector, (norm, self.kernels.dot(vector, vector)))
    }

    /// Counts how many of some nodes have a wanted row, and these nodes.
    fn estimate(&self, keep: impl Fn(Row) -> bool) -> (usize, usize) {
        let stride = self.graph.node_count().div_ceil(ESTIMATED_NODES).max(1);
        let nodes = (0..self.graph.node_count() as u32).step_by(stride);
        let kept =
            nodes.clone().filter(|&node| self.graph.members.rows(node).any(|(row, _)| keep(row)));
        (kept.count(), nodes.len())
    }
}

/// A node and its squared distance; ordered by distance, then node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Near {
    pub(super) distance: i32,
    pub(super) node: u32,
}

/// Keeps the nearest `limit` of the nodes offered to it, in any order of offering.
///
/// They are sorted out when three times as many have come: cheaper than keeping them in order.
#[derive(Debug)]
pub(super) struct NearestList {
    kept: Vec<Near>,
    limit: usize,
    /// Nothing farther is among the nearest.
    distance_max: i32,
}

impl NearestList {
    pub(super) fn new(limit: usize) -> Self {
        Self { kept: Vec::with_capacity(3 * limit + 1), limit, distance_max: i32::MAX }
    }

    #[inline]
    pub(super) fn offer(&mut self, near: Near) {
        if near.distance <= self.distance_max {
            self.kept.push(near);
            if self.kept.len() > 3 * self.limit {
                self.sort_out();
            }
        }
    }

    /// Forgets what is not among the nearest.
    pub(super) fn sort_out(&mut self) {
        if self.kept.len() > self.limit {
            let (_, last, _) = self.kept.select_nth_unstable(self.limit - 1);
            self.distance_max = last.distance;
            self.kept.truncate(self.limit);
        }
    }

    /// Returns the nearest, nearest first.
    pub(super) fn into_sorted(mut self) -> Vec<Near> {
        self.sort_out();
        self.kept.sort_unstable();
        self.kept
    }
}

/// Some nodes, packed to be compared with many.
#[derive(Debug, Default)]
pub(super) struct PackedNodes {
    pub(super) nodes: Vec<u32>,
    squared_norms: Vec<i32>,
    panel: ColumnPanel,
}

impl PackedNodes {
    /// Packs the codes at some positions, which stand for `names`.
    pub(super) fn pack(codes: CodeRows<'_>, positions: &[u32], names: Vec<u32>) -> Self {
        let picked = codes.picked(positions);
        let biases: Vec<i32> = picked.squared_norms.iter().map(|&norm| -half_up(norm)).collect();
        let mut panel = ColumnPanel::default();
        panel.pack(&picked.codes, &biases, picked.dim);
        Self { nodes: names, squared_norms: picked.squared_norms, panel }
    }

    pub(super) const fn len(&self) -> usize {
        self.nodes.len()
    }
}

const fn half_up(norm: i32) -> i32 {
    norm / 2 + norm % 2
}

/// Compares rows with packed nodes, with memory that is used again.
///
/// `|x − y|² ≤ d ⇔ ⟨x, y⟩ − |y|²/2 + (d − |x|²)/2 ≥ 0`: columns have one bias for good, rows have one that grows
/// tighter as their lists fill.
pub(super) struct Comparer {
    kernels: &'static Kernels,
    shifted_codes: Vec<u8>,
    biases: Vec<i32>,
    hits: Vec<ScoredHit>,
}

impl Comparer {
    pub(super) const fn new(kernels: &'static Kernels) -> Self {
        Self { kernels, shifted_codes: Vec::new(), biases: Vec::new(), hits: Vec::new() }
    }

    /// Offers every packed node to the lists of the rows that `picked` names by their position in `rows`; a row is
    /// not offered to itself.
    pub(super) fn compare(
        &mut self,
        codes: CodeRows<'_>,
        (rows, picked): (&[u32], &[u32]),
        lists: &mut [NearestList],
        packed: &PackedNodes,
    ) {
        self.shifted_codes.clear();
        self.biases.clear();
        for &at in picked {
            let (row, list) = (rows[at as usize], &lists[at as usize]);
            let shifted = codes.row(row).iter().map(|&code| code.cast_unsigned() ^ 0x80);
            self.shifted_codes.extend(shifted);
            let beyond = i64::from(list.distance_max) - i64::from(codes.squared_norm(row));
            let limit = i64::from(BIAS_MAX);
            self.biases.push((beyond.div_euclid(2) + 1).clamp(-limit, limit) as i32);
        }
        let block =
            RowBlock { shifted_codes: &self.shifted_codes, biases: &self.biases, dim: codes.dim };
        self.hits.clear();
        self.kernels.scored_hits(&block, packed.panel.columns(), &mut self.hits);
        for &ScoredHit { hit, score } in &self.hits {
            let at = picked[hit.row as usize] as usize;
            let (node, norm) =
                (packed.nodes[hit.column as usize], packed.squared_norms[hit.column as usize]);
            if node != rows[at] {
                let dot = score - self.biases[hit.row as usize] + half_up(norm);
                let distance = codes.distance_from_dot(rows[at], norm, dot);
                lists[at].offer(Near { distance, node });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::tests::clustered;
    use crate::graph::{Graph, GraphOptions};
    use crate::{NoProgress, Pool};

    impl Searcher<'_> {
        fn capacities(&self) -> [usize; 3] {
            [self.traversal.capacity(), self.proposed.capacity(), self.found.capacity()]
        }
    }

    #[test]
    fn memory_is_used_again() {
        let values = clustered(6_000, 12, 11);
        let vectors = VectorMatrix::from_slice(&values, 12).unwrap();
        let (pool, kernels) = (Pool::new(None).unwrap(), Kernels::active());
        let options = GraphOptions::default();
        let graph = Graph::build(&vectors, options, &pool, kernels, &NoProgress).unwrap();
        let view = graph.view();
        assert!(view.node_count() > SCANNED_NODES_MAX);
        let mut searcher = Searcher::new(&view, &vectors, kernels).unwrap();
        let threshold = Similarity::new(0.9).unwrap();
        let mut before = [0; 3];
        for round in 0..3 {
            for row in (0..6_000).step_by(50) {
                let query = vectors.vector(Row(row));
                searcher.k_nearest(query, 10, 64).unwrap();
                searcher.range(query, threshold, 64).unwrap();
                searcher.k_nearest_where(query, (10, 64), |row| row.0 % 2 == 0).unwrap();
            }
            if round > 0 {
                assert_eq!(searcher.capacities(), before);
            }
            before = searcher.capacities();
        }
    }
}
