//! [`Graph`]: from vectors to all sections of a graph.
//!
//! Lost nodes: what a search for them does not find is linked from where that search ends.

use memfold_simd::Kernels;

use super::layers::Layers;
use super::link::{Tools, link, repair};
use super::partition::{Partition, Probes};
use super::traversal::{Breadth, Traversal};
use super::view::{GraphSections, GraphView, LinkTable, Links, SCANNED_NODES_MAX, entry};
use super::{BuildGraphError, GraphOptions};
use crate::codes::{Coding, Members, NodeCodes, Pages, SplitRows, split};
use crate::distinct::DistinctRows;
use crate::sample::hash_codes;
use crate::{Pool, Progress, VectorMatrix};

/// Rows of a task.
const BATCH_ROWS: usize = 1_024;

/// A graph in memory: owned sections.
#[derive(Debug, Clone)]
pub struct Graph {
    coding: Coding<'static>,
    codes: Pages<i8>,
    lead_share: f32,
    members: Members<'static>,
    links: LinkTable,
    layers: Layers,
    options: GraphOptions,
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
        let distinct = DistinctRows::of(matrix, kernels, pool, progress)?;
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

    /// Links what searches would not find, or could not.
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

    /// Returns all sections, as they are written to a file.
    #[must_use]
    pub fn sections(&self) -> GraphSections<'_> {
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

    /// Returns how it was built.
    pub(crate) const fn options(&self) -> GraphOptions {
        self.options
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
/// What a search loses by that is about as far as the farthest that it keeps: at one pair in 1,000, 10 and 5
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

/// `ef_search` of a lookup: far narrower than that of searches, so that these find with ease what it finds.
///
/// What it does not find gets links from afar, and these are of use to other searches: of a million generated vectors
/// like real ones 1 % are not found at 64, 8.5 % at 16, and recall@10 at 128 is 0.9896 and 0.9906. Building takes the
/// same time with each.
const LOOKUP_WIDTH: usize = 16;

/// Nodes where a lookup ends, from which a lost one is linked.
const LINKED_FROM: usize = 2;

/// Links that make room may lose others; the second and third rounds look.
const ROUNDS: usize = 3;

/// Lookups of a task.
const BATCH_LOOKUPS: usize = 64;

/// Looks up all nodes, and links those that are not found from where their lookups end.
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
