//! [`NpzFile`]: one array of an npz file, which is a zip file of npy files.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_schema::SchemaRef;
use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use zip::read::ZipFile;
use zip::{CompressionMethod, ZipArchive};

use super::ReadError;
use super::matrix::{INFLATED_RATIO_MAX, Layout, MapOwner, MappedMatrix, batch_of, map_file};
use crate::components::ElementType;
use crate::read::npy::{Header, HeaderError};

/// What the name of an array ends with.
const EXTENSION: &str = ".npy";

/// One array of an npz file, mapped, as one column `vector`.
#[derive(Debug, Clone)]
pub(crate) enum NpzFile {
    /// It lies in the file as it is.
    Stored(MappedMatrix),
    Deflated(DeflatedMatrix),
}

/// An array that is inflated while it is read.
#[derive(Debug, Clone)]
pub(crate) struct DeflatedMatrix {
    path: PathBuf,
    member: Member,
    compressed: Buffer,
    layout: Layout,
    schema: SchemaRef,
}

/// A member of the zip file, inside its bytes.
#[derive(Debug, Clone)]
struct Member {
    name: String,
    start: usize,
    compressed_length: usize,
    length: u64,
    crc: u32,
    is_deflated: bool,
    /// Why it cannot be read.
    refused: Option<String>,
}

impl NpzFile {
    /// Maps the file at `path`, finds the array called `member` or the one that holds vectors, and
    /// checks its header against the length that the zip file claims.
    pub(super) fn open(path: &Path, member: Option<&str>) -> Result<Self, ReadError> {
        let bytes = map_file(path)?;
        let damaged = |found| ReadError::Damaged { path: path.into(), found };
        let mut members = members(&bytes).map_err(damaged)?;
        let mut candidates = Vec::with_capacity(members.len());
        let mut headers = Vec::with_capacity(members.len());
        for member in &members {
            let header = member.header(&bytes);
            candidates.push(Candidate {
                name: member.name.clone(),
                is_matrix: header.as_ref().is_ok_and(|header| header.layout().is_ok()),
                summary: header.as_ref().map_or_else(String::clone, Header::summary),
            });
            headers.push(header);
        }
        let at = pick(&candidates, member).map_err(|NotPicked { expected, found }| {
            ReadError::NoArray { path: path.into(), expected, found }
        })?;
        let (member, header) = (members.swap_remove(at), headers.swap_remove(at));
        let layout = header.and_then(|header| Ok((header.layout()?, header.data_start)));
        let (layout, data_start) = layout.map_err(|found| ReadError::Header {
            path: path.into(),
            found: format!("array {:?}: {found}", member.name),
        })?;
        Self::checked(path, bytes, member, (layout, data_start))
    }

    fn checked(
        path: &Path,
        bytes: Buffer,
        member: Member,
        (layout, data_start): (Layout, usize),
    ) -> Result<Self, ReadError> {
        let name = &member.name;
        let expected = data_start as u64 + layout.data_bytes();
        if expected != member.length {
            let Layout { rows, dim, .. } = layout;
            let found = format!(
                "array {name:?}: {} bytes, expected {expected} for {rows} × {dim}",
                member.length
            );
            return Err(ReadError::Damaged { path: path.into(), found });
        }
        if !member.is_deflated {
            let start = member.start + data_start;
            return Ok(Self::Stored(MappedMatrix::new(bytes, start, layout, HashMap::new())));
        }
        let compressed = bytes.slice_with_length(member.start, member.compressed_length);
        let (path, schema) = (path.into(), layout.schema(HashMap::new()));
        Ok(Self::Deflated(DeflatedMatrix { path, member, compressed, layout, schema }))
    }
}

impl DeflatedMatrix {
    pub(crate) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) const fn row_count(&self) -> usize {
        self.layout.rows
    }

    /// Returns all rows in order; after an error there are no more.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Result<RecordBatch, ReadError>> + use<> {
        let mut rows = InflatedRows::new(self.clone());
        std::iter::from_fn(move || rows.next_batch().transpose())
    }

    /// Returns the rows asked for, ascending, each in a batch. Costs inflating all before them.
    pub(crate) fn batches_of_rows(&self, rows: &[usize]) -> Result<Vec<RecordBatch>, ReadError> {
        let (mut taken, mut first_row, mut rows) = (Vec::new(), 0, rows);
        for batch in self.batches() {
            if rows.is_empty() {
                break;
            }
            let batch = batch?;
            let end = first_row + batch.num_rows();
            let (here, later) = rows.split_at(rows.partition_point(|&row| row < end));
            taken.extend(here.iter().map(|row| batch.slice(row - first_row, 1)));
            (first_row, rows) = (end, later);
        }
        Ok(taken)
    }

    fn damaged(&self, found: &str) -> ReadError {
        let found = format!("array {:?}: {found}", self.member.name);
        ReadError::Damaged { path: self.path.clone(), found }
    }
}

/// The rows of an array as they are inflated.
struct InflatedRows {
    matrix: DeflatedMatrix,
    /// The header has been read from it.
    inflater: Option<CountedReader>,
    rows_read: usize,
    is_over: bool,
}

impl InflatedRows {
    const fn new(matrix: DeflatedMatrix) -> Self {
        Self { matrix, inflater: None, rows_read: 0, is_over: false }
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        if self.is_over {
            return Ok(None);
        }
        self.is_over = true;
        let layout = self.matrix.layout;
        let count = layout.copied_rows().min(layout.rows - self.rows_read);
        let read = self.read(count * layout.row_bytes());
        let bytes = read.map_err(|found| self.matrix.damaged(&found))?;
        self.rows_read += count;
        if self.rows_read == layout.rows {
            self.check_end().map_err(|found| self.matrix.damaged(&found))?;
        }
        self.is_over = self.rows_read == layout.rows;
        // Rows of no array are no batch, but its end is checked like any other.
        Ok((count > 0).then(|| batch_of(&self.matrix.schema, layout.element, bytes)))
    }

    fn read(&mut self, count: usize) -> Result<Buffer, String> {
        let inflater = match &mut self.inflater {
            Some(inflater) => inflater,
            none => {
                let mut inflater = CountedReader::new(self.matrix.compressed.clone());
                Header::read(&mut inflater).map_err(|error| header_text(&error))?;
                none.insert(inflater)
            }
        };
        let mut bytes = MutableBuffer::from_len_zeroed(count);
        inflater.read_exact(&mut bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                format!("it ends after {} inflated bytes", inflater.length)
            }
            _ => error.to_string(),
        })?;
        Ok(bytes.into())
    }

    /// Checks that nothing follows, and the checksum of everything before.
    fn check_end(&mut self) -> Result<(), String> {
        let Some(inflater) = &mut self.inflater else { return Ok(()) };
        let length = self.matrix.member.length;
        if inflater.read(&mut [0]).map_err(|error| error.to_string())? > 0 {
            return Err(format!("it inflates to more than the {length} bytes that it claims"));
        }
        if inflater.crc.sum() != self.matrix.member.crc {
            let (found, expected) = (inflater.crc.sum(), self.matrix.member.crc);
            return Err(format!("checksum {found:08x}, expected {expected:08x}"));
        }
        Ok(())
    }
}

/// Inflates bytes, counts them and sums them up.
struct CountedReader {
    inflater: DeflateDecoder<Cursor<MapOwner>>,
    length: u64,
    crc: Crc,
}

impl CountedReader {
    fn new(compressed: Buffer) -> Self {
        let inflater = DeflateDecoder::new(Cursor::new(MapOwner(compressed)));
        Self { inflater, length: 0, crc: Crc::new() }
    }
}

impl Read for CountedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inflater.read(buffer)?;
        self.crc.update(&buffer[..count]);
        self.length += count as u64;
        Ok(count)
    }
}

impl Member {
    /// Reads the header of the array.
    fn header(&self, bytes: &[u8]) -> Result<Header, String> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        let mut bytes = &bytes[self.start..self.start + self.compressed_length];
        let header = if self.is_deflated {
            Header::read(&mut DeflateDecoder::new(bytes))
        } else {
            Header::read(&mut bytes)
        };
        header.map_err(|error| header_text(&error))
    }
}

fn header_text(error: &HeaderError) -> String {
    match error {
        HeaderError::Io(error) => error.to_string(),
        HeaderError::Text(found) => found.clone(),
    }
}

/// Finds the arrays of a zip file; each lies inside its bytes.
fn members(bytes: &[u8]) -> Result<Vec<Member>, String> {
    let unreadable = |error: zip::result::ZipError| error.to_string();
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(unreadable)?;
    if archive.has_duplicate_names() {
        return Err("two members have the same name".into());
    }
    let mut members = Vec::new();
    for at in 0..archive.len() {
        let file = archive.by_index_raw(at).map_err(unreadable)?;
        let name = file.name().map_err(unreadable)?;
        let Some(name) = name.strip_suffix(EXTENSION) else { continue };
        let outside = || format!("array {name:?}: {} bytes lie outside", file.compressed_size());
        let start = file.data_start().and_then(|start| usize::try_from(start).ok());
        let length = usize::try_from(file.compressed_size()).ok();
        let (start, compressed_length) = start.zip(length).ok_or_else(outside)?;
        if start.checked_add(compressed_length).is_none_or(|end| end > bytes.len()) {
            return Err(outside());
        }
        let refused = refused(&file);
        let is_deflated = file.compression() == CompressionMethod::Deflated;
        let (length, crc) = (file.size(), file.crc32());
        let name = name.into();
        let member = Member { name, start, compressed_length, length, crc, is_deflated, refused };
        members.push(member);
    }
    Ok(members)
}

/// Says why a member cannot be read: how it is stored, or lengths that cannot be true.
fn refused<R: Read>(file: &ZipFile<'_, R>) -> Option<String> {
    if file.encrypted() {
        return Some("encrypted, expected plain".into());
    }
    let (compressed_length, length) = (file.compressed_size(), file.size());
    match file.compression() {
        CompressionMethod::Stored if length != compressed_length => {
            Some(format!("{compressed_length} stored bytes that claim to be {length}"))
        }
        CompressionMethod::Deflated
            if length > compressed_length.saturating_mul(INFLATED_RATIO_MAX) =>
        {
            Some(format!("{compressed_length} deflated bytes that claim to be {length}"))
        }
        CompressionMethod::Stored | CompressionMethod::Deflated => None,
        other => Some(format!("compressed with {other}, expected none or deflate")),
    }
}

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
struct TensorHeader {
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
pub(super) fn open_tensor(path: &Path, member: Option<&str>) -> Result<MappedMatrix, ReadError> {
    let bytes = map_file(path)?;
    let header_error = |found| ReadError::Header { path: path.into(), found };
    let damaged = |found| ReadError::Damaged { path: path.into(), found };
    let (header, data_start) = header_bytes(&bytes).map_err(header_error)?;
    let TensorHeader { tensors, metadata } = serde_json::from_slice(header)
        .map_err(|error| header_error(format!("unreadable header: {error}")))?;
    check_places(&tensors, (bytes.len() - data_start) as u64).map_err(damaged)?;
    let candidates: Vec<Candidate> = tensors.iter().map(candidate).collect();
    let at = pick(&candidates, member).map_err(|NotPicked { expected, found }| {
        ReadError::NoArray { path: path.into(), expected, found }
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
        return Err(damaged(found));
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

impl<'de> Deserialize<'de> for TensorHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = TensorHeader;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TensorHeader, A::Error> {
                let mut header = TensorHeader { tensors: Vec::new(), metadata: HashMap::new() };
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

/// Names of vectors among other arrays; the first that is there counts.
const NAMES: [&str; 6] = ["vector", "vectors", "embedding", "embeddings", "emb", "arr_0"];
/// Arrays named in an error.
const SHOWN_MAX: usize = 20;

/// An array in a file of several.
pub(super) struct Candidate {
    pub(super) name: String,
    /// Whether its shape and type are those of vectors.
    pub(super) is_matrix: bool,
    /// Its shape and type, for errors.
    pub(super) summary: String,
}

/// No array could be chosen.
#[derive(Debug)]
pub(super) struct NotPicked {
    pub(super) expected: String,
    pub(super) found: String,
}

/// Returns the position of the array called `member`; without a name that of the only one, of the
/// only one that is a matrix, or of the first matrix with a usual name.
pub(super) fn pick(candidates: &[Candidate], member: Option<&str>) -> Result<usize, NotPicked> {
    let named = |name: &str| candidates.iter().position(|candidate| candidate.name == name);
    let not_picked = |expected| NotPicked { expected, found: list(candidates) };
    if let Some(member) = member {
        return named(member).ok_or_else(|| not_picked(format!("an array named {member:?}")));
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
    usual.ok_or_else(|| not_picked(format!("one matrix, or one named {}", NAMES.join(", "))))
}

/// Names the arrays with shapes and types.
fn list(candidates: &[Candidate]) -> String {
    let show = |array: &Candidate| format!("{:?} ({})", array.name, array.summary);
    let mut shown: Vec<String> = candidates.iter().take(SHOWN_MAX).map(show).collect();
    if candidates.len() > SHOWN_MAX {
        shown.push(format!("{} more", candidates.len() - SHOWN_MAX));
    }
    if shown.is_empty() { "none".into() } else { shown.join(", ") }
}
