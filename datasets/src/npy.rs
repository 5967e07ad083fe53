//! npy files of vectors: two-dimensional, of f16, f32, f64, i8, u8, i32 or i64, in either byte
//! order and either order of axes.
//!
//! The format is numpy's (`numpy.lib.format`, versions 1.0 to 3.0). They are read by
//! [`Corpus`](crate::Corpus) and written by [`NpyWriter`].

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use arrow_buffer::Buffer;
use half::f16;

use crate::DataError;
use crate::atomic_file::NewFile;
use crate::columns::first_not_finite;
use crate::error::VectorFault;
use crate::read::Layout;
pub use crate::vectors::ComponentType as Component;
use crate::vectors::Components;

/// The first bytes of an npy file.
pub(crate) const MAGIC: &[u8] = b"\x93NUMPY";
/// Longest header read; numpy's own are 128 bytes.
const HEADER_BYTES_MAX: usize = 65_536;
/// Our header's length, as numpy pads it.
const HEADER_BYTES: usize = 128;

/// Returns the types of components that numpy has.
fn types() -> impl Iterator<Item = Component> {
    Component::every().filter(|component| *component != Component::Bf16)
}

/// A header, taken apart.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    descr: String,
    fortran_order: String,
    shape: String,
    /// Where the values begin.
    pub(crate) data_start: u64,
}

impl Header {
    /// Reads the header that `input` begins with; errors do not know the file's name.
    pub(crate) fn read(input: &mut impl Read) -> Result<Self, DataError> {
        let (text, data_start) = read_header(input)?;
        let entry = |name| entry(&text, name).map(str::to_owned).map_err(unreadable);
        Ok(Self {
            descr: entry("descr")?.trim_matches(['\'', '"']).to_owned(),
            fortran_order: entry("fortran_order")?,
            shape: entry("shape")?,
            data_start,
        })
    }

    /// Names shape, type and order.
    pub(crate) fn summary(&self) -> String {
        let order = if self.fortran_order == "True" { " in Fortran order" } else { "" };
        format!("{} of {}{order}", self.shape.escape_debug(), self.descr.escape_debug())
    }

    /// Returns the layout of the matrix, or the reason why it is not supported.
    pub(crate) fn layout(&self) -> Result<Layout, DataError> {
        let (order, name) = self.descr.split_at_checked(1).unwrap_or_default();
        let found = types().find(|known| known.npy_name() == name);
        let found = found.filter(|_| ["<", ">", "=", "|"].contains(&order));
        let Some(component) = found else {
            let names = types().map(Component::npy_name).collect::<Vec<_>>().join(", ");
            let found = format!("values of type {:?}, expected one of {names}", self.descr);
            return Err(unreadable(found));
        };
        let is_by_component = match self.fortran_order.as_str() {
            "False" => false,
            "True" => true,
            other => {
                let found = other.escape_debug();
                return Err(unreadable(format!("fortran_order {found}, expected False or True")));
            }
        };
        let sizes: Option<Vec<u64>> = self
            .shape
            .trim_matches(['(', ')', ','])
            .split(',')
            .map(|size| size.trim().parse().ok())
            .collect();
        let Some(&[rows, dim]) = sizes.as_deref() else {
            let found = format!("shape {}, expected (rows, dim)", self.shape.escape_debug());
            return Err(unreadable(found));
        };
        let layout = Layout::checked(rows, dim, component).map_err(unreadable)?;
        Ok(Layout { is_big_endian: order == ">", is_by_component, ..layout })
    }
}

/// Returns dimension and vectors of a whole file that this library holds.
pub(crate) fn vectors_of(bytes: &[u8]) -> Result<(usize, Vec<f32>), DataError> {
    let mut rest = bytes;
    let layout = Header::read(&mut rest)?.layout()?;
    let mut vectors = Vec::new();
    let components = Components::of(&layout.component.array_of(Buffer::from(rest)));
    if let Some(components) = components {
        components.append(0..components.len(), &mut vectors);
    }
    Ok((layout.dim, vectors))
}

fn unreadable(found: String) -> DataError {
    DataError::format(Path::new(""), found)
}

/// Reads the header's text; returns it with the position of the data.
fn read_header(input: &mut impl Read) -> Result<(String, u64), DataError> {
    let mut bytes_of = |count: usize| {
        let mut bytes = vec![0; count];
        let read = input.read_exact(&mut bytes);
        read.map(|()| bytes).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                DataError::damaged(Path::new(""), "the file ends in its header")
            }
            _ => DataError::io(Path::new(""), source),
        })
    };
    let start = bytes_of(8)?;
    if !start.starts_with(MAGIC) {
        return Err(unreadable(format!(
            "it begins with \"{}\", not an npy file",
            start.escape_ascii()
        )));
    }
    let length_bytes = match start[6] {
        1 => 2,
        2 | 3 => 4,
        version => return Err(unreadable(format!("npy version {version}, expected 1 to 3"))),
    };
    let length = bytes_of(length_bytes)?;
    let length = length.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    if length > HEADER_BYTES_MAX {
        return Err(unreadable(format!("a header of {length} bytes")));
    }
    let text = String::from_utf8(bytes_of(length)?)
        .map_err(|_| unreadable("a header that is not text".into()))?;
    Ok((text, (8 + length_bytes + length) as u64))
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

/// Returns the header of a file of `rows` vectors.
pub(crate) fn header_bytes(rows: u64, dim: usize, component: Component) -> Vec<u8> {
    let order = if component.bytes() == 1 { '|' } else { '<' };
    let descr = format!("{order}{}", component.npy_name());
    let text =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({rows}, {dim}), }}");
    let width = HEADER_BYTES - 11;
    let mut bytes = [MAGIC, &[1, 0], &((HEADER_BYTES - 10) as u16).to_le_bytes()].concat();
    bytes.extend(format!("{text:<width$}\n").into_bytes());
    bytes
}

/// Writes vectors of f16, f32 or f64 to an npy file; the row count is known when it is finished.
#[derive(Debug)]
pub struct NpyWriter {
    output: NewFile,
    path: PathBuf,
    rows: u64,
    dim: usize,
    component: Component,
}

impl NpyWriter {
    /// Begins a file that takes its place at `path` when finished.
    ///
    /// # Errors
    /// When the type is not one of floats, or the folder cannot be written.
    pub fn create(path: &Path, dim: usize, component: Component) -> Result<Self, DataError> {
        if !matches!(component, Component::F16 | Component::F32 | Component::F64) {
            return Err(DataError::encode(path, format!("floats are written, not {component}")));
        }
        let failed = |source| DataError::io(path, source);
        let mut output = NewFile::create(path).map_err(failed)?;
        output.write_all(&header_bytes(0, dim, component)).map_err(failed)?;
        Ok(Self { output, path: path.into(), rows: 0, dim, component })
    }

    /// Appends whole rows.
    ///
    /// # Errors
    /// When the values are not whole rows or not finite, or writing fails.
    pub fn push(&mut self, values: &[f32]) -> Result<(), DataError> {
        let (dim, path) = (self.dim, || self.path.clone());
        if !values.len().is_multiple_of(dim) {
            let (found, expected) = (format!("{} values", values.len()), format!("rows of {dim}"));
            return Err(DataError::shape(&self.path, found, expected));
        }
        if let Some(at) = first_not_finite(values) {
            let (component, value) = (at % dim, values[at].into());
            let fault = VectorFault::NotFinite { component, value };
            return Err(DataError::Vector {
                path: path(),
                row: self.rows + (at / dim) as u64,
                fault,
            });
        }
        let mut bytes = Vec::with_capacity(values.len() * self.component.bytes());
        for &value in values {
            match self.component {
                Component::F16 => bytes.extend(f16::from_f32(value).to_le_bytes()),
                Component::F64 => bytes.extend(f64::from(value).to_le_bytes()),
                _ => bytes.extend(value.to_le_bytes()),
            }
        }
        self.rows += (values.len() / dim) as u64;
        self.output.write_all(&bytes).map_err(|source| DataError::io(&self.path, source))
    }

    /// Writes the row count and publishes the file.
    ///
    /// # Errors
    /// When the system refuses; the file's place then has its former content.
    pub fn finish(self) -> Result<(), DataError> {
        let Self { mut output, path, rows, dim, component } = self;
        let seek = output.seek(SeekFrom::Start(0));
        let written = seek.and_then(|_| output.write_all(&header_bytes(rows, dim, component)));
        let published = written.and_then(|()| output.publish().map(drop));
        published.map_err(|source| DataError::io(&path, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::support::{npy, vectors_in};

    fn read(path: &Path) -> Vec<f32> {
        vectors_in(path, None).unwrap()
    }

    #[test]
    fn every_component_type_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.npy");
        let values = [1.0, -0.5, 0.25, 65504.0];
        for component in [Component::F16, Component::F32, Component::F64] {
            let mut writer = NpyWriter::create(&path, 2, component).unwrap();
            writer.push(&values).unwrap();
            writer.finish().unwrap();
            assert_eq!(read(&path), values);
        }
        assert!(NpyWriter::create(Path::new("/dev/null"), 2, Component::U8).is_err());
    }

    #[test]
    fn fortran_order_and_big_endian_values_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.npy");
        // (2, 3) as numpy.save(numpy.asfortranarray(…)) and .astype('>f4') write it.
        let rows = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let by_component = [1.0_f32, 4.0, 2.0, 5.0, 3.0, 6.0];
        for (descr, order, values) in [
            ("<f4", "True", by_component.map(f32::to_le_bytes)),
            (">f4", "False", rows.map(f32::to_be_bytes)),
            (">f4", "True", by_component.map(f32::to_be_bytes)),
        ] {
            // The first entry of a name counts.
            let descr = format!("{descr}', 'fortran_order': {order}, 'then': '");
            std::fs::write(&path, npy(&descr, "(2, 3)", &values.concat())).unwrap();
            assert_eq!(read(&path), rows, "{descr}");
        }
    }
}
