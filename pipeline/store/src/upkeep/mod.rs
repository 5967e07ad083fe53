//! Upkeep: work of people on single memories and on leftovers of runs, each as a run of its own.
//!
//! * [`restore`]: an archived memory lives again, apart from its survivor. Can be undone.
//! * [`forget`]: a memory is erased everywhere. Cannot be undone.
//! * [`prune`]: old entries of the journal are removed. Cannot be undone, nor can the runs that
//!   they recorded.

mod run;
mod prune;
mod restore;
mod mentions;
mod forget;

pub use forget::{Erasure, Forgotten, forget, preview_forget};
pub use mentions::{Mentions, mentions};
pub use prune::{Pruned, Pruning, preview_prune, prune};
pub use restore::{
    Restoration, RestoreCandidate, RestoreReason, preview_restore, restorable, restore, revive,
};
pub use run::{UpkeepError, UpkeepRun};
