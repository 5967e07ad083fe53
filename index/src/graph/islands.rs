//! Islands: nodes that links join with each other and with no others.
//!
//! A clump of more near-duplicates than a node has candidates may have no link to the rest. A search that comes from there
//! finds it only where a node of it stands in the layer above.

use std::convert::Infallible;

use super::link::NO_LINK;
use crate::components::component_firsts;

/// Returns the first node of each island, ascending; nothing where all nodes hang together.
pub(super) fn first_nodes(links: &[u32], degree: usize) -> Vec<u32> {
    let linked = (0..).zip(links.chunks_exact(degree));
    let edges = linked.flat_map(|(node, links)| {
        let links = links.iter().take_while(|&&link| link != NO_LINK);
        links.map(move |&other| Ok::<_, Infallible>((node, other)))
    });
    let Ok(firsts) = component_firsts(links.len() / degree, edges);
    let is_first = |&(node, &first): &(u32, &u32)| node == first;
    let firsts: Vec<u32> = (0..).zip(&firsts).filter(is_first).map(|(node, _)| node).collect();
    if firsts.len() > 1 { firsts } else { Vec::new() }
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
