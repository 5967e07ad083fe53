//! [`SectionFile`]: a mapped section file.

use std::path::{Path, PathBuf};

use super::SectionFileError;
use super::format::{BLOCK_BYTES, Element, FileKind, HEADER_BYTES, SectionId, checksum};
use super::header::{FileHead, Header, HeaderFault, Section};
use crate::{Mapped, Progress};

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
    pub fn open(path: &Path, kind: FileKind) -> Result<Self, SectionFileError> {
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
    ) -> Result<Self, SectionFileError> {
        let header = read_header(&bytes, path)?;
        if header.head.kind != kind {
            let found = header.head.kind;
            return Err(SectionFileError::FileKind { path: path.into(), expected: kind, found });
        }
        Ok(Self { path: path.into(), bytes, header })
    }

    /// Returns the name that errors use.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the map of all its bytes.
    #[must_use]
    pub const fn mapped(&self) -> &Mapped {
        &self.bytes
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
    pub fn section<T: Element>(&self, id: SectionId) -> Result<&[T], SectionFileError> {
        let path = || self.path.clone();
        let section =
            self.find(id).ok_or_else(|| SectionFileError::Missing { path: path(), id })?;
        if section.element != T::TYPE {
            let (expected, found) = (T::TYPE, section.element);
            return Err(SectionFileError::Element { path: path(), id, expected, found });
        }
        // Sections begin at multiples of a page and hold whole numbers, so nothing is cut or moved.
        Ok(bytemuck::cast_slice(self.bytes_of(section)))
    }

    /// Returns the values of a section that must have `count` of them.
    ///
    /// # Errors
    /// When there is none of this number, it holds other numbers, or more or fewer.
    pub(crate) fn section_of<T: Element>(
        &self,
        id: SectionId,
        count: u64,
    ) -> Result<&[T], SectionFileError> {
        let values = self.section(id)?;
        let found = values.len() as u64;
        if found != count {
            let path = self.path.clone();
            return Err(SectionFileError::SectionLength { path, id, expected: count, found });
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

fn read_header(bytes: &[u8], path: &Path) -> Result<Header, SectionFileError> {
    let length = |expected| SectionFileError::Length {
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
            SectionFileError::NotSections { path: path.into(), found }
        }
        HeaderFault::Version(found) => SectionFileError::Version { path: path.into(), found },
        HeaderFault::Damaged(offset, found) => {
            SectionFileError::Damaged { path: path.into(), offset, found }
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

/// Blocks between two looks at the wish to stop: 4 MiB.
const BATCH_BLOCKS: usize = 64;

impl SectionFile {
    /// Reads the whole file and compares every block with its checksum; counts blocks as progress.
    ///
    /// # Errors
    /// The first damage in the file, or that the caller asked to stop.
    pub fn verify(&self, progress: &dyn Progress) -> Result<(), SectionFileError> {
        let table_offset = self.header.table_offset();
        let table = &self.bytes[table_offset as usize..];
        if checksum(table) != self.header.table_checksum {
            return Err(SectionFileError::Table { path: self.path.clone(), offset: table_offset });
        }
        let table: &[u64] = bytemuck::cast_slice(table);
        progress.begin("verify", Some(table.len() as u64));
        let verified = self.verify_sections(table, progress);
        progress.end();
        verified
    }

    fn verify_sections(
        &self,
        table: &[u64],
        progress: &dyn Progress,
    ) -> Result<(), SectionFileError> {
        let starts = self.sections().iter().skip(1).map(|section| section.offset);
        let ends = starts.chain([self.header.table_offset()]);
        for (section, next) in self.sections().iter().zip(ends) {
            self.verify_section(section, &table[section.first_block as usize..], progress)?;
            let padding = &self.bytes[section.end() as usize..next as usize];
            if let Some(position) = padding.iter().position(|&byte| byte != 0) {
                let offset = section.end() + position as u64;
                let (path, id) = (self.path.clone(), section.id);
                return Err(SectionFileError::Padding { path, id, offset });
            }
        }
        Ok(())
    }

    fn verify_section(
        &self,
        section: &Section,
        checksums: &[u64],
        progress: &dyn Progress,
    ) -> Result<(), SectionFileError> {
        let blocks = self.bytes_of(section).chunks(BLOCK_BYTES).zip(checksums);
        for (number, (block, &expected)) in blocks.enumerate() {
            if number.is_multiple_of(BATCH_BLOCKS) && progress.cancelled() {
                return Err(SectionFileError::Cancelled);
            }
            if checksum(block) != expected {
                return Err(SectionFileError::Block {
                    path: self.path.clone(),
                    id: section.id,
                    offset: section.offset + (number * BLOCK_BYTES) as u64,
                    bytes: block.len() as u64,
                });
            }
            progress.advance(1);
        }
        Ok(())
    }
}
