//! Exit codes: what scripts rely on.

use std::ffi::OsString;
use std::process::ExitCode;

use crate::printer;

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

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl Exit {
    /// Prints what clap says of what was typed: help and the version to stdout with 0, mistakes to stderr with 2.
    #[must_use]
    pub fn of_usage(error: &clap::Error, typed: &[OsString]) -> ExitCode {
        printer::usage(error, typed);
        if error.use_stderr() { Self::Usage.into() } else { Self::Done.into() }
    }
}
