//! One run per store: a lock of the operating system on a file beside it.
//!
//! The lock is not on the store itself: closing any descriptor of that file would drop SQLite's own
//! locks. It goes with the process, however that ends; the empty file stays, because removing it
//! would let two runs lock two files of one name.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(unix)]
use memfold_index::snapshot::FileMode;

use super::SessionError;
use crate::brain_db::access::beside;
use memfold_model::runs::RunningRun;

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
        let file = open(store, &path).map_err(refused)?;
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

/// Opens the lock file, or makes one for those who may write to the store; follows no link.
fn open(store: &Path, path: &Path) -> io::Result<File> {
    if path.symlink_metadata().is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other("not a regular file"));
    }
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    #[cfg(unix)]
    {
        let mode = FileMode::like(&store.metadata()?).file_bits();
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    }
    #[cfg(not(unix))]
    let _ = store;
    options.open(path)
}

/// The lock file of a store.
pub(in crate::brain_db) fn lock_path(store: &Path) -> PathBuf {
    beside(store, ".memfold-lock")
}

/// Holders read `<machine> <process>`.
fn machine(holder: &str) -> &str {
    holder.split(' ').next().unwrap_or(holder)
}
