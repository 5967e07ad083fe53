//! npy files of vectors: two-dimensional, C order, little-endian f16, f32 or f64.
//!
//! The format is numpy's (`numpy.lib.format`, versions 1.0 to 3.0).

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use half::f16;

use crate::atomic_file::NewFile;
use crate::columns::first_not_finite;
use crate::components::ElementType;
use crate::read::Layout;
pub use crate::read::ReadError;
use crate::schema::DIM_MAX;

/// The first bytes of an npy file.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";
/// Longest header read; numpy's own are 128 bytes.
const HEADER_BYTES_MAX: usize = 65_536;
/// Our header's length, as numpy pads it.
const HEADER_BYTES: usize = 128;

/// How components are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// 16-bit floats.
    F16,
    /// 32-bit floats.
    F32,
    /// 64-bit floats, rounded to 32 bits when read.
    F64,
}

impl Component {
    const fn bytes(self) -> usize {
        match self {
            Self::F16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    const fn descr(self) -> &'static str {
        match self {
            Self::F16 => "<f2",
            Self::F32 => "<f4",
            Self::F64 => "<f8",
        }
    }
}

/// Reads vectors from an npy file, some rows at a time.
#[derive(Debug)]
pub struct NpyReader<R = BufReader<File>> {
    input: R,
    path: PathBuf,
    shape: Shape,
    rows_read: usize,
    bytes: Vec<u8>,
}

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    rows: usize,
    dim: usize,
    component: Component,
}

impl NpyReader {
    /// Opens the file at `path` and checks its header and length.
    ///
    /// # Errors
    /// When it cannot be read, is no npy file of vectors, or has the wrong length.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let failed = |source| ReadError::Io { path: path.into(), source };
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        Self::new(BufReader::with_capacity(1 << 20, file), length, path)
    }
}

impl<R: Read> NpyReader<R> {
    /// Reads from `input`, which holds `length` bytes; `path` is the name that errors use.
    ///
    /// # Errors
    /// When it cannot be read, is no npy file of vectors, or has the wrong length.
    pub fn new(mut input: R, length: u64, path: &Path) -> Result<Self, ReadError> {
        let shape = read_shape(&mut input, length, path)?;
        Ok(Self { input, path: path.into(), shape, rows_read: 0, bytes: Vec::new() })
    }

    /// Returns the number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.shape.rows
    }

    /// Tells whether there are no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.shape.rows == 0
    }

    /// Returns the number of components of each vector.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.shape.dim
    }

    /// Returns how components are stored.
    #[must_use]
    pub const fn component(&self) -> Component {
        self.shape.component
    }

    /// Replaces `values` by the next rows, at most `rows_max`; returns how many (0 at the end).
    ///
    /// # Errors
    /// When reading fails or a component is not finite.
    pub fn read_rows(
        &mut self,
        rows_max: usize,
        values: &mut Vec<f32>,
    ) -> Result<usize, ReadError> {
        let Shape { rows, dim, component } = self.shape;
        let count = rows_max.min(rows - self.rows_read);
        self.bytes.resize(count * dim * component.bytes(), 0);
        self.input
            .read_exact(&mut self.bytes)
            .map_err(|source| ReadError::Io { path: self.path.clone(), source })?;
        values.clear();
        widen(&self.bytes, component, values);
        if let Some(at) = first_not_finite(values) {
            let (row, component) = (self.rows_read + at / dim, at % dim);
            return Err(ReadError::NotFinite {
                path: self.path.clone(),
                row,
                component,
                value: values[at],
            });
        }
        self.rows_read += count;
        Ok(count)
    }

    /// Reads all rows that are left.
    ///
    /// # Errors
    /// When reading fails or a component is not finite.
    pub fn read_all(mut self) -> Result<Vec<f32>, ReadError> {
        let mut values = Vec::new();
        self.read_rows(usize::MAX, &mut values)?;
        Ok(values)
    }
}

fn widen(bytes: &[u8], component: Component, values: &mut Vec<f32>) {
    match component {
        Component::F16 => values
            .extend(bytes.as_chunks().0.iter().map(|chunk| f16::from_le_bytes(*chunk).to_f32())),
        Component::F32 => {
            values.extend(bytes.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)));
        }
        Component::F64 => {
            values.extend(bytes.as_chunks().0.iter().map(|chunk| f64::from_le_bytes(*chunk) as f32))
        }
    }
}

/// The types of components with their names in headers; the first are those of [`Component`].
const ELEMENT_TYPES: [(&str, ElementType); 7] = [
    ("<f2", ElementType::F16),
    ("<f4", ElementType::F32),
    ("<f8", ElementType::F64),
    ("|i1", ElementType::I8),
    ("|u1", ElementType::U8),
    ("<i4", ElementType::I32),
    ("<i8", ElementType::I64),
];
/// How many of them are floats.
const FLOAT_TYPES: usize = 3;

/// Reads the header of a file of `length` bytes that holds floats; returns it.
fn read_shape(input: &mut impl Read, length: u64, path: &Path) -> Result<Shape, ReadError> {
    let floats = &ELEMENT_TYPES[..FLOAT_TYPES];
    let (Layout { rows, dim, element }, _) = read_layout_of(floats, input, length, path)?;
    let component = match element {
        ElementType::F16 => Component::F16,
        ElementType::F64 => Component::F64,
        _ => Component::F32,
    };
    Ok(Shape { rows, dim, component })
}

/// Reads the header of a file of `length` bytes; returns it with the position of the data.
pub(crate) fn read_layout(
    input: &mut impl Read,
    length: u64,
    path: &Path,
) -> Result<(Layout, usize), ReadError> {
    read_layout_of(&ELEMENT_TYPES, input, length, path)
}

fn read_layout_of(
    types: &[(&str, ElementType)],
    input: &mut impl Read,
    length: u64,
    path: &Path,
) -> Result<(Layout, usize), ReadError> {
    let header = Header::read(input).map_err(|error| match error {
        HeaderError::Io(source) => ReadError::Io { path: path.into(), source },
        HeaderError::Text(found) => ReadError::Header { path: path.into(), found },
    })?;
    let layout = header.layout_of(types);
    let layout = layout.map_err(|found| ReadError::Header { path: path.into(), found })?;
    let expected = layout.data_bytes() + header.data_start as u64;
    if expected != length {
        let Layout { rows, dim, .. } = layout;
        return Err(ReadError::Length { path: path.into(), found: length, expected, rows, dim });
    }
    Ok((layout, header.data_start))
}

/// A header, taken apart.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    descr: String,
    fortran_order: String,
    shape: String,
    /// Where the values begin.
    pub(crate) data_start: usize,
}

/// Why there is no header.
#[derive(Debug)]
pub(crate) enum HeaderError {
    /// The system refused.
    Io(io::Error),
    /// What was found.
    Text(String),
}

impl From<String> for HeaderError {
    fn from(found: String) -> Self {
        Self::Text(found)
    }
}

impl Header {
    /// Reads the header that `input` begins with.
    pub(crate) fn read(input: &mut impl Read) -> Result<Self, HeaderError> {
        let (text, data_start) = read_header(input)?;
        let entry = |name| entry(&text, name).map(str::to_owned);
        Ok(Self {
            descr: entry("descr")?,
            fortran_order: entry("fortran_order")?,
            shape: entry("shape")?,
            data_start,
        })
    }

    /// Returns the layout of the matrix, or what is no such matrix about it.
    pub(crate) fn layout(&self) -> Result<Layout, String> {
        self.layout_of(&ELEMENT_TYPES)
    }

    /// Names shape, type and order.
    pub(crate) fn summary(&self) -> String {
        let order = if self.fortran_order == "True" { " in Fortran order" } else { "" };
        let descr = self.descr.trim_matches(['\'', '"']);
        format!("{} of {}{order}", self.shape.escape_debug(), descr.escape_debug())
    }

    fn layout_of(&self, types: &[(&str, ElementType)]) -> Result<Layout, String> {
        let descr = self.descr.trim_matches(['\'', '"']);
        let Some(&(_, element)) = types.iter().find(|(name, _)| *name == descr) else {
            let order = if descr.starts_with('>') { " (big-endian)" } else { "" };
            let names: Vec<&str> = types.iter().map(|(name, _)| *name).collect();
            let (last, names) = names.split_last().expect("there are types");
            let expected = format!("{} or {last}", names.join(", "));
            return Err(format!("values of type {descr:?}{order}, expected {expected}"));
        };
        if self.fortran_order != "False" {
            let found = self.fortran_order.escape_debug();
            return Err(format!("fortran_order {found}, expected False"));
        }
        let shape = &self.shape;
        let sizes: Option<Vec<usize>> = shape
            .trim_matches(['(', ')', ','])
            .split(',')
            .map(|size| size.trim().parse().ok())
            .collect();
        match sizes.as_deref() {
            Some(&[rows, dim]) if (1..=DIM_MAX).contains(&dim) && rows < u32::MAX as usize => {
                Ok(Layout { rows, dim, element })
            }
            _ => {
                let found = shape.escape_debug();
                Err(format!("shape {found}, expected (rows, dim) with a dim of 1 to {DIM_MAX}"))
            }
        }
    }
}

/// Reads the header's text; returns it with the position of the data.
fn read_header(input: &mut impl Read) -> Result<(String, usize), HeaderError> {
    let mut bytes_of = |count: usize| {
        let mut bytes = vec![0; count];
        let read = input.read_exact(&mut bytes);
        read.map(|()| bytes).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => HeaderError::Text("the file ends in its header".into()),
            _ => HeaderError::Io(source),
        })
    };
    let start = bytes_of(8)?;
    if !start.starts_with(MAGIC) {
        return Err(format!("it begins with \"{}\", no npy file", start.escape_ascii()).into());
    }
    let length_bytes = match start[6] {
        1 => 2,
        2 | 3 => 4,
        version => return Err(format!("npy version {version}, expected 1 to 3").into()),
    };
    let length = bytes_of(length_bytes)?;
    let length = length.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    if length > HEADER_BYTES_MAX {
        return Err(format!("a header of {length} bytes").into());
    }
    let text = String::from_utf8(bytes_of(length)?)
        .map_err(|_| HeaderError::Text("a header that is no text".into()))?;
    Ok((text, 8 + length_bytes + length))
}

/// Returns the text of one entry of the header, a Python dictionary of three plain values.
fn entry<'a>(header: &'a str, name: &str) -> Result<&'a str, String> {
    let missing = || format!("no {name} in the header");
    let (_, rest) = header.split_once(&format!("'{name}':")).ok_or_else(missing)?;
    let rest = rest.trim_start();
    let end =
        if rest.starts_with('(') { rest.find(')').map(|at| at + 1) } else { rest.find([',', '}']) };
    rest.get(..end.ok_or_else(missing)?).map(str::trim).ok_or_else(missing)
}

/// Writes vectors to an npy file; the row count is known when it is finished.
#[derive(Debug)]
pub struct NpyWriter {
    output: BufWriter<NewFile>,
    path: PathBuf,
    shape: Shape,
}

impl NpyWriter {
    /// Begins a file of f16 or f32 (or f64) vectors that takes its place at `path` when finished.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn create(path: &Path, dim: usize, component: Component) -> Result<Self, ReadError> {
        let failed = |source| ReadError::Io { path: path.into(), source };
        let shape = Shape { rows: 0, dim, component };
        let mut output = BufWriter::with_capacity(1 << 20, NewFile::create(path).map_err(failed)?);
        output.write_all(&header_bytes(shape)).map_err(failed)?;
        Ok(Self { output, path: path.into(), shape })
    }

    /// Appends whole rows.
    ///
    /// # Errors
    /// When the values are no whole rows, are not finite, or writing fails.
    pub fn push(&mut self, values: &[f32]) -> Result<(), ReadError> {
        let Shape { dim, component, rows } = self.shape;
        let path = || self.path.clone();
        if !values.len().is_multiple_of(dim) {
            return Err(ReadError::Ragged { path: path(), found: values.len(), dim });
        }
        if let Some(at) = first_not_finite(values) {
            let (row, component, value) = (rows + at / dim, at % dim, values[at]);
            return Err(ReadError::NotFinite { path: path(), row, component, value });
        }
        let mut bytes = Vec::with_capacity(values.len() * component.bytes());
        for &value in values {
            match component {
                Component::F16 => bytes.extend(f16::from_f32(value).to_le_bytes()),
                Component::F32 => bytes.extend(value.to_le_bytes()),
                Component::F64 => bytes.extend(f64::from(value).to_le_bytes()),
            }
        }
        self.shape.rows += values.len() / dim;
        let written = self.output.write_all(&bytes);
        written.map_err(|source| ReadError::Io { path: self.path.clone(), source })
    }

    /// Writes the row count and publishes the file.
    ///
    /// # Errors
    /// When the system refuses; the file's place then holds what it held before.
    pub fn finish(self) -> Result<(), ReadError> {
        let Self { output, path, shape } = self;
        let publish = || -> io::Result<()> {
            let mut file = output.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&header_bytes(shape))?;
            file.publish().map(drop)
        };
        publish().map_err(|source| ReadError::Io { path, source })
    }
}

fn header_bytes(shape: Shape) -> Vec<u8> {
    let Shape { rows, dim, component } = shape;
    let text = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({rows}, {dim}), }}",
        component.descr()
    );
    let width = HEADER_BYTES - 11;
    let mut bytes = [MAGIC, &[1, 0], &((HEADER_BYTES - 10) as u16).to_le_bytes()].concat();
    bytes.extend(format!("{text:<width$}\n").into_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<f32>, ReadError> {
        NpyReader::new(bytes, bytes.len() as u64, Path::new("v.npy"))?.read_all()
    }

    fn written(component: Component, values: &[f32]) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.npy");
        let mut writer = NpyWriter::create(&path, 2, component).unwrap();
        writer.push(values).unwrap();
        writer.finish().unwrap();
        std::fs::read(path).unwrap()
    }

    #[test]
    fn every_component_type_comes_back() {
        let values = [1.0, -0.5, 0.25, 65504.0];
        for component in [Component::F16, Component::F32, Component::F64] {
            assert_eq!(read(&written(component, &values)).unwrap(), values);
        }
    }

    #[test]
    fn rows_come_in_portions() {
        let bytes = written(Component::F32, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let mut reader =
            NpyReader::new(&bytes[..], bytes.len() as u64, Path::new("v.npy")).unwrap();
        let mut values = Vec::new();
        assert_eq!(reader.read_rows(2, &mut values).unwrap(), 2);
        assert_eq!(values, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(reader.read_rows(2, &mut values).unwrap(), 1);
        assert_eq!(values, [5.0, 6.0]);
        assert_eq!(reader.read_rows(2, &mut values).unwrap(), 0);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let said = |from: &str, to: &str| {
            let bytes = written(Component::F32, &[1.0, 2.0]);
            let text = String::from_utf8_lossy(&bytes[10..128]).replace(from, to);
            let text = format!("{:<117}\n", text.trim_end());
            let bytes = [&bytes[..10], text.as_bytes(), &bytes[128..]].concat();
            read(&bytes).unwrap_err().to_string()
        };
        assert_eq!(
            said("<f4", ">f4"),
            "v.npy: values of type \">f4\" (big-endian), expected <f2, <f4 or <f8"
        );
        assert_eq!(said("False", "True"), "v.npy: fortran_order True, expected False");
        assert_eq!(
            said("(1, 2)", "(2,)"),
            "v.npy: shape (2,), expected (rows, dim) with a dim of 1 to 65536"
        );
        assert_eq!(said("(1, 2)", "(2, 2)"), "v.npy: 136 bytes, expected 144 for 2 × 2");
        assert_eq!(said("'shape'", "'form'"), "v.npy: no shape in the header");
        let mut bytes = written(Component::F32, &[1.0, 2.0, 3.0, 4.0]);
        bytes[128 + 12..].copy_from_slice(&f32::NAN.to_le_bytes());
        assert_eq!(read(&bytes).unwrap_err().to_string(), "v.npy: row 1: component 1 is NaN");
    }

    #[test]
    fn every_truncation_is_an_error() {
        let bytes = written(Component::F16, &[1.0, 2.0]);
        assert!((0..bytes.len()).all(|length| read(&bytes[..length]).is_err()));
    }

    #[test]
    fn no_flipped_bit_makes_it_panic() {
        let mut bytes = written(Component::F32, &[1.0, 2.0]);
        for position in 0..bytes.len() * 8 {
            bytes[position / 8] ^= 1 << (position % 8);
            let _ = read(&bytes);
            bytes[position / 8] ^= 1 << (position % 8);
        }
    }
}
