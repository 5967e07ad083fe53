//! New rows of the owner's tables.

use super::archive::put_in;
use super::{Layout, SessionError, Writes};
use crate::journal::{RowImage, StoredValue};

/// How sure a memory is that was just said.
const CONFIDENCE: f64 = 1.0;

/// What becomes a row of `stm`.
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
    ) -> Result<(), SessionError> {
        let cells: [(&str, StoredValue); 12] = [
            ("id", row.id.into()),
            ("content", row.content.into()),
            ("categories", row.categories.into()),
            ("importance", StoredValue::Real(row.importance)),
            ("access_count", StoredValue::Integer(0)),
            ("created_at", row.at.into()),
            ("updated_at", row.at.into()),
            ("source", row.source.into()),
            // As the owner's own writer has it, whatever the defaults of the columns are.
            ("confidence", StoredValue::Real(CONFIDENCE)),
            ("last_accessed", row.at.into()),
            ("validation_count", StoredValue::Integer(0)),
            ("contradiction_count", StoredValue::Integer(0)),
        ];
        let cells = cells.into_iter().map(|(name, value)| (name.to_owned(), value));
        put_in(self, layout, &RowImage { rowid: None, cells: cells.collect() }, (indexed, None))
    }

    /// Returns model and bytes of the vector that came last, if any did.
    pub fn last_embedding(
        &self,
        layout: &Layout,
    ) -> Result<Option<(Option<String>, i64)>, SessionError> {
        if layout.embeddings.is_empty() || !layout.embeddings_have_rowid {
            return Ok(None);
        }
        let model = layout.embeddings.expression("model");
        let sql = format!(
            "SELECT iif(typeof({model}) = 'text', {model}, NULL), length(CAST(embedding AS BLOB))
             FROM embeddings NOT INDEXED WHERE source_type = 'stm' ORDER BY rowid DESC LIMIT 1"
        );
        self.query("look for an embedding", |connection| {
            use rusqlite::OptionalExtension as _;
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
    }

    /// Returns the bytes of the vector of a model that came last, if one of the latest rows is of that model and a blob.
    pub fn last_vector_bytes_of(
        &self,
        layout: &Layout,
        model: &str,
    ) -> Result<Option<i64>, SessionError> {
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
        self.query("look for an embedding", |connection| {
            use rusqlite::OptionalExtension as _;
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_row([model], |row| row.get(0)).optional()
        })
    }

    /// Counts one more access of a memory, and nothing else.
    pub fn count_access(
        &self,
        layout: &Layout,
        id: &str,
        (count, at): (i64, &str),
    ) -> Result<(), SessionError> {
        let accessed =
            if layout.memories.has("last_accessed") { ", last_accessed = ?3" } else { "" };
        let sql =
            format!("UPDATE stm SET access_count = ?2{accessed} WHERE id = ?1 AND ?3 IS NOT NULL");
        self.execute("count an access", &sql, rusqlite::params![id, count, at]).map(drop)
    }
}
