//! Generations: a folder in which a new state appears whole or not at all.
//!
//! ```text
//! MANIFEST                       names the live generation; replaced by rename
//! LOCK                           held by the one process that writes a generation
//! gen-000042/index.mfi           the files of a generation, never changed
//! gen-000042/columns.arrow
//! gen-000042/fresh-0001.mfi      sealed fresh rows, numbered without gaps
//! gen-000042/LOCK                held by the one process that seals fresh rows
//! gen-000041/                    the generation before, for readers that have just read MANIFEST
//! gen-000043.pending/            being written, or left behind by a writer that died
//! ```
//!
//! Publishing: files, made durable; their folder, made durable and renamed; the folder above; MANIFEST,
//! written aside, made durable and renamed; the folder above again. The last rename is the moment at which the
//! new generation is live. Whatever stops a writer before leaves names that no MANIFEST holds; the next writer,
//! who alone has the lock, removes them. Readers take no lock and write nothing: they read MANIFEST and map the files
//! it names; where one is gone, MANIFEST has changed, and they read it again.
//!
//! Fresh rows need no MANIFEST: a segment is written aside, made durable and renamed to the next
//! number, where every process finds it with one attempt to open it.
//!
//! All of it is derived: the folder can be deleted at any time.

mod disk;
mod manifest;
mod folder;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

pub use disk::{COLUMNS_FILE, FileMode, INDEX_FILE, SEARCHED_FILE};
pub use folder::{FreshWriter, Generation, GenerationWriter, Generations};

use super::sections::REBUILD;
use super::{MapError, SectionFileError};

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
    /// The manifest is damaged or of another version, or a file is not the one that it names.
    #[error("{}: {found}", path.display())]
    Damaged {
        /// The manifest or the file.
        path: PathBuf,
        /// The damage.
        found: String,
    },
    /// The manifest names a file or a folder that is not there.
    #[error("{}: missing, though MANIFEST names it", .0.display())]
    Missing(PathBuf),
    /// A section file is damaged or of another version.
    #[error(transparent)]
    Sections(#[from] SectionFileError),
    /// A file could not be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// Another process writes.
    #[error("{}: held by another writer", .0.display())]
    Locked(PathBuf),
    /// The generation cannot be published: it has no file, or one with a name that is not allowed.
    #[error("{}: {found}", path.display())]
    Unfit {
        /// The folder or the file.
        path: PathBuf,
        /// The fault.
        found: &'static str,
    },
    /// The generation was replaced or removed meanwhile.
    #[error("{}: no longer there", .0.display())]
    Gone(PathBuf),
    /// The highest number is in use.
    #[error("{}: no number is left after {}", .0.display(), u64::MAX)]
    NumbersSpent(PathBuf),
    /// The system refused.
    #[error("{action} {}", path.display())]
    Io {
        /// The operation.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl GenerationError {
    fn damaged(path: &Path, found: impl Into<String>) -> Self {
        Self::Damaged { path: path.into(), found: found.into() }
    }

    /// The system refused `action`.
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.into(), source }
    }

    /// Tells whether the system refused for this reason.
    fn is(&self, kind: io::ErrorKind) -> bool {
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
            Self::Unfit { .. } => return None,
            Self::Damaged { .. } | Self::Missing(_) => REBUILD,
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
