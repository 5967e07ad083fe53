//! Files of every format for tests.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{Field, Schema};
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use parquet::arrow::ArrowWriter;

use super::{DECODE_ROWS, Source, SourceOptions, open};

/// What a test file is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Parquet,
    Arrow,
    ArrowLz4,
    ArrowZstd,
    ArrowStream,
}

impl Form {
    pub(crate) const ALL: [Self; 5] =
        [Self::Parquet, Self::Arrow, Self::ArrowLz4, Self::ArrowZstd, Self::ArrowStream];

    const fn file_name(self) -> &'static str {
        match self {
            Self::Parquet => "rows.parquet",
            Self::Arrow => "rows.arrow",
            Self::ArrowLz4 => "lz4.arrow",
            Self::ArrowZstd => "zstd.arrow",
            Self::ArrowStream => "stream.arrow",
        }
    }
}

/// A file that a foreign program wrote, with the rows of [`ROWS`].
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests-data").join(name)
}

/// The vectors of the files in `tests-data`.
pub(crate) const ROWS: [f32; 9] = [0.5, -0.25, 3.0, 1.0, 0.0, -0.0, 65504.0, 0.125, -2.0];

/// Makes a batch whose columns may be null.
pub(crate) fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    let fields = columns.iter().map(|(name, c)| Field::new(*name, c.data_type().clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());
    let columns = columns.iter().map(|(_, column)| Arc::clone(column)).collect();
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

/// Writes batches of one schema into `folder`.
pub(crate) fn write(folder: &Path, form: Form, batches: &[RecordBatch]) -> PathBuf {
    let path = folder.join(form.file_name());
    write_as(&path, form, batches);
    path
}

/// Writes batches of one schema to `path`.
pub(crate) fn write_as(path: &Path, form: Form, batches: &[RecordBatch]) {
    let (file, schema) = (File::create(path).unwrap(), batches[0].schema());
    let compression = match form {
        Form::ArrowLz4 => Some(CompressionType::LZ4_FRAME),
        Form::ArrowZstd => Some(CompressionType::ZSTD),
        _ => None,
    };
    match form {
        Form::Parquet => {
            let mut writer = ArrowWriter::try_new(file, schema, None).unwrap();
            for batch in batches {
                writer.write(batch).unwrap();
                // A row group of its own, so that files have several.
                writer.flush().unwrap();
            }
            writer.close().unwrap();
        }
        Form::ArrowStream => {
            let mut writer = StreamWriter::try_new(file, &schema).unwrap();
            batches.iter().for_each(|batch| writer.write(batch).unwrap());
            writer.finish().unwrap();
        }
        Form::Arrow | Form::ArrowLz4 | Form::ArrowZstd => {
            let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
            let mut writer = FileWriter::try_new_with_options(file, &schema, options).unwrap();
            batches.iter().for_each(|batch| writer.write(batch).unwrap());
            writer.finish().unwrap();
        }
    }
}

/// Changes a file as far as its time tells.
pub(crate) fn touch(path: &Path) -> File {
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    file
}

/// Opens the file at `path`.
pub(crate) fn opened(path: &Path) -> Result<Arc<dyn Source>, crate::DataError> {
    open(path, &SourceOptions::default()).map(|opened| opened.source)
}

/// Reads all columns of the file at `path`.
pub(crate) fn read(path: &Path) -> Vec<RecordBatch> {
    let file = opened(path).unwrap();
    let positions: Vec<usize> = (0..file.schema().fields().len()).collect();
    file.batches(&positions, DECODE_ROWS).unwrap().map(Result::unwrap).collect()
}

/// Rows after their number and that of their components.
pub(crate) fn bin(rows: u32, dim: u32, data: &[u8]) -> Vec<u8> {
    [&rows.to_le_bytes()[..], &dim.to_le_bytes(), data].concat()
}

/// Rows of `row_bytes`, each after its number of components.
pub(crate) fn vecs(dim: u32, row_bytes: usize, data: &[u8]) -> Vec<u8> {
    data.chunks(row_bytes).flat_map(|row| [&dim.to_le_bytes()[..], row].concat()).collect()
}

/// An npy file of version 1.
pub(crate) fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    let header = format!("{header:<117}\n");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat()
}

pub(crate) fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// A member of a zip file; what it claims may differ from what it holds.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) method: u16,
    pub(crate) flags: u16,
    pub(crate) stored: Vec<u8>,
    pub(crate) claimed_length: u64,
    pub(crate) crc: u32,
}

impl Member {
    pub(crate) fn stored(name: &str, data: &[u8]) -> Self {
        let mut crc = Crc::new();
        crc.update(data);
        Self {
            name: name.into(),
            method: 0,
            flags: 0,
            stored: data.into(),
            claimed_length: data.len() as u64,
            crc: crc.sum(),
        }
    }

    pub(crate) fn deflated(name: &str, data: &[u8]) -> Self {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(data).unwrap();
        Self { method: 8, stored: encoder.finish().unwrap(), ..Self::stored(name, data) }
    }

    /// The fields that both headers have; sizes beyond 32 bits stand in the extra field.
    fn fields(&self) -> (Vec<u8>, Vec<u8>) {
        let compressed_length = self.stored.len() as u32;
        let is_long = self.claimed_length >= u64::from(u32::MAX);
        let length = if is_long { u32::MAX } else { self.claimed_length as u32 };
        let extra = if is_long {
            let compressed_length = u64::from(compressed_length);
            [
                &[1, 0, 16, 0][..],
                &self.claimed_length.to_le_bytes(),
                &compressed_length.to_le_bytes(),
            ]
            .concat()
        } else {
            Vec::new()
        };
        let compressed_length = if is_long { u32::MAX } else { compressed_length };
        let fields = [
            &45_u16.to_le_bytes()[..],
            &self.flags.to_le_bytes(),
            &self.method.to_le_bytes(),
            &[0; 4],
            &self.crc.to_le_bytes(),
            &compressed_length.to_le_bytes(),
            &length.to_le_bytes(),
            &(self.name.len() as u16).to_le_bytes(),
            &(extra.len() as u16).to_le_bytes(),
        ];
        (fields.concat(), extra)
    }
}

/// A zip file of some members.
pub(crate) fn zip(members: &[Member]) -> Vec<u8> {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for member in members {
        let (fields, extra) = member.fields();
        let start = bytes.len() as u32;
        for part in [b"PK\x03\x04", &fields[..], member.name.as_bytes(), &extra, &member.stored] {
            bytes.extend_from_slice(part);
        }
        // Comment length, disk, two kinds of attributes, place.
        let attributes = [&[0; 10][..], &start.to_le_bytes()].concat();
        let name = member.name.as_bytes();
        for part in [b"PK\x01\x02\x2D\x00", &fields[..], &attributes, name, &extra] {
            directory.extend_from_slice(part);
        }
    }
    let count = (members.len() as u16).to_le_bytes();
    let directory_start = (bytes.len() as u32).to_le_bytes();
    let directory_length = (directory.len() as u32).to_le_bytes();
    bytes.extend(directory);
    for part in [b"PK\x05\x06", &[0; 4][..], &count, &count, &directory_length, &directory_start] {
        bytes.extend_from_slice(part);
    }
    bytes.extend([0, 0]);
    bytes
}
