//! The plan: what should be done, as plain data.
//!
//! [`decide`] turns a detection into a [`Plan`]. A row meets its fate in this order: protection, the
//! contradiction of a pair, merge, then promote and archive on what it is after the merge. A row is
//! in at most one merge; what a merge absorbs gets nothing else; what is left alone in a cluster gets
//! a noop with the reason.
//!
//! Actions stand in plan order: merges by cluster (newest member first), promotions and archivals by
//! unit (newest first), flags (highest score first), proposals (largest gain first), noops by cluster. Cluster ids count clusters in
//! that order.

mod action;
mod conditions;
mod decide;
mod flags;
mod fold;
mod context;
mod propose;
mod saved;
mod single;
mod extract;
mod swap;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

pub(crate) use action::PLAN_SCHEMA_VERSION;
pub use action::{
    Action, ActionType, Evidence, Plan, Rationale, Risk, action_label, probability_in_words,
};
pub use conditions::{FactGuard, GuardedTexts, SimilarityOf};
pub use conditions::{UPDATE, differences, is_written_better, lacks, proof_steps, signal_kinds};
pub use context::PlanInput;
pub use decide::{Decided, decide};
pub use saved::{canonical_json, plan_digest, plan_id};

pub use conditions::ProtectedBy;
pub use extract::extract;
pub use flags::flag_key;
pub use saved::{ActionState, PlanSummary, SavedAction, SavedPlan};
pub use swap::{SETTLED, SwapInput, SwapRefusal, superseding, swap_survivor};

pub use action::risk;
pub use conditions::protected_by;
pub use context::Values;
pub(crate) use decide::rfc3339;
pub use propose::ONE_SAYS_MORE;
pub(crate) use propose::PROPOSE;

/// Words of a text are shown up to so many characters.
const SHOWN_WORD_CHARS: usize = 60;
