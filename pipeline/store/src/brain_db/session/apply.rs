//! Carrying out changes, each with its journal entry.

use rusqlite::params;
use rusqlite::types::ToSql;

use super::fts::{self, Words, quoted};
use super::layout::Layout;
use super::rows::row;
use super::writes::Writes;
use super::{SessionError, archive};
use crate::journal::{
    Change, ColumnChange, JournalEntry, Record, RowImage, RowKey, StoredValue, Table,
};

/// Which unit of which run changes something, and when.
#[derive(Debug, Clone, Copy)]
pub struct Mark<'a> {
    /// The run.
    pub run_id: &'a str,
    /// The unit, from 1.
    pub unit: i64,
    /// When, as the owner writes times.
    pub at: &'a str,
}

/// Carries out the changes of a unit in order and writes them down.
pub fn apply(
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
        Change::Set { row, columns, .. } => {
            set(writes, row, columns)?;
            if row.table == Table::Memories && revives(columns) {
                revived(writes, mark, &row.key)?;
            }
        }
        Change::PutIn { id, image: None } => {
            archive::put_back(writes, layout, id)?;
            revived(writes, mark, id)?;
        }
        Change::PutIn { id, image: Some(image) } => {
            if archive::stands(writes, id)? {
                return Err(refused(format!("a memory with id {id} is there already")));
            }
            archive::put_in(writes, layout, image, (true, None))?;
            revived(writes, mark, id)?;
        }
        Change::TakeOut { id, survivor, said } => {
            let (survivor, said) = (survivor.as_deref(), said.as_deref());
            archive::take_out(writes, layout, mark, (id, survivor, said))?;
        }
        Change::Index { id, words } => {
            if let Some((rowid, image)) = placed(writes, layout, id)? {
                fts::add(writes, layout, (rowid, words.as_ref().unwrap_or(&image)))?;
            }
        }
        Change::Unindex { id, words } => {
            if let Some((rowid, image)) = placed(writes, layout, id)? {
                unindex(writes, layout, (id, rowid, &image), words.as_ref())?;
            }
        }
        Change::Record(record) => return insert(writes, mark, record).map(Some),
    }
    Ok(None)
}

/// Words that are not known stay: their row stays, too.
fn unindex(
    writes: &Writes<'_>,
    layout: &Layout,
    (id, rowid, image): (&str, i64, &RowImage),
    known: Option<&RowImage>,
) -> Result<(), SessionError> {
    if let Some(words) = known {
        return fts::remove(writes, layout, (rowid, words));
    }
    match fts::words(writes, layout, (id, image), None)? {
        Words::Now => fts::remove(writes, layout, (rowid, image)),
        Words::Earlier(words) => fts::remove(writes, layout, (rowid, &words)),
        Words::None | Words::Unknown => Ok(()),
    }
}

/// Tells whether a row loses the marks of the archive.
fn revives(columns: &[ColumnChange]) -> bool {
    let is_mark = |column: &str, value: &StoredValue| {
        let text = value.as_text().unwrap_or_default();
        match column.to_ascii_lowercase().as_str() {
            "source" => text.starts_with("archived:"),
            "categories" => text.contains("archived") || text.contains("archive/"),
            "archived_by" => *value != StoredValue::Null,
            _ => false,
        }
    };
    columns.iter().any(|change| {
        is_mark(&change.column, &change.before) && !is_mark(&change.column, &change.after)
    })
}

/// Writes down that a row is live again, because an index knows it as one that is not, or not at all, and it stands
/// among rows that the index has seen.
fn revived(writes: &Writes<'_>, mark: &Mark<'_>, id: &str) -> Result<(), SessionError> {
    let sql = "INSERT INTO memfold_revived(memory_id, at) VALUES (?1, ?2)";
    writes.execute("write down a row that lives again", sql, params![id, mark.at]).map(drop)
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
    let key: &dyn ToSql = if row.table.is_own() { &number } else { &row.key };
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
