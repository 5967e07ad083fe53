//! [`ParquetTable`]: columns of a Parquet file as record batches.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};

use super::ReadParquetError;
use super::file::ParquetFile;
use crate::guarded::guarded;

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
    pub(crate) fn open(path: &Path, types: TypesFrom) -> Result<Self, ReadParquetError> {
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
    ) -> Result<TableBatches, ReadParquetError> {
        TableBatches::begin(&self.file, positions, self.row_count(), |builder| {
            builder.with_batch_size(batch_rows.min(DECODE_ROWS))
        })
    }

    /// Returns the columns at `positions`, ascending, of the rows asked for, ascending.
    pub(crate) fn batches_of_rows(
        &self,
        positions: &[usize],
        rows: &[usize],
    ) -> Result<TableBatches, ReadParquetError> {
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
    ) -> Result<Self, ReadParquetError> {
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

    fn damaged(&self, found: &str) -> ReadParquetError {
        self.file.damaged(format!("column {}: {found}", self.columns))
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ReadParquetError> {
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
    type Item = Result<RecordBatch, ReadParquetError>;

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
    pub(super) fn open(path: &Path, names: &[&str]) -> Result<Self, ReadParquetError> {
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
    pub(super) fn next_rows(&mut self) -> Result<Option<(usize, ArrayRef)>, ReadParquetError> {
        let Some(batch) = self.batches.next().transpose()? else { return Ok(None) };
        let first_row = self.rows_read;
        self.rows_read += batch.num_rows();
        Ok(Some((first_row, batch.column(0).clone())))
    }

    /// Returns the error that the column's type is none of `expected`.
    pub(super) fn type_error(&self, expected: &'static str) -> ReadParquetError {
        ReadParquetError::ColumnType {
            path: self.path(),
            column: self.column(),
            expected,
            found: self.data_type.to_string(),
        }
    }
}
