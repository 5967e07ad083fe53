//! [`NodeLinks`]: which nodes may stand together.

use memfold_simd::Similarity;

use super::near::NodePair;
use super::nodes::{NONE, Nodes};
use crate::policy::Policy;

/// Which nodes are linked: by a near pair that the guard lets pass, by equal text, or (unguarded) by equal vectors.
pub(super) struct NodeLinks {
    /// `(a, b)` with `a < b`, sorted; without pairs that share a text key or, unguarded, a vector.
    pub(super) near: Vec<(u32, u32)>,
    /// Both directions of `near`, sorted.
    both: Vec<(u32, u32)>,
    pub(super) equal_vectors_link: bool,
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

    pub(super) fn neighbors(&self, node: u32) -> impl Iterator<Item = u32> {
        let start = self.both.partition_point(|&(from, _)| from < node);
        self.both[start..].iter().take_while(move |&&(from, _)| from == node).map(|&(_, to)| to)
    }
}
