//! The guard's word on near pairs: which may be linked, and which contradict; from linked nodes to linked units, and from
//! these to a graph that is clustered.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::cluster::{LinkGraph, NO_CLIQUE};
use crate::decisions::{Decisions, share};
use crate::memory::{Memory, MemoryIndex};
use memfold_guard::{Judgement, Reading, Verdict};
use memfold_simd::Similarity;

use super::nodes::{Item, NONE, NodePair, Nodes};
use super::{Contradiction, DetectError, DetectInput, NearMiss, PROPOSE_PROBABILITY_MIN, Unit};
use crate::policy::Policy;

const PAIRS_PER_TASK: usize = 4096;
const TEXTS_PER_TASK: usize = 512;

/// Contradictions that are kept whole; more are only counted.
pub(super) const CONTRADICTIONS_MAX: usize = 10_000;

/// Reads and compares the texts of nodes.
pub(super) struct Judge<'a> {
    pub(super) input: &'a DetectInput<'a>,
    pub(super) nodes: &'a Nodes,
}

/// A verdict, small enough to be kept for every pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Opinion {
    pub(super) verdict: Verdict,
    pub(super) contradiction_score: f64,
    /// Whether they differ in one value only.
    pub(super) update: bool,
    /// How probable it is that they say the same; 0 where they cannot, or are not to be proposed.
    pub(super) probability: f64,
}

/// Contradictory pairs, highest score first, then newest first.
#[derive(Default)]
pub(super) struct Contradictions {
    /// How many pairs of live memories there are.
    pub(super) live_pairs: u64,
    /// The worst of these.
    pub(super) live: Vec<Contradiction>,
    /// The worst pairs of which a side was merged into another memory.
    pub(super) merged: Vec<Contradiction>,
}

/// The readings of the nodes that stand in a pair.
pub(super) struct Readings {
    position: Vec<u32>,
    readings: Vec<Reading>,
}

impl Readings {
    fn of(&self, node: u32) -> &Reading {
        &self.readings[self.position[node as usize] as usize]
    }
}

impl Judge<'_> {
    /// Reads the text of every node in `pairs` once.
    pub(super) fn read(&self, pairs: &[NodePair]) -> Result<Readings, DetectError> {
        let mut position = vec![NONE; self.nodes.nodes.len()];
        for pair in pairs {
            position[pair.a as usize] = 0;
            position[pair.b as usize] = 0;
        }
        let wanted: Vec<u32> =
            (0..position.len() as u32).filter(|&node| position[node as usize] == 0).collect();
        for (i, &node) in wanted.iter().enumerate() {
            position[node as usize] = i as u32;
        }
        let read = |&node: &u32| self.memory(node).reading(self.input.guard);
        Ok(Readings { position, readings: self.each("read texts", &wanted, TEXTS_PER_TASK, read)? })
    }

    /// Gives the opinion on every pair, in order; a probability only where pairs of that similarity are proposed. Texts
    /// with one strict key need no comparison.
    pub(super) fn opinions(
        &self,
        pairs: &[NodePair],
        readings: &Readings,
        proposing: Option<Similarity>,
    ) -> Result<Vec<Opinion>, DetectError> {
        let guard = self.input.guard;
        self.each("compare texts", pairs, PAIRS_PER_TASK, |pair| {
            let (older, newer) = (readings.of(pair.b), readings.of(pair.a));
            let judgement = guard.judge(older, newer);
            let probability = match proposing {
                Some(minimum) if pair.similarity >= minimum => {
                    guard.probability(older, newer, &judgement, pair.similarity.get())
                }
                _ => 0.0,
            };
            Opinion {
                verdict: judgement.verdict,
                contradiction_score: judgement.contradiction_score,
                update: judgement.update,
                probability,
            }
        })
    }

    /// Works on items in batches of the pool, with progress; the answers stand in the order of the items.
    fn each<T: Sync, R: Send>(
        &self,
        stage: &'static str,
        items: &[T],
        per_task: usize,
        work: impl Fn(&T) -> R + Sync,
    ) -> Result<Vec<R>, DetectError> {
        let DetectInput { pool, progress, .. } = *self.input;
        let batches: Vec<&[T]> = items.chunks(per_task).collect();
        progress.begin(stage, Some(items.len() as u64));
        let done = pool.map(batches.len(), |i| {
            if progress.cancelled() {
                return Vec::new();
            }
            progress.advance(batches[i].len() as u64);
            batches[i].iter().map(&work).collect()
        });
        progress.end();
        if progress.cancelled() {
            return Err(DetectError::Cancelled);
        }
        Ok(done.into_iter().flatten().collect())
    }

    /// Finds the contradictory pairs, the worst first, then by age.
    pub(super) fn contradictions(
        &self,
        pairs: &[NodePair],
        opinions: &[Opinion],
        readings: &Readings,
    ) -> Contradictions {
        let policy = self.input.policy;
        let mut found: Vec<(&NodePair, f64)> = pairs
            .iter()
            .zip(opinions)
            .filter(|(pair, opinion)| {
                let enough = match opinion.update {
                    true => policy.update_similarity(),
                    false => policy.detect.contradiction_similarity,
                };
                opinion.verdict == Verdict::Conflict && pair.similarity >= enough
            })
            .map(|(pair, opinion)| (pair, opinion.contradiction_score))
            .collect();
        // Pairs stand in order of age, and the sort is stable.
        found.sort_by(|x, y| y.1.total_cmp(&x.1));
        let apart: BTreeSet<(u32, u32)> = found.iter().map(|(pair, _)| (pair.a, pair.b)).collect();
        let (live, merged): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(pair, _)| self.both_live(pair));
        let worst = |pairs: &[(&NodePair, f64)]| {
            let kept = pairs.iter().take(CONTRADICTIONS_MAX);
            kept.map(|(pair, _)| self.contradiction(pair, readings, &apart)).collect()
        };
        Contradictions { live_pairs: live.len() as u64, live: worst(&live), merged: worst(&merged) }
    }

    fn contradiction(
        &self,
        pair: &NodePair,
        readings: &Readings,
        apart: &BTreeSet<(u32, u32)>,
    ) -> Contradiction {
        Contradiction {
            older: self.representative(pair.b, apart),
            newer: self.representative(pair.a, apart),
            similarity: pair.similarity,
            judgement: self.judgement(pair, readings),
        }
    }

    fn judgement(&self, pair: &NodePair, readings: &Readings) -> Judgement {
        self.input.guard.judge(readings.of(pair.b), readings.of(pair.a))
    }

    /// The row that speaks for a node in any run: the newest, live or merged into another, but for rows merged
    /// into its own contradiction, because a person said that this one holds.
    fn representative(&self, node: u32, apart: &BTreeSet<(u32, u32)>) -> MemoryIndex {
        let items = self.nodes.items(node);
        let holds = |item: &&Item| {
            let live = self.nodes.live_nodes[item.unit as usize];
            item.live || !apart.contains(&(node.min(live), node.max(live)))
        };
        items.iter().find(holds).unwrap_or(&items[0]).memory
    }

    /// Returns the nearest pairs just below the threshold, and the nearest that the guard kept apart.
    pub(super) fn near_misses(
        &self,
        pairs: &[NodePair],
        opinions: &[Opinion],
        readings: &Readings,
        threshold: Similarity,
    ) -> Vec<NearMiss> {
        const EACH: usize = 10;
        let pick = |wanted: &dyn Fn(&NodePair, &Opinion) -> bool| {
            let mut found: Vec<&NodePair> = pairs
                .iter()
                .zip(opinions)
                .filter(|(pair, opinion)| wanted(pair, opinion) && self.both_live(pair))
                .map(|(pair, _)| pair)
                .collect();
            found.sort_by_key(|pair| std::cmp::Reverse(pair.similarity));
            found.truncate(EACH);
            found
        };
        let below =
            pick(&|pair, opinion| pair.similarity < threshold && opinion.verdict.is_proven());
        let apart =
            pick(&|pair, opinion| pair.similarity >= threshold && !opinion.verdict.is_proven());
        let miss = |pair| self.miss(pair, None);
        let kept_apart = |pair| self.miss(pair, Some(self.judgement(pair, readings)));
        below.into_iter().filter_map(miss).chain(apart.into_iter().filter_map(kept_apart)).collect()
    }

    /// `None` where a side has no live row.
    fn miss(&self, pair: &NodePair, kept_apart: Option<Judgement>) -> Option<NearMiss> {
        let older = self.nodes.newest_live(pair.b)?.memory;
        let newer = self.nodes.newest_live(pair.a)?.memory;
        Some(NearMiss { older, newer, similarity: pair.similarity, kept_apart })
    }

    /// Draws `count` pairs of live memories that are at least as similar as `from` says and that nothing proves or proposes,
    /// at random by their ids: the same ones each time.
    pub(super) fn refused(
        &self,
        pairs: &[NodePair],
        opinions: &[Opinion],
        readings: &Readings,
        from: Similarity,
        count: usize,
    ) -> Vec<NearMiss> {
        let is_refused = |(pair, opinion): &(&NodePair, &Opinion)| {
            pair.similarity >= from
                && !opinion.verdict.is_proven()
                && opinion.probability < PROPOSE_PROBABILITY_MIN
        };
        let refused = pairs.iter().zip(opinions).filter(is_refused);
        let mut drawn: Vec<_> = refused
            .filter_map(|(pair, _)| {
                let found = self.miss(pair, None)?;
                let id =
                    |memory: MemoryIndex| self.input.snapshot.memories[memory.index()].id.as_str();
                let draw = format!("{}\n{}", id(found.older), id(found.newer));
                Some((*blake3::hash(draw.as_bytes()).as_bytes(), pair, found))
            })
            .collect();
        drawn.sort_unstable_by_key(|(draw, ..)| *draw);
        drawn.truncate(count);
        let judged = drawn.into_iter().map(|(_, pair, found)| NearMiss {
            kept_apart: Some(self.judgement(pair, readings)),
            ..found
        });
        judged.collect()
    }

    fn both_live(&self, pair: &NodePair) -> bool {
        let live = |node: u32| self.nodes.nodes[node as usize].live_count > 0;
        live(pair.a) && live(pair.b)
    }

    fn memory(&self, node: u32) -> &Memory {
        &self.input.snapshot.memories[self.nodes.items(node)[0].memory.index()]
    }
}

/// Counts pairs at or above `threshold` by verdict.
pub(super) fn count_verdicts(
    pairs: &[NodePair],
    opinions: &[Opinion],
    threshold: Similarity,
) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for (_, opinion) in pairs.iter().zip(opinions).filter(|(p, _)| p.similarity >= threshold) {
        *counts.entry(opinion.verdict.name()).or_insert(0) += 1;
    }
    counts
}

/// Which nodes are linked: by a near pair that the guard lets pass, by equal text, or (unguarded) by equal vectors.
pub(super) struct NodeLinks {
    /// `(a, b)` with `a < b`, sorted; without pairs that share a text key or, unguarded, a vector.
    pub(super) near: Vec<(u32, u32)>,
    /// Both directions of `near`, sorted.
    both: Vec<(u32, u32)>,
    pub(super) equal_vectors_link: bool,
}

impl NodeLinks {
    /// Keeps the pairs that are at least as similar as `from` says and agree in their classes.
    pub(super) fn new(
        nodes: &Nodes,
        pairs: &[NodePair],
        policy: &Policy,
        from: impl Fn(usize) -> Option<Similarity>,
    ) -> Self {
        let equal_vectors_link = !policy.guard.enabled;
        let explicit = |&(i, pair): &(usize, &NodePair)| {
            let (a, b) = (&nodes.nodes[pair.a as usize], &nodes.nodes[pair.b as usize]);
            let implicit =
                (a.key == b.key && a.key != NONE) || (equal_vectors_link && a.vector == b.vector);
            let near = from(i).is_some_and(|from| pair.similarity >= from);
            near && a.class == b.class && !implicit
        };
        let near: Vec<(u32, u32)> =
            pairs.iter().enumerate().filter(explicit).map(|(_, p)| (p.a, p.b)).collect();
        let mut both: Vec<(u32, u32)> = near.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
        both.sort_unstable();
        Self { near, both, equal_vectors_link }
    }

    pub(super) fn linked(&self, nodes: &Nodes, a: u32, b: u32) -> bool {
        if a == b {
            return true;
        }
        let (x, y) = (&nodes.nodes[a as usize], &nodes.nodes[b as usize]);
        (x.key == y.key && x.key != NONE)
            || (self.equal_vectors_link
                && x.vector == y.vector
                && x.vector != NONE
                && x.class == y.class)
            || self.near.binary_search(&(a.min(b), a.max(b))).is_ok()
    }

    pub(super) fn neighbors(&self, node: u32) -> impl Iterator<Item = u32> {
        let start = self.both.partition_point(|&(from, _)| from < node);
        self.both[start..].iter().take_while(move |&&(from, _)| from == node).map(|&(_, to)| to)
    }
}

/// Which keep-both groups each unit is in, by its live row or a merged row. Units of one group are never merged.
pub(super) struct ApartUnits {
    groups: BTreeMap<u32, Vec<u32>>,
}

impl ApartUnits {
    /// Lifts decisions about memories to units. A group within one unit says nothing.
    pub(super) fn new(memories: &[Memory], units: &[Unit], decisions: &Decisions) -> Self {
        let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        if decisions.keep_both.is_empty() {
            return Self { groups };
        }
        for (unit, Unit { live, merged_rows }) in (0_u32..).zip(units) {
            for memory in std::iter::once(live).chain(merged_rows) {
                let id = &memories[memory.index()].id;
                for group in decisions.keep_both.separating_groups_of(id) {
                    groups.entry(unit).or_default().push(group);
                }
            }
        }
        let mut units_in: HashMap<u32, u32> = HashMap::new();
        for numbers in groups.values_mut() {
            numbers.sort_unstable();
            numbers.dedup();
            for &number in &*numbers {
                *units_in.entry(number).or_default() += 1;
            }
        }
        groups.retain(|_, numbers| {
            numbers.retain(|number| units_in[number] > 1);
            !numbers.is_empty()
        });
        Self { groups }
    }

    /// Tells whether a unit is kept apart from any other.
    pub(super) fn has(&self, unit: u32) -> bool {
        self.groups.contains_key(&unit)
    }

    /// Returns the groups of a unit, ascending.
    pub(super) fn groups_of(&self, unit: u32) -> &[u32] {
        self.groups.get(&unit).map_or(&[], Vec::as_slice)
    }
}

/// The vertices to cluster: units with equal live rows are one, with everything merged into any of them,
/// because a row merged into one of two equal rows might as well have been merged into the other.
pub(super) struct Vertices {
    /// Units of each vertex, newest first; vertices by their newest unit.
    pub(super) units: Vec<Vec<u32>>,
    /// Nodes of each vertex, ascending, without repeats.
    nodes: Vec<Vec<u32>>,
    /// Whether the vertex is one node and nothing else.
    plain: Vec<bool>,
    /// The plain vertex of each node, or [`NONE`].
    plain_of_node: Vec<u32>,
    /// Number of the set of keep-both groups that each vertex is in; 0: none.
    apart: Vec<u32>,
    /// The groups of each number, ascending.
    apart_groups: Vec<Vec<u32>>,
}

impl Vertices {
    /// Groups units by the node of their live row, except those with a keep-both decision.
    pub(super) fn new(nodes: &Nodes, kept_apart: &ApartUnits) -> Self {
        let mut vertex_of_node: HashMap<u32, u32> = HashMap::new();
        let mut units: Vec<Vec<u32>> = Vec::new();
        for (unit, &live_node) in nodes.live_nodes.iter().enumerate() {
            let unit = unit as u32;
            let next = units.len() as u32;
            let vertex = if kept_apart.has(unit) {
                next
            } else {
                *vertex_of_node.entry(live_node).or_insert(next)
            };
            if vertex == next {
                units.push(Vec::new());
            }
            units[vertex as usize].push(unit);
        }
        let mut vertices = Self {
            units,
            nodes: Vec::new(),
            plain: Vec::new(),
            plain_of_node: vec![NONE; nodes.nodes.len()],
            apart: Vec::new(),
            apart_groups: vec![Vec::new()],
        };
        vertices.number_groups(kept_apart);
        vertices.spread(nodes);
        vertices
    }

    fn number_groups(&mut self, kept_apart: &ApartUnits) {
        let mut numbers: HashMap<&[u32], u32> = HashMap::from([(&[][..], 0)]);
        for units in &self.units {
            // A unit with a decision is a vertex of its own.
            let groups = kept_apart.groups_of(units[0]);
            let next = numbers.len() as u32;
            let number = *numbers.entry(groups).or_insert(next);
            if number == next {
                self.apart_groups.push(groups.to_vec());
            }
            self.apart.push(number);
        }
    }

    fn spread(&mut self, nodes: &Nodes) {
        for (vertex, units) in self.units.iter().enumerate() {
            let all = units.iter().flat_map(|&unit| &nodes.unit_nodes[unit as usize]);
            let mut own: Vec<u32> = all.copied().collect();
            own.sort_unstable();
            own.dedup();
            let plain = own.len() == 1 && self.apart[vertex] == 0;
            if plain {
                self.plain_of_node[own[0] as usize] = vertex as u32;
            }
            self.plain.push(plain);
            self.nodes.push(own);
        }
    }

    /// Builds the graph that the clustering works on.
    pub(super) fn graph(&self, nodes: &Nodes, links: &NodeLinks) -> LinkGraph {
        LinkGraph::new(self.cliques(nodes, links), &self.edges(nodes, links))
    }

    /// Returns the links between vertices, but for the ones within cliques.
    pub(super) fn edges(&self, nodes: &Nodes, links: &NodeLinks) -> Vec<(u32, u32)> {
        let mut edges: Vec<(u32, u32)> = Vec::new();
        for &(a, b) in &links.near {
            let (v, w) = (self.plain_of_node[a as usize], self.plain_of_node[b as usize]);
            if v != NONE && w != NONE {
                edges.push((v.min(w), v.max(w)));
            }
        }
        if self.plain.contains(&false) {
            self.link_special(nodes, links, &mut edges);
        }
        edges
    }

    /// Adds the edges of vertices that are not plain.
    fn link_special(&self, nodes: &Nodes, links: &NodeLinks, edges: &mut Vec<(u32, u32)>) {
        let plain = |v: u32| self.plain[v as usize];
        let holders = Holders::new(self, nodes, links);
        for v in (0..self.units.len() as u32).filter(|&v| !plain(v)) {
            for w in self.candidates(&holders, nodes, links, v) {
                // Two special vertices meet twice: the smaller one speaks.
                if (plain(w) || v < w) && self.all_linked(nodes, links, v, w) {
                    edges.push((v.min(w), v.max(w)));
                }
            }
        }
    }

    /// Vertices that share a node, a text, a vector or a near pair with a special vertex, but for the ones
    /// that are kept apart from it.
    fn candidates(
        &self,
        holders: &Holders,
        nodes: &Nodes,
        links: &NodeLinks,
        vertex: u32,
    ) -> BTreeSet<u32> {
        let groups = |apart: u32| &self.apart_groups[apart as usize];
        let own_groups = groups(self.apart[vertex as usize]);
        let together = |apart: u32| !share(own_groups, groups(apart));
        let mut found = BTreeSet::new();
        for &node in &self.nodes[vertex as usize] {
            let held = &nodes.nodes[node as usize];
            found.extend(holders.by_node.of(node, together));
            found.extend(holders.by_key.of(held.key, together));
            found.extend(holders.by_vector.of(held.vector, together));
            for near in links.neighbors(node) {
                found.extend(holders.by_node.of(near, together));
            }
        }
        found.remove(&vertex);
        found
    }

    fn all_linked(&self, nodes: &Nodes, links: &NodeLinks, v: u32, w: u32) -> bool {
        let (own, theirs) = (&self.nodes[v as usize], &self.nodes[w as usize]);
        own.iter().all(|&n| theirs.iter().all(|&m| links.linked(nodes, n, m)))
    }

    /// Plain vertices of one text (or, unguarded, one vector and class) are linked without edges.
    pub(super) fn cliques(&self, nodes: &Nodes, links: &NodeLinks) -> Vec<[u32; 2]> {
        let mut texts: HashMap<u32, u32> = HashMap::new();
        let mut vectors: HashMap<(u32, u32), u32> = HashMap::new();
        (0..self.units.len() as u32)
            .map(|v| {
                if !self.plain[v as usize] {
                    return [NO_CLIQUE; 2];
                }
                let node = &nodes.nodes[self.nodes[v as usize][0] as usize];
                let next = texts.len() as u32;
                let text = if node.key == NONE {
                    NO_CLIQUE
                } else {
                    *texts.entry(node.key).or_insert(next)
                };
                let next = vectors.len() as u32;
                let vector = if links.equal_vectors_link && node.vector != NONE {
                    *vectors.entry((node.vector, node.class)).or_insert(next)
                } else {
                    NO_CLIQUE
                };
                [text, vector]
            })
            .collect()
    }
}

/// Which vertices hold a node, a text key or, where equal vectors link, a vector.
struct Holders {
    by_node: Index,
    by_key: Index,
    by_vector: Index,
}

impl Holders {
    fn new(vertices: &Vertices, nodes: &Nodes, links: &NodeLinks) -> Self {
        let index = |number: &dyn Fn(u32) -> u32| {
            let held = vertices.nodes.iter().zip(&vertices.apart).zip(0_u32..);
            Index::new(held.flat_map(|((own, &apart), vertex)| {
                own.iter().map(move |&node| (number(node), apart, vertex))
            }))
        };
        let vector = |node: u32| {
            if links.equal_vectors_link { nodes.nodes[node as usize].vector } else { NONE }
        };
        Self {
            by_node: index(&|node| node),
            by_key: index(&|node| nodes.nodes[node as usize].key),
            by_vector: index(&vector),
        }
    }
}

/// Vertices by a number and, below it, by their keep-both groups: the vertices of one group are passed over at once.
struct Index {
    /// `(number, groups, vertex)`, sorted, without repeats.
    entries: Vec<(u32, u32, u32)>,
}

impl Index {
    fn new(entries: impl Iterator<Item = (u32, u32, u32)>) -> Self {
        let mut entries: Vec<_> = entries.filter(|&(number, ..)| number != NONE).collect();
        entries.sort_unstable();
        entries.dedup();
        Self { entries }
    }

    /// Returns the vertices under `number` with groups that are `wanted`; none under [`NONE`].
    fn of(&self, number: u32, wanted: impl Fn(u32) -> bool) -> impl Iterator<Item = u32> {
        let start = self.entries.partition_point(|&(n, ..)| n < number);
        let mut rest = &self.entries[start..];
        std::iter::from_fn(move || {
            while let Some(&(_, apart, _)) = rest.first().filter(|entry| entry.0 == number) {
                let end = rest.partition_point(|&(n, a, _)| (n, a) == (number, apart));
                let run;
                (run, rest) = rest.split_at(end);
                if wanted(apart) {
                    return Some(run);
                }
            }
            None
        })
        .flatten()
        .map(|&(.., vertex)| vertex)
    }
}
