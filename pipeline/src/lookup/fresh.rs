//! [`FreshSegment`]: rows that came after a generation was built, sealed.
//!
//! | section | numbers |
//! |---|---|
//! | prefix slab, prefix norms | as in `index.mfi`, by whose prefix transform they were made |
//! | vectors | f32, row after row |
//! | ids | u8: each with its length (u32) before it |
//! | watermarks | u8: JSON as in `origin.json` |

use memfold_index::slab::{PrefixSlab, SlabView};
use memfold_index::snapshot::{FileHead, FileKind, SectionFile, SectionFileWriter, SectionKind};
use memfold_index::tiers::OpenTiersError;
use memfold_index::{MatrixError, VectorMatrix};
use memfold_simd::Kernels;

use super::SealError;
use crate::store::brain_db::Watermark;

/// Sealed rows where they lie in a mapped file.
#[derive(Debug, Clone)]
pub struct FreshSegment {
    file: SectionFile,
    ids: Vec<Box<str>>,
    watermarks: Vec<Watermark>,
}

/// Rows to be sealed.
#[derive(Debug, Default)]
pub(super) struct FreshRows {
    pub(super) ids: Vec<Box<str>>,
    pub(super) vectors: Vec<f32>,
    pub(super) watermarks: Vec<Watermark>,
}

impl FreshSegment {
    /// Reads ids and watermarks; an error says what is wrong with the file.
    pub(super) fn open(file: SectionFile) -> Result<Self, String> {
        let said = |error: &dyn std::error::Error| error.to_string();
        let bytes = file.section::<u8>(SectionKind::Ids).map_err(|error| said(&error))?;
        let rows = file.head().row_count as usize;
        let ids = split(bytes, rows).ok_or("its ids do not fit its rows")?;
        let marks = file.section::<u8>(SectionKind::Watermarks).map_err(|error| said(&error))?;
        let watermarks = serde_json::from_slice(marks).map_err(|error| said(&error))?;
        let segment = Self { ids, watermarks, file };
        segment.matrix().map_err(|error| said(&error))?;
        Ok(segment)
    }

    /// Returns where the store's embeddings ended.
    pub(super) fn watermarks(&self) -> &[Watermark] {
        &self.watermarks
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Tells whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn id(&self, row: usize) -> &str {
        &self.ids[row]
    }

    pub(super) fn matrix(&self) -> Result<VectorMatrix<'_>, MatrixError> {
        let values = self.file.section::<f32>(SectionKind::Vectors).unwrap_or_default();
        let dim = self.file.head().dim as usize;
        let matrix = VectorMatrix::from_slice(values, dim)?;
        match matrix.len() == self.ids.len() {
            true => Ok(matrix),
            false => Err(MatrixError::Chunk {
                chunk: 0,
                found: values.len(),
                expected: self.len() * dim,
            }),
        }
    }

    pub(super) fn slab<'a>(&'a self, transform: &'a [f32]) -> Result<SlabView<'a>, OpenTiersError> {
        SlabView::open_rows(&self.file, transform)
    }
}

impl FreshRows {
    /// Writes a segment, encoded by the transform of the generation.
    pub(super) fn write(
        &self,
        output: std::fs::File,
        (index, kernels): (&SectionFile, &Kernels),
    ) -> Result<(), SealError> {
        let head = index.head();
        let damaged = |error: &dyn std::error::Error| SealError::Damaged(error.to_string());
        let matrix = VectorMatrix::from_slice(&self.vectors, head.dim as usize);
        let matrix = matrix.map_err(|error| damaged(&error))?;
        let transform = index.section(SectionKind::PrefixTransform).map_err(|e| damaged(&e))?;
        let slab = PrefixSlab::encode(&matrix, transform, kernels).map_err(|e| damaged(&e))?;
        let ids = self
            .ids
            .iter()
            .flat_map(|id| [&(id.len() as u32).to_le_bytes(), id.as_bytes()].concat());
        let ids: Vec<u8> = ids.collect();
        let watermarks = serde_json::to_vec(&self.watermarks).map_err(|error| damaged(&error))?;
        // At most 65,536 rows.
        let rows = self.ids.len() as u32;
        let head = FileHead {
            kind: FileKind::Fresh,
            row_count: rows,
            node_count: rows,
            dim: head.dim,
            store_identity: head.store_identity,
            parameters: head.parameters.clone(),
        };
        slab.write_rows(SectionFileWriter::new(output, head)?)?
            .section(SectionKind::Vectors, &self.vectors)?
            .section(SectionKind::Ids, &ids)?
            .section(SectionKind::Watermarks, &watermarks)?
            .finish()?;
        Ok(())
    }
}

/// Splits ids; `None` unless there are as many as rows and nothing else.
fn split(mut bytes: &[u8], rows: usize) -> Option<Vec<Box<str>>> {
    let mut ids = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (id, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        ids.push(std::str::from_utf8(id).ok()?.into());
        bytes = rest;
    }
    (bytes.is_empty() && ids.len() == rows).then_some(ids)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn ids_are_split_or_refused() {
        let bytes = [&[2, 0, 0, 0][..], b"ab", &[0; 4], &[1, 0, 0, 0], b"c"].concat();
        assert_eq!(split(&bytes, 3).unwrap().concat(), "abc");
        assert!(split(&bytes, 2).is_none() && split(&bytes[..bytes.len() - 1], 3).is_none());
        assert!(split(&[255; 4], 1).is_none() && split(&[1, 0, 0, 0, 0xFF], 1).is_none());
        assert!(split(&[], 0).unwrap().is_empty());
    }
}
