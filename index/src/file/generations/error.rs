//! Errors of generations.

use std::io;
use std::path::{Path, PathBuf};

use crate::file::sections::REBUILD;
use crate::file::{MapError, SectionFileError};

/// The live generation could not be read, or the next one not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenerationError {
    /// Something else has the name of a folder.
    #[error("{}: not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// Something else has the name of a file; links are not followed.
    #[error("{}: not a regular file", .0.display())]
    NotAFile(PathBuf),
    /// The folder of generations is a link; others' folders are read through links, not changed.
    #[error("{}: a link to another folder", .0.display())]
    Link(PathBuf),
    /// Another version of memfold wrote the manifest.
    #[error("{}: version {}, expected 2", path.display(), found.escape_debug())]
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
        /// The damage.
        found: &'static str,
    },
    /// The manifest names a file or a folder that is not there.
    #[error("{}: missing, though MANIFEST names it", .0.display())]
    Missing(PathBuf),
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
    #[error("{}: not the file that MANIFEST names: it begins otherwise", .0.display())]
    Beginning(PathBuf),
    /// A section file is damaged or of another version.
    #[error(transparent)]
    Sections(#[from] SectionFileError),
    /// A file could not be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// Another process writes.
    #[error("{}: held by another writer", .0.display())]
    Locked(PathBuf),
    /// No file of a generation has such a name.
    #[error("{}: not a name for a file of a generation", .0.display())]
    FileName(PathBuf),
    /// A generation has at least one file.
    #[error("{}: nothing to publish", .0.display())]
    Empty(PathBuf),
    /// The generation was replaced or removed meanwhile.
    #[error("{}: no longer there", .0.display())]
    Gone(PathBuf),
    /// The highest number is in use.
    #[error("{}: no number is left after {}", .0.display(), u64::MAX)]
    NumbersSpent(PathBuf),
    /// The system refused.
    #[error("{action} {}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
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
            Self::NotAFolder(_) | Self::NotAFile(_) => {
                "move it away, or choose another folder with --index-dir"
            }
            Self::Link(_) => {
                "name the folder itself with --index-dir, or remove the link: nothing is written or removed through it"
            }
            Self::Locked(_) => "wait until it has finished; one process writes at a time",
            Self::Gone(_) => "open the live generation and try again",
            Self::NumbersSpent(_) => "delete the folder; it is derived, nothing is lost",
            Self::Sections(error) => return error.hint(),
            Self::Map(error) => return error.hint(),
            Self::FileName(_) | Self::Empty(_) => return None,
            Self::ManifestVersion { .. }
            | Self::Manifest { .. }
            | Self::Missing(_)
            | Self::Length { .. }
            | Self::Beginning(_) => REBUILD,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "free some space, or choose another folder with --index-dir"
                }
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "choose a folder that you may read and write with --index-dir"
                }
                // Some network file systems have no locks.
                io::ErrorKind::Unsupported => "choose a folder on a local disk with --index-dir",
                io::ErrorKind::NotFound => "the folder was removed meanwhile; try again",
                _ => return None,
            },
        };
        Some(hint.into())
    }
}
