//! Rows that came after a place.

use rusqlite::{Row as SqlRow, params};

use super::{Fate, Reach, Reaches, StoreReader};
use crate::LoadStoreError;
use crate::brain_db::load::{cell, raw_embedding};
use crate::journal::{RowImage, StoredValue};
use crate::reading::{ModelShapes, decode_vector};
use memfold_model::memory::VectorSpace;

impl StoreReader<'_> {
    /// Passes on the vectors of a space that came after a place, in the order in which they came, and those of memories
    /// that live again: memory's id and vector. Whether the others are live is another question.
    ///
    /// # Errors
    /// When the store cannot be read, or what `take` returns.
    pub fn since<E: From<LoadStoreError>>(
        &self,
        reaches: Reaches,
        space: (&VectorSpace, &ModelShapes),
        mut take: impl FnMut(&str, &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.vectors_since(reaches.embeddings, space, &mut take)?;
        let mut revived = Vec::new();
        self.revived_since(reaches.revived, usize::MAX, |id| revived.push(id.to_owned()))?;
        for id in revived {
            if let Some(vector) = self.vector(&id, space)? {
                take(&id, &vector)?;
            }
        }
        Ok(())
    }

    /// Passes on the ids of memories that live again since a place; `false` where there are more than `limit`.
    fn revived_since(
        &self,
        reach: Reach,
        limit: usize,
        mut take: impl FnMut(&str),
    ) -> Result<bool, LoadStoreError> {
        if reach == Reaches::START.revived || !self.own()?.has_revived {
            return Ok(true);
        }
        let sql = "SELECT seq, memory_id FROM memfold_revived WHERE seq > ?1 ORDER BY seq LIMIT ?2";
        self.limited(sql, reach, limit, |row| {
            if let Ok(id) = row.get_ref(1)?.as_str() {
                take(id);
            }
            Ok(())
        })
    }

    /// Passes on id and text of memories that live again since a place, as [`texts_since`](Self::texts_since).
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn revived_texts_since(
        &self,
        reach: Reach,
        limit: usize,
        mut take: impl FnMut(&str, &str),
    ) -> Result<bool, LoadStoreError> {
        let mut revived = Vec::new();
        let is_complete = self.revived_since(reach, limit, |id| revived.push(id.to_owned()))?;
        for id in revived {
            if let Fate::Live(memory) = self.fate(&id)? {
                take(&id, &memory.content);
            }
        }
        Ok(is_complete)
    }

    fn vectors_since<E: From<LoadStoreError>>(
        &self,
        reach: Reach,
        (space, shapes): (&VectorSpace, &ModelShapes),
        take: &mut impl FnMut(&str, &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error| self.failed(error);
        if !self.has_embeddings() {
            return Ok(());
        }
        let (position, order) =
            if self.has_rowid { ("rowid", "AND rowid > ?1 ORDER BY rowid") } else { ("0", "") };
        let listed = self.embedding_columns();
        // By the index on source_type nearly every row would be found one by one and then sorted.
        let sql = format!(
            "SELECT {position}, {listed} FROM embeddings NOT INDEXED WHERE source_type = 'stm' {order}"
        );
        let mut statement = self.pass.connection.prepare_cached(&sql).map_err(failed)?;
        let first = [reach.rowid()];
        let parameters = if self.has_rowid { &first[..] } else { &[] };
        let mut rows = statement.query(rusqlite::params_from_iter(parameters)).map_err(failed)?;
        let mut vector = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let raw = raw_embedding(row).map_err(failed)?;
            let Some(id) = raw.source_id.text().ok().flatten() else { continue };
            if decode_vector(&raw, shapes, space, &mut vector) {
                take(&id, &vector)?;
            }
        }
        Ok(())
    }

    /// Passes on id and text of memories that came after a place, whatever became of them; `false` where there are more
    /// than `limit`, of which the first ones were passed on.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn texts_since(
        &self,
        reach: Reach,
        limit: usize,
        mut take: impl FnMut(&str, &str),
    ) -> Result<bool, LoadStoreError> {
        let position = if self.has_rowid_of_memories { "rowid" } else { "0" };
        let after = if self.has_rowid_of_memories { "rowid > ?1 ORDER BY rowid" } else { "?1 < 1" };
        let sql =
            format!("SELECT {position}, id, content FROM stm NOT INDEXED WHERE {after} LIMIT ?2");
        self.limited(&sql, reach, limit, |row| {
            let (id, content) = (cell(row, 1)?, cell(row, 2)?);
            if let (Ok(Some(id)), Ok(Some(content))) = (id.text(), content.text()) {
                take(&id, &content);
            }
            Ok(())
        })
    }

    /// Passes on id and text of memories that were moved into the archive after a place, as
    /// [`texts_since`](Self::texts_since).
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn archived_texts_since(
        &self,
        reach: Reach,
        limit: usize,
        mut take: impl FnMut(&str, &str),
    ) -> Result<bool, LoadStoreError> {
        if !self.own()?.has_archive {
            return Ok(true);
        }
        let sql = "SELECT rowid, memory_id, row FROM memfold_archive NOT INDEXED
                   WHERE rowid > ?1 AND table_name = 'stm' ORDER BY rowid LIMIT ?2";
        self.limited(sql, reach, limit, |row| {
            let id: String = row.get(1)?;
            let image = archived_image(&row.get::<_, String>(2)?);
            if let Some(content) = image.as_ref().and_then(content_of) {
                take(&id, content);
            }
            Ok(())
        })
    }

    fn limited(
        &self,
        sql: &str,
        reach: Reach,
        limit: usize,
        mut take: impl FnMut(&SqlRow<'_>) -> rusqlite::Result<()>,
    ) -> Result<bool, LoadStoreError> {
        let failed = |error| self.failed(error);
        let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
        let most = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let mut rows = statement.query(params![reach.rowid(), most]).map_err(failed)?;
        let mut taken = 0;
        while let Some(row) = rows.next().map_err(failed)? {
            if taken == limit {
                return Ok(false);
            }
            taken += 1;
            take(row).map_err(failed)?;
        }
        Ok(true)
    }
}

/// Reads a row as the archive keeps it.
pub(super) fn archived_image(json: &str) -> Option<RowImage> {
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    RowImage::from_json(None, &value)
}

/// Returns the text of a row as the archive keeps it.
pub(super) fn content_of(image: &RowImage) -> Option<&str> {
    image.get("content").and_then(StoredValue::as_text)
}
