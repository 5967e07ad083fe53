//! [`InputError`], [`ReadArrowError`].

use std::io;
use std::path::PathBuf;

use memfold_index::MapError;

use crate::npy::NpyError;
use crate::parquet::ReadParquetError;

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
        "{}: expected Arrow IPC, Parquet or npy, found a file that begins with \"{found}\"",
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
}

impl InputError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io { .. } => None,
            Self::Unknown { .. } => Some("save it with numpy.save or as Parquet".into()),
            Self::Arrow(error) => error.hint(),
            Self::Parquet(error) => error.hint(),
            Self::Npy(error) => error.hint(),
        }
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
