//! Stores: where memories live.
//!
//! A `brain.db` is read and written directly; [`reading`] understands its cells. Stores of other systems
//! are [`origin`]s: read as plain records, mirrored into a `brain.db` and written back.

mod memory_store;
pub mod reading;
pub mod journal;
pub mod brain_db;
pub mod upkeep;
mod whole_file;
pub mod origin;
pub mod mcp_memory;
pub mod markdown;
pub mod json_folder;
#[cfg(feature = "git")]
pub mod git_notes;
#[cfg(not(feature = "git"))]
#[path = "git_notes/not_built.rs"]
pub mod git_notes;

pub use brain_db::{BrainDb, OpenOptions, OpenStoreError};
pub use memfold_model::{SkipReason, Snapshot};
pub use memory_store::{
    LiveRow, LiveVisitor, LoadRequest, LoadStoreError, MemoryStore, NoVectors, VecSink, VectorSink,
};
pub use whole_file::OsLock;
