//! Clustering: which units all say the same thing. Pure: graphs and distances in, groups out.
//!
//! `greedy_complete` works on a `LinkGraph` and needs memory in proportion to its edges;
//! [`greedy_complete_streamed`] works on links that stream by and needs memory for the vertices alone;
//! `agglomerate` works on the distances of one connected component ([`components`]).

use std::convert::Infallible;

use kodama::{Method, linkage};
use memfold_index::component_firsts;

use super::policy::Linkage;

/// Returns the connected components of `count` vertices, singletons included, by their smallest
/// vertex; members ascend. The order of `edges` does not matter.
pub fn components(count: usize, edges: impl IntoIterator<Item = (u32, u32)>) -> Vec<Vec<u32>> {
    let Ok(firsts) = component_firsts(count, edges.into_iter().map(Ok::<_, Infallible>));
    let mut slots = vec![usize::MAX; count];
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for (vertex, &first) in firsts.iter().enumerate() {
        let slot = &mut slots[first as usize];
        if *slot == usize::MAX {
            *slot = groups.len();
            groups.push(Vec::new());
        }
        groups[*slot].push(vertex as u32);
    }
    groups
}

/// The mark of a vertex that is in no clique of a kind.
pub(crate) const NO_CLIQUE: u32 = u32::MAX;

/// Vertices in processing order and the links between them.
///
/// Two vertices are linked when `edges` says so, or when they share a clique. Cliques (all texts
/// equal, all vectors equal) stay implicit, so that ten thousand copies cost ten thousand entries and not
/// fifty million edges. Two vertices share at most one clique, and no edge repeats a clique or another edge.
#[derive(Debug, Clone, Default)]
pub(crate) struct LinkGraph {
    offsets: Vec<usize>,
    targets: Vec<u32>,
    cliques: Vec<[u32; 2]>,
    clique_members: [Vec<Vec<u32>>; 2],
}

impl LinkGraph {
    /// Makes the graph of `cliques.len()` vertices. `cliques` names each vertex's clique of both
    /// kinds (`u32::MAX`: none; otherwise dense from 0); `edges` are undirected, each given once.
    pub(crate) fn new(cliques: Vec<[u32; 2]>, edges: &[(u32, u32)]) -> Self {
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
    const fn len(&self) -> usize {
        self.cliques.len()
    }

    /// Returns the vertices that an edge links to `vertex`, in no particular order.
    fn neighbors(&self, vertex: u32) -> &[u32] {
        &self.targets[self.offsets[vertex as usize]..self.offsets[vertex as usize + 1]]
    }

    /// Returns the members of each clique of `vertex`, itself included.
    fn cliques(&self, vertex: u32) -> impl Iterator<Item = &[u32]> {
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

/// Clusters by greedy complete linkage: in vertex order, each vertex joins the first cluster
/// with links to it from every member, else it opens one.
///
/// Returns all clusters, singletons included, by their first vertex; members ascend.
/// Costs O(vertices + edges + Σ over clusters of their first member's clique sizes).
///
/// A vertex is linked to a whole cluster iff the links it has into the cluster are as many as the
/// cluster has members, so counting replaces looking up pairs.
pub(crate) fn greedy_complete(graph: &LinkGraph) -> Vec<Vec<u32>> {
    let mut state = Greedy::new(graph);
    let mut clusters = Vec::new();
    for seed in 0..graph.len() as u32 {
        if !state.assigned[seed as usize] {
            clusters.push(state.grow(seed));
        }
    }
    clusters
}

/// Covers the edges of a graph by complete groups: the groups of [`greedy_complete`], then again over the edges that stand in
/// no group yet, for at most `rounds`. A vertex may stand in a group of each round, an edge in one group only.
///
/// Costs that of [`greedy_complete`] for each round.
pub(crate) fn complete_cover(
    cliques: &[[u32; 2]],
    mut edges: Vec<(u32, u32)>,
    rounds: usize,
) -> Vec<Vec<u32>> {
    let mut cover = Vec::new();
    let mut group_of = vec![0; cliques.len()];
    for round in 0..rounds {
        let groups = greedy_complete(&LinkGraph::new(cliques.to_vec(), &edges));
        for (number, group) in groups.iter().enumerate() {
            group.iter().for_each(|&vertex| group_of[vertex as usize] = number);
        }
        let mut is_new = vec![round == 0; groups.len()];
        edges.retain(|&(a, b)| {
            let (own, other) = (group_of[a as usize], group_of[b as usize]);
            is_new[own] |= own == other;
            own != other
        });
        cover
            .extend(groups.into_iter().zip(is_new).filter_map(|(group, new)| new.then_some(group)));
        if edges.is_empty() {
            break;
        }
    }
    cover
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

    /// Each member is linked to the seed.
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

/// Returns how many distances `count` rows have: the upper triangle without the diagonal.
#[must_use]
pub(crate) const fn condensed_len(count: usize) -> usize {
    count * count.saturating_sub(1) / 2
}

/// Clusters `count` rows by their distances and cuts the tree at `distance_max`.
///
/// `distances` is the upper triangle, row by row (`d(0,1), d(0,2), …, d(1,2), …`), and is used up.
/// Returns groups, singletons included, by their smallest row; members ascend. Takes O(count²) time and memory.
/// On data without ties the groups equal the ones of scikit-learn's `AgglomerativeClustering`.
///
/// # Panics
/// When `distances` has another length than `n (n − 1) / 2`, or `linkage` is
/// [`Linkage::GreedyComplete`], which needs no distances.
pub(crate) fn agglomerate(
    mut distances: Vec<f64>,
    count: usize,
    method: Linkage,
    distance_max: f64,
) -> Vec<Vec<u32>> {
    assert_eq!(distances.len(), condensed_len(count), "one distance for each pair");
    let method = match method {
        Linkage::Complete => Method::Complete,
        Linkage::Average => Method::Average,
        Linkage::Single => Method::Single,
        Linkage::GreedyComplete => panic!("greedy linkage works on links, not on distances"),
    };
    let tree = linkage(&mut distances, count, method);
    // Node `count + i` is the cluster that step i makes; it lives on in the rows below it.
    let merges =
        tree.steps().iter().enumerate().filter(|(_, step)| step.dissimilarity <= distance_max);
    let edges = merges.flat_map(|(i, step)| {
        let node = (count + i) as u32;
        [(step.cluster1 as u32, node), (step.cluster2 as u32, node)]
    });
    let rows =
        |group: Vec<u32>| group.into_iter().filter(|&v| (v as usize) < count).collect::<Vec<_>>();
    let groups = components(count + tree.steps().len(), edges).into_iter().map(rows);
    groups.filter(|group| !group.is_empty()).collect()
}

/// Two linked vertices, numbered in processing order: `earlier < later`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The vertex that is processed second.
    pub later: u32,
    /// The vertex that is processed first.
    pub earlier: u32,
}

/// Clusters by greedy complete linkage: in vertex order, each vertex joins the first cluster
/// with links to it from every member, else it opens one.
///
/// `links` come with `later` ascending, each once; a link's error ends the work and is returned. Returns for each vertex the
/// first vertex of its cluster. Takes 8 bytes for each vertex and O(links · log links of one vertex) time.
///
/// Vertices that are linked to the same others and to each other (bit-equal vectors) may stand as
/// one vertex, at the place of the first of them: the others would join the same cluster, because its later
/// members are linked to the first.
///
/// # Errors
/// The first error among `links`.
///
/// # Panics
/// When a link names a vertex that there is not.
///
/// # Examples
/// ```
/// use std::convert::Infallible;
/// use memfold_core::cluster::{Link, greedy_complete_streamed};
///
/// // A chain: 2 is near 1, not near 0.
/// let links = [Link { later: 1, earlier: 0 }, Link { later: 2, earlier: 1 }];
/// let firsts = greedy_complete_streamed(3, links.map(Ok::<_, Infallible>))?;
/// assert_eq!(firsts, [0, 0, 2]);
/// # Ok::<(), Infallible>(())
/// ```
pub fn greedy_complete_streamed<E>(
    vertex_count: u32,
    links: impl IntoIterator<Item = Result<Link, E>>,
) -> Result<Vec<u32>, E> {
    let mut clusters = Clusters::singletons(vertex_count);
    // The clusters of the earlier vertices that one later vertex is linked to.
    let mut linked = Vec::new();
    let mut vertex = 0;
    for link in links {
        let Link { later, earlier } = link?;
        debug_assert!(earlier < later && vertex <= later, "links come with `later` ascending");
        if later != vertex {
            clusters.place(vertex, &mut linked);
            vertex = later;
        }
        linked.push(clusters.first_of[earlier as usize]);
    }
    clusters.place(vertex, &mut linked);
    Ok(clusters.first_of)
}

/// Clusters by their first vertex. A vertex that nothing linked yet is a cluster of its own.
struct Clusters {
    first_of: Vec<u32>,
    /// Members of the cluster that a vertex is the first of.
    sizes: Vec<u32>,
}

impl Clusters {
    fn singletons(vertex_count: u32) -> Self {
        Self { first_of: (0..vertex_count).collect(), sizes: vec![1; vertex_count as usize] }
    }

    /// Puts a vertex into the first cluster that `linked` names as often as the cluster has members.
    ///
    /// Clusters open in vertex order, so the first one is that with the smallest first vertex.
    fn place(&mut self, vertex: u32, linked: &mut Vec<u32>) {
        linked.sort_unstable();
        let whole = linked
            .chunk_by(PartialEq::eq)
            .find(|links| links.len() == self.sizes[links[0] as usize] as usize);
        if let Some(links) = whole {
            self.first_of[vertex as usize] = links[0];
            self.sizes[links[0] as usize] += 1;
        }
        linked.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn labels_do_not_depend_on_edge_order() {
        let edges = [(5, 3), (3, 1), (0, 6), (2, 2)];
        let expected = vec![vec![0, 6], vec![1, 3, 5], vec![2], vec![4]];
        assert_eq!(components(7, edges), expected);
        assert_eq!(components(7, edges.into_iter().rev()), expected);
    }

    #[test]
    fn nothing_has_no_components() {
        assert_eq!(components(0, []), Vec::<Vec<u32>>::new());
    }

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

    proptest! {
        #[test]
        fn every_edge_stands_in_one_complete_group(
            count in 1_u32..12,
            pairs in prop::collection::vec((0_u32..12, 0_u32..12), 0..40),
        ) {
            let pairs = pairs.into_iter().map(|(a, b)| (a.min(b), a.max(b)));
            let edges: BTreeSet<(u32, u32)> = pairs.filter(|&(a, b)| a < b && b < count).collect();
            let cliques = vec![[NO_CLIQUE; 2]; count as usize];
            let groups = complete_cover(&cliques, edges.iter().copied().collect(), 100);
            let mut covered = Vec::new();
            for group in &groups {
                for (at, &a) in group.iter().enumerate() {
                    covered.extend(group[at + 1..].iter().map(|&b| (a, b)));
                }
            }
            covered.sort_unstable();
            prop_assert_eq!(covered, edges.into_iter().collect::<Vec<_>>());
            let first = greedy_complete(&LinkGraph::new(cliques.clone(), &[]));
            prop_assert_eq!(complete_cover(&cliques, Vec::new(), 100), first);
        }
    }

    #[test]
    fn a_chain_does_not_drift() {
        let graph = LinkGraph::new(vec![[NO_CLIQUE; 2]; 4], &[(0, 1), (1, 2), (2, 3)]);
        assert_eq!(greedy_complete(&graph), [[0, 1], [2, 3]]);
        let chain = vec![(0, 1), (1, 2), (2, 3)];
        let covered = complete_cover(&[[NO_CLIQUE; 2]; 4], chain.clone(), 10);
        assert_eq!(covered, [[0, 1], [2, 3], [1, 2]]);
        assert_eq!(complete_cover(&[[NO_CLIQUE; 2]; 4], chain, 1), [[0, 1], [2, 3]]);
    }

    #[test]
    fn a_huge_clique_is_cheap() {
        let cliques: Vec<_> = (0..200_000).map(|_| [0, NO_CLIQUE]).collect();
        let clusters = greedy_complete(&LinkGraph::new(cliques, &[]));
        assert_eq!(clusters.len(), 1);
        assert_eq!(clusters[0].len(), 200_000);
    }

    /// 0 – 1 – 2 in a line, 3 apart.
    fn line() -> Vec<f64> {
        vec![0.10, 0.21, 0.9, 0.11, 0.9, 0.9]
    }

    #[test]
    fn linkages_differ_on_a_chain() {
        let cut = |method| agglomerate(line(), 4, method, 0.15);
        assert_eq!(cut(Linkage::Single), [vec![0, 1, 2], vec![3]]);
        assert_eq!(cut(Linkage::Complete), [vec![0, 1], vec![2], vec![3]]);
        assert_eq!(agglomerate(line(), 4, Linkage::Average, 0.16), [vec![0, 1, 2], vec![3]]);
    }

    #[test]
    fn small_inputs() {
        assert_eq!(agglomerate(vec![], 1, Linkage::Complete, 0.5), [[0]]);
        assert!(agglomerate(vec![], 0, Linkage::Complete, 0.5).is_empty());
    }

    fn streamed(count: u32, links: &BTreeSet<Link>) -> Vec<u32> {
        let Ok(firsts) =
            greedy_complete_streamed(count, links.iter().copied().map(Ok::<_, Infallible>));
        firsts
    }

    proptest! {
        #[test]
        fn streamed_links_give_the_clusters_of_the_definition(
            count in 1_u32..40,
            pairs in prop::collection::vec((0_u32..40, 0_u32..40), 0..500),
        ) {
            let links: BTreeSet<Link> = pairs
                .into_iter()
                .map(|(a, b)| Link { later: a.max(b), earlier: a.min(b) })
                .filter(|link| link.earlier < link.later && link.later < count)
                .collect();
            let found = streamed(count, &links);
            let linked = |a: u32, b: u32| links.contains(&Link { later: a.max(b), earlier: a.min(b) });
            for cluster in definition(count, linked) {
                prop_assert!(cluster.iter().all(|&v| found[v as usize] == cluster[0]));
            }
        }
    }

    #[test]
    fn a_streamed_chain_does_not_drift() {
        let links = [(1, 0), (2, 1), (3, 2)].map(|(later, earlier)| Link { later, earlier });
        assert_eq!(streamed(5, &BTreeSet::from(links)), [0, 0, 2, 2, 4]);
    }

    #[test]
    fn no_links_leave_single_vertices() {
        assert!(streamed(0, &BTreeSet::new()).is_empty());
        assert_eq!(streamed(2, &BTreeSet::new()), [0, 1]);
    }

    #[test]
    fn an_error_ends_the_work() {
        let links = [Ok(Link { later: 1, earlier: 0 }), Err("the disk is gone")];
        assert_eq!(greedy_complete_streamed(3, links), Err("the disk is gone"));
    }
}
