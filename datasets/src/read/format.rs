//! [`VectorFormat`]: which format a file is.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::npy;
use crate::read::{HEADER_BYTES_MAX, PREFIX_BYTES};
use crate::{columns, parquet};

/// Bytes that tell every format apart.
const START_BYTES: u64 = 64;
/// Bytes of an unknown file that an error shows.
const SHOWN_BYTES: usize = 8;

/// A format that vectors are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum VectorFormat {
    /// A column file (Arrow IPC) as [`crate::ColumnsWriter`] makes it.
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

impl VectorFormat {
    /// Recognises a file that vectors are read from, by its content, else by its extension; `None` for others.
    #[must_use]
    pub fn of_file(path: &Path) -> Option<Self> {
        match Self::detect(path) {
            Ok(found) => found.ok(),
            Err(_) => Self::of_extension(path),
        }
    }

    /// Recognises the format of the file at `path`; `Err` holds its first bytes, escaped.
    pub(crate) fn detect(path: &Path) -> io::Result<Result<Self, String>> {
        let start = read_start(path)?;
        let by_extension = Self::of_extension(path);
        // Numbers alone may look like text, or like a stream, by chance.
        let format = Self::of_magic(&start)
            .or_else(|| by_extension.filter(|format| format.is_numbers_alone()))
            .or_else(|| Self::of_start(&start))
            .or(by_extension);
        let shown = &start[..start.len().min(SHOWN_BYTES)];
        Ok(format.ok_or_else(|| shown.escape_ascii().to_string()))
    }

    /// Returns the format's name, which is its first extension.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Columns => "arrow",
            Self::Parquet => "parquet",
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::Safetensors => "safetensors",
            Self::Hdf5 => "hdf5",
            Self::Jsonl => "jsonl",
            Self::Fvecs => "fvecs",
            Self::Ivecs => "ivecs",
            Self::Bvecs => "bvecs",
            Self::Fbin => "fbin",
            Self::F16bin => "f16bin",
            Self::U8bin => "u8bin",
            Self::I8bin => "i8bin",
            Self::Ibin => "ibin",
        }
    }

    /// The formats that are written.
    pub const WRITTEN: [Self; 14] = [
        Self::Columns,
        Self::Parquet,
        Self::Jsonl,
        Self::Npy,
        Self::Npz,
        Self::Safetensors,
        Self::Fvecs,
        Self::Ivecs,
        Self::Bvecs,
        Self::Fbin,
        Self::F16bin,
        Self::U8bin,
        Self::I8bin,
        Self::Ibin,
    ];

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
        if let Some((&length, header)) = start.split_first_chunk::<PREFIX_BYTES>()
            && u64::from_le_bytes(length) <= HEADER_BYTES_MAX
            && begins_object(header)
        {
            return Some(Self::Safetensors);
        }
        let text = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start);
        begins_object(text.trim_ascii_start()).then_some(Self::Jsonl)
    }

    pub(crate) fn of_extension(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "arrow" | "ipc" | "feather" => Some(Self::Columns),
            "parquet" | "pq" => Some(Self::Parquet),
            "npy" => Some(Self::Npy),
            "npz" => Some(Self::Npz),
            "safetensors" => Some(Self::Safetensors),
            "hdf5" | "h5" => Some(Self::Hdf5),
            "jsonl" | "ndjson" => Some(Self::Jsonl),
            "fvecs" => Some(Self::Fvecs),
            "ivecs" => Some(Self::Ivecs),
            "bvecs" => Some(Self::Bvecs),
            "fbin" => Some(Self::Fbin),
            "f16bin" => Some(Self::F16bin),
            "u8bin" => Some(Self::U8bin),
            "i8bin" => Some(Self::I8bin),
            "ibin" => Some(Self::Ibin),
            _ => None,
        }
    }

    /// Tells whether files have nothing that marks them, so that only the extension tells.
    const fn is_numbers_alone(self) -> bool {
        match self {
            Self::Fvecs | Self::Ivecs | Self::Bvecs => true,
            Self::Fbin | Self::F16bin | Self::U8bin | Self::I8bin | Self::Ibin => true,
            Self::Columns | Self::Parquet | Self::Npy => false,
            Self::Npz | Self::Safetensors | Self::Hdf5 | Self::Jsonl => false,
        }
    }
}

/// Tells whether a text begins with an object in JSON.
fn begins_object(text: &[u8]) -> bool {
    let Some(inside) = text.strip_prefix(b"{") else { return false };
    let is_name_or_end = matches!(inside.trim_ascii_start().first(), Some(b'"' | b'}'));
    is_name_or_end && !inside.contains(&0)
}

fn read_start(path: &Path) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    File::open(path)?.take(START_BYTES).read_to_end(&mut start)?;
    Ok(start)
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
