//! Search entries, where nobody but us keeps them.
//!
//! A contentless table forgets a text only when it is told the exact text; without that the old words would
//! match whatever row gets the rowid next. SQLite's FTS5 documentation, "The 'delete' command".

use rusqlite::types::ToSql;

use super::SessionError;
use super::layout::{Layout, Search};
use super::rows::is_indexed;
use super::writes::Writes;
use crate::journal::{RowImage, StoredValue};

/// Makes a row searchable, unless it is.
pub(super) fn add(
    writes: &Writes<'_>,
    layout: &Layout,
    (rowid, image): (i64, &RowImage),
) -> Result<(), SessionError> {
    let Search::ByHand { columns, .. } = &layout.search else { return Ok(()) };
    if indexed(writes, rowid)? {
        return Ok(());
    }
    let names = columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let marks = (2..columns.len() + 2).map(|n| format!("?{n}")).collect::<Vec<_>>().join(", ");
    let sql = format!("INSERT INTO stm_fts(rowid, {names}) VALUES (?1, {marks})");
    let values = values(columns, image);
    let mut params: Vec<&dyn ToSql> = vec![&rowid];
    params.extend(values.iter().map(|value| value as &dyn ToSql));
    writes.execute("make a memory searchable", &sql, &*params).map(drop)
}

/// Removes a row's search entry, if it has one; returns whether it had.
pub(super) fn remove(
    writes: &Writes<'_>,
    layout: &Layout,
    (rowid, image): (i64, &RowImage),
) -> Result<bool, SessionError> {
    let Search::ByHand { columns, plain_delete } = &layout.search else { return Ok(false) };
    if !indexed(writes, rowid)? {
        return Ok(false);
    }
    const WHAT: &str = "remove a search entry";
    if *plain_delete {
        writes.execute(WHAT, "DELETE FROM stm_fts WHERE rowid = ?1", [rowid])?;
        return Ok(true);
    }
    let names = columns.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let marks = (2..columns.len() + 2).map(|n| format!("?{n}")).collect::<Vec<_>>().join(", ");
    let sql =
        format!("INSERT INTO stm_fts(stm_fts, rowid, {names}) VALUES ('delete', ?1, {marks})");
    let values = values(columns, image);
    let mut params: Vec<&dyn ToSql> = vec![&rowid];
    params.extend(values.iter().map(|value| value as &dyn ToSql));
    writes.execute(WHAT, &sql, &*params)?;
    Ok(true)
}

fn indexed(writes: &Writes<'_>, rowid: i64) -> Result<bool, SessionError> {
    writes.query("look for a search entry", |connection| is_indexed(connection, rowid))
}

fn values(columns: &[String], image: &RowImage) -> Vec<StoredValue> {
    columns.iter().map(|name| image.get(name).cloned().unwrap_or(StoredValue::Null)).collect()
}

pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
