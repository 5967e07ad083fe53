//! Runs: operations on a store, and how they ended.

use crate::memory::named;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

named! {
    /// The purpose of a run.
    pub enum RunKind {
        /// Applies a plan.
        Execute = "execute",
        /// Takes back the changes of runs.
        Undo = "undo",
        /// Brings archived memories back to life.
        Restore = "restore",
        /// Erases memories everywhere.
        Forget = "forget",
        /// Removes old entries of the journal.
        Prune = "prune",
        /// Writes down decisions of a person.
        Review = "review",
        /// Saves memories: one run for each process and day.
        Save = "save",
        /// Writes down how many merges of another run a person found right (applied), wrong (failed) or could not judge (stale).
        Audit = "audit",
        /// The same of near pairs that were refused: right ones (applied) differ, wrong ones (failed) say the same.
        AuditRefused = "audit_refused",
    }
}

named! {
    /// How a run ended, or that it has not.
    pub enum RunState {
        /// It has not ended.
        Running = "running",
        /// Everything was done.
        Done = "done",
        /// Some units were skipped or rolled back.
        Partial = "partial",
        /// It was stopped, or its process died.
        Interrupted = "interrupted",
        /// It could not go on.
        Failed = "failed",
    }
}

/// A run that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningRun {
    /// Which run.
    pub run_id: String,
    /// Who runs it: host and process.
    pub holder: String,
    /// When it was last known to be alive.
    pub heartbeat_at: String,
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Executed {
    /// Units applied.
    pub applied: u64,
    /// Units skipped because a row had changed.
    pub stale: u64,
    /// Units rolled back.
    pub failed: u64,
}

/// A run as it is listed. Texts are as stored: escape them where they are shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunSummary {
    /// Which run.
    pub run_id: String,
    /// A [`RunKind`]'s name, or one of a later version.
    pub kind: String,
    /// The plan that it applied.
    pub plan_id: Option<String>,
    /// What it was asked for; the sha256 of it where that was to be forgotten.
    pub target: Option<String>,
    /// A [`RunState`]'s name, or one of a later version.
    pub state: String,
    /// Who ran it.
    pub holder: String,
    /// When it started.
    pub started_at: String,
    /// When it ended.
    pub finished_at: Option<String>,
    /// How much it did.
    pub executed: Executed,
    /// Units of it that the store still knows.
    pub units: u64,
    /// Those of them that were undone.
    pub undone: u64,
}

/// Where the chain of runs does not hold: a run before this one was changed, added or removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, JsonSchema)]
#[schemars(rename = "ChainBreakDocument")]
#[error("the audit chain breaks at run {run_id}: expected {expected}, found {found}")]
pub struct ChainBreak {
    /// The run with a hash that does not fit the run before.
    pub run_id: String,
    /// The hash of the run before, as it is now.
    pub expected: String,
    /// The hash that was written down.
    pub found: String,
}

/// All runs of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunHistory {
    /// The runs, the first one first.
    pub runs: Vec<RunSummary>,
    /// Where their audit chain breaks first; `None`: it holds.
    pub chain_break: Option<ChainBreak>,
}

/// A unit of a run: the changes of one transaction. Texts are as stored: escape them where they are shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "UnitDocument")]
pub struct UnitSummary {
    /// Its number in the run.
    pub unit: i64,
    /// `applied` or `undone`.
    pub state: String,
    /// The run that took it back.
    pub undone_by: Option<String>,
    /// The plan that it applied.
    pub plan_id: Option<String>,
    /// The plan's actions that it applied: `a1 merge`.
    pub actions: Vec<String>,
    /// The unit that it took back.
    pub reverts: Option<RevertedUnit>,
    /// The memories that it changed, by id.
    pub memories: Vec<String>,
    /// When.
    pub at: String,
}

/// A unit of another run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "RevertedDocument")]
pub struct RevertedUnit {
    /// The run.
    pub run_id: String,
    /// Its number in that run.
    pub unit: i64,
}
