//! What is a memory, a change, a decision, a snapshot?
//!
//! Plain types that every stage shares, and how texts and times are read: no I/O, no clock, no store.

pub mod memory;
pub mod time;
pub mod text;
pub mod decisions;
pub mod lineage;
pub mod runs;
pub mod summary;
mod snapshot;

pub use snapshot::{SkipReason, Snapshot};
