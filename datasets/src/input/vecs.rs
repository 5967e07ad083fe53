//! [`VecsFile`]: a file of the kind fvecs, each row with its own length before it.
//!
//! The format is that of the TexMex data sets (corpus-texmex.irisa.fr).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_schema::SchemaRef;

use super::components::ElementType;
use super::error::{InputError, ReadMatrixError};
use super::matrix::{Layout, batch_of, map_file};

/// Bytes before each row: its number of components.
const PREFIX_BYTES: usize = 4;

/// A file of the kind fvecs, mapped, as one column `vector`.
#[derive(Debug, Clone)]
pub(crate) struct VecsFile {
    path: PathBuf,
    bytes: Buffer,
    layout: Layout,
    schema: SchemaRef,
}

impl VecsFile {
    /// Maps the file at `path` and checks its first row and its length.
    pub(super) fn open(path: &Path, element: ElementType) -> Result<Self, InputError> {
        let bytes = map_file(path)?;
        let header = |found| ReadMatrixError::Header { path: path.into(), found };
        let Some(&dim) = bytes.first_chunk() else {
            let found = format!("{} bytes, expected at least one row", bytes.len());
            return Err(header(found).into());
        };
        let dim = u32::from_le_bytes(dim);
        let row = Layout::checked(1, dim.into(), element).map_err(header)?;
        let row_bytes = PREFIX_BYTES + row.row_bytes();
        if !bytes.len().is_multiple_of(row_bytes) {
            let found = format!(
                "{} bytes, expected whole rows of {row_bytes} for a dim of {dim}",
                bytes.len()
            );
            return Err(header(found).into());
        }
        let row_count = (bytes.len() / row_bytes) as u64;
        let layout = Layout::checked(row_count, dim.into(), element).map_err(header)?;
        Ok(Self { path: path.into(), bytes, layout, schema: layout.schema(HashMap::new()) })
    }

    pub(crate) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) const fn row_count(&self) -> usize {
        self.layout.rows
    }

    /// Returns all rows in order.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Result<RecordBatch, InputError>> + use<> {
        let (layout, file) = (self.layout, self.clone());
        layout.spans(layout.copied_rows()).map(move |(start, rows)| file.batch(start, rows))
    }

    /// Returns one row.
    pub(crate) fn batch_of_row(&self, row: usize) -> Result<RecordBatch, InputError> {
        self.batch(row, 1)
    }

    /// Copies rows without what stands before each, which must be the dimension.
    fn batch(&self, start: usize, rows: usize) -> Result<RecordBatch, InputError> {
        let Layout { dim, element, .. } = self.layout;
        let row_bytes = self.layout.row_bytes();
        let mut components = MutableBuffer::with_capacity(rows * row_bytes);
        let stored = &self.bytes[start * (PREFIX_BYTES + row_bytes)..];
        for (i, row) in stored.chunks_exact(PREFIX_BYTES + row_bytes).take(rows).enumerate() {
            let (prefix, row_components) = row.split_at(PREFIX_BYTES);
            if *prefix != (dim as u32).to_le_bytes() {
                return Err(self.length_error(start + i, prefix).into());
            }
            components.extend_from_slice(row_components);
        }
        Ok(batch_of(&self.schema, element, components.into()))
    }

    fn length_error(&self, row: usize, prefix: &[u8]) -> ReadMatrixError {
        let found = prefix.first_chunk().map_or(0, |&prefix| u32::from_le_bytes(prefix));
        ReadMatrixError::RowLength {
            path: self.path.clone(),
            row,
            found,
            expected: self.layout.dim,
        }
    }
}
