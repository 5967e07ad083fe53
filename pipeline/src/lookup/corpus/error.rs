//! Why the rows of a file are not indexed, or not found.

use std::io;
use std::path::PathBuf;

use memfold_datasets::columns::{OpenColumnsError, WriteColumnsError};
use memfold_datasets::corpus::CorpusError;
use memfold_index::file::WriteGenerationError;
use memfold_index::graph::DamagedGraph;
use memfold_index::index_file::OpenIndexFileError;
use memfold_index::{DamagedFlatIndex, ScanError};

use crate::lookup::BuildIndexError;
use crate::lookup::error::REBUILD;

/// Why an index was not built. The one that was live before still is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildCorpusIndexError {
    /// The file could not be read.
    #[error(transparent)]
    Corpus(#[from] CorpusError),
    /// The file could not be looked at.
    #[error("{}: {source}", path.display())]
    Look {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
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
    /// The generation could not be written.
    #[error(transparent)]
    Index(#[from] BuildIndexError),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl From<WriteGenerationError> for BuildCorpusIndexError {
    fn from(error: WriteGenerationError) -> Self {
        Self::Index(error.into())
    }
}

impl From<WriteColumnsError> for BuildCorpusIndexError {
    fn from(error: WriteColumnsError) -> Self {
        Self::Index(error.into())
    }
}

impl From<OpenColumnsError> for BuildCorpusIndexError {
    fn from(error: OpenColumnsError) -> Self {
        Self::Index(error.into())
    }
}

impl BuildCorpusIndexError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Corpus(error) => error.hint(),
            Self::Index(error) => error.hint(),
            Self::NoVectors { .. } => {
                Some("choose the column of the vectors with --vector-column NAME".to_owned())
            }
            Self::Look { .. } | Self::Cancelled => None,
        }
    }

    /// Tells whether the caller asked to stop.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        match self {
            Self::Cancelled | Self::Corpus(CorpusError::Cancelled) => true,
            Self::Index(error) => error.is_cancelled(),
            _ => false,
        }
    }
}

/// Why a search among rows has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchRowsError {
    /// The query does not fit the vectors.
    #[error(transparent)]
    Query(#[from] ScanError),
    /// There is no such row.
    #[error("no row {row}: there are {rows}, counted from 0")]
    NoRow {
        /// The row asked for.
        row: u64,
        /// How many there are.
        rows: u64,
    },
    /// The row has no vector.
    #[error("row {row} has no usable vector")]
    NoVector {
        /// The row asked for.
        row: u64,
    },
    /// No row has the id.
    #[error("no row with a vector has the id {id:?}")]
    NoId {
        /// The id asked for.
        id: Box<str>,
    },
    /// Rows have no ids.
    #[error("the rows have no ids")]
    NoIds,
    /// No row has a vector.
    #[error("none of the {rows} rows has a usable vector")]
    NoVectors {
        /// How many there are.
        rows: u64,
    },
    /// The index turned out to be damaged.
    #[error("{0}")]
    Damaged(String),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl From<OpenColumnsError> for SearchRowsError {
    fn from(error: OpenColumnsError) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl From<OpenIndexFileError> for SearchRowsError {
    fn from(error: OpenIndexFileError) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl From<DamagedFlatIndex> for SearchRowsError {
    fn from(error: DamagedFlatIndex) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl From<DamagedGraph> for SearchRowsError {
    fn from(error: DamagedGraph) -> Self {
        Self::Damaged(error.to_string())
    }
}

impl SearchRowsError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Query(ScanError::Dimension { .. }) => {
                "embed the query with the model of the file"
            }
            Self::NoIds => "name a row by its place with --row N",
            Self::NoVectors { .. } => "choose the column of the vectors with --vector-column NAME",
            Self::Damaged(_) => REBUILD,
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
