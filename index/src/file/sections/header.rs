//! The header: 4 KiB that say what the file is and where its sections lie.
//!
//! Lengths determine the layout: sections follow each other in the order of the table, each at the next
//! multiple of 4 KiB. Offsets are stored so that a reader need not know this, and checked against it, so
//! that sections can neither overlap nor leave gaps.

use super::format::{
    CHECKSUM_BYTES, DIM_MAX, ElementType, FileKind, HEADER_BYTES, MAGIC, PARAMETERS_BYTES_MAX,
    SECTION_ALIGNMENT, SECTIONS_MAX, SectionId, VERSION, blocks_of, checksum,
};

/// Where fields begin, in bytes.
mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const VERSION: usize = 8;
    pub(super) const FILE_KIND: usize = 12;
    pub(super) const ROW_COUNT: usize = 16;
    pub(super) const NODE_COUNT: usize = 20;
    pub(super) const DIM: usize = 24;
    pub(super) const SECTION_COUNT: usize = 28;
    pub(super) const FILE_BYTES: usize = 32;
    pub(super) const TABLE_OFFSET: usize = 40;
    pub(super) const BLOCK_COUNT: usize = 48;
    pub(super) const TABLE_CHECKSUM: usize = 56;
    pub(super) const STORE_IDENTITY: usize = 64;
    pub(super) const PARAMETERS_BYTES: usize = 96;
    pub(super) const PARAMETERS: usize = 100;
    pub(super) const SECTIONS: usize = 1_024;
    pub(super) const CHECKSUM: usize = 4_088;
}

/// Bytes of a section's entry.
const ENTRY_BYTES: usize = 32;

const _: () = {
    assert!(at::PARAMETERS + PARAMETERS_BYTES_MAX == at::SECTIONS);
    assert!(at::SECTIONS + SECTIONS_MAX * ENTRY_BYTES <= at::CHECKSUM);
    assert!(at::CHECKSUM + CHECKSUM_BYTES as usize == HEADER_BYTES);
};

/// What a file says of itself besides its sections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHead {
    /// What the file is for.
    pub kind: FileKind,
    /// Rows that it stands for, below 4,294,967,295.
    pub row_count: u32,
    /// Distinct vectors among them.
    pub node_count: u32,
    /// Components of a vector, 1 to 65,536.
    pub dim: u32,
    /// Which store it was made from; its meaning is the caller's.
    pub store_identity: [u8; 32],
    /// What it was made with, up to 924 bytes; their meaning is the caller's.
    pub parameters: Vec<u8>,
}

impl FileHead {
    /// Returns the offset of the first field that is out of range, and what it holds.
    pub(super) fn fault(&self) -> Option<(u64, String)> {
        let fault = |at: usize, found: String| Some((at as u64, found));
        if self.row_count == u32::MAX {
            return fault(at::ROW_COUNT, format!("{} rows", self.row_count));
        }
        if self.node_count > self.row_count {
            let found = format!("{} nodes of {} rows", self.node_count, self.row_count);
            return fault(at::NODE_COUNT, found);
        }
        if self.dim == 0 || self.dim > DIM_MAX {
            return fault(at::DIM, format!("dimension {}", self.dim));
        }
        if self.parameters.len() > PARAMETERS_BYTES_MAX {
            let found = format!("{} bytes of parameters", self.parameters.len());
            return fault(at::PARAMETERS_BYTES, found);
        }
        None
    }
}

/// Where a section lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Its number.
    pub id: SectionId,
    /// The type of its numbers.
    pub element: ElementType,
    /// Its first byte in the file.
    pub offset: u64,
    /// Its bytes, without padding.
    pub bytes: u64,
    /// Its first checksum in the table.
    pub first_block: u64,
}

impl Section {
    /// Returns its first byte behind the last.
    pub(super) const fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// A whole header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) head: FileHead,
    pub(super) sections: Vec<Section>,
    pub(super) table_checksum: u64,
}

/// Why bytes are no header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeaderFault {
    Magic,
    Version(u32),
    /// Something does not fit, at this byte.
    Damaged(u64, String),
}

impl Header {
    /// Returns where the table of checksums begins.
    pub(super) fn table_offset(&self) -> u64 {
        let end = self.sections.last().map_or(HEADER_BYTES as u64, Section::end);
        end.next_multiple_of(SECTION_ALIGNMENT)
    }

    /// Returns how many checksums the table has.
    pub(super) fn block_count(&self) -> u64 {
        self.sections.last().map_or(0, |last| last.first_block + blocks_of(last.bytes))
    }

    /// Returns the length of the file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.table_offset() + self.block_count() * CHECKSUM_BYTES
    }

    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        let head = &self.head;
        put(at::MAGIC, &MAGIC);
        put(at::VERSION, &VERSION.to_le_bytes());
        put(at::FILE_KIND, &head.kind.number().to_le_bytes());
        put(at::ROW_COUNT, &head.row_count.to_le_bytes());
        put(at::NODE_COUNT, &head.node_count.to_le_bytes());
        put(at::DIM, &head.dim.to_le_bytes());
        put(at::SECTION_COUNT, &(self.sections.len() as u32).to_le_bytes());
        put(at::FILE_BYTES, &self.file_bytes().to_le_bytes());
        put(at::TABLE_OFFSET, &self.table_offset().to_le_bytes());
        put(at::BLOCK_COUNT, &self.block_count().to_le_bytes());
        put(at::TABLE_CHECKSUM, &self.table_checksum.to_le_bytes());
        put(at::STORE_IDENTITY, &head.store_identity);
        put(at::PARAMETERS_BYTES, &(head.parameters.len() as u32).to_le_bytes());
        put(at::PARAMETERS, &head.parameters);
        for (number, section) in self.sections.iter().enumerate() {
            let entry = at::SECTIONS + number * ENTRY_BYTES;
            put(entry, &section.id.number().to_le_bytes());
            put(entry + 4, &section.element.number().to_le_bytes());
            put(entry + 8, &section.offset.to_le_bytes());
            put(entry + 16, &section.bytes.to_le_bytes());
            put(entry + 24, &section.first_block.to_le_bytes());
        }
        let sum = checksum(&bytes[..at::CHECKSUM]);
        bytes[at::CHECKSUM..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a header and checks every field of it; costs the same for every file.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, HeaderFault> {
        if bytes[..MAGIC.len()] != MAGIC {
            return Err(HeaderFault::Magic);
        }
        let version = u32_at(bytes, at::VERSION);
        if version != VERSION {
            return Err(HeaderFault::Version(version));
        }
        let (found, expected) = (u64_at(bytes, at::CHECKSUM), checksum(&bytes[..at::CHECKSUM]));
        if found != expected {
            let found = format!("checksum {found:016x} of the header, expected {expected:016x}");
            return damaged(at::CHECKSUM, found);
        }
        let header = Self {
            head: decode_head(bytes)?,
            sections: decode_sections(bytes)?,
            table_checksum: u64_at(bytes, at::TABLE_CHECKSUM),
        };
        header.check_table(bytes)?;
        // What is left are fields that no version uses yet.
        let spare = at::SECTIONS + header.sections.len() * ENTRY_BYTES..at::CHECKSUM;
        let parameters = at::PARAMETERS + header.head.parameters.len()..at::SECTIONS;
        for at in spare.chain(parameters) {
            if bytes[at] != 0 {
                return damaged(at, format!("{} in an unused byte", bytes[at]));
            }
        }
        Ok(header)
    }

    fn check_table(&self, bytes: &[u8]) -> Result<(), HeaderFault> {
        let fields = [
            (at::TABLE_OFFSET, self.table_offset(), "table of checksums at byte"),
            (at::BLOCK_COUNT, self.block_count(), "count of checksums"),
            (at::FILE_BYTES, self.file_bytes(), "length of the file"),
        ];
        for (at, expected, what) in fields {
            let found = u64_at(bytes, at);
            if found != expected {
                return damaged(at, format!("{what} {found}, expected {expected}"));
            }
        }
        Ok(())
    }
}

fn decode_head(bytes: &[u8]) -> Result<FileHead, HeaderFault> {
    let number = u32_at(bytes, at::FILE_KIND);
    let Some(kind) = FileKind::from_number(number) else {
        return damaged(at::FILE_KIND, format!("unknown kind of file {number}"));
    };
    let length = u32_at(bytes, at::PARAMETERS_BYTES);
    // A length beyond the field is cut here and refused below.
    let parameters = &bytes[at::PARAMETERS..at::SECTIONS];
    let Some(parameters) = parameters.get(..length as usize) else {
        return damaged(at::PARAMETERS_BYTES, format!("{length} bytes of parameters"));
    };
    let mut store_identity = [0; 32];
    store_identity.copy_from_slice(&bytes[at::STORE_IDENTITY..at::STORE_IDENTITY + 32]);
    let head = FileHead {
        kind,
        row_count: u32_at(bytes, at::ROW_COUNT),
        node_count: u32_at(bytes, at::NODE_COUNT),
        dim: u32_at(bytes, at::DIM),
        store_identity,
        parameters: parameters.to_vec(),
    };
    match head.fault() {
        Some((at, found)) => Err(HeaderFault::Damaged(at, found)),
        None => Ok(head),
    }
}

fn decode_sections(bytes: &[u8]) -> Result<Vec<Section>, HeaderFault> {
    let count = u32_at(bytes, at::SECTION_COUNT) as usize;
    if count > SECTIONS_MAX {
        return damaged(at::SECTION_COUNT, format!("{count} sections, at most {SECTIONS_MAX}"));
    }
    let mut sections: Vec<Section> = Vec::with_capacity(count);
    let (mut offset, mut first_block) = (HEADER_BYTES as u64, 0);
    for number in 0..count {
        let entry = at::SECTIONS + number * ENTRY_BYTES;
        let section = decode_section(bytes, entry)?;
        let id = section.id;
        if sections.iter().any(|earlier| earlier.id == section.id) {
            return damaged(entry, format!("a second section {id}"));
        }
        if section.offset != offset {
            let found = format!("section {id} at byte {}, expected {offset}", section.offset);
            return damaged(entry + 8, found);
        }
        if section.first_block != first_block {
            let found = format!(
                "section {id} with checksums from {}, expected {first_block}",
                section.first_block
            );
            return damaged(entry + 24, found);
        }
        offset = section.end().next_multiple_of(SECTION_ALIGNMENT);
        first_block += blocks_of(section.bytes);
        sections.push(section);
    }
    Ok(sections)
}

fn decode_section(bytes: &[u8], entry: usize) -> Result<Section, HeaderFault> {
    let number = u32_at(bytes, entry);
    let Some(id) = SectionId::from_number(number) else {
        return damaged(entry, format!("unknown section {number}"));
    };
    let number = u32_at(bytes, entry + 4);
    let Some(element) = ElementType::from_number(number) else {
        return damaged(entry + 4, format!("section {id} of unknown numbers {number}"));
    };
    let section = Section {
        id,
        element,
        offset: u64_at(bytes, entry + 8),
        bytes: u64_at(bytes, entry + 16),
        first_block: u64_at(bytes, entry + 24),
    };
    // Sums of lengths below this, over all sections, stay far from the end of 64 bits.
    let whole = section.bytes.is_multiple_of(element.width());
    if section.bytes > SECTION_BYTES_MAX || !whole {
        let found =
            format!("section {id} of {} bytes, not a length of {}", section.bytes, element.name());
        return damaged(entry + 16, found);
    }
    Ok(section)
}

/// No section is longer: 2^56 bytes, more than any file system holds.
const SECTION_BYTES_MAX: u64 = 1 << 56;

fn damaged<T>(at: usize, found: String) -> Result<T, HeaderFault> {
    Err(HeaderFault::Damaged(at as u64, found))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}
