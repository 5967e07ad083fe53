//! Carrying out changes, each with its journal entry.

use memfold_core::journal::CurrentRows;
use memfold_core::merge::Words;
use rusqlite::types::ToSql;
use rusqlite::{OptionalExtension as _, params};

use crate::brain_db::own::archive::{ArchivedRow, Moved, archived, keep};
use crate::brain_db::own::merged::index_merged;
use crate::brain_db::read::access::Columns;
use crate::brain_db::read::load::Param;
use crate::brain_db::write::layout::{Layout, Search};
use crate::brain_db::write::rows::{
    add_entry, drop_entry, image, indexed_words, quoted, row, select,
};
use crate::brain_db::write::session::{SessionError, Writes};
use memfold_core::journal::{Change, ColumnChange, JournalEntry, Record, RowImage, RowKey, Table};
use memfold_core::value::Value;

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
    let mut rest = changes.iter();
    while let Some(change) = rest.next() {
        let record_key = carry_out(writes, layout, mark, change)?;
        let entry = JournalEntry::of(change, record_key);
        let lineage = rest.as_slice().first().filter(|next| is_lineage_of(next, change));
        let key = match lineage {
            Some(lineage) => {
                rest.next();
                carry_out(writes, layout, mark, lineage)?
            }
            None => entry.image.as_ref().and_then(|image| image.rowid),
        };
        write_down(writes, mark, &entry, key)?;
    }
    Ok(())
}

/// Tells whether a change records that the memory which `left` took out was merged. Both have one row in the journal.
fn is_lineage_of(change: &Change, left: &Change) -> bool {
    match (change, left) {
        (Change::Record(record), Change::TakeOut { id, .. }) => {
            record.table == Table::Lineage && record.text("absorbed_id") == Some(id)
        }
        _ => false,
    }
}

/// Carries out changes to a row that came with the unit itself: an undo has nothing to bring back.
pub fn apply_to_new_row(
    writes: &Writes<'_>,
    layout: &Layout,
    mark: &Mark<'_>,
    changes: &[Change],
) -> Result<(), SessionError> {
    changes.iter().try_for_each(|change| carry_out(writes, layout, mark, change).map(drop))
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
                revived(writes, mark.at, &row.key)?;
            }
        }
        Change::PutIn { id, image: None } => {
            put_back(writes, layout, id)?;
            revived(writes, mark.at, id)?;
        }
        Change::PutIn { id, image: Some(image) } => {
            if stands(writes, id)? {
                return Err(refused(format!("a memory with id {id} is there already")));
            }
            put_in(writes, layout, image, true, None)?;
            revived(writes, mark.at, id)?;
        }
        Change::TakeOut { id, survivor, said } => {
            let (survivor, said) = (survivor.as_deref(), said.as_deref());
            take_out(writes, layout, mark, id, survivor, said)?;
        }
        Change::Index { id, words } => {
            if let Some((rowid, image)) = placed(writes, layout, id)? {
                add_entry(writes, layout, rowid, words.as_ref().unwrap_or(&image))?;
            }
        }
        Change::Unindex { id, words } => {
            if let Some((rowid, image)) = placed(writes, layout, id)? {
                unindex(writes, layout, id, rowid, &image, words.as_ref())?;
            }
        }
        Change::Record(record) => return insert_record(writes, mark, record).map(Some),
    }
    Ok(None)
}

/// Words that are not known stay: their row stays, too.
fn unindex(
    writes: &Writes<'_>,
    layout: &Layout,
    id: &str,
    rowid: i64,
    image: &RowImage,
    known: Option<&RowImage>,
) -> Result<(), SessionError> {
    if let Some(words) = known {
        return drop_entry(writes, layout, rowid, words);
    }
    match indexed_words(writes, layout, id, image, None)? {
        Words::Now => drop_entry(writes, layout, rowid, image),
        Words::Earlier(words) => drop_entry(writes, layout, rowid, &words),
        Words::None | Words::Unknown => Ok(()),
    }
}

/// Tells whether a row loses the marks of the archive.
fn revives(columns: &[ColumnChange]) -> bool {
    let is_mark = |column: &str, value: &Value| {
        let text = value.as_text().unwrap_or_default();
        match column.to_ascii_lowercase().as_str() {
            "source" => text.starts_with("archived:"),
            "categories" => text.contains("archived") || text.contains("archive/"),
            "archived_by" => *value != Value::Null,
            _ => false,
        }
    };
    columns.iter().any(|change| {
        is_mark(&change.column, &change.before) && !is_mark(&change.column, &change.after)
    })
}

/// Records that a row is live again, because an index knows it as one that is not, or not at all,
/// and it stands among rows that the index has seen.
pub(crate) fn revived(writes: &Writes<'_>, at: &str, id: &str) -> Result<(), SessionError> {
    let sql = "INSERT INTO memfold_revived(memory_id, at) VALUES (?1, ?2)";
    writes.execute("write down a row that lives again", sql, params![id, at]).map(drop)
}

fn placed(
    writes: &Writes<'_>,
    layout: &Layout,
    id: &str,
) -> Result<Option<(i64, RowImage)>, SessionError> {
    let found = writes.query("read a memory", |connection| {
        row(connection, &layout.memories, layout.has_rowid, "id", id)
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
    let values: Vec<Param<'_>> = columns.iter().map(|change| Param(&change.after)).collect();
    let mut params: Vec<&dyn ToSql> = vec![key];
    params.extend(values.iter().map(|value| value as &dyn ToSql));
    match writes.execute("change a row", &sql, &*params)? {
        1 => Ok(()),
        found => Err(refused(format!("{row}: expected one row, found {found}"))),
    }
}

fn insert_record(
    writes: &Writes<'_>,
    mark: &Mark<'_>,
    record: &Record,
) -> Result<i64, SessionError> {
    let names: Vec<&str> = record.cells.iter().map(|(name, _)| *name).collect();
    let marks = (5..names.len() + 5).map(|n| format!("?{n}")).collect::<Vec<_>>().join(", ");
    let sql = format!(
        "INSERT INTO {}(run_id, unit, at, active, {}) VALUES (?1, ?2, ?3, ?4, {marks})",
        record.table.name(),
        names.join(", ")
    );
    let mut params: Vec<&dyn ToSql> = vec![&mark.run_id, &mark.unit, &mark.at, &1_i64];
    let values: Vec<Param<'_>> = record.cells.iter().map(|(_, value)| Param(value)).collect();
    params.extend(values.iter().map(|value| value as &dyn ToSql));
    writes.execute("write down a record", &sql, &*params)?;
    let key = writes.connection().last_insert_rowid();
    if let (Table::Lineage, Some(absorbed), Some(survivor)) =
        (record.table, record.text("absorbed_id"), record.text("survivor_id"))
    {
        index_merged(writes, key, absorbed, survivor)?;
    }
    Ok(key)
}

fn write_down(
    writes: &Writes<'_>,
    mark: &Mark<'_>,
    entry: &JournalEntry,
    rowid: Option<i64>,
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
                rowid,
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

/// The name under which the archive keeps searchable words that differ from the row's.
const WORDS: &str = "stm_fts";

/// Moves a memory, its embeddings and its search entry into the archive table.
pub(crate) fn take_out(
    writes: &Writes<'_>,
    layout: &Layout,
    mark: &Mark<'_>,
    id: &str,
    survivor: Option<&str>,
    said: Option<&str>,
) -> Result<(), SessionError> {
    if let Some(reason) = layout.move_refusal() {
        return Err(move_refused(reason.to_owned()));
    }
    let memory = writes
        .query("read a memory", |c| row(c, &layout.memories, layout.has_rowid, "id", id))?
        .ok_or_else(|| move_refused(format!("memory {id} is gone")))?;
    let (indexed, words) = remove_entry(writes, layout, id, &memory, said)?;
    let row = |table: &str, image, indexed| ArchivedRow { table: table.to_owned(), image, indexed };
    let mut rows = vec![row("stm", memory, indexed)];
    let embeddings = embeddings(writes, layout, id)?;
    rows.extend(embeddings.into_iter().map(|image| row("embeddings", image, false)));
    rows.extend(words.map(|words| row(WORDS, words, false)));
    for row in &rows {
        keep(writes, mark, Moved { memory_id: id, survivor }, row)?;
    }
    if !layout.embeddings.is_empty() {
        let sql = "DELETE FROM embeddings WHERE source_type = 'stm' AND source_id = ?1";
        writes.execute("remove an embedding", sql, [id])?;
    }
    match writes.execute("remove a memory", "DELETE FROM stm WHERE id = ?1", [id])? {
        1 => Ok(()),
        found => Err(move_refused(format!("{id}: expected one row, found {found}"))),
    }
}

/// Removes a row's search entry; returns whether it had one, and its words where they differ from
/// the row's.
fn remove_entry(
    writes: &Writes<'_>,
    layout: &Layout,
    id: &str,
    memory: &RowImage,
    said: Option<&str>,
) -> Result<(bool, Option<RowImage>), SessionError> {
    let Some(rowid) = memory.rowid else { return Ok((false, None)) };
    match indexed_words(writes, layout, id, memory, said)? {
        Words::None => Ok((false, None)),
        Words::Now => {
            drop_entry(writes, layout, rowid, memory)?;
            Ok((true, None))
        }
        Words::Earlier(words) => {
            drop_entry(writes, layout, rowid, &words)?;
            Ok((true, Some(words)))
        }
        // The next row of this rowid would be found by them.
        Words::Unknown => {
            Err(move_refused(format!("{id} is searchable by words that are not known")))
        }
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

/// Brings a memory back from the archive table, with the rows that were moved with it.
pub(crate) fn put_back(writes: &Writes<'_>, layout: &Layout, id: &str) -> Result<(), SessionError> {
    let mut rows = archived(writes, id)?;
    if let Some(column) = without_column(layout, &rows).first() {
        return Err(move_refused(format!(
            "{id} has a value for {column}, a column that is there no more"
        )));
    }
    let words = rows.iter().position(|row| row.table == WORDS).map(|at| rows.remove(at).image);
    if rows.is_empty() {
        return Err(move_refused(format!("memory {id} is not in memfold_archive")));
    }
    for ArchivedRow { table, image, indexed } in rows {
        match table.as_str() {
            "stm" => put_in(writes, layout, &image, indexed, words.as_ref())?,
            _ if layout.embeddings.is_empty() => {}
            _ => {
                insert_row(writes, &layout.embeddings, layout.embeddings_have_rowid, &image)?;
            }
        }
    }
    let sql = "DELETE FROM memfold_archive WHERE memory_id = ?1";
    writes.execute("clear the archive", sql, [id]).map(drop)
}

/// The columns of archived rows that hold a value and are in the owner's tables no more.
fn without_column(layout: &Layout, rows: &[ArchivedRow]) -> Vec<String> {
    let mut found = Vec::new();
    for ArchivedRow { table, image, .. } in rows {
        let (columns, prefix) = match table.as_str() {
            "stm" => (&layout.memories, ""),
            "embeddings" => (&layout.embeddings, "embeddings."),
            _ => continue,
        };
        let lost =
            image.cells.iter().filter(|(name, value)| *value != Value::Null && !columns.has(name));
        found.extend(lost.map(|(name, _)| format!("{prefix}{name}")));
    }
    found
}

/// As [`without_column`], of a memory in the archive table or of an image.
pub(crate) fn lost_columns(
    reads: &Writes<'_>,
    layout: &Layout,
    id: &str,
    image: Option<&RowImage>,
) -> Result<Vec<String>, SessionError> {
    let rows = match image {
        Some(image) => {
            vec![ArchivedRow { table: "stm".to_owned(), image: image.clone(), indexed: false }]
        }
        None => archived(reads, id)?,
    };
    Ok(without_column(layout, &rows))
}

/// Inserts a memory and, where wanted, makes it searchable: by its own words, or by the given ones.
pub(crate) fn put_in(
    writes: &Writes<'_>,
    layout: &Layout,
    image: &RowImage,
    indexed: bool,
    words: Option<&RowImage>,
) -> Result<(), SessionError> {
    let rowid = match layout.search {
        Search::ByHand { .. } => free_rowid(writes, image.rowid)?,
        _ => image.rowid,
    };
    let placed = RowImage { rowid, cells: image.cells.clone() };
    let rowid = insert_row(writes, &layout.memories, layout.has_rowid, &placed)?;
    if indexed && layout.has_rowid {
        add_entry(writes, layout, rowid, words.unwrap_or(image))?;
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
fn insert_row(
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
    let values: Vec<Param<'_>> = cells.iter().map(|(_, value)| Param(value)).collect();
    let mut params: Vec<&dyn ToSql> = values.iter().map(|value| value as &dyn ToSql).collect();
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

/// Tells whether a memory of this id stands in `stm`.
pub(crate) fn stands(writes: &Writes<'_>, id: &str) -> Result<bool, SessionError> {
    writes.query("look for a memory", |connection| {
        let found = connection
            .prepare_cached("SELECT 1 FROM stm WHERE id = ?1")?
            .query_row([id], |_| Ok(()))
            .optional()?;
        Ok(found.is_some())
    })
}

fn move_refused(reason: String) -> SessionError {
    SessionError::Refused { what: "move a memory", reason }
}

/// The rows of one transaction, for undoing.
pub struct NowRows<'a> {
    /// The transaction.
    pub writes: &'a Writes<'a>,
    /// The tables.
    pub layout: &'a Layout,
}

impl CurrentRows for NowRows<'_> {
    type Error = SessionError;

    fn row(&self, key: &RowKey) -> Result<Option<RowImage>, SessionError> {
        self.writes.query("read a row", |connection| match key.table {
            Table::Memories => {
                row(connection, &self.layout.memories, self.layout.has_rowid, "id", &key.key)
            }
            Table::Atoms if self.layout.atoms.is_empty() => Ok(None),
            Table::Atoms => row(connection, &self.layout.atoms, true, "id", &key.key),
            own => {
                let columns = Columns::of(connection, own.name())?;
                let number = key.key.parse::<i64>().unwrap_or(-1);
                let sql = select(&columns, true, "WHERE id = ?1");
                let mut statement = connection.prepare_cached(&sql)?;
                let mut rows = statement.query([number])?;
                rows.next()?.map(|row| image(&columns, row)).transpose()
            }
        })
    }

    fn is_archived(&self, id: &str) -> Result<bool, SessionError> {
        self.writes.query("look into memfold_archive", |connection| {
            let sql = "SELECT 1 FROM memfold_archive WHERE memory_id = ?1 AND table_name = 'stm'";
            connection.prepare_cached(sql)?.exists([id])
        })
    }
    fn lost_columns(
        &self,
        id: &str,
        image: Option<&RowImage>,
    ) -> Result<Vec<String>, SessionError> {
        lost_columns(self.writes, self.layout, id, image)
    }

    fn move_refusal(&self) -> Option<&str> {
        self.layout.move_refusal()
    }
}
