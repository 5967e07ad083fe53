//! How alive is a memory, how does it hang together with others, and which context does a
//! session need?
//!
//! Pure functions over plain data: no I/O, no clock. The stores and commands around them are
//! elsewhere. In reading order:
//!
//! * [`retention`] scores a memory from its row and the time; [`assign`] makes a [`Tier`] of it;
//!   [`transitions`] lists the changes.
//! * [`Edge`]s say which memory supersedes, consolidates or references which:
//!   [`superseded_by`], [`tree`].
//! * [`session_block`] makes the context a session starts with, within a budget of
//!   [`estimated_tokens`]; [`replace_block`] puts it into a text, [`hook_output`] into an answer.
//! * [`temporal`] reads the times that texts name, and answers when-questions step by step.
//! * [`due`] says whether a consolidation should run.
//!
//! Nothing here deletes, and no pinned memory leaves WARM.

mod retention;
mod edges;
mod session;
mod hook;
mod due;
pub mod temporal;

pub use crate::summary::Confidence;
pub(crate) use due::NEW_MEMORIES_MIN;
pub use due::{DueReason, DueState, due};
pub use edges::{Edge, EdgeType, TREE_DEPTH_MAX, TreeLine, references, superseded_by, tree};
pub use hook::{HookInput, hook_output, replace_block};
pub(crate) use retention::{ARCHIVE_BELOW, HALF_LIFE_DAYS, WARM_MIN};
pub use retention::{
    Retention, RetentionInput, RetentionPolicy, Tier, TierAssignment, TierCounts, TierReason,
    Transition, assign, retention, transitions,
};
pub use session::{SessionBlock, SessionState, SummaryItem, estimated_tokens, session_block};
