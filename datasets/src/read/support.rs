//! Files of every format for tests.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{Field, Schema};
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
