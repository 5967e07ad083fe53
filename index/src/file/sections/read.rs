//! [`SectionFile`]: a mapped section file.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::SectionFileError;
use super::format::{
    BLOCK_BYTES, Element, FileKind, HEADER_BYTES, SECTION_ALIGNMENT, SectionId, checksum,
};
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

/// Writes a section file; holds 64 KiB and 8 bytes for each 64 KiB written.
///
/// Sections stand in the file in the order in which they were written. The header comes last: until then a
/// file begins with zeros, and no reader takes it. A failed step consumes the writer.
///
/// # Examples
/// ```
/// use memfold_index::file::{FileHead, FileKind, SectionFile, SectionFileWriter, SectionId};
///
/// const CODES: SectionId = SectionId::new(3);
/// const LINKS: SectionId = SectionId::new(5);
/// let head = FileHead {
///     kind: FileKind::Index,
///     row_count: 2,
///     node_count: 2,
///     dim: 3,
///     store_identity: [7; 32],
///     parameters: Vec::new(),
/// };
/// let file = SectionFileWriter::new(tempfile::tempfile()?, head)?
///     .section(CODES, &[1_i8, 2, 3, 4, 5, 6])?
///     .chunks(LINKS, [[1_u32], [0]])?
///     .finish()?;
/// let mapped = memfold_index::Mapped::from_file(&file)?;
/// let file = SectionFile::from_mapped(mapped, "example".as_ref(), FileKind::Index)?;
/// assert_eq!(file.section::<u32>(LINKS)?, [1, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SectionFileWriter<W> {
    output: W,
    header: Header,
    checksums: Vec<u64>,
    /// The start of a block that is not full yet.
    block: Vec<u8>,
}

impl<W: Write + Seek> SectionFileWriter<W> {
    /// Begins a file in `output`, which is empty and stands at its beginning.
    ///
    /// # Errors
    /// When the head is out of range or writing fails.
    pub fn new(mut output: W, head: FileHead) -> Result<Self, SectionFileError> {
        if let Some((_, found)) = head.fault() {
            return Err(SectionFileError::Head { found });
        }
        output.write_all(&[0; HEADER_BYTES]).map_err(|e| failed("the header", e))?;
        Ok(Self {
            output,
            header: Header { head, sections: Vec::new(), table_checksum: 0 },
            checksums: Vec::new(),
            block: Vec::with_capacity(BLOCK_BYTES),
        })
    }

    /// Writes a section from one slice.
    ///
    /// # Errors
    /// When there is one of this number already or writing fails.
    pub fn section<T: Element>(
        self,
        id: SectionId,
        values: &[T],
    ) -> Result<Self, SectionFileError> {
        self.chunks(id, [values])
    }

    /// Writes a section from slices or vectors that follow each other; how it is cut leaves no trace.
    ///
    /// # Errors
    /// When there is one of this number already or writing fails.
    pub fn chunks<T: Element, C: AsRef<[T]>>(
        mut self,
        id: SectionId,
        chunks: impl IntoIterator<Item = C>,
    ) -> Result<Self, SectionFileError> {
        if self.header.sections.iter().any(|section| section.id == id) {
            return Err(SectionFileError::Repeated { id });
        }
        let mut section = Section {
            id,
            element: T::TYPE,
            offset: self.header.table_offset(),
            bytes: 0,
            first_block: self.checksums.len() as u64,
        };
        let failed = |source| failed(format!("section {id}"), source);
        for chunk in chunks {
            let bytes = bytemuck::cast_slice(chunk.as_ref());
            self.write(bytes).map_err(failed)?;
            section.bytes += bytes.len() as u64;
        }
        self.end_block().map_err(failed)?;
        self.header.sections.push(section);
        pad(&mut self.output, section.end()).map_err(failed)?;
        Ok(self)
    }

    /// Writes the checksums and the header and returns the output.
    ///
    /// # Errors
    /// When writing fails.
    pub fn finish(mut self) -> Result<W, SectionFileError> {
        // Fixed widths, little-endian: the same bytes as in memory, as for sections.
        let table: &[u8] = bytemuck::cast_slice(&self.checksums);
        self.header.table_checksum = checksum(table);
        self.output.write_all(table).map_err(|e| failed("the checksums", e))?;
        let header = self.header.encode();
        let output = &mut self.output;
        output
            .seek(SeekFrom::Start(0))
            .and_then(|_| output.write_all(&header))
            .and_then(|()| output.flush())
            .map_err(|e| failed("the header", e))?;
        Ok(self.output)
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            // Whole blocks are written from where they are.
            if self.block.is_empty() && bytes.len() >= BLOCK_BYTES {
                let (block, rest) = bytes.split_at(BLOCK_BYTES);
                self.checksums.push(checksum(block));
                self.output.write_all(block)?;
                bytes = rest;
                continue;
            }
            let (part, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.block.len()));
            self.block.extend_from_slice(part);
            if self.block.len() == BLOCK_BYTES {
                self.end_block()?;
            }
            bytes = rest;
        }
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        if !self.block.is_empty() {
            self.checksums.push(checksum(&self.block));
            self.output.write_all(&self.block)?;
            self.block.clear();
        }
        Ok(())
    }
}

/// Fills up to where a next section would begin.
fn pad(output: &mut impl Write, end: u64) -> io::Result<()> {
    let length = end.next_multiple_of(SECTION_ALIGNMENT) - end;
    output.write_all(&[0; SECTION_ALIGNMENT as usize][..length as usize])
}

fn failed(part: impl Into<String>, source: io::Error) -> SectionFileError {
    SectionFileError::Write { part: part.into(), source }
}
