//! [`SectionFile`], a mapped section file, and [`SectionFileWriter`], which writes one.

use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::{
    BLOCK_BYTES, Element, FileHead, FileKind, HEADER_BYTES, Header, MAGIC, SECTION_ALIGNMENT,
    Section, SectionFault, SectionFileError, SectionId, checksum,
};
use crate::{Mapped, Progress};

/// Blocks between two looks at the wish to stop: 4 MiB.
const BATCH_BLOCKS: usize = 64;

/// A section file in memory; sections are borrowed from the map.
///
/// Opening checks the header and the length of the file and reads nothing else, so it costs the same for
/// every size. The contents of sections are [verified](Self::verify) on demand only; a reader that follows a
/// number in a section checks it first.
#[derive(Debug, Clone)]
pub struct SectionFile {
    path: PathBuf,
    bytes: Mapped,
    header: Header,
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
        let header = read_header(&bytes, kind).map_err(|fault| fault.of(path))?;
        Ok(Self { path: path.into(), bytes, header })
    }

    /// Returns the name that errors use.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the map of all its bytes.
    pub(crate) const fn mapped(&self) -> &Mapped {
        &self.bytes
    }

    /// Returns the head.
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
    pub(crate) fn byte_count(&self) -> u64 {
        self.header.file_bytes()
    }

    /// Returns a number that stands for every byte of the file: its header's checksum.
    ///
    /// Equal files have equal fingerprints; that others differ is likely, not certain.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        checksum(&self.bytes[..HEADER_BYTES])
    }

    /// Returns the values of a section.
    ///
    /// # Errors
    /// When there is none of this number or it holds other numbers.
    pub fn section<T: Element>(&self, id: SectionId) -> Result<&[T], SectionFileError> {
        let section = self.sections().iter().find(|section| section.id == id);
        let section = section.ok_or_else(|| SectionFault::Missing(id).of(&self.path))?;
        if section.element != T::TYPE {
            return Err(SectionFault::Element(id, section.element, T::TYPE).of(&self.path));
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
        if found == count {
            Ok(values)
        } else {
            Err(SectionFault::SectionLength(id, found, count).of(&self.path))
        }
    }

    /// Sections lie inside the file: its length was compared with the map's.
    fn bytes_of(&self, section: &Section) -> &[u8] {
        &self.bytes[section.offset as usize..section.end() as usize]
    }

    /// Reads the whole file and compares every block with its checksum; counts blocks as progress.
    ///
    /// # Errors
    /// The first damage in the file, or that the caller asked to stop.
    pub fn verify(&self, progress: &dyn Progress) -> Result<(), SectionFileError> {
        let table_offset = self.header.table_offset();
        let table = &self.bytes[table_offset as usize..];
        if checksum(table) != self.header.table_checksum {
            return Err(SectionFault::Table(table_offset).of(&self.path));
        }
        let table: &[u64] = bytemuck::cast_slice(table);
        progress.begin("verify", Some(table.len() as u64));
        let sections = self.sections();
        let ends = sections.iter().skip(1).map(|section| section.offset).chain([table_offset]);
        let verified = sections
            .iter()
            .zip(ends)
            .try_for_each(|(section, end)| self.verify_section(section, end, table, progress));
        progress.end();
        verified
    }

    /// Compares a section with its checksums, and its padding, up to `end`, with zeros.
    fn verify_section(
        &self,
        section: &Section,
        end: u64,
        table: &[u64],
        progress: &dyn Progress,
    ) -> Result<(), SectionFileError> {
        let id = section.id;
        let blocks = self.bytes_of(section).chunks(BLOCK_BYTES);
        for (number, block) in blocks.enumerate() {
            if number.is_multiple_of(BATCH_BLOCKS) && progress.cancelled() {
                return Err(SectionFileError::Cancelled);
            }
            if checksum(block) != table[section.first_block as usize + number] {
                let start = section.offset + (number * BLOCK_BYTES) as u64;
                let end = start + block.len() as u64;
                return Err(SectionFault::Block(id, start, end).of(&self.path));
            }
            progress.advance(1);
        }
        let padding = &self.bytes[section.end() as usize..end as usize];
        match padding.iter().position(|&byte| byte != 0) {
            Some(at) => Err(SectionFault::Padding(id, section.end() + at as u64).of(&self.path)),
            None => Ok(()),
        }
    }
}

fn read_header(bytes: &[u8], kind: FileKind) -> Result<Header, SectionFault> {
    let length = bytes.len() as u64;
    if !bytes.starts_with(&MAGIC) {
        let first = &bytes[..bytes.len().min(MAGIC.len())];
        return Err(SectionFault::NotSections(if first.is_empty() {
            "empty".into()
        } else if first.iter().all(|&byte| byte == 0) {
            "begins with zeros, as one does that was never finished".into()
        } else {
            format!("begins with \"{}\"", first.escape_ascii())
        }));
    }
    let Some(header) = bytes.first_chunk() else {
        return Err(SectionFault::Length(length, HEADER_BYTES as u64));
    };
    let header = Header::decode(header)?;
    if header.file_bytes() != length {
        return Err(SectionFault::Length(length, header.file_bytes()));
    }
    if header.head.kind != kind {
        return Err(SectionFault::FileKind(header.head.kind, kind));
    }
    Ok(header)
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
        let failed = |source| failed(format!("section {id}"), source);
        let mut length = 0;
        for chunk in chunks {
            let bytes = bytemuck::cast_slice(chunk.as_ref());
            self.write(bytes).map_err(failed)?;
            length += bytes.len() as u64;
        }
        self.end_block().map_err(failed)?;
        let end = self.header.table_offset() + length;
        self.header.push(id, T::TYPE, length);
        let padding = (self.header.table_offset() - end) as usize;
        self.output.write_all(&[0; SECTION_ALIGNMENT as usize][..padding]).map_err(failed)?;
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

fn failed(part: impl Into<String>, source: io::Error) -> SectionFileError {
    SectionFileError::Write { part: part.into(), source }
}
