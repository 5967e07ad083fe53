//! One run per store: a lock of the operating system on a file beside it.
//!
//! The lock is not on the store itself: closing any descriptor of that file would drop SQLite's own
//! locks. It goes with the process, however that ends; the empty file stays, because removing it
//! would let two runs lock two files of one name.

use crate::brain_db::read::open::free_bytes;
use rusqlite::OptionalExtension;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, ffi};

use crate::brain_db::read::access::beside;
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::session::{Session, SessionError};
use crate::memory_store::LoadStoreError;
use crate::whole_file::OsLock;
use memfold_core::runs::RunningRun;
use memfold_index::file::FileMode;

/// A living run shows itself at least so often.
const HEARTBEAT_WATCHED: Duration = Duration::from_secs(5);

/// Held while a run writes.
#[derive(Debug)]
pub(crate) struct StoreLock {
    _lock: OsLock,
}

impl StoreLock {
    /// Takes the lock, or tells who has it.
    pub(crate) fn take(
        store: &Path,
        holder: &str,
        running: impl Fn() -> Option<RunningRun>,
    ) -> Result<Self, SessionError> {
        let path = lock_path(store);
        let refused = |error: std::io::Error| SessionError::ReadOnly {
            path: path.clone(),
            reason: error.to_string(),
        };
        let known = running();
        let locked = |known: Option<RunningRun>| SessionError::LockedByRun {
            path: store.to_owned(),
            holder: known.map(|run| {
                format!("{} of {}, last seen {}", run.run_id, run.holder, run.heartbeat_at)
            }),
        };
        let lock = match OsLock::take(&path, store, Duration::ZERO).map_err(refused)? {
            None => return Err(locked(known)),
            // The run's own row is then all there is.
            Some(lock) if !lock.is_effective() && known.is_some() => return Err(locked(known)),
            Some(lock) => lock,
        };
        // This process has the lock, so a run of this machine is dead; a run of another machine may
        // be alive behind a file system with locks that do not reach this far.
        let is_foreign = |run: &RunningRun| machine(&run.holder) != machine(holder);
        if let Some(run) = known.filter(is_foreign) {
            std::thread::sleep(HEARTBEAT_WATCHED);
            let later = running();
            if later.as_ref().is_some_and(|later| later.heartbeat_at != run.heartbeat_at) {
                return Err(locked(later));
            }
        }
        Ok(Self { _lock: lock })
    }
}

/// The lock file of a store.
pub(crate) fn lock_path(store: &Path) -> PathBuf {
    beside(store, ".memfold-lock")
}

/// Holders read `<machine> <process>`.
fn machine(holder: &str) -> &str {
    holder.split(' ').next().unwrap_or(holder)
}

/// The outcome of the copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackupOutcome {
    /// It was made.
    Made {
        /// Where it is.
        path: PathBuf,
    },
    /// It could not be made; undo uses the journal anyway.
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
            fs::rename(&partial, &path).map_err(|error| SessionError::ReadOnly {
                path: path.clone(),
                reason: error.to_string(),
            })
        });
        match made {
            Ok(()) => BackupOutcome::Made { path },
            Err(error) => {
                // A partial copy is of no use; failing to remove it is not a second failure.
                let _ = fs::remove_file(&partial);
                let _ = fs::remove_file(beside(&partial, "-journal"));
                BackupOutcome::Skipped { reason: error.to_string() }
            }
        }
    }

    /// A copy must leave the disk at least as much room as it takes.
    fn lacks_room(&self) -> Option<String> {
        let bytes = [self.path.clone(), beside(&self.path, "-wal")];
        let bytes: u64 =
            bytes.iter().filter_map(|path| fs::metadata(path).ok()).map(|m| m.len()).sum();
        let free = free_bytes(&self.path)?;
        (free < bytes.saturating_mul(2))
            .then(|| format!("it takes {bytes} bytes and the disk has only {free} left"))
    }

    fn copy_to(&self, path: &Path) -> Result<(), SessionError> {
        let explain = |error: rusqlite::Error| {
            SessionError::of_sqlite(path, "copy the store", &error, Some(self.busy_timeout))
        };
        make_empty(&self.path, path).map_err(|error| SessionError::ReadOnly {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        let is_done = copy(&self.connection, path).map_err(explain)?;
        match is_done {
            true => Ok(()),
            false => Err(SessionError::Busy { path: self.path.clone(), waited: self.busy_timeout }),
        }
    }
}

impl BrainDb {
    /// Copies the store into a new file as it is at one instant, rowids included, while others go on.
    ///
    /// # Errors
    /// When it cannot be read, or the file cannot be written.
    pub fn copy_to(&self, path: &Path) -> Result<(), LoadStoreError> {
        self.consult("stm", |connection| {
            // A read transaction is under way, so the copy uses a connection of its own.
            let place = connection.path().unwrap_or_default().to_owned();
            let own = Connection::open_with_flags(place, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            match copy(&own, path)? {
                true => Ok(()),
                false => {
                    Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY), None))
                }
            }
        })
    }
}

/// Makes an empty file for a copy, from the start with the read permissions of the store.
///
/// An existing file of this name is replaced; a link is removed and not followed.
fn make_empty(store: &Path, path: &Path) -> io::Result<()> {
    let mode = FileMode::like(&fs::metadata(store)?);
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode.file_bits());
    #[cfg(not(unix))]
    let _ = mode;
    options.open(path).map(drop)
}

/// Copies in one step under one read lock, because a copy in pieces would start over whenever somebody writes; `false`
/// where somebody holds the store.
fn copy(from: &Connection, path: &Path) -> rusqlite::Result<bool> {
    let mut copy = Connection::open(path)?;
    let step = Backup::new(from, &mut copy)?.step(-1)?;
    copy.close().map_err(|(_, error)| error)?;
    Ok(matches!(step, StepResult::Done))
}

/// Returns the latest run that has not ended.
pub(crate) fn running(connection: &Connection) -> rusqlite::Result<Option<RunningRun>> {
    let sql = "SELECT run_id, holder, heartbeat_at FROM memfold_runs
               WHERE state = 'running' ORDER BY seq DESC LIMIT 1";
    let run = connection.query_row(sql, [], |row| {
        Ok(RunningRun { run_id: row.get(0)?, holder: row.get(1)?, heartbeat_at: row.get(2)? })
    });
    run.optional()
}
