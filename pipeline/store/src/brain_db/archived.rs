//! Reading rows that an earlier run moved out of the owner's tables, and whose texts and vectors keep their say.

use std::collections::BTreeMap;

use super::columns::Columns;
use super::load::{PROBE_BLOBS, Pass, cell};
use crate::journal::RowImage;
use crate::reading::{Cell, EmbeddingReader, MemoryReader, RawEmbedding, RawMemory, ShapeSurvey};
use crate::{LoadStoreError, VectorSink};
use memfold_model::memory::MemoryId;

const TABLE: &str = "memfold_archive";

/// Some archived vectors of each model and length.
#[derive(Default)]
pub(super) struct ArchivedBlobs {
    samples: BTreeMap<ModelAndLength, Vec<Vec<u8>>>,
}

type ModelAndLength = (Option<Box<str>>, usize);

impl ArchivedBlobs {
    fn add(&mut self, model: Option<&str>, blob: &[u8]) {
        let samples = self.samples.entry((model.map(Into::into), blob.len())).or_default();
        if samples.len() < PROBE_BLOBS {
            samples.push(blob.to_vec());
        }
    }

    /// Adds vectors of a length, and of a model where one is named, until there are enough.
    pub(super) fn fill(&self, blobs: &mut Vec<Vec<u8>>, model: Option<&str>, length: usize) {
        let wanted = self.samples.iter().filter(|((named, blob_length), _)| {
            *blob_length == length && (model.is_none() || named.as_deref() == model)
        });
        let room = PROBE_BLOBS.saturating_sub(blobs.len());
        blobs.extend(wanted.flat_map(|(_, samples)| samples).take(room).cloned());
    }
}

impl Pass<'_> {
    /// Reads archived memories; returns a remark where rows cannot be read.
    pub(super) fn archived_memories(
        &self,
        memories: &mut MemoryReader<'_>,
    ) -> Result<Option<String>, LoadStoreError> {
        let mut unreadable = 0;
        let broken = self.archived("stm", |row, survivor| {
            if !memories.take_archived(&RawMemory::from(row), survivor) {
                unreadable += 1;
            }
            Ok(())
        })?;
        unreadable += broken;
        Ok((unreadable > 0).then(|| {
            format!(
                "{unreadable} memories in {TABLE} cannot be read: they were compared with nothing"
            )
        }))
    }

    /// Looks over archived embeddings as over those in their table.
    pub(super) fn survey_archived(
        &self,
        survey: &mut ShapeSurvey,
    ) -> Result<ArchivedBlobs, LoadStoreError> {
        let mut blobs = ArchivedBlobs::default();
        self.archived("embeddings", |row, _| {
            let raw = RawEmbedding::from(row);
            let named = raw.model.text().ok().flatten();
            let blob = if let Cell::Blob(bytes) = raw.embedding { Some(bytes) } else { None };
            survey.add(named.as_deref(), blob.map(<[u8]>::len));
            if let Some(blob) = blob {
                blobs.add(named.as_deref(), blob);
            }
            Ok(())
        })?;
        Ok(blobs)
    }

    /// Reads archived embeddings; returns a remark where rows cannot be read.
    pub(super) fn archived_embeddings(
        &self,
        embeddings: &mut EmbeddingReader<'_>,
        sink: &mut dyn VectorSink,
    ) -> Result<Option<String>, LoadStoreError> {
        let broken = self.archived("embeddings", |row, _| {
            embeddings.take_archived(&RawEmbedding::from(row), sink).map_err(LoadStoreError::Sink)
        })?;
        Ok((broken > 0).then(|| {
            format!("{broken} embeddings in {TABLE} cannot be read: only their texts were compared")
        }))
    }

    /// Returns how many rows there are in the archive.
    pub(super) fn archived_count(&self) -> Result<u64, LoadStoreError> {
        if self.archive_columns()?.is_some() { self.count(TABLE) } else { Ok(0) }
    }

    /// Reads what was moved out of a table, the latest record first, with what it was folded into.
    /// Returns how many records are broken.
    fn archived(
        &self,
        table: &str,
        mut take: impl FnMut(&RowImage, Option<MemoryId>) -> Result<(), LoadStoreError>,
    ) -> Result<u64, LoadStoreError> {
        let failed = |error| self.failed(TABLE, error);
        let Some(columns) = self.archive_columns()? else { return Ok(0) };
        let listed = columns.expressions(&["row", "survivor_id"]);
        let sql = format!(
            "SELECT {listed} FROM {TABLE} WHERE table_name = '{table}' ORDER BY rowid DESC"
        );
        let mut broken = 0;
        self.each_row(TABLE, "read the archive", (&sql, 0), |row| {
            let image = match cell(row, 0).map_err(failed)? {
                Cell::Text(json) => serde_json::from_slice(json)
                    .ok()
                    .and_then(|value: serde_json::Value| RowImage::from_json(None, &value)),
                _ => None,
            };
            let survivor = cell(row, 1).map_err(failed)?.text().ok().flatten();
            match image {
                Some(image) => take(&image, survivor.map(MemoryId::new)),
                None => {
                    broken += 1;
                    Ok(())
                }
            }
        })?;
        Ok(broken)
    }

    fn archive_columns(&self) -> Result<Option<Columns>, LoadStoreError> {
        let columns = Columns::of(self.connection, TABLE).map_err(|e| self.failed(TABLE, e))?;
        Ok(columns.has_all(&["table_name", "row"]).then_some(columns))
    }
}
