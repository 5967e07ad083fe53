//! Islands: nodes that links join with each other and with no others.
//!
//! A clump of more near-duplicates than a node has candidates may have no link to the rest. A search that comes from there
//! finds it only where a node of it stands in the layer above.

use std::convert::Infallible;

use super::links::Links;
use crate::components::component_firsts;

/// Returns the first node of each island, ascending; nothing where all nodes hang together.
pub(super) fn first_nodes(links: Links<'_>) -> Vec<u32> {
    let edges = (0..links.len() as u32)
        .flat_map(|node| links.of(node).map(move |other| Ok::<_, Infallible>((node, other))));
    let Ok(firsts) = component_firsts(links.len(), edges);
    let is_first = |&(node, &first): &(u32, &u32)| node == first;
    let firsts: Vec<u32> = (0..).zip(&firsts).filter(is_first).map(|(node, _)| node).collect();
    if firsts.len() > 1 { firsts } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::links::LinkTable;

    #[test]
    fn islands_are_what_links_join() {
        let firsts = |lists: &[&[u32]]| first_nodes(LinkTable::new(lists.len(), 2, lists).view());
        assert_eq!(firsts(&[&[1], &[0], &[3], &[], &[3]]), [0, 2]);
        assert!(firsts(&[&[1, 2], &[0], &[]]).is_empty(), "one direction is enough");
        assert!(firsts(&[]).is_empty());
        assert_eq!(firsts(&[&[], &[]]), [0, 1]);
    }
}
