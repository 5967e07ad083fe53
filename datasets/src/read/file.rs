//! [`InputFile`]: one input, whatever its format.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;

use super::hdf5::Hdf5File;
use super::jsonl::JsonlFile;
use super::matrix::{MappedMatrix, VecsFile, open_bin, open_npy};
use super::npz::{DeflatedMatrix, NpzFile, open_tensor};
use super::{ArrowFile, ReadError};
use crate::components::ElementType;
use crate::parquet::{DECODE_ROWS, ParquetTable, TypesFrom};
use crate::read::format::VectorFormat;

/// One input, whatever its format.
#[derive(Debug)]
pub(crate) enum InputFile {
    Arrow(ArrowFile),
    Parquet(ParquetTable),
    /// npy, fbin and its like, an array stored in an npz file, a tensor.
    Matrix(MappedMatrix),
    /// An array compressed in an npz file.
    Deflated(DeflatedMatrix),
    Vecs(VecsFile),
    Hdf5(Hdf5File),
    Jsonl(JsonlFile),
}

/// How an input is opened.
#[derive(Debug, Clone, Default)]
pub(crate) struct InputOptions {
    /// Where the types of Parquet columns are taken from.
    pub(crate) types: TypesFrom,
    /// Which array of an npz file, tensor, data set or vector field of JSON lines is read; `None`:
    /// the one that is known to hold vectors.
    pub(crate) member: Option<String>,
}

/// Record batches of a file, which they keep open.
pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ReadError>> + Send>;

impl InputFile {
    /// Opens the file at `path`, whose content tells the format; of JSON lines alone are the rows read,
    /// to learn their columns.
    #[cfg(test)]
    pub(crate) fn open(path: &Path, types: TypesFrom) -> Result<Self, ReadError> {
        Self::open_with(path, &InputOptions { types, member: None })
    }

    /// Opens the file at `path`, whose content tells the format.
    pub(crate) fn open_with(path: &Path, options: &InputOptions) -> Result<Self, ReadError> {
        Self::open_as(path, Self::detect(path)?, options)
    }

    /// Tells the format of the file at `path`.
    pub(crate) fn detect(path: &Path) -> Result<VectorFormat, ReadError> {
        VectorFormat::detect(path)
            .map_err(|source| ReadError::Io { path: path.into(), source })?
            .map_err(|found| ReadError::Unknown { path: path.into(), found })
    }

    /// Opens the file at `path`, which is of `format`.
    pub(crate) fn open_as(
        path: &Path,
        format: VectorFormat,
        options: &InputOptions,
    ) -> Result<Self, ReadError> {
        let member = options.member.as_deref();
        let bins = |element| open_bin(path, element).map(Self::Matrix);
        let vecs = |element| VecsFile::open(path, element).map(Self::Vecs);
        Ok(match format {
            VectorFormat::Columns => Self::Arrow(ArrowFile::open(path)?),
            VectorFormat::Parquet => Self::Parquet(ParquetTable::open(path, options.types)?),
            VectorFormat::Npy => Self::Matrix(open_npy(path)?),
            VectorFormat::Npz => match NpzFile::open(path, member)? {
                NpzFile::Stored(matrix) => Self::Matrix(matrix),
                NpzFile::Deflated(matrix) => Self::Deflated(matrix),
            },
            VectorFormat::Safetensors => Self::Matrix(open_tensor(path, member)?),
            VectorFormat::Hdf5 => Self::Hdf5(Hdf5File::open(path, member)?),
            VectorFormat::Jsonl => Self::Jsonl(JsonlFile::open(path, member)?),
            VectorFormat::Fvecs => vecs(ElementType::F32)?,
            VectorFormat::Ivecs => vecs(ElementType::I32)?,
            VectorFormat::Bvecs => vecs(ElementType::U8)?,
            VectorFormat::Fbin => bins(ElementType::F32)?,
            VectorFormat::F16bin => bins(ElementType::F16)?,
            VectorFormat::U8bin => bins(ElementType::U8)?,
            VectorFormat::I8bin => bins(ElementType::I8)?,
            VectorFormat::Ibin => bins(ElementType::I32)?,
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        match self {
            Self::Arrow(file) => file.schema(),
            Self::Parquet(table) => table.schema(),
            Self::Matrix(matrix) => matrix.schema(),
            Self::Deflated(matrix) => matrix.schema(),
            Self::Vecs(file) => file.schema(),
            Self::Hdf5(file) => file.schema(),
            Self::Jsonl(file) => file.schema(),
        }
    }

    pub(crate) fn row_count(&self) -> usize {
        match self {
            Self::Arrow(file) => file.row_count(),
            Self::Parquet(table) => table.row_count(),
            Self::Matrix(matrix) => matrix.row_count(),
            Self::Deflated(matrix) => matrix.row_count(),
            Self::Vecs(file) => file.row_count(),
            Self::Hdf5(file) => file.row_count(),
            Self::Jsonl(file) => file.row_count(),
        }
    }

    /// Tells whether the file holds nothing but vectors: its one column has no name of its own.
    pub(crate) const fn is_bare(&self) -> bool {
        match self {
            Self::Arrow(_) | Self::Parquet(_) | Self::Jsonl(_) => false,
            Self::Matrix(_) | Self::Deflated(_) => true,
            Self::Vecs(_) | Self::Hdf5(_) => true,
        }
    }

    /// Returns the bytes that columns are lent from, where the file is mapped.
    pub(crate) const fn mapped(&self) -> Option<&Buffer> {
        match self {
            Self::Arrow(file) => Some(file.bytes()),
            Self::Matrix(matrix) => Some(matrix.bytes()),
            Self::Parquet(_) | Self::Deflated(_) | Self::Vecs(_) => None,
            Self::Hdf5(_) | Self::Jsonl(_) => None,
        }
    }

    /// Returns the columns at `positions`, ascending, of all rows in order.
    pub(crate) fn batches(&self, positions: &[usize]) -> Result<Batches, ReadError> {
        self.batches_of(positions, DECODE_ROWS)
    }

    /// Returns the columns at `positions`, ascending, of all rows in order; where the format leaves the
    /// choice, and costs no memory beyond the vectors, in batches of `rows` rows.
    pub(crate) fn batches_of(
        &self,
        positions: &[usize],
        rows: usize,
    ) -> Result<Batches, ReadError> {
        Ok(match self {
            Self::Arrow(file) => Box::new(file.batches(positions)),
            Self::Parquet(table) => {
                let batches = table.batches(positions, rows)?;
                Box::new(batches)
            }
            Self::Matrix(matrix) => Box::new(matrix.batches().map(Ok)),
            Self::Deflated(matrix) => Box::new(matrix.batches()),
            Self::Vecs(file) => Box::new(file.batches()),
            Self::Hdf5(file) => Box::new(file.batches()),
            Self::Jsonl(file) => Box::new(file.batches(positions)),
        })
    }

    /// Returns the column at `position` of the rows asked for, ascending, in some batches.
    pub(crate) fn batches_of_rows(
        &self,
        position: usize,
        rows: &[usize],
    ) -> Result<Vec<RecordBatch>, ReadError> {
        match self {
            Self::Arrow(file) => Ok(file.batches_of_rows(&[position], rows)?),
            Self::Parquet(table) => {
                let batches = table.batches_of_rows(&[position], rows)?;
                Ok(batches.collect::<Result<_, _>>()?)
            }
            Self::Matrix(matrix) => Ok(rows.iter().map(|&row| matrix.batch_of_row(row)).collect()),
            Self::Deflated(matrix) => matrix.batches_of_rows(rows),
            Self::Vecs(file) => rows.iter().map(|&row| file.batch_of_row(row)).collect(),
            Self::Hdf5(file) => rows.iter().map(|&row| file.batch_of_row(row)).collect(),
            Self::Jsonl(file) => file.batches_of_rows(position, rows),
        }
    }
}
