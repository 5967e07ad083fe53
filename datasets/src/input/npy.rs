//! npy files of vectors, mapped.

use std::collections::HashMap;
use std::path::Path;

use super::InputError;
use super::matrix::{MappedMatrix, map_file};
use crate::npy::read_layout;

/// Maps the file at `path` and checks its header and length.
pub(super) fn open(path: &Path) -> Result<MappedMatrix, InputError> {
    let bytes = map_file(path)?;
    let (layout, data_start) = read_layout(&mut bytes.as_slice(), bytes.len() as u64, path)?;
    Ok(MappedMatrix::new(bytes, data_start, layout, HashMap::new()))
}
