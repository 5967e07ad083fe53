//! Support for the suites: stores in a line, runs in a line, definitions to compare with.

mod references;
mod model;
mod published;
mod rows;
mod run;
mod test_store;
mod in_memory;
mod test_index;
mod store_facts;
mod store_image;
mod wild_store;
pub mod stub_provider;

pub mod fuzz;
pub mod torture;

pub use memfold_bench::synthetic::templated;

pub use in_memory::{InMemoryStore, PlainEmbedding, PlainMemory};
pub use model::{apply, comparable_source};
pub use published::assert_published;
pub use references::{
    LinkageCase, NeighborLists, greedy_definition, linkage_cases, neighbor_lists,
};
pub use rows::{
    Draws, LabelledLine, NOW, PATIENT, StoreStyle, brain_db, brain_db_with, created_at,
    daemon_memory, generated_rows, labelled_lines, memory, npy_of_rows, sample_rows, store_now,
    store_of_vectors, turned_vector, unit_vector,
};
pub use run::{CONFIG_HASH, Run, clusters, merges, noops};
pub use store_facts::{FactReader, facts_findable};
pub use store_image::{StoreImage, assert_same, diff, integrity, tokens};
pub use test_index::TestIndex;
pub use test_store::{AppliedRun, TestStore};
pub use wild_store::{Fact, wild_store, wild_store_with_journal};
