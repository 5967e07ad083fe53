//! [`ColumnSource`]: one column of a Parquet file, batch by batch.

use std::path::{Path, PathBuf};

use arrow_array::ArrayRef;
use arrow_schema::{ArrowError, DataType};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::ReadParquetError;
use super::file::{ParquetFile, guarded};

/// Rows decoded at once: some MB of vectors.
const DECODE_ROWS: usize = 1024;

/// One column of a Parquet file, batch by batch.
pub(super) struct ColumnSource {
    file: ParquetFile,
    column: Box<str>,
    data_type: DataType,
    reader: ParquetRecordBatchReader,
    rows_read: usize,
}

impl std::fmt::Debug for ColumnSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ColumnSource")
            .field("file", &self.file)
            .field("column", &self.column)
            .field("rows_read", &self.rows_read)
            .finish_non_exhaustive()
    }
}

impl ColumnSource {
    /// Opens the first of the columns `names` that the file has.
    pub(super) fn open(path: &Path, names: &[&str]) -> Result<Self, ReadParquetError> {
        let file = ParquetFile::open(path)?;
        let (position, field) = file.find_column(names)?;
        let (column, data_type) = (field.name().as_str().into(), field.data_type().clone());
        file.check_chunks(field.name())?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(
            file.handle()?,
            file.metadata().clone(),
        );
        let mask = ProjectionMask::roots(builder.parquet_schema(), [position]);
        let builder = builder.with_projection(mask).with_batch_size(DECODE_ROWS);
        let reader = guarded(|| builder.build())
            .and_then(|built| built.map_err(|error| error.to_string()))
            .map_err(|found| file.damaged(found))?;
        Ok(Self { file, column, data_type, reader, rows_read: 0 })
    }

    /// Returns the file that the column is in.
    pub(super) const fn file(&self) -> &ParquetFile {
        &self.file
    }

    pub(super) fn path(&self) -> PathBuf {
        self.file.path().into()
    }

    pub(super) fn column(&self) -> Box<str> {
        self.column.clone()
    }

    pub(super) const fn data_type(&self) -> &DataType {
        &self.data_type
    }

    pub(super) const fn row_count(&self) -> usize {
        self.file.row_count()
    }

    /// Returns the next rows with the number of the first; `None` after the last.
    pub(super) fn next_rows(&mut self) -> Result<Option<(usize, ArrayRef)>, ReadParquetError> {
        let first_row = self.rows_read;
        let next = guarded(|| self.reader.next())
            .and_then(|batch| batch.transpose().map_err(arrow_message))
            .map_err(|found| self.damaged(format!("after row {first_row}: {found}")))?;
        let rows = next.as_ref().map_or(0, |batch| batch.num_rows());
        self.rows_read += rows;
        let is_end = next.is_none() && self.rows_read != self.row_count();
        if self.rows_read > self.row_count() || is_end {
            let found = format!("{} rows, expected {}", self.rows_read, self.row_count());
            return Err(self.damaged(found));
        }
        Ok(next.map(|batch| (first_row, batch.column(0).clone())))
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

    fn damaged(&self, found: String) -> ReadParquetError {
        self.file.damaged(format!("column {:?}: {found}", self.column))
    }
}

fn arrow_message(error: ArrowError) -> String {
    match error {
        ArrowError::ParquetError(message) => message,
        other => other.to_string(),
    }
}
