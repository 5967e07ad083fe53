//! [`VectorsFile`]: a file of bare vectors in any of their formats.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::json;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::convert::Shape;
use crate::DataError;
use crate::atomic_file::NewFile;
use crate::npy;
use crate::read::format::VectorFormat;

/// The name of tensors and arrays inside of a file.
const NAME: &str = "vectors";
/// The data begin at a multiple of this, so that they can be used where they are mapped.
const ALIGNMENT: usize = 64;
/// Bytes gathered where every vector has its length before it.
const GATHERED_BYTES: usize = 1 << 20;
/// An archive's member that may be longer needs long lengths.
const MEMBER_BYTES_MAX: u64 = u32::MAX as u64 / 2;

/// A file of bare vectors, the number of whose rows is known.
pub(super) struct VectorsFile {
    sink: Sink,
    path: PathBuf,
    row_bytes: usize,
    row_prefix: Option<[u8; 4]>,
}

enum Sink {
    Plain(NewFile),
    Archive(Box<ZipWriter<NewFile>>),
}

impl VectorsFile {
    /// Begins a file and writes its header.
    pub(super) fn create(
        path: &Path,
        format: VectorFormat,
        shape: Shape,
        metadata: &HashMap<String, String>,
    ) -> Result<Self, DataError> {
        let start = || -> io::Result<Self> {
            let file = NewFile::create(path)?;
            let sink = match format {
                VectorFormat::Npz => Sink::Archive(Box::new(archive(file, shape)?)),
                _ => Sink::Plain(file),
            };
            let has_lengths =
                matches!(format, VectorFormat::Fvecs | VectorFormat::Ivecs | VectorFormat::Bvecs);
            let row_prefix = has_lengths.then(|| (shape.dim as u32).to_le_bytes());
            let row_bytes = shape.row_bytes();
            let mut vectors = Self { sink, path: path.into(), row_bytes, row_prefix };
            vectors.write_bytes(&header(format, shape, metadata))?;
            Ok(vectors)
        };
        start().map_err(|source| DataError::io(path, source))
    }

    /// Appends the bytes of whole vectors.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        let written = match self.row_prefix {
            None => self.write_bytes(bytes),
            Some(prefix) => {
                let rows_at_once = (GATHERED_BYTES / self.row_bytes).max(1);
                bytes.chunks(rows_at_once * self.row_bytes).try_for_each(|rows| {
                    let rows = rows.chunks(self.row_bytes);
                    let gathered: Vec<u8> = rows.flat_map(|row| [&prefix, row].concat()).collect();
                    self.write_bytes(&gathered)
                })
            }
        };
        written.map_err(|source| DataError::io(&self.path, source))
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.sink {
            Sink::Plain(file) => file.write_all(bytes),
            Sink::Archive(archive) => archive.write_all(bytes),
        }
    }

    /// Publishes the file.
    pub(super) fn finish(self) -> Result<(), DataError> {
        let file = match self.sink {
            Sink::Plain(file) => Ok(file),
            Sink::Archive(archive) => archive.finish().map_err(io::Error::from),
        };
        let published = file.and_then(|file| file.publish().map(drop));
        published.map_err(|source| DataError::io(&self.path, source))
    }
}

/// Begins an archive with its one member, stored as it is and aligned.
fn archive(file: NewFile, shape: Shape) -> io::Result<ZipWriter<NewFile>> {
    let mut archive = ZipWriter::new(file);
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .with_alignment(ALIGNMENT as u16)
        .large_file(shape.bytes() > MEMBER_BYTES_MAX);
    archive.start_file(format!("{NAME}.npy"), options)?;
    Ok(archive)
}

/// Returns the header of a file of bare vectors; that of an archive is its member's.
fn header(format: VectorFormat, shape: Shape, metadata: &HashMap<String, String>) -> Vec<u8> {
    match format {
        VectorFormat::Npy | VectorFormat::Npz => {
            npy::header_bytes(shape.rows, shape.dim, shape.component)
        }
        VectorFormat::Safetensors => {
            let tensor = json!({
                "dtype": shape.component.name().to_uppercase(),
                "shape": [shape.rows, shape.dim],
                "data_offsets": [0, shape.bytes()],
            });
            let metadata: BTreeMap<&String, &String> = metadata.iter().collect();
            let mut header = json!({ "__metadata__": metadata, NAME: tensor });
            if let (true, Some(header)) = (metadata.is_empty(), header.as_object_mut()) {
                header.remove("__metadata__");
            }
            let mut text = header.to_string().into_bytes();
            text.resize((8 + text.len()).next_multiple_of(ALIGNMENT) - 8, b' ');
            [&(text.len() as u64).to_le_bytes()[..], &text].concat()
        }
        VectorFormat::Fvecs | VectorFormat::Ivecs | VectorFormat::Bvecs => Vec::new(),
        // More rows than 32 bits count were refused.
        _ => [(shape.rows as u32).to_le_bytes(), (shape.dim as u32).to_le_bytes()].concat(),
    }
}
