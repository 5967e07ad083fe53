//! What a comparison of all rows found, as Parquet: [`PairsWriter`], [`ClustersWriter`].
//!
//! Rows are global ordinals: positions over all inputs in their order. Both files carry their kind
//! and thresholds in the metadata, are written in portions and appear whole or not at all.

mod clusters;
mod pairs;
mod table;

pub use clusters::{ClusterRow, ClustersWriter};
pub use pairs::{PairRow, PairsForm, PairsWriter};
pub use table::{RESULT_SCHEMA_VERSION, ResultOptions, key};

#[cfg(test)]
mod tests;
