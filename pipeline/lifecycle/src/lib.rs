//! How alive is a memory, how does it hang together with others, and what does a session need to
//! know?
//!
//! Pure functions over plain data: no I/O, no clock. The stores and commands around them are
//! elsewhere.

mod retention;
mod tiers;

pub use retention::{
    ACTIVATION_CAP, ACTIVATION_WEIGHT, ARCHIVE_BELOW, CATEGORY_IMPORTANCE, HALF_LIFE_DAYS, HOT_MIN,
    IMPORTANCE_WEIGHT, PINNED_IMPORTANCE_MIN, RECENCY_WEIGHT, Retention, RetentionInput,
    RetentionPolicy, RetentionPolicyError, SUPERSEDED_FACTOR, UNKNOWN_RECENCY, WARM_MIN, retention,
};
pub use tiers::{Tier, TierAssignment, TierCounts, TierReason, Transition, assign, transitions};
