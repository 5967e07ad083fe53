//! The plan: proposed changes as plain data.
//!
//! [`decide`] turns a detection into a [`Plan`]. What happens to a row is decided in this order: protection, the
//! contradiction of a pair, merge, then promote and archive on the state after the merge. A row is
//! in at most one merge; merged rows get nothing else; rows left alone in a cluster get
//! a noop with the reason.
//!
//! Actions stand in plan order: merges by cluster (newest member first), promotions and archivals by
//! unit (newest first), flags (highest score first), proposals (largest gain first), noops by cluster. Cluster ids count clusters in
//! that order.

mod action;
mod conditions;
mod decide;
mod flags;
mod merging;
mod context;
mod single;
mod swap;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

pub(crate) use action::PLAN_SCHEMA_VERSION;
pub(crate) use action::risk;
pub use action::{
    Action, ActionState, ActionType, Evidence, Plan, PlanSummary, Rationale, Risk, SavedAction,
    SavedPlan, action_label, plan_digest, plan_id, probability_in_words,
};
pub use conditions::{
    FactGuard, GuardedTexts, ProtectedBy, SimilarityOf, UPDATE, differences, is_written_better,
    lacks, proof_steps, protected_by, signal_kinds,
};
pub use context::{PlanInput, merged_values};
pub(crate) use decide::PROPOSE;
pub use decide::{Decided, ONE_SAYS_MORE, decide};
pub use flags::flag_key;
pub use single::extract;
pub(crate) use swap::SETTLED;
pub use swap::{SwapInput, SwapRefusal, superseding, swap_survivor};

pub use crate::value::canonical_json;

/// Words of a text are shown up to so many characters.
const SHOWN_WORD_CHARS: usize = 60;
