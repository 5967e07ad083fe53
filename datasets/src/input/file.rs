//! [`InputFile`]: one input, whatever its format.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;

use super::{ArrowFile, InputError, NpyFile};
use crate::parquet::{ParquetTable, TypesFrom};
use crate::vector_file::VectorFormat;

/// One input, whatever its format.
#[derive(Debug)]
pub(crate) enum InputFile {
    Arrow(ArrowFile),
    Parquet(ParquetTable),
    Npy(NpyFile),
}

/// Record batches, lent by a file.
pub(crate) type Batches<'a> = Box<dyn Iterator<Item = Result<RecordBatch, InputError>> + 'a>;

impl InputFile {
    /// Opens the file at `path`, whose content tells the format, and reads no rows.
    pub(crate) fn open(path: &Path, types: TypesFrom) -> Result<Self, InputError> {
        let format = VectorFormat::detect(path)
            .map_err(|source| InputError::Io { path: path.into(), source })?
            .map_err(|found| InputError::Unknown { path: path.into(), found })?;
        Ok(match format {
            VectorFormat::Columns => Self::Arrow(ArrowFile::open(path)?),
            VectorFormat::Parquet => Self::Parquet(ParquetTable::open(path, types)?),
            VectorFormat::Npy => Self::Npy(NpyFile::open(path)?),
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        match self {
            Self::Arrow(file) => file.schema(),
            Self::Parquet(table) => table.schema(),
            Self::Npy(file) => file.schema(),
        }
    }

    pub(crate) const fn row_count(&self) -> usize {
        match self {
            Self::Arrow(file) => file.row_count(),
            Self::Parquet(table) => table.row_count(),
            Self::Npy(file) => file.row_count(),
        }
    }

    /// Returns the bytes that columns are lent from, where the file is mapped.
    pub(crate) const fn mapped(&self) -> Option<&Buffer> {
        match self {
            Self::Arrow(file) => Some(file.bytes()),
            Self::Npy(file) => Some(file.bytes()),
            Self::Parquet(_) => None,
        }
    }

    /// Returns the columns at `positions`, ascending, of all rows in order.
    pub(crate) fn batches(&self, positions: &[usize]) -> Result<Batches<'_>, InputError> {
        Ok(match self {
            Self::Arrow(file) => {
                Box::new(file.batches(positions).map(|batch| batch.map_err(InputError::from)))
            }
            Self::Parquet(table) => {
                Box::new(table.batches(positions)?.map(|batch| batch.map_err(InputError::from)))
            }
            Self::Npy(file) => Box::new(file.batches().map(Ok)),
        })
    }

    /// Returns the column at `position` of the rows asked for, ascending, in some batches.
    pub(crate) fn batches_of_rows(
        &self,
        position: usize,
        rows: &[usize],
    ) -> Result<Vec<RecordBatch>, InputError> {
        match self {
            Self::Arrow(file) => Ok(file.batches_of_rows(&[position], rows)?),
            Self::Parquet(table) => {
                let batches = table.batches_of_rows(&[position], rows)?;
                Ok(batches.collect::<Result<_, _>>()?)
            }
            Self::Npy(file) => {
                let row = |&row: &usize| file.batch_of_row(row);
                Ok(rows.iter().map(row).collect())
            }
        }
    }
}
