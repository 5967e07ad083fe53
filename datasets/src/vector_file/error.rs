//! [`VectorFileError`].

use std::path::PathBuf;

use crate::columns::OpenColumnsError;
use crate::input::InputError;

/// A file of vectors could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorFileError {
    /// A column file that cannot be read.
    #[error(transparent)]
    Columns(#[from] OpenColumnsError),
    /// A file that cannot be read, or of no format that is read here.
    #[error(transparent)]
    Input(#[from] InputError),
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

impl VectorFileError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::Columns(error) => return error.hint(),
            Self::Input(error) => return error.hint(),
            Self::NoVectors { .. } => "name the vectors \"vector\"",
            Self::NullRow { .. } | Self::NotFinite { .. } => "leave such rows out of the file",
            Self::Inexact { .. } => "write the vectors as f32 if they may be rounded",
        };
        Some(advice.into())
    }
}
