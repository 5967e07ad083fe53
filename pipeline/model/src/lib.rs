//! What is a memory, a change, a decision, a snapshot?
//!
//! Plain types that every stage shares, and how texts and times are read: no I/O, no clock, no store.

pub mod memory;
pub mod categories;
pub mod time;
pub mod text;
pub mod decisions;
pub mod lineage;
pub mod runs;
mod skip;
mod snapshot;

pub use skip::SkipReason;
pub use snapshot::Snapshot;
