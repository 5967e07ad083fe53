//! How alive is a memory, how does it hang together with others, and what does a session need to
//! know?
//!
//! Pure functions over plain data: no I/O, no clock. The stores and commands around them are
//! elsewhere. In reading order:
//!
//! * [`retention`] scores a memory from its row and the time; [`assign`] makes a [`Tier`] of it;
//!   [`transitions`] says what changed.
//! * [`Edge`]s say what supersedes, consolidates and references what: [`superseded_by`],
//!   [`tree`].
//! * [`session_block`] makes the context a session starts with, within a budget of
//!   [`estimated_tokens`]; [`replace_block`] puts it into a text, [`hook_output`] into an answer.
//! * [`temporal`] reads the times that texts name, and answers when-questions step by step.
//! * [`due`] says whether a consolidation should run.
//!
//! Nothing here deletes, and no pinned memory leaves WARM.

mod retention;
mod tiers;
mod edges;
mod session;
mod note;
mod tokens;
mod hook;
mod due;
pub mod temporal;

pub use crate::summary::Confidence;
pub use due::{
    DuePolicy, DueReason, DueState, IDLE_MINUTES, INTERVAL_HOURS, NEW_MEMORIES_MIN, UNINDEXED_MAX,
    due,
};
pub use edges::{Edge, EdgeType, TREE_DEPTH_MAX, TreeLine, references, superseded_by, tree};
pub use hook::{HookInput, hook_output, replace_block};
pub use retention::{
    ACTIVATION_CAP, ACTIVATION_WEIGHT, ARCHIVE_BELOW, CATEGORY_IMPORTANCE, HALF_LIFE_DAYS, HOT_MIN,
    IMPORTANCE_WEIGHT, PINNED_IMPORTANCE_MIN, RECENCY_WEIGHT, Retention, RetentionInput,
    RetentionPolicy, RetentionPolicyError, SUPERSEDED_FACTOR, UNKNOWN_RECENCY, WARM_MIN, retention,
};
pub use session::{
    Prioritise, SESSION_CHARS_MAX, SESSION_CONFIDENCE_MIN, SESSION_ITEMS_MAX, SESSION_TOKENS_MAX,
    SessionBlock, SessionPolicy, SessionState, SummaryItem, session_block,
};
pub use tiers::{Tier, TierAssignment, TierCounts, TierReason, Transition, assign, transitions};
pub use tokens::estimated_tokens;
