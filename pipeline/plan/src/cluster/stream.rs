//! Clustering of links that stream by: memory for the vertices, none for the links.

/// Two linked vertices, numbered in processing order: `earlier < later`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The vertex that is processed second.
    pub later: u32,
    /// The vertex that is processed first.
    pub earlier: u32,
}

/// Clusters by greedy complete linkage: in vertex order, each vertex joins the first cluster to
/// whose every member it is linked, else it opens one. The answer is that of [`super::greedy_complete`].
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
/// use memfold_plan::cluster::{Link, greedy_complete_streamed};
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
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;
    use crate::cluster::{LinkGraph, NO_CLIQUE, greedy_complete};

    fn streamed(count: u32, links: &BTreeSet<Link>) -> Vec<u32> {
        let Ok(firsts) =
            greedy_complete_streamed(count, links.iter().copied().map(Ok::<_, Infallible>));
        firsts
    }

    /// The definition, spelled out.
    fn definition(count: u32, links: &BTreeSet<Link>) -> Vec<u32> {
        let mut clusters: Vec<Vec<u32>> = Vec::new();
        let mut firsts = Vec::new();
        for later in 0..count {
            let linked = |&earlier: &u32| links.contains(&Link { later, earlier });
            match clusters.iter_mut().find(|cluster| cluster.iter().all(linked)) {
                Some(cluster) => cluster.push(later),
                None => clusters.push(vec![later]),
            }
            firsts.extend(clusters.iter().find(|c| c.contains(&later)).map(|c| c[0]));
        }
        firsts
    }

    proptest! {
        #[test]
        fn equals_the_definition_and_the_clustering_of_a_graph(
            count in 1_u32..40,
            pairs in prop::collection::vec((0_u32..40, 0_u32..40), 0..500),
        ) {
            let links: BTreeSet<Link> = pairs
                .into_iter()
                .map(|(a, b)| Link { later: a.max(b), earlier: a.min(b) })
                .filter(|link| link.earlier < link.later && link.later < count)
                .collect();
            let found = streamed(count, &links);
            prop_assert_eq!(&found, &definition(count, &links));
            let edges: Vec<_> = links.iter().map(|link| (link.earlier, link.later)).collect();
            let graph = LinkGraph::new(vec![[NO_CLIQUE; 2]; count as usize], &edges);
            for cluster in greedy_complete(&graph) {
                prop_assert!(cluster.iter().all(|&v| found[v as usize] == cluster[0]));
            }
        }
    }

    #[test]
    fn a_chain_does_not_drift() {
        let links = [(1, 0), (2, 1), (3, 2)].map(|(later, earlier)| Link { later, earlier });
        assert_eq!(streamed(5, &BTreeSet::from(links)), [0, 0, 2, 2, 4]);
    }

    #[test]
    fn nothing_has_no_clusters() {
        assert!(streamed(0, &BTreeSet::new()).is_empty());
        assert_eq!(streamed(2, &BTreeSet::new()), [0, 1]);
    }

    #[test]
    fn an_error_ends_the_work() {
        let links = [Ok(Link { later: 1, earlier: 0 }), Err("the disk is gone")];
        assert_eq!(greedy_complete_streamed(3, links), Err("the disk is gone"));
    }
}
