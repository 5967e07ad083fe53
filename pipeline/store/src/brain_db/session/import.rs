//! Rows of another file that become rows of `stm`.

use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension as _, Row};

use super::archive::{archived_image, put_in};
use super::{Layout, SessionError, Writes};
use crate::journal::{RowImage, StoredValue};

/// The confidence that the owner's own writer gives.
const CONFIDENCE: f64 = 1.0;

/// A memory that is imported, its cells as they are stored.
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
    pub fn has_archive(&self) -> Result<bool, SessionError> {
        self.query("look for memfold_archive", |connection| {
            let sql =
                "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'memfold_archive'";
            connection.prepare_cached(sql)?.exists([])
        })
    }

    /// Returns the bytes of a memory's text, which stands in `stm` or was moved to the archive; `None` where there is no
    /// such memory.
    pub fn text_of(&self, id: &str, has_archive: bool) -> Result<Option<Vec<u8>>, SessionError> {
        let found = self.query("look for a memory", |connection| {
            let mut statement =
                connection.prepare_cached("SELECT content FROM stm WHERE id = ?1")?;
            let bytes = |row: &Row<'_>| {
                Ok(match row.get_ref(0)? {
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
                    _ => Vec::new(),
                })
            };
            statement.query_row([id], bytes).optional()
        })?;
        if found.is_some() {
            return Ok(found);
        }
        if !has_archive {
            return Ok(None);
        }
        let image = archived_image(self, id)?;
        Ok(image.map(|image| match image.get("content") {
            Some(StoredValue::Text(bytes)) => bytes.clone(),
            _ => Vec::new(),
        }))
    }

    /// Inserts a memory and makes it searchable; columns that the table lacks are left out, others keep their defaults.
    pub fn insert_imported(
        &self,
        layout: &Layout,
        memory: &ImportedMemory,
    ) -> Result<(), SessionError> {
        let cells: [(&str, Option<StoredValue>); 10] = [
            ("id", Some(memory.id.as_str().into())),
            ("content", Some(memory.content.as_str().into())),
            ("categories", Some(memory.categories.as_str().into())),
            ("importance", Some(StoredValue::Real(memory.importance))),
            ("access_count", Some(StoredValue::Integer(memory.access_count))),
            ("created_at", Some(memory.created_at.as_str().into())),
            ("updated_at", memory.updated_at.as_deref().map(Into::into)),
            ("expires_at", memory.expires_at.as_deref().map(Into::into)),
            ("source", Some(memory.source.as_str().into())),
            ("confidence", Some(StoredValue::Real(CONFIDENCE))),
        ];
        let given = cells.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        put_in(self, layout, &RowImage { rowid: None, cells: given.collect() }, (true, None))
    }
}
