//! [`ParquetTable`]: some columns of a Parquet file as record batches.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder, RowSelection,
};

use super::ReadParquetError;
use super::file::{ParquetFile, guarded};

/// Rows decoded at once: some MB of vectors.
const DECODE_ROWS: usize = 1024;

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
    file: ParquetFile,
}

impl ParquetTable {
    pub(crate) fn open(path: &Path, types: TypesFrom) -> Result<Self, ReadParquetError> {
        let file = match types {
            TypesFrom::Parquet => ParquetFile::open(path)?,
            TypesFrom::Arrow => ParquetFile::open_as_stored(path)?,
        };
        Ok(Self { file })
    }

    pub(super) const fn file(&self) -> &ParquetFile {
        &self.file
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.file.metadata().schema()
    }

    pub(crate) const fn row_count(&self) -> usize {
        self.file.row_count()
    }

    /// Returns the columns at `positions`, ascending, of all rows in order.
    pub(crate) fn batches(&self, positions: &[usize]) -> Result<TableBatches, ReadParquetError> {
        self.open_batches(positions, None)
    }

    /// Returns the columns at `positions`, ascending, of the rows asked for, ascending.
    pub(crate) fn batches_of_rows(
        &self,
        positions: &[usize],
        rows: &[usize],
    ) -> Result<TableBatches, ReadParquetError> {
        let ranges = rows.iter().map(|&row| row..row + 1);
        let selection = RowSelection::from_consecutive_ranges(ranges, self.row_count());
        self.open_batches(positions, Some((selection, rows.len())))
    }

    fn names(&self, positions: &[usize]) -> String {
        let names = positions.iter().map(|&at| format!("{:?}", self.schema().field(at).name()));
        format!("column {}", names.collect::<Vec<_>>().join(", "))
    }

    fn open_batches(
        &self,
        positions: &[usize],
        selection: Option<(RowSelection, usize)>,
    ) -> Result<TableBatches, ReadParquetError> {
        for &position in positions {
            self.file.check_chunks(self.schema().field(position).name())?;
        }
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
            self.file.handle()?,
            self.file.metadata().clone(),
        );
        let mask = ProjectionMask::roots(builder.parquet_schema(), positions.iter().copied());
        builder = builder.with_projection(mask).with_batch_size(DECODE_ROWS);
        let mut row_count = self.row_count();
        if let Some((selection, rows)) = selection {
            (builder, row_count) = (builder.with_row_selection(selection), rows);
        }
        let reader = guarded(|| builder.build())
            .and_then(|built| built.map_err(|error| error.to_string()))
            .map_err(|found| self.file.damaged(format!("{}: {found}", self.names(positions))))?;
        let (path, columns) = (self.file.path().into(), self.names(positions));
        Ok(TableBatches { path, columns, reader, row_count, rows_read: 0, is_over: false })
    }
}

/// Columns of a Parquet file, batch by batch; after an error there are no more.
pub(crate) struct TableBatches {
    path: PathBuf,
    /// The columns' names, for errors.
    columns: String,
    reader: ParquetRecordBatchReader,
    row_count: usize,
    rows_read: usize,
    is_over: bool,
}

impl TableBatches {
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ReadParquetError> {
        let rows_read = self.rows_read;
        let next = guarded(|| self.reader.next())
            .and_then(|batch| batch.transpose().map_err(arrow_message))
            .map_err(|found| self.damaged(format!("after row {rows_read}: {found}")))?;
        self.rows_read += next.as_ref().map_or(0, RecordBatch::num_rows);
        let is_short = next.is_none() && self.rows_read != self.row_count;
        if self.rows_read > self.row_count || is_short {
            let found = format!("{} rows, expected {}", self.rows_read, self.row_count);
            return Err(self.damaged(found));
        }
        Ok(next)
    }

    fn damaged(&self, found: String) -> ReadParquetError {
        let found = format!("{}: {found}", self.columns);
        ReadParquetError::Damaged { path: self.path.clone(), found }
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
