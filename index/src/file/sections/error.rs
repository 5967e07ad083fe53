//! Errors of section files.

use std::io;
use std::path::{Path, PathBuf};

use super::format::{ElementType, FileKind, SectionId, VERSION};
use crate::file::MapError;

/// Advice for what cannot be used as it is.
pub(crate) const REBUILD: &str =
    "rebuild the index with `memfold index build`; it is derived, nothing is lost";

/// A section file could not be opened, verified or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SectionFileError {
    /// It could not be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// It is damaged, of another version, or not what the reader expects.
    #[error("{}: {fault}", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// The first thing found wrong.
        fault: SectionFault,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
    /// The head holds values that no file may.
    #[error("head of an index file: {found}")]
    Head {
        /// The value out of range.
        found: String,
    },
    /// A file has each section once.
    #[error("a second section {id}")]
    Repeated {
        /// The section.
        id: SectionId,
    },
    /// The system refused to write.
    #[error("write {part}")]
    Write {
        /// The section, or another part of the file.
        part: String,
        /// What the operating system said.
        source: io::Error,
    },
}

/// What is wrong with a section file. Offsets are bytes in the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SectionFault {
    /// It begins as another kind of file does.
    #[error("not an index file ({0})")]
    NotSections(String),
    /// Another version of memfold wrote it.
    #[error("format version {0}, expected {VERSION}")]
    Version(u32),
    /// It is whole, but of the first kind, not of the second.
    #[error("holds {}, expected {}", .0.name(), .1.name())]
    FileKind(FileKind, FileKind),
    /// It has the first number of bytes, not the second.
    #[error("{0} bytes long, expected {1}")]
    Length(u64, u64),
    /// From this byte on the header contradicts its checksum or itself.
    #[error("damaged at byte {0}: {1}")]
    Header(u64, String),
    /// It has no such section.
    #[error("no section {0}")]
    Missing(SectionId),
    /// A section holds numbers of the first type, not of the second.
    #[error("section {} holds {}, expected {}", .0, .1.name(), .2.name())]
    Element(SectionId, ElementType, ElementType),
    /// A section holds the first number of values, not the second.
    #[error("section {0} holds {1} values, expected {2}")]
    SectionLength(SectionId, u64, u64),
    /// The table of checksums, which begins here, does not fit the header.
    #[error("damaged: checksums from byte {0} on")]
    Table(u64),
    /// A block of a section, from one byte to another, does not fit its checksum.
    #[error("damaged: section {0}, bytes {1} to {2}")]
    Block(SectionId, u64, u64),
    /// A byte that pads a section is not zero.
    #[error("damaged: byte {1} behind section {0} is not zero")]
    Padding(SectionId, u64),
    /// A file of a generation does not fit the checksum in its manifest.
    #[error("damaged: not the bytes that were written")]
    Bytes,
}

impl SectionFault {
    pub(crate) fn of(self, path: &Path) -> SectionFileError {
        SectionFileError::Unfit { path: path.into(), fault: self }
    }
}

impl SectionFileError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Map(error) => error.hint(),
            Self::Unfit { .. } => Some(REBUILD.into()),
            Self::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space, or choose another folder with --index-dir".into())
            }
            Self::Write { .. } | Self::Head { .. } | Self::Repeated { .. } | Self::Cancelled => {
                None
            }
        }
    }
}
