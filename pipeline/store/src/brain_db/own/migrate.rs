//! Making and renewing the tables.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::ddl::{MIGRATIONS, VERSION};
use crate::brain_db::{SessionError, Writes};

/// Why the tables cannot be used.
#[derive(Debug)]
pub(crate) enum MigrateError {
    /// They were made by a later version of memfold.
    Newer {
        /// The tables' version.
        found: i64,
    },
    /// SQLite refuses.
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for MigrateError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Brings the tables to this version, inside a write transaction of the caller. `store_id` names a
/// store that holds no name yet.
pub(crate) fn migrate(
    connection: &Connection,
    store_id: impl FnOnce() -> rusqlite::Result<String>,
    at: &str,
) -> Result<(), MigrateError> {
    let found = recorded(connection)?;
    let version = found.as_ref().map_or(0, |(version, _)| *version);
    if version > VERSION {
        return Err(MigrateError::Newer { found: version });
    }
    for sql in MIGRATIONS.iter().skip(version.max(0) as usize) {
        connection.execute_batch(sql)?;
    }
    if found.is_none() {
        let store_id = store_id()?;
        connection.execute(
            "INSERT INTO memfold_schema(version, store_uuid, created_at, engine_version)
             VALUES (?1, ?2, ?3, ?4)",
            params![VERSION, store_id, at, env!("CARGO_PKG_VERSION")],
        )?;
    } else if version < VERSION {
        connection.execute("UPDATE memfold_schema SET version = ?1", [VERSION])?;
    }
    Ok(())
}

/// Tells whether memfold ever wrote to the store.
pub(crate) fn exist(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'memfold_schema'",
        [],
        |row| row.get(0),
    )
}

impl Writes<'_> {
    /// Tells whether memfold ever wrote to the store.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn has_own_tables(&self) -> Result<bool, SessionError> {
        self.query("look for memfold's tables", exist)
    }
}

/// The tables' version and the store's name; `None` where there are no tables yet.
pub(crate) fn recorded(connection: &Connection) -> rusqlite::Result<Option<(i64, String)>> {
    if !exist(connection)? {
        return Ok(None);
    }
    connection
        .query_row("SELECT version, store_uuid FROM memfold_schema LIMIT 1", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> rusqlite::Result<String> {
        Ok("store_1".to_owned())
    }

    #[test]
    fn tables_are_made_once() {
        let connection = Connection::open_in_memory().unwrap();
        assert_eq!(recorded(&connection).unwrap(), None);
        migrate(&connection, fresh, "t").unwrap();
        migrate(&connection, || unreachable!(), "t").unwrap();
        let found = recorded(&connection).unwrap();
        assert_eq!(found, Some((VERSION, "store_1".to_owned())));
    }

    #[test]
    fn tables_of_a_later_version_are_left_alone() {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection, fresh, "t").unwrap();
        connection.execute("UPDATE memfold_schema SET version = 99", []).unwrap();
        let refused = migrate(&connection, fresh, "t");
        assert!(matches!(refused, Err(MigrateError::Newer { found: 99 })));
    }

    #[test]
    fn nothing_newer_than_sqlite_3_24_is_used() {
        let sql = MIGRATIONS.concat().to_uppercase();
        for word in ["STRICT", "GENERATED", "TRIGGER", "VIEW", "RETURNING", "WITHOUT ROWID"] {
            assert!(!sql.contains(word), "{word}");
        }
    }
}
