//! One run per store: a lock of the operating system on a file beside it.
//!
//! The lock is not on the store itself: closing any descriptor of that file would drop SQLite's own
//! locks. It goes with the process, however that ends; the empty file stays, because removing it
//! would let two runs lock two files of one name.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::SessionError;
use crate::runs::RunningRun;
use crate::store::brain_db::access::beside;

/// A living run shows itself at least so often.
const HEARTBEAT_WATCHED: Duration = Duration::from_secs(5);

/// Held while a run writes.
#[derive(Debug)]
pub(super) struct StoreLock {
    _file: File,
}

impl StoreLock {
    /// Takes the lock, or tells who has it.
    pub(super) fn take(
        store: &Path,
        holder: &str,
        running: impl Fn() -> Option<RunningRun>,
    ) -> Result<Self, SessionError> {
        let path = lock_path(store);
        let refused = |error: std::io::Error| SessionError::ReadOnly {
            path: path.clone(),
            reason: error.to_string(),
        };
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(refused)?;
        let known = running();
        let locked = |known: Option<RunningRun>| SessionError::LockedByRun {
            path: store.to_owned(),
            holder: known.map(|run| {
                format!("{} of {}, last seen {}", run.run_id, run.holder, run.heartbeat_at)
            }),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(locked(known)),
            // Some network file systems know no locks; the run's own row is then all there is.
            Err(TryLockError::Error(_)) if known.is_none() => {}
            Err(TryLockError::Error(error)) => return Err(refused(error)),
        }
        // With the lock in hand, a run of this machine is dead; one of another machine may be alive
        // behind a file system whose locks do not reach this far.
        let is_foreign = |run: &RunningRun| machine(&run.holder) != machine(holder);
        if let Some(run) = known.filter(is_foreign) {
            std::thread::sleep(HEARTBEAT_WATCHED);
            let later = running();
            if later.as_ref().is_some_and(|later| later.heartbeat_at != run.heartbeat_at) {
                return Err(locked(later));
            }
        }
        Ok(Self { _file: file })
    }
}

/// The lock file of a store.
pub(in crate::store::brain_db) fn lock_path(store: &Path) -> PathBuf {
    beside(store, ".memfold-lock")
}

/// Holders read `<machine> <process>`.
fn machine(holder: &str) -> &str {
    holder.split(' ').next().unwrap_or(holder)
}
