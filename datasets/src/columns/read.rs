//! [`MappedColumns`]: a finished column file, mapped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, Float32Array, RecordBatch, StringArray};
use arrow_buffer::Buffer;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, MetadataVersion};
use arrow_schema::{DataType, Field, SchemaRef};
use memfold_index::{MapError, Mapped, Row, VectorMatrix};

use super::layout::{BlockSpan, PREFIX_BYTES, check_batch, check_field};
use crate::DataError;
use crate::error::ColumnRole;
use crate::schema::{BATCH_ROWS, Column, ColumnSet, ColumnsMeta, key, parsed};

/// The first and last bytes of an Arrow IPC file.
pub(crate) const MAGIC: &[u8] = b"ARROW1";
/// The first bytes of an Arrow IPC stream: the marker of its first message.
pub(crate) const STREAM_START: &[u8] = &[0xFF; 4];
/// Footer length and magic.
const TRAILER_BYTES: usize = 10;

/// A column file in memory: vectors are lent from the map, other columns decoded when asked for.
///
/// Opening reads the footer and the head of each batch, not the rows.
#[derive(Debug, Clone)]
pub struct MappedColumns {
    pub(super) path: PathBuf,
    pub(super) bytes: Buffer,
    pub(super) schema: SchemaRef,
    pub(super) meta: ColumnsMeta,
    pub(super) blocks: Vec<(Block, BlockSpan)>,
    vectors: Vec<Float32Array>,
    row_count: usize,
}

impl MappedColumns {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// When it cannot be mapped, is no column file, or is damaged or misaligned.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        Self::from_mapped(Mapped::open(path).map_err(|error| unmapped(path, error))?, path)
    }

    /// Reads a map; `path` is the name that errors use.
    ///
    /// # Errors
    /// When it is no column file, or is damaged or misaligned.
    pub fn from_mapped(mapped: Mapped, path: &Path) -> Result<Self, DataError> {
        Self::from_buffer(Buffer::from(bytes::Bytes::from_owner(mapped)), path)
    }

    pub(crate) fn from_buffer(bytes: Buffer, path: &Path) -> Result<Self, DataError> {
        let damaged = |found: String| DataError::damaged(path, found);
        let (footer_bytes, data_end) = footer_bytes(&bytes).map_err(|found| {
            DataError::format(path, format!("not a finished Arrow IPC file ({found})"))
        })?;
        let footer = arrow_ipc::root_as_footer(footer_bytes)
            .map_err(|error| damaged(format!("unreadable footer: {error}")))?;
        if footer.version() != MetadataVersion::V5 {
            return Err(damaged(format!("metadata version {:?}, expected V5", footer.version())));
        }
        let (meta, row_count) = read_meta(footer, path)?;
        let schema = Arc::new(meta.arrow_schema());
        let mut blocks = Vec::new();
        for block in footer.recordBatches().iter().flatten() {
            blocks.push((*block, BlockSpan::checked(block, data_end).map_err(damaged)?));
        }
        let columns =
            Self { path: path.into(), bytes, schema, meta, blocks, vectors: vec![], row_count };
        columns.check_blocks()?;
        columns.with_vectors()
    }

    fn check_blocks(&self) -> Result<(), DataError> {
        let mut total = 0;
        for (i, (_, span)) in self.blocks.iter().enumerate() {
            let bytes = &self.bytes[span.start..span.start + span.length];
            let rows = check_batch(bytes, *span, &self.schema)
                .map_err(|what| self.damaged(format!("batch {i}: {what}")))?;
            if i + 1 < self.blocks.len() && rows != BATCH_ROWS {
                let found = format!("batch {i}: {rows} rows, expected {BATCH_ROWS}");
                return Err(self.damaged(found));
            }
            total += rows;
        }
        if total != self.row_count {
            return Err(self.damaged(format!("{total} rows, expected {}", self.row_count)));
        }
        Ok(())
    }

    fn with_vectors(mut self) -> Result<Self, DataError> {
        let vectors = self.decode(&[Column::Vector])?;
        self.vectors = vectors
            .iter()
            .map(|batch| batch.column(0).as_fixed_size_list().values())
            .map(|values| values.as_primitive::<Float32Type>().clone())
            .collect();
        let chunks = self.vectors.iter().map(|chunk| &chunk.values()[..]).collect();
        VectorMatrix::from_chunks(chunks, self.dim())
            .map_err(|error| self.damaged(error.to_string()))?;
        Ok(self)
    }

    /// Decodes some columns of every batch; text is checked to be UTF-8, nothing is copied.
    fn decode(&self, columns: &[Column]) -> Result<Vec<RecordBatch>, DataError> {
        let mut projection = Vec::new();
        for &column in columns {
            let position = self.meta.columns.columns().position(|other| other == column);
            projection.push(position.ok_or_else(|| self.missing(column))?);
        }
        let decoder = FileDecoder::new(Arc::clone(&self.schema), MetadataVersion::V5)
            .with_projection(projection)
            .with_require_alignment(true);
        let decode = |(i, (block, span)): (usize, &(Block, BlockSpan))| {
            let bytes = self.bytes.slice_with_length(span.start, span.length);
            match decoder.read_record_batch(block, &bytes) {
                Ok(Some(batch)) => Ok(batch),
                Ok(None) => Err(self.damaged(format!("batch {i}: empty message"))),
                Err(error) => Err(self.damaged(format!("batch {i}: {error}"))),
            }
        };
        self.blocks.iter().enumerate().map(decode).collect()
    }

    pub(super) fn damaged(&self, found: String) -> DataError {
        DataError::damaged(&self.path, found)
    }

    fn missing(&self, column: Column) -> DataError {
        let names: Vec<&str> = self.meta.columns.columns().map(Column::name).collect();
        let role = match column {
            Column::Text | Column::Lineage => ColumnRole::Text,
            _ => ColumnRole::Id,
        };
        let (expected, found) = (column.name().into(), names.join(", "));
        DataError::NoColumn { path: self.path.clone(), role, expected, found }
    }

    /// Returns what the file says about its rows.
    #[must_use]
    pub const fn meta(&self) -> &ColumnsMeta {
        &self.meta
    }

    /// Returns the number of components of each vector.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.meta.dim as usize
    }

    /// Returns the number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.row_count
    }

    /// Tells whether there are no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    /// Lends the vectors, straight from the map.
    #[must_use]
    pub fn vectors(&self) -> VectorMatrix<'_> {
        let chunks = self.vectors.iter().map(|chunk| &chunk.values()[..]).collect();
        VectorMatrix::from_chunks(chunks, self.dim()).expect("checked when the file was opened")
    }

    /// Returns the ids.
    ///
    /// # Errors
    /// When the file holds bare vectors, or an id is no UTF-8.
    pub fn ids(&self) -> Result<TextColumn, DataError> {
        let batches = self.decode(&[Column::Id])?;
        Ok(TextColumn::new(batches.iter().map(|batch| batch.column(0).as_string().clone())))
    }

    /// Returns the first row with one of the store's row numbers, reading that column only.
    ///
    /// # Errors
    /// When the file holds bare vectors.
    pub fn find_rowid(&self, rowid: i64) -> Result<Option<Row>, DataError> {
        let batches = self.decode(&[Column::Rowid])?;
        let numbers = batches.iter().map(|batch| batch.column(0).as_primitive::<Int64Type>());
        let mut numbers = numbers.flat_map(|numbers| numbers.values().iter());
        // Rows are numbered with 32 bits.
        Ok(numbers.position(|number| *number == rowid).map(|row| Row(row as u32)))
    }

    /// Returns all columns beside the vectors.
    ///
    /// # Errors
    /// When the file holds bare vectors, or a text is no UTF-8.
    pub fn records(&self) -> Result<Records, DataError> {
        let wanted: Vec<Column> = match self.meta.columns {
            // Asking for an id gives the error that names the file.
            ColumnSet::Vectors => vec![Column::Id],
            set => set.columns().filter(|c| !matches!(c, Column::Row | Column::Vector)).collect(),
        };
        Ok(Records::new(self.decode(&wanted)?))
    }
}

/// Says why a file could not be mapped.
pub(super) fn unmapped(path: &Path, error: MapError) -> DataError {
    match error {
        MapError::Open { source, .. } | MapError::Map { source, .. } => DataError::io(path, source),
        other => DataError::format(path, other.to_string()),
    }
}

/// Finds the footer; returns it with the end of the data before it.
fn footer_bytes(bytes: &[u8]) -> Result<(&[u8], usize), String> {
    if bytes.len() < MAGIC.len() + TRAILER_BYTES {
        return Err(format!("{} bytes", bytes.len()));
    }
    if !bytes.starts_with(MAGIC) {
        let head = bytes[..MAGIC.len()].escape_ascii();
        return Err(format!("it begins with \"{head}\""));
    }
    let trailer_start = bytes.len() - TRAILER_BYTES;
    let Some(trailer) = bytes.last_chunk::<TRAILER_BYTES>().filter(|t| t.ends_with(MAGIC)) else {
        let tail = bytes[bytes.len() - MAGIC.len()..].escape_ascii();
        return Err(format!("it ends with \"{tail}\""));
    };
    let length = read_footer_length(*trailer).map_err(|error| error.to_string())?;
    let start = trailer_start.checked_sub(length).filter(|start| *start >= MAGIC.len());
    let start = start.ok_or_else(|| format!("a footer of {length} bytes"))?;
    Ok((&bytes[start..trailer_start], start))
}

/// Reads schema and metadata and checks that the columns are ours.
fn read_meta(
    footer: arrow_ipc::Footer<'_>,
    path: &Path,
) -> Result<(ColumnsMeta, usize), DataError> {
    let other =
        |found: String| DataError::format(path, format!("not a memfold column file ({found})"));
    let invalid = |found: String| DataError::format(path, found);
    let schema = footer.schema().ok_or_else(|| other("no schema".into()))?;
    let fields: Vec<arrow_ipc::Field<'_>> = schema.fields().iter().flatten().collect();
    let names: Vec<&str> = fields.iter().map(|field| field.name().unwrap_or_default()).collect();
    let set = ColumnSet::from_names(&names).ok_or_else(|| {
        let list = names.iter().take(16).map(|name| name.escape_debug().to_string());
        other(format!("columns {}", list.collect::<Vec<_>>().join(", ")))
    })?;
    let get = |wanted: &str| {
        let pairs = schema.custom_metadata().into_iter().chain(footer.custom_metadata());
        pairs.flatten().find(|pair| pair.key() == Some(wanted)).and_then(|pair| pair.value())
    };
    let meta = ColumnsMeta::from_metadata(get, set).map_err(invalid)?;
    for (found, expected) in fields.iter().zip(meta.arrow_schema().fields()) {
        check_field(*found, expected).map_err(other)?;
    }
    Ok((meta, parsed(get, key::ROW_COUNT).map_err(invalid)?))
}

/// A column of text, lent from the map.
#[derive(Debug, Clone)]
pub struct TextColumn {
    batches: Vec<StringArray>,
}

impl TextColumn {
    pub(crate) fn new(batches: impl Iterator<Item = StringArray>) -> Self {
        Self { batches: batches.collect() }
    }

    /// Returns the text at `row`; `None` where it is null.
    ///
    /// # Panics
    /// When `row` is not smaller than the number of rows.
    #[must_use]
    pub fn get(&self, row: Row) -> Option<&str> {
        text(&self.batches[row.index() / BATCH_ROWS], row.index() % BATCH_ROWS)
    }

    /// Returns the texts in row order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        self.batches.iter().flat_map(|batch| batch.iter())
    }
}

/// All columns beside the vectors, lent from the map.
#[derive(Debug, Clone)]
pub struct Records {
    batches: Vec<RecordBatch>,
}

/// One row as read back.
#[derive(Debug, Clone, PartialEq)]
pub struct MappedRecord<'a> {
    /// The store's row number.
    pub rowid: i64,
    /// The store's id.
    pub id: &'a str,
    /// Microseconds since 1970 in UTC.
    pub created_at: Option<i64>,
    /// Categories in the store's order.
    pub categories: Vec<Box<str>>,
    /// As stored.
    pub importance: f64,
    /// How often it was read.
    pub access_count: i64,
    /// Where it came from.
    pub source: &'a str,
    /// The embedding model.
    pub model: &'a str,
    /// The content, where the file has it.
    pub text: Option<&'a str>,
    /// Provenance as JSON, where the file has it.
    pub lineage: Option<&'a str>,
}

impl Records {
    pub(crate) const fn new(batches: Vec<RecordBatch>) -> Self {
        Self { batches }
    }

    /// Returns the record at `row`.
    ///
    /// # Panics
    /// When `row` is not smaller than the number of rows.
    #[must_use]
    pub fn record(&self, row: Row) -> MappedRecord<'_> {
        let batch = &self.batches[row.index() / BATCH_ROWS];
        let i = row.index() % BATCH_ROWS;
        let required = |column| string_at(batch, column, i).expect("the column has no nulls");
        let created_at =
            column(batch, Column::CreatedAt).as_primitive::<TimestampMicrosecondType>();
        let categories = column(batch, Column::Categories).as_list::<i32>().value(i);
        MappedRecord {
            rowid: column(batch, Column::Rowid).as_primitive::<Int64Type>().value(i),
            id: required(Column::Id),
            created_at: created_at.is_valid(i).then(|| created_at.value(i)),
            categories: categories.as_string::<i32>().iter().flatten().map(Into::into).collect(),
            importance: column(batch, Column::Importance).as_primitive::<Float64Type>().value(i),
            access_count: column(batch, Column::AccessCount).as_primitive::<Int64Type>().value(i),
            source: required(Column::Source),
            model: required(Column::Model),
            text: string_at(batch, Column::Text, i),
            lineage: string_at(batch, Column::Lineage, i),
        }
    }
}

fn column(batch: &RecordBatch, column: Column) -> &ArrayRef {
    batch.column_by_name(column.name()).expect("the set was recognised by its column names")
}

fn string_at(batch: &RecordBatch, column: Column, i: usize) -> Option<&str> {
    batch.column_by_name(column.name()).and_then(|array| text(array.as_string(), i))
}

fn text(array: &StringArray, i: usize) -> Option<&str> {
    array.is_valid(i).then(|| array.value(i))
}

impl MappedColumns {
    /// Returns one id, reading that one only.
    ///
    /// # Errors
    /// When the file holds bare vectors, or the cell is damaged or no UTF-8.
    ///
    /// # Panics
    /// When `row` is not smaller than the number of rows.
    pub fn id_at(&self, row: Row) -> Result<&str, DataError> {
        let (buffers, at) = self.buffers(row, Column::Id)?;
        let damaged = || self.damaged(format!("row {}: its id", row.0));
        let offset = |at: usize| {
            let bytes: [u8; 4] = buffers[1].get(4 * at..)?.first_chunk().copied()?;
            usize::try_from(i32::from_le_bytes(bytes)).ok()
        };
        let (start, end) = offset(at).zip(offset(at + 1)).ok_or_else(damaged)?;
        let bytes = buffers[2].get(start..end).ok_or_else(damaged)?;
        std::str::from_utf8(bytes).map_err(|_| damaged())
    }

    /// Returns one of the store's row numbers, reading that one only.
    ///
    /// # Errors
    /// When the file holds bare vectors, or the cell is damaged.
    ///
    /// # Panics
    /// When `row` is not smaller than the number of rows.
    pub fn rowid_at(&self, row: Row) -> Result<i64, DataError> {
        let (buffers, at) = self.buffers(row, Column::Rowid)?;
        let bytes = buffers[1].get(8 * at..).and_then(<[u8]>::first_chunk);
        let damaged = || self.damaged(format!("row {}: its rowid", row.0));
        bytes.map(|bytes| i64::from_le_bytes(*bytes)).ok_or_else(damaged)
    }

    /// Returns the buffers of a column in the batch of a row (the third one empty where it has two), and the row's
    /// place in them.
    fn buffers(&self, row: Row, column: Column) -> Result<([&[u8]; 3], usize), DataError> {
        let position = self.meta.columns.columns().position(|other| other == column);
        let position = position.ok_or_else(|| self.missing(column))?;
        let fields = self.schema.fields();
        let first: usize = fields[..position].iter().map(|field| buffer_count(field)).sum();
        let (number, at) = (row.index() / BATCH_ROWS, row.index() % BATCH_ROWS);
        let (_, span) = self.blocks[number];
        let damaged = || self.damaged(format!("batch {number}: its header"));
        let bytes = &self.bytes[span.start..span.start + span.length];
        let (head, body) = bytes.split_at_checked(span.metadata_length).ok_or_else(damaged)?;
        let message = head.get(PREFIX_BYTES..).ok_or_else(damaged)?;
        let message = arrow_ipc::root_as_message(message).map_err(|_| damaged())?;
        let listed = message.header_as_record_batch().and_then(|batch| batch.buffers());
        let listed = listed.ok_or_else(damaged)?;
        let buffer = |number: usize| {
            let buffer = (number < listed.len()).then(|| listed.get(number))?;
            let (start, length) = (buffer.offset(), buffer.length());
            let start = usize::try_from(start).ok()?;
            body.get(start..start.checked_add(usize::try_from(length).ok()?)?)
        };
        let mut buffers = [&[][..]; 3];
        for (number, place) in buffers.iter_mut().take(buffer_count(&fields[position])).enumerate()
        {
            *place = buffer(first + number).ok_or_else(damaged)?;
        }
        Ok((buffers, at))
    }
}

/// Returns how many buffers a column of our schema has.
fn buffer_count(field: &Field) -> usize {
    match field.data_type() {
        DataType::Utf8 => 3,
        DataType::List(item) => 2 + buffer_count(item),
        DataType::FixedSizeList(item, _) => 1 + buffer_count(item),
        _ => 2,
    }
}
