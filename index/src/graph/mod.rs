//! The graph tier: a navigable graph over int8 codes (HNSW in shape) that comes out the same bytes for every number
//! of threads and at every ISA level.
//!
//! Building:
//! 1. `crate::distinct` collapses bit-equal vectors; [`crate::codes`] encodes them. Vectors of one code are one node.
//! 2. `partition` puts nodes into cells and numbers them cell by cell: near ones are near in memory.
//! 3. `link` compares each cell densely with those nearest to its nodes (`nearest`: the sign test of panels), and
//!    with ever smaller samples for long links. `prune` leaves links of different directions; what points back is
//!    added and pruned once more.
//! 4. `layers` builds the same above, for 1 in 64 nodes and one of each connected component, and so on; `build` links nodes that searches do not find,
//!    `repair` those that none could.
//! 5. [`verify`]: reachability of all nodes and lookups of a sample, before a graph is published.
//!
//! Searching: `traversal` walks along links by integer distances, of a node's first codes before the others;
//! [`Searcher`] reranks what it proposes by the canonical similarity, which alone decides order and thresholds.
//! [`GraphView`] works over borrowed slices and survives damaged ones.
//!
//! Distances are integers, ties are broken by node, and whatever is done in parallel is put together in task order;
//! nothing depends on who came first.

mod build;
mod view;
mod searcher;
mod error;

mod layers;
mod nearest;
mod traversal;
mod link;
pub mod verify;
mod partition;

pub use build::Graph;
pub use error::BuildGraphError;
pub use searcher::{SearchMemory, Searcher};
pub use view::{GraphOptions, GraphSections, GraphView};
pub(crate) use view::{LAYERS_MAX, layers};

#[cfg(test)]
mod tests;
