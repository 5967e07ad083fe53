//! [`Layers`]: ever fewer nodes above the graph, by which a search comes near in few steps.

use super::islands;
use super::link::{Linked, Tools, link};
use super::links::Links;
use super::partition::Partition;
use super::{BuildGraphError, GraphOptions};
use crate::codes::CodeRows;

/// A node in 2⁶ is in the next layer too.
const LEVEL_BITS: u32 = 6;

/// A hash has no more levels.
pub(super) const LAYERS_MAX: usize = 10;

/// A layer of no more nodes is searched from end to end, and has none above it.
pub(super) const TOP_NODES_MAX: usize = 256;

/// A set of no more nodes is searched from end to end and has no layers: that costs less than any graph.
pub(super) const SCANNED_NODES_MAX: usize = 4_096;

/// The layers above the lowest, from below.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
        let mut chosen = islands::first_nodes(base_links);
        for level in 1..=LAYERS_MAX as u32 {
            let in_layer =
                |&node: &u32| levels[node as usize] >= level || chosen.binary_search(&node).is_ok();
            let nodes: Vec<u32> = (0..codes.len() as u32).filter(in_layer).collect();
            if nodes.is_empty() {
                break;
            }
            let Linked { links, .. } = layers.push(codes, &nodes, tools)?;
            if nodes.len() <= TOP_NODES_MAX {
                break;
            }
            let islands = islands::first_nodes(links.view());
            chosen = islands.iter().map(|&position| nodes[position as usize]).collect();
        }
        Ok(layers)
    }

    fn push(
        &mut self,
        codes: CodeRows<'_>,
        nodes: &[u32],
        tools: Tools<'_>,
    ) -> Result<Linked, BuildGraphError> {
        let GraphOptions { probes, .. } = tools.options;
        let picked = codes.picked(nodes);
        let names: Vec<u32> = (0..nodes.len() as u32).collect();
        let (partition, probes) =
            Partition::of(picked.view(), &names, probes, (tools.pool, tools.kernels));
        self.sizes.push(nodes.len() as u32);
        self.nodes.extend_from_slice(nodes);
        let linked = link(picked.view(), &partition, &probes, tools)?;
        self.links.extend_from_slice(linked.links.as_bytes());
        Ok(linked)
    }
}
