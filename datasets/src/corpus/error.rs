//! [`CorpusError`].

use std::io;
use std::path::PathBuf;

use crate::input::InputError;
use crate::schema::DIM_MAX;
use crate::vector_file::EXPECTED_FORMATS;

/// A corpus could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CorpusError {
    /// There are no files.
    #[error("no input files")]
    NoInputs,
    /// A file that cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A file has no column of the names asked for.
    #[error("{}: no column {expected}, found {found}", path.display())]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// The names asked for.
        expected: String,
        /// The columns of the file with their types.
        found: String,
        /// The option that names another.
        option: &'static str,
    },
    /// A column has a type that its use does not allow.
    #[error("{}: column {column:?} is {found}, expected {expected}", path.display())]
    ColumnType {
        /// The file.
        path: PathBuf,
        /// The column.
        column: Box<str>,
        /// The types that can be read.
        expected: &'static str,
        /// Its type.
        found: String,
        /// The option that names another.
        option: &'static str,
    },
    /// Vectors of no or too many components.
    #[error("{}: vectors of {found} components, expected 1 to {DIM_MAX}", path.display())]
    Dimension {
        /// The file.
        path: PathBuf,
        /// Components of its vectors.
        found: usize,
    },
    /// Two files hold vectors of different lengths.
    #[error(
        "{}: vectors of {found} components, expected {expected} as in {}",
        path.display(),
        first.display()
    )]
    DimensionsDiffer {
        /// The file.
        path: PathBuf,
        /// Components of its vectors.
        found: usize,
        /// The first file with vectors.
        first: PathBuf,
        /// Components of the first file's vectors.
        expected: usize,
    },
    /// Values of two files cannot be ordered among each other.
    #[error(
        "{}: column {column:?} holds {found}, expected {expected} as in {}",
        path.display(),
        first.display()
    )]
    OrderKindsDiffer {
        /// The file.
        path: PathBuf,
        /// The column.
        column: Box<str>,
        /// What it holds there.
        found: &'static str,
        /// The first file.
        first: PathBuf,
        /// What it holds in the first file.
        expected: &'static str,
    },
    /// Rows with vectors are numbered with 32 bits.
    #[error("more than {} rows with vectors", u32::MAX - 1)]
    TooManyRows,
    /// The vectors could not be kept.
    #[error("keep the vectors in {}: {source}", folder.display())]
    Scratch {
        /// The folder.
        folder: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file was written to while it was read.
    #[error("{}: changed while it was read", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl CorpusError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoInputs => Some(format!("name at least one file: {EXPECTED_FORMATS}")),
            Self::Input(error) => error.hint(),
            Self::NoColumn { option, .. } | Self::ColumnType { option, .. } => {
                Some(format!("choose a column with {option}"))
            }
            Self::DimensionsDiffer { .. } => {
                Some("compare files of one embedding model at a time".into())
            }
            Self::OrderKindsDiffer { .. } => {
                Some("write the column with one type in all files".into())
            }
            Self::TooManyRows => Some("compare the files in smaller groups".into()),
            Self::Scratch { .. } => Some("set TMPDIR to a folder with more space".into()),
            Self::Changed { .. } => Some("run again when nobody writes to it".into()),
            Self::Dimension { .. } | Self::Cancelled => None,
        }
    }
}
