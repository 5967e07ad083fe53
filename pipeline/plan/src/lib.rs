//! What should become of near memories?
//!
//! `Plan = f(memories, decisions, policy, now)`. Near memories are detected in mapped vectors, clustered
//! and judged; a plan and a report come out. This crate knows no store: it has no such dependency.
//!
//! | stage | from | to |
//! |---|---|---|
//! | [`policy`] | files, variables, flags | a validated [`Policy`](policy::Policy) |
//! | [`detect`] | pairs of near vectors | units, clusters, contradictions |
//! | [`cluster`] | a graph of links | groups that are linked throughout |
//! | [`plan`] | a detection and a policy | actions, and noops with a reason |
//! | [`report`] | all of it | JSON, Markdown, the screen |

pub mod policy;
pub mod cluster;
pub mod detect;
pub mod plan;
pub mod report;
