//! [`Traversal`]: the search along links, and the memory it uses again.

use memfold_simd::Kernels;

use super::nearest::Near;
use super::view::{GraphView, Layer};
use crate::codes::squared_distance;

/// How many nodes each upper layer hands down.
const UPPER_WIDTH: usize = 4;

/// A search goes on to nodes that are farther than the last wanted one by up to a fifth of the squared distance, …
const SLACK: i32 = 5;

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
    /// More, while they are not much farther than the node of this rank: up to `most`.
    rank: usize,
    most: usize,
    /// Whether it ends when a node has the codes of the query.
    looks_up: bool,
}

impl Breadth {
    /// Follows the nearest `width` nodes.
    pub(super) const fn fixed(width: usize) -> Self {
        Self { least: width, rank: 0, most: width, looks_up: false }
    }

    /// As [`fixed`](Self::fixed), until a node has the codes of the query: no other has them.
    pub(super) const fn lookup(width: usize) -> Self {
        Self { looks_up: true, ..Self::fixed(width) }
    }

    /// Follows as many of the nearest nodes as finding `wanted` takes, at least `width`.
    pub(super) fn finding(wanted: usize, width: usize) -> Self {
        let most = width.saturating_mul(WIDENED);
        Self { least: width, rank: wanted.max(RANK_MIN) - 1, most, looks_up: false }
    }

    fn at_most(self, count: usize) -> Self {
        Self { least: self.least.min(count), most: self.most.min(count), ..self }
    }

    /// The squared distance up to which candidates beyond the least ones are followed. It shrinks as nearer ones are
    /// found.
    fn reach(self, pool: &[Candidate]) -> i32 {
        let wanted = pool.get(self.rank).map_or(i32::MAX, |last| last.distance);
        wanted.saturating_add(wanted / SLACK)
    }
}

/// Candidates whose links are followed together: more codes are on their way from memory at a time, for a few
/// that would not have been looked at.
const EXPANDED_TOGETHER: usize = 4;

/// Marks a candidate whose links have been followed. Nodes have 31 bits.
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
    kernels: &'static Kernels,
    pub(super) query: Vec<i8>,
    squared_norm: i32,
    /// Nearest first.
    pool: Vec<Candidate>,
    visited: Visited,
    positions: Vec<u32>,
    nodes: Vec<u32>,
    dots: Vec<i32>,
    /// Squared norms of `nodes`.
    norms: Vec<i32>,
    /// Nodes found by a flood, in the order in which they were come to.
    flooded: Vec<Near>,
}

/// Which positions have been seen: a bit each, which stays in a near cache, and the words to be cleared.
#[derive(Debug, Default)]
struct Visited {
    words: Vec<u64>,
    touched: Vec<u32>,
}

impl Visited {
    fn begin(&mut self, count: usize) {
        for &word in &self.touched {
            self.words[word as usize] = 0;
        }
        self.touched.clear();
        if self.words.len() < count.div_ceil(64) {
            self.words.resize(count.div_ceil(64), 0);
        }
    }

    /// Returns whether the position is seen for the first time.
    #[inline]
    fn insert(&mut self, position: u32) -> bool {
        let word = &mut self.words[position as usize / 64];
        let bit = 1 << (position % 64);
        if *word == 0 {
            self.touched.push(position / 64);
        }
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

impl Traversal {
    pub(super) fn new(kernels: &'static Kernels) -> Self {
        Self {
            kernels,
            query: Vec::new(),
            squared_norm: 0,
            pool: Vec::new(),
            visited: Visited::default(),
            positions: Vec::new(),
            nodes: Vec::new(),
            dots: Vec::new(),
            norms: Vec::new(),
            flooded: Vec::new(),
        }
    }

    /// Returns how much memory all lists have together.
    #[cfg(test)]
    pub(super) const fn capacity(&self) -> usize {
        self.pool.capacity()
            + self.visited.words.capacity()
            + self.visited.touched.capacity()
            + self.positions.capacity()
            + self.nodes.capacity()
            + self.dots.capacity()
            + self.norms.capacity()
            + self.flooded.capacity()
    }

    /// Returns the nodes that the last search found, nearest first.
    pub(super) fn found(&self) -> impl Iterator<Item = Near> {
        self.pool.iter().map(|candidate| candidate.near())
    }

    /// Finds nodes near to `self.query`.
    pub(super) fn search(&mut self, graph: &GraphView<'_>, breadth: Breadth) {
        self.squared_norm = self.kernels.dot_i8(&self.query, &self.query);
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
        self.squared_norm = self.kernels.dot_i8(&self.query, &self.query);
        self.dots.clear();
        self.kernels.dots_i8(&self.query, graph.codes.codes, &mut self.dots);
        self.pool.clear();
        self.pool.extend((0..).zip(&self.dots).map(|(node, &dot)| Candidate {
            distance: graph.codes.distance_from_dot(node, self.squared_norm, dot),
            marked: node,
        }));
        self.pool.sort_unstable_by_key(|candidate| candidate.near());
    }

    /// Searches from `self.positions`; leaves the nearest positions of the layer in the pool.
    fn search_layer(&mut self, graph: &GraphView<'_>, layer: &Layer<'_>, breadth: Breadth) {
        self.visited.begin(layer.len());
        self.pool.clear();
        let visited = &mut self.visited;
        self.positions.retain(|&position| visited.insert(position));
        self.offer_positions(graph, layer, breadth);
        let mut next = 0;
        loop {
            if breadth.looks_up && self.pool.first().is_some_and(|nearest| nearest.distance == 0) {
                break;
            }
            self.positions.clear();
            let reach = breadth.reach(&self.pool);
            let mut expanded = 0;
            while let Some(candidate) = self.pool.get_mut(next)
                && expanded < EXPANDED_TOGETHER
                && (next < breadth.least || candidate.distance <= reach)
            {
                next += 1;
                if !candidate.is_expanded() {
                    let position = candidate.marked;
                    candidate.marked |= EXPANDED;
                    self.collect_links(layer, position);
                    expanded += 1;
                }
            }
            if expanded == 0 {
                break;
            }
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

    /// Adds what the links of a position lead to and was not seen before to `self.positions`.
    fn collect_links(&mut self, layer: &Layer<'_>, position: u32) {
        let count = layer.len() as u32;
        for link in layer.links.of(position) {
            // A damaged link leads nowhere.
            if link < count && self.visited.insert(link) {
                self.positions.push(link);
            }
        }
    }

    /// Computes the distances of `self.positions`, whose nodes go to `self.nodes`; positions without one are dropped.
    fn measure(&mut self, graph: &GraphView<'_>, layer: &Layer<'_>) {
        self.nodes.clear();
        let nodes = &mut self.nodes;
        self.positions.retain(|&position| {
            let node = layer.node(position);
            nodes.extend(node);
            node.is_some()
        });
        self.norms.clear();
        self.norms.extend(self.nodes.iter().map(|&node| graph.codes.squared_norm(node)));
        self.dots.clear();
        self.kernels.dots_picked(&self.query, graph.codes.codes, &self.nodes, &mut self.dots);
    }

    /// Keeps those of `self.positions` that may be followed, and the least ones in any case; returns the first place
    /// in the pool that changed.
    fn offer_positions(
        &mut self,
        graph: &GraphView<'_>,
        layer: &Layer<'_>,
        breadth: Breadth,
    ) -> usize {
        self.measure(graph, layer);
        let reach = breadth.reach(&self.pool);
        let mut changed = usize::MAX;
        for ((&position, &norm), &dot) in self.positions.iter().zip(&self.norms).zip(&self.dots) {
            let distance = squared_distance(norm, self.squared_norm, dot);
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

    /// Follows links from what the last search found, as far as nodes are within `squared_radius`; returns these.
    pub(super) fn flood(&mut self, graph: &GraphView<'_>, squared_radius: i32) -> &[Near] {
        self.visited.begin(graph.base.len());
        self.flooded.clear();
        let within = self.pool.iter().map(|candidate| candidate.near());
        self.flooded.extend(within.take_while(|near| near.distance <= squared_radius));
        for near in &self.flooded {
            self.visited.insert(near.node);
        }
        let mut next = 0;
        while let Some(&Near { node, .. }) = self.flooded.get(next) {
            next += 1;
            self.positions.clear();
            self.collect_links(&graph.base, node);
            self.measure(graph, &graph.base);
            for (&node, &dot) in self.nodes.iter().zip(&self.dots) {
                let distance = graph.codes.distance_from_dot(node, self.squared_norm, dot);
                if distance <= squared_radius {
                    self.flooded.push(Near { distance, node });
                }
            }
        }
        &self.flooded
    }
}
