//! What a comparison of all rows found, and what queries found, as Parquet: [`PairsWriter`], [`ClustersWriter`], [`NeighborsWriter`].
//!
//! Rows are global ordinals: positions over all inputs in their order. Files of pairs and clusters carry their kind
//! and thresholds in the metadata, are written in portions and appear whole or not at all.

mod clusters;
mod neighbors;
mod pairs;
mod table;

pub use clusters::{ClusterRow, ClustersWriter};
pub use neighbors::{NeighborRow, NeighborsWriter};
pub use pairs::{PairRow, PairsForm, PairsWriter};
pub use table::{RESULT_SCHEMA_VERSION, ResultOptions, key};

#[cfg(test)]
mod tests;
