//! [`ParquetWriter`]: rows into a Parquet file, with bounded memory.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use memfold_index::Row;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use super::output::{ENCODED_ROWS, ParquetOutput, WriteTableError, key_values, plain_components};
use crate::atomic_file::NewFile;
use crate::columns::{BatchBuilder, ColumnRecord, WriteColumnsError};
use crate::schema::{BATCH_ROWS, Column, ColumnsMeta, key};

/// Writes the columns of [`crate::schema`] as Parquet, in row groups of 65,536 rows, all but the vectors compressed with
/// zstd; one row group is held in memory.
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
    output: ParquetOutput,
    batch: BatchBuilder,
}

impl ParquetWriter {
    /// Begins a file that takes its place at `path` when finished.
    ///
    /// # Errors
    /// When the dimension is out of range or the folder cannot be written.
    pub fn create(path: &Path, meta: &ColumnsMeta) -> Result<Self, WriteColumnsError> {
        let file = NewFile::create(path)
            .map_err(|source| WriteColumnsError::Write { path: path.into(), source })?;
        Self::create_in(file, meta)
    }

    /// Begins in a new file, which takes its place when finished.
    ///
    /// # Errors
    /// When the dimension is out of range or the file cannot be written.
    pub fn create_in(file: NewFile, meta: &ColumnsMeta) -> Result<Self, WriteColumnsError> {
        let batch = BatchBuilder::new(meta, ENCODED_ROWS)?;
        let output = ParquetOutput::begin(file, Arc::clone(batch.schema()), properties(meta))?;
        Ok(Self { output, batch })
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
        self.batch.take_full().map_or(Ok(()), |batch| self.write(batch))
    }

    fn write(&mut self, batch: Result<RecordBatch, ArrowError>) -> Result<(), WriteColumnsError> {
        let encode = |error: ArrowError| {
            let path = self.output.path().to_owned();
            WriteColumnsError::Encode { path, reason: error.to_string() }
        };
        let batch = batch.map_err(encode)?;
        Ok(self.output.write(&batch)?)
    }

    /// Writes what is left and publishes the file.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then holds what it held before.
    pub fn finish(mut self) -> Result<(), WriteColumnsError> {
        if let Some(rest) = self.batch.take_rest() {
            self.write(rest)?;
        }
        let row_count = self.batch.row_count().to_string();
        Ok(self.output.finish(Some(KeyValue::new(key::ROW_COUNT.to_owned(), Some(row_count))))?)
    }
}

impl From<WriteTableError> for WriteColumnsError {
    fn from(error: WriteTableError) -> Self {
        match error {
            WriteTableError::Write { path, source } => Self::Write { path, source },
            WriteTableError::Encode { path, reason } => Self::Encode { path, reason },
        }
    }
}

fn properties(meta: &ColumnsMeta) -> WriterProperties {
    let components = [Column::Vector.name(), "list", "item"].map(str::to_owned);
    let column = |column: Column| ColumnPath::from(column.name());
    let properties = WriterProperties::builder()
        // What never repeats needs no dictionary.
        .set_column_dictionary_enabled(column(Column::Rowid), false)
        .set_column_dictionary_enabled(column(Column::Id), false)
        .set_column_dictionary_enabled(column(Column::Row), false)
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(BATCH_ROWS))
        .set_key_value_metadata(Some(key_values(meta.arrow_schema().metadata())));
    plain_components(properties, ColumnPath::new(components.to_vec())).build()
}
