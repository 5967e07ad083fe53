//! [`Traversal`]: the search along links, and the memory it uses again.

use memfold_simd::Kernels;

use super::nearest::Near;
use super::view::{GraphView, Layer};

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

/// Candidates whose links are followed together: more codes are on their way from memory at a time, for a few
/// that would not have been looked at.
const EXPANDED_TOGETHER: usize = 2;

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

    /// Adds those of at most `limit` positions below `count` that have not been seen.
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

    /// Adds what the links of a position lead to.
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

    /// Takes what has been seen since there were so many positions as `self.positions`.
    fn take_seen(&mut self, since: usize) {
        self.positions.clear();
        self.positions.extend_from_slice(&self.visited.seen[since..]);
    }

    /// Computes the distances of `self.positions`, whose nodes go to `self.nodes`; positions without one, and those
    /// whose first codes alone are farther than `lead_max`, are dropped.
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

    /// Keeps those of `self.positions` that may be followed, and the least ones in any case; returns the first place
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

    /// Follows links from what the last search found, as far as nodes are within `squared_radius`; returns these.
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
