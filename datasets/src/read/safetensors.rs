//! Safetensors files: [`open`].

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::Value;

use super::arrays::{Candidate, pick, shape_text};
use super::format::{TENSOR_HEADER_BYTES_MAX, TENSOR_PREFIX_BYTES};
use super::matrix::{Layout, MatrixFile};
use crate::DataError;
use crate::components::ComponentType;
use crate::input::InputBytes;

/// The entry that is not a tensor.
const METADATA: &str = "__metadata__";
/// Types of tensors that are read, with their names in the header.
const TYPES: [(&str, ComponentType); 8] = [
    ("F16", ComponentType::F16),
    ("BF16", ComponentType::Bf16),
    ("F32", ComponentType::F32),
    ("F64", ComponentType::F64),
    ("I8", ComponentType::I8),
    ("U8", ComponentType::U8),
    ("I32", ComponentType::I32),
    ("I64", ComponentType::I64),
];

/// What the header says about a tensor.
#[derive(Debug, Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<u64>,
    /// Bytes after the header.
    data_offsets: [u64; 2],
}

impl Tensor {
    fn layout(&self) -> Result<Layout, String> {
        let Some(&(_, component)) = TYPES.iter().find(|(name, _)| *name == self.dtype) else {
            let names = TYPES.map(|(name, _)| name).join(", ");
            return Err(format!("values of type {:?}, expected one of {names}", self.dtype));
        };
        let [rows, dim] = self.shape[..] else {
            return Err(format!("shape {}, expected (rows, dim)", shape_text(&self.shape)));
        };
        Layout::checked(rows, dim, component)
    }
}

/// Finds the tensor called `member`, or the one that holds vectors.
pub(super) fn open(bytes: InputBytes, member: Option<&str>) -> Result<MatrixFile, DataError> {
    let path = bytes.path().to_owned();
    let (header, data_start) = header_of(&bytes)?;
    let unreadable =
        |error: serde_json::Error| DataError::format(&path, format!("unreadable header: {error}"));
    let mut entries: BTreeMap<String, Value> =
        serde_json::from_slice(&header).map_err(unreadable)?;
    let metadata: HashMap<String, String> = match entries.remove(METADATA) {
        Some(metadata) => serde_json::from_value(metadata).map_err(unreadable)?,
        None => HashMap::new(),
    };
    let mut tensors = Vec::with_capacity(entries.len());
    for (name, tensor) in entries {
        tensors.push((name, serde_json::from_value::<Tensor>(tensor).map_err(unreadable)?));
    }
    check_places(&tensors, bytes.len() - data_start)
        .map_err(|found| DataError::damaged(&path, found))?;
    let candidates: Vec<Candidate> = tensors
        .iter()
        .map(|(name, tensor)| Candidate {
            name: name.clone(),
            is_matrix: tensor.layout().is_ok(),
            summary: format!("{} of {}", shape_text(&tensor.shape), tensor.dtype.escape_debug()),
        })
        .collect();
    let (name, tensor) = &tensors[pick(&bytes, &candidates, member)?];
    let layout = tensor.layout();
    let layout =
        layout.map_err(|found| DataError::format(&path, format!("tensor {name:?}: {found}")))?;
    let [start, end] = tensor.data_offsets;
    if end - start != layout.data_bytes() {
        let Layout { rows, dim, .. } = layout;
        let (found, expected) = (end - start, layout.data_bytes());
        let found =
            format!("tensor {name:?}: {found} bytes, expected {expected} for {rows} × {dim}");
        return Err(DataError::damaged(&path, found));
    }
    // The tensor lies inside the file.
    Ok(MatrixFile::new(bytes, data_start + start, layout, metadata))
}

/// Returns the text of the header and where the tensors begin.
fn header_of(bytes: &InputBytes) -> Result<(arrow_buffer::Buffer, u64), DataError> {
    let damaged = |found| DataError::damaged(bytes.path(), found);
    let prefix_bytes = TENSOR_PREFIX_BYTES as u64;
    if bytes.len() < prefix_bytes {
        let found = format!("{} bytes, expected the length of a header", bytes.len());
        return Err(damaged(found));
    }
    let prefix = bytes.read(0, TENSOR_PREFIX_BYTES)?;
    let length = prefix.first_chunk().copied().map_or(0, u64::from_le_bytes);
    if length > TENSOR_HEADER_BYTES_MAX || length > bytes.len() - prefix_bytes {
        return Err(damaged(format!("a header of {length} bytes in {}", bytes.len())));
    }
    Ok((bytes.read(prefix_bytes, length as usize)?, prefix_bytes + length))
}

/// Checks that the tensors fill the bytes after the header without gaps, one after another.
fn check_places(tensors: &[(String, Tensor)], length: u64) -> Result<(), String> {
    let mut places: Vec<(u64, u64, &str)> = tensors
        .iter()
        .map(|(name, tensor)| (tensor.data_offsets[0], tensor.data_offsets[1], name.as_str()))
        .collect();
    places.sort_unstable();
    let mut expected_start = 0;
    for (start, end, name) in places {
        let at = |what: &str| format!("tensor {name:?}: bytes {start} to {end} {what}");
        if start > end || end > length {
            return Err(at(&format!("lie outside the {length} after the header")));
        }
        if start != expected_start {
            return Err(at(&format!("where others end at {expected_start}")));
        }
        expected_start = end;
    }
    if expected_start != length {
        return Err(format!("{length} bytes after the header, expected {expected_start}"));
    }
    Ok(())
}
