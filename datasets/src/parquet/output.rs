//! [`ParquetOutput`]: record batches into a Parquet file that appears whole or not at all.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use crate::atomic_file::NewFile;

/// Rows that are encoded at once: Arrow's encoder takes 12 bytes for each component of a list while it works.
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
    writer: ArrowWriter<NewFile>,
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
        let writer = ArrowWriter::try_new(file, schema, Some(properties))
            .map_err(|error| WriteTableError::of_parquet(&path, error))?;
        Ok(Self { path, writer })
    }

    /// Returns the place that the file will take.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends rows of the file's schema.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteTableError> {
        for first in (0..batch.num_rows()).step_by(ENCODED_ROWS) {
            let rows = ENCODED_ROWS.min(batch.num_rows() - first);
            self.writer
                .write(&batch.slice(first, rows))
                .map_err(|error| WriteTableError::of_parquet(&self.path, error))?;
        }
        Ok(())
    }

    /// Writes what is left with the last of the metadata, and publishes the file.
    pub(crate) fn finish(mut self, metadata: Option<KeyValue>) -> Result<(), WriteTableError> {
        if let Some(pair) = metadata {
            self.writer.append_key_value_metadata(pair);
        }
        let file = self.writer.into_inner();
        let file = file.map_err(|error| WriteTableError::of_parquet(&self.path, error))?;
        let published = file.publish().map(drop);
        published.map_err(|source| WriteTableError::Write { path: self.path, source })
    }
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
