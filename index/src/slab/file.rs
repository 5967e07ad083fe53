//! A slab in a section file: written once, mapped and scanned in place.
//!
//! The file's parameters are the version of the builder and the numbers of codes of a row in both tests, 32 bits each.

use std::io::{Seek, Write};

use super::{DamagedSlab, PrefixSlab, SlabView};
use crate::snapshot::sections::REBUILD;
use crate::snapshot::{
    FileHead, FileKind, SectionError, SectionFile, SectionFileWriter, SectionKind,
    WriteSectionFileError,
};
use crate::transform::{FINE_CODES, PREFIX_CODES};

/// Counts the changes of the builder that change what it builds.
const BUILDER: u32 = 1;

/// Why a section file is no slab that can be scanned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenSlabError {
    /// A section is missing or of another kind.
    #[error(transparent)]
    Section(#[from] SectionError),
    /// Its sections do not fit each other.
    #[error("the sections of the slab do not fit each other: {0}")]
    Damaged(#[from] DamagedSlab),
    /// The parameters are those of something else.
    #[error("parameters of {found} bytes that are not those of a slab")]
    Parameters {
        /// Bytes found.
        found: usize,
    },
}

impl OpenSlabError {
    /// Returns what to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Section(error) => error.hint(),
            Self::Damaged(_) | Self::Parameters { .. } => Some(REBUILD.into()),
        }
    }
}

impl PrefixSlab {
    /// Writes the slab as a whole section file; its bytes depend on the slab and `store_identity` only.
    ///
    /// # Errors
    /// When the output fails.
    pub fn write<W: Write + Seek>(
        &self,
        output: W,
        store_identity: [u8; 32],
    ) -> Result<W, WriteSectionFileError> {
        let view = self.view();
        // Rows and dimensions of a matrix are numbered with 32 bits.
        let head = FileHead {
            kind: FileKind::Index,
            row_count: view.len() as u32,
            node_count: view.len() as u32,
            dim: view.dim() as u32,
            store_identity,
            parameters: parameters(),
        };
        SectionFileWriter::new(output, head)?
            .section(SectionKind::Transform, self.transform())?
            .chunks(SectionKind::PrefixSlab, self.codes())?
            .chunks(SectionKind::Norms, self.norms())?
            .finish()
    }
}

impl<'a> SlabView<'a> {
    /// Takes the slab of a mapped file in constant time; nothing is copied.
    ///
    /// # Errors
    /// When a section is missing or has another length than the others ask for.
    pub fn open(file: &'a SectionFile) -> Result<Self, OpenSlabError> {
        let head = file.head();
        if head.parameters != parameters() {
            return Err(OpenSlabError::Parameters { found: head.parameters.len() });
        }
        Ok(Self::new(
            file.section(SectionKind::Transform)?,
            file.section(SectionKind::PrefixSlab)?,
            file.section(SectionKind::Norms)?,
            (head.row_count as usize, head.dim as usize),
        )?)
    }
}

fn parameters() -> Vec<u8> {
    let values = [BUILDER, PREFIX_CODES as u32, FINE_CODES as u32];
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
