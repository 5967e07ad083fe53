//! Why there is no index, or no answer.

use std::io;
use std::path::PathBuf;

use memfold_datasets::DataError;
use memfold_index::Damaged;
use memfold_index::VectorError;
use memfold_index::file::{GenerationError, SectionFileError};
use memfold_index::graph::BuildGraphError;
use memfold_index::graph::verify::VerifyGraphError;
use memfold_index::index_file::OpenIndexFileError;

use super::fresh::ROWS_MAX;
use crate::columns::ColumnsError;
use crate::export::ExportError;
use memfold_store::StoreError;

pub(super) const REBUILD: &str =
    "run `memfold index build` again; the index is derived and can be deleted";

/// Why there is no index: it was not built, opened, extended or found sound.
///
/// Where a build fails, the index that was live before still is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ExportError),
    /// The columns could not be written, or not be read back.
    #[error(transparent)]
    Columns(#[from] DataError),
    /// The vectors could not be indexed.
    #[error(transparent)]
    IndexBuild(#[from] BuildGraphError),
    /// The file of the index could not be written.
    #[error(transparent)]
    File(#[from] SectionFileError),
    /// The generation could not be published.
    #[error(transparent)]
    Generation(#[from] GenerationError),
    /// A file of the generation could not be written.
    #[error("write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// It lacks a file.
    #[error("{}: generation {generation} has no {name}", folder.display())]
    NoFile {
        /// The folder of generations.
        folder: PathBuf,
        /// Its number.
        generation: u64,
        /// The file's name.
        name: &'static str,
    },
    /// Its origin cannot be read.
    #[error("{}: {reason}", path.display())]
    Origin {
        /// The file.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// Its index cannot be read.
    #[error("{}: {source}", path.display())]
    IndexFile {
        /// The file.
        path: PathBuf,
        /// The defect.
        source: OpenIndexFileError,
    },
    /// Its parts belong to different indexes.
    #[error("{}: {what}", path.display())]
    Mismatch {
        /// The folder of the generation.
        path: PathBuf,
        /// The two parts that do not fit.
        what: String,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Rows were renumbered, or it is another store.
    #[error("the index no longer fits the store")]
    Foreign,
    /// More rows came than a segment takes.
    #[error("more than {ROWS_MAX} rows have come since the index was built")]
    TooMany,
    /// The index turned out to be damaged.
    #[error("{0}")]
    Damaged(String),
    /// Rows of the columns differ from the indexed ones.
    #[error("{}: ids, vectors or text keys are not those that were indexed", path.display())]
    Content {
        /// The folder of the generation.
        path: PathBuf,
    },
    /// The graph does not find its own rows.
    #[error("the graph is not fit to be searched: {0}")]
    Gate(#[from] VerifyGraphError),
    /// Vectors of the store could not be kept.
    #[error(transparent)]
    Scratch(#[from] ColumnsError),
    /// The file could not be read.
    #[error(transparent)]
    Corpus(DataError),
    /// The file could not be examined.
    #[error("{}: {source}", path.display())]
    Look {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// No row has a vector.
    #[error("{}: none of its {rows} rows has a usable vector", path.display())]
    NoVectors {
        /// The file.
        path: PathBuf,
        /// Its rows.
        rows: u64,
    },
    /// The caller cancelled.
    #[error("interrupted")]
    Cancelled,
}

impl IndexError {
    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Corpus(error) => error.hint(),
            Self::Columns(error) => error.hint(),
            Self::Scratch(error) => error.hint(),
            Self::Generation(error) => error.hint(),
            Self::IndexFile { source, .. } => source.hint(),
            Self::File(SectionFileError::Write { .. }) | Self::Write { .. } => Some(
                "check the free space of the folder, or name another one with --index-dir".into(),
            ),
            Self::NoVectors { .. } => {
                Some("choose the column of the vectors with --vector-column NAME".to_owned())
            }
            Self::IndexBuild(_) | Self::Look { .. } | Self::Cancelled => None,
            Self::File(_)
            | Self::NoFile { .. }
            | Self::Origin { .. }
            | Self::Mismatch { .. }
            | Self::Foreign
            | Self::TooMany
            | Self::Damaged(_)
            | Self::Content { .. }
            | Self::Gate(_) => Some(REBUILD.to_owned()),
        }
    }

    /// Tells whether the index is damaged, foreign or full, so that a new generation is the answer.
    #[must_use]
    pub(crate) const fn is_mended_by_a_build(&self) -> bool {
        match self {
            Self::Foreign
            | Self::TooMany
            | Self::Damaged(_)
            | Self::NoFile { .. }
            | Self::Origin { .. }
            | Self::Mismatch { .. }
            | Self::IndexFile { .. }
            | Self::Columns(_) => true,
            Self::Generation(error) => matches!(
                error,
                GenerationError::Damaged { .. }
                    | GenerationError::Missing { .. }
                    | GenerationError::NotAFile { .. }
                    | GenerationError::Sections(_)
                    | GenerationError::Map(_)
            ),
            _ => false,
        }
    }

    /// Tells whether the caller cancelled.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        match self {
            Self::Read(error) => error.is_cancelled(),
            Self::Cancelled
            | Self::IndexBuild(BuildGraphError::Cancelled)
            | Self::File(SectionFileError::Cancelled)
            | Self::Gate(VerifyGraphError::Cancelled)
            | Self::Store(StoreError::Cancelled)
            | Self::Corpus(DataError::Cancelled) => true,
            _ => false,
        }
    }
}

/// Why a search has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The query does not fit the vectors.
    #[error(transparent)]
    Query(#[from] VectorError),
    /// The memory to search by is not there.
    #[error("no live memory {id:?} with a vector of the model that is searched")]
    NoMemory {
        /// Its id.
        id: Box<str>,
    },
    /// No memory has the text to search by.
    #[error("no live memory has this text, and no word of it is known")]
    NoText,
    /// No memory has a vector to compare with.
    #[error("the store has no vectors of model {model:?} with {dim} components")]
    NoVectors {
        /// The model.
        model: Box<str>,
        /// The query's dimension.
        dim: u32,
    },
    /// The caller cancelled.
    #[error("interrupted")]
    Cancelled,
    /// The index turned out to be damaged.
    #[error("{0}")]
    Damaged(String),
    /// The row does not exist.
    #[error("no row {row}: there are {rows}, counted from 0")]
    NoRow {
        /// The requested row.
        row: u64,
        /// The number of rows.
        rows: u64,
    },
    /// The row has no vector.
    #[error("row {row} has no usable vector")]
    NoVector {
        /// The requested row.
        row: u64,
    },
    /// No row has the id.
    #[error("no row with a vector has the id {id:?}")]
    NoId {
        /// The requested id.
        id: Box<str>,
    },
    /// Rows have no ids.
    #[error("the rows have no ids")]
    NoIds,
    /// No row has a vector.
    #[error("none of the {rows} rows has a usable vector")]
    NoRowVectors {
        /// The number of rows.
        rows: u64,
    },
}

impl From<DataError> for SearchError {
    fn from(error: DataError) -> Self {
        Self::damaged(error)
    }
}

impl From<OpenIndexFileError> for SearchError {
    fn from(error: OpenIndexFileError) -> Self {
        Self::damaged(error)
    }
}

impl From<Damaged> for SearchError {
    fn from(error: Damaged) -> Self {
        Self::damaged(error)
    }
}

impl SearchError {
    /// Says that the index turned out to be damaged.
    pub(crate) fn damaged(defect: impl std::fmt::Display) -> Self {
        Self::Damaged(defect.to_string())
    }

    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Query(VectorError::Dimension { .. }) => {
                Some("embed the query with the model of the vectors that are searched".to_owned())
            }
            Self::Query(_) | Self::Cancelled => None,
            Self::NoMemory { .. } => {
                Some("`memfold explain` tells what became of a memory".to_owned())
            }
            Self::NoText => Some(
                "search by another text, or configure who makes vectors (embed.provider; docs/embedding.md)"
                    .to_owned(),
            ),
            Self::NoVectors { .. } => Some(
                "`memfold embed` makes vectors; `memfold doctor` tells why some are left out"
                    .to_owned(),
            ),
            Self::NoIds => Some("name a row by its place with --row N".to_owned()),
            Self::NoRowVectors { .. } => {
                Some("choose the column of the vectors with --vector-column NAME".to_owned())
            }
            Self::NoRow { .. } | Self::NoVector { .. } | Self::NoId { .. } => None,
            Self::Damaged(_) => Some(REBUILD.to_owned()),
        }
    }
}
