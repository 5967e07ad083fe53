//! What an undo is asked for, and why there may be nothing to do.

use jiff::tz::TimeZone;
use memfold_index::Progress;

use memfold_model::memory::MemoryId;
use memfold_model::time::Instant;
use memfold_plan::report::Executed;
use memfold_store::brain_db::SessionError;
use memfold_store::journal::RevertOptions;

/// What to take back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoTarget {
    /// All that a run did, last first.
    Run(String),
    /// The unit with an action: of a run, or of the last run that applied an action of this label.
    Action {
        /// The run.
        run_id: Option<String>,
        /// The action's label, `a17`.
        label: String,
    },
    /// The last unit that changed a memory.
    Memory(MemoryId),
}

impl std::fmt::Display for UndoTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run(run) => write!(f, "run {run}"),
            Self::Action { run_id: Some(run), label } => write!(f, "action {label} of run {run}"),
            Self::Action { run_id: None, label } => write!(f, "action {label}"),
            Self::Memory(id) => write!(f, "memory {id}"),
        }
    }
}

/// What to undo, and how.
#[derive(Clone, Copy)]
pub struct UndoRequest<'a> {
    /// What to take back.
    pub target: &'a UndoTarget,
    /// What may be done about conflicts.
    pub options: RevertOptions,
    /// Leaves out the decisions that keep the next run from doing the same again.
    pub remerge_ok: bool,
    /// The id wanted for the run.
    pub run_id: &'a str,
    /// The run's time.
    pub now: Instant,
    /// The zone of naive times.
    pub time_zone: &'a TimeZone,
    /// Who runs: `<machine> <process>`.
    pub holder: &'a str,
    /// Where progress goes, and the wish to stop comes from.
    pub progress: &'a dyn Progress,
    /// Seconds since any fixed moment.
    pub clock: &'a dyn Fn() -> f64,
}

/// Why nothing can be undone, or an undo stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// The store cannot be written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The store failed in the middle; what was taken back stays so.
    #[error("undo {run_id} stopped after {} units: {error}", executed.applied)]
    Stopped {
        /// The undo's own run.
        run_id: String,
        /// Units by result so far.
        executed: Executed,
        /// Why.
        #[source]
        error: SessionError,
    },
    /// The store knows nothing of the kind.
    #[error("there is no {target} to undo")]
    Unknown {
        /// What was asked for.
        target: String,
    },
    /// It was taken back already.
    #[error("{target} was undone already, by {by}")]
    Undone {
        /// What was asked for.
        target: String,
        /// The undo.
        by: String,
    },
    /// Its journal was pruned.
    #[error("the journal of {target} was pruned")]
    Pruned {
        /// What was asked for.
        target: String,
    },
}

impl UndoError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Session(error) | Self::Stopped { error, .. } => error.hint(),
            Self::Unknown { .. } => Some("`memfold runs DB` lists what was done".to_owned()),
            Self::Undone { by, .. } => {
                Some(format!("`memfold undo DB {by}` takes the undo itself back"))
            }
            Self::Pruned { .. } => {
                Some("`memfold restore DB ID` brings single memories back".to_owned())
            }
        }
    }
}
