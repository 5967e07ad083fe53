//! [`ColumnSource`]: one column of a Parquet file, batch by batch.

use std::path::{Path, PathBuf};

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use super::ReadParquetError;
use super::batches::{DECODE_ROWS, TableBatches};
use super::file::ParquetFile;
use super::table::{ParquetTable, TypesFrom};

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
