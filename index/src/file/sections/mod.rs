//! Section files (`.mfi`): a 4 KiB header, typed sections at multiples of 4 KiB, a table of checksums.
//!
//! The header holds a checksum of itself and of the table, the table holds one of each 64 KiB block of
//! each section, and all padding is zero: so the header's checksum stands for every byte of the file.
//! The same input makes the same bytes; neither a clock, a name nor a machine leaves a trace.
//!
//! Checksums are XXH3 of 64 bits (`twox-hash`, which the join uses already): several times faster than
//! blake3 on one thread, and they guard against accidents, not against people. A file made on purpose
//! can hold anything, so readers of sections check what they follow.

#[cfg(target_endian = "big")]
compile_error!("sections are mapped as they lie on disk, little-endian; big-endian needs a copy");

mod format;
mod header;
mod read;
mod error;

pub(crate) use error::REBUILD;
pub use error::SectionFileError;
pub(super) use format::{Checksum, HEADER_BYTES, checksum};
pub use format::{Element, ElementType, FileKind, SectionId};
pub use header::{FileHead, Section};
pub use read::SectionFile;
pub use read::SectionFileWriter;

#[cfg(test)]
pub(super) mod tests;
