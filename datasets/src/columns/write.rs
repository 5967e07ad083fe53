//! [`ColumnsWriter`]: rows into a column file, with bounded memory.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{
    Float64Builder, Int64Builder, ListBuilder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, RecordBatch, UInt32Array};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{ArrowError, SchemaRef};
use memfold_index::{Mapped, Row};

use super::MappedColumns;
use super::layout::ALIGNMENT;
use super::read::unmapped;
use crate::DataError;
use crate::atomic_file::NewFile;
use crate::error::VectorFault;
use crate::schema::{
    BATCH_ROWS, ColumnSet, ColumnsMeta, DIM_MAX, category_field, component_field, key,
};

/// One row to be written.
#[derive(Debug, Clone, Copy, Default)]
pub struct ColumnRecord<'a> {
    /// The store's row number.
    pub rowid: i64,
    /// The store's id.
    pub id: &'a str,
    /// Microseconds since 1970 in UTC; `None` where unreadable.
    pub created_at: Option<i64>,
    /// Categories in the store's order.
    pub categories: &'a [Box<str>],
    /// As stored.
    pub importance: f64,
    /// How often it was read.
    pub access_count: i64,
    /// Where it came from.
    pub source: &'a str,
    /// The embedding model.
    pub model: &'a str,
    /// The content; written only where the file has a text column.
    pub text: Option<&'a str>,
    /// Provenance as JSON; written only where the file has a lineage column.
    pub lineage: Option<&'a str>,
    /// The vector: finite, of the file's dimension.
    pub vector: &'a [f32],
}

/// Writes a column file in batches of 65,536 rows; holds one in memory.
///
/// # Examples
/// ```
/// use memfold_datasets::{ColumnsMeta, ColumnsWriter};
///
/// let folder = tempfile::tempdir()?;
/// let mut writer = ColumnsWriter::create_unlinked(folder.path(), &ColumnsMeta::vectors(2))?;
/// writer.push_vector(&[0.6, 0.8])?;
/// let columns = writer.finish()?;
/// assert_eq!(columns.vectors().vector(memfold_index::Row(0)), [0.6, 0.8]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ColumnsWriter {
    writer: FileWriter<NewFile>,
    path: PathBuf,
    batch: BatchBuilder,
}

impl ColumnsWriter {
    /// Begins a file that takes its place at `path` when finished.
    ///
    /// # Errors
    /// When the dimension is out of range or the folder cannot be written.
    pub fn create(path: &Path, meta: &ColumnsMeta) -> Result<Self, DataError> {
        Self::start(NewFile::create(path), path, meta)
    }

    /// Begins in a new file, which takes its place when finished.
    ///
    /// # Errors
    /// When the dimension is out of range or the file cannot be written.
    pub fn create_in(file: NewFile, meta: &ColumnsMeta) -> Result<Self, DataError> {
        let path = file.path().to_owned();
        Self::start(Ok(file), &path, meta)
    }

    /// Begins a file without a name in `folder`; only the result of [`finish`](Self::finish) sees it.
    ///
    /// # Errors
    /// When the dimension is out of range or the folder cannot be written.
    pub fn create_unlinked(folder: &Path, meta: &ColumnsMeta) -> Result<Self, DataError> {
        Self::start(NewFile::create_unlinked(folder), folder, meta)
    }

    /// Begins in an empty file that is open for reading and writing.
    ///
    /// # Errors
    /// When the dimension is out of range or the file cannot be written.
    pub fn from_file(file: File, meta: &ColumnsMeta) -> Result<Self, DataError> {
        Self::start(Ok(NewFile::from_file(file)), Path::new("unnamed file"), meta)
    }

    fn start(
        file: io::Result<NewFile>,
        path: &Path,
        meta: &ColumnsMeta,
    ) -> Result<Self, DataError> {
        let batch = BatchBuilder::new(meta, BATCH_ROWS)?;
        let failed = |error| DataError::of_arrow(path, error);
        let file = file.map_err(|source| DataError::io(path, source))?;
        let options =
            IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5).map_err(failed)?;
        let writer =
            FileWriter::try_new_with_options(file, batch.schema(), options).map_err(failed)?;
        Ok(Self { writer, path: path.into(), batch })
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
        let Some(batch) = self.batch.take_full() else { return Ok(()) };
        let written = batch.and_then(|batch| self.writer.write(&batch));
        written.map_err(|error| DataError::of_arrow(&self.path, error))
    }

    /// Writes what is left, publishes the file and maps it.
    ///
    /// # Errors
    /// When writing, publishing or mapping fails; the file's place then holds what it held before.
    pub fn finish(self) -> Result<MappedColumns, DataError> {
        let (file, path) = self.finish_file()?;
        let mapped = Mapped::from_file(&file).map_err(|error| unmapped(&path, error))?;
        MappedColumns::from_mapped(mapped, &path)
    }

    /// Writes what is left and publishes the file, without reading any of it again.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then holds what it held before.
    pub fn publish(self) -> Result<(), DataError> {
        self.finish_file().map(drop)
    }

    fn finish_file(mut self) -> Result<(File, PathBuf), DataError> {
        let (mut writer, path) = (self.writer, self.path);
        let failed = |error| DataError::of_arrow(&path, error);
        if let Some(rest) = self.batch.take_rest() {
            rest.and_then(|batch| writer.write(&batch)).map_err(failed)?;
        }
        writer.write_metadata(key::ROW_COUNT, self.batch.row_count().to_string());
        let file = writer.into_inner().map_err(failed)?;
        match file.publish() {
            Ok(file) => Ok((file, path)),
            Err(source) => Err(DataError::io(&path, source)),
        }
    }
}

/// The row has other columns than the file.
fn unlike(row: u32, found: &str) -> DataError {
    DataError::encode(Path::new(""), format!("row {row}: {found}"))
}

/// Returns the position of the first NaN or infinite value.
pub(crate) fn first_not_finite(values: &[f32]) -> Option<usize> {
    // The whole pass has no branch, so it runs at memory speed; the search is for the rare case.
    let finite = values.iter().fold(true, |finite, value| finite & value.is_finite());
    if finite { None } else { values.iter().position(|value| !value.is_finite()) }
}

/// Rows checked and gathered until they fill a record batch.
pub(crate) struct BatchBuilder {
    schema: SchemaRef,
    dim: u32,
    /// Rows of a full batch.
    batch_rows: usize,
    first_row: u32,
    row_count: u32,
    vectors: Vec<f32>,
    fields: Option<FieldBuilders>,
}

/// The columns beside `row` and `vector`.
struct FieldBuilders {
    rowid: Int64Builder,
    id: StringBuilder,
    created_at: TimestampMicrosecondBuilder,
    categories: ListBuilder<StringBuilder>,
    importance: Float64Builder,
    access_count: Int64Builder,
    source: StringBuilder,
    model: StringBuilder,
    text: Option<StringBuilder>,
    lineage: Option<StringBuilder>,
}

impl BatchBuilder {
    /// Begins the first batch of a file; each has `batch_rows`, only the last one fewer.
    pub(crate) fn new(meta: &ColumnsMeta, batch_rows: usize) -> Result<Self, DataError> {
        if meta.dim == 0 || meta.dim as usize > DIM_MAX {
            let (found, expected) =
                (format!("vectors of {} components", meta.dim), format!("1 to {DIM_MAX}"));
            return Err(DataError::Shape { path: PathBuf::new(), found, expected });
        }
        let fields = match meta.columns {
            ColumnSet::Vectors => None,
            ColumnSet::Records { text, lineage } => Some(FieldBuilders::new(text, lineage)),
        };
        let schema = Arc::new(meta.arrow_schema());
        Ok(Self {
            schema,
            dim: meta.dim,
            batch_rows,
            first_row: 0,
            row_count: 0,
            vectors: Vec::new(),
            fields,
        })
    }

    pub(crate) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns how many rows were pushed, in all batches.
    pub(crate) const fn row_count(&self) -> u32 {
        self.row_count
    }

    /// Tells whether the batch has all its rows.
    const fn is_full(&self) -> bool {
        (self.row_count - self.first_row) as usize == self.batch_rows
    }

    /// Tells whether the batch has no row.
    const fn is_empty(&self) -> bool {
        self.row_count == self.first_row
    }

    /// Appends a row with all its columns and returns its number.
    pub(crate) fn push(&mut self, record: &ColumnRecord<'_>) -> Result<Row, DataError> {
        self.check(record.vector)?;
        let Some(fields) = &mut self.fields else {
            return Err(unlike(self.row_count, "a record in a file of bare vectors"));
        };
        fields.push(record);
        Ok(self.append(record.vector))
    }

    /// Appends a bare vector and returns its number.
    pub(crate) fn push_vector(&mut self, vector: &[f32]) -> Result<Row, DataError> {
        self.check(vector)?;
        if self.fields.is_some() {
            return Err(unlike(self.row_count, "a bare vector in a file of records"));
        }
        Ok(self.append(vector))
    }

    fn check(&self, vector: &[f32]) -> Result<(), DataError> {
        let fault = if vector.len() == self.dim as usize {
            first_not_finite(vector).map(|component| VectorFault::NotFinite {
                component,
                value: vector[component].into(),
            })
        } else {
            Some(VectorFault::Length { found: vector.len(), expected: self.dim as usize })
        };
        if let Some(fault) = fault {
            let row = self.row_count.into();
            return Err(DataError::Vector { path: PathBuf::new(), row, fault });
        }
        if self.row_count == u32::MAX - 1 {
            let (found, expected) = ("more rows".into(), format!("at most {}", u32::MAX - 1));
            return Err(DataError::Shape { path: PathBuf::new(), found, expected });
        }
        Ok(())
    }

    fn append(&mut self, vector: &[f32]) -> Row {
        self.vectors.extend_from_slice(vector);
        self.row_count += 1;
        Row(self.row_count - 1)
    }

    /// Returns the gathered rows when they fill a batch, and begins the next.
    pub(crate) fn take_full(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        self.is_full().then(|| self.take())
    }

    /// Returns the rows that fill no batch, if there are any.
    pub(crate) fn take_rest(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        (!self.is_empty()).then(|| self.take())
    }

    /// Returns the gathered rows as a batch and begins the next one.
    fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = UInt32Array::from_iter_values(self.first_row..self.row_count);
        let values = Float32Array::from(std::mem::take(&mut self.vectors));
        let vectors = FixedSizeListArray::try_new(
            component_field(),
            self.dim.cast_signed(),
            Arc::new(values),
            None,
        )?;
        let mut columns: Vec<ArrayRef> = vec![Arc::new(rows)];
        columns.extend(self.fields.as_mut().into_iter().flat_map(FieldBuilders::finish));
        columns.push(Arc::new(vectors));
        self.first_row = self.row_count;
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }
}

impl FieldBuilders {
    fn new(text: bool, lineage: bool) -> Self {
        Self {
            rowid: Int64Builder::new(),
            id: StringBuilder::new(),
            created_at: TimestampMicrosecondBuilder::new().with_timezone("UTC"),
            categories: ListBuilder::new(StringBuilder::new()).with_field(category_field()),
            importance: Float64Builder::new(),
            access_count: Int64Builder::new(),
            source: StringBuilder::new(),
            model: StringBuilder::new(),
            text: text.then(StringBuilder::new),
            lineage: lineage.then(StringBuilder::new),
        }
    }

    fn push(&mut self, record: &ColumnRecord<'_>) {
        self.rowid.append_value(record.rowid);
        self.id.append_value(record.id);
        self.created_at.append_option(record.created_at);
        for category in record.categories {
            self.categories.values().append_value(category);
        }
        self.categories.append(true);
        self.importance.append_value(record.importance);
        self.access_count.append_value(record.access_count);
        self.source.append_value(record.source);
        self.model.append_value(record.model);
        if let Some(text) = &mut self.text {
            text.append_option(record.text);
        }
        if let Some(lineage) = &mut self.lineage {
            lineage.append_option(record.lineage);
        }
    }

    fn finish(&mut self) -> Vec<ArrayRef> {
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.rowid.finish()),
            Arc::new(self.id.finish()),
            Arc::new(self.created_at.finish()),
            Arc::new(self.categories.finish()),
            Arc::new(self.importance.finish()),
            Arc::new(self.access_count.finish()),
            Arc::new(self.source.finish()),
            Arc::new(self.model.finish()),
        ];
        for text in [&mut self.text, &mut self.lineage].into_iter().flatten() {
            columns.push(Arc::new(text.finish()));
        }
        columns
    }
}
