//! Making and renewing the tables.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::ddl::{MIGRATIONS, VERSION};

/// Which store it is, and whether its tables are new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store::brain_db) struct Migrated {
    /// The store's name.
    pub(in crate::store::brain_db) store_id: String,
    /// Whether nothing was ever written to this store before.
    pub(in crate::store::brain_db) is_first: bool,
}

/// Why the tables cannot be used.
#[derive(Debug)]
pub(in crate::store::brain_db) enum MigrateError {
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
pub(in crate::store::brain_db) fn migrate(
    connection: &Connection,
    store_id: impl FnOnce() -> rusqlite::Result<String>,
    at: &str,
) -> Result<Migrated, MigrateError> {
    let found = recorded(connection)?;
    let version = found.as_ref().map_or(0, |(version, _)| *version);
    if version > VERSION {
        return Err(MigrateError::Newer { found: version });
    }
    for sql in MIGRATIONS.iter().skip(version.max(0) as usize) {
        connection.execute_batch(sql)?;
    }
    let Some((_, store_id)) = found else {
        let store_id = store_id()?;
        connection.execute(
            "INSERT INTO memfold_schema(version, store_uuid, created_at, engine_version)
             VALUES (?1, ?2, ?3, ?4)",
            params![VERSION, store_id, at, env!("CARGO_PKG_VERSION")],
        )?;
        return Ok(Migrated { store_id, is_first: true });
    };
    if version < VERSION {
        connection.execute("UPDATE memfold_schema SET version = ?1", [VERSION])?;
    }
    Ok(Migrated { store_id, is_first: false })
}

/// The tables' version and the store's name; `None` where there are no tables yet.
fn recorded(connection: &Connection) -> rusqlite::Result<Option<(i64, String)>> {
    let exists: bool = connection.query_row(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'memfold_schema'",
        [],
        |row| row.get(0),
    )?;
    if !exists {
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
        let first = migrate(&connection, fresh, "t").unwrap();
        assert!(first.is_first && first.store_id == "store_1");
        let again = migrate(&connection, || unreachable!(), "t").unwrap();
        assert!(!again.is_first && again.store_id == "store_1");
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
