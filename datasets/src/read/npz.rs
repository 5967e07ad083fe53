//! Npz files, which are zip files of npy files: [`open`].

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use zip::read::ZipFile;
use zip::{CompressionMethod, ZipArchive};

use super::arrays::{Candidate, pick};
use super::matrix::{Layout, MatrixFile};
use crate::DataError;
use crate::input::{Cursor, InputBytes};
use crate::npy::Header;

/// The ending of an array's name.
const EXTENSION: &str = ".npy";
/// Most bytes that a deflated byte stands for: 258 of them take at least two bits.
const INFLATED_RATIO_MAX: u64 = 1032;

/// Finds the array called `member`, or the one that holds vectors.
///
/// A compressed array is inflated to a file without a name in `scratch_dir`.
pub(super) fn open(
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
    let expected = data_start + layout.data_bytes();
    if expected != length {
        let Layout { rows, dim, .. } = layout;
        return Err(damaged(format!("{length} bytes, expected {expected} for {rows} × {dim}")));
    }
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

/// Inflates a member, whose checksum is compared.
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
