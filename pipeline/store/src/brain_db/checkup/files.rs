//! The store's files and the disk they are on.

use std::fs::{self, TryLockError};
use std::path::Path;

use rusqlite::Connection;

use super::facts::Files;
use crate::brain_db::access::{Stamp, beside};
use crate::brain_db::session::lock_path;

/// Looks at the files of the store at `path`, which `connection` reads.
pub(super) fn examine(
    connection: &Connection,
    path: &Path,
    stamp: &Stamp,
) -> rusqlite::Result<Files> {
    let count =
        |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let lock = lock_path(path);
    let lock_name = lock.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(Files {
        store_bytes: length(path),
        log_bytes: length(&beside(path, "-wal")),
        in_wal_mode: stamp.in_wal_mode(),
        pages: count("page_count")?.unsigned_abs(),
        free_pages: count("freelist_count")?.unsigned_abs(),
        free_bytes: free_bytes(path),
        lock_file: lock_name.filter(|_| lock.exists()),
    })
}

/// Tells whether a run holds the store's lock; `None` where the system does not tell.
///
/// Asks for a share of the lock and gives it back at once: only for stores where a run says that it is under way.
pub(super) fn is_locked(store: &Path) -> Option<bool> {
    let file = fs::File::open(lock_path(store)).ok()?;
    match file.try_lock_shared() {
        Ok(()) => Some(false),
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => None,
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

/// Returns the bytes that this user may still write to the disk of a file.
#[cfg(unix)]
pub(in crate::brain_db) fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
pub(in crate::brain_db) fn free_bytes(_path: &Path) -> Option<u64> {
    None
}
