//! Is every byte of a section file as it was written?

use super::format::{BLOCK_BYTES, checksum};
use super::header::Section;
use super::{SectionFile, VerifyError};
use crate::Progress;

/// Blocks between two looks at the wish to stop: 4 MiB.
const BATCH_BLOCKS: usize = 64;

impl SectionFile {
    /// Reads the whole file and compares every block with its checksum; counts blocks as progress.
    ///
    /// # Errors
    /// The first damage in the file, or that the caller asked to stop.
    pub fn verify(&self, progress: &dyn Progress) -> Result<(), VerifyError> {
        let table_offset = self.header.table_offset();
        let table = &self.bytes[table_offset as usize..];
        if checksum(table) != self.header.table_checksum {
            return Err(VerifyError::Table { path: self.path.clone(), offset: table_offset });
        }
        let table: &[u64] = bytemuck::cast_slice(table);
        progress.begin("verify", Some(table.len() as u64));
        let verified = self.verify_sections(table, progress);
        progress.end();
        verified
    }

    fn verify_sections(&self, table: &[u64], progress: &dyn Progress) -> Result<(), VerifyError> {
        let starts = self.sections().iter().skip(1).map(|section| section.offset);
        let ends = starts.chain([self.header.table_offset()]);
        for (section, next) in self.sections().iter().zip(ends) {
            self.verify_section(section, &table[section.first_block as usize..], progress)?;
            let padding = &self.bytes[section.end() as usize..next as usize];
            if let Some(position) = padding.iter().position(|&byte| byte != 0) {
                let offset = section.end() + position as u64;
                let (path, id) = (self.path.clone(), section.id);
                return Err(VerifyError::Padding { path, id, offset });
            }
        }
        Ok(())
    }

    fn verify_section(
        &self,
        section: &Section,
        checksums: &[u64],
        progress: &dyn Progress,
    ) -> Result<(), VerifyError> {
        let blocks = self.bytes_of(section).chunks(BLOCK_BYTES).zip(checksums);
        for (number, (block, &expected)) in blocks.enumerate() {
            if number.is_multiple_of(BATCH_BLOCKS) && progress.cancelled() {
                return Err(VerifyError::Cancelled);
            }
            if checksum(block) != expected {
                return Err(VerifyError::Block {
                    path: self.path.clone(),
                    id: section.id,
                    offset: section.offset + (number * BLOCK_BYTES) as u64,
                    bytes: block.len() as u64,
                });
            }
            progress.advance(1);
        }
        Ok(())
    }
}
