//! [`DedupError`]: why pairs did not become clusters.

use std::io;
use std::path::{Path, PathBuf};

/// Why pairs did not become clusters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DedupError {
    /// Pairs that memory should not hold could not be kept on disk.
    #[error("keep pairs in {}: {source}", dir.display())]
    Scratch {
        /// The folder.
        dir: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl DedupError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Scratch { .. } => {
                Some("free some space there, or set TMPDIR to a folder with more".into())
            }
            Self::Cancelled => None,
        }
    }

    /// Tells whether the caller asked to stop.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled)
    }

    /// A refusal of the system to keep records in `dir`; `None`: in memory, which refuses nothing.
    pub(super) fn scratch(dir: Option<&Path>) -> impl Fn(io::Error) -> Self {
        move |source| Self::Scratch { dir: dir.unwrap_or(Path::new("memory")).to_owned(), source }
    }
}
