//! Stores: where memories live. One trait, adapters beside it.
//!
//! An adapter turns its rows into raw cells; [`reading`] understands them the same way for every store.

mod memory_store;
mod live;
mod error;
pub mod reading;
pub mod journal;
pub mod brain_db;
pub mod upkeep;
mod vec_sink;

pub use brain_db::{BrainDb, OpenOptions, OpenStoreError};
pub use error::LoadStoreError;
pub use live::{LiveRow, LiveVisitor};
pub use memfold_model::{SkipReason, Snapshot};
pub use memory_store::{LoadRequest, MemoryStore, VectorSink};
pub use vec_sink::VecSink;
