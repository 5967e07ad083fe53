//! [`VectorFileError`].

use std::io;
use std::path::PathBuf;

use super::format::{EXPECTED_FORMATS, UNKNOWN_FORMAT_HINT};
use crate::columns::OpenColumnsError;
use crate::input::InputError;
use crate::npy::NpyError;
use crate::parquet::ReadParquetError;

/// A file of vectors could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorFileError {
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
    /// A column file that cannot be read.
    #[error(transparent)]
    Columns(#[from] OpenColumnsError),
    /// A Parquet file that cannot be read.
    #[error(transparent)]
    Parquet(#[from] ReadParquetError),
    /// An npy file that cannot be read.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// A file of another format that cannot be read.
    #[error(transparent)]
    Input(InputError),
    /// It has no vectors under the usual names.
    #[error("{}: no vectors named {expected}, found {found}", path.display())]
    NoVectors {
        /// The file.
        path: PathBuf,
        /// The names looked for.
        expected: String,
        /// The columns of the file with their types.
        found: String,
    },
    /// A row has no vector.
    #[error("{}: row {row} is null, expected a vector", path.display())]
    NullRow {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
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
        /// What it holds, as f32.
        value: f32,
    },
    /// An integer that f32 does not hold.
    #[error(
        "{}: row {row}: component {component} is {value}, which f32 cannot hold exactly",
        path.display()
    )]
    Inexact {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
        /// The component, from 0.
        component: usize,
        /// What it holds.
        value: i64,
    },
}

impl From<InputError> for VectorFileError {
    fn from(error: InputError) -> Self {
        match error {
            InputError::Io { path, source } => Self::Io { path, source },
            InputError::Unknown { path, found } => Self::Unknown { path, found },
            InputError::Parquet(error) => Self::Parquet(error),
            InputError::Npy(error) => Self::Npy(error),
            other => Self::Input(other),
        }
    }
}

impl VectorFileError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::Io { .. } => return None,
            Self::Columns(error) => return error.hint(),
            Self::Parquet(error) => return error.hint(),
            Self::Npy(error) => return error.hint(),
            Self::Input(error) => return error.hint(),
            Self::Unknown { .. } => UNKNOWN_FORMAT_HINT,
            Self::NoVectors { .. } => "name the vectors \"vector\"",
            Self::NullRow { .. } | Self::NotFinite { .. } => "leave such rows out of the file",
            Self::Inexact { .. } => "write the vectors as f32 if they may be rounded",
        };
        Some(advice.into())
    }
}
