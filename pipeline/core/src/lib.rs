//! Memories, and proposals to merge near ones.
//!
//! `Plan = f(memories, decisions, policy, now)`. Pure functions over plain data, except [`judge`]'s client: no store, no clock.
//!
//! | module | contents |
//! |---|---|
//! | [`value`], [`row`], [`journal`] | rows as stored, how they are understood, and reversible changes to them |
//! | [`merge`] | actions become changes |
//! | [`memory`], [`time`], [`lineage`], [`decisions`], [`runs`], [`summary`] | the types that every stage shares |
//! | [`policy`] | configuration: files, variables and flags become a validated [`Policy`](policy::Policy) |
//! | [`detect`] | pairs of near vectors become units, clusters and contradictions |
//! | [`cluster`] | groups of a graph that are linked throughout |
//! | [`plan`] | a detection and a policy become actions, and noops with a reason |
//! | [`report`] | a plan as JSON, Markdown, on the screen |
//! | [`judge`] | questions that the guard leaves open, and the limits on their answers |
//! | [`lifecycle`] | retention, tiers, edges, session context, times in texts |

pub mod memory;
pub mod time;
pub mod value;
pub mod journal;
pub mod row;
pub mod merge;
pub mod decisions;
pub mod lineage;
pub mod runs;
pub mod summary;
pub mod policy;
pub mod cluster;
pub mod detect;
pub mod plan;
pub mod report;
pub mod judge;
pub mod lifecycle;

pub use memory::{SkipReason, Snapshot};
