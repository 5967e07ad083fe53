//! Files that are mapped and never changed: index files, and the generations they live in.
//!
//! [`Mapped`] is a file in memory. A [`SectionFile`] is a mapped file of typed, checksummed sections
//! (`.mfi`), written by [`SectionFileWriter`]; `sections` describes every byte.
//! [`Generations`] reads a folder of generations, [`GenerationWriter`] publishes a new one whole or
//! not at all, and [`FreshWriter`] adds sealed fresh rows to one that is live.

mod map;
pub(crate) mod sections;
pub mod generations;

pub use generations::{
    FileMode, FreshWriter, Generation, GenerationError, GenerationWriter, Generations,
};
pub use map::{MapError, Mapped};
pub use sections::{
    Element, ElementType, FileHead, FileKind, Section, SectionFault, SectionFile, SectionFileError,
    SectionFileWriter, SectionId,
};
