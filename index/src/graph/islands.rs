//! Islands: nodes that links join with each other and with no others.
//!
//! A clump of more near-duplicates than a node has candidates may have no link to the rest. A search that comes from there
//! finds it only where a node of it stands in the layer above.

use super::link::NO_LINK;

/// Returns the first node of each island, ascending; nothing where all nodes hang together.
pub(super) fn first_nodes(links: &[u32], degree: usize) -> Vec<u32> {
    // Nodes have 31 bits.
    let mut parents: Vec<u32> = (0..(links.len() / degree) as u32).collect();
    for (node, linked) in (0..).zip(links.chunks_exact(degree)) {
        for &other in linked.iter().take_while(|&&link| link != NO_LINK) {
            let (left, right) = (root(&mut parents, node), root(&mut parents, other));
            // The smaller one, so that roots are the first nodes.
            parents[left.max(right) as usize] = left.min(right);
        }
    }
    let firsts: Vec<u32> = (0..)
        .zip(&parents)
        .filter(|&(node, &parent)| node == parent)
        .map(|(node, _)| node)
        .collect();
    if firsts.len() > 1 { firsts } else { Vec::new() }
}

/// Returns the root of a node and halves the way to it.
fn root(parents: &mut [u32], mut node: u32) -> u32 {
    while parents[node as usize] != node {
        let above = parents[parents[node as usize] as usize];
        parents[node as usize] = above;
        node = above;
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn islands_are_what_links_join() {
        let none = NO_LINK;
        assert_eq!(first_nodes(&[1, none, 0, none, 3, none, none, none, 3, none], 2), [0, 2]);
        assert!(first_nodes(&[1, 2, 0, none, none, none], 2).is_empty(), "one direction is enough");
        assert!(first_nodes(&[], 2).is_empty());
        assert_eq!(first_nodes(&[none, none], 1), [0, 1]);
    }
}
