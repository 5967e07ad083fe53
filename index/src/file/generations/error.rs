//! Errors of generations.

use std::io;
use std::path::{Path, PathBuf};

use super::names::FILES_MAX;
use crate::file::sections::REBUILD;
use crate::file::{MapError, SectionFileError};

/// Advice for a place that holds something else.
const MOVE_AWAY: &str = "move it away, or choose another folder with --index-dir";

/// The live generation could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerationError {
    /// Something else has the name of a folder.
    #[error("{}: not a folder", path.display())]
    NotAFolder {
        /// What was found.
        path: PathBuf,
    },
    /// Something else has the name of a file; links are not followed.
    #[error("{}: not a regular file", path.display())]
    NotAFile {
        /// What was found.
        path: PathBuf,
    },
    /// Another version of memfold wrote the manifest.
    #[error("{}: version {}, expected 1 or 2", path.display(), found.escape_debug())]
    ManifestVersion {
        /// The manifest.
        path: PathBuf,
        /// Its version.
        found: String,
    },
    /// The manifest is not what was written.
    #[error("{}: damaged: {found}", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong.
        found: String,
    },
    /// The manifest names a file that is not there.
    #[error("{}: missing, though MANIFEST names it", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A file is not as long as the manifest says.
    #[error("{}: {found} bytes long, expected {expected}", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// The length in the manifest.
        expected: u64,
        /// The length of the file.
        found: u64,
    },
    /// A file begins otherwise than the manifest says.
    #[error("{}: not the file that MANIFEST names: it begins otherwise", path.display())]
    Beginning {
        /// The file.
        path: PathBuf,
    },
    /// A section file is damaged or of another version.
    #[error(transparent)]
    Sections(#[from] SectionFileError),
    /// A file could not be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// Generations came and went faster than one could be opened.
    #[error("{}: no generation lasted long enough to be opened", path.display())]
    Unsettled {
        /// The folder.
        path: PathBuf,
    },
    /// The system refused to read.
    #[error("{action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The folder of generations is a link; others' folders are read through links, not changed.
    #[error("{}: a link to another folder", path.display())]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// Another process writes.
    #[error("{}: held by another writer", path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
    },
    /// No file of a generation has such a name.
    #[error("{}: not a name for a file of a generation", path.display())]
    FileName {
        /// The file.
        path: PathBuf,
    },
    /// A generation without files says nothing.
    #[error("{}: nothing to publish", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// A manifest does not hold as many names.
    #[error("{}: {found} files, at most {FILES_MAX}", path.display())]
    TooManyFiles {
        /// The folder.
        path: PathBuf,
        /// How many there are.
        found: usize,
    },
    /// The generation was replaced or removed meanwhile.
    #[error("{}: no longer there", path.display())]
    Gone {
        /// The folder of the generation.
        path: PathBuf,
    },
    /// Numbers have come to their end.
    #[error("{}: no number is left after {number}", path.display())]
    NumbersSpent {
        /// The folder.
        path: PathBuf,
        /// The highest number in use.
        number: u64,
    },
}

impl GenerationError {
    /// The system refused `action`.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.into(), source }
    }

    /// Tells whether the system refused for this reason.
    pub(super) fn is(&self, kind: io::ErrorKind) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == kind)
    }

    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotAFolder { .. } | Self::NotAFile { .. } => MOVE_AWAY,
            Self::Link { .. } => {
                "name the folder itself with --index-dir, or remove the link: nothing is written or removed through it"
            }
            Self::Locked { .. } => "wait until it has finished; one process writes at a time",
            Self::Gone { .. } => "open the live generation and try again",
            Self::NumbersSpent { .. } => "delete the folder; it is derived, nothing is lost",
            Self::Sections(error) => return error.hint(),
            Self::Map(error) => return error.hint(),
            Self::Unsettled { .. } => "try again when fewer builds run",
            Self::FileName { .. } | Self::TooManyFiles { .. } | Self::Empty { .. } => return None,
            Self::ManifestVersion { .. }
            | Self::Manifest { .. }
            | Self::Missing { .. }
            | Self::Length { .. }
            | Self::Beginning { .. } => REBUILD,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "free some space, or choose another folder with --index-dir"
                }
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "choose a folder that you may read and write with --index-dir"
                }
                // Some network file systems know no locks.
                io::ErrorKind::Unsupported => "choose a folder on a local disk with --index-dir",
                io::ErrorKind::NotFound => "the folder was removed meanwhile; try again",
                _ => return None,
            },
        };
        Some(hint.into())
    }
}
