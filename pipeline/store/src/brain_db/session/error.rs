//! [`SessionError`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::ErrorCode;

use super::Shortage;
use crate::OpenStoreError;

/// Why a store cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// It cannot even be read.
    #[error(transparent)]
    Open(#[from] OpenStoreError),
    /// The file or its folder may not be written.
    #[error("{} cannot be written: {reason}", path.display())]
    ReadOnly {
        /// The store.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Another run of memfold is at work.
    #[error("{} is locked by another run of memfold{}", path.display(), holder.as_ref().map_or_else(String::new, |by| format!(": {by}")))]
    LockedByRun {
        /// The store.
        path: PathBuf,
        /// Which run, since when and by whom, where that is known.
        holder: Option<String>,
    },
    /// Another process holds SQLite's write lock.
    #[error("{} was locked by another process for {} ms; nothing is half done", path.display(), waited.as_millis())]
    Busy {
        /// The store.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// There is no room for what is to be written.
    #[error("{} cannot grow: {shortage}; nothing is half done", path.display())]
    Full {
        /// The store.
        path: PathBuf,
        /// What there is too little of.
        shortage: Shortage,
    },
    /// The disk fails, or the file is damaged.
    #[error("failed to {what} in {}: {reason}", path.display())]
    Broken {
        /// The store.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What SQLite says.
        reason: String,
    },
    /// One statement was refused: a trigger, a constraint, an altered table.
    #[error("failed to {what}: {reason}")]
    Refused {
        /// What was tried.
        what: &'static str,
        /// What SQLite says.
        reason: String,
    },
    /// memfold's tables in the store are of a later version.
    #[error("the memfold tables of {} have version {found}, this program knows up to {}", path.display(), super::own::VERSION)]
    NewerTables {
        /// The store.
        path: PathBuf,
        /// Their version.
        found: i64,
    },
    /// What memfold wrote there cannot be understood.
    #[error("{what} in {} cannot be understood", path.display())]
    Unreadable {
        /// The store.
        path: PathBuf,
        /// What was read.
        what: String,
    },
}

impl SessionError {
    /// Turns what SQLite says into what it means here.
    pub(crate) fn of_sqlite(
        path: &Path,
        what: &'static str,
        error: &rusqlite::Error,
        waited: Option<Duration>,
    ) -> Self {
        let reason = error.to_string();
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Busy { path, waited: waited.unwrap_or_default() }
            }
            Some(ErrorCode::DiskFull) => {
                let shortage = Shortage::find(&path).unwrap_or_else(|| Shortage::of_disk(&path));
                Self::Full { path, shortage }
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                Self::ReadOnly { path, reason }
            }
            Some(
                ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::OutOfMemory
                | ErrorCode::FileLockingProtocolFailed,
            ) => match Shortage::find(&path) {
                Some(shortage) => Self::Full { path, shortage },
                None => Self::Broken { path, what, reason },
            },
            _ => Self::Refused { what, reason },
        }
    }

    /// Tells whether every later write would fail as well, so that a run should stop.
    #[must_use]
    pub const fn stops_the_run(&self) -> bool {
        !matches!(self, Self::Refused { .. } | Self::Unreadable { .. })
    }

    /// Tells whether another run holds the store.
    #[must_use]
    pub const fn is_locked_by_run(&self) -> bool {
        matches!(self, Self::LockedByRun { .. })
    }

    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Open(error) => error.hint(),
            Self::ReadOnly { .. } => Some(
                "memfold writes to the store, its log and a lock file beside it: check the \
                 permissions of the file and its folder"
                    .to_owned(),
            ),
            Self::LockedByRun { .. } => {
                Some("wait until it has finished; `memfold runs DB` shows it".to_owned())
            }
            Self::Busy { .. } => Some(
                "end what holds the store, or wait longer: --set busy_timeout_ms=60000; \
                 what was applied stays applied, running again continues"
                    .to_owned(),
            ),
            Self::Full { shortage: Shortage::FileSize, .. } => Some(
                "raise the limit (`ulimit -f unlimited`); what was applied stays applied, running again continues"
                    .to_owned(),
            ),
            Self::Full { .. } => Some(
                "make room; what was applied stays applied, running again continues".to_owned(),
            ),
            Self::Broken { .. } => Some(
                "run `PRAGMA integrity_check` on the store and look at the disk; what was \
                 applied can be undone"
                    .to_owned(),
            ),
            Self::NewerTables { .. } => {
                Some("use the version of memfold that wrote them, or a later one".to_owned())
            }
            Self::Unreadable { .. } => Some(
                "something else wrote to memfold's tables; docs/recovery.md says how to go on"
                    .to_owned(),
            ),
            Self::Refused { .. } => None,
        }
    }
}
