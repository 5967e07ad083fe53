//! [`ParquetWriter`]: rows into a Parquet file, with bounded memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memfold_index::Row;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use crate::columns::{BatchBuilder, ColumnRecord, WriteColumnsError};
use crate::publish::NewFile;
use crate::schema::{BATCH_ROWS, Column, ColumnsMeta, key};

/// Writes the columns of [`crate::schema`] as Parquet, in row groups of 65,536 rows compressed
/// with zstd; holds one row group in memory.
///
/// # Examples
/// ```
/// use memfold_datasets::{ColumnsMeta, ParquetVectors, ParquetWriter};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("vectors.parquet");
/// let mut writer = ParquetWriter::create(&path, &ColumnsMeta::vectors(2))?;
/// writer.push_vector(&[0.6, 0.8])?;
/// writer.finish()?;
/// assert_eq!(ParquetVectors::open(&path)?.read_all()?, [0.6, 0.8]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ParquetWriter {
    output: ArrowWriter<NewFile>,
    path: PathBuf,
    batch: BatchBuilder,
}

impl ParquetWriter {
    /// Begins a file that takes its place at `path` when finished.
    ///
    /// # Errors
    /// When the dimension is out of range or the folder cannot be written.
    pub fn create(path: &Path, meta: &ColumnsMeta) -> Result<Self, WriteColumnsError> {
        let batch = BatchBuilder::new(meta)?;
        let file = NewFile::create(path)
            .map_err(|source| WriteColumnsError::Write { path: path.into(), source })?;
        let output = ArrowWriter::try_new(file, Arc::clone(batch.schema()), Some(properties(meta)))
            .map_err(|error| failed(path, error))?;
        Ok(Self { output, path: path.into(), batch })
    }

    /// Returns how many rows were pushed.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.batch.row_count() as usize
    }

    /// Tells whether no row was pushed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a row with all its columns and returns its number.
    ///
    /// # Errors
    /// When the vector does not fit or is not finite, the file holds bare vectors, or writing fails.
    pub fn push(&mut self, record: &ColumnRecord<'_>) -> Result<Row, WriteColumnsError> {
        let row = self.batch.push(record)?;
        self.write_if_full().map(|()| row)
    }

    /// Appends a bare vector and returns its number.
    ///
    /// # Errors
    /// When the vector does not fit or is not finite, the file has record columns, or writing fails.
    pub fn push_vector(&mut self, vector: &[f32]) -> Result<Row, WriteColumnsError> {
        let row = self.batch.push_vector(vector)?;
        self.write_if_full().map(|()| row)
    }

    fn write_if_full(&mut self) -> Result<(), WriteColumnsError> {
        if self.batch.is_full() { self.write_batch() } else { Ok(()) }
    }

    fn write_batch(&mut self) -> Result<(), WriteColumnsError> {
        let batch = self.batch.take().map_err(|error| WriteColumnsError::Encode {
            path: self.path.clone(),
            reason: error.to_string(),
        })?;
        self.output.write(&batch).map_err(|error| failed(&self.path, error))?;
        self.batch.recycle(batch);
        Ok(())
    }

    /// Writes what is left and publishes the file.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then holds what it held before.
    pub fn finish(mut self) -> Result<(), WriteColumnsError> {
        if !self.batch.is_empty() {
            self.write_batch()?;
        }
        let row_count = self.batch.row_count().to_string();
        self.output
            .append_key_value_metadata(KeyValue::new(key::ROW_COUNT.to_owned(), Some(row_count)));
        let file = self.output.into_inner().map_err(|error| failed(&self.path, error))?;
        let published = file.publish().map(drop);
        published.map_err(|source| WriteColumnsError::Write { path: self.path, source })
    }
}

fn failed(path: &Path, error: ParquetError) -> WriteColumnsError {
    let encode = |reason| WriteColumnsError::Encode { path: path.into(), reason };
    match error {
        ParquetError::External(source) => match source.downcast() {
            Ok(source) => WriteColumnsError::Write { path: path.into(), source: *source },
            Err(other) => encode(other.to_string()),
        },
        other => encode(other.to_string()),
    }
}

fn properties(meta: &ColumnsMeta) -> WriterProperties {
    // Components hardly ever repeat: a dictionary and statistics of them only cost time.
    let components = || {
        let steps = [Column::Vector.name(), "list", "item"];
        ColumnPath::new(steps.map(str::to_owned).to_vec())
    };
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(BATCH_ROWS))
        .set_column_dictionary_enabled(components(), false)
        .set_column_statistics_enabled(components(), EnabledStatistics::None)
        .set_column_encoding(components(), Encoding::PLAIN)
        .set_key_value_metadata(Some(key_values(meta)))
        .build()
}

/// Returns the metadata in the order of their keys, for readers that know no Arrow schema.
fn key_values(meta: &ColumnsMeta) -> Vec<KeyValue> {
    let schema = meta.arrow_schema();
    let mut pairs: Vec<KeyValue> = schema
        .metadata()
        .iter()
        .map(|(key, value)| KeyValue::new(key.clone(), Some(value.clone())))
        .collect();
    pairs.sort_by(|a, b| a.key.cmp(&b.key));
    pairs
}
