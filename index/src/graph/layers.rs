//! [`Layers`]: ever fewer nodes above the graph, by which a search comes near in few steps.
//!
//! Connected components: nodes that links join with each other and with no others.
//!
//! A clump of more near-duplicates than a node has candidates may have no link to the rest. A search that comes from there
//! finds it only where a node of it stands in the layer above.

use std::convert::Infallible;

use super::link::{Tools, link};
use super::partition::Partition;
use super::view::{LAYERS_MAX, LinkTable, Links, SCANNED_NODES_MAX, TOP_NODES_MAX};
use super::{BuildGraphError, GraphOptions};
use crate::codes::CodeRows;
use crate::components::component_firsts;

/// A node in 2⁶ is in the next layer too.
const LEVEL_BITS: u32 = 6;

/// The layers above the lowest, from below.
#[derive(Debug, Clone, Default)]
pub(super) struct Layers {
    /// The number of nodes of each layer.
    pub(super) sizes: Vec<u32>,
    /// The nodes of each layer, ascending.
    pub(super) nodes: Vec<u32>,
    /// 2 M links for each of them: positions in its layer; see [`Links`].
    pub(super) links: Vec<u8>,
}

impl Layers {
    /// Builds them over the lowest layer, whose links are given.
    pub(super) fn build(
        codes: CodeRows<'_>,
        base_links: Links<'_>,
        tools: Tools<'_>,
    ) -> Result<Self, BuildGraphError> {
        let mut layers = Self::default();
        if codes.len() <= SCANNED_NODES_MAX {
            return Ok(layers);
        }
        let levels: Vec<u32> = (0..codes.len() as u32)
            .map(|node| codes.hash(node).leading_zeros() / LEVEL_BITS)
            .collect();
        let mut chosen = first_nodes(base_links);
        for level in 1..=LAYERS_MAX as u32 {
            let in_layer =
                |&node: &u32| levels[node as usize] >= level || chosen.binary_search(&node).is_ok();
            let nodes: Vec<u32> = (0..codes.len() as u32).filter(in_layer).collect();
            if nodes.is_empty() {
                break;
            }
            let links = layers.push(codes, &nodes, tools)?;
            if nodes.len() <= TOP_NODES_MAX {
                break;
            }
            let firsts = first_nodes(links.view());
            chosen = firsts.iter().map(|&position| nodes[position as usize]).collect();
        }
        Ok(layers)
    }

    fn push(
        &mut self,
        codes: CodeRows<'_>,
        nodes: &[u32],
        tools: Tools<'_>,
    ) -> Result<LinkTable, BuildGraphError> {
        let GraphOptions { probes, .. } = tools.options;
        let picked = codes.picked(nodes);
        let names: Vec<u32> = (0..nodes.len() as u32).collect();
        let (partition, probes) =
            Partition::of(picked.view(), &names, probes, tools.pool, tools.kernels);
        self.sizes.push(nodes.len() as u32);
        self.nodes.extend_from_slice(nodes);
        let links = link(picked.view(), &partition, &probes, tools)?;
        self.links.extend_from_slice(links.as_bytes());
        Ok(links)
    }
}

/// Returns the first node of each connected component, ascending; nothing where there is only one.
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
    use crate::graph::view::LinkTable;

    #[test]
    fn components_are_what_links_join() {
        let firsts = |lists: &[&[u32]]| first_nodes(LinkTable::new(lists.len(), 2, lists).view());
        assert_eq!(firsts(&[&[1], &[0], &[3], &[], &[3]]), [0, 2]);
        assert!(firsts(&[&[1, 2], &[0], &[]]).is_empty(), "one direction is enough");
        assert!(firsts(&[]).is_empty());
        assert_eq!(firsts(&[&[], &[]]), [0, 1]);
    }
}
