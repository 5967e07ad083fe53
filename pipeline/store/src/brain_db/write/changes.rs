//! Applying changes, each with its journal entry; new rows of the owner's tables.

use rusqlite::types::{ToSql, ValueRef};
use rusqlite::{Row, params};

use crate::brain_db::own::archive::{
    ArchivedRow, Moved, archived, archived_image, index_merged, keep, rewrite_merged,
};
use crate::brain_db::read::access::{Columns, cell0, cells2, first};
use crate::brain_db::read::load::Param;
use crate::brain_db::write::rows::{
    Layout, Search, add_entry, drop_entry, has_entry, image, indexed_words, row, select,
};
use crate::brain_db::write::session::{Session, Writes};
use crate::error::StoreError;
use memfold_core::journal::{
    Change, ColumnChange, CurrentRows, JournalEntry, Record, RowImage, RowKey, Table,
};
use memfold_core::merge::Words;
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
) -> Result<(), StoreError> {
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
) -> Result<(), StoreError> {
    changes.iter().try_for_each(|change| carry_out(writes, layout, mark, change).map(drop))
}

/// Returns the key of a new record.
fn carry_out(
    writes: &Writes<'_>,
    layout: &Layout,
    mark: &Mark<'_>,
    change: &Change,
) -> Result<Option<i64>, StoreError> {
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
) -> Result<(), StoreError> {
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
pub(crate) fn revived(writes: &Writes<'_>, at: &str, id: &str) -> Result<(), StoreError> {
    let sql = "INSERT INTO memfold_revived(memory_id, at) VALUES (?1, ?2)";
    writes.execute("write down a row that lives again", sql, params![id, at]).map(drop)
}

fn placed(
    writes: &Writes<'_>,
    layout: &Layout,
    id: &str,
) -> Result<Option<(i64, RowImage)>, StoreError> {
    let found = writes.row_of(layout, id)?;
    Ok(found.and_then(|image| Some((image.rowid?, image))))
}

fn set(writes: &Writes<'_>, row: &RowKey, columns: &[ColumnChange]) -> Result<(), StoreError> {
    if columns.is_empty() {
        return Ok(());
    }
    let number = row.key.parse::<i64>().unwrap_or(-1);
    let key: &dyn ToSql = if row.table.is_own() { &number } else { &row.key };
    let cells = columns.iter().map(|change| (change.column.as_str(), &change.after));
    let values: Vec<_> = cells.map(|(name, value)| (name, Param(value))).collect();
    match writes.update("change a row", row.table.name(), &bound(&values), "id", key)? {
        1 => Ok(()),
        found => Err(refused(format!("{row}: expected one row, found {found}"))),
    }
}

/// Cells as parameters of a statement.
pub(crate) fn bound<'a>(cells: &'a [(&'a str, Param<'a>)]) -> Vec<(&'a str, &'a dyn ToSql)> {
    cells.iter().map(|(name, value)| (*name, value as &dyn ToSql)).collect()
}

fn insert_record(writes: &Writes<'_>, mark: &Mark<'_>, record: &Record) -> Result<i64, StoreError> {
    let values: Vec<_> = record.cells.iter().map(|(name, value)| (*name, Param(value))).collect();
    let mut row: Vec<(&str, &dyn ToSql)> =
        vec![("run_id", &mark.run_id), ("unit", &mark.unit), ("at", &mark.at), ("active", &1_i64)];
    row.extend(bound(&values));
    let key = writes.insert("write down a record", record.table.name(), &row)?;
    if let (Table::Lineage, Some(merged), Some(survivor)) =
        (record.table, record.text("absorbed_id"), record.text("survivor_id"))
    {
        index_merged(writes, key, merged, survivor)?;
    }
    Ok(key)
}

fn write_down(
    writes: &Writes<'_>,
    mark: &Mark<'_>,
    entry: &JournalEntry,
    rowid: Option<i64>,
) -> Result<(), StoreError> {
    let json = |value: Option<serde_json::Value>| value.map(|value| value.to_string());
    let (before, after) = (json(entry.before_json()), json(entry.after_json()));
    let deltas = json(entry.deltas_json());
    let row: [(&str, &dyn ToSql); 10] = [
        ("run_id", &mark.run_id),
        ("unit", &mark.unit),
        ("op", &entry.op.name()),
        ("table_name", &entry.row.table.name()),
        ("row_key", &entry.row.key),
        ("row_rowid", &rowid),
        ("before", &before),
        ("after", &after),
        ("deltas", &deltas),
        ("survivor", &entry.survivor),
    ];
    writes.insert("write the journal", "memfold_journal", &row).map(drop)
}

fn refused(reason: String) -> StoreError {
    StoreError::Refused { what: "change the store", reason }
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
) -> Result<(), StoreError> {
    if let Some(reason) = layout.move_refusal() {
        return Err(move_refused(reason.to_owned()));
    }
    let memory =
        writes.row_of(layout, id)?.ok_or_else(|| move_refused(format!("memory {id} is gone")))?;
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
) -> Result<(bool, Option<RowImage>), StoreError> {
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

fn embeddings(writes: &Writes<'_>, layout: &Layout, id: &str) -> Result<Vec<RowImage>, StoreError> {
    if layout.embeddings.is_empty() {
        return Ok(Vec::new());
    }
    let columns = &layout.embeddings;
    let rest = "WHERE source_type = 'stm' AND source_id = ?1 ORDER BY 1";
    let sql = select(columns, layout.embeddings_have_rowid, rest);
    writes.all("read embeddings", &sql, [id], |row| image(columns, row))
}

/// Brings a memory back from the archive table, with the rows that were moved with it.
pub(crate) fn put_back(writes: &Writes<'_>, layout: &Layout, id: &str) -> Result<(), StoreError> {
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
) -> Result<Vec<String>, StoreError> {
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
) -> Result<(), StoreError> {
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
fn free_rowid(writes: &Writes<'_>, wanted: Option<i64>) -> Result<Option<i64>, StoreError> {
    writes.query("find a free rowid", |connection| {
        if let Some(rowid) = wanted {
            let sql = "SELECT EXISTS (SELECT 1 FROM stm WHERE rowid = ?1)
                           OR EXISTS (SELECT 1 FROM stm_fts_docsize WHERE id = ?1)";
            if !connection.prepare_cached(sql)?.query_row([rowid], cell0::<bool>)? {
                return Ok(Some(rowid));
            }
        }
        let sql = "SELECT max(coalesce((SELECT max(rowid) FROM stm), 0),
                              coalesce((SELECT max(id) FROM stm_fts_docsize), 0))";
        Ok(connection.prepare_cached(sql)?.query_row([], cell0::<i64>)?.checked_add(1))
    })
}

/// Inserts the columns that the table has; at its rowid where that is free.
fn insert_row(
    writes: &Writes<'_>,
    columns: &Columns,
    has_rowid: bool,
    image: &RowImage,
) -> Result<i64, StoreError> {
    let table = columns.table();
    let rowid = match image.rowid.filter(|_| has_rowid) {
        Some(rowid) if !is_taken(writes, table, rowid)? => Some(rowid),
        _ => None,
    };
    let cells = image.cells.iter().filter(|(name, _)| columns.has(name));
    let values: Vec<_> = cells.map(|(name, value)| (name.as_str(), Param(value))).collect();
    let mut row = bound(&values);
    row.extend(rowid.as_ref().map(|rowid| ("rowid", rowid as &dyn ToSql)));
    writes.insert("insert a row", table, &row)
}

fn is_taken(writes: &Writes<'_>, table: &str, rowid: i64) -> Result<bool, StoreError> {
    let sql = format!("SELECT 1 FROM {table} WHERE rowid = ?1");
    writes.exists("look for a rowid", &sql, [rowid])
}

/// Tells whether a memory of this id stands in `stm`.
pub(crate) fn stands(writes: &Writes<'_>, id: &str) -> Result<bool, StoreError> {
    writes.exists("look for a memory", "SELECT 1 FROM stm WHERE id = ?1", [id])
}

fn move_refused(reason: String) -> StoreError {
    StoreError::Refused { what: "move a memory", reason }
}

/// The rows of one transaction, for undoing.
pub struct NowRows<'a> {
    /// The transaction.
    pub writes: &'a Writes<'a>,
    /// The tables.
    pub layout: &'a Layout,
}

impl CurrentRows for NowRows<'_> {
    type Error = StoreError;

    fn row(&self, key: &RowKey) -> Result<Option<RowImage>, StoreError> {
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
                first(connection, &sql, [number], |row| image(&columns, row))
            }
        })
    }

    fn is_archived(&self, id: &str) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM memfold_archive WHERE memory_id = ?1 AND table_name = 'stm'";
        self.writes.exists("look into memfold_archive", sql, [id])
    }
    fn lost_columns(&self, id: &str, image: Option<&RowImage>) -> Result<Vec<String>, StoreError> {
        lost_columns(self.writes, self.layout, id, image)
    }

    fn move_refusal(&self) -> Option<&str> {
        self.layout.move_refusal()
    }
}

/// The confidence of a new memory.
const CONFIDENCE: f64 = 1.0;

/// The content of a new row of `stm`.
#[derive(Debug, Clone, Copy)]
pub struct NewRow<'a> {
    /// The id.
    pub id: &'a str,
    /// The text.
    pub content: &'a str,
    /// As stored.
    pub categories: &'a str,
    /// The importance.
    pub importance: f64,
    /// Where it came from.
    pub source: &'a str,
    /// When, as the owner writes times.
    pub at: &'a str,
}

impl Writes<'_> {
    /// Inserts a memory, searchable where `indexed`; columns that the table lacks are left out, others keep their
    /// defaults.
    pub fn insert_memory(
        &self,
        layout: &Layout,
        row: &NewRow<'_>,
        indexed: bool,
    ) -> Result<(), StoreError> {
        let cells: [(&str, Value); 12] = [
            ("id", row.id.into()),
            ("content", row.content.into()),
            ("categories", row.categories.into()),
            ("importance", Value::Real(row.importance)),
            ("access_count", Value::Integer(0)),
            ("created_at", row.at.into()),
            ("updated_at", row.at.into()),
            ("source", row.source.into()),
            // As the owner's own writer has it, independent of the columns' defaults.
            ("confidence", Value::Real(CONFIDENCE)),
            ("last_accessed", row.at.into()),
            ("validation_count", Value::Integer(0)),
            ("contradiction_count", Value::Integer(0)),
        ];
        let cells = cells.into_iter().map(|(name, value)| (name.to_owned(), value));
        put_in(self, layout, &RowImage { rowid: None, cells: cells.collect() }, indexed, None)
    }

    /// Returns model and bytes of the vector that came last, if any did.
    pub fn last_embedding(
        &self,
        layout: &Layout,
    ) -> Result<Option<(Option<String>, i64)>, StoreError> {
        if layout.embeddings.is_empty() || !layout.embeddings_have_rowid {
            return Ok(None);
        }
        let model = layout.embeddings.expression("model");
        let sql = format!(
            "SELECT iif(typeof({model}) = 'text', {model}, NULL), length(CAST(embedding AS BLOB))
             FROM embeddings NOT INDEXED WHERE source_type = 'stm' ORDER BY rowid DESC LIMIT 1"
        );
        self.first("look for an embedding", &sql, [], cells2)
    }

    /// Returns the bytes of the vector of a model that came last, if one of the latest rows is of that model and a blob.
    pub fn last_vector_bytes_of(
        &self,
        layout: &Layout,
        model: &str,
    ) -> Result<Option<i64>, StoreError> {
        const ROWS_MAX: u32 = 4_096;
        if layout.embeddings.is_empty()
            || !layout.embeddings_have_rowid
            || !layout.embeddings.has("model")
        {
            return Ok(None);
        }
        let sql = format!(
            "SELECT length(embedding) FROM
                 (SELECT model, embedding FROM embeddings NOT INDEXED WHERE source_type = 'stm'
                  ORDER BY rowid DESC LIMIT {ROWS_MAX})
             WHERE model = ?1 AND typeof(embedding) = 'blob' LIMIT 1"
        );
        self.first("look for an embedding", &sql, [model], cell0)
    }

    /// Counts one more access of a memory, and nothing else.
    pub fn count_access(
        &self,
        layout: &Layout,
        id: &str,
        count: i64,
        at: &str,
    ) -> Result<(), StoreError> {
        let accessed =
            if layout.memories.has("last_accessed") { ", last_accessed = ?3" } else { "" };
        let sql =
            format!("UPDATE stm SET access_count = ?2{accessed} WHERE id = ?1 AND ?3 IS NOT NULL");
        self.execute("count an access", &sql, rusqlite::params![id, count, at]).map(drop)
    }
}

/// A memory to import, its cells as they are stored.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedMemory {
    /// The id.
    pub id: String,
    /// The text.
    pub content: String,
    /// The categories as JSON.
    pub categories: String,
    /// The importance.
    pub importance: f64,
    /// How often it was read.
    pub access_count: i64,
    /// When it was made.
    pub created_at: String,
    /// When it was changed.
    pub updated_at: Option<String>,
    /// When it expires.
    pub expires_at: Option<String>,
    /// Where it came from.
    pub source: String,
}

impl Writes<'_> {
    /// Tells whether rows were moved to an archive table of ours.
    pub fn has_archive(&self) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'memfold_archive'";
        self.exists("look for memfold_archive", sql, [])
    }

    /// Returns the bytes of a memory's text, from `stm` or the archive; `None` where the memory
    /// does not exist.
    pub fn text_of(&self, id: &str, has_archive: bool) -> Result<Option<Vec<u8>>, StoreError> {
        let bytes = |row: &Row<'_>| {
            Ok(match row.get_ref(0)? {
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
                _ => Vec::new(),
            })
        };
        let sql = "SELECT content FROM stm WHERE id = ?1";
        let found = self.first("look for a memory", sql, [id], bytes)?;
        if found.is_some() || !has_archive {
            return Ok(found);
        }
        let image = archived_image(self, id)?;
        Ok(image.map(|image| match image.get("content") {
            Some(Value::Text(bytes)) => bytes.clone(),
            _ => Vec::new(),
        }))
    }

    /// Inserts a memory and makes it searchable; columns that the table lacks are left out, others keep their defaults.
    pub fn insert_imported(
        &self,
        layout: &Layout,
        memory: &ImportedMemory,
    ) -> Result<(), StoreError> {
        let cells: [(&str, Option<Value>); 10] = [
            ("id", Some(memory.id.as_str().into())),
            ("content", Some(memory.content.as_str().into())),
            ("categories", Some(memory.categories.as_str().into())),
            ("importance", Some(Value::Real(memory.importance))),
            ("access_count", Some(Value::Integer(memory.access_count))),
            ("created_at", Some(memory.created_at.as_str().into())),
            ("updated_at", memory.updated_at.as_deref().map(Into::into)),
            ("expires_at", memory.expires_at.as_deref().map(Into::into)),
            ("source", Some(memory.source.as_str().into())),
            ("confidence", Some(Value::Real(CONFIDENCE))),
        ];
        let given = cells.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        put_in(self, layout, &RowImage { rowid: None, cells: given.collect() }, true, None)
    }
}

/// How much of its text stands beside an embedding, as the owner has it.
const CONTENT_CHARS: usize = 1_000;
const ID_DIGITS: usize = 12;

/// A vector for a memory.
#[derive(Debug, Clone, Copy)]
pub struct NewEmbedding<'a> {
    /// The memory's id.
    pub memory_id: &'a str,
    /// The memory's whole text, which the vector was made of.
    pub content: &'a str,
    /// The vector, finite and not zero.
    pub vector: &'a [f32],
    /// The model's name; `None`: the default of the owner's table.
    pub model: Option<&'a str>,
    /// When, as the owner writes times.
    pub at: &'a str,
}

impl NewEmbedding<'_> {
    /// The text and the vector, as they are stored.
    fn stored(&self) -> (String, Vec<u8>) {
        let content = self.content.chars().take(CONTENT_CHARS).collect();
        (content, self.vector.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    /// The cells of a row beside its keys.
    fn cells<'a>(
        &'a self,
        (content, vector): &'a (String, Vec<u8>),
    ) -> Vec<(&'static str, &'a dyn ToSql)> {
        let mut cells: Vec<(&str, &dyn ToSql)> =
            vec![("content", content), ("embedding", vector), ("created_at", &self.at)];
        cells.extend(self.model.as_ref().map(|model| ("model", model as &dyn ToSql)));
        cells
    }
}

impl Writes<'_> {
    /// Tells whether a memory has a row of `embeddings`, with any content.
    pub fn has_embedding_row(&self, memory_id: &str) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM embeddings WHERE source_type = 'stm' AND source_id = ?1";
        self.exists("look for an embedding", sql, [memory_id])
    }

    /// Inserts the embedding of a memory that has none, into the existing columns.
    pub fn insert_embedding(
        &self,
        layout: &Layout,
        new: &NewEmbedding<'_>,
    ) -> Result<(), StoreError> {
        layout.check_takes_embeddings()?;
        let id = match layout.embedding_ids_are_texts {
            true => Some(self.free_embedding_id(new)?),
            // The table numbers its rows itself, or has no ids.
            false => None,
        };
        let stored = new.stored();
        let mut cells = new.cells(&stored);
        cells.extend([("source_type", &"stm" as &dyn ToSql), ("source_id", &new.memory_id)]);
        cells.extend(id.as_ref().map(|id| ("id", id as &dyn ToSql)));
        cells.retain(|(column, _)| layout.embeddings.has(column));
        self.insert("insert an embedding", "embeddings", &cells).map(drop)
    }

    /// Puts another vector in the place of a memory's; `false`: it has none.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn replace_embedding(
        &self,
        layout: &Layout,
        new: &NewEmbedding<'_>,
    ) -> Result<bool, StoreError> {
        layout.check_takes_embeddings()?;
        let stored = new.stored();
        let mut cells = new.cells(&stored);
        cells.retain(|(column, _)| layout.embeddings.has(column));
        let (what, condition) = ("replace an embedding", "source_type = 'stm' AND source_id");
        let changed = self.update(what, "embeddings", &cells, condition, &new.memory_id)?;
        Ok(changed > 0)
    }

    /// Makes an id in the owner's manner that no row has.
    fn free_embedding_id(&self, new: &NewEmbedding<'_>) -> Result<String, StoreError> {
        let taken = "SELECT 1 FROM embeddings WHERE id = ?1";
        let mut seed = format!("{}\0{}\0{}", new.memory_id, new.at, new.content);
        loop {
            let digest = blake3::hash(seed.as_bytes()).to_hex();
            let id = format!("emb_{}", &digest[..ID_DIGITS]);
            if !self.exists("look for an embedding's id", taken, [&id])? {
                return Ok(id);
            }
            seed.push('+');
        }
    }
}

impl Layout {
    /// Refuses tables with required columns of embeddings that are unknown here.
    pub fn check_takes_embeddings(&self) -> Result<(), StoreError> {
        let refused = |reason: String| StoreError::Refused { what: "insert an embedding", reason };
        if self.embeddings.is_empty() {
            let columns = "with the columns source_type, source_id and embedding";
            return Err(refused(format!("the store has no table `embeddings` {columns}")));
        }
        match self.wanted_of_embeddings.iter().find(|column| !is_known(column)) {
            Some(column) => Err(refused(format!(
                "`embeddings.{column}` must not be NULL and has no default, and memfold does not know it"
            ))),
            None => Ok(()),
        }
    }
}

fn is_known(column: &str) -> bool {
    ["id", "source_type", "source_id", "content", "embedding", "model", "created_at"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(column))
}

/// The number of rows of a memory in the owner's tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Traces {
    /// Its row.
    pub(crate) rows: u64,
    /// Its vectors.
    pub(crate) embeddings: u64,
    /// Its search entry.
    pub(crate) search_entries: u64,
    /// Rows of `atoms` that name it.
    pub(crate) references: u64,
}

impl Writes<'_> {
    /// Counts the rows of a memory in the owner's tables.
    pub(crate) fn traces(&self, layout: &Layout, id: &str) -> Result<Traces, StoreError> {
        let found = self.row_of(layout, id)?;
        let embeddings = if layout.embeddings.is_empty() {
            0
        } else {
            let sql =
                "SELECT count(*) FROM embeddings WHERE source_type = 'stm' AND source_id = ?1";
            self.first("count embeddings", sql, [id], cell0::<i64>)?.unwrap_or_default()
        };
        let has_entry = match (found.as_ref().and_then(|row| row.rowid), &layout.search) {
            (Some(rowid), Search::ByHand { .. }) => has_entry(self, rowid)?,
            (Some(_), Search::ByTriggers) => true,
            _ => false,
        };
        Ok(Traces {
            rows: found.is_some().into(),
            embeddings: embeddings.unsigned_abs(),
            search_entries: has_entry.into(),
            references: self.references(layout, &[id])?.len() as u64,
        })
    }

    /// Removes a memory, its vectors and its search entry from the owner's tables.
    pub(crate) fn erase(&self, layout: &Layout, id: &str) -> Result<(), StoreError> {
        let found = self.row_of(layout, id)?;
        if let Some((rowid, image)) = found.and_then(|image| Some((image.rowid?, image))) {
            match indexed_words(self, layout, id, &image, None)? {
                Words::Earlier(words) => drop_entry(self, layout, rowid, &words)?,
                Words::None | Words::Now | Words::Unknown => {
                    drop_entry(self, layout, rowid, &image)?;
                }
            }
        }
        if !layout.atoms.is_empty() {
            let sql = "UPDATE atoms SET source_memory_id = NULL WHERE source_memory_id = ?1";
            self.execute("take a name out of atoms", sql, [id])?;
        }
        if !layout.embeddings.is_empty() {
            let sql = "DELETE FROM embeddings WHERE source_type = 'stm' AND source_id = ?1";
            self.execute("remove an embedding", sql, [id])?;
        }
        self.execute("remove a memory", "DELETE FROM stm WHERE id = ?1", [id]).map(drop)
    }
}

impl Session {
    /// Makes SQLite overwrite deleted bytes with zeros from now on.
    pub(crate) fn overwrite_deleted(&self) -> Result<(), StoreError> {
        self.connection
            .pragma_update(None, "secure_delete", true)
            .map_err(|error| self.explain("overwrite what is deleted", &error))
    }

    /// Rewrites the search index without removed entries, and empties the write-ahead log. `false`:
    /// another process still reads the log, which keeps old pages until it is done.
    pub(crate) fn settle(&self) -> Result<bool, StoreError> {
        let (is_by_hand, has_tables) = self.read::<_, StoreError>(|reads| {
            Ok((reads.layout()?.keeps_search_by_hand(), reads.has_own_tables()?))
        })?;
        if has_tables {
            self.write(rewrite_merged)?;
        }
        if is_by_hand {
            let sql = "INSERT INTO stm_fts(stm_fts) VALUES ('optimize')";
            self.write(|writes| writes.execute("optimize the search index", sql, []))?;
        }
        self.empty_log()
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    const MEMORY: &str = "CREATE TABLE stm(id TEXT PRIMARY KEY, content TEXT);";

    fn inserted(tables: &str, new: &NewEmbedding<'_>) -> Result<Connection, StoreError> {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(&format!("{MEMORY}{tables}")).unwrap();
        let writes = Writes::new(&connection, std::path::Path::new("brain.db"));
        writes.insert_embedding(&writes.layout()?, new)?;
        Ok(connection)
    }

    fn new<'a>(content: &'a str, model: Option<&'a str>) -> NewEmbedding<'a> {
        let at = "2026-06-01T12:00:00.000000";
        NewEmbedding { memory_id: "stm_1", content, vector: &[0.5, -2.0], model, at }
    }

    #[test]
    fn an_embedding_looks_like_the_owners() {
        let text = "ä".repeat(1_200);
        let table = crate::brain_db::create::FRESH_TABLES
            .split_inclusive(';')
            .find(|statement| statement.contains("CREATE TABLE embeddings"))
            .unwrap();
        let connection = inserted(table, &new(&text, None)).unwrap();
        let row = connection
            .query_row("SELECT * FROM embeddings", [], |row| {
                Ok((
                    row.get::<_, String>("id")?,
                    row.get::<_, String>("source_type")?,
                    row.get::<_, String>("source_id")?,
                    row.get::<_, String>("content")?,
                    row.get::<_, Vec<u8>>("embedding")?,
                    (row.get::<_, String>("model")?, row.get::<_, String>("created_at")?),
                ))
            })
            .unwrap();
        let (id, source_type, source_id, content, embedding, (model, created_at)) = row;
        let digits = id.strip_prefix("emb_").unwrap();
        assert!(digits.len() == 12 && digits.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
        assert_eq!((&*source_type, &*source_id), ("stm", "stm_1"));
        assert_eq!(content, "ä".repeat(1_000));
        assert_eq!(embedding, [0, 0, 0, 0x3f, 0, 0, 0, 0xc0]);
        assert_eq!((&*model, &*created_at), ("all-MiniLM-L6-v2", "2026-06-01T12:00:00.000000"));
    }

    #[test]
    fn an_id_that_is_taken_is_not_taken_again() {
        let connection = inserted(
            "CREATE TABLE embeddings(id TEXT PRIMARY KEY, source_type, source_id, embedding);",
            &new("x", None),
        )
        .unwrap();
        let writes = Writes::new(&connection, std::path::Path::new("brain.db"));
        assert!(writes.has_embedding_row("stm_1").unwrap());
        assert!(!writes.has_embedding_row("stm_2").unwrap());
        writes.insert_embedding(&writes.layout().unwrap(), &new("x", None)).unwrap();
        let sql = "SELECT count(DISTINCT id) FROM embeddings";
        assert_eq!(connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 2);
    }

    #[test]
    fn only_columns_that_exist_are_written() {
        for table in [
            "CREATE TABLE embeddings(source_type, source_id, embedding);",
            "CREATE TABLE embeddings(ID INTEGER PRIMARY KEY, source_type, source_id, embedding);",
            "CREATE TABLE embeddings(source_type, source_id, embedding, more NOT NULL DEFAULT 1);",
        ] {
            let connection = inserted(table, &new("x", Some("m"))).unwrap();
            let sql = "SELECT count(*) FROM embeddings WHERE source_id = 'stm_1'";
            assert_eq!(connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
        }
    }

    #[test]
    fn a_table_that_wants_more_is_refused() {
        let strange = "CREATE TABLE embeddings(source_type, source_id, embedding, norm NOT NULL);";
        for (table, words) in [
            (strange, "`embeddings.norm` must not be NULL and has no default"),
            ("", "no table `embeddings`"),
            ("CREATE TABLE embeddings(source_id, vector);", "no table `embeddings`"),
        ] {
            let error = inserted(table, &new("x", None)).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
