//! Moving rows between the owner's tables and `memfold_archive`, bit for bit.

use rusqlite::types::ToSql;
use rusqlite::{OptionalExtension as _, params};
use serde_json::Value;

use super::SessionError;
use super::apply::Mark;
use super::fts::{self, Words, quoted};
use super::layout::{Layout, Search};
use super::rows::{image, row, select};
use super::writes::Writes;
use crate::brain_db::columns::Columns;
use crate::journal::{RowImage, StoredValue};

/// The name under which the archive keeps searchable words that were not those of the row.
const WORDS: &str = "stm_fts";

/// Moves a memory, its embeddings and its search entry into the archive table.
pub(super) fn take_out(
    writes: &Writes<'_>,
    layout: &Layout,
    mark: &Mark<'_>,
    (id, survivor, said): (&str, Option<&str>, Option<&str>),
) -> Result<(), SessionError> {
    if let Some(reason) = layout.move_refusal() {
        return Err(refused(reason.to_owned()));
    }
    let memory = writes
        .query("read a memory", |c| row(c, (&layout.memories, layout.has_rowid), ("id", id)))?
        .ok_or_else(|| refused(format!("memory {id} is gone")))?;
    let (indexed, words) = remove_entry(writes, layout, (id, &memory), said)?;
    let mut moved = vec![("stm", memory, indexed)];
    moved.extend(
        embeddings(writes, layout, id)?.into_iter().map(|image| ("embeddings", image, false)),
    );
    moved.extend(words.map(|words| (WORDS, words, false)));
    for (table, image, indexed) in &moved {
        writes.execute(
            "archive a row",
            "INSERT INTO memfold_archive
                (memory_id, table_name, row_rowid, row, indexed, survivor_id, run_id, at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                id,
                table,
                image.rowid,
                image.to_json().to_string(),
                indexed,
                survivor,
                mark.run_id,
                mark.at
            ],
        )?;
    }
    if !layout.embeddings.is_empty() {
        let sql = "DELETE FROM embeddings WHERE source_type = 'stm' AND source_id = ?1";
        writes.execute("remove an embedding", sql, [id])?;
    }
    match writes.execute("remove a memory", "DELETE FROM stm WHERE id = ?1", [id])? {
        1 => Ok(()),
        found => Err(refused(format!("{id}: expected one row, found {found}"))),
    }
}

/// Removes a row's search entry; returns whether it had one, and its words where they were not those of the row.
fn remove_entry(
    writes: &Writes<'_>,
    layout: &Layout,
    (id, memory): (&str, &RowImage),
    said: Option<&str>,
) -> Result<(bool, Option<RowImage>), SessionError> {
    let Some(rowid) = memory.rowid else { return Ok((false, None)) };
    match fts::words(writes, layout, (id, memory), said)? {
        Words::None => Ok((false, None)),
        Words::Now => {
            fts::remove(writes, layout, (rowid, memory))?;
            Ok((true, None))
        }
        Words::Earlier(words) => {
            fts::remove(writes, layout, (rowid, &words))?;
            Ok((true, Some(words)))
        }
        // The next row of this rowid would be found by them.
        Words::Unknown => Err(refused(format!("{id} is searchable by words that are not known"))),
    }
}

fn embeddings(
    writes: &Writes<'_>,
    layout: &Layout,
    id: &str,
) -> Result<Vec<RowImage>, SessionError> {
    if layout.embeddings.is_empty() {
        return Ok(Vec::new());
    }
    writes.query("read embeddings", |connection| {
        let columns = &layout.embeddings;
        let rest = "WHERE source_type = 'stm' AND source_id = ?1 ORDER BY 1";
        let sql = select(columns, layout.embeddings_have_rowid, rest);
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map([id], |row| image(columns, row))?;
        rows.collect()
    })
}

/// Brings a memory back from the archive table, with what was moved with it.
pub(super) fn put_back(writes: &Writes<'_>, layout: &Layout, id: &str) -> Result<(), SessionError> {
    let mut rows = archived(writes, id)?;
    if let Some(column) = without_column(layout, &rows).first() {
        return Err(refused(format!(
            "{id} has a value for {column}, a column that is there no more"
        )));
    }
    let words = rows.iter().position(|(table, _, _)| table == WORDS).map(|at| rows.remove(at).1);
    if rows.is_empty() {
        return Err(refused(format!("memory {id} is not in memfold_archive")));
    }
    for (table, image, indexed) in rows {
        match table.as_str() {
            "stm" => put_in(writes, layout, &image, (indexed, words.as_ref()))?,
            _ if layout.embeddings.is_empty() => {}
            _ => {
                insert(writes, &layout.embeddings, layout.embeddings_have_rowid, &image)?;
            }
        }
    }
    let sql = "DELETE FROM memfold_archive WHERE memory_id = ?1";
    writes.execute("clear the archive", sql, [id]).map(drop)
}

/// The columns of archived rows that hold a value and are in the owner's tables no more.
fn without_column(layout: &Layout, rows: &[(String, RowImage, bool)]) -> Vec<String> {
    let mut found = Vec::new();
    for (table, image, _) in rows {
        let (columns, prefix) = match table.as_str() {
            "stm" => (&layout.memories, ""),
            "embeddings" => (&layout.embeddings, "embeddings."),
            _ => continue,
        };
        let lost = image
            .cells
            .iter()
            .filter(|(name, value)| *value != StoredValue::Null && !columns.has(name));
        found.extend(lost.map(|(name, _)| format!("{prefix}{name}")));
    }
    found
}

/// As [`without_column`], of a memory in the archive table or of an image.
pub(super) fn lost_columns(
    reads: &Writes<'_>,
    layout: &Layout,
    (id, image): (&str, Option<&RowImage>),
) -> Result<Vec<String>, SessionError> {
    let rows = match image {
        Some(image) => vec![("stm".to_owned(), image.clone(), false)],
        None => archived(reads, id)?,
    };
    Ok(without_column(layout, &rows))
}

/// Inserts a memory and, where wanted, makes it searchable: by its own words, or by those that are given.
pub(super) fn put_in(
    writes: &Writes<'_>,
    layout: &Layout,
    image: &RowImage,
    (indexed, words): (bool, Option<&RowImage>),
) -> Result<(), SessionError> {
    let rowid = match layout.search {
        Search::ByHand { .. } => free_rowid(writes, image.rowid)?,
        _ => image.rowid,
    };
    let placed = RowImage { rowid, cells: image.cells.clone() };
    let rowid = insert(writes, &layout.memories, layout.has_rowid, &placed)?;
    if indexed && layout.has_rowid {
        fts::add(writes, layout, (rowid, words.unwrap_or(image)))?;
    }
    Ok(())
}

/// The rowid wanted, unless it is taken or words of a deleted row still hang on it; else the next one. `None`: there is
/// no next one, and SQLite finds one.
fn free_rowid(writes: &Writes<'_>, wanted: Option<i64>) -> Result<Option<i64>, SessionError> {
    writes.query("find a free rowid", |connection| {
        if let Some(rowid) = wanted {
            let sql = "SELECT EXISTS (SELECT 1 FROM stm WHERE rowid = ?1)
                           OR EXISTS (SELECT 1 FROM stm_fts_docsize WHERE id = ?1)";
            if !connection.prepare_cached(sql)?.query_row([rowid], |row| row.get::<_, bool>(0))? {
                return Ok(Some(rowid));
            }
        }
        let sql = "SELECT max(coalesce((SELECT max(rowid) FROM stm), 0),
                              coalesce((SELECT max(id) FROM stm_fts_docsize), 0))";
        let last: i64 = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
        Ok(last.checked_add(1))
    })
}

/// Inserts the columns that the table has; at its rowid where that is free.
fn insert(
    writes: &Writes<'_>,
    columns: &Columns,
    has_rowid: bool,
    image: &RowImage,
) -> Result<i64, SessionError> {
    let table = columns.table();
    let rowid = match image.rowid.filter(|_| has_rowid) {
        Some(rowid) if !is_taken(writes, table, rowid)? => Some(rowid),
        _ => None,
    };
    let cells: Vec<_> = image.cells.iter().filter(|(name, _)| columns.has(name)).collect();
    let mut names: Vec<String> = cells.iter().map(|(name, _)| quoted(name)).collect();
    let mut params: Vec<&dyn ToSql> = cells.iter().map(|(_, value)| value as &dyn ToSql).collect();
    if let Some(rowid) = &rowid {
        names.push("rowid".to_owned());
        params.push(rowid);
    }
    let marks = (1..=params.len()).map(|n| format!("?{n}")).collect::<Vec<_>>().join(", ");
    let sql = format!("INSERT INTO {table}({}) VALUES ({marks})", names.join(", "));
    writes.execute("insert a row", &sql, &*params)?;
    Ok(writes.connection().last_insert_rowid())
}

fn is_taken(writes: &Writes<'_>, table: &str, rowid: i64) -> Result<bool, SessionError> {
    let sql = format!("SELECT 1 FROM {table} WHERE rowid = ?1");
    writes.query("look for a rowid", |connection| connection.prepare_cached(&sql)?.exists([rowid]))
}

/// The archived rows of a memory: its own first.
fn archived(writes: &Writes<'_>, id: &str) -> Result<Vec<(String, RowImage, bool)>, SessionError> {
    let rows: Vec<(String, Option<i64>, String, bool)> =
        writes.query("read memfold_archive", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT table_name, row_rowid, row, indexed FROM memfold_archive
                 WHERE memory_id = ?1 ORDER BY table_name <> 'stm', id",
            )?;
            let rows = statement
                .query_map([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
            rows.collect()
        })?;
    rows.into_iter()
        .map(|(table, rowid, json, indexed)| {
            let value: Option<Value> = serde_json::from_str(&json).ok();
            let image = value.and_then(|value| RowImage::from_json(rowid, &value));
            let image = image.ok_or_else(|| SessionError::Unreadable {
                path: writes.path().to_owned(),
                what: format!("the archived row of {id}"),
            })?;
            Ok((table, image, indexed))
        })
        .collect()
}

/// Returns a memory's row in the archive table.
pub fn archived_image(reads: &Writes<'_>, id: &str) -> Result<Option<RowImage>, SessionError> {
    let rows = archived(reads, id)?;
    Ok(rows.into_iter().find(|(table, _, _)| table == "stm").map(|(_, image, _)| image))
}

/// Tells whether a memory of this id stands in `stm`.
pub(super) fn stands(writes: &Writes<'_>, id: &str) -> Result<bool, SessionError> {
    writes.query("look for a memory", |connection| {
        let found = connection
            .prepare_cached("SELECT 1 FROM stm WHERE id = ?1")?
            .query_row([id], |_| Ok(()))
            .optional()?;
        Ok(found.is_some())
    })
}

fn refused(reason: String) -> SessionError {
    SessionError::Refused { what: "move a memory", reason }
}
