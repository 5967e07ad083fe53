//! Files of the kind fbin: the number of rows and of components, each u32, then all rows.
//!
//! The format is that of the billion-scale benchmarks (big-ann-benchmarks.com).

use std::collections::HashMap;
use std::path::Path;

use super::components::ElementType;
use super::error::{InputError, ReadMatrixError};
use super::matrix::{Layout, MappedMatrix, map_file};

/// Bytes before the rows.
const HEADER_BYTES: usize = 8;

/// Maps the file at `path` and checks its header and length.
pub(super) fn open(path: &Path, element: ElementType) -> Result<MappedMatrix, InputError> {
    let bytes = map_file(path)?;
    let header = |found| ReadMatrixError::Header { path: path.into(), found };
    let Some((&[n0, n1, n2, n3, d0, d1, d2, d3], rows)) = bytes.split_first_chunk() else {
        let found = format!("{} bytes, expected a header of {HEADER_BYTES}", bytes.len());
        return Err(header(found).into());
    };
    let row_count = u32::from_le_bytes([n0, n1, n2, n3]);
    let dim = u32::from_le_bytes([d0, d1, d2, d3]);
    let layout = Layout::checked(row_count.into(), dim.into(), element).map_err(header)?;
    if layout.data_bytes() != rows.len() as u64 {
        return Err(ReadMatrixError::Length {
            path: path.into(),
            found: bytes.len() as u64,
            expected: layout.data_bytes() + HEADER_BYTES as u64,
            rows: layout.rows,
            dim: layout.dim,
        }
        .into());
    }
    Ok(MappedMatrix::new(bytes, HEADER_BYTES, layout, HashMap::new()))
}
