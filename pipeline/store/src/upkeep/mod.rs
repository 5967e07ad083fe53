//! Upkeep: work of people on single memories and on leftovers of runs, each as a run of its own.
//!
//! * [`restore`]: an archived memory lives again, apart from its survivor. Can be undone.
//! * [`forget`]: a memory is erased everywhere. Cannot be undone.
//! * [`prune`]: old entries of the journal are removed. Cannot be undone, nor can the runs that
//!   they recorded.

mod restore;
mod forget;

pub use forget::{Erasure, Forgotten, Mentions, forget, mentions, preview_forget};
pub use restore::{
    Pruned, Pruning, Restoration, RestoreCandidate, RestoreReason, UpkeepError, UpkeepRun,
    preview_prune, preview_restore, prune, restorable, restore, revive,
};
