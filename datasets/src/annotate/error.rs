//! [`AnnotateError`].

use std::path::PathBuf;

use crate::input::InputError;
use crate::parquet::WriteTableError;

/// The annotated copy could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnnotateError {
    /// The name of the copy tells no format.
    #[error("{}: unknown extension, expected {expected}", path.display())]
    OutputFormat {
        /// The copy.
        path: PathBuf,
        /// Extensions that tell one.
        expected: &'static str,
    },
    /// The copy would replace its own input.
    #[error("{}: the copy would replace an input", path.display())]
    OutputIsInput {
        /// The file.
        path: PathBuf,
    },
    /// An input has a column of a name that is to be added.
    #[error("{}: there is a column {column:?} already", path.display())]
    ColumnExists {
        /// The file.
        path: PathBuf,
        /// The column.
        column: &'static str,
    },
    /// The rows of two inputs do not fit one file.
    #[error("{}: {found}, expected {expected} as in {}", path.display(), first.display())]
    SchemasDiffer {
        /// The file.
        path: PathBuf,
        /// What it has.
        found: String,
        /// The first file.
        first: PathBuf,
        /// What the first file has.
        expected: String,
    },
    /// An input cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// An input was written to since the corpus was read.
    #[error("{}: {found} rows, expected {expected} as when it was read first", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// Rows now.
        found: u64,
        /// Rows before.
        expected: u64,
    },
    /// The copy cannot be written.
    #[error(transparent)]
    Write(#[from] WriteTableError),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl AnnotateError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::OutputFormat { .. } => "name the copy with one of these extensions",
            Self::OutputIsInput { .. } => "give the copy another name",
            Self::ColumnExists { .. } => {
                "rename or drop the column first; it may come from an earlier run"
            }
            Self::SchemasDiffer { .. } => {
                "annotate files of the same columns together, others alone"
            }
            Self::Input(error) => return error.hint(),
            Self::Changed { .. } => "run again when nobody writes to it",
            Self::Write(error) => return error.hint(),
            Self::Cancelled => return None,
        };
        Some(advice.into())
    }
}
