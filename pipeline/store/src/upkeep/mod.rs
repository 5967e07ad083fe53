//! Upkeep: what people do to single memories and to what runs left behind, each as a run of its own.
//!
//! * [`restore`]: an archived memory lives again, apart from what it was merged into. Can be undone.
//! * [`forget`]: a memory is erased everywhere. Cannot be undone.
//! * [`prune`]: old entries of the journal go. Cannot be undone, nor can what they were kept for.

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
