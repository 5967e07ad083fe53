//! [`ParquetOutput`]: record batches into a Parquet file that appears whole or not at all.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowRowGroupWriterFactory;
use parquet::basic::{Compression, Encoding};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use super::row_group::RowGroup;
use crate::publish::NewFile;

/// Rows that are encoded at once: for lists that are no vectors of f32, Arrow's encoder takes 12 bytes for each component
/// while it works.
pub(super) const ENCODED_ROWS: usize = 4096;

/// A file could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteTableError {
    /// The system refused to write.
    #[error("write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The format refused the rows.
    #[error("write {}: {reason}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// What the encoder said.
        reason: String,
    },
}

impl WriteTableError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::Write { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull => "free some space, or choose another folder",
                io::ErrorKind::NotFound => "create the folder first",
                io::ErrorKind::PermissionDenied => "choose a folder that you may write to",
                _ => return None,
            },
            Self::Encode { .. } => return None,
        };
        Some(advice.into())
    }

    pub(crate) fn of_parquet(path: &Path, error: ParquetError) -> Self {
        let encode = |reason| Self::Encode { path: path.into(), reason };
        match error {
            ParquetError::External(source) => match source.downcast() {
                Ok(source) => Self::Write { path: path.into(), source: *source },
                Err(other) => encode(other.to_string()),
            },
            other => encode(other.to_string()),
        }
    }
}

/// Record batches on their way into a Parquet file; holds one row group in memory.
pub(crate) struct ParquetOutput {
    path: PathBuf,
    schema: SchemaRef,
    file: SerializedFileWriter<NewFile>,
    factory: ArrowRowGroupWriterFactory,
    group: Option<RowGroup>,
    /// Memory of the last group's vectors, for the next one's.
    memory: Vec<u8>,
}

impl ParquetOutput {
    /// Begins a file that takes its place at `path` when finished.
    pub(crate) fn create(
        path: &Path,
        schema: SchemaRef,
        properties: WriterProperties,
    ) -> Result<Self, WriteTableError> {
        let file = NewFile::create(path)
            .map_err(|source| WriteTableError::Write { path: path.into(), source })?;
        Self::begin(file, schema, properties)
    }

    /// Begins in a new file.
    pub(super) fn begin(
        file: NewFile,
        schema: SchemaRef,
        properties: WriterProperties,
    ) -> Result<Self, WriteTableError> {
        let path = file.path().to_owned();
        let (file, factory) = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties))
            .and_then(ArrowWriter::into_serialized_writer)
            .map_err(|error| WriteTableError::of_parquet(&path, error))?;
        Ok(Self { path, schema, file, factory, group: None, memory: Vec::new() })
    }

    /// Returns the place that the file will take.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a batch; a row group that is full is written out.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteTableError> {
        self.push(batch).map_err(|error| WriteTableError::of_parquet(&self.path, error))
    }

    fn push(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        let mut first = 0;
        while first < batch.num_rows() {
            let mut group = match self.group.take() {
                Some(group) => group,
                None => {
                    let memory = std::mem::take(&mut self.memory);
                    RowGroup::new(&self.file, &self.factory, &self.schema, memory)?
                }
            };
            let rest = batch.num_rows() - first;
            let rows = room(&group, self.file.properties()).min(rest).min(ENCODED_ROWS);
            group.push(&batch.slice(first, rows))?;
            first += rows;
            if room(&group, self.file.properties()) > 0 {
                self.group = Some(group);
            } else {
                self.memory = group.write_to(&mut self.file)?;
            }
        }
        Ok(())
    }

    /// Writes what is left with the last of the metadata, and publishes the file.
    pub(crate) fn finish(mut self, metadata: Option<KeyValue>) -> Result<(), WriteTableError> {
        if let Some(pair) = metadata {
            self.file.append_key_value_metadata(pair);
        }
        let written = match self.group {
            Some(group) => group.write_to(&mut self.file).map(drop),
            None => Ok(()),
        };
        let file = written
            .and_then(|()| self.file.into_inner())
            .map_err(|error| WriteTableError::of_parquet(&self.path, error))?;
        let published = file.publish().map(drop);
        published.map_err(|source| WriteTableError::Write { path: self.path, source })
    }
}

/// Returns how many rows a group has room for, by rows and, once it has some, by bytes; an empty one has room.
fn room(group: &RowGroup, properties: &WriterProperties) -> usize {
    let rows = group.row_count();
    let by_rows = properties.max_row_group_row_count().map_or(usize::MAX, |max| max - rows);
    let by_bytes = properties.max_row_group_bytes().map_or(usize::MAX, |max| {
        let bytes = group.bytes();
        bytes.checked_div(rows).map_or(usize::MAX, |each| max.saturating_sub(bytes) / each.max(1))
    });
    by_rows.min(by_bytes)
}

/// Stores the components of vectors as they are. They hardly ever repeat: a dictionary and statistics of them only cost
/// time, and compressing them takes several times as long as all else for a few hundredths of the file.
pub(crate) fn plain_components(
    properties: WriterPropertiesBuilder,
    components: ColumnPath,
) -> WriterPropertiesBuilder {
    properties
        .set_column_compression(components.clone(), Compression::UNCOMPRESSED)
        .set_column_dictionary_enabled(components.clone(), false)
        .set_column_statistics_enabled(components.clone(), EnabledStatistics::None)
        .set_column_encoding(components, Encoding::PLAIN)
}

/// Returns the metadata in the order of their keys, for readers that know no Arrow schema.
pub(crate) fn key_values(metadata: &HashMap<String, String>) -> Vec<KeyValue> {
    let mut pairs: Vec<KeyValue> = metadata
        .iter()
        .map(|(key, value)| KeyValue::new(key.clone(), Some(value.clone())))
        .collect();
    pairs.sort_by(|a, b| a.key.cmp(&b.key));
    pairs
}
