//! [`FreshSegment`]: rows that came after a generation was built, sealed.
//!
//! | section | numbers |
//! |---|---|
//! | prefix codes, prefix norms | as in `index.mfi`, by whose prefix transform they were made |
//! | vectors | f32, row after row |
//! | ids | u8: each with its length (u32) before it |
//! | text keys, text ids, text id ends | as in `texts.mft`: every row that came, with or without a vector |
//! | watermarks | u8: JSON as in `origin.json` |

use memfold_index::file::{FileHead, FileKind, SectionFile, SectionFileWriter, SectionId};
use memfold_index::flat::{FlatIndex, FlatView, PREFIX_TRANSFORM};
use memfold_index::index_file::OpenIndexFileError;
use memfold_index::{MatrixError, VectorMatrix};
use memfold_simd::Kernels;

use super::SealError;
use super::texts::{NewTextRows, TextRows};
use memfold_store::brain_db::Marks;

/// How far into the store a segment reaches.
const WATERMARKS: SectionId = SectionId::new(10);
/// Vectors of the rows, which no column file holds.
const VECTORS: SectionId = SectionId::new(12);
/// The store's ids of the rows.
const IDS: SectionId = SectionId::new(15);

/// Sealed rows where they lie in a mapped file.
#[derive(Debug, Clone)]
pub struct FreshSegment {
    file: SectionFile,
    ids: Vec<Box<str>>,
    marks: Marks,
}

/// Rows to be sealed.
#[derive(Debug, Default)]
pub(super) struct FreshRows {
    pub(super) ids: Vec<Box<str>>,
    pub(super) vectors: Vec<f32>,
    pub(super) texts: NewTextRows,
    pub(super) marks: Marks,
}

impl FreshSegment {
    /// Reads ids and watermarks; an error says what is wrong with the file.
    pub(super) fn open(file: SectionFile) -> Result<Self, String> {
        let said = |error: &dyn std::error::Error| error.to_string();
        let bytes = file.section::<u8>(IDS).map_err(|error| said(&error))?;
        let rows = file.head().row_count as usize;
        let ids = split(bytes, rows).ok_or("its ids do not fit its rows")?;
        let marks = file.section::<u8>(WATERMARKS).map_err(|error| said(&error))?;
        let marks = serde_json::from_slice(marks).map_err(|error| said(&error))?;
        let segment = Self { ids, marks, file };
        TextRows::open(&segment.file)?;
        segment.matrix().map_err(|error| said(&error))?;
        Ok(segment)
    }

    /// Returns where the store ended.
    pub(super) const fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Returns the rows that came, by their texts.
    pub(super) fn texts(&self) -> Result<TextRows<'_>, String> {
        TextRows::open(&self.file)
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns how many rows came, with or without a vector.
    #[must_use]
    pub fn row_count(&self) -> u64 {
        self.texts().map_or(0, |texts| texts.len() as u64).max(self.len() as u64)
    }

    /// Tells whether there are no rows with a vector.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn id(&self, row: usize) -> &str {
        &self.ids[row]
    }

    pub(super) fn matrix(&self) -> Result<VectorMatrix<'_>, MatrixError> {
        let values = self.file.section::<f32>(VECTORS).unwrap_or_default();
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

    pub(super) fn flat<'a>(
        &'a self,
        transform: &'a [f32],
    ) -> Result<FlatView<'a>, OpenIndexFileError> {
        FlatView::open_rows(&self.file, transform)
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
        let transform = index.section(PREFIX_TRANSFORM).map_err(|e| damaged(&e))?;
        let flat = FlatIndex::encode(&matrix, transform, kernels).map_err(|e| damaged(&e))?;
        let ids = self
            .ids
            .iter()
            .flat_map(|id| [&(id.len() as u32).to_le_bytes(), id.as_bytes()].concat());
        let ids: Vec<u8> = ids.collect();
        let watermarks = serde_json::to_vec(&self.marks).map_err(|error| damaged(&error))?;
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
        let output = flat.write_rows(SectionFileWriter::new(output, head)?)?;
        let output = output.section(VECTORS, &self.vectors)?.section(IDS, &ids)?;
        self.texts.write(output)?.section(WATERMARKS, &watermarks)?.finish()?;
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
