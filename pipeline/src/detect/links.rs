//! From linked nodes to linked units, and from those to clusters.

use std::collections::{BTreeSet, HashMap};

use memfold_simd::Similarity;

use super::Unit;
use super::near::NodePair;
use super::nodes::{NONE, Nodes};
use crate::cluster::{LinkGraph, NO_CLIQUE};
use crate::decisions::Decisions;
use crate::memory::Memory;
use crate::policy::Policy;

/// Which nodes are linked: by a near pair that the guard lets pass, by equal text, or (unguarded) by equal vectors.
pub(super) struct NodeLinks {
    /// `(a, b)` with `a < b`, sorted; without pairs that share a text key or, unguarded, a vector.
    near: Vec<(u32, u32)>,
    /// Both directions of `near`, sorted.
    both: Vec<(u32, u32)>,
    equal_vectors_link: bool,
}

impl NodeLinks {
    /// Keeps the pairs at or above `threshold` that `passes` and whose classes agree.
    pub(super) fn new(
        nodes: &Nodes,
        pairs: &[NodePair],
        threshold: Similarity,
        policy: &Policy,
        passes: impl Fn(usize) -> bool,
    ) -> Self {
        let equal_vectors_link = !policy.guard.enabled;
        let explicit = |&(i, pair): &(usize, &NodePair)| {
            let (a, b) = (&nodes.nodes[pair.a as usize], &nodes.nodes[pair.b as usize]);
            let implicit =
                (a.key == b.key && a.key != NONE) || (equal_vectors_link && a.vector == b.vector);
            pair.similarity >= threshold && a.class == b.class && !implicit && passes(i)
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

    fn neighbors(&self, node: u32) -> impl Iterator<Item = u32> {
        let start = self.both.partition_point(|&(from, _)| from < node);
        self.both[start..].iter().take_while(move |&&(from, _)| from == node).map(|&(_, to)| to)
    }
}

/// What is clustered: units whose live rows are equal are one, with everything folded into any of them,
/// because what was folded into one of two equal rows might as well have been folded into the other.
pub(super) struct Vertices {
    /// Units of each vertex, newest first; vertices by their newest unit.
    pub(super) units: Vec<Vec<u32>>,
    /// Nodes of each vertex, ascending, without repeats.
    nodes: Vec<Vec<u32>>,
    /// Vertices that hold each node.
    of_node: Vec<Vec<u32>>,
    /// Whether the vertex is one node and nothing else.
    plain: Vec<bool>,
}

impl Vertices {
    /// Groups units by the node of their live row, except those with a keep-both decision.
    pub(super) fn new(nodes: &Nodes, kept_apart: &BTreeSet<u32>) -> Self {
        let mut vertex_of_node: HashMap<u32, u32> = HashMap::new();
        let mut units: Vec<Vec<u32>> = Vec::new();
        for (unit, &live_node) in nodes.live_nodes.iter().enumerate() {
            let unit = unit as u32;
            let next = units.len() as u32;
            let vertex = if kept_apart.contains(&unit) {
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
            of_node: vec![Vec::new(); nodes.nodes.len()],
            plain: Vec::new(),
        };
        vertices.spread(nodes, kept_apart);
        vertices
    }

    fn spread(&mut self, nodes: &Nodes, kept_apart: &BTreeSet<u32>) {
        for (vertex, units) in self.units.iter().enumerate() {
            let all = units.iter().flat_map(|&unit| &nodes.unit_nodes[unit as usize]);
            let mut own: Vec<u32> = all.copied().collect();
            own.sort_unstable();
            own.dedup();
            for &node in &own {
                self.of_node[node as usize].push(vertex as u32);
            }
            self.plain.push(own.len() == 1 && !kept_apart.contains(&units[0]));
            self.nodes.push(own);
        }
    }

    /// Builds the graph that the clustering works on.
    pub(super) fn graph(
        &self,
        nodes: &Nodes,
        links: &NodeLinks,
        apart: &BTreeSet<(u32, u32)>,
    ) -> LinkGraph {
        let plain = |v: u32| self.plain[v as usize];
        let mut edges: Vec<(u32, u32)> = Vec::new();
        for &(a, b) in &links.near {
            for &v in self.of_node[a as usize].iter().filter(|&&v| plain(v)) {
                for &w in self.of_node[b as usize].iter().filter(|&&w| plain(w)) {
                    edges.push((v.min(w), v.max(w)));
                }
            }
        }
        for v in (0..self.units.len() as u32).filter(|&v| !plain(v)) {
            for w in self.candidates(nodes, links, v) {
                // Two special vertices meet twice: the smaller one speaks.
                if (plain(w) || v < w) && self.all_linked(nodes, links, apart, (v, w)) {
                    edges.push((v.min(w), v.max(w)));
                }
            }
        }
        LinkGraph::new(self.cliques(nodes, links), &edges)
    }

    /// Vertices that share a node, a text, a vector or a near pair with a special vertex.
    fn candidates(&self, nodes: &Nodes, links: &NodeLinks, vertex: u32) -> BTreeSet<u32> {
        let own = &self.nodes[vertex as usize];
        let mut found = BTreeSet::new();
        for &node in own {
            found.extend(&self.of_node[node as usize]);
            for near in links.neighbors(node) {
                found.extend(&self.of_node[near as usize]);
            }
            for equal in nodes.equal_to(node, links.equal_vectors_link) {
                found.extend(&self.of_node[equal as usize]);
            }
        }
        found.remove(&vertex);
        found
    }

    fn all_linked(
        &self,
        nodes: &Nodes,
        links: &NodeLinks,
        apart: &BTreeSet<(u32, u32)>,
        (v, w): (u32, u32),
    ) -> bool {
        let (a, b) = (self.units[v as usize][0], self.units[w as usize][0]);
        let kept_apart = self.units[w as usize].len() == 1 && apart.contains(&(a.min(b), a.max(b)));
        let (own, theirs) = (&self.nodes[v as usize], &self.nodes[w as usize]);
        !kept_apart && own.iter().all(|&n| theirs.iter().all(|&m| links.linked(nodes, n, m)))
    }

    /// Plain vertices of one text (or, unguarded, one vector and class) are linked without edges.
    fn cliques(&self, nodes: &Nodes, links: &NodeLinks) -> Vec<[u32; 2]> {
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

/// Turns keep-both decisions into pairs of units: smaller first.
pub(super) fn kept_apart(
    memories: &[Memory],
    units: &[Unit],
    decisions: &Decisions,
) -> BTreeSet<(u32, u32)> {
    if decisions.keep_both.is_empty() {
        return BTreeSet::new();
    }
    let mut unit_of = HashMap::new();
    for (i, unit) in units.iter().enumerate() {
        for memory in std::iter::once(&unit.live).chain(&unit.ghosts) {
            unit_of.insert(&memories[memory.index()].id, i as u32);
        }
    }
    let pairs = decisions.keep_both.iter().filter_map(|(a, b)| {
        let (a, b) = (*unit_of.get(a)?, *unit_of.get(b)?);
        (a != b).then(|| (a.min(b), a.max(b)))
    });
    pairs.collect()
}
