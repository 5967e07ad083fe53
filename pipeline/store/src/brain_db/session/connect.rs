//! Connecting for writing.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::SessionError;

/// Opens an existing store; never makes one, never changes its journal mode.
pub(super) fn for_writing(path: &Path, busy_timeout: Duration) -> Result<Connection, SessionError> {
    let explain = |error: rusqlite::Error| {
        SessionError::of_sqlite(path, "open the store for writing", &error, Some(busy_timeout))
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(explain)?;
    connection.busy_timeout(busy_timeout).map_err(explain)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(explain)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(explain)?;
    // What is overwritten leaves no old bytes in its page, so that forgetting can keep its word.
    connection.pragma_update(None, "secure_delete", "FAST").map_err(explain)?;
    // What we keep beside the store while we write needs no file.
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(explain)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    if connection.is_readonly("main").map_err(explain)? {
        let reason = "the file is read-only".to_owned();
        return Err(SessionError::ReadOnly { path: path.to_owned(), reason });
    }
    Ok(connection)
}

const STATEMENTS_CACHED: usize = 64;
