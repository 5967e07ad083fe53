//! [`TableFile`]: record batches into an Arrow or Parquet file that appears whole or not at all.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeStringArray, RecordBatch};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use parquet::arrow::ArrowSchemaConverter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::DataError;
use crate::atomic_file::NewFile;
use crate::columns::ALIGNMENT;
use crate::guarded::guarded;
use crate::parquet::{ParquetOutput, key_values, plain_components};
use crate::read::Texts;
use crate::schema::{BATCH_ROWS, key};

/// Encoded bytes that a row group may hold in memory.
const GROUP_BYTES_MAX: usize = 128 << 20;

/// What a table is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableFormat {
    Arrow,
    Parquet,
}

/// A file of record batches on its way to its place.
pub(crate) enum TableFile {
    Arrow { writer: Box<FileWriter<NewFile>>, path: PathBuf },
    Parquet(Box<ParquetOutput>),
}

impl TableFile {
    /// Begins a file of the columns of `schema`, made with [`stored_field`].
    pub(crate) fn create(
        path: &Path,
        format: TableFormat,
        schema: &SchemaRef,
    ) -> Result<Self, DataError> {
        if format == TableFormat::Parquet {
            check_types(path, schema)?;
            let properties = unless_given_up(path, || {
                properties(schema).map_err(|error| DataError::of_parquet(path, error))
            })?;
            let output = ParquetOutput::create(path, Arc::clone(schema), properties)?;
            return Ok(Self::Parquet(Box::new(output)));
        }
        let file = NewFile::create(path).map_err(|source| DataError::io(path, source))?;
        let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5);
        let writer = options
            .and_then(|options| FileWriter::try_new_with_options(file, schema, options))
            .map_err(|error| DataError::of_arrow(path, error))?;
        Ok(Self::Arrow { writer: Box::new(writer), path: path.into() })
    }

    /// Appends a batch whose columns were made with [`stored_column`].
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), DataError> {
        match self {
            Self::Arrow { writer, path } => unless_given_up(path, || {
                writer.write(batch).map_err(|error| DataError::of_arrow(path, error))
            }),
            Self::Parquet(output) => {
                let path = output.path().to_owned();
                unless_given_up(&path, || output.write(batch))
            }
        }
    }

    /// Writes what is left, and [`key::ROW_COUNT`] where there is a count, and publishes the file.
    pub(crate) fn finish(self, row_count: Option<u64>) -> Result<(), DataError> {
        let row_count = row_count.map(|rows| rows.to_string());
        match self {
            Self::Arrow { mut writer, path } => {
                if let Some(rows) = row_count {
                    writer.write_metadata(key::ROW_COUNT, rows);
                }
                let file =
                    writer.into_inner().map_err(|error| DataError::of_arrow(&path, error))?;
                let published = file.publish().map(drop);
                published.map_err(|source| DataError::io(&path, source))
            }
            Self::Parquet(output) => output
                .finish(row_count.map(|rows| KeyValue::new(key::ROW_COUNT.to_owned(), Some(rows)))),
        }
    }
}

/// Runs an encoder; an assert of it about a rare type becomes an error.
fn unless_given_up<T>(
    path: &Path,
    encode: impl FnOnce() -> Result<T, DataError>,
) -> Result<T, DataError> {
    guarded(encode).unwrap_or_else(|found| Err(DataError::encode(path, found)))
}

/// Refuses types that Parquet has no form for and its encoder does not expect.
fn check_types(path: &Path, schema: &Schema) -> Result<(), DataError> {
    match schema.fields().iter().find(|field| has_union(field.data_type())) {
        None => Ok(()),
        Some(field) => {
            let found =
                format!("column {:?} is a union, which Parquet does not hold", field.name());
            Err(DataError::encode(path, found))
        }
    }
}

fn has_union(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_union(field.data_type())),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::Map(item, _)
        | DataType::RunEndEncoded(_, item) => has_union(item.data_type()),
        _ => false,
    }
}

fn properties(schema: &Schema) -> Result<WriterProperties, parquet::errors::ParquetError> {
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(BATCH_ROWS))
        .set_max_row_group_bytes(Some(GROUP_BYTES_MAX))
        .set_key_value_metadata(Some(key_values(schema.metadata())));
    let leaves = ArrowSchemaConverter::new().convert(schema)?;
    for leaf in leaves.columns() {
        let path = leaf.path();
        let root = path.parts().first();
        if vector_fields(schema).any(|field| Some(field.name()) == root) {
            builder = plain_components(builder, path.clone());
        }
    }
    Ok(builder.build())
}

/// Names the fields of `schema` that hold vectors.
fn vector_fields(schema: &Schema) -> impl Iterator<Item = &FieldRef> {
    schema.fields().iter().filter(|field| match field.data_type() {
        DataType::List(item) | DataType::LargeList(item) => item.data_type().is_floating(),
        DataType::FixedSizeList(item, _) => item.data_type().is_numeric(),
        DataType::FixedSizeBinary(_) => true,
        _ => false,
    })
}

/// Tells whether a column is a dictionary of texts.
fn is_text_dictionary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Dictionary(_, values)
        if matches!(**values, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View))
}

/// Returns the field as it is stored: an Arrow file has one dictionary for each column, but each
/// input, or part of it, brings its own.
pub(crate) fn stored_field(field: Field, format: TableFormat) -> Field {
    if format == TableFormat::Arrow && is_text_dictionary(field.data_type()) {
        return field.with_data_type(DataType::LargeUtf8);
    }
    field
}

/// Returns the values of a column as they are stored.
pub(crate) fn stored_column(column: &ArrayRef, format: TableFormat) -> ArrayRef {
    if format != TableFormat::Arrow {
        return Arc::clone(column);
    }
    match column.data_type() {
        // A portion of views would take all texts of its batch along.
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        dictionary if is_text_dictionary(dictionary) => match Texts::of(column) {
            Some(texts) => {
                Arc::new((0..column.len()).map(|i| texts.get(i)).collect::<LargeStringArray>())
            }
            None => Arc::clone(column),
        },
        _ => Arc::clone(column),
    }
}
