//! Carrying out changes, each with its journal entry.

use rusqlite::params;
use rusqlite::types::ToSql;

use super::fts::{self, quoted};
use super::layout::Layout;
use super::rows::row;
use super::writes::Writes;
use super::{SessionError, archive};
use crate::journal::{Change, ColumnChange, JournalEntry, Record, RowImage, RowKey, Table};

/// Which unit of which run changes something, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark<'a> {
    /// The run.
    pub(crate) run_id: &'a str,
    /// The unit, from 1.
    pub(crate) unit: i64,
    /// When, as the owner writes times.
    pub(crate) at: &'a str,
}

/// Carries out the changes of a unit in order and writes them down.
pub(crate) fn apply(
    writes: &Writes<'_>,
    layout: &Layout,
    mark: &Mark<'_>,
    changes: &[Change],
) -> Result<(), SessionError> {
    for change in changes {
        let record_key = carry_out(writes, layout, mark, change)?;
        write_down(writes, mark, &JournalEntry::of(change, record_key))?;
    }
    Ok(())
}

/// Returns the key of a new record.
fn carry_out(
    writes: &Writes<'_>,
    layout: &Layout,
    mark: &Mark<'_>,
    change: &Change,
) -> Result<Option<i64>, SessionError> {
    match change {
        Change::Set { row, columns, .. } => set(writes, row, columns)?,
        Change::PutIn { id, image: None } => archive::put_back(writes, layout, id)?,
        Change::PutIn { id, image: Some(image) } => {
            if archive::stands(writes, id)? {
                return Err(refused(format!("a memory with id {id} is there already")));
            }
            archive::put_in(writes, layout, image, true)?;
        }
        Change::TakeOut { id, survivor } => {
            archive::take_out(writes, layout, mark, (id, survivor.as_deref()))?;
        }
        Change::Index { id } => {
            if let Some((rowid, image)) = placed(writes, layout, id)? {
                fts::add(writes, layout, (rowid, &image))?;
            }
        }
        Change::Unindex { id } => {
            if let Some((rowid, image)) = placed(writes, layout, id)? {
                fts::remove(writes, layout, (rowid, &image))?;
            }
        }
        Change::Record(record) => return insert(writes, mark, record).map(Some),
    }
    Ok(None)
}

fn placed(
    writes: &Writes<'_>,
    layout: &Layout,
    id: &str,
) -> Result<Option<(i64, RowImage)>, SessionError> {
    let found = writes.query("read a memory", |connection| {
        row(connection, (&layout.memories, layout.has_rowid), ("id", id))
    })?;
    Ok(found.and_then(|image| Some((image.rowid?, image))))
}

fn set(writes: &Writes<'_>, row: &RowKey, columns: &[ColumnChange]) -> Result<(), SessionError> {
    if columns.is_empty() {
        return Ok(());
    }
    let assignments: Vec<String> = columns
        .iter()
        .zip(2..)
        .map(|(change, number): (_, u32)| format!("{} = ?{number}", quoted(&change.column)))
        .collect();
    let sql = format!("UPDATE {} SET {} WHERE id = ?1", row.table.name(), assignments.join(", "));
    let number = row.key.parse::<i64>().unwrap_or(-1);
    let key: &dyn ToSql = if row.table == Table::Memories { &row.key } else { &number };
    let mut params: Vec<&dyn ToSql> = vec![key];
    params.extend(columns.iter().map(|change| &change.after as &dyn ToSql));
    match writes.execute("change a row", &sql, &*params)? {
        1 => Ok(()),
        found => Err(refused(format!("{row}: expected one row, found {found}"))),
    }
}

fn insert(writes: &Writes<'_>, mark: &Mark<'_>, record: &Record) -> Result<i64, SessionError> {
    let names: Vec<&str> = record.cells.iter().map(|(name, _)| *name).collect();
    let marks = (5..names.len() + 5).map(|n| format!("?{n}")).collect::<Vec<_>>().join(", ");
    let sql = format!(
        "INSERT INTO {}(run_id, unit, at, active, {}) VALUES (?1, ?2, ?3, ?4, {marks})",
        record.table.name(),
        names.join(", ")
    );
    let mut params: Vec<&dyn ToSql> = vec![&mark.run_id, &mark.unit, &mark.at, &1_i64];
    params.extend(record.cells.iter().map(|(_, value)| value as &dyn ToSql));
    writes.execute("write down a record", &sql, &*params)?;
    Ok(writes.connection().last_insert_rowid())
}

fn write_down(
    writes: &Writes<'_>,
    mark: &Mark<'_>,
    entry: &JournalEntry,
) -> Result<(), SessionError> {
    let json = |value: Option<serde_json::Value>| value.map(|value| value.to_string());
    writes
        .execute(
            "write the journal",
            "INSERT INTO memfold_journal
                (run_id, unit, op, table_name, row_key, row_rowid, before, after, deltas, survivor)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                mark.run_id,
                mark.unit,
                entry.op.name(),
                entry.row.table.name(),
                entry.row.key,
                entry.image.as_ref().and_then(|image| image.rowid),
                json(entry.before_json()),
                json(entry.after_json()),
                json(entry.deltas_json()),
                entry.survivor,
            ],
        )
        .map(drop)
}

fn refused(reason: String) -> SessionError {
    SessionError::Refused { what: "change the store", reason }
}
