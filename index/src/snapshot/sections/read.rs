//! [`SectionFile`]: a mapped section file.

use std::path::{Path, PathBuf};

use super::format::{Element, FileKind, HEADER_BYTES, SectionId, checksum};
use super::header::{FileHead, Header, HeaderFault, Section};
use super::{OpenSectionFileError, SectionError};
use crate::Mapped;

/// A section file in memory; sections are lent from the map.
///
/// Opening checks the header and the length of the file and reads nothing else, so it costs the same for
/// every size. What sections hold is [verified](Self::verify) on demand only; whoever follows a number in a
/// section checks it first.
#[derive(Debug, Clone)]
pub struct SectionFile {
    pub(super) path: PathBuf,
    pub(super) bytes: Mapped,
    pub(super) header: Header,
}

impl SectionFile {
    /// Maps the file at `path`, which must be of this kind.
    ///
    /// # Errors
    /// When it cannot be mapped, is of another kind or version, is cut short or too long, or its header is damaged.
    pub fn open(path: &Path, kind: FileKind) -> Result<Self, OpenSectionFileError> {
        Self::from_mapped(Mapped::open(path)?, path, kind)
    }

    /// Reads a map; `path` is the name that errors use.
    ///
    /// # Errors
    /// When it is of another kind or version, is cut short or too long, or its header is damaged.
    pub fn from_mapped(
        bytes: Mapped,
        path: &Path,
        kind: FileKind,
    ) -> Result<Self, OpenSectionFileError> {
        let header = read_header(&bytes, path)?;
        if header.head.kind != kind {
            let found = header.head.kind;
            return Err(OpenSectionFileError::FileKind {
                path: path.into(),
                expected: kind,
                found,
            });
        }
        Ok(Self { path: path.into(), bytes, header })
    }

    /// Returns the name that errors use.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what the file says of itself.
    #[must_use]
    pub const fn head(&self) -> &FileHead {
        &self.header.head
    }

    /// Returns where its sections lie, in the order of the file.
    #[must_use]
    pub fn sections(&self) -> &[Section] {
        &self.header.sections
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub fn byte_count(&self) -> u64 {
        self.header.file_bytes()
    }

    /// Returns a number that stands for every byte of the file: its header's checksum.
    ///
    /// Equal files have equal fingerprints; that others differ is likely, not certain.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        checksum(&self.bytes[..HEADER_BYTES])
    }

    /// Tells whether the file has a section of this number.
    #[must_use]
    pub fn has(&self, id: SectionId) -> bool {
        self.find(id).is_some()
    }

    /// Returns the values of a section.
    ///
    /// # Errors
    /// When there is none of this number or it holds other numbers.
    pub fn section<T: Element>(&self, id: SectionId) -> Result<&[T], SectionError> {
        let path = || self.path.clone();
        let section = self.find(id).ok_or_else(|| SectionError::Missing { path: path(), id })?;
        if section.element != T::TYPE {
            let (expected, found) = (T::TYPE, section.element);
            return Err(SectionError::Element { path: path(), id, expected, found });
        }
        // Sections begin at multiples of a page and hold whole numbers, so nothing is cut or moved.
        Ok(bytemuck::cast_slice(self.bytes_of(section)))
    }

    /// Returns the values of a section that must have `count` of them.
    ///
    /// # Errors
    /// When there is none of this number, it holds other numbers, or more or fewer.
    pub fn section_of<T: Element>(&self, id: SectionId, count: u64) -> Result<&[T], SectionError> {
        let values = self.section(id)?;
        let found = values.len() as u64;
        if found != count {
            let path = self.path.clone();
            return Err(SectionError::Length { path, id, expected: count, found });
        }
        Ok(values)
    }

    fn find(&self, id: SectionId) -> Option<&Section> {
        self.header.sections.iter().find(|section| section.id == id)
    }

    /// Sections lie inside the file, whose length was compared with the map's.
    pub(super) fn bytes_of(&self, section: &Section) -> &[u8] {
        &self.bytes[section.offset as usize..section.end() as usize]
    }
}

fn read_header(bytes: &[u8], path: &Path) -> Result<Header, OpenSectionFileError> {
    let length = |expected| OpenSectionFileError::Length {
        path: path.into(),
        expected,
        found: bytes.len() as u64,
    };
    let header = match bytes.first_chunk::<HEADER_BYTES>() {
        Some(first) => Header::decode(first),
        None if bytes.starts_with(&super::format::MAGIC) => {
            return Err(length(HEADER_BYTES as u64));
        }
        None => Err(HeaderFault::Magic),
    };
    let header = header.map_err(|fault| match fault {
        HeaderFault::Magic => {
            let found = beginning(bytes);
            OpenSectionFileError::NotSections { path: path.into(), found }
        }
        HeaderFault::Version(found) => OpenSectionFileError::Version { path: path.into(), found },
        HeaderFault::Damaged(offset, found) => {
            OpenSectionFileError::Damaged { path: path.into(), offset, found }
        }
    })?;
    if header.file_bytes() != bytes.len() as u64 {
        return Err(length(header.file_bytes()));
    }
    Ok(header)
}

/// Describes how a file that is not ours begins.
fn beginning(bytes: &[u8]) -> String {
    let first = &bytes[..bytes.len().min(super::format::MAGIC.len())];
    if first.is_empty() {
        "empty".into()
    } else if first.iter().all(|&byte| byte == 0) {
        "begins with zeros, as one does that was never finished".into()
    } else {
        format!("begins with \"{}\"", first.escape_ascii())
    }
}
