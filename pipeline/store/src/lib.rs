//! Stores: where memories live. One trait, adapters beside it.
//!
//! An adapter turns its rows into raw cells; [`reading`] understands them the same way for every store.

mod memory_store;
pub mod reading;
pub mod journal;
pub mod brain_db;
pub mod upkeep;

pub use brain_db::{BrainDb, OpenOptions, OpenStoreError};
pub use memfold_model::{SkipReason, Snapshot};
pub use memory_store::{
    LiveRow, LiveVisitor, LoadRequest, LoadStoreError, MemoryStore, VecSink, VectorSink,
};
