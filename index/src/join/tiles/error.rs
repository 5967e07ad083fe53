//! [`TileError`]: why tiles gave no pairs.

use std::io;
use std::path::{Path, PathBuf};

use crate::file::{MapError, SectionFileError};
use crate::join::JoinError;

/// Why tiles gave no pairs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TileError {
    /// The vectors cannot be joined, or the caller asked to stop.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// A file of tiles or of the plan is missing, cut short or damaged.
    #[error(transparent)]
    File(SectionFileError),
    /// A file holds something else than was written.
    #[error("{}: {found}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// The pairs of a task are not those of its receipt.
    #[error("{}: {found}", path.display())]
    Pairs {
        /// The file of pairs, or the receipt where that is damaged.
        path: PathBuf,
        /// The receipt.
        receipt: PathBuf,
        /// What was found.
        found: String,
    },
    /// A task has not run yet.
    #[error("{}: no receipt, so the task has not run", path.display())]
    NotRun {
        /// The receipt that is missing.
        path: PathBuf,
    },
    /// The folder holds the tiles of something else.
    #[error("{} holds tiles of {found}, not of {expected}", dir.display())]
    OtherPlan {
        /// The folder.
        dir: PathBuf,
        /// What its plan was made of.
        found: String,
        /// What was asked for.
        expected: String,
    },
    /// The folder holds something that a plan of tiles does not.
    #[error("{} holds {name:?}, which is no part of a plan of tiles", dir.display())]
    OtherFiles {
        /// The folder.
        dir: PathBuf,
        /// The first of them.
        name: String,
    },
    /// Another process joins the tiles of this folder.
    #[error("{} is in use by another run", dir.display())]
    InUse {
        /// The folder.
        dir: PathBuf,
    },
    /// The system refused to read or write.
    #[error("{}: {source}", path.display())]
    System {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

impl TileError {
    pub(super) fn system(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { path: path.to_owned(), source }
    }

    /// An error of a section file at `path`.
    pub(super) fn file(path: &Path) -> impl FnOnce(SectionFileError) -> Self {
        move |error| match error {
            SectionFileError::Write { source, .. } => {
                Self::System { path: path.to_owned(), source }
            }
            SectionFileError::Cancelled => Self::Join(JoinError::Cancelled),
            SectionFileError::Map(MapError::Open { path, source })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                Self::Damaged { path, found: "the file is missing".into() }
            }
            error => Self::File(error),
        }
    }

    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Join(error) => error.hint(),
            Self::File(_) | Self::Damaged { .. } => {
                Some("remove the folder and run again: all in it is derived from the input".into())
            }
            Self::Pairs { receipt, .. } => Some(format!(
                "remove {} and run again: that task alone is repeated",
                receipt.display()
            )),
            Self::NotRun { .. } => Some("run the task, then merge".into()),
            Self::OtherPlan { .. } => {
                Some("name another folder, or remove this one: all in it is derived".into())
            }
            Self::OtherFiles { .. } => {
                Some("name an empty folder, or one that is not there".into())
            }
            Self::InUse { .. } => Some("wait until it has ended, or name another folder".into()),
            Self::System { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space there and run again: finished tasks are kept".into())
            }
            Self::System { source, .. } if source.kind() == io::ErrorKind::FileTooLarge => {
                Some("raise the limit on the size of files (ulimit -f) and run again".into())
            }
            Self::System { .. } => None,
        }
    }

    /// Tells whether the caller asked to stop.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Join(JoinError::Cancelled))
    }
}
