//! From linked nodes to linked units, and from those to a graph that is clustered.

use std::collections::{BTreeSet, HashMap};

use super::judge::{ApartUnits, NodeLinks};
use super::nodes::{NONE, Nodes};
use crate::cluster::{LinkGraph, NO_CLIQUE};
use crate::decisions::share;

/// What is clustered: units whose live rows are equal are one, with everything merged into any of them,
/// because what was merged into one of two equal rows might as well have been merged into the other.
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

    /// Returns the links between vertices, but for those within cliques.
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

    /// Vertices that share a node, a text, a vector or a near pair with a special vertex, but for those
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

/// Vertices by a number and, below it, by their keep-both groups: those of one group are passed over at once.
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

    /// Returns the vertices under `number` whose groups are `wanted`; none under [`NONE`].
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
