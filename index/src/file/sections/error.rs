//! Errors of section files.

use std::io;
use std::path::PathBuf;

use super::format::{ElementType, FileKind, SectionId, VERSION};
use crate::file::MapError;

/// Advice for what cannot be used as it is.
pub(crate) const REBUILD: &str =
    "rebuild the index with `memfold index build`; it is derived, nothing is lost";

/// A section file could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SectionFileError {
    /// It could not be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// It begins as another kind of file does.
    #[error("{}: not an index file ({found})", path.display())]
    NotSections {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// Another version of memfold wrote it.
    #[error("{}: format version {found}, expected {VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: u32,
    },
    /// It is whole, but not what belongs here.
    #[error("{}: holds {}, expected {}", path.display(), found.name(), expected.name())]
    FileKind {
        /// The file.
        path: PathBuf,
        /// The kind asked for.
        expected: FileKind,
        /// The kind in the file.
        found: FileKind,
    },
    /// Bytes are missing at the end, or there are more.
    #[error("{}: {found} bytes long, expected {expected}", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// The length that the header gives.
        expected: u64,
        /// The length of the file.
        found: u64,
    },
    /// The header contradicts its checksum or itself.
    #[error("{}: damaged at byte {offset}: {found}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The first byte of what is wrong.
        offset: u64,
        /// What was found.
        found: String,
    },
    /// The file has no such section.
    #[error("{}: no section {id}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The section asked for.
        id: SectionId,
    },
    /// It holds other numbers.
    #[error("{}: section {id} holds {}, expected {}", path.display(), found.name(), expected.name())]
    Element {
        /// The file.
        path: PathBuf,
        /// The section.
        id: SectionId,
        /// The type asked for.
        expected: ElementType,
        /// The type in the file.
        found: ElementType,
    },
    /// It holds more or fewer numbers.
    #[error("{}: section {id} holds {found} values, expected {expected}", path.display())]
    SectionLength {
        /// The file.
        path: PathBuf,
        /// The section.
        id: SectionId,
        /// Values asked for.
        expected: u64,
        /// Values in the file.
        found: u64,
    },
    /// The table of checksums does not fit the header.
    #[error("{}: damaged: checksums from byte {offset} on", path.display())]
    Table {
        /// The file.
        path: PathBuf,
        /// Where the table begins.
        offset: u64,
    },
    /// A block of a section does not fit its checksum.
    #[error("{}: damaged: section {id}, bytes {offset} to {}", path.display(), offset + bytes)]
    Block {
        /// The file.
        path: PathBuf,
        /// The section.
        id: SectionId,
        /// Where the block begins in the file.
        offset: u64,
        /// How long it is.
        bytes: u64,
    },
    /// Something stands where nothing belongs.
    #[error("{}: damaged: byte {offset} behind section {id} is not zero", path.display())]
    Padding {
        /// The file.
        path: PathBuf,
        /// The section before.
        id: SectionId,
        /// The byte.
        offset: u64,
    },
    /// A file of a generation does not fit the checksum in its manifest.
    #[error("{}: damaged: not the bytes that were written", path.display())]
    File {
        /// The file.
        path: PathBuf,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
    /// The head holds what no file may.
    #[error("head of an index file: {found}")]
    Head {
        /// What is out of range.
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

impl SectionFileError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Map(error) => error.hint(),
            Self::Write { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Some("free some space, or choose another folder with --index-dir".into())
            }
            Self::Write { .. } | Self::Head { .. } | Self::Repeated { .. } | Self::Cancelled => {
                None
            }
            _ => Some(REBUILD.into()),
        }
    }
}
