//! Stores: where memories live.
//!
//! A `brain.db` is read and written directly; [`reading`] understands its cells. Stores of other systems
//! are [`origin`]s, which `memfold-adapters` reads and writes.

mod error;
mod memory_store;
pub mod reading;
pub mod brain_db;
pub mod upkeep;
pub mod whole_file;
pub mod origin;

pub use memfold_core::journal;

pub use brain_db::{BrainDb, OpenOptions};
pub use error::StoreError;
pub use memory_store::{
    LiveRow, LiveVisitor, LoadRequest, MemoryStore, NoVectors, VecSink, VectorSink,
};
