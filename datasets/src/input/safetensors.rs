//! safetensors files: a header in JSON that says where each tensor lies, then the tensors.
//!
//! The header is taken apart by hand, so that the tensor stays in the map and names that occur
//! twice are noticed. The format is that of huggingface.co/docs/safetensors.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use super::components::ElementType;
use super::error::{InputError, ReadMatrixError};
use super::matrix::{Layout, MappedMatrix, map_file};
use super::pick::{Candidate, NotPicked, pick};

/// Bytes of the header's length.
pub(crate) const PREFIX_BYTES: usize = 8;
/// Longest header, as the format says.
pub(crate) const HEADER_BYTES_MAX: u64 = 100_000_000;
/// The entry that is no tensor.
const METADATA: &str = "__metadata__";
/// Types of tensors that are read, with their names in the header.
const ELEMENT_TYPES: [(&str, ElementType); 8] = [
    ("F16", ElementType::F16),
    ("BF16", ElementType::Bf16),
    ("F32", ElementType::F32),
    ("F64", ElementType::F64),
    ("I8", ElementType::I8),
    ("U8", ElementType::U8),
    ("I32", ElementType::I32),
    ("I64", ElementType::I64),
];

/// The header of a file.
struct Header {
    tensors: Vec<(String, Tensor)>,
    metadata: HashMap<String, String>,
}

/// What the header says about a tensor.
#[derive(serde::Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<u64>,
    /// Bytes after the header.
    data_offsets: [u64; 2],
}

/// Maps the file at `path`, and finds the tensor called `member` or the one that holds vectors.
pub(super) fn open(path: &Path, member: Option<&str>) -> Result<MappedMatrix, InputError> {
    let bytes = map_file(path)?;
    let header_error = |found| ReadMatrixError::Header { path: path.into(), found };
    let damaged = |found| ReadMatrixError::Damaged { path: path.into(), found };
    let (header, data_start) = header_bytes(&bytes).map_err(header_error)?;
    let Header { tensors, metadata } = serde_json::from_slice(header)
        .map_err(|error| header_error(format!("unreadable header: {error}")))?;
    check_places(&tensors, (bytes.len() - data_start) as u64).map_err(damaged)?;
    let candidates: Vec<Candidate> = tensors.iter().map(candidate).collect();
    let at = pick(&candidates, member).map_err(|NotPicked { expected, found }| {
        ReadMatrixError::NoArray { path: path.into(), expected, found }
    })?;
    let (name, tensor) = &tensors[at];
    let layout = tensor.layout();
    let layout = layout.map_err(|found| header_error(format!("tensor {name:?}: {found}")))?;
    let [start, end] = tensor.data_offsets;
    if end - start != layout.data_bytes() {
        let Layout { rows, dim, .. } = layout;
        let (found, expected) = (end - start, layout.data_bytes());
        let found =
            format!("tensor {name:?}: {found} bytes, expected {expected} for {rows} × {dim}");
        return Err(damaged(found).into());
    }
    // The tensor lies inside the file.
    Ok(MappedMatrix::new(bytes, data_start + start as usize, layout, metadata))
}

/// Returns the text of the header and where the tensors begin.
fn header_bytes(bytes: &[u8]) -> Result<(&[u8], usize), String> {
    let Some((&prefix, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(format!(
            "{} bytes, expected the length of a header in {PREFIX_BYTES}",
            bytes.len()
        ));
    };
    let length = u64::from_le_bytes(prefix);
    if length > HEADER_BYTES_MAX {
        return Err(format!("a header of {length} bytes, expected at most {HEADER_BYTES_MAX}"));
    }
    let header = rest.get(..length as usize);
    let header = header.ok_or_else(|| format!("a header of {length} bytes in {}", bytes.len()))?;
    Ok((header, PREFIX_BYTES + header.len()))
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

fn candidate((name, tensor): &(String, Tensor)) -> Candidate {
    let (is_matrix, shape) = (tensor.layout().is_ok(), tensor.shape_text());
    Candidate {
        name: name.clone(),
        is_matrix,
        summary: format!("{shape} of {}", tensor.dtype.escape_debug()),
    }
}

impl Tensor {
    fn layout(&self) -> Result<Layout, String> {
        let Some(&(_, element)) = ELEMENT_TYPES.iter().find(|(name, _)| *name == self.dtype) else {
            let names: Vec<&str> = ELEMENT_TYPES.iter().map(|(name, _)| *name).collect();
            return Err(format!(
                "values of type {:?}, expected one of {}",
                self.dtype,
                names.join(", ")
            ));
        };
        let [rows, dim] = self.shape[..] else {
            return Err(format!("shape {}, expected (rows, dim)", self.shape_text()));
        };
        Layout::checked(rows, dim, element)
    }

    fn shape_text(&self) -> String {
        let sizes: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        format!("({})", sizes.join(", "))
    }
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut header = Header { tensors: Vec::new(), metadata: HashMap::new() };
                let mut names = std::collections::HashSet::new();
                while let Some(name) = map.next_key::<String>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format!("{name:?} occurs twice")));
                    }
                    if name == METADATA {
                        header.metadata = map.next_value()?;
                    } else {
                        header.tensors.push((name, map.next_value()?));
                    }
                }
                Ok(header)
            }
        }

        deserializer.deserialize_map(Entries)
    }
}
