//! [`Graph`]: from vectors to all sections of a graph.
//!
//! A lost node, which a search for it does not find, is linked from where that search ends.

use std::convert::Infallible;

use memfold_simd::Kernels;

use super::link::{Tools, link, repair};
use super::partition::{Partition, Probes};
use super::search::{Breadth, Traversal};
use super::{
    BuildGraphError, GraphOptions, GraphSections, GraphView, LAYERS_MAX, LinkTable, Links,
    SCANNED_NODES_MAX, TOP_NODES_MAX, entry,
};
use crate::codes::{CodeRows, Coding, Members, NodeCodes, Pages, SplitRows, split};
use crate::components::component_firsts;
use crate::distinct::DistinctRows;
use crate::sample::hash_codes;
use crate::{Pool, Progress, VectorMatrix};

/// Rows of a task.
const BATCH_ROWS: usize = 1_024;

/// A graph in memory: owned sections.
#[derive(Debug)]
pub struct Graph {
    coding: Coding<'static>,
    codes: Pages<i8>,
    lead_share: f32,
    members: Members<'static>,
    links: LinkTable,
    layers: Layers,
    /// How it was built.
    pub(crate) options: GraphOptions,
}

impl Graph {
    /// Builds the graph of all rows.
    ///
    /// The bytes of all sections depend on the rows, their order and the options only. Costs, for each row, some
    /// thousand products of codes; memory beside the sections: about 1.2 KiB for each row at 384 dimensions.
    ///
    /// # Errors
    /// When a row has no direction, vectors are too long or too many, an option is out of range, or the caller
    /// asked to stop.
    pub fn build(
        matrix: &VectorMatrix<'_>,
        options: GraphOptions,
        pool: &Pool,
        kernels: &'static Kernels,
        progress: &dyn Progress,
    ) -> Result<Self, BuildGraphError> {
        let options = options.validated().ok_or(BuildGraphError::Options)?;
        let tools = Tools { options, pool, kernels, progress };
        if matrix.len() > Members::ROWS_MAX {
            return Err(BuildGraphError::TooManyRows { found: matrix.len() });
        }
        let distinct = DistinctRows::of(matrix, kernels, pool, None, progress)?;
        let turned = distinct.len() > SCANNED_NODES_MAX;
        let coding = Coding::learn(matrix, &distinct, turned, pool, kernels)?;
        let nodes = Nodes::encode(matrix, &distinct, &coding, tools)?;
        let (codes, partition, probes, order) = nodes.partition(tools)?;
        let members = Members::of(order.iter().map(|&node| nodes.positions(node)), &distinct);
        drop((nodes, distinct));
        let links = link(codes.view(), &partition, &probes, tools)?;
        drop((partition, probes));
        let layers = Layers::build(codes.view(), links.view(), tools)?;
        let codes = split(codes.view());
        let split_rows = SplitRows::new(&codes, coding.code_dim());
        let lead_share = lead_share(split_rows, links.view(), kernels);
        let mut graph = Self { coding, codes, lead_share, members, links, layers, options };
        graph.find_lost(tools)?;
        Ok(graph)
    }

    /// Links nodes that searches do not find, or cannot reach.
    fn find_lost(&mut self, tools: Tools<'_>) -> Result<(), BuildGraphError> {
        if self.links().len() > SCANNED_NODES_MAX {
            rescue(self, tools)?;
        }
        if self.links().len() > 0 {
            let entry = entry(&self.layers.sizes, &self.layers.nodes);
            let codes = SplitRows::new(&self.codes, self.coding.code_dim());
            repair(codes, &mut self.links, entry, tools.kernels);
        }
        Ok(())
    }

    fn links(&self) -> Links<'_> {
        self.links.view()
    }

    /// Returns the bytes of all sections.
    #[must_use]
    pub fn byte_count(&self) -> u64 {
        let GraphSections { mean, rotation, codes, links, .. } = self.sections();
        let Layers { sizes, nodes, links: layer_links } = &self.layers;
        let members = self.members.starts.len() + self.members.rows.len();
        let words = mean.len() + rotation.len() + 2 + sizes.len() + nodes.len() + members;
        (4 * words + codes.len() + links.len() + layer_links.len()) as u64
    }

    /// Writes the codes of a vector of the same dimension and returns its canonical squared norm, or `None` where it has no
    /// direction.
    pub fn encode(&self, vector: &[f32], kernels: &Kernels, codes: &mut Vec<i8>) -> Option<f64> {
        self.coding.encode_query(vector, kernels, codes)
    }

    /// Returns all sections, as they are written to a file.
    pub(crate) fn sections(&self) -> GraphSections<'_> {
        GraphSections {
            mean: self.coding.mean(),
            rotation: self.coding.rotation(),
            step: self.coding.step(),
            lead_share: self.lead_share,
            degree: self.options.degree,
            codes: &self.codes,
            links: self.links.as_bytes(),
            layer_sizes: &self.layers.sizes,
            layer_nodes: &self.layers.nodes,
            layer_links: &self.layers.links,
            member_starts: &self.members.starts,
            member_rows: &self.members.rows,
        }
    }

    /// Returns the graph as it is searched.
    #[must_use]
    pub fn view(&self) -> GraphView<'_> {
        GraphView::new(self.sections()).expect("sections of a graph fit together")
    }
}

/// Nodes from which the share of first codes is learned, about, and links of each.
const SHARE_NODES: usize = 16_384;
const SHARE_LINKS: usize = 8;

/// One in so many pairs of near nodes has a larger share of its distance in the first codes.
///
/// Nodes lost by that are about as far as the farthest one kept: at one pair in 1,000, 10 and 5
/// recall@10 is the same or 0.001 less, and 1,170, 635 and 510 of 1,490 nodes are read to the end (36,000 real
/// vectors, `ef` 48).
const SHARE_LOST: usize = 10;

/// Returns how much of the squared distance of near nodes is in their first codes at most, but for one pair in ten.
fn lead_share(codes: SplitRows<'_>, links: Links<'_>, kernels: &Kernels) -> f32 {
    let stride = links.len().div_ceil(SHARE_NODES).max(1);
    let mut shares = Vec::new();
    for node in (0..links.len() as u32).step_by(stride) {
        let near: Vec<u32> = links.of(node).take(SHARE_LINKS).collect();
        let [by_lead, distances] = codes.squared_distances(node, &near, kernels);
        let parts = by_lead.into_iter().map(f64::from);
        let wholes = distances.into_iter().map(|distance| f64::from(distance.max(1)));
        shares.extend(parts.zip(wholes).map(|(part, whole)| part / whole));
    }
    let lost = shares.len() / SHARE_LOST;
    shares.sort_unstable_by(|a, b| b.total_cmp(a));
    shares.get(lost).map_or(1.0, |&share| share as f32)
}

/// Distinct rows by their codes, before nodes have their final numbers.
struct Nodes {
    codes: NodeCodes,
    /// Positions among the distinct rows, code by code.
    positions: Vec<u32>,
    starts: Vec<u32>,
}

impl Nodes {
    fn encode(
        matrix: &VectorMatrix<'_>,
        distinct: &DistinctRows,
        coding: &Coding<'_>,
        tools: Tools<'_>,
    ) -> Result<Self, BuildGraphError> {
        let (count, dim) = (distinct.len(), coding.code_dim());
        tools.progress.begin("encode vectors", Some(count as u64));
        let batches = tools.pool.map_batches(count, BATCH_ROWS, tools.progress, |rows| {
            let mut codes = vec![0; rows.len() * dim];
            for (position, codes) in rows.clone().zip(codes.chunks_exact_mut(dim)) {
                let vector = matrix.vector(distinct.rows[position]);
                coding.encode(vector, distinct.squared_norms[position], codes);
            }
            tools.progress.advance(rows.len() as u64);
            codes
        });
        tools.progress.end();
        let batches = batches.ok_or(BuildGraphError::Cancelled)?;
        Ok(Self::collapse(&batches.concat(), dim, tools))
    }

    /// Makes one node of all rows of one code; nodes come in the order of their first rows.
    fn collapse(codes: &[i8], dim: usize, tools: Tools<'_>) -> Self {
        let row = |position: u32| &codes[position as usize * dim..][..dim];
        let count = codes.len() / dim;
        let mut hashed: Vec<(u64, u32)> =
            (0..count as u32).map(|position| (hash_codes(row(position)), position)).collect();
        tools.pool.sort_by_key(&mut hashed, |&one| one);
        let mut groups: Vec<Vec<u32>> = Vec::with_capacity(count);
        for run in hashed.chunk_by(|a, b| a.0 == b.0) {
            let first = groups.len();
            for &(_, position) in run {
                let equal = groups[first..].iter_mut().find(|group| row(group[0]) == row(position));
                match equal {
                    Some(group) => group.push(position),
                    None => groups.push(vec![position]),
                }
            }
        }
        tools.pool.sort_by_key(&mut groups, |group| group[0]);
        let mut node_codes = Vec::with_capacity(codes.len());
        groups.iter().for_each(|group| node_codes.extend_from_slice(row(group[0])));
        let mut starts = vec![0];
        starts.extend(groups.iter().scan(0, |end, group| {
            *end += group.len() as u32;
            Some(*end)
        }));
        let codes = NodeCodes::new(node_codes, dim, tools.kernels);
        Self { codes, positions: groups.concat(), starts }
    }

    fn positions(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.positions[self.starts[node] as usize..self.starts[node + 1] as usize]
    }

    /// Puts nodes into cells and numbers them cell by cell; returns their former numbers last.
    fn partition(
        &self,
        tools: Tools<'_>,
    ) -> Result<(NodeCodes, Partition, Probes, Vec<u32>), BuildGraphError> {
        let names: Vec<u32> = (0..self.codes.squared_norms.len() as u32).collect();
        tools.progress.begin("group vectors", None);
        let (mut partition, probes) = Partition::of(
            self.codes.view(),
            &names,
            tools.options.probes,
            tools.pool,
            tools.kernels,
        );
        tools.progress.end();
        if tools.progress.cancelled() {
            return Err(BuildGraphError::Cancelled);
        }
        let (order, probes) = partition.renumber(&probes);
        Ok((self.codes.view().picked(&order), partition, probes, order))
    }
}

/// `ef_search` of a lookup: far narrower than that of searches, so that these easily find the same nodes.
///
/// Nodes that it misses get links from afar, which help other searches too: of a million generated vectors
/// like real ones 1 % are not found at 64, 8.5 % at 16, and recall@10 at 128 is 0.9896 and 0.9906. Building takes the
/// same time with each.
const LOOKUP_WIDTH: usize = 16;

/// Nodes where a lookup ends, from which a lost one is linked.
const LINKED_FROM: usize = 2;

/// Links that make room may lose others; the second and third rounds look.
const ROUNDS: usize = 3;

/// Lookups of a task.
const BATCH_LOOKUPS: usize = 64;

/// Looks up all nodes, and links the lost ones from where their lookups end.
///
/// Few links to a node, or a denser clump beside it, make it hard to find, but do not tell which nodes will not be.
fn rescue(graph: &mut Graph, tools: Tools<'_>) -> Result<(), BuildGraphError> {
    let mut suspects: Vec<u32> = (0..graph.links().len() as u32).collect();
    for _ in 0..ROUNDS {
        let lost = lost(graph, &suspects, tools)?;
        if lost.is_empty() {
            break;
        }
        suspects.clear();
        for (node, near) in lost {
            for from in near {
                let table = &mut graph.links;
                let mut links: Vec<u32> = table.view().of(from).collect();
                if !links.contains(&node) {
                    links.insert(0, node);
                    table.set(from, &links);
                    // The last link is the one that is missed least.
                    suspects.extend(links.get(table.degree()));
                }
            }
            suspects.push(node);
        }
        suspects.sort_unstable();
        suspects.dedup();
    }
    Ok(())
}

/// Returns the nodes that are not found, each with the nearest ones that are.
fn lost(
    graph: &Graph,
    nodes: &[u32],
    tools: Tools<'_>,
) -> Result<Vec<(u32, Vec<u32>)>, BuildGraphError> {
    let view = graph.view();
    tools.progress.begin("look up nodes", Some(nodes.len() as u64));
    let make = || Ok(Traversal::new(tools.kernels));
    let batch_count = nodes.len().div_ceil(BATCH_LOOKUPS);
    let batches = tools.pool.map_reusing(batch_count, make, |traversal, batch| {
        if tools.progress.cancelled() {
            return Err(BuildGraphError::Cancelled);
        }
        let nodes = nodes[batch * BATCH_LOOKUPS..].iter().take(BATCH_LOOKUPS);
        let lost = nodes.filter_map(|&node| {
            traversal.query.clear();
            view.codes.row(node).iter().for_each(|codes| traversal.query.extend_from_slice(codes));
            traversal.search(&view, Breadth::lookup(LOOKUP_WIDTH));
            let is_found = traversal.found().next().is_some_and(|near| near.distance == 0);
            let nearest = || traversal.found().take(LINKED_FROM).map(|near| near.node).collect();
            (!is_found).then(|| (node, nearest()))
        });
        let lost: Vec<_> = lost.collect();
        tools.progress.advance(BATCH_LOOKUPS as u64);
        Ok(lost)
    });
    tools.progress.end();
    Ok(batches?.concat())
}

/// A node in 2⁶ is in the next layer too.
const LEVEL_BITS: u32 = 6;

/// The layers above the lowest, from below.
#[derive(Debug, Default)]
struct Layers {
    /// The number of nodes of each layer.
    sizes: Vec<u32>,
    /// The nodes of each layer, ascending.
    nodes: Vec<u32>,
    /// 2 M links for each of them: positions in its layer; see [`Links`].
    links: Vec<u8>,
}

impl Layers {
    /// Builds them over the lowest layer, given its links.
    fn build(
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
