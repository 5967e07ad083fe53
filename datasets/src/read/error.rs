//! Why a file cannot be read.

use std::io;
use std::path::PathBuf;

use memfold_index::MapError;

use crate::parquet::ReadParquetError;

/// The formats that are read, as errors list them.
pub(crate) const EXPECTED_FORMATS: &str = "Arrow IPC, Parquet, npy, npz, safetensors, HDF5, JSON \
     lines, fvecs, ivecs, bvecs, fbin, f16bin, u8bin, i8bin or ibin";

/// What to do about a file of no such format.
pub(crate) const UNKNOWN_FORMAT_HINT: &str = "save it with numpy.save or as Parquet";

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

/// A file of JSON lines could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadJsonlError {
    /// A line is no object, or not like the others.
    #[error("{}: line {line}: {found}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What was found.
        found: String,
    },
}

impl ReadJsonlError {
    /// Returns advice.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Line { .. } => "write one object on each line, with vectors of one length".into(),
        }
    }
}

/// An npy file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpyError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The header is not one that holds vectors.
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
        /// Bytes that the shape needs.
        expected: u64,
        /// Rows in the header.
        rows: usize,
        /// Components in the header.
        dim: usize,
    },
    /// A component is NaN or infinite, or too large for 32 bits.
    #[error("{}: row {row}: component {component} is {value}", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
        /// The component, from 0.
        component: usize,
        /// What it holds.
        value: f32,
    },
    /// What was given to write holds no whole number of rows.
    #[error("{}: {found} values are no whole rows of {dim}", path.display())]
    Ragged {
        /// The file.
        path: PathBuf,
        /// Values given.
        found: usize,
        /// Components of a row.
        dim: usize,
    },
}

impl NpyError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Header { .. } => {
                Some("save it with np.save(path, np.ascontiguousarray(x, dtype='<f4'))".into())
            }
            Self::Length { .. } => Some("the copy is incomplete; fetch the file again".into()),
            _ => None,
        }
    }
}
