//! Files of several arrays, of which one holds the vectors: npz, safetensors, and [`pick`], which
//! is for HDF5 too.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use arrow_buffer::Buffer;
use serde::Deserialize;
use serde_json::Value;
use zip::read::ZipFile;
use zip::{CompressionMethod, ZipArchive};

use super::matrix::{Layout, MatrixFile};
use crate::DataError;
use crate::error::{ColumnRole, described};
use crate::input::{Cursor, InputBytes};
use crate::npy::Header;
use crate::vectors::ComponentType;

/// Bytes of the length before a header of safetensors.
pub(super) const TENSOR_PREFIX_BYTES: usize = 8;
/// Longest header of safetensors, as the format says.
pub(super) const TENSOR_HEADER_BYTES_MAX: u64 = 100_000_000;
/// Names of vectors among other arrays; the first that is there counts.
const NAMES: [&str; 6] = ["vector", "vectors", "embedding", "embeddings", "emb", "arr_0"];
/// An array in a file of several.
pub(super) struct Candidate {
    pub(super) name: String,
    /// Whether it has the shape and type of a matrix of vectors.
    pub(super) is_matrix: bool,
    /// Its shape and type, for errors.
    pub(super) summary: String,
}

/// Returns the position of the array called `member`; without a name that of the only one, of the
/// only one that is a matrix, or of the first matrix with a usual name.
pub(super) fn pick(
    bytes: &InputBytes,
    candidates: &[Candidate],
    member: Option<&str>,
) -> Result<usize, DataError> {
    let named = |name: &str| candidates.iter().position(|candidate| candidate.name == name);
    let not_found = |expected| DataError::NoColumn {
        path: bytes.path().into(),
        role: ColumnRole::Array,
        expected,
        found: described(candidates.iter().map(|it| format!("{:?} ({})", it.name, it.summary))),
    };
    if let Some(member) = member {
        return named(member).ok_or_else(|| not_found(format!("{member:?}")));
    }
    if candidates.len() == 1 {
        return Ok(0);
    }
    let matrices: Vec<usize> =
        (0..candidates.len()).filter(|&at| candidates[at].is_matrix).collect();
    if let [only] = matrices[..] {
        return Ok(only);
    }
    let usual = NAMES.iter().filter_map(|name| named(name)).find(|at| matrices.contains(at));
    usual
        .ok_or_else(|| not_found(format!("that is the only matrix, or named {}", NAMES.join(", "))))
}

/// Writes a shape as numpy does.
pub(super) fn shape_text<T: ToString>(sizes: &[T]) -> String {
    let sizes: Vec<String> = sizes.iter().map(T::to_string).collect();
    format!("({})", sizes.join(", "))
}

/// The ending of an array's name.
const EXTENSION: &str = ".npy";
/// Most bytes that a deflated byte stands for: 258 of them take at least two bits.
pub(super) const INFLATED_RATIO_MAX: u64 = 1032;

/// Finds the array called `member`, or the one that holds vectors.
///
/// A compressed array is inflated to a file without a name in `scratch_dir`.
pub(super) fn open_npz(
    bytes: InputBytes,
    member: Option<&str>,
    scratch_dir: &Path,
) -> Result<MatrixFile, DataError> {
    let damaged = |found| DataError::damaged(bytes.path(), found);
    let mut archive = ZipArchive::new(bytes.cursor(0)).map_err(|e| damaged(e.to_string()))?;
    if archive.has_duplicate_names() {
        return Err(damaged("two members have the same name".into()));
    }
    let (mut candidates, mut places) = (Vec::new(), Vec::new());
    for at in 0..archive.len() {
        if let Some(candidate) = candidate(&mut archive, at).map_err(|e| damaged(e.to_string()))? {
            candidates.push(candidate);
            places.push(at);
        }
    }
    let picked = pick(&bytes, &candidates, member)?;
    let name = &candidates[picked].name;
    let damaged = |found: String| damaged(format!("array {name:?}: {found}"));
    let raw = archive.by_index_raw(places[picked]).map_err(|e| damaged(e.to_string()))?;
    if let Some(refused) = refused(&raw) {
        return Err(damaged(refused));
    }
    drop(raw);
    let mut file = archive.by_index(places[picked]).map_err(|e| damaged(e.to_string()))?;
    let (is_stored, length) = (file.compression() == CompressionMethod::Stored, file.size());
    let start = file.data_start().filter(|_| is_stored);
    let array = match start {
        Some(_) => bytes.clone(),
        None => inflated(&mut file, bytes.path(), scratch_dir, &damaged)?,
    };
    drop(file);
    let start = start.unwrap_or(0);
    if start.checked_add(length).is_none_or(|end| end > array.len()) {
        return Err(damaged(format!("{length} bytes at {start} lie outside")));
    }
    let header = Header::read(&mut array.cursor(start).take(length));
    let header = header.and_then(|header| Ok((header.layout()?, header.data_start)));
    let (layout, data_start) = header.map_err(|error| damaged(error.to_string()))?;
    layout.check_bytes(length, data_start).map_err(damaged)?;
    Ok(MatrixFile::new(array, start + data_start, layout, HashMap::new()))
}

/// Describes a member; `None` where it is not an array.
fn candidate(
    archive: &mut ZipArchive<Cursor>,
    at: usize,
) -> Result<Option<Candidate>, zip::result::ZipError> {
    let file = archive.by_index_raw(at)?;
    let Some(name) = file.name()?.strip_suffix(EXTENSION).map(str::to_owned) else {
        return Ok(None);
    };
    let refused = refused(&file);
    drop(file);
    let header = match refused {
        Some(refused) => Err(refused),
        None => {
            let mut file = archive.by_index(at)?;
            Header::read(&mut file).map_err(|error| error.to_string())
        }
    };
    let is_matrix = header.as_ref().is_ok_and(|header| header.layout().is_ok());
    let summary = header.map_or_else(|error| error, |header| header.summary());
    Ok(Some(Candidate { name, is_matrix, summary }))
}

/// Says why a member cannot be read: how it is stored, or lengths that cannot be true.
fn refused<R: Read>(file: &ZipFile<'_, R>) -> Option<String> {
    if file.encrypted() {
        return Some("encrypted, expected plain".into());
    }
    let (compressed, length) = (file.compressed_size(), file.size());
    match file.compression() {
        CompressionMethod::Stored if length != compressed => {
            Some(format!("{compressed} stored bytes that claim to be {length}"))
        }
        CompressionMethod::Deflated if length > compressed.saturating_mul(INFLATED_RATIO_MAX) => {
            Some(format!("{compressed} deflated bytes that claim to be {length}"))
        }
        CompressionMethod::Stored | CompressionMethod::Deflated => None,
        other => Some(format!("compressed with {other}, expected none or deflate")),
    }
}

/// Inflates a member and compares its checksum.
fn inflated(
    file: &mut ZipFile<'_, Cursor>,
    path: &Path,
    scratch_dir: &Path,
    damaged: &dyn Fn(String) -> DataError,
) -> Result<InputBytes, DataError> {
    let scratch = |source| DataError::io(scratch_dir, source);
    let mut to: File = tempfile::tempfile_in(scratch_dir).map_err(scratch)?;
    let length = file.size();
    // One byte more than it claims is read, so that it is noticed.
    match io::copy(&mut file.take(length + 1), &mut to) {
        Ok(found) if found == length => {}
        Ok(found) => {
            return Err(damaged(format!("it inflates to {found} bytes, expected {length}")));
        }
        Err(error) if error.kind() == io::ErrorKind::StorageFull => return Err(scratch(error)),
        Err(error) => return Err(damaged(error.to_string())),
    }
    to.seek(SeekFrom::Start(0)).map_err(scratch)?;
    InputBytes::of_scratch(to, path)
}

/// The entry that is not a tensor.
const METADATA: &str = "__metadata__";
/// The header's entry for a tensor.
#[derive(Debug, Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<u64>,
    /// Bytes after the header.
    data_offsets: [u64; 2],
}

impl Tensor {
    fn layout(&self) -> Result<Layout, String> {
        let name = |component: ComponentType| component.name().to_uppercase();
        let Some(component) = ComponentType::every().find(|it| name(*it) == self.dtype) else {
            let names = ComponentType::every().map(name).collect::<Vec<_>>().join(", ");
            return Err(format!("values of type {:?}, expected one of {names}", self.dtype));
        };
        let [rows, dim] = self.shape[..] else {
            return Err(format!("shape {}, expected (rows, dim)", shape_text(&self.shape)));
        };
        Layout::checked(rows, dim, component)
    }
}

/// Finds the tensor called `member`, or the one that holds vectors.
pub(super) fn open_safetensors(
    bytes: InputBytes,
    member: Option<&str>,
) -> Result<MatrixFile, DataError> {
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
    let damaged = |found| DataError::damaged(&path, format!("tensor {name:?}: {found}"));
    layout.check_bytes(end - start, 0).map_err(damaged)?;
    // The tensor lies inside the file.
    Ok(MatrixFile::new(bytes, data_start + start, layout, metadata))
}

/// Returns the text of the header and where the tensors begin.
fn header_of(bytes: &InputBytes) -> Result<(Buffer, u64), DataError> {
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
