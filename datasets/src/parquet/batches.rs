//! [`ParquetTable`]: columns of a Parquet file as record batches.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};

use super::file::ParquetFile;
use crate::columns::first_not_finite;
use crate::components::Components;
use crate::guarded::guarded;
use crate::read::ReadError;
use crate::schema::{ColumnSet, ColumnsMeta, DIM_MAX, VECTOR_NAMES};

/// Rows decoded at once: some MB of vectors.
pub(crate) const DECODE_ROWS: usize = 1024;

/// Where the types of the columns are taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TypesFrom {
    /// Parquet's own, few types.
    #[default]
    Parquet,
    /// The Arrow schema that the file may carry.
    Arrow,
}

/// A Parquet file of which columns are read together.
#[derive(Debug)]
pub(crate) struct ParquetTable {
    file: Arc<ParquetFile>,
}

impl ParquetTable {
    pub(crate) fn open(path: &Path, types: TypesFrom) -> Result<Self, ReadError> {
        let file = match types {
            TypesFrom::Parquet => ParquetFile::open(path)?,
            TypesFrom::Arrow => ParquetFile::open_as_stored(path)?,
        };
        Ok(Self { file: Arc::new(file) })
    }

    pub(super) fn file(&self) -> &ParquetFile {
        &self.file
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.file.metadata().schema()
    }

    pub(crate) fn row_count(&self) -> usize {
        self.file.row_count()
    }

    /// Returns the columns at `positions`, ascending, of all rows in order, in batches of at most
    /// `batch_rows` rows.
    pub(crate) fn batches(
        &self,
        positions: &[usize],
        batch_rows: usize,
    ) -> Result<TableBatches, ReadError> {
        TableBatches::begin(&self.file, positions, self.row_count(), |builder| {
            builder.with_batch_size(batch_rows.min(DECODE_ROWS))
        })
    }

    /// Returns the columns at `positions`, ascending, of the rows asked for, ascending.
    pub(crate) fn batches_of_rows(
        &self,
        positions: &[usize],
        rows: &[usize],
    ) -> Result<TableBatches, ReadError> {
        let ranges = rows.iter().map(|&row| row..row + 1);
        let selection = RowSelection::from_consecutive_ranges(ranges, self.row_count());
        TableBatches::begin(&self.file, positions, rows.len(), |builder| {
            builder.with_batch_size(DECODE_ROWS).with_row_selection(selection)
        })
    }
}

/// Columns of a Parquet file, batch by batch; after an error there are no more.
pub(crate) struct TableBatches {
    file: Arc<ParquetFile>,
    /// The names of the columns, for errors.
    columns: String,
    reader: ParquetRecordBatchReader,
    row_count: usize,
    rows_read: usize,
    is_over: bool,
}

impl TableBatches {
    /// Begins to read `row_count` rows, which `choose` selects.
    fn begin(
        file: &Arc<ParquetFile>,
        positions: &[usize],
        row_count: usize,
        choose: impl FnOnce(
            ParquetRecordBatchReaderBuilder<File>,
        ) -> ParquetRecordBatchReaderBuilder<File>,
    ) -> Result<Self, ReadError> {
        let fields = file.metadata().schema().fields();
        for &position in positions {
            file.check_chunks(fields[position].name())?;
        }
        let names = positions.iter().map(|&position| format!("{:?}", fields[position].name()));
        let columns = names.collect::<Vec<_>>().join(", ");
        let handle = file.handle()?;
        let build = || {
            let metadata = file.metadata().clone();
            let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(handle, metadata);
            let roots = positions.iter().copied();
            let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
            choose(builder.with_projection(mask)).build().map_err(|error| error.to_string())
        };
        let reader = guarded(build)
            .and_then(|built| built)
            .map_err(|found| file.damaged(format!("column {columns}: {found}")))?;
        let file = Arc::clone(file);
        Ok(Self { file, columns, reader, row_count, rows_read: 0, is_over: false })
    }

    fn damaged(&self, found: &str) -> ReadError {
        self.file.damaged(format!("column {}: {found}", self.columns))
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        let rows_read = self.rows_read;
        let next = guarded(|| self.reader.next().transpose().map_err(arrow_message))
            .and_then(|read| read)
            .map_err(|found| self.damaged(&format!("after row {rows_read}: {found}")))?;
        self.rows_read += next.as_ref().map_or(0, RecordBatch::num_rows);
        let is_short = next.is_none() && self.rows_read != self.row_count;
        if self.rows_read > self.row_count || is_short {
            let found = format!("{} rows, expected {}", self.rows_read, self.row_count);
            return Err(self.damaged(&found));
        }
        Ok(next)
    }
}

impl Iterator for TableBatches {
    type Item = Result<RecordBatch, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.next_batch().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}

fn arrow_message(error: ArrowError) -> String {
    match error {
        ArrowError::ParquetError(message) => message,
        other => other.to_string(),
    }
}

/// One column of a Parquet file, batch by batch.
pub(super) struct ColumnSource {
    table: ParquetTable,
    column: Box<str>,
    data_type: DataType,
    batches: TableBatches,
    rows_read: usize,
}

impl std::fmt::Debug for ColumnSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColumnSource")
            .field("table", &self.table)
            .field("column", &self.column)
            .field("rows_read", &self.rows_read)
            .finish_non_exhaustive()
    }
}

impl ColumnSource {
    /// Opens the first of the columns `names` that the file has.
    pub(super) fn open(path: &Path, names: &[&str]) -> Result<Self, ReadError> {
        let table = ParquetTable::open(path, TypesFrom::Parquet)?;
        let (position, field) = table.file().find_column(names)?;
        let (column, data_type) = (field.name().as_str().into(), field.data_type().clone());
        let batches = table.batches(&[position], DECODE_ROWS)?;
        Ok(Self { table, column, data_type, batches, rows_read: 0 })
    }

    /// Returns the file that the column is in.
    pub(super) fn file(&self) -> &ParquetFile {
        self.table.file()
    }

    pub(super) fn path(&self) -> PathBuf {
        self.file().path().into()
    }

    pub(super) fn column(&self) -> Box<str> {
        self.column.clone()
    }

    pub(super) const fn data_type(&self) -> &DataType {
        &self.data_type
    }

    pub(super) fn row_count(&self) -> usize {
        self.table.row_count()
    }

    /// Returns the next rows with the number of the first; `None` after the last.
    pub(super) fn next_rows(&mut self) -> Result<Option<(usize, ArrayRef)>, ReadError> {
        let Some(batch) = self.batches.next().transpose()? else { return Ok(None) };
        let first_row = self.rows_read;
        self.rows_read += batch.num_rows();
        Ok(Some((first_row, batch.column(0).clone())))
    }

    /// Returns the error that the column's type is none of `expected`.
    pub(super) fn type_error(&self, expected: &'static str) -> ReadError {
        ReadError::ColumnType {
            path: self.path(),
            column: self.column(),
            expected,
            found: self.data_type.to_string(),
        }
    }
}

const EXPECTED: &str =
    "a list of f16, f32, f64, i8, u8, i32 or i64, or fixed-size binary of 4-byte floats";

/// Reads vectors from a Parquet file, some rows at a time.
///
/// The column is a list (of any kind) of f16, f32, f64, i8, u8, i32 or i64, or fixed-size binary that
/// holds little-endian f32; all rows have the length of the first. f64 is rounded, integers that f32
/// does not hold are an error.
///
/// # Examples
/// ```no_run
/// use memfold_datasets::ParquetVectors;
///
/// let mut reader = ParquetVectors::open("embeddings.parquet".as_ref())?;
/// let mut values = Vec::new();
/// while reader.read_rows(4096, &mut values)? > 0 {
///     assert!(values.len() % reader.dim() == 0);
/// }
/// # Ok::<(), memfold_datasets::ReadError>(())
/// ```
#[derive(Debug)]
pub struct ParquetVectors {
    source: ColumnSource,
    dim: usize,
    /// Decoded values, of which those before `position` are handed out.
    decoded: Vec<f32>,
    position: usize,
}

impl ParquetVectors {
    /// Opens the column `vector`, `embedding`, `embeddings` or `emb` of the file at `path`, and
    /// decodes its first rows.
    ///
    /// # Errors
    /// When the file cannot be read, is no Parquet file, has no such column, or its first rows are
    /// no vectors of one length.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::from_source(ColumnSource::open(path, &VECTOR_NAMES)?)
    }

    /// Opens the column `name` of the file at `path`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(crate) fn open_column(path: &Path, name: &str) -> Result<Self, ReadError> {
        Self::from_source(ColumnSource::open(path, &[name])?)
    }

    fn from_source(source: ColumnSource) -> Result<Self, ReadError> {
        let is_vector = match source.data_type() {
            DataType::FixedSizeBinary(bytes) => bytes % 4 == 0,
            DataType::List(field) => Components::accept(field.data_type()),
            _ => false,
        };
        if !is_vector {
            return Err(source.type_error(EXPECTED));
        }
        let mut reader = Self { source, dim: 0, decoded: Vec::new(), position: 0 };
        reader.decode_rows()?;
        if reader.dim == 0 {
            reader.dim = reader.dim_of_empty()?;
        }
        Ok(reader)
    }

    /// Returns the dimension of a file without rows, where its metadata or type say it.
    fn dim_of_empty(&self) -> Result<usize, ReadError> {
        let dim = match (self.meta(), self.source.data_type()) {
            (Some(meta), _) => Some(meta.dim as usize),
            (None, DataType::FixedSizeBinary(bytes)) => usize::try_from(bytes / 4).ok(),
            _ => None,
        };
        dim.filter(|dim| (1..=DIM_MAX).contains(dim)).ok_or_else(|| ReadError::Empty {
            path: self.source.path(),
            column: self.source.column(),
        })
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.source.row_count()
    }

    /// Tells whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of components of each vector.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.dim
    }

    /// Returns what the file says about its rows; `None` for files of other programs.
    #[must_use]
    pub fn meta(&self) -> Option<ColumnsMeta> {
        let columns = ColumnSet::from_names(&self.source.file().column_names())?;
        ColumnsMeta::from_metadata(|key| self.source.file().metadata_value(key), columns).ok()
    }

    /// Replaces `values` by the next rows, at most `rows_max`; returns how many (0 at the end).
    ///
    /// # Errors
    /// When reading fails, or a row is null, of another length or not finite.
    pub fn read_rows(
        &mut self,
        rows_max: usize,
        values: &mut Vec<f32>,
    ) -> Result<usize, ReadError> {
        values.clear();
        let wanted = rows_max.saturating_mul(self.dim);
        while values.len() < wanted {
            if self.position == self.decoded.len() && !self.decode_rows()? {
                break;
            }
            let end = self.decoded.len().min(self.position.saturating_add(wanted - values.len()));
            values.extend_from_slice(&self.decoded[self.position..end]);
            self.position = end;
        }
        Ok(values.len() / self.dim)
    }

    /// Reads all rows that are left.
    ///
    /// # Errors
    /// As [`read_rows`](Self::read_rows).
    pub fn read_all(mut self) -> Result<Vec<f32>, ReadError> {
        let mut values = Vec::new();
        self.read_rows(usize::MAX, &mut values)?;
        Ok(values)
    }

    /// Decodes the next rows; returns false at the end.
    fn decode_rows(&mut self) -> Result<bool, ReadError> {
        self.decoded.clear();
        self.position = 0;
        let Some((first_row, rows)) = self.source.next_rows()? else { return Ok(false) };
        if let Some(row) = rows.nulls().and_then(|nulls| nulls.iter().position(|valid| !valid)) {
            return Err(ReadError::NullRow {
                path: self.source.path(),
                column: self.source.column(),
                row: first_row + row,
            });
        }
        if let Some(lists) = rows.as_list_opt::<i32>() {
            self.decode_lists(first_row, lists)?;
        } else if let Some(blobs) = rows.as_fixed_size_binary_opt() {
            self.check_length(first_row, blobs.value_size() / 4)?;
            let bytes = blobs.value_data().as_chunks().0.iter();
            self.decoded.extend(bytes.map(|chunk| f32::from_le_bytes(*chunk)));
        } else {
            return Err(self.source.type_error(EXPECTED));
        }
        match first_not_finite(&self.decoded) {
            None => Ok(true),
            Some(at) => Err(ReadError::ParquetNotFinite {
                path: self.source.path(),
                column: self.source.column(),
                row: first_row + at / self.dim,
                component: at % self.dim,
                value: self.decoded[at],
            }),
        }
    }

    fn decode_lists(&mut self, first_row: usize, lists: &ListArray) -> Result<(), ReadError> {
        for (row, length) in lists.offsets().lengths().enumerate() {
            self.check_length(first_row + row, length)?;
        }
        let (Some(&start), Some(&end)) = (lists.offsets().first(), lists.offsets().last()) else {
            return Ok(());
        };
        // Offsets are never negative and never fall: the array was built with that check.
        let values = lists.values().slice(start as usize, (end - start) as usize);
        if let Some(at) = values.nulls().and_then(|nulls| nulls.iter().position(|valid| !valid)) {
            return Err(ReadError::NullComponent {
                path: self.source.path(),
                column: self.source.column(),
                row: first_row + at / self.dim,
                component: at % self.dim,
            });
        }
        let components = Components::of(&values).ok_or_else(|| self.source.type_error(EXPECTED))?;
        if let Some((at, value)) = components.first_inexact(0..values.len()) {
            return Err(ReadError::Inexact {
                path: self.source.path(),
                column: self.source.column(),
                row: first_row + at / self.dim,
                component: at % self.dim,
                value,
            });
        }
        components.append(0..values.len(), &mut self.decoded);
        Ok(())
    }

    /// Checks a row's length against the first's, which it sets.
    fn check_length(&mut self, row: usize, found: usize) -> Result<(), ReadError> {
        let (path, column) = (|| self.source.path(), || self.source.column());
        if self.dim == 0 {
            if found == 0 || found > DIM_MAX {
                return Err(ReadError::Dimension { path: path(), column: column(), found });
            }
            self.dim = found;
        }
        let expected = self.dim;
        if found == expected {
            return Ok(());
        }
        Err(ReadError::ParquetLength { path: path(), column: column(), row, found, expected })
    }
}

/// Reads a text column of a Parquet file: an iterator over its rows, with a small batch in memory.
///
/// A row without text is `None`. After an error there are no more rows.
///
/// # Examples
/// ```no_run
/// use memfold_datasets::ParquetText;
///
/// for text in ParquetText::open("texts.parquet".as_ref(), &["text", "content"])? {
///     let text: Option<String> = text?;
/// }
/// # Ok::<(), memfold_datasets::ReadError>(())
/// ```
#[derive(Debug)]
pub struct ParquetText {
    source: ColumnSource,
    batch: StringArray,
    position: usize,
    is_over: bool,
}

impl ParquetText {
    /// Opens the first of the columns `names` that the file at `path` has.
    ///
    /// # Errors
    /// When the file cannot be read, is no Parquet file, or has no such column of text.
    pub fn open(path: &Path, names: &[&str]) -> Result<Self, ReadError> {
        let source = ColumnSource::open(path, names)?;
        if source.data_type() != &DataType::Utf8 {
            return Err(source.type_error("text"));
        }
        let batch = StringArray::from(Vec::<&str>::new());
        Ok(Self { source, batch, position: 0, is_over: false })
    }

    /// Returns the number of rows of the file.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.source.row_count()
    }

    /// Returns the name of the column that was found.
    #[must_use]
    pub fn column(&self) -> Box<str> {
        self.source.column()
    }

    /// Decodes the next rows; returns false at the end.
    fn decode_rows(&mut self) -> Result<bool, ReadError> {
        let Some((_, rows)) = self.source.next_rows()? else { return Ok(false) };
        let texts = rows.as_string_opt::<i32>().ok_or_else(|| self.source.type_error("text"))?;
        self.batch = texts.clone();
        self.position = 0;
        Ok(true)
    }
}

impl Iterator for ParquetText {
    type Item = Result<Option<String>, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.position == self.batch.len() && !self.is_over {
            match self.decode_rows() {
                Ok(has_rows) => self.is_over = !has_rows,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        let row = self.position;
        if row == self.batch.len() {
            return None;
        }
        self.position += 1;
        Some(Ok(self.batch.is_valid(row).then(|| self.batch.value(row).to_owned())))
    }
}
