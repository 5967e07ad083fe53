//! [`ParquetWriter`]: rows into a Parquet file, with bounded memory.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use memfold_index::Row;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use crate::DataError;
use crate::atomic_file::NewFile;
use crate::columns::{BatchBuilder, ColumnRecord};
use crate::schema::{BATCH_ROWS, Column, ColumnsMeta, key};

/// Writes the columns of [`crate::schema`] as Parquet, in row groups of 65,536 rows, all but the vectors compressed with
/// zstd; one row group is held in memory.
///
/// # Examples
/// ```
/// use memfold_datasets::{ColumnsMeta, ParquetWriter, VectorFile};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("vectors.parquet");
/// let mut writer = ParquetWriter::create(&path, &ColumnsMeta::vectors(2))?;
/// writer.push_vector(&[0.6, 0.8])?;
/// writer.finish()?;
/// assert_eq!(VectorFile::open(&path)?.read_all()?, [0.6, 0.8]);
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
    pub fn create(path: &Path, meta: &ColumnsMeta) -> Result<Self, DataError> {
        let file = NewFile::create(path).map_err(|source| DataError::io(path, source))?;
        Self::create_in(file, meta)
    }

    /// Begins in a new file, which takes its place when finished.
    ///
    /// # Errors
    /// When the dimension is out of range or the file cannot be written.
    pub fn create_in(file: NewFile, meta: &ColumnsMeta) -> Result<Self, DataError> {
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
    pub fn push(&mut self, record: &ColumnRecord<'_>) -> Result<Row, DataError> {
        let row = self.batch.push(record)?;
        self.write_if_full().map(|()| row)
    }

    /// Appends a bare vector and returns its number.
    ///
    /// # Errors
    /// When the vector does not fit or is not finite, the file has record columns, or writing fails.
    pub fn push_vector(&mut self, vector: &[f32]) -> Result<Row, DataError> {
        let row = self.batch.push_vector(vector)?;
        self.write_if_full().map(|()| row)
    }

    fn write_if_full(&mut self) -> Result<(), DataError> {
        self.batch.take_full().map_or(Ok(()), |batch| self.write(batch))
    }

    fn write(&mut self, batch: Result<RecordBatch, ArrowError>) -> Result<(), DataError> {
        let batch = batch.map_err(|error| DataError::of_arrow(self.output.path(), error))?;
        self.output.write(&batch)
    }

    /// Writes what is left and publishes the file.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then holds what it held before.
    pub fn finish(mut self) -> Result<(), DataError> {
        if let Some(rest) = self.batch.take_rest() {
            self.write(rest)?;
        }
        let row_count = self.batch.row_count().to_string();
        self.output.finish(Some(KeyValue::new(key::ROW_COUNT.to_owned(), Some(row_count))))
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

/// Rows that are encoded at once: Arrow's encoder takes 12 bytes for each component of a list while it works.
pub(super) const ENCODED_ROWS: usize = 4096;

/// Record batches on their way into a Parquet file; holds one row group in memory.
pub(crate) struct ParquetOutput {
    path: std::path::PathBuf,
    writer: ArrowWriter<NewFile>,
}

impl ParquetOutput {
    /// Begins a file that takes its place at `path` when finished.
    pub(crate) fn create(
        path: &Path,
        schema: SchemaRef,
        properties: WriterProperties,
    ) -> Result<Self, DataError> {
        let file = NewFile::create(path).map_err(|source| DataError::io(path, source))?;
        Self::begin(file, schema, properties)
    }

    /// Begins in a new file.
    pub(super) fn begin(
        file: NewFile,
        schema: SchemaRef,
        properties: WriterProperties,
    ) -> Result<Self, DataError> {
        let path = file.path().to_owned();
        let writer = ArrowWriter::try_new(file, schema, Some(properties))
            .map_err(|error| DataError::of_parquet(&path, error))?;
        Ok(Self { path, writer })
    }

    /// Returns the place that the file will take.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends rows of the file's schema.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), DataError> {
        for first in (0..batch.num_rows()).step_by(ENCODED_ROWS) {
            let rows = ENCODED_ROWS.min(batch.num_rows() - first);
            self.writer
                .write(&batch.slice(first, rows))
                .map_err(|error| DataError::of_parquet(&self.path, error))?;
        }
        Ok(())
    }

    /// Writes what is left with the last of the metadata, and publishes the file.
    pub(crate) fn finish(mut self, metadata: Option<KeyValue>) -> Result<(), DataError> {
        if let Some(pair) = metadata {
            self.writer.append_key_value_metadata(pair);
        }
        let file = self.writer.into_inner();
        let file = file.map_err(|error| DataError::of_parquet(&self.path, error))?;
        let published = file.publish().map(drop);
        published.map_err(|source| DataError::io(&self.path, source))
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
