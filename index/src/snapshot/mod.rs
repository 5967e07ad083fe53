//! Files that are mapped and never changed.
//!
//! [`Mapped`] is a file in memory. A [`SectionFile`] is a mapped file of typed, checksummed sections
//! (`.mfi`), written by [`SectionFileWriter`]; docs/index-format.md describes every byte.

mod map;
pub mod sections;

pub use map::{MapError, Mapped};
pub use sections::{
    Element, ElementType, FileHead, FileKind, OpenSectionFileError, Section, SectionError,
    SectionFile, SectionFileWriter, SectionKind, VerifyError, WriteSectionFileError,
};
