//! Reading the rows of a unit as they are now.

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _};

use super::fts::{self, Words};
use super::layout::{Layout, Search};
use super::writes::Writes;
use super::{SessionError, archive};
use crate::brain_db::columns::Columns;
use crate::journal::{CurrentRows, RowImage, RowKey, StoredValue, Table};
use crate::reading::{Cell, RawMemory, base_digest};
use memfold_model::memory::{BaseDigest, MemoryId};

/// A memory's row with what belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitRow {
    /// Its id.
    pub id: MemoryId,
    /// Its row of `stm`.
    pub image: RowImage,
    /// Digest of what a plan rests on.
    pub digest: BaseDigest,
    /// Whether it has an embedding of any kind.
    pub(crate) has_embedding: bool,
    /// Whether its text is searchable; `None` where that is not ours to keep.
    pub is_indexed: Option<bool>,
}

impl ToSql for StoredValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(value) => ValueRef::Integer(*value),
            Self::Real(value) => ValueRef::Real(*value),
            Self::Text(bytes) => ValueRef::Text(bytes),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl From<ValueRef<'_>> for StoredValue {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(value) => Self::Integer(value),
            ValueRef::Real(value) => Self::Real(value),
            ValueRef::Text(bytes) => Self::Text(bytes.to_vec()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        }
    }
}

impl Writes<'_> {
    /// Reads a memory; `None` where it is gone.
    pub fn memory(&self, layout: &Layout, id: &MemoryId) -> Result<Option<UnitRow>, SessionError> {
        self.query("read a memory", |connection| read_memory(connection, layout, id))
    }

    /// Tells whether a memory is there and has this text.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn has_text(&self, id: &MemoryId, content: &str) -> Result<bool, SessionError> {
        self.query("read a memory's text", |connection| {
            let mut statement =
                connection.prepare_cached("SELECT content FROM stm WHERE id = ?1")?;
            let now = statement.query_row([id.as_str()], |row| {
                let cell: StoredValue = row.get_ref(0)?.into();
                Ok(Cell::from(&cell).text().is_ok_and(|text| text.as_deref() == Some(content)))
            });
            Ok(now.optional()?.unwrap_or(false))
        })
    }

    /// Finds out which words of a row are searchable.
    pub fn words(&self, layout: &Layout, row: &UnitRow) -> Result<Words, SessionError> {
        fts::words(self, layout, (row.id.as_str(), &row.image), None)
    }

    /// Finds the owner's atoms that name one of the memories as what they were learned from.
    pub fn references(
        &self,
        layout: &Layout,
        ids: &[&str],
    ) -> Result<Vec<Reference>, SessionError> {
        if layout.atoms.is_empty() || ids.is_empty() {
            return Ok(Vec::new());
        }
        self.query("look for references", |connection| {
            let mut statement = connection.prepare_cached(
                "SELECT CAST(id AS TEXT), source_memory_id FROM atoms
                 WHERE source_memory_id IN (SELECT value FROM json_each(?1))
                   AND typeof(id) IN ('text', 'integer') ORDER BY 1",
            )?;
            let ids = serde_json::Value::from(ids).to_string();
            let found = statement
                .query_map([ids], |row| Ok(Reference { atom: row.get(0)?, memory: row.get(1)? }))?;
            found.collect()
        })
    }
}

/// An atom of the owner's and the memory that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The atom's id.
    pub atom: String,
    /// The memory's id.
    pub memory: String,
}

fn read_memory(
    connection: &Connection,
    layout: &Layout,
    id: &MemoryId,
) -> rusqlite::Result<Option<UnitRow>> {
    let Some(image) = row(connection, (&layout.memories, layout.has_rowid), ("id", id.as_str()))?
    else {
        return Ok(None);
    };
    let embedding = embedding(connection, layout, id.as_str())?;
    let cell = embedding.as_ref().map_or(Cell::Null, Cell::from);
    let digest = base_digest(&RawMemory::from(&image), cell);
    let is_indexed = match (&layout.search, image.rowid) {
        (Search::ByHand { .. }, Some(rowid)) => Some(is_indexed(connection, rowid)?),
        _ => None,
    };
    let has_embedding = !matches!(embedding, None | Some(StoredValue::Null));
    Ok(Some(UnitRow { id: id.clone(), image, digest, has_embedding, is_indexed }))
}

/// Reads one row by a text key.
pub(super) fn row(
    connection: &Connection,
    (columns, has_rowid): (&Columns, bool),
    (key, value): (&str, &str),
) -> rusqlite::Result<Option<RowImage>> {
    let sql = select(columns, has_rowid, &format!("WHERE {} = ?1", columns.expression(key)));
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([value])?;
    rows.next()?.map(|row| image(columns, row)).transpose()
}

/// `SELECT rowid, columns… FROM table` and what follows.
pub(super) fn select(columns: &Columns, has_rowid: bool, rest: &str) -> String {
    let position = if has_rowid { "rowid" } else { "NULL" };
    let names: Vec<&str> = columns.names().iter().map(String::as_str).collect();
    format!("SELECT {position}, {} FROM {} {rest}", columns.expressions(&names), columns.table())
}

/// Reads a row of [`select`].
pub(super) fn image(columns: &Columns, row: &rusqlite::Row<'_>) -> rusqlite::Result<RowImage> {
    let cells = columns
        .names()
        .iter()
        .enumerate()
        .map(|(at, name)| Ok((name.clone(), row.get_ref(at + 1)?.into())))
        .collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(RowImage { rowid: row.get(0)?, cells })
}

/// The embedding that a loader takes: the last of several.
fn embedding(
    connection: &Connection,
    layout: &Layout,
    id: &str,
) -> rusqlite::Result<Option<StoredValue>> {
    if layout.embeddings.is_empty() {
        return Ok(None);
    }
    let order =
        if layout.embeddings_have_rowid { "ORDER BY rowid DESC LIMIT 1" } else { "LIMIT 1" };
    let sql = format!(
        "SELECT embedding FROM embeddings WHERE source_type = 'stm' AND source_id = ?1 {order}"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_row([id], |row| Ok(row.get_ref(0)?.into())).optional()
}

/// Tells whether a row of `stm` has a search entry.
pub(super) fn is_indexed(connection: &Connection, rowid: i64) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM stm_fts_docsize WHERE id = ?1")?;
    statement.exists([rowid])
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
                row(connection, (&self.layout.memories, self.layout.has_rowid), ("id", &key.key))
            }
            Table::Atoms if self.layout.atoms.is_empty() => Ok(None),
            Table::Atoms => row(connection, (&self.layout.atoms, true), ("id", &key.key)),
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
        archive::lost_columns(self.writes, self.layout, (id, image))
    }

    fn move_refusal(&self) -> Option<&str> {
        self.layout.move_refusal()
    }
}
