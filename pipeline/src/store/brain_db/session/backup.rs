//! A copy of the store before memfold first changes it.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::{Session, SessionError};
use crate::store::brain_db::access::beside;
use crate::store::brain_db::checkup::free_bytes;

/// What became of the copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackupOutcome {
    /// It was made.
    Made {
        /// Where it is.
        path: PathBuf,
    },
    /// It could not be made; the journal is what undo works with anyway.
    Skipped {
        /// Why.
        reason: String,
    },
}

impl Session {
    /// Copies the store to `<store>.memfold-backup-<run_id>` as it is at one instant, rowids included, while
    /// others go on. A copy that cannot be made leaves nothing behind.
    #[must_use]
    pub fn back_up(&self, run_id: &str) -> BackupOutcome {
        let path = beside(&self.path, &format!(".memfold-backup-{run_id}"));
        let partial = beside(&self.path, ".memfold-backup-partial");
        if let Some(reason) = self.lacks_room() {
            return BackupOutcome::Skipped { reason };
        }
        let made = self.copy_to(&partial).and_then(|()| {
            std::fs::rename(&partial, &path).map_err(|error| SessionError::ReadOnly {
                path: path.clone(),
                reason: error.to_string(),
            })
        });
        match made {
            Ok(()) => BackupOutcome::Made { path },
            Err(error) => {
                // What is left of a copy is of no use; failing to remove it is no second failure.
                let _ = std::fs::remove_file(&partial);
                let _ = std::fs::remove_file(beside(&partial, "-journal"));
                BackupOutcome::Skipped { reason: error.to_string() }
            }
        }
    }

    /// A copy must leave the disk at least as much room as it takes.
    fn lacks_room(&self) -> Option<String> {
        let bytes = [self.path.clone(), beside(&self.path, "-wal")];
        let bytes: u64 =
            bytes.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|m| m.len()).sum();
        let free = free_bytes(&self.path)?;
        (free < bytes.saturating_mul(2))
            .then(|| format!("it takes {bytes} bytes and the disk has only {free} left"))
    }

    fn copy_to(&self, path: &Path) -> Result<(), SessionError> {
        let explain = |error: rusqlite::Error| {
            SessionError::of_sqlite(path, "copy the store", &error, Some(self.busy_timeout))
        };
        if path.exists() {
            std::fs::remove_file(path).map_err(|error| SessionError::ReadOnly {
                path: path.to_owned(),
                reason: error.to_string(),
            })?;
        }
        let mut copy = Connection::open(path).map_err(explain)?;
        {
            let backup = Backup::new(&self.connection, &mut copy).map_err(explain)?;
            // One step under one read lock: a copy in pieces would start over whenever somebody writes.
            match backup.step(-1).map_err(explain)? {
                StepResult::Done => {}
                _ => {
                    return Err(SessionError::Busy {
                        path: self.path.clone(),
                        waited: self.busy_timeout,
                    });
                }
            }
        }
        copy.close().map_err(|(_, error)| explain(error))
    }
}
