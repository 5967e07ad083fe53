//! [`NpzFile`]: one array of an npz file, which is a zip file of npy files.

use std::collections::HashMap;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_schema::SchemaRef;
use flate2::Crc;
use flate2::bufread::DeflateDecoder;
use zip::read::ZipFile;
use zip::{CompressionMethod, ZipArchive};

use super::error::{InputError, ReadMatrixError};
use super::matrix::{INFLATED_RATIO_MAX, Layout, MapOwner, MappedMatrix, batch_of, map_file};
use super::pick::{Candidate, NotPicked, pick};
use crate::npy::{Header, HeaderError};

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
    pub(super) fn open(path: &Path, member: Option<&str>) -> Result<Self, InputError> {
        let bytes = map_file(path)?;
        let damaged = |found| ReadMatrixError::Damaged { path: path.into(), found };
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
            ReadMatrixError::NoArray { path: path.into(), expected, found }
        })?;
        let (member, header) = (members.swap_remove(at), headers.swap_remove(at));
        let layout = header.and_then(|header| Ok((header.layout()?, header.data_start)));
        let (layout, data_start) = layout.map_err(|found| ReadMatrixError::Header {
            path: path.into(),
            found: format!("array {:?}: {found}", member.name),
        })?;
        Ok(Self::checked(path, bytes, member, (layout, data_start))?)
    }

    fn checked(
        path: &Path,
        bytes: Buffer,
        member: Member,
        (layout, data_start): (Layout, usize),
    ) -> Result<Self, ReadMatrixError> {
        let name = &member.name;
        let expected = data_start as u64 + layout.data_bytes();
        if expected != member.length {
            let Layout { rows, dim, .. } = layout;
            let found = format!(
                "array {name:?}: {} bytes, expected {expected} for {rows} × {dim}",
                member.length
            );
            return Err(ReadMatrixError::Damaged { path: path.into(), found });
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
    pub(crate) fn batches(&self) -> impl Iterator<Item = Result<RecordBatch, InputError>> + use<> {
        let mut rows = InflatedRows::new(self.clone());
        std::iter::from_fn(move || rows.next_batch().transpose())
    }

    /// Returns the rows asked for, ascending, each in a batch. Costs inflating all before them.
    pub(crate) fn batches_of_rows(&self, rows: &[usize]) -> Result<Vec<RecordBatch>, InputError> {
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

    fn damaged(&self, found: &str) -> InputError {
        let found = format!("array {:?}: {found}", self.member.name);
        ReadMatrixError::Damaged { path: self.path.clone(), found }.into()
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

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, InputError> {
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
