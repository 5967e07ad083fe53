//! [`ParquetTable`]: some columns of a Parquet file as record batches.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use parquet::arrow::arrow_reader::RowSelection;

use super::ReadParquetError;
use super::batches::TableBatches;
use super::file::ParquetFile;

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

    /// Returns where the columns at `positions` lie in the file.
    pub(crate) fn extents(&self, positions: &[usize]) -> Vec<Range<u64>> {
        self.file.extents(positions)
    }

    /// Returns the columns at `positions`, ascending, of all rows in order, in batches of at most
    /// `batch_rows` rows.
    pub(crate) fn batches(
        &self,
        positions: &[usize],
        batch_rows: usize,
    ) -> Result<TableBatches, ReadParquetError> {
        TableBatches::of_all(&self.file, positions, batch_rows)
    }

    /// Returns the columns at `positions`, ascending, of the rows asked for, ascending.
    pub(crate) fn batches_of_rows(
        &self,
        positions: &[usize],
        rows: &[usize],
    ) -> Result<TableBatches, ReadParquetError> {
        let ranges = rows.iter().map(|&row| row..row + 1);
        let selection = RowSelection::from_consecutive_ranges(ranges, self.row_count());
        TableBatches::of_selected(&self.file, positions, selection, rows.len())
    }
}
