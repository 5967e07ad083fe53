//! Rows of a slab in a section file: written once, mapped and scanned in place.
//!
//! The transform that made them may lie in another file: fresh rows are encoded as those of their generation.

use std::io::{Seek, Write};

use super::{PrefixSlab, SlabView};
use crate::snapshot::{SectionFile, SectionFileWriter, SectionKind, WriteSectionFileError};
use crate::tiers::OpenTiersError;

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
        writer
            .chunks(SectionKind::PrefixSlab, self.codes())?
            .chunks(SectionKind::PrefixNorms, self.norms())
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
            file.section(SectionKind::PrefixSlab)?,
            file.section(SectionKind::PrefixNorms)?,
            (head.row_count as usize, head.dim as usize),
        )?)
    }
}
