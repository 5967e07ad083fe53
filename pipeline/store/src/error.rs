//! [`LoadStoreError`].

use std::path::PathBuf;

use super::OpenStoreError;

/// Why a store could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadStoreError {
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenStoreError),
    /// A table cannot be read to its end.
    #[error("read table {table} of {}: {reason}", path.display())]
    Read {
        /// The store.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// What SQLite says.
        reason: String,
    },
    /// Somebody wrote while the store was read, and the vectors already taken cannot be given back.
    #[error("{} was changed by another process while it was read", path.display())]
    Changed {
        /// The store.
        path: PathBuf,
    },
    /// Memories are numbered with 32 bits.
    #[error("the store holds more than {limit} memories")]
    TooManyRows {
        /// How many can be loaded.
        limit: u32,
    },
    /// The vectors could not be kept.
    #[error("keep the vectors of the store: {0}")]
    Sink(#[source] std::io::Error),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl LoadStoreError {
    /// Returns what the user can do about it, if anything.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Open(error) => error.hint(),
            Self::Read { .. } => Some(
                "run `PRAGMA integrity_check` on the store; if it is damaged, restore a backup"
                    .into(),
            ),
            Self::Changed { .. } => Some("run the command again".into()),
            Self::Sink(_) => Some("check the free space of the folder for temporary files".into()),
            Self::TooManyRows { .. } | Self::Cancelled => None,
        }
    }
}
