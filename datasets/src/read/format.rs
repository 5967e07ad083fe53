//! [`VectorFormat`]: which format a file is.

use std::io::Read;
use std::path::Path;

use crate::components::ComponentType;
use crate::error::EXPECTED_FORMATS;
use crate::input::InputBytes;
use crate::{DataError, columns, npy, parquet};

/// Bytes that tell every format apart.
const START_BYTES: u64 = 64;
/// Bytes of an unknown file that an error shows.
const SHOWN_BYTES: usize = 8;
/// Bytes of the length before a header of safetensors.
pub(super) const TENSOR_PREFIX_BYTES: usize = 8;
/// Longest header of safetensors, as the format says.
pub(super) const TENSOR_HEADER_BYTES_MAX: u64 = 100_000_000;

/// A format that vectors are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum VectorFormat {
    /// Arrow IPC: a file, as [`crate::ColumnsWriter`] makes it, or a stream.
    Columns,
    /// Parquet.
    Parquet,
    /// npy.
    Npy,
    /// npz: a zip file of npy files.
    Npz,
    /// safetensors.
    Safetensors,
    /// HDF5, as ann-benchmarks.com publishes it.
    Hdf5,
    /// JSON lines: an object on each line.
    Jsonl,
    /// fvecs: f32, each row with its length before it.
    Fvecs,
    /// ivecs: i32, each row with its length before it.
    Ivecs,
    /// bvecs: u8, each row with its length before it.
    Bvecs,
    /// fbin: f32 after the numbers of rows and components.
    Fbin,
    /// f16bin: f16 after the numbers of rows and components.
    F16bin,
    /// u8bin: u8 after the numbers of rows and components.
    U8bin,
    /// i8bin: i8 after the numbers of rows and components.
    I8bin,
    /// ibin: i32 after the numbers of rows and components.
    Ibin,
}

/// The formats with their extensions, the first of which is the name, and the one type of components that they hold.
const FORMATS: [(VectorFormat, &[&str], Option<ComponentType>); 15] = [
    (VectorFormat::Columns, &["arrow", "ipc", "feather"], None),
    (VectorFormat::Parquet, &["parquet", "pq"], None),
    (VectorFormat::Jsonl, &["jsonl", "ndjson"], None),
    (VectorFormat::Npy, &["npy"], None),
    (VectorFormat::Npz, &["npz"], None),
    (VectorFormat::Safetensors, &["safetensors"], None),
    (VectorFormat::Fvecs, &["fvecs"], Some(ComponentType::F32)),
    (VectorFormat::Ivecs, &["ivecs"], Some(ComponentType::I32)),
    (VectorFormat::Bvecs, &["bvecs"], Some(ComponentType::U8)),
    (VectorFormat::Fbin, &["fbin"], Some(ComponentType::F32)),
    (VectorFormat::F16bin, &["f16bin"], Some(ComponentType::F16)),
    (VectorFormat::U8bin, &["u8bin"], Some(ComponentType::U8)),
    (VectorFormat::I8bin, &["i8bin"], Some(ComponentType::I8)),
    (VectorFormat::Ibin, &["ibin"], Some(ComponentType::I32)),
    (VectorFormat::Hdf5, &["hdf5", "h5"], None),
];

impl VectorFormat {
    /// The formats that are written.
    pub const WRITTEN: [Self; 14] = {
        let mut written = [Self::Columns; 14];
        let mut at = 0;
        // HDF5 is the last of all.
        while at < written.len() {
            written[at] = FORMATS[at].0;
            at += 1;
        }
        written
    };

    /// Recognises a file that vectors are read from, by its content, else by its extension; `None` for others.
    #[must_use]
    pub fn of_file(path: &Path) -> Option<Self> {
        match InputBytes::open(path) {
            Ok(bytes) => Self::detect(&bytes).ok(),
            Err(_) => Self::of_extension(path),
        }
    }

    /// Recognises the format of a file.
    pub(crate) fn detect(bytes: &InputBytes) -> Result<Self, DataError> {
        let (path, mut start) = (bytes.path(), Vec::new());
        let read = bytes.cursor(0).take(START_BYTES).read_to_end(&mut start);
        read.map_err(|source| bytes.failed(source))?;
        let by_extension = Self::of_extension(path);
        // Numbers alone may look like text, or like a stream, by chance.
        let format = Self::of_magic(&start)
            .or_else(|| by_extension.filter(|format| format.only_type().is_some()))
            .or_else(|| Self::of_start(&start))
            .or(by_extension);
        format.ok_or_else(|| {
            let shown = start[..start.len().min(SHOWN_BYTES)].escape_ascii();
            let found =
                format!("expected {EXPECTED_FORMATS}, found a file that begins with \"{shown}\"");
            DataError::format(path, found)
        })
    }

    fn entry(self) -> &'static (Self, &'static [&'static str], Option<ComponentType>) {
        let entry = FORMATS.iter().find(|(format, ..)| *format == self);
        entry.expect("every format is in the table")
    }

    /// Returns the format's name, which is its first extension.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().1[0]
    }

    /// Returns the one type of components that the format holds; `None` where it holds all. Files of such a format
    /// have nothing that marks them, so that only the extension tells.
    pub(crate) fn only_type(self) -> Option<ComponentType> {
        self.entry().2
    }

    /// Returns the format of a name that is written.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::WRITTEN.into_iter().find(|format| format.name() == name)
    }

    /// Returns the format that a file is written in, by its extension.
    #[must_use]
    pub fn of_output(path: &Path) -> Option<Self> {
        Self::of_extension(path).filter(|format| Self::WRITTEN.contains(format))
    }

    /// Tells whether the format holds columns beside the vectors.
    #[must_use]
    pub const fn is_table(self) -> bool {
        matches!(self, Self::Columns | Self::Parquet | Self::Jsonl)
    }

    /// Returns the most rows that the format can count.
    pub(crate) const fn rows_max(self) -> u64 {
        match self {
            Self::Fbin | Self::F16bin | Self::U8bin | Self::I8bin | Self::Ibin => u32::MAX as u64,
            _ => u64::MAX,
        }
    }

    fn of_magic(start: &[u8]) -> Option<Self> {
        let formats = [
            (columns::MAGIC, Self::Columns),
            (parquet::MAGIC, Self::Parquet),
            (npy::MAGIC, Self::Npy),
            (b"PK\x03\x04", Self::Npz),
            (b"\x89HDF\r\n\x1A\n", Self::Hdf5),
        ];
        formats.into_iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, format)| format)
    }

    /// Recognises streams of Arrow, and files that begin with an object in JSON or with its length
    /// before it.
    fn of_start(start: &[u8]) -> Option<Self> {
        if start.starts_with(columns::STREAM_START) {
            return Some(Self::Columns);
        }
        if let Some((&length, header)) = start.split_first_chunk::<TENSOR_PREFIX_BYTES>()
            && u64::from_le_bytes(length) <= TENSOR_HEADER_BYTES_MAX
            && begins_object(header)
        {
            return Some(Self::Safetensors);
        }
        let text = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start);
        begins_object(text.trim_ascii_start()).then_some(Self::Jsonl)
    }

    pub(crate) fn of_extension(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        let found = FORMATS.iter().find(|(_, extensions, _)| extensions.contains(&&*extension));
        found.map(|(format, ..)| *format)
    }
}

/// Tells whether a text begins with an object in JSON.
fn begins_object(text: &[u8]) -> bool {
    let Some(inside) = text.strip_prefix(b"{") else { return false };
    let is_name_or_end = matches!(inside.trim_ascii_start().first(), Some(b'"' | b'}'));
    is_name_or_end && !inside.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_extensions_tell_the_format() {
        for format in VectorFormat::WRITTEN {
            assert_eq!(VectorFormat::from_name(format.name()), Some(format));
            let path = format!("a.b/rows.{}", format.name().to_uppercase());
            assert_eq!(VectorFormat::of_output(path.as_ref()), Some(format));
        }
        let feather = VectorFormat::of_output("rows.feather".as_ref());
        assert_eq!(feather, Some(VectorFormat::Columns));
        for name in ["rows.csv", "npy", "rows.hdf5"] {
            assert_eq!(VectorFormat::of_output(name.as_ref()), None);
        }
    }
}
