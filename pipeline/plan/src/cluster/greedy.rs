//! Greedy complete linkage, in time proportional to the edges.

/// The mark of a vertex that is in no clique of a kind.
pub const NO_CLIQUE: u32 = u32::MAX;

/// Vertices in processing order and the links between them.
///
/// Two vertices are linked when `edges` says so, or when they share a clique. Cliques (all texts
/// equal, all vectors equal) stay implicit, so that ten thousand copies cost ten thousand entries and not
/// fifty million edges. Two vertices share at most one clique, and no edge repeats a clique or another edge.
#[derive(Debug, Clone, Default)]
pub struct LinkGraph {
    offsets: Vec<usize>,
    targets: Vec<u32>,
    cliques: Vec<[u32; 2]>,
    clique_members: [Vec<Vec<u32>>; 2],
}

impl LinkGraph {
    /// Makes the graph of `cliques.len()` vertices. `cliques` names each vertex's clique of both
    /// kinds ([`NO_CLIQUE`]: none; otherwise dense from 0); `edges` are undirected, each given once.
    #[must_use]
    pub fn new(cliques: Vec<[u32; 2]>, edges: &[(u32, u32)]) -> Self {
        let vertex_count = cliques.len();
        let mut offsets = vec![0_usize; vertex_count + 1];
        for &(a, b) in edges {
            offsets[a as usize + 1] += 1;
            offsets[b as usize + 1] += 1;
        }
        for i in 0..vertex_count {
            offsets[i + 1] += offsets[i];
        }
        let mut next = offsets.clone();
        let mut targets = vec![0_u32; edges.len() * 2];
        for &(a, b) in edges {
            for (from, to) in [(a, b), (b, a)] {
                targets[next[from as usize]] = to;
                next[from as usize] += 1;
            }
        }
        let clique_members = [members_of(&cliques, 0), members_of(&cliques, 1)];
        Self { offsets, targets, cliques, clique_members }
    }

    /// Returns the number of vertices.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.cliques.len()
    }

    /// Tells whether there are no vertices.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.cliques.is_empty()
    }

    /// Returns the vertices that an edge links to `vertex`, in no particular order.
    #[must_use]
    pub fn neighbors(&self, vertex: u32) -> &[u32] {
        &self.targets[self.offsets[vertex as usize]..self.offsets[vertex as usize + 1]]
    }

    /// Returns the members of each clique of `vertex`, itself included.
    pub fn cliques(&self, vertex: u32) -> impl Iterator<Item = &[u32]> {
        let ids = self.cliques[vertex as usize];
        (0..2).filter(move |&kind| ids[kind] != NO_CLIQUE).map(move |kind| {
            let members: &[u32] = &self.clique_members[kind][ids[kind] as usize];
            members
        })
    }
}

fn members_of(cliques: &[[u32; 2]], kind: usize) -> Vec<Vec<u32>> {
    let named = cliques.iter().map(|ids| ids[kind]).filter(|&id| id != NO_CLIQUE);
    let count = named.max().map_or(0, |id| id as usize + 1);
    let mut members = vec![Vec::new(); count];
    for (vertex, ids) in cliques.iter().enumerate() {
        if ids[kind] != NO_CLIQUE {
            members[ids[kind] as usize].push(vertex as u32);
        }
    }
    members
}

/// Clusters by greedy complete linkage: in vertex order, each vertex joins the first cluster to
/// whose every member it is linked, else it opens one.
///
/// Returns all clusters, singletons included, by their first vertex; members ascend.
/// Costs O(vertices + edges + Σ over clusters of their first member's clique sizes).
///
/// A vertex is linked to a whole cluster iff the links it has into the cluster are as many as the
/// cluster has members, so counting replaces looking up pairs.
#[must_use]
pub fn greedy_complete(graph: &LinkGraph) -> Vec<Vec<u32>> {
    let mut state = Greedy::new(graph);
    let mut clusters = Vec::new();
    for seed in 0..graph.len() as u32 {
        if !state.assigned[seed as usize] {
            clusters.push(state.grow(seed));
        }
    }
    clusters
}

struct Greedy<'a> {
    graph: &'a LinkGraph,
    assigned: Vec<bool>,
    /// Edges from a vertex into the cluster being grown; zero between clusters.
    links: Vec<u32>,
    touched: Vec<u32>,
    /// Members of the cluster being grown in each clique; zero between clusters.
    clique_links: [Vec<u32>; 2],
}

impl<'a> Greedy<'a> {
    fn new(graph: &'a LinkGraph) -> Self {
        Self {
            graph,
            assigned: vec![false; graph.len()],
            links: vec![0; graph.len()],
            touched: Vec::new(),
            clique_links: [0, 1].map(|kind: usize| vec![0; graph.clique_members[kind].len()]),
        }
    }

    fn grow(&mut self, seed: u32) -> Vec<u32> {
        let mut cluster = vec![seed];
        self.admit(seed);
        for candidate in self.candidates(seed) {
            if self.links_into_cluster(candidate) as usize == cluster.len() {
                self.admit(candidate);
                cluster.push(candidate);
            }
        }
        self.forget(&cluster);
        cluster
    }

    /// Whoever joins is linked to the seed.
    fn candidates(&self, seed: u32) -> Vec<u32> {
        let cliques = self.graph.cliques(seed).flatten();
        let mut found: Vec<u32> = self
            .graph
            .neighbors(seed)
            .iter()
            .chain(cliques)
            .copied()
            .filter(|&v| !self.assigned[v as usize])
            .collect();
        found.sort_unstable();
        found
    }

    fn links_into_cluster(&self, vertex: u32) -> u32 {
        let ids = self.graph.cliques[vertex as usize];
        let clique = |kind: usize| {
            if ids[kind] == NO_CLIQUE { 0 } else { self.clique_links[kind][ids[kind] as usize] }
        };
        self.links[vertex as usize] + clique(0) + clique(1)
    }

    fn admit(&mut self, vertex: u32) {
        self.assigned[vertex as usize] = true;
        for &neighbor in self.graph.neighbors(vertex) {
            self.links[neighbor as usize] += 1;
            self.touched.push(neighbor);
        }
        self.count_cliques(vertex, |count| *count += 1);
    }

    fn forget(&mut self, cluster: &[u32]) {
        for vertex in self.touched.drain(..) {
            self.links[vertex as usize] = 0;
        }
        for &vertex in cluster {
            self.count_cliques(vertex, |count| *count = 0);
        }
    }

    fn count_cliques(&mut self, vertex: u32, change: impl Fn(&mut u32)) {
        for (kind, &id) in self.graph.cliques[vertex as usize].iter().enumerate() {
            if id != NO_CLIQUE {
                change(&mut self.clique_links[kind][id as usize]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    /// The definition, spelled out.
    fn definition(count: u32, linked: impl Fn(u32, u32) -> bool) -> Vec<Vec<u32>> {
        let mut clusters: Vec<Vec<u32>> = Vec::new();
        for v in 0..count {
            match clusters.iter_mut().find(|c| c.iter().all(|&m| linked(m, v))) {
                Some(cluster) => cluster.push(v),
                None => clusters.push(vec![v]),
            }
        }
        clusters
    }

    /// Turns clique names into dense numbers.
    fn dense(names: &[Option<u8>]) -> Vec<u32> {
        let mut seen = BTreeMap::new();
        names
            .iter()
            .map(|name| match name {
                None => NO_CLIQUE,
                Some(n) => {
                    let next = seen.len() as u32;
                    *seen.entry(*n).or_insert(next)
                }
            })
            .collect()
    }

    proptest! {
        #[test]
        fn equals_the_definition(
            vertices in prop::collection::vec((prop::option::of(0_u8..6), prop::option::of(0_u8..6)), 1..40),
            pairs in prop::collection::vec((0_u32..40, 0_u32..40), 0..400),
        ) {
            // Vertices that share both cliques would be one vertex: keep the first.
            let mut seen = BTreeSet::new();
            let vertices: Vec<_> = vertices
                .into_iter()
                .filter(|&(a, b)| a.is_none() || b.is_none() || seen.insert((a, b)))
                .collect();
            let count = vertices.len() as u32;
            let kinds = [
                dense(&vertices.iter().map(|v| v.0).collect::<Vec<_>>()),
                dense(&vertices.iter().map(|v| v.1).collect::<Vec<_>>()),
            ];
            let cliques: Vec<[u32; 2]> = kinds[0].iter().zip(&kinds[1]).map(|(&a, &b)| [a, b]).collect();
            let share = |a: u32, b: u32| {
                (0..2).any(|k| {
                    cliques[a as usize][k] != NO_CLIQUE && cliques[a as usize][k] == cliques[b as usize][k]
                })
            };
            let edges: BTreeSet<(u32, u32)> = pairs
                .into_iter()
                .map(|(a, b)| (a.min(b), a.max(b)))
                .filter(|&(a, b)| a != b && b < count && !share(a, b))
                .collect();
            let edge_list: Vec<_> = edges.iter().copied().collect();
            let graph = LinkGraph::new(cliques.clone(), &edge_list);
            let linked = |a: u32, b: u32| share(a, b) || edges.contains(&(a.min(b), a.max(b)));
            prop_assert_eq!(greedy_complete(&graph), definition(count, linked));
        }
    }

    #[test]
    fn a_chain_does_not_drift() {
        let graph = LinkGraph::new(vec![[NO_CLIQUE; 2]; 4], &[(0, 1), (1, 2), (2, 3)]);
        assert_eq!(greedy_complete(&graph), [[0, 1], [2, 3]]);
    }

    #[test]
    fn a_huge_clique_is_cheap() {
        let cliques: Vec<_> = (0..200_000).map(|_| [0, NO_CLIQUE]).collect();
        let clusters = greedy_complete(&LinkGraph::new(cliques, &[]));
        assert_eq!(clusters.len(), 1);
        assert_eq!(clusters[0].len(), 200_000);
    }
}
