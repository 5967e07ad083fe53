//! Tables as Arrow, Parquet or JSON Lines: [`TableWriter`], and [`TableFile`], a file of one that
//! appears whole or not at all, as [`VectorsFile`] does, bare vectors in any of their formats.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeStringArray, RecordBatch};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use parquet::arrow::{ArrowSchemaConverter, ArrowWriter};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;
use serde_json::json;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::lines::Lines;
use crate::atomic_file::NewFile;
use crate::catch_panic::catch_panic;
use crate::read::{Layout, Texts, VectorFormat};
use crate::schema::{BATCH_ROWS, key};
use crate::{DataError, npy};

/// Encoded bytes that a row group may hold in memory.
const GROUP_BYTES_MAX: usize = 128 << 20;

/// Rows that are encoded at once as Parquet: Arrow's encoder takes 12 bytes for each component of a
/// list while it works.
pub(crate) const ENCODED_ROWS: usize = 4096;

/// How record batches are encoded.
#[derive(Debug, Clone)]
pub(crate) enum TableEncoding {
    ArrowFile,
    ArrowStream,
    Parquet(Box<WriterProperties>),
    JsonLines,
}

/// Record batches on their way out; of Parquet one row group is in memory.
pub(crate) struct TableWriter<W: Write + Send> {
    /// The name of the output in errors.
    path: PathBuf,
    schema: SchemaRef,
    encoder: Encoder<W>,
}

enum Encoder<W: Write + Send> {
    ArrowFile(Box<FileWriter<W>>),
    ArrowStream(Box<StreamWriter<W>>),
    Parquet(Box<ArrowWriter<W>>),
    JsonLines(Lines<W>),
}

impl<W: Write + Send> TableWriter<W> {
    /// Begins a table of the columns of `schema`, made with [`stored_field`].
    pub(crate) fn new(
        out: W,
        path: &Path,
        schema: &SchemaRef,
        encoding: TableEncoding,
    ) -> Result<Self, DataError> {
        let encoder = match encoding {
            TableEncoding::ArrowFile => {
                FileWriter::try_new(out, schema).map(|writer| Encoder::ArrowFile(Box::new(writer)))
            }
            TableEncoding::ArrowStream => StreamWriter::try_new(out, schema)
                .map(|writer| Encoder::ArrowStream(Box::new(writer))),
            TableEncoding::Parquet(properties) => {
                let writer = ArrowWriter::try_new(out, Arc::clone(schema), Some(*properties));
                let writer = writer.map_err(|error| DataError::of_parquet(path, error))?;
                Ok(Encoder::Parquet(Box::new(writer)))
            }
            TableEncoding::JsonLines => Ok(Encoder::JsonLines(Lines::new(out, schema))),
        };
        let encoder = encoder.map_err(|error| DataError::of_arrow(path, error))?;
        Ok(Self { path: path.into(), schema: Arc::clone(schema), encoder })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Puts columns made with [`stored_column`] together.
    pub(crate) fn batch(&self, columns: Vec<ArrayRef>) -> Result<RecordBatch, DataError> {
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|error| DataError::of_arrow(&self.path, error))
    }

    /// Appends a batch of the table's columns.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), DataError> {
        let Self { path, encoder, .. } = self;
        unless_given_up(path, || match encoder {
            Encoder::ArrowFile(writer) => {
                writer.write(batch).map_err(|error| DataError::of_arrow(path, error))
            }
            Encoder::ArrowStream(writer) => {
                writer.write(batch).map_err(|error| DataError::of_arrow(path, error))
            }
            Encoder::Parquet(writer) => {
                (0..batch.num_rows()).step_by(ENCODED_ROWS).try_for_each(|first| {
                    let rows = ENCODED_ROWS.min(batch.num_rows() - first);
                    let written = writer.write(&batch.slice(first, rows));
                    written.map_err(|error| DataError::of_parquet(path, error))
                })
            }
            Encoder::JsonLines(lines) => {
                lines.write(batch).map_err(|source| DataError::io(path, source))
            }
        })
    }

    /// Writes the remaining rows, with [`key::ROW_COUNT`] where there is a count and the format has
    /// a place for it.
    pub(crate) fn into_inner(self, row_count: Option<u64>) -> Result<W, DataError> {
        let Self { path, encoder, .. } = self;
        let row_count = row_count.map(|rows| rows.to_string());
        let out = match encoder {
            Encoder::ArrowFile(mut writer) => {
                if let Some(rows) = row_count {
                    writer.write_metadata(key::ROW_COUNT, rows);
                }
                writer.into_inner()
            }
            Encoder::ArrowStream(writer) => writer.into_inner(),
            Encoder::Parquet(mut writer) => {
                if row_count.is_some() {
                    let pair = KeyValue::new(key::ROW_COUNT.to_owned(), row_count);
                    writer.append_key_value_metadata(pair);
                }
                return writer.into_inner().map_err(|error| DataError::of_parquet(&path, error));
            }
            Encoder::JsonLines(lines) => Ok(lines.into_inner()),
        };
        out.map_err(|error| DataError::of_arrow(&path, error))
    }
}

/// A table on its way to its place.
pub(crate) type TableFile = TableWriter<NewFile>;

impl TableFile {
    /// Begins a file of the columns of `schema`, made with [`stored_field`], in a format that
    /// [holds tables](VectorFormat::is_table).
    pub(crate) fn create(
        path: &Path,
        format: VectorFormat,
        schema: &SchemaRef,
    ) -> Result<Self, DataError> {
        let encoding = match format {
            VectorFormat::Columns => TableEncoding::ArrowFile,
            VectorFormat::Jsonl => TableEncoding::JsonLines,
            _ => {
                check_types(path, schema)?;
                let properties = unless_given_up(path, || {
                    properties(schema).map_err(|error| DataError::of_parquet(path, error))
                });
                TableEncoding::Parquet(Box::new(properties?))
            }
        };
        Self::begin(NewFile::create(path), path, schema, encoding)
    }

    /// Begins in a new file, which errors call `path`.
    pub(crate) fn begin(
        file: io::Result<NewFile>,
        path: &Path,
        schema: &SchemaRef,
        encoding: TableEncoding,
    ) -> Result<Self, DataError> {
        let file = file.map_err(|source| DataError::io(path, source))?;
        Self::new(file, path, schema, encoding)
    }

    /// Writes the remaining rows and publishes the file.
    pub(crate) fn finish(self, row_count: Option<u64>) -> Result<File, DataError> {
        let path = self.path.clone();
        self.into_inner(row_count)?.publish().map_err(|source| DataError::io(&path, source))
    }
}

/// Runs an encoder; an assert of it about a rare type becomes an error.
fn unless_given_up<T>(
    path: &Path,
    encode: impl FnOnce() -> Result<T, DataError>,
) -> Result<T, DataError> {
    catch_panic(encode).unwrap_or_else(|found| Err(DataError::encode(path, found)))
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
    let mut builder = zstd_properties(schema.metadata())
        .set_max_row_group_row_count(Some(BATCH_ROWS))
        .set_max_row_group_bytes(Some(GROUP_BYTES_MAX));
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

/// Stores the components of vectors as they are. They hardly ever repeat: a dictionary and
/// statistics of them only cost time, and compressing them takes several times as long as all else
/// for a few hundredths of the file.
pub(crate) fn plain_components(
    properties: WriterPropertiesBuilder,
    components: ColumnPath,
) -> WriterPropertiesBuilder {
    properties
        .set_column_compression(components.clone(), Compression::UNCOMPRESSED)
        .set_column_dictionary_enabled(components.clone(), false)
        .set_column_statistics_enabled(components.clone(), EnabledStatistics::None)
        .set_column_encoding(components, Encoding::PLAIN)
}

/// Compresses with zstd and writes the metadata in the order of their keys, for readers that know
/// no Arrow schema.
pub(crate) fn zstd_properties(metadata: &HashMap<String, String>) -> WriterPropertiesBuilder {
    let pairs: BTreeMap<&String, &String> = metadata.iter().collect();
    let pairs = pairs.into_iter().map(|(key, value)| KeyValue::new(key.clone(), value.clone()));
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(pairs.collect()))
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
pub(crate) fn stored_field(field: Field, format: VectorFormat) -> Field {
    if format == VectorFormat::Columns && is_text_dictionary(field.data_type()) {
        return field.with_data_type(DataType::LargeUtf8);
    }
    field
}

/// Returns the values of a column as they are stored.
pub(crate) fn stored_column(column: &ArrayRef, format: VectorFormat) -> ArrayRef {
    if format != VectorFormat::Columns {
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

/// The name of tensors and arrays inside of a file.
const NAME: &str = "vectors";
/// The data begin at a multiple of this, so that they can be used where they are mapped.
const DATA_ALIGNMENT: usize = 64;
/// Bytes gathered where every vector has its length before it.
const GATHERED_BYTES: usize = 1 << 20;
/// An archive's member that may be longer needs long lengths.
const MEMBER_BYTES_MAX: u64 = u32::MAX as u64 / 2;

/// A file of bare vectors with a known number of rows.
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
        layout: Layout,
        metadata: &HashMap<String, String>,
    ) -> Result<Self, DataError> {
        let start = || -> io::Result<Self> {
            let file = NewFile::create(path)?;
            let sink = match format {
                VectorFormat::Npz => Sink::Archive(Box::new(archive(file, layout)?)),
                _ => Sink::Plain(file),
            };
            let has_lengths =
                matches!(format, VectorFormat::Fvecs | VectorFormat::Ivecs | VectorFormat::Bvecs);
            let row_prefix = has_lengths.then(|| (layout.dim as u32).to_le_bytes());
            let row_bytes = layout.row_bytes();
            let mut vectors = Self { sink, path: path.into(), row_bytes, row_prefix };
            vectors.write_bytes(&header(format, layout, metadata))?;
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
fn archive(file: NewFile, layout: Layout) -> io::Result<ZipWriter<NewFile>> {
    let mut archive = ZipWriter::new(file);
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .with_alignment(DATA_ALIGNMENT as u16)
        .large_file(layout.data_bytes() > MEMBER_BYTES_MAX);
    archive.start_file(format!("{NAME}.npy"), options)?;
    Ok(archive)
}

/// Returns the header of a file of bare vectors; that of an archive is its member's.
fn header(format: VectorFormat, layout: Layout, metadata: &HashMap<String, String>) -> Vec<u8> {
    match format {
        VectorFormat::Npy | VectorFormat::Npz => {
            npy::header_bytes(layout.rows as u64, layout.dim, layout.component)
        }
        VectorFormat::Safetensors => {
            let tensor = json!({
                "dtype": layout.component.name().to_uppercase(),
                "shape": [layout.rows, layout.dim],
                "data_offsets": [0, layout.data_bytes()],
            });
            let metadata: BTreeMap<&String, &String> = metadata.iter().collect();
            let mut header = json!({ "__metadata__": metadata, NAME: tensor });
            if let (true, Some(header)) = (metadata.is_empty(), header.as_object_mut()) {
                header.remove("__metadata__");
            }
            let mut text = header.to_string().into_bytes();
            text.resize((8 + text.len()).next_multiple_of(DATA_ALIGNMENT) - 8, b' ');
            [&(text.len() as u64).to_le_bytes()[..], &text].concat()
        }
        VectorFormat::Fvecs | VectorFormat::Ivecs | VectorFormat::Bvecs => Vec::new(),
        // More rows than 32 bits count were refused.
        _ => [(layout.rows as u32).to_le_bytes(), (layout.dim as u32).to_le_bytes()].concat(),
    }
}

/// Tells whether two paths lead to one file; a file that does not exist yet is not an input.
pub(super) fn is_same_file(path: &Path, other: &Path) -> bool {
    let resolved = path.canonicalize().and_then(|path| Ok((path, other.canonicalize()?)));
    resolved.is_ok_and(|(path, other)| path == other)
}

/// An output that cannot be written as requested.
pub(super) fn refused(path: &Path, found: &str, advice: &'static str) -> DataError {
    DataError::Output { path: path.into(), found: found.into(), advice: Some(advice) }
}
