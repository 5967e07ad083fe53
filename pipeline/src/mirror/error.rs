//! [`MirrorError`]: why an origin cannot be mirrored.

use std::io;
use std::path::PathBuf;

use memfold_store::StoreError;
use memfold_store::brain_db::CreateStoreError;
use memfold_store::origin::OriginError;

use crate::execute::ExecuteError;

/// Why a pull or a publication failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MirrorError {
    /// The origin cannot be read or written.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// The mirror cannot be made.
    #[error(transparent)]
    Create(#[from] CreateStoreError),
    /// The mirror cannot be opened, read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A unit cannot be undone.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// A folder or a lock beside the mirror cannot be made.
    #[error("write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process pulls or publishes.
    #[error("{} is being synchronised by another process", path.display())]
    Locked {
        /// The mirror.
        path: PathBuf,
    },
    /// The file mirrors something else.
    #[error("{} is no mirror of {place}: {found}", path.display())]
    AnotherStore {
        /// The file.
        path: PathBuf,
        /// The origin.
        place: String,
        /// The kind of file found.
        found: String,
    },
    /// The record of a publication cannot be read.
    #[error("the unfinished publication in {} cannot be read: {reason}", path.display())]
    Unreadable {
        /// The mirror.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
}

impl MirrorError {
    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Origin(error) => error.hint(),
            Self::Create(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Execute(error) => error.hint(),
            Self::File { .. } => {
                Some("name a file in a folder that can be written: --mirror PATH".to_owned())
            }
            Self::Locked { .. } => Some("wait until it is done and try again".to_owned()),
            Self::AnotherStore { .. } => Some("name another file: --mirror PATH".to_owned()),
            Self::Unreadable { path, .. } => Some(format!(
                "delete {}: the next pull makes it anew, without its journal",
                path.display()
            )),
        }
    }

    /// Tells whether another process is at work, so that a later try may succeed.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        match self {
            Self::Locked { .. } | Self::Origin(OriginError::Locked { .. }) => true,
            Self::Store(error) | Self::Execute(ExecuteError::Store(error)) => {
                matches!(error, StoreError::LockedByRun { .. })
            }
            _ => false,
        }
    }
}
