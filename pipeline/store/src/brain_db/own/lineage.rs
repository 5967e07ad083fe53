//! `memfold_lineage`: who was folded into whom.

use rusqlite::Connection;

use super::exist;

/// Returns the keys of the rows in force that say what a memory was folded into.
pub(crate) fn active_folds_of(
    connection: &Connection,
    absorbed: &str,
) -> rusqlite::Result<Vec<i64>> {
    if !exist(connection)? {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare_cached(
        "SELECT id FROM memfold_lineage WHERE absorbed_id = ?1 AND active = 1 ORDER BY id",
    )?;
    statement.query_map([absorbed], |row| row.get(0))?.collect()
}
