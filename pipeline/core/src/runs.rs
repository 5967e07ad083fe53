//! Runs: what was started on a store, and how it ended.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a run is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunKind {
    /// Applies a plan.
    Execute,
    /// Takes back what runs did.
    Undo,
    /// Brings archived memories back to life.
    Restore,
    /// Erases memories everywhere.
    Forget,
    /// Removes old entries of the journal.
    Prune,
    /// Writes down what a person decided.
    Review,
    /// Saves memories: one run for each process and day.
    Save,
    /// Writes down how many merges of another run a person found right (applied), wrong (failed) or could not judge (stale).
    Audit,
    /// The same of near pairs that were refused: right ones (applied) differ, wrong ones (failed) say the same.
    AuditRefused,
}

impl RunKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Execute,
        Self::Undo,
        Self::Restore,
        Self::Forget,
        Self::Prune,
        Self::Review,
        Self::Save,
        Self::Audit,
        Self::AuditRefused,
    ];

    /// Returns the name in the store.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Undo => "undo",
            Self::Restore => "restore",
            Self::Forget => "forget",
            Self::Prune => "prune",
            Self::Review => "review",
            Self::Save => "save",
            Self::Audit => "audit",
            Self::AuditRefused => "audit_refused",
        }
    }

    /// Returns the kind of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for RunKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a run ended, or that it has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunState {
    /// It has not ended.
    Running,
    /// Everything was done.
    Done,
    /// Some units were skipped or rolled back.
    Partial,
    /// It was stopped, or its process died.
    Interrupted,
    /// It could not go on.
    Failed,
}

impl RunState {
    /// Every state.
    pub const ALL: [Self; 5] =
        [Self::Running, Self::Done, Self::Partial, Self::Interrupted, Self::Failed];

    /// Returns the name in the store.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Partial => "partial",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }

    /// Returns the state of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
    /// The plan it applied.
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
    /// Those of them that were taken back.
    pub undone: u64,
}

/// Where the chain of runs does not hold: a run before this one was changed, added or removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the audit chain breaks at run {run_id}: expected {expected}, found {found}")]
pub struct ChainBreak {
    /// The run whose hash of the one before does not fit.
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

/// A unit of a run: what was done in one transaction. Texts are as stored: escape them where they are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitSummary {
    /// Its number in the run.
    pub unit: i64,
    /// `applied` or `undone`.
    pub state: String,
    /// The run that took it back.
    pub undone_by: Option<String>,
    /// The plan it carried out.
    pub plan_id: Option<String>,
    /// The plan's actions that it carried out: `a1 merge`.
    pub actions: Vec<String>,
    /// The run and unit that it took back.
    pub reverts: Option<(String, i64)>,
    /// The memories that it changed, by id.
    pub memories: Vec<String>,
    /// When.
    pub at: String,
}

#[cfg(test)]
mod tests {
    use super::{RunKind, RunState};

    #[test]
    fn names_are_read_back() {
        for kind in RunKind::ALL {
            assert_eq!(RunKind::of_name(kind.name()), Some(kind));
        }
        for state in RunState::ALL {
            assert_eq!(RunState::of_name(state.name()), Some(state));
        }
        assert_eq!((RunKind::of_name("x"), RunState::of_name("")), (None, None));
    }
}
