//! Support for the suites: stores in a line, runs in a line, definitions to compare with.

mod data;
mod definition;
mod linkage;
mod model;
mod rows;
mod run;

pub use data::{real_vectors, report_skipped};
pub use definition::{NeighborLists, greedy_definition, neighbor_lists};
pub use linkage::{LinkageCase, linkage_cases};
pub use model::apply;
pub use rows::{
    NOW, brain_db, created_at, generated_rows, memory, sample_rows, store_of_vectors, unit_vector,
};
pub use run::{Run, clusters, merges, noops};
