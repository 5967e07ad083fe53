//! Counting recalled memories: in a short transaction, skipped if it would be late.

use std::path::Path;
use std::time::Duration;

use memfold_core::memory::MemoryId;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior, params};

use crate::brain_db::read::access::Columns;
use crate::brain_db::write::session::SessionError;

/// The waits together stay below 20 ms. Tries to begin, and the wait between two: about 11 ms.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_micros(500);
/// How long a commit may wait for readers: only a store with a rollback journal makes it wait.
const COMMIT_WAIT: Duration = Duration::from_millis(6);
/// How long each of the two reads of a newly opened store may wait.
const OPEN_WAIT: Duration = Duration::from_millis(1);

/// A connection that counts recalls and writes nothing else.
#[derive(Debug)]
pub struct RecallCounter {
    connection: Connection,
    sql: String,
}

impl RecallCounter {
    /// Connects to an existing store; changes nothing yet.
    ///
    /// # Errors
    /// When it cannot be opened for writing.
    pub fn open(path: &Path) -> Result<Self, SessionError> {
        let explain = |error: rusqlite::Error| failed(path, "open the store for writing", &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(explain)?;
        connection.busy_timeout(OPEN_WAIT).map_err(explain)?;
        if connection.is_readonly("main").map_err(explain)? {
            let reason = "the file is read-only".to_owned();
            return Err(SessionError::ReadOnly { path: path.to_owned(), reason });
        }
        let columns = Columns::of(&connection, "stm").map_err(explain)?;
        let mode: String =
            connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(explain)?;
        // In WAL mode a lost power can take the last counts, and nothing else, with it.
        let synchronous = if mode.eq_ignore_ascii_case("wal") { "NORMAL" } else { "FULL" };
        connection.pragma_update(None, "synchronous", synchronous).map_err(explain)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(explain)?;
        let accessed = if columns.has("last_accessed") { ", last_accessed = ?2" } else { "" };
        let sql = format!(
            "UPDATE stm SET access_count = coalesce(CAST(access_count AS INTEGER), 0) + 1{accessed}
             WHERE id = ?1 AND ?2 IS NOT NULL"
        );
        Ok(Self { connection, sql })
    }

    /// Raises the access count of memories by one and sets their last access, all in one transaction; `false` where
    /// somebody else was writing for too long (20 ms), and nothing was counted.
    ///
    /// The count is raised in the store, not from an earlier read: no count of another writer is
    /// lost.
    ///
    /// # Errors
    /// When the owner's tables refuse it, or the disk fails.
    pub fn count(&self, ids: &[&MemoryId], at: &str) -> Result<bool, SessionError> {
        let path = self.connection.path().map(Path::new).unwrap_or(Path::new(""));
        match self.try_count(ids, at) {
            Ok(counted) => Ok(counted),
            Err(error) if is_busy(&error) => Ok(false),
            Err(error) => Err(failed(path, "count a recall", &error)),
        }
    }

    fn try_count(&self, ids: &[&MemoryId], at: &str) -> rusqlite::Result<bool> {
        let Some(transaction) = self.begin()? else { return Ok(false) };
        let mut statement = self.connection.prepare_cached(&self.sql)?;
        for id in ids {
            statement.execute(params![id.as_str(), at])?;
        }
        drop(statement);
        // Dropped on failure, which rolls back.
        transaction.commit()?;
        Ok(true)
    }

    fn begin(&self) -> rusqlite::Result<Option<Transaction<'_>>> {
        self.connection.busy_timeout(Duration::ZERO)?;
        let mut begun = None;
        for attempt in 0..TRIES {
            if attempt > 0 {
                std::thread::sleep(BETWEEN_TRIES);
            }
            match Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate) {
                Err(error) if is_busy(&error) => {}
                other => {
                    begun = Some(other?);
                    break;
                }
            }
        }
        self.connection.busy_timeout(COMMIT_WAIT)?;
        Ok(begun)
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn failed(path: &Path, what: &'static str, error: &rusqlite::Error) -> SessionError {
    SessionError::of_sqlite(path, what, error, Some(COMMIT_WAIT))
}
