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
//! can hold anything, so readers of sections check what they follow.

#[cfg(target_endian = "big")]
compile_error!("sections are mapped as they lie on disk, little-endian; big-endian needs a copy");

mod format;
mod file;
mod error;

pub(crate) use error::REBUILD;
pub use error::{SectionFault, SectionFileError};
pub use file::{SectionFile, SectionFileWriter};
pub use format::{Element, ElementType, FileHead, FileKind, Section, SectionId};
pub(super) use format::{HEADER_BYTES, checksum};

#[cfg(test)]
pub(super) mod tests;
