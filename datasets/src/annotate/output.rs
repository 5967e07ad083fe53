//! [`Copy`]: the annotated copy as it is written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use super::error::AnnotateError;
use super::schema::vector_fields;
use crate::columns::ALIGNMENT;
use crate::parquet::{ParquetOutput, WriteTableError, key_values};
use crate::publish::NewFile;
use crate::schema::BATCH_ROWS;
use crate::vector_file::VectorFormat;

/// Extensions that tell a format.
const EXTENSIONS: &str = ".parquet, .pq, .arrow, .ipc or .feather";
/// Encoded bytes that a row group may hold in memory.
const GROUP_BYTES_MAX: usize = 128 << 20;

/// What the copy is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CopyFormat {
    Arrow,
    Parquet,
}

impl CopyFormat {
    pub(super) fn of(path: &Path) -> Result<Self, AnnotateError> {
        match VectorFormat::of_extension(path) {
            Some(VectorFormat::Columns) => Ok(Self::Arrow),
            Some(VectorFormat::Parquet) => Ok(Self::Parquet),
            Some(_) | None => {
                Err(AnnotateError::OutputFormat { path: path.into(), expected: EXTENSIONS })
            }
        }
    }
}

/// A file of record batches on its way to its place.
pub(super) enum CopyFile {
    Arrow { writer: Box<FileWriter<NewFile>>, path: PathBuf },
    Parquet(Box<ParquetOutput>),
}

impl CopyFile {
    pub(super) fn create(
        path: &Path,
        format: CopyFormat,
        schema: &SchemaRef,
    ) -> Result<Self, WriteTableError> {
        if format == CopyFormat::Parquet {
            let properties =
                properties(schema).map_err(|error| WriteTableError::of_parquet(path, error))?;
            let output = ParquetOutput::create(path, Arc::clone(schema), properties)?;
            return Ok(Self::Parquet(Box::new(output)));
        }
        let file = NewFile::create(path)
            .map_err(|source| WriteTableError::Write { path: path.into(), source })?;
        let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5);
        let writer = options
            .and_then(|options| FileWriter::try_new_with_options(file, schema, options))
            .map_err(|error| of_arrow(path, error))?;
        Ok(Self::Arrow { writer: Box::new(writer), path: path.into() })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteTableError> {
        match self {
            Self::Arrow { writer, path } => {
                writer.write(batch).map_err(|error| of_arrow(path, error))
            }
            Self::Parquet(output) => output.write(batch),
        }
    }

    /// Writes what is left and publishes the file.
    pub(super) fn finish(self) -> Result<(), WriteTableError> {
        match self {
            Self::Arrow { writer, path } => {
                let file = writer.into_inner().map_err(|error| of_arrow(&path, error))?;
                let published = file.publish().map(drop);
                published.map_err(|source| WriteTableError::Write { path, source })
            }
            Self::Parquet(output) => output.finish(None),
        }
    }
}

fn of_arrow(path: &Path, error: ArrowError) -> WriteTableError {
    match error {
        ArrowError::IoError(_, source) => WriteTableError::Write { path: path.into(), source },
        other => WriteTableError::Encode { path: path.into(), reason: other.to_string() },
    }
}

fn properties(schema: &Schema) -> Result<WriterProperties, parquet::errors::ParquetError> {
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(BATCH_ROWS))
        .set_max_row_group_bytes(Some(GROUP_BYTES_MAX))
        .set_key_value_metadata(Some(key_values(schema.metadata())));
    // Components hardly ever repeat: a dictionary and statistics of them only cost time.
    let leaves = ArrowSchemaConverter::new().convert(schema)?;
    for leaf in leaves.columns() {
        let path = leaf.path();
        let root = path.parts().first();
        if vector_fields(schema).any(|field| Some(field.name()) == root) {
            builder = builder
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_statistics_enabled(path.clone(), EnabledStatistics::None)
                .set_column_encoding(path.clone(), Encoding::PLAIN);
        }
    }
    Ok(builder.build())
}
