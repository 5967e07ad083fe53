//! Rows of a slab in a section file: written once, mapped and scanned in place.
//!
//! The transform that made them may lie in another file: fresh rows are encoded as those of their generation.

use std::io::{Seek, Write};

use super::{PrefixSlab, SlabView};
use crate::snapshot::{SectionFile, SectionFileWriter, SectionId, WriteSectionFileError};
use crate::tiers::OpenTiersError;

/// The section of the middles, directions and steps of the slab's codes.
pub const PREFIX_TRANSFORM: SectionId = SectionId::new(13);
/// The int8 codes of each row that scans read.
const PREFIX_SLAB: SectionId = SectionId::new(2);
/// What scans know about each row beside its codes.
const PREFIX_NORMS: SectionId = SectionId::new(14);

/// Counts the changes of the builder that change what it builds.
pub(crate) const BUILDER: u32 = 1;

impl PrefixSlab {
    /// Adds the sections of the rows, without the transform, to a file of as many rows.
    ///
    /// # Errors
    /// When the output fails.
    pub fn write_rows<W: Write + Seek>(
        &self,
        writer: SectionFileWriter<W>,
    ) -> Result<SectionFileWriter<W>, WriteSectionFileError> {
        writer.chunks(PREFIX_SLAB, self.codes())?.chunks(PREFIX_NORMS, self.norms())
    }
}

impl<'a> SlabView<'a> {
    /// Takes the rows of a mapped file in constant time, with the numbers of the transform that made them.
    ///
    /// # Errors
    /// When a section is missing or has another length than the others ask for.
    pub fn open_rows(file: &'a SectionFile, transform: &'a [f32]) -> Result<Self, OpenTiersError> {
        let head = file.head();
        Ok(Self::new(
            transform,
            file.section(PREFIX_SLAB)?,
            file.section(PREFIX_NORMS)?,
            (head.row_count as usize, head.dim as usize),
        )?)
    }
}
