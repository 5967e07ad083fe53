//! The graph tier: a navigable graph over int8 codes (HNSW in shape) that comes out the same bytes for every number
//! of threads and at every ISA level.
//!
//! Building:
//! 1. `crate::distinct` collapses bit-equal vectors; `crate::codes` encodes them. Vectors of one code are one node.
//! 2. `partition` puts nodes into cells and numbers them cell by cell: near ones are near in memory.
//! 3. `link` compares each cell densely with the cells nearest to its nodes (`nearest`: the sign test of panels), and
//!    with ever smaller samples for long links. `prune` leaves links of different directions; reverse links are
//!    added and pruned once more.
//! 4. `layers` builds the same above, for 1 in 64 nodes and one of each connected component, and so on; `build` links nodes that searches do not find,
//!    `repair` links nodes that no search can reach.
//! 5. [`verify`]: reachability of all nodes and lookups of a sample, before a graph is published.
//!
//! Searching: `traversal` walks along links by integer distances, of a node's first codes before the others;
//! [`Searcher`] reranks the proposals by the canonical similarity, which alone decides order and thresholds.
//! [`GraphView`] works over borrowed slices and survives damaged ones.
//!
//! Distances are integers, ties are broken by node, and whatever is done in parallel is put together in task order;
//! nothing depends on who came first.

mod build;
mod link;
mod partition;
mod search;
pub mod verify;

#[cfg(test)]
mod tests;

use std::ops::Deref;

pub use build::Graph;
pub use search::{SearchMemory, Searcher};

use crate::codes::{Coding, Members, Pages, SplitRows};
use crate::join::JoinError;
use crate::{Damaged, Row, VectorError};

/// Why there is no graph.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildGraphError {
    /// A row holds NaN, an infinite value, or only zeros.
    #[error("row {row}: {reason}")]
    InvalidVector {
        /// The row.
        row: u32,
        /// The fault.
        reason: &'static str,
    },
    /// The vectors are too long for distances of codes.
    #[error(transparent)]
    Coding(#[from] Damaged),
    /// Rows are numbered with 31 bits.
    #[error("{found} rows are more than a graph can number (2,147,483,648)")]
    TooManyRows {
        /// Rows given.
        found: usize,
    },
    /// A parameter is out of range.
    #[error("degree must be 2 to 64, candidates degree to 1,024, probes 1 to 256")]
    Options,
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
    /// An option is out of range.
    #[error("{option} must be between {min} and {max}, found {found}")]
    Option {
        /// The option.
        option: &'static str,
        /// Its least value.
        min: usize,
        /// Its greatest value.
        max: usize,
        /// The value found.
        found: usize,
    },
    /// A row has no direction.
    #[error(transparent)]
    Row(#[from] VectorError),
}

impl From<JoinError> for BuildGraphError {
    fn from(error: JoinError) -> Self {
        match error {
            JoinError::InvalidVector { row, reason } => Self::InvalidVector { row, reason },
            // Reading rows in memory fails in no other way.
            _ => Self::Cancelled,
        }
    }
}

/// The sections of a graph as plain values, little-endian in files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GraphSections<'a> {
    /// The coding's mean: `dim` values.
    pub(crate) mean: &'a [f32],
    /// The coding's rotation, or nothing.
    pub(crate) rotation: &'a [f32],
    /// The coding's step.
    pub(crate) step: f32,
    /// How much of the squared distance of near nodes is in their first codes at most, but for one pair in ten.
    pub(crate) lead_share: f32,
    /// M: half the places for links of each node.
    pub(crate) degree: usize,
    /// Codes for each node, `dim` rounded up to a multiple of 4: of each node the first 64 or fewer, then of each node
    /// the others.
    pub(crate) codes: &'a [i8],
    /// 2 M links for each node, of three bytes, or four from 2²⁴ − 1 nodes on; all bits set where there are fewer.
    pub(crate) links: &'a [u8],
    /// The number of nodes of each upper layer, from below.
    pub(crate) layer_sizes: &'a [u32],
    /// The nodes of each upper layer, ascending.
    pub(crate) layer_nodes: &'a [u32],
    /// 2 M links for each of these, by position in the layer, in as many bytes as the size of the layer asks for.
    pub(crate) layer_links: &'a [u8],
    /// Where each node's rows start, and where the last one's end.
    pub(crate) member_starts: &'a [u32],
    /// The rows of each node; the highest bit marks a row with the vector of the one before.
    pub(crate) member_rows: &'a [u32],
}

/// A graph that can be searched; see [`Searcher`].
///
/// Lengths are checked when it is made, in O(1). Values are checked when they are followed: damaged
/// ones give wrong or fewer results, and nothing worse.
#[derive(Debug, Clone)]
pub struct GraphView<'a> {
    coding: Coding<'a>,
    codes: SplitRows<'a>,
    lead_share: f32,
    base: Layer<'a>,
    upper: UpperLayers<'a>,
    members: Members<'a>,
    entry: u32,
}

/// One layer: its nodes, and links by position in the layer.
#[derive(Debug, Clone, Copy)]
struct Layer<'a> {
    /// `None`: all nodes, in order.
    nodes: Option<&'a [u32]>,
    links: Links<'a>,
    /// Nodes of the whole graph.
    node_count: usize,
}

/// The layers above the lowest, from below; a lookup opens a view, so they take no memory from the heap.
#[derive(Debug, Clone, Copy)]
struct UpperLayers<'a> {
    layers: [Layer<'a>; LAYERS_MAX],
    count: usize,
}

impl<'a> Deref for UpperLayers<'a> {
    type Target = [Layer<'a>];

    fn deref(&self) -> &[Layer<'a>] {
        &self.layers[..self.count]
    }
}

impl<'a> GraphView<'a> {
    /// Takes sections of matching lengths.
    ///
    /// # Errors
    /// When they do not, the coding is none, or there are too many nodes or layers.
    pub(crate) fn new(sections: GraphSections<'a>) -> Result<Self, Damaged> {
        let coding = Coding::new(sections.rotation, sections.mean, sections.step)?;
        let degree = sections.degree;
        let node_count = sections.member_starts.len().saturating_sub(1);
        if !(2..=GraphOptions::DEGREE_MAX).contains(&degree) {
            return Err(Damaged::Range {
                number: "the degree",
                found: degree,
                expected: "2 to 64",
            });
        }
        let layer_count = sections.layer_sizes.len();
        if layer_count > LAYERS_MAX {
            return Err(layers(layer_count));
        }
        let layer_sizes = sections.layer_sizes.iter().map(|&size| size as usize);
        let in_layers = layer_sizes.clone().sum::<usize>();
        let links = |positions: usize| positions.saturating_mul(2 * degree * link_bytes(positions));
        let layer_links = layer_sizes.map(links).fold(0, usize::saturating_add);
        // Slices that exist have lengths far below the overflow of these products.
        let lengths = [
            ("nodes", node_count, node_count.min(1 << 31)),
            ("codes", sections.codes.len(), node_count.saturating_mul(coding.code_dim())),
            ("links", sections.links.len(), links(node_count)),
            ("nodes of layers", sections.layer_nodes.len(), in_layers),
            ("links of layers", sections.layer_links.len(), layer_links),
            ("starts of members", sections.member_starts.len(), node_count + 1),
        ];
        for (part, found, expected) in lengths {
            if found != expected {
                return Err(Damaged::Length { part, found, expected });
            }
        }
        let codes = SplitRows::new(sections.codes, coding.code_dim());
        let entry = entry(sections.layer_sizes, sections.layer_nodes);
        Ok(Self {
            coding,
            codes,
            lead_share: sections.lead_share,
            base: Layer {
                nodes: None,
                links: Links::new(sections.links, node_count, 2 * degree),
                node_count,
            },
            upper: upper_layers(&sections, node_count),
            members: Members {
                starts: sections.member_starts.into(),
                rows: sections.member_rows.into(),
            },
            entry: if (entry as usize) < node_count { entry } else { 0 },
        })
    }

    /// Returns the number of nodes: vectors of different codes.
    #[must_use]
    pub const fn node_count(&self) -> usize {
        self.codes.len()
    }

    /// Returns how far first codes of most nodes are that are within a squared distance.
    fn lead_distance_max(&self, distance: i32) -> i32 {
        // A damaged share lets all pass or none.
        (f64::from(self.lead_share) * f64::from(distance)) as i32
    }

    /// Returns the number of rows.
    pub(crate) fn row_count(&self) -> usize {
        self.members.rows.len()
    }

    /// Returns all rows, node by node: near ones mostly follow each other.
    pub(crate) fn rows_by_node(&self) -> impl Iterator<Item = Row> {
        (0..self.node_count() as u32).flat_map(|node| self.members.rows(node)).map(|(row, _)| row)
    }

    /// Returns the dimension of vectors.
    pub(crate) fn dim(&self) -> usize {
        self.coding.mean().len()
    }
}

pub(crate) const fn layers(found: usize) -> Damaged {
    Damaged::Range { number: "the number of upper layers", found, expected: "10 at most" }
}

fn upper_layers<'a>(sections: &GraphSections<'a>, node_count: usize) -> UpperLayers<'a> {
    let (mut nodes, mut links) = (sections.layer_nodes, sections.layer_links);
    let mut layer = |size: u32| {
        let (layer_nodes, layer_links);
        (layer_nodes, nodes) = nodes.split_at(size as usize);
        let (size, degree) = (size as usize, 2 * sections.degree);
        (layer_links, links) = links.split_at(size * degree * link_bytes(size));
        Layer { nodes: Some(layer_nodes), links: Links::new(layer_links, size, degree), node_count }
    };
    let sizes = sections.layer_sizes;
    let layers = std::array::from_fn(|at| layer(sizes.get(at).copied().unwrap_or(0)));
    UpperLayers { layers, count: sizes.len() }
}

impl<'a> Layer<'a> {
    /// Returns the number of positions.
    const fn len(&self) -> usize {
        self.links.len()
    }

    /// Returns the node at a position of the layer, if there is one.
    #[inline]
    fn node(&self, position: u32) -> Option<u32> {
        match self.nodes {
            None => ((position as usize) < self.node_count).then_some(position),
            Some(nodes) => {
                let node = *nodes.get(position as usize)?;
                ((node as usize) < self.node_count).then_some(node)
            }
        }
    }

    /// Returns the position of a node in the layer, if it is there.
    fn position(&self, node: u32) -> Option<u32> {
        match self.nodes {
            None => Some(node),
            Some(nodes) => nodes.binary_search(&node).ok().map(|position| position as u32),
        }
    }

    /// Returns the positions from which a search of the highest layer begins.
    fn first_positions(&self) -> std::ops::Range<u32> {
        0..self.len().min(TOP_NODES_MAX) as u32
    }
}

/// So many positions or more have links of four bytes.
const NARROW_POSITIONS: usize = (1 << 24) - 1;

/// Returns the bytes of a link among so many positions.
///
/// All bits set is the end of a list that is not full, so no position may have that number.
const fn link_bytes(positions: usize) -> usize {
    if positions < NARROW_POSITIONS { 3 } else { 4 }
}

/// The links of all positions of a layer, borrowed.
#[derive(Debug, Clone, Copy)]
struct Links<'a> {
    bytes: &'a [u8],
    width: usize,
    /// Bytes of one position.
    stride: usize,
}

impl<'a> Links<'a> {
    /// Takes `degree` links for each of so many positions, as [`LinkTable`] has them.
    const fn new(bytes: &'a [u8], positions: usize, degree: usize) -> Self {
        let width = link_bytes(positions);
        Self { bytes, width, stride: width * degree }
    }

    /// Returns the number of positions.
    const fn len(&self) -> usize {
        self.bytes.len() / self.stride
    }

    /// Returns how many links a position has at most.
    const fn degree(&self) -> usize {
        self.stride / self.width
    }

    /// Returns the links of a position as they lie in memory.
    #[inline]
    fn bytes(&self, position: u32) -> &'a [u8] {
        &self.bytes[position as usize * self.stride..][..self.stride]
    }

    /// Returns where a position leads to, which may be nowhere in damaged files.
    #[inline]
    fn of(&self, position: u32) -> impl Iterator<Item = u32> + use<'a> {
        let end = u32::MAX >> (32 - 8 * self.width as u32);
        let width = self.width;
        let links = self.bytes(position).chunks_exact(width).map(read);
        links.take_while(move |&link| link != end)
    }
}

#[inline]
fn read(link: &[u8]) -> u32 {
    match *link {
        [a, b, c] => u32::from_le_bytes([a, b, c, 0]),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        _ => u32::MAX,
    }
}

/// The links of all positions of a layer, or of some that follow each other, owned.
#[derive(Debug)]
struct LinkTable {
    bytes: Pages<u8>,
    /// Of the layer.
    positions: usize,
    degree: usize,
}

impl LinkTable {
    /// Packs lists of at most `degree` links among so many positions.
    fn new<L: AsRef<[u32]>>(positions: usize, degree: usize, lists: &[L]) -> Self {
        let bytes = Pages::zeroed(lists.len() * degree * link_bytes(positions));
        let mut table = Self { bytes, positions, degree };
        for (position, list) in (0..).zip(lists) {
            table.set(position, list.as_ref());
        }
        table
    }

    /// Puts parts of a layer of so many positions together.
    fn joined(positions: usize, degree: usize, parts: &[Self]) -> Self {
        let mut bytes = Pages::zeroed(positions * degree * link_bytes(positions));
        let mut rest = &mut bytes[..];
        for Self { bytes, .. } in parts {
            let place = rest.split_off_mut(..bytes.len()).expect("parts are those of the layer");
            place.copy_from_slice(bytes);
        }
        Self { bytes, positions, degree }
    }

    /// Returns all bytes.
    fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns how many links a position can have.
    const fn degree(&self) -> usize {
        self.degree
    }

    /// Returns the links for reading.
    fn view(&self) -> Links<'_> {
        Links::new(&self.bytes, self.positions, self.degree)
    }

    /// Replaces the links of a position; links beyond the capacity are dropped.
    fn set(&mut self, position: u32, links: &[u32]) {
        let width = link_bytes(self.positions);
        let stride = width * self.degree;
        let places = &mut self.bytes[position as usize * stride..][..stride];
        let mut links = links.iter();
        for place in places.chunks_exact_mut(width) {
            let link = links.next().map_or([u8::MAX; 4], |link| link.to_le_bytes());
            place.copy_from_slice(&link[..width]);
        }
    }
}

/// How a graph is built. The graph's bytes depend on all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphOptions {
    /// M: a node has up to 2 M links in each layer. Upper layers are too small to be worth fewer.
    pub degree: usize,
    /// How many nearest neighbours of each node are candidates for its links.
    pub candidates: usize,
    /// Cells of the partition in which a node's neighbours are looked for. Nearly all rows that searches miss are rows that they
    /// never come to, because a near row is not linked that lies in another cell.
    pub probes: usize,
}

impl GraphOptions {
    /// The largest M.
    pub(crate) const DEGREE_MAX: usize = 64;

    pub(crate) const fn validated(self) -> Option<Self> {
        let degree_fits = self.degree >= 2 && self.degree <= Self::DEGREE_MAX;
        let fits = degree_fits && self.candidates >= self.degree && self.candidates <= 1_024;
        if fits && self.probes >= 1 && self.probes <= 256 { Some(self) } else { None }
    }
}

impl Default for GraphOptions {
    /// The cheapest settings that reached a recall@10 of 0.99 with an `ef_search` of 64 (docs/decisions/0032-graph-by-cells.md).
    fn default() -> Self {
        Self { degree: 20, candidates: 64, probes: 16 }
    }
}

/// A hash has no more levels.
pub(crate) const LAYERS_MAX: usize = 10;

/// A layer of no more nodes is searched from end to end, and has none above it.
const TOP_NODES_MAX: usize = 256;

/// A set of no more nodes is searched from end to end and has no layers: that costs less than any graph.
const SCANNED_NODES_MAX: usize = 4_096;

/// Returns the node from which every other one can be reached: the first of the highest layer.
fn entry(layer_sizes: &[u32], layer_nodes: &[u32]) -> u32 {
    let top = layer_sizes.last().map_or(0, |&size| size as usize);
    layer_nodes.get(layer_nodes.len().saturating_sub(top)).copied().unwrap_or(0)
}
