//! [`VectorsFile`]: bare vectors on their way to their place.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use arrow_array::ArrayRef;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::OutputFormat;
use super::component::bytes_of;
use super::headers::{ALIGNMENT, NAME, Shape, header, row_prefix};
use crate::atomic_file::NewFile;
use crate::parquet::WriteTableError;

/// Bytes gathered where every vector has something before it.
const GATHERED_BYTES: usize = 1 << 20;
/// An archive's member that may be longer needs long lengths.
const MEMBER_BYTES_MAX: u64 = u32::MAX as u64 / 2;

/// A file of bare vectors, all of whose rows are known to come.
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
    /// Begins a file and writes what stands before the vectors.
    pub(super) fn create(
        path: &Path,
        format: OutputFormat,
        shape: Shape,
        metadata: &HashMap<String, String>,
    ) -> Result<Self, WriteTableError> {
        let start = || -> io::Result<Self> {
            let file = NewFile::create(path)?;
            let sink = match format {
                OutputFormat::Npz => Sink::Archive(Box::new(archive(file, shape)?)),
                _ => Sink::Plain(file),
            };
            let (row_bytes, row_prefix) = (shape.row_bytes(), row_prefix(format, shape.dim));
            let mut vectors = Self { sink, path: path.into(), row_bytes, row_prefix };
            vectors.write_bytes(&header(format, shape, metadata))?;
            Ok(vectors)
        };
        start().map_err(|source| WriteTableError::Write { path: path.into(), source })
    }

    /// Appends whole vectors.
    pub(super) fn write(&mut self, components: &ArrayRef) -> Result<(), WriteTableError> {
        let bytes = bytes_of(components);
        let written = match self.row_prefix {
            None => self.write_bytes(&bytes),
            Some(prefix) => self.write_rows(&bytes, prefix),
        };
        written.map_err(|source| WriteTableError::Write { path: self.path.clone(), source })
    }

    fn write_rows(&mut self, bytes: &[u8], prefix: [u8; 4]) -> io::Result<()> {
        let rows_at_once = (GATHERED_BYTES / self.row_bytes).max(1);
        let mut gathered = Vec::with_capacity(rows_at_once * (self.row_bytes + prefix.len()));
        for rows in bytes.chunks(rows_at_once * self.row_bytes) {
            gathered.clear();
            for row in rows.chunks(self.row_bytes) {
                gathered.extend(prefix);
                gathered.extend_from_slice(row);
            }
            self.write_bytes(&gathered)?;
        }
        Ok(())
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.sink {
            Sink::Plain(file) => file.write_all(bytes),
            Sink::Archive(archive) => archive.write_all(bytes),
        }
    }

    /// Publishes the file.
    pub(super) fn finish(self) -> Result<(), WriteTableError> {
        let Self { sink, path, .. } = self;
        let publish = || -> io::Result<()> {
            let file = match sink {
                Sink::Plain(file) => file,
                Sink::Archive(archive) => archive.finish()?,
            };
            file.publish().map(drop)
        };
        publish().map_err(|source| WriteTableError::Write { path, source })
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
