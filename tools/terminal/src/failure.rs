//! [`Exit`]: the exit codes that scripts rely on.

use std::process::ExitCode;

use memfold::ops::FailureKind;
use memfold_core::runs::RunState;

pub use memfold::ops::Failure;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything was done.
    Done = 0,
    /// Something failed; nothing is half done.
    Failure = 1,
    /// The command line is wrong.
    Usage = 2,
    /// There are changes to make (only with `--exit-code`).
    ChangesPending = 3,
    /// Some units were skipped or rolled back.
    Partial = 4,
    /// Another run holds the store.
    Locked = 5,
    /// The user interrupted.
    Interrupted = 130,
}

impl From<Exit> for u8 {
    fn from(exit: Exit) -> Self {
        exit as Self
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<FailureKind> for Exit {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Usage | FailureKind::Unguarded => Self::Usage,
            FailureKind::Locked => Self::Locked,
            FailureKind::Interrupted => Self::Interrupted,
            _ => Self::Failure,
        }
    }
}

impl From<RunState> for Exit {
    fn from(state: RunState) -> Self {
        match state {
            RunState::Done | RunState::Running => Self::Done,
            RunState::Partial => Self::Partial,
            RunState::Interrupted => Self::Interrupted,
            RunState::Failed => Self::Failure,
        }
    }
}
