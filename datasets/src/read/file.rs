//! [`InputFile`]: one input, whatever its format.

use std::io;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_schema::SchemaRef;
use memfold_index::MapError;

use super::ArrowFile;
use super::hdf5::Hdf5File;
use super::jsonl::{JsonlFile, ReadJsonlError};
use super::matrix::{MappedMatrix, VecsFile, open_bin, open_npy};
use super::npz::{DeflatedMatrix, NpzFile, open_tensor};
use crate::components::ElementType;
use crate::parquet::{DECODE_ROWS, ParquetTable, ReadParquetError, TypesFrom};
use crate::read::format::{EXPECTED_FORMATS, UNKNOWN_FORMAT_HINT, VectorFormat};
use crate::read::npy::NpyError;

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
pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch, InputError>> + Send>;

impl InputFile {
    /// Opens the file at `path`, whose content tells the format; of JSON lines alone are the rows read,
    /// to learn their columns.
    #[cfg(test)]
    pub(crate) fn open(path: &Path, types: TypesFrom) -> Result<Self, InputError> {
        Self::open_with(path, &InputOptions { types, member: None })
    }

    /// Opens the file at `path`, whose content tells the format.
    pub(crate) fn open_with(path: &Path, options: &InputOptions) -> Result<Self, InputError> {
        Self::open_as(path, Self::detect(path)?, options)
    }

    /// Tells the format of the file at `path`.
    pub(crate) fn detect(path: &Path) -> Result<VectorFormat, InputError> {
        VectorFormat::detect(path)
            .map_err(|source| InputError::Io { path: path.into(), source })?
            .map_err(|found| InputError::Unknown { path: path.into(), found })
    }

    /// Opens the file at `path`, which is of `format`.
    pub(crate) fn open_as(
        path: &Path,
        format: VectorFormat,
        options: &InputOptions,
    ) -> Result<Self, InputError> {
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
    pub(crate) fn batches(&self, positions: &[usize]) -> Result<Batches, InputError> {
        self.batches_of(positions, DECODE_ROWS)
    }

    /// Returns the columns at `positions`, ascending, of all rows in order; where the format leaves the
    /// choice, and costs no memory beyond the vectors, in batches of `rows` rows.
    pub(crate) fn batches_of(
        &self,
        positions: &[usize],
        rows: usize,
    ) -> Result<Batches, InputError> {
        Ok(match self {
            Self::Arrow(file) => {
                Box::new(file.batches(positions).map(|batch| batch.map_err(InputError::from)))
            }
            Self::Parquet(table) => {
                let batches = table.batches(positions, rows)?;
                Box::new(batches.map(|batch| batch.map_err(InputError::from)))
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
    ) -> Result<Vec<RecordBatch>, InputError> {
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

/// An input file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Neither content nor extension are those of a format that is read here.
    #[error(
        "{}: expected {EXPECTED_FORMATS}, found a file that begins with \"{found}\"",
        path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Its first bytes, escaped.
        found: String,
    },
    /// An Arrow file that cannot be read.
    #[error(transparent)]
    Arrow(#[from] ReadArrowError),
    /// A Parquet file that cannot be read.
    #[error(transparent)]
    Parquet(#[from] ReadParquetError),
    /// An npy file that cannot be read.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// A file of bare vectors that cannot be read.
    #[error(transparent)]
    Matrix(#[from] ReadMatrixError),
    /// A file of JSON lines that cannot be read.
    #[error(transparent)]
    Jsonl(#[from] ReadJsonlError),
}

impl InputError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { .. } => None,
            Self::Unknown { .. } => Some(UNKNOWN_FORMAT_HINT.into()),
            Self::Arrow(error) => error.hint(),
            Self::Parquet(error) => error.hint(),
            Self::Npy(error) => error.hint(),
            Self::Matrix(error) => error.hint(),
            Self::Jsonl(error) => Some(error.hint()),
        }
    }
}

/// A file of bare vectors could not be read: fvecs, fbin and their like, npz, safetensors or HDF5.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadMatrixError {
    /// The header is not one of vectors.
    #[error("{}: {found}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What was found, and what was expected.
        found: String,
    },
    /// The file is shorter or longer than its header says.
    #[error("{}: {found} bytes, expected {expected} for {rows} × {dim}", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// Bytes in the file.
        found: u64,
        /// Bytes that the header asks for.
        expected: u64,
        /// Rows in the header.
        rows: usize,
        /// Components in the header.
        dim: usize,
    },
    /// A vector of another length than the first.
    #[error(
        "{}: row {row}: vector has {found} components, expected {expected} as in row 0",
        path.display()
    )]
    RowLength {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
        /// Its components.
        found: u32,
        /// Components of the first row.
        expected: usize,
    },
    /// None of several arrays is known to hold the vectors.
    #[error("{}: expected {expected}, found {found}", path.display())]
    NoArray {
        /// The file.
        path: PathBuf,
        /// What would have been taken.
        expected: String,
        /// The arrays with shapes and types.
        found: String,
    },
    /// Its parts contradict each other, or it uses what is not read here.
    #[error("{}: damaged: {found}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, and what was found.
        found: String,
    },
}

impl ReadMatrixError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::Header { .. } => "docs/formats.md lists what can be read",
            Self::Length { .. } => "the copy is incomplete, or the extension is of another type",
            Self::RowLength { .. } => "keep the rows of one embedding model",
            Self::NoArray { .. } => {
                "name the array with --vector-column, in `memfold convert` with --member"
            }
            Self::Damaged { .. } => "fetch or write the file again",
        };
        Some(advice.into())
    }
}

/// An Arrow IPC file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadArrowError {
    /// It could not be mapped.
    #[error("{source}{}", cause(source))]
    Map {
        /// Why.
        source: MapError,
    },
    /// It does not begin and end as an Arrow IPC file, nor as a stream.
    #[error("{}: not a finished Arrow IPC file ({found})", path.display())]
    NotArrow {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// Its parts contradict each other, or it uses what the decoder does not know.
    #[error("{}: damaged: {found}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, and what was found.
        found: String,
    },
}

/// Returns what the system said, which a map's message leaves to its source.
fn cause(error: &MapError) -> String {
    std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default()
}

impl ReadArrowError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Map { source } => source.hint(),
            Self::NotArrow { .. } => {
                Some("fetch or write the file again; its copy may be incomplete".into())
            }
            Self::Damaged { .. } => Some("fetch or write the file again".into()),
        }
    }
}
