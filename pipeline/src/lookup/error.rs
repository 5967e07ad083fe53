//! Why there is no index, or no answer.

use std::path::PathBuf;

use memfold_datasets::columns::ColumnFileError;
use memfold_index::ScanError;
use memfold_index::file::{GenerationError, SectionFileError};
use memfold_index::flat::DamagedFlatIndex;
use memfold_index::graph::DamagedGraph;
use memfold_index::index_file::{BuildIndexFileError, OpenIndexFileError};

use crate::export::ExportError;
use memfold_store::{LoadStoreError, OpenStoreError};

pub(super) const REBUILD: &str =
    "run `memfold index build` again; the index is derived and can be deleted";

/// Why an index was not built. The one that was live before still is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildIndexError {
    /// The store could not be read.
    #[error(transparent)]
    Read(#[from] ExportError),
    /// The columns could not be written, or not be read back.
    #[error(transparent)]
    Columns(#[from] ColumnFileError),
    /// The vectors could not be indexed.
    #[error(transparent)]
    IndexBuild(#[from] BuildIndexFileError),
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
        /// What the operating system said.
        source: std::io::Error,
    },
}

impl From<LoadStoreError> for BuildIndexError {
    fn from(error: LoadStoreError) -> Self {
        Self::Read(error.into())
    }
}

impl From<OpenStoreError> for BuildIndexError {
    fn from(error: OpenStoreError) -> Self {
        LoadStoreError::from(error).into()
    }
}

impl BuildIndexError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read(error) => error.hint(),
            Self::Columns(error) => error.hint(),
            Self::Generation(error) => error.hint(),
            Self::IndexBuild(_) => None,
            Self::File(_) | Self::Write { .. } => Some(
                "check the free space of the folder, or name another one with --index-dir".into(),
            ),
        }
    }

    /// Tells whether the caller asked to stop.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        use memfold_index::graph::BuildGraphError;
        match self {
            Self::Read(error) => error.is_cancelled(),
            Self::IndexBuild(
                BuildIndexFileError::Cancelled
                | BuildIndexFileError::Graph(BuildGraphError::Cancelled),
            ) => true,
            _ => false,
        }
    }
}

/// Why an index cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenIndexError {
    /// The generation cannot be opened.
    #[error(transparent)]
    Generation(#[from] GenerationError),
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
        /// What is wrong with it.
        reason: String,
    },
    /// Its columns cannot be read.
    #[error(transparent)]
    Columns(#[from] ColumnFileError),
    /// Its index cannot be read.
    #[error("{}: {source}", path.display())]
    IndexBuild {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: OpenIndexFileError,
    },
    /// Its parts are those of different indexes.
    #[error("{}: {what}", path.display())]
    Mismatch {
        /// The folder of the generation.
        path: PathBuf,
        /// What does not fit what.
        what: String,
    },
}

impl OpenIndexError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Generation(error) => error.hint(),
            Self::IndexBuild { source, .. } => source.hint(),
            _ => Some(REBUILD.to_owned()),
        }
    }
}

/// Why a search has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] LoadStoreError),
    /// The query does not fit the vectors.
    #[error(transparent)]
    Query(#[from] ScanError),
    /// The memory to search by is not there.
    #[error("no live memory {id:?} with a vector of the model that is searched")]
    NoMemory {
        /// Its id.
        id: Box<str>,
    },
    /// No memory has the text to search by.
    #[error("no live memory has this text, and nobody is configured to make a vector of it")]
    NoText,
    /// No memory has a vector to compare with.
    #[error("the store has no vectors of model {model:?} with {dim} components")]
    NoVectors {
        /// The model.
        model: Box<str>,
        /// The query's dimension.
        dim: u32,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
    /// The index turned out to be damaged.
    #[error("{0}")]
    Damaged(String),
}

impl From<OpenStoreError> for SearchError {
    fn from(error: OpenStoreError) -> Self {
        LoadStoreError::from(error).into()
    }
}

impl From<ColumnFileError> for SearchError {
    fn from(error: ColumnFileError) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl From<DamagedFlatIndex> for SearchError {
    fn from(error: DamagedFlatIndex) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl From<DamagedGraph> for SearchError {
    fn from(error: DamagedGraph) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl SearchError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Query(ScanError::Dimension { .. }) => {
                Some("embed the query with the model of the store".to_owned())
            }
            Self::Query(_) | Self::Cancelled => None,
            Self::NoMemory { .. } => {
                Some("`memfold explain` tells what became of a memory".to_owned())
            }
            Self::NoText => Some(
                "configure who makes vectors (embed.provider; docs/embedding.md), or give --vector"
                    .to_owned(),
            ),
            Self::NoVectors { .. } => Some(
                "`memfold embed` makes vectors; `memfold doctor` tells why some are left out"
                    .to_owned(),
            ),
            Self::Damaged(_) => Some(REBUILD.to_owned()),
        }
    }
}
