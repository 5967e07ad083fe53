//! Section files (`.mfi`): a 4 KiB header, typed sections at multiples of 4 KiB, a table of checksums.
//!
//! The header holds a checksum of itself and of the table, the table holds one of each 64 KiB block of
//! each section, and all padding is zero: so the header's checksum stands for every byte of the file.
//! The same input makes the same bytes; neither a clock, a name nor a machine leaves a trace.
//!
//! Integers are unsigned and little-endian unless their type says otherwise. The header:
//!
//! | offset | type | field | rule |
//! |---|---|---|---|
//! | 0 | 8 bytes | magic | `89 4D 46 49 0D 0A 1A 0A` |
//! | 8 | u32 | format version | 1 |
//! | 12 | u32 | [`FileKind`] | |
//! | 16 | u32 | rows | below 4,294,967,295 |
//! | 20 | u32 | nodes (distinct vectors) | at most the rows |
//! | 24 | u32 | dimension | 1 to 65,536 |
//! | 28 | u32 | sections | at most 64 |
//! | 32 | u64 | file length | as found |
//! | 40 | u64 | offset of the checksum table | a multiple of 4,096 |
//! | 48 | u64 | checksums in the table | one per block |
//! | 56 | u64 | checksum of the table | |
//! | 64 | 32 bytes | identity given by the caller | opaque |
//! | 96 | u32 | bytes of parameters | at most 924 |
//! | 100 | 924 bytes | parameters | zero behind the last |
//! | 1,024 | 2,048 bytes | section entries, 32 bytes each | zero behind the last |
//! | 3,072 | 1,016 bytes | unused | zero |
//! | 4,088 | u64 | checksum of bytes 0 to 4,087 | |
//!
//! A section entry: [`SectionId`] (u32, each at most once), [`ElementType`] (u32), offset (u64), length in bytes without
//! padding (u64), number of its first checksum (u64). Lengths alone determine offsets, blocks and the file's length. The
//! header is written last: a file that begins with zeros was never finished. Readers refuse other versions.
//!
//! Checksums are XXH3 of 64 bits (`twox-hash`, which the join uses already): several times faster than
//! blake3 on one thread, and they guard against accidents, not against people. A file made on purpose
//! can hold anything, so readers check numbers before they follow them.

#[cfg(target_endian = "big")]
compile_error!("sections are mapped as they lie on disk, little-endian; big-endian needs a copy");

mod file;

#[cfg(test)]
pub(super) mod tests;

use std::path::{Path, PathBuf};
use std::{fmt, io};

use bytemuck::Pod;
use twox_hash::XxHash3_64;

pub use file::{SectionFile, SectionFileWriter};

use crate::file::MapError;

/// The first bytes of every file; like PNG's they betray transfers that change line ends or drop a bit.
const MAGIC: [u8; 8] = *b"\x89MFI\r\n\x1a\n";
/// The version that this code writes and the only one that it reads.
const VERSION: u32 = 1;
/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 4_096;
/// Sections and the table begin at multiples of this many bytes, a page.
const SECTION_ALIGNMENT: u64 = 4_096;
/// Bytes of a section under one checksum; the last block of a section may be shorter.
const BLOCK_BYTES: usize = 65_536;
/// Most bytes of parameters.
const PARAMETERS_BYTES_MAX: usize = at::SECTIONS - at::PARAMETERS;
/// Most sections of a file.
const SECTIONS_MAX: usize = 64;
/// No section is longer: 2^56 bytes, more than any file system holds, so that sums do not overflow.
const SECTION_BYTES_MAX: u64 = 1 << 56;
/// Most components of a vector, as in column files.
const DIM_MAX: u32 = 65_536;

/// Where fields of the header begin, in bytes.
mod at {
    pub(super) const VERSION: usize = 8;
    pub(super) const FILE_KIND: usize = 12;
    pub(super) const ROW_COUNT: usize = 16;
    pub(super) const NODE_COUNT: usize = 20;
    pub(super) const DIM: usize = 24;
    pub(super) const SECTION_COUNT: usize = 28;
    pub(super) const TABLE_CHECKSUM: usize = 56;
    pub(super) const STORE_IDENTITY: usize = 64;
    pub(super) const PARAMETERS_BYTES: usize = 96;
    pub(super) const PARAMETERS: usize = 100;
    pub(super) const SECTIONS: usize = 1_024;
    pub(super) const CHECKSUM: usize = 4_088;
}

/// Bytes of a section's entry.
const ENTRY_BYTES: usize = 32;

const _: () = assert!(at::SECTIONS + SECTIONS_MAX * ENTRY_BYTES <= at::CHECKSUM);
// Each id stands at most once in a file, so the table of the header holds them all.
const _: () = assert!(SectionId::MAX as usize <= SECTIONS_MAX);

/// Returns the checksum of `bytes`: XXH3 of 64 bits, seed 0.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Defines an enum by its numbers on disk and its names in messages.
macro_rules! numbered {
    (
        $(#[$doc:meta])* $name:ident,
        $($(#[$item_doc:meta])* $item:ident = $number:literal $text:literal,)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$item_doc])* $item = $number,)*
        }

        impl $name {
            fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$item),)*
                    _ => None,
                }
            }

            /// Returns its name in messages.
            const fn name(self) -> &'static str {
                match self {
                    $(Self::$item => $text,)*
                }
            }
        }
    };
}

numbered! {
    /// The purpose of a file.
    FileKind,
    /// The index of a generation.
    Index = 1 "index",
    /// Rows that a generation has not seen.
    Fresh = 2 "fresh rows",
    /// Texts of rows that an index does not hold.
    Texts = 3 "texts",
    /// The state of a store's rows when a run had searched them.
    Searched = 4 "searched rows",
    /// Rows that are joined together.
    Tile = 5 "a tile",
    /// Which tiles there are and which are joined with each other.
    TilePlan = 6 "a plan of tiles",
    /// Near pairs of two tiles.
    TilePairs = 7 "pairs of tiles",
}

numbered! {
    /// The type of a section's numbers.
    ElementType,
    /// Bytes.
    U8 = 1 "u8",
    /// Signed bytes.
    I8 = 2 "i8",
    /// 16 bits.
    U16 = 3 "u16",
    /// 32 bits.
    U32 = 4 "u32",
    /// 32 bits, signed.
    I32 = 5 "i32",
    /// 64 bits.
    U64 = 6 "u64",
    /// 64 bits, signed.
    I64 = 7 "i64",
    /// IEEE 754, 32 bits.
    F32 = 8 "f32",
    /// IEEE 754, 64 bits.
    F64 = 9 "f64",
}

impl ElementType {
    /// Returns the bytes of one number.
    #[must_use]
    pub const fn width(self) -> u64 {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

/// A number that sections hold, little-endian on disk and therefore as it lies in memory.
pub trait Element: Pod + sealed::Sealed {
    /// Its type.
    const TYPE: ElementType;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($number:ty => $element:ident),* $(,)?) => {$(
        impl sealed::Sealed for $number {}
        impl Element for $number {
            const TYPE: ElementType = ElementType::$element;
        }
        const _: () = assert!(ElementType::$element.width() == size_of::<$number>() as u64);
    )*};
}

elements! {
    u8 => U8, i8 => I8, u16 => U16, u32 => U32, i32 => I32, u64 => U64, i64 => I64, f32 => F32, f64 => F64,
}

/// The number of a section; only its writer and its readers know its content.
///
/// A new section takes the next number and raises `SectionId::MAX`; published numbers keep their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SectionId(u32);

impl SectionId {
    /// The largest number of this version of the format.
    pub(crate) const MAX: u32 = 35;

    /// Names a section by its number, 1 to 35.
    ///
    /// # Panics
    /// When the number is out of range: numbers are constants.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        assert!(number >= 1 && number <= Self::MAX, "no section of this format has this number");
        Self(number)
    }
}

impl fmt::Display for SectionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Head of a file: everything but its sections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHead {
    /// The purpose of the file.
    pub kind: FileKind,
    /// Rows that it stands for, below 4,294,967,295.
    pub row_count: u32,
    /// Distinct vectors among them.
    pub node_count: u32,
    /// Components of a vector, 1 to 65,536.
    pub dim: u32,
    /// Which store it was made from; its meaning is the caller's.
    pub store_identity: [u8; 32],
    /// Parameters of the builder, up to 924 bytes, opaque here.
    pub parameters: Vec<u8>,
}

impl FileHead {
    /// Returns the offset of the first field that is out of range, and its value.
    fn fault(&self) -> Option<(u64, String)> {
        let Self { row_count, node_count, dim, parameters, .. } = self;
        let (at, found) = if *row_count == u32::MAX {
            (at::ROW_COUNT, format!("{row_count} rows"))
        } else if node_count > row_count {
            (at::NODE_COUNT, format!("{node_count} nodes of {row_count} rows"))
        } else if !(1..=DIM_MAX).contains(dim) {
            (at::DIM, format!("dimension {dim}"))
        } else if parameters.len() > PARAMETERS_BYTES_MAX {
            (at::PARAMETERS_BYTES, format!("{} bytes of parameters", parameters.len()))
        } else {
            return None;
        };
        Some((at as u64, found))
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
    first_block: u64,
}

impl Section {
    /// Returns its first byte behind the last.
    const fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// A whole header.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Header {
    head: FileHead,
    sections: Vec<Section>,
    table_checksum: u64,
}

impl Header {
    /// Returns where a section that is added, or the table of checksums, begins.
    fn table_offset(&self) -> u64 {
        let end = self.sections.last().map_or(HEADER_BYTES as u64, Section::end);
        end.next_multiple_of(SECTION_ALIGNMENT)
    }

    /// Returns how many checksums the table has.
    fn block_count(&self) -> u64 {
        let blocks = |section: &Section| section.bytes.div_ceil(BLOCK_BYTES as u64);
        self.sections.last().map_or(0, |last| last.first_block + blocks(last))
    }

    /// Returns the length of the file.
    fn file_bytes(&self) -> u64 {
        self.table_offset() + self.block_count() * size_of::<u64>() as u64
    }

    /// Adds a section behind the others.
    fn push(&mut self, id: SectionId, element: ElementType, bytes: u64) {
        let (offset, first_block) = (self.table_offset(), self.block_count());
        self.sections.push(Section { id, element, offset, bytes, first_block });
    }

    fn encode(&self) -> Vec<u8> {
        fn u32s<const N: usize>(numbers: [u32; N]) -> impl Iterator<Item = u8> {
            numbers.into_iter().flat_map(u32::to_le_bytes)
        }
        fn u64s<const N: usize>(numbers: [u64; N]) -> impl Iterator<Item = u8> {
            numbers.into_iter().flat_map(u64::to_le_bytes)
        }
        let FileHead { kind, row_count, node_count, dim, store_identity, parameters } = &self.head;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(u32s([VERSION, *kind as u32, *row_count, *node_count, *dim]));
        bytes.extend(u32s([self.sections.len() as u32]));
        bytes.extend(u64s([self.file_bytes(), self.table_offset()]));
        bytes.extend(u64s([self.block_count(), self.table_checksum]));
        bytes.extend(store_identity);
        bytes.extend(u32s([parameters.len() as u32]));
        bytes.extend(parameters);
        bytes.resize(at::SECTIONS, 0);
        for &Section { id, element, offset, bytes: length, first_block } in &self.sections {
            bytes.extend(u32s([id.0, element as u32]));
            bytes.extend(u64s([offset, length, first_block]));
        }
        bytes.resize(at::CHECKSUM, 0);
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes
    }

    /// Reads a header and checks every byte of it; costs the same for every file.
    fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, SectionFault> {
        let version = u32_at(bytes, at::VERSION);
        if version != VERSION {
            return Err(SectionFault::Version(version));
        }
        let (found, expected) = (u64_at(bytes, at::CHECKSUM), checksum(&bytes[..at::CHECKSUM]));
        if found != expected {
            let found = format!("checksum {found:016x} of the header, expected {expected:016x}");
            return Err(SectionFault::Header(at::CHECKSUM as u64, found));
        }
        let (head, sections) = (decode_head(bytes)?, Vec::new());
        let table_checksum = u64_at(bytes, at::TABLE_CHECKSUM);
        let mut header = Self { head, sections, table_checksum };
        header.decode_sections(bytes)?;
        // One way to write it: this settles offsets, counts, the length of the file and unused bytes.
        match header.encode().iter().zip(bytes).position(|(expected, found)| expected != found) {
            Some(at) => damaged(at, "not what the lengths of the sections give"),
            None => Ok(header),
        }
    }

    fn decode_sections(&mut self, bytes: &[u8]) -> Result<(), SectionFault> {
        let count = u32_at(bytes, at::SECTION_COUNT) as usize;
        if count > SECTIONS_MAX {
            return damaged(at::SECTION_COUNT, format!("{count} sections, at most {SECTIONS_MAX}"));
        }
        for entry in (at::SECTIONS..).step_by(ENTRY_BYTES).take(count) {
            let (id, length) = (u32_at(bytes, entry), u64_at(bytes, entry + 16));
            if !(1..=SectionId::MAX).contains(&id) {
                return damaged(entry, format!("unknown section {id}"));
            }
            let id = SectionId(id);
            if self.sections.iter().any(|earlier| earlier.id == id) {
                return damaged(entry, format!("a second section {id}"));
            }
            let element = u32_at(bytes, entry + 4);
            let Some(element) = ElementType::from_number(element) else {
                return damaged(entry + 4, format!("section {id} of unknown numbers {element}"));
            };
            if length > SECTION_BYTES_MAX || !length.is_multiple_of(element.width()) {
                let name = element.name();
                let found = format!("section {id} of {length} bytes, not a length of {name}");
                return damaged(entry + 16, found);
            }
            self.push(id, element, length);
        }
        Ok(())
    }
}

fn decode_head(bytes: &[u8]) -> Result<FileHead, SectionFault> {
    let kind = u32_at(bytes, at::FILE_KIND);
    let Some(kind) = FileKind::from_number(kind) else {
        return damaged(at::FILE_KIND, format!("unknown kind of file {kind}"));
    };
    let length = u32_at(bytes, at::PARAMETERS_BYTES);
    let Some(parameters) = bytes[at::PARAMETERS..at::SECTIONS].get(..length as usize) else {
        return damaged(at::PARAMETERS_BYTES, format!("{length} bytes of parameters"));
    };
    let head = FileHead {
        kind,
        row_count: u32_at(bytes, at::ROW_COUNT),
        node_count: u32_at(bytes, at::NODE_COUNT),
        dim: u32_at(bytes, at::DIM),
        store_identity: array_at(bytes, at::STORE_IDENTITY),
        parameters: parameters.to_vec(),
    };
    match head.fault() {
        Some((at, found)) => Err(SectionFault::Header(at, found)),
        None => Ok(head),
    }
}

fn damaged<T>(at: usize, found: impl Into<String>) -> Result<T, SectionFault> {
    Err(SectionFault::Header(at as u64, found.into()))
}

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|position| bytes[at + position])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

/// Advice for a file that cannot be used.
pub(crate) const REBUILD: &str =
    "rebuild the index with `memfold index build`; it is derived, nothing is lost";

/// A section file could not be opened, verified or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SectionFileError {
    /// It could not be mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// It is damaged, of another version, or not of the expected kind.
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
        /// The error of the operating system.
        source: io::Error,
    },
}

/// A fault of a section file. Offsets are bytes in the file.
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
    /// The section is missing.
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
