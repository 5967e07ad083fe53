//! [`SectionFileWriter`]: writes a section file.

use std::io::{self, Seek, SeekFrom, Write};

use super::SectionFileError;
use super::format::{BLOCK_BYTES, Element, HEADER_BYTES, SECTION_ALIGNMENT, SectionId, checksum};
use super::header::{FileHead, Header, Section};

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
