//! [`Searcher`]: k-nearest and range queries, answered by the canonical similarity.

use memfold_simd::{Kernels, Similarity};

use super::partition::Near;
use super::{GraphView, Layer, SCANNED_NODES_MAX};
use crate::{BestNeighbors, Damaged, Neighbor, Row, VectorError, VectorMatrix};

/// Nodes that are reranked for `k` rows at most: codes misplace a few.
const fn reranked_nodes(k: usize) -> usize {
    k.saturating_add(k / 2).saturating_add(8)
}

/// Vectors are prefetched so many nodes ahead of the reranked one.
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
/// Codes and links only propose. Results were reranked by the canonical similarity over `vectors`, and is
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
        if graph.dim() != vectors.dim() {
            return Err(Damaged::Vectors {
                index: [graph.row_count(), graph.dim()],
                found: [vectors.len(), vectors.dim()],
            });
        }
        let searcher = Self { graph, vectors, kernels, memory: SearchMemory::default() };
        Ok(searcher.with_memory(SearchMemory::default()))
    }

    /// Searches with the memory of an earlier searcher.
    #[must_use]
    pub fn with_memory(self, mut memory: SearchMemory) -> Self {
        memory.traversal.kernels = self.kernels;
        Self { memory, ..self }
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

    /// Proposes the nearest `count` of the nodes found.
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
        self.kernels.similarity(query, vector, [norm, self.kernels.dot(vector, vector)])
    }
}

/// How many nodes each upper layer hands down.
const UPPER_WIDTH: usize = 4;

/// A search of this width or more goes on to nodes that are farther than the last wanted one by up to a fifth of the
/// squared distance, the narrowest by a tenth, …
const SLACK_WIDTH: usize = 64;
const SLACK_PARTS: i64 = 10 * SLACK_WIDTH as i64;

/// … and keeps so many times the nodes that it follows in any case.
const WIDENED: usize = 8;

/// The last wanted node is not taken for nearer than that of this rank: one alone tells little.
const RANK_MIN: usize = 10;

/// How many nodes a search follows.
///
/// Where the nearest nodes are about as far as many others, they are found late, if at all: there, distances decide.
#[derive(Debug, Clone, Copy)]
pub(super) struct Breadth {
    /// In any case.
    least: usize,
    /// More, while they are not much farther than the node of this rank, by `slack / SLACK_PARTS`: up to `most`.
    rank: usize,
    slack: i64,
    most: usize,
    /// Whether it ends when a node has the codes of the query.
    looks_up: bool,
}

impl Breadth {
    /// Follows the nearest `width` nodes.
    pub(super) const fn fixed(width: usize) -> Self {
        Self { least: width, rank: 0, slack: 0, most: width, looks_up: false }
    }

    /// As [`fixed`](Self::fixed), until a node has the codes of the query: no other has them.
    pub(super) const fn lookup(width: usize) -> Self {
        Self { looks_up: true, ..Self::fixed(width) }
    }

    /// Follows as many of the nearest nodes as finding `wanted` takes, at least `width`.
    pub(super) fn finding(wanted: usize, width: usize) -> Self {
        Self {
            rank: wanted.max(RANK_MIN) - 1,
            slack: (SLACK_WIDTH + width.min(SLACK_WIDTH)) as i64,
            most: width.saturating_mul(WIDENED),
            ..Self::fixed(width)
        }
    }

    fn at_most(self, count: usize) -> Self {
        Self { least: self.least.min(count), most: self.most.min(count), ..self }
    }

    /// The squared distance up to which candidates beyond the least ones are followed. It shrinks as nearer ones are
    /// found.
    fn reach(self, pool: &[Candidate]) -> i32 {
        let wanted = i64::from(pool.get(self.rank).map_or(i32::MAX, |last| last.distance));
        i32::try_from(wanted + wanted * self.slack / SLACK_PARTS).unwrap_or(i32::MAX)
    }
}

/// Candidates expanded together: more codes are on their way from memory at a time, for a few
/// that would not have been looked at.
const EXPANDED_TOGETHER: usize = 2;

/// Marks an expanded candidate. Nodes have 31 bits.
const EXPANDED: u32 = 1 << 31;

/// A position of a layer and its distance, perhaps marked as expanded.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    distance: i32,
    marked: u32,
}

impl Candidate {
    const fn near(self) -> Near {
        Near { distance: self.distance, node: self.marked & !EXPANDED }
    }

    const fn is_expanded(self) -> bool {
        self.marked & EXPANDED != 0
    }
}

/// A query's codes and all that a search remembers.
#[derive(Debug)]
pub(crate) struct Traversal {
    pub(super) kernels: &'static Kernels,
    pub(super) query: Vec<i8>,
    /// Nearest first.
    pool: Vec<Candidate>,
    visited: Visited,
    positions: Vec<u32>,
    nodes: Vec<u32>,
    /// Squared distances of `nodes`, and the parts of them in other codes than the first.
    distances: Vec<i32>,
    rest_distances: Vec<i32>,
    /// Nodes found by a flood, in the order in which they were come to.
    flooded: Vec<Near>,
}

/// Which positions have been seen: a bit each, which stays in a near cache, and the positions themselves.
#[derive(Debug, Default)]
struct Visited {
    words: Vec<u64>,
    seen: Vec<u32>,
}

impl Visited {
    fn begin(&mut self, count: usize) {
        for &position in &self.seen {
            self.words[position as usize / 64] = 0;
        }
        self.seen.clear();
        if self.words.len() < count.div_ceil(64) {
            self.words.resize(count.div_ceil(64), 0);
        }
    }

    /// Adds the unseen ones of at most `limit` positions below `count`.
    ///
    /// Whether a position is new cannot be foreseen: a place is written in any case, and kept if it is.
    fn extend(&mut self, positions: impl Iterator<Item = u32>, limit: usize, count: u32) {
        let mut end = self.seen.len();
        self.seen.resize(end + limit, 0);
        for (position, _) in positions.zip(0..limit) {
            // A damaged link leads nowhere.
            if position < count {
                let word = &mut self.words[position as usize / 64];
                let bit = 1 << (position % 64);
                self.seen[end] = position;
                end += usize::from(*word & bit == 0);
                *word |= bit;
            }
        }
        self.seen.truncate(end);
    }

    /// Adds the targets of the links of a position.
    fn extend_by_links(&mut self, layer: &Layer<'_>, position: u32) {
        self.extend(layer.links.of(position), layer.links.degree(), layer.len() as u32);
    }
}

impl Default for Traversal {
    fn default() -> Self {
        Self::new(Kernels::active())
    }
}

impl Traversal {
    pub(super) const fn new(kernels: &'static Kernels) -> Self {
        Self {
            kernels,
            query: Vec::new(),
            pool: Vec::new(),
            visited: Visited { words: Vec::new(), seen: Vec::new() },
            positions: Vec::new(),
            nodes: Vec::new(),
            distances: Vec::new(),
            rest_distances: Vec::new(),
            flooded: Vec::new(),
        }
    }

    /// Returns the nodes that the last search found, nearest first.
    pub(super) fn found(&self) -> impl Iterator<Item = Near> {
        self.pool.iter().map(|candidate| candidate.near())
    }

    /// Finds nodes near to `self.query`.
    pub(super) fn search(&mut self, graph: &GraphView<'_>, breadth: Breadth) {
        self.pool.clear();
        self.positions.clear();
        let mut layer = graph.upper.last().unwrap_or(&graph.base);
        self.positions.extend(layer.first_positions());
        for (index, upper) in graph.upper.iter().enumerate().rev() {
            layer = upper;
            self.search_layer(graph, layer, Breadth::fixed(UPPER_WIDTH));
            let below = index.checked_sub(1).map_or(&graph.base, |below| &graph.upper[below]);
            self.positions.clear();
            let nodes = self.pool.iter().filter_map(|candidate| layer.node(candidate.near().node));
            self.positions.extend(nodes.filter_map(|node| below.position(node)));
        }
        if (graph.entry as usize) < graph.node_count() {
            self.positions.push(graph.entry);
        }
        self.search_layer(graph, &graph.base, breadth.at_most(graph.node_count()));
    }

    /// Compares the query with all nodes.
    pub(super) fn scan(&mut self, graph: &GraphView<'_>) {
        self.positions.clear();
        self.positions.extend(0..graph.node_count() as u32);
        self.measure(graph, &graph.base, i32::MAX);
        self.pool.clear();
        let measured = self.positions.iter().zip(&self.distances);
        self.pool.extend(measured.map(|(&marked, &distance)| Candidate { distance, marked }));
        self.pool.sort_unstable_by_key(|candidate| candidate.near());
    }

    /// Searches from `self.positions`; leaves the nearest positions of the layer in the pool.
    fn search_layer(&mut self, graph: &GraphView<'_>, layer: &Layer<'_>, breadth: Breadth) {
        self.visited.begin(layer.len());
        self.pool.clear();
        let starts = self.positions.iter().copied();
        self.visited.extend(starts, self.positions.len(), layer.len() as u32);
        self.take_seen(0);
        self.offer_positions(graph, layer, breadth);
        let mut next = 0;
        loop {
            if breadth.looks_up && self.pool.first().is_some_and(|nearest| nearest.distance == 0) {
                break;
            }
            let reach = breadth.reach(&self.pool);
            let seen = self.visited.seen.len();
            let mut expanded = 0;
            while let Some(candidate) = self.pool.get_mut(next)
                && expanded < EXPANDED_TOGETHER
                && (next < breadth.least || candidate.distance <= reach)
            {
                next += 1;
                if !candidate.is_expanded() {
                    let position = candidate.marked;
                    candidate.marked |= EXPANDED;
                    self.visited.extend_by_links(layer, position);
                    expanded += 1;
                }
            }
            if expanded == 0 {
                break;
            }
            self.take_seen(seen);
            self.fetch_links(layer, next);
            next = self.offer_positions(graph, layer, breadth).min(next).min(self.pool.len());
        }
    }

    /// Asks for the links that will be followed next, if nothing nearer is found before.
    fn fetch_links(&self, layer: &Layer<'_>, next: usize) {
        let waiting = self.pool[next..].iter().filter(|candidate| !candidate.is_expanded());
        for candidate in waiting.take(EXPANDED_TOGETHER) {
            self.kernels.prefetch(layer.links.bytes(candidate.marked));
        }
    }

    /// Takes the positions seen since there were so many as `self.positions`.
    fn take_seen(&mut self, since: usize) {
        self.positions.clear();
        self.positions.extend_from_slice(&self.visited.seen[since..]);
    }

    /// Computes the distances of `self.positions`, whose nodes go to `self.nodes`; positions without one, and
    /// nodes farther than `lead_max` by their first codes alone, are dropped.
    fn measure(&mut self, graph: &GraphView<'_>, layer: &Layer<'_>, lead_max: i32) {
        self.nodes.clear();
        let nodes = &mut self.nodes;
        self.positions.retain(|&position| {
            let node = layer.node(position);
            nodes.extend(node);
            node.is_some()
        });
        let codes = &graph.codes;
        self.distances.clear();
        let (lead, _) = codes.split(&self.query);
        self.kernels.squared_distances(lead, codes.lead, &self.nodes, &mut self.distances);
        self.drop_beyond(lead_max);
        let (_, rest) = codes.split(&self.query);
        let (distances, more) = (&mut self.distances, &mut self.rest_distances);
        codes.add_rest(rest, &self.nodes, self.kernels, distances, more);
    }

    /// Drops positions, nodes and distances beyond `distance_max`.
    fn drop_beyond(&mut self, distance_max: i32) {
        let mut kept = 0;
        for at in 0..self.distances.len() {
            self.positions[kept] = self.positions[at];
            self.nodes[kept] = self.nodes[at];
            self.distances[kept] = self.distances[at];
            kept += usize::from(self.distances[at] <= distance_max);
        }
        self.positions.truncate(kept);
        self.nodes.truncate(kept);
        self.distances.truncate(kept);
    }

    /// Returns the distance up to which a position may be kept.
    fn distance_max(&self, breadth: Breadth) -> i32 {
        let last = |count: usize| {
            let last = count.checked_sub(1).and_then(|place| self.pool.get(place));
            last.map_or(i32::MAX, |last| last.distance)
        };
        breadth.reach(&self.pool).min(last(breadth.most)).max(last(breadth.least))
    }

    /// Keeps the positions that may be followed, and the least ones in any case; returns the first place
    /// in the pool that changed.
    fn offer_positions(
        &mut self,
        graph: &GraphView<'_>,
        layer: &Layer<'_>,
        breadth: Breadth,
    ) -> usize {
        self.measure(graph, layer, graph.lead_distance_max(self.distance_max(breadth)));
        let reach = breadth.reach(&self.pool);
        let mut changed = usize::MAX;
        for (&position, &distance) in self.positions.iter().zip(&self.distances) {
            let near = Near { distance, node: position };
            let is_beyond = |place: usize| {
                let candidate = place.checked_sub(1).and_then(|place| self.pool.get(place));
                candidate.is_some_and(|candidate| near >= candidate.near())
            };
            if distance > reach && is_beyond(breadth.least) || is_beyond(breadth.most) {
                continue;
            }
            if self.pool.len() >= breadth.most {
                self.pool.pop();
            }
            let place = self.pool.partition_point(|candidate| candidate.near() < near);
            self.pool.insert(place, Candidate { distance, marked: position });
            changed = changed.min(place);
        }
        let reach = breadth.reach(&self.pool);
        let within = |candidate: &Candidate| candidate.distance <= reach;
        while self.pool.len() > breadth.least && !self.pool.last().is_some_and(within) {
            self.pool.pop();
        }
        changed
    }

    /// Follows links from the results of the last search, as far as nodes are within `squared_radius`; returns these.
    pub(super) fn flood(&mut self, graph: &GraphView<'_>, squared_radius: i32) -> &[Near] {
        self.visited.begin(graph.base.len());
        self.flooded.clear();
        let within = self.pool.iter().map(|candidate| candidate.near());
        self.flooded.extend(within.take_while(|near| near.distance <= squared_radius));
        let starts = self.flooded.iter().map(|near| near.node);
        self.visited.extend(starts, self.flooded.len(), graph.base.len() as u32);
        let mut next = 0;
        while let Some(&Near { node, .. }) = self.flooded.get(next) {
            next += 1;
            let seen = self.visited.seen.len();
            self.visited.extend_by_links(&graph.base, node);
            self.take_seen(seen);
            // None of the range is farther by some of its codes.
            self.measure(graph, &graph.base, squared_radius);
            for (&node, &distance) in self.nodes.iter().zip(&self.distances) {
                if distance <= squared_radius {
                    self.flooded.push(Near { distance, node });
                }
            }
        }
        &self.flooded
    }
}
