//! Mapped columns: Arrow IPC, uncompressed, 64-byte aligned, read without a copy.
//!
//! [`ColumnsWriter`] writes them in batches of 65,536 rows with bounded memory; [`MappedColumns`]
//! maps a finished file and gives its vectors as a [`memfold_index::VectorMatrix`].

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, Float64Builder, Int64Builder, ListBuilder, StringBuilder,
    TimestampMicrosecondBuilder, make_builder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Float32Array, RecordBatch, StringArray, UInt32Array,
};
use arrow_buffer::Buffer;
use arrow_schema::{DataType, Field, Schema};
use memfold_index::{MapError, Mapped, Row, VectorMatrix};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use crate::DataError;
use crate::atomic_file::NewFile;
use crate::error::{ColumnRole, VectorFault};
use crate::input::InputBytes;
use crate::read::{ArrowFile, Source};
use crate::schema::{BATCH_ROWS, Column, ColumnSet, ColumnsMeta, component_field, key, parsed};
use crate::write::{ENCODED_ROWS, TableEncoding, TableFile, plain_components, zstd_properties};

/// Columns named in an error.
const COLUMNS_SHOWN: usize = 16;

/// A column file in memory: vectors are read from the map, other columns decoded when they are
/// needed.
///
/// Opening reads the footer and the head of each batch, not the rows.
#[derive(Debug, Clone)]
pub struct MappedColumns {
    file: ArrowFile,
    meta: ColumnsMeta,
    vectors: Vec<Float32Array>,
}

impl MappedColumns {
    /// Maps the file at `path`.
    ///
    /// # Errors
    /// When it cannot be mapped, is not a column file, or is damaged or misaligned.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        Self::from_mapped(Mapped::open(path).map_err(|error| unmapped(path, error))?, path)
    }

    /// Reads a map; `path` is the name that errors use.
    ///
    /// # Errors
    /// When it is not a column file, or is damaged or misaligned.
    pub fn from_mapped(mapped: Mapped, path: &Path) -> Result<Self, DataError> {
        Self::from_buffer(Buffer::from(bytes::Bytes::from_owner(mapped)), path)
    }

    pub(crate) fn from_buffer(bytes: Buffer, path: &Path) -> Result<Self, DataError> {
        let file = ArrowFile::open(InputBytes::in_memory(path, bytes))?;
        let (meta, row_count) = read_meta(&file).map_err(|found| DataError::format(path, found))?;
        let mut columns = Self { file, meta, vectors: vec![] };
        columns.check_rows(row_count)?;
        let vectors = columns.decode(&[Column::Vector])?;
        let vectors = vectors.iter().map(|batch| batch.column(0).as_fixed_size_list().values());
        columns.vectors =
            vectors.map(|values| values.as_primitive::<Float32Type>().clone()).collect();
        columns.matrix().map_err(|found| columns.damaged(found))?;
        Ok(columns)
    }

    /// Checks that all batches but the last are full, and that all rows are there.
    fn check_rows(&self, row_count: usize) -> Result<(), DataError> {
        let last = self.file.batch_rows().count().saturating_sub(1);
        let is_good =
            |(i, rows)| rows == BATCH_ROWS || i == last && (1..BATCH_ROWS).contains(&rows);
        if let Some((i, rows)) = self.file.batch_rows().enumerate().find(|found| !is_good(*found)) {
            return Err(self.damaged(format!("batch {i}: {rows} rows, expected {BATCH_ROWS}")));
        }
        if self.len() != row_count {
            return Err(self.damaged(format!("{} rows, expected {row_count}", self.len())));
        }
        Ok(())
    }

    /// Decodes some columns of every batch; text is checked to be UTF-8, nothing is copied.
    fn decode(&self, columns: &[Column]) -> Result<Vec<RecordBatch>, DataError> {
        let positions = columns.iter().map(|column| self.position(*column));
        self.file.decode_in_place(&positions.collect::<Result<Vec<usize>, _>>()?)
    }

    fn position(&self, column: Column) -> Result<usize, DataError> {
        let position = self.meta.columns.columns().position(|other| other == column);
        position.ok_or_else(|| self.missing(column))
    }

    fn matrix(&self) -> Result<VectorMatrix<'_>, String> {
        let chunks = self.vectors.iter().map(|chunk| &chunk.values()[..]).collect();
        VectorMatrix::from_chunks(chunks, self.dim()).map_err(|error| error.to_string())
    }

    fn path(&self) -> &Path {
        self.file.bytes().path()
    }

    fn damaged(&self, found: String) -> DataError {
        DataError::damaged(self.path(), found)
    }

    fn missing(&self, column: Column) -> DataError {
        let names: Vec<&str> = self.meta.columns.columns().map(Column::name).collect();
        DataError::NoColumn {
            path: self.path().into(),
            role: ColumnRole::Id,
            expected: column.name().into(),
            found: names.join(", "),
        }
    }

    /// Returns the file's metadata about its rows.
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
    pub fn len(&self) -> usize {
        self.file.row_count()
    }

    /// Tells whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the vectors, straight from the map.
    #[must_use]
    pub fn vectors(&self) -> VectorMatrix<'_> {
        self.matrix().expect("checked when the file was opened")
    }

    /// Returns the ids.
    ///
    /// # Errors
    /// When the file holds bare vectors, or an id is not UTF-8.
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
}

/// Says why a file could not be mapped.
fn unmapped(path: &Path, error: MapError) -> DataError {
    match error {
        MapError::Open { source, .. } | MapError::Map { source, .. } => DataError::io(path, source),
        other => DataError::format(path, other.to_string()),
    }
}

/// Reads the metadata and the stated number of rows, and checks that the columns are ours.
fn read_meta(file: &ArrowFile) -> Result<(ColumnsMeta, usize), String> {
    let other = |found: String| format!("not a memfold column file ({found})");
    let schema = file.schema();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let set = ColumnSet::from_names(&names).ok_or_else(|| {
        let shown = names.iter().take(COLUMNS_SHOWN).map(|name| name.escape_debug().to_string());
        other(format!("columns {}", shown.collect::<Vec<_>>().join(", ")))
    })?;
    let get = |wanted: &str| {
        let found = schema.metadata().get(wanted).or_else(|| file.stated().get(wanted));
        found.map(String::as_str)
    };
    let meta = ColumnsMeta::from_metadata(get, set)?;
    for (found, expected) in schema.fields().iter().zip(meta.arrow_schema().fields()) {
        if found != expected {
            let kind = |field: &Field| {
                let null = if field.is_nullable() { " or null" } else { "" };
                format!("{}{null}", field.data_type())
            };
            let (name, found, expected) = (found.name(), kind(found), kind(expected));
            return Err(other(format!("column {name} is {found}, expected {expected}")));
        }
    }
    Ok((meta, parsed(get, key::ROW_COUNT)?))
}

/// A column of text, in the map.
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
        let (batch, i) = (&self.batches[row.index() / BATCH_ROWS], row.index() % BATCH_ROWS);
        batch.is_valid(i).then(|| batch.value(i))
    }

    /// Returns the texts in row order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        self.batches.iter().flat_map(|batch| batch.iter())
    }
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

    /// Returns the buffers of a column in the batch of a row (the third one empty where it has
    /// two), and the row's place in them.
    fn buffers(&self, row: Row, column: Column) -> Result<([&[u8]; 3], usize), DataError> {
        let position = self.position(column)?;
        let fields = self.file.schema().fields();
        let first: usize = fields[..position].iter().map(|field| buffer_count(field)).sum();
        let (number, at) = (row.index() / BATCH_ROWS, row.index() % BATCH_ROWS);
        let buffers = self.file.buffers(number, first, buffer_count(&fields[position]));
        let damaged = || self.damaged(format!("batch {number}: its header"));
        buffers.map(|buffers| (buffers, at)).ok_or_else(damaged)
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

/// One row to be written.
#[derive(Debug, Clone, Copy, Default)]
pub struct ColumnRecord<'a> {
    /// The store's row number.
    pub rowid: i64,
    /// The store's id.
    pub id: &'a str,
    /// Microseconds since 1970 in UTC; `None` where unreadable.
    pub created_at: Option<i64>,
    /// Categories in the store's order.
    pub categories: &'a [Box<str>],
    /// As stored.
    pub importance: f64,
    /// How often it was read.
    pub access_count: i64,
    /// Where it came from.
    pub source: &'a str,
    /// The embedding model.
    pub model: &'a str,
    /// The content; written only where the file has a text column.
    pub text: Option<&'a str>,
    /// Provenance as JSON; written only where the file has a lineage column.
    pub lineage: Option<&'a str>,
    /// The vector: finite, of the file's dimension.
    pub vector: &'a [f32],
}

/// Writes the columns of [`crate::schema`] as a column file in batches of 65,536 rows, or as
/// Parquet in row groups of as many, all but the vectors compressed with zstd; one of them is in
/// memory.
///
/// # Examples
/// ```
/// use memfold_datasets::{ColumnsMeta, ColumnsWriter, Corpus, CorpusOptions};
///
/// let folder = tempfile::tempdir()?;
/// let mut writer = ColumnsWriter::create_unlinked(folder.path(), &ColumnsMeta::vectors(2))?;
/// writer.push_vector(&[0.6, 0.8])?;
/// let columns = writer.finish()?;
/// assert_eq!(columns.vectors().vector(memfold_index::Row(0)), [0.6, 0.8]);
///
/// let path = folder.path().join("vectors.parquet");
/// let mut writer = ColumnsWriter::create_parquet(&path, &ColumnsMeta::vectors(2))?;
/// writer.push_vector(&[0.6, 0.8])?;
/// writer.publish()?;
/// let corpus = Corpus::open(&[path], &CorpusOptions::new(folder.path()))?;
/// assert_eq!(corpus.matrix().vector(memfold_index::Row(0)), [0.6, 0.8]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ColumnsWriter {
    file: TableFile,
    dim: u32,
    /// Rows of a full batch; only the last one has fewer.
    batch_rows: u32,
    /// The first row of the batch that is gathered.
    first_row: u32,
    row_count: u32,
    vectors: Vec<f32>,
    fields: FieldBuilders,
}

impl ColumnsWriter {
    /// Begins a file that takes its place at `path` when finished.
    ///
    /// # Errors
    /// When the dimension is out of range or the folder cannot be written.
    pub fn create(path: &Path, meta: &ColumnsMeta) -> Result<Self, DataError> {
        Self::start(NewFile::create(path), path, meta, false)
    }

    /// Begins a Parquet file that takes its place at `path` when published.
    ///
    /// # Errors
    /// When the dimension is out of range or the folder cannot be written.
    pub fn create_parquet(path: &Path, meta: &ColumnsMeta) -> Result<Self, DataError> {
        Self::start(NewFile::create(path), path, meta, true)
    }

    /// Begins in a new file, which takes its place when finished; as Parquet if requested.
    ///
    /// # Errors
    /// When the dimension is out of range or the file cannot be written.
    pub fn create_in(
        file: NewFile,
        meta: &ColumnsMeta,
        is_parquet: bool,
    ) -> Result<Self, DataError> {
        let path = file.path().to_owned();
        Self::start(Ok(file), &path, meta, is_parquet)
    }

    /// Begins a file without a name in `folder`; only the result of [`finish`](Self::finish) sees
    /// it.
    ///
    /// # Errors
    /// When the dimension is out of range or the folder cannot be written.
    pub fn create_unlinked(folder: &Path, meta: &ColumnsMeta) -> Result<Self, DataError> {
        Self::start(NewFile::create_unlinked(folder), folder, meta, false)
    }

    /// Begins in an empty file that is open for reading and writing.
    ///
    /// # Errors
    /// When the dimension is out of range or the file cannot be written.
    pub fn from_file(file: File, meta: &ColumnsMeta) -> Result<Self, DataError> {
        Self::create_in(NewFile::from_file(file), meta, false)
    }

    fn start(
        file: io::Result<NewFile>,
        path: &Path,
        meta: &ColumnsMeta,
        is_parquet: bool,
    ) -> Result<Self, DataError> {
        DataError::check_dim(Path::new(""), meta.dim as usize)?;
        let (batch_rows, encoding) = match is_parquet {
            false => (BATCH_ROWS as u32, TableEncoding::ArrowFile),
            true => (ENCODED_ROWS as u32, TableEncoding::Parquet(parquet_properties(meta).into())),
        };
        let schema = Arc::new(meta.arrow_schema());
        Ok(Self {
            file: TableFile::begin(file, path, &schema, encoding)?,
            dim: meta.dim,
            batch_rows,
            first_row: 0,
            row_count: 0,
            vectors: Vec::new(),
            fields: FieldBuilders::new(meta.columns, &schema),
        })
    }

    /// Returns how many rows were pushed.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.row_count as usize
    }

    /// Tells whether no row was pushed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends a row with all its columns and returns its number.
    ///
    /// # Errors
    /// When the vector does not fit or is not finite, the file holds bare vectors, or writing
    /// fails.
    pub fn push(&mut self, record: &ColumnRecord<'_>) -> Result<Row, DataError> {
        self.check(record.vector)?;
        if self.fields.0.is_empty() {
            return Err(self.unlike("a record in a file of bare vectors"));
        }
        self.fields.push(record);
        self.append(record.vector)
    }

    /// Appends a bare vector and returns its number.
    ///
    /// # Errors
    /// When the vector does not fit or is not finite, the file has record columns, or writing
    /// fails.
    pub fn push_vector(&mut self, vector: &[f32]) -> Result<Row, DataError> {
        self.check(vector)?;
        if !self.fields.0.is_empty() {
            return Err(self.unlike("a bare vector in a file of records"));
        }
        self.append(vector)
    }

    /// The row has other columns than the file.
    fn unlike(&self, found: &str) -> DataError {
        DataError::encode(Path::new(""), format!("row {}: {found}", self.row_count))
    }

    fn check(&self, vector: &[f32]) -> Result<(), DataError> {
        let (found, expected) = (vector.len(), self.dim as usize);
        let fault = if found == expected {
            first_not_finite(vector).map(|component| VectorFault::NotFinite {
                component,
                value: vector[component].into(),
            })
        } else {
            Some(VectorFault::Length { found, expected })
        };
        if let Some(fault) = fault {
            let row = self.row_count.into();
            return Err(DataError::Vector { path: PathBuf::new(), row, fault });
        }
        if self.row_count == u32::MAX - 1 {
            let expected = format!("at most {}", u32::MAX - 1);
            return Err(DataError::shape(Path::new(""), "more rows", expected));
        }
        Ok(())
    }

    fn append(&mut self, vector: &[f32]) -> Result<Row, DataError> {
        self.vectors.extend_from_slice(vector);
        self.row_count += 1;
        if self.row_count - self.first_row == self.batch_rows {
            self.write()?;
        }
        Ok(Row(self.row_count - 1))
    }

    /// Writes the gathered rows.
    fn write(&mut self) -> Result<(), DataError> {
        let rows = UInt32Array::from_iter_values(self.first_row..self.row_count);
        let values = Arc::new(Float32Array::from(std::mem::take(&mut self.vectors)));
        let dim = self.dim.cast_signed();
        let vectors = FixedSizeListArray::new(component_field(), dim, values, None);
        let mut columns: Vec<ArrayRef> = vec![Arc::new(rows)];
        columns.extend(self.fields.0.iter_mut().map(|(_, builder)| builder.finish()));
        columns.push(Arc::new(vectors));
        self.first_row = self.row_count;
        self.file.write(&self.file.batch(columns)?)
    }

    /// Writes the remaining rows, publishes the file, which must not be Parquet, and maps it.
    ///
    /// # Errors
    /// When writing, publishing or mapping fails; the file's place then has its former content.
    pub fn finish(self) -> Result<MappedColumns, DataError> {
        let path = self.file.path().to_owned();
        let file = self.publish_file()?;
        let mapped = Mapped::from_file(&file).map_err(|error| unmapped(&path, error))?;
        MappedColumns::from_mapped(mapped, &path)
    }

    /// Writes the remaining rows and publishes the file, without reading any of it again.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then has its former content.
    pub fn publish(self) -> Result<(), DataError> {
        self.publish_file().map(drop)
    }

    fn publish_file(mut self) -> Result<File, DataError> {
        if self.row_count > self.first_row {
            self.write()?;
        }
        self.file.finish(Some(self.row_count.into()))
    }
}

/// How columns are written as Parquet.
fn parquet_properties(meta: &ColumnsMeta) -> WriterProperties {
    let components = [Column::Vector.name(), "list", "item"].map(str::to_owned);
    let column = |column: Column| ColumnPath::from(column.name());
    let properties = zstd_properties(meta.arrow_schema().metadata())
        // Unique values need no dictionary.
        .set_column_dictionary_enabled(column(Column::Rowid), false)
        .set_column_dictionary_enabled(column(Column::Id), false)
        .set_column_dictionary_enabled(column(Column::Row), false)
        .set_max_row_group_row_count(Some(BATCH_ROWS));
    plain_components(properties, ColumnPath::new(components.to_vec())).build()
}

/// Returns the position of the first NaN or infinite value.
pub(crate) fn first_not_finite(values: &[f32]) -> Option<usize> {
    // The whole pass has no branch, so it runs at memory speed; the search is for the rare case.
    let finite = values.iter().fold(true, |finite, value| finite & value.is_finite());
    if finite { None } else { values.iter().position(|value| !value.is_finite()) }
}

/// The columns beside `row` and `vector`; none of bare vectors.
struct FieldBuilders(Vec<(Column, Box<dyn ArrayBuilder>)>);

impl FieldBuilders {
    fn new(set: ColumnSet, schema: &Schema) -> Self {
        let fields = set.columns().zip(schema.fields());
        let fields = fields.filter(|(column, _)| !matches!(column, Column::Row | Column::Vector));
        Self(fields.map(|(column, field)| (column, make_builder(field.data_type(), 0))).collect())
    }

    fn push(&mut self, record: &ColumnRecord<'_>) {
        for (column, builder) in &mut self.0 {
            match column {
                Column::Rowid => integers(builder).append_value(record.rowid),
                Column::Id => texts(builder).append_value(record.id),
                Column::CreatedAt => {
                    of::<TimestampMicrosecondBuilder>(builder).append_option(record.created_at);
                }
                Column::Categories => {
                    let lists = of::<ListBuilder<Box<dyn ArrayBuilder>>>(builder);
                    let categories = texts(lists.values());
                    record.categories.iter().for_each(|it| categories.append_value(it));
                    lists.append(true);
                }
                Column::Importance => of::<Float64Builder>(builder).append_value(record.importance),
                Column::AccessCount => integers(builder).append_value(record.access_count),
                Column::Source => texts(builder).append_value(record.source),
                Column::Model => texts(builder).append_value(record.model),
                Column::Text => texts(builder).append_option(record.text),
                Column::Lineage => texts(builder).append_option(record.lineage),
                Column::Row | Column::Vector => unreachable!("they were left out"),
            }
        }
    }
}

fn of<B: ArrayBuilder>(builder: &mut Box<dyn ArrayBuilder>) -> &mut B {
    builder.as_any_mut().downcast_mut().expect("it was made for the type of the column")
}

fn integers(builder: &mut Box<dyn ArrayBuilder>) -> &mut Int64Builder {
    of(builder)
}

fn texts(builder: &mut Box<dyn ArrayBuilder>) -> &mut StringBuilder {
    of(builder)
}

#[cfg(test)]
mod tests {
    use arrow_array::types::{Float64Type, TimestampMicrosecondType};

    use super::*;
    use crate::read::support::{opened, read, records_meta, shown, vectors_in, write_records};

    const VECTORS: [f32; 9] =
        [0.5, -0.0, f32::MIN_POSITIVE / 2.0, 1.0, 0.0, -2.0, 65504.0, 0.125, 3.0];

    /// Returns the metadata of a file of either form about its rows.
    fn meta_of(path: &Path) -> ColumnsMeta {
        let file = opened(path).unwrap();
        let fields = file.schema().fields().iter();
        let names: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
        let get = |name: &str| file.schema().metadata().get(name).map(String::as_str);
        ColumnsMeta::from_metadata(get, ColumnSet::from_names(&names).unwrap()).unwrap()
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    /// Writes three records in both forms.
    fn write_both(folder: &Path) -> [PathBuf; 2] {
        let paths = ["columns.arrow", "columns.parquet"].map(|name| folder.join(name));
        let meta = records_meta(true, false);
        write_records(ColumnsWriter::create(&paths[0], &meta).unwrap(), &VECTORS);
        write_records(ColumnsWriter::create_parquet(&paths[1], &meta).unwrap(), &VECTORS);
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 2);
        paths
    }

    #[test]
    fn rows_come_back_bit_equal() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [paths, others] = folders.each_ref().map(|folder| write_both(folder.path()));
        for (path, other) in paths.iter().zip(&others) {
            assert_eq!(meta_of(path), records_meta(true, false));
            assert_eq!(bits(&vectors_in(path, None).unwrap()), bits(&VECTORS));
            assert!(std::fs::read(path).unwrap() == std::fs::read(other).unwrap());
        }
        let rows = read(&paths[1]);
        assert_eq!(shown(&rows, "id"), ["m0", "m1", "m2"].map(|id| format!("{:?}", Some(id))));
        let text = format!("{:?}", Some("text, ünï"));
        assert_eq!(shown(&rows, "text"), ["None", &text, &text]);
        let columns = MappedColumns::open(&paths[0]).unwrap();
        assert_eq!((columns.len(), columns.dim()), (3, 3));
        assert_eq!(*columns.meta(), records_meta(true, false));
        let matrix = columns.vectors();
        assert_eq!(matrix.vector(Row(0)).as_ptr() as usize % 64, 0);
        assert!(std::ptr::eq(matrix.vector(Row(0)), columns.clone().vectors().vector(Row(0))));
        let ids = columns.ids().unwrap();
        assert!(ids.iter().eq([Some("m0"), Some("m1"), Some("m2")]));
        for (row, id) in (0..).zip(["m0", "m1", "m2"]) {
            assert_eq!(bits(matrix.vector(Row(row))), bits(&VECTORS[3 * row as usize..][..3]));
            assert_eq!((columns.id_at(Row(row)).unwrap(), ids.get(Row(row))), (id, Some(id)));
            assert_eq!(columns.rowid_at(Row(row)).unwrap(), 7 * i64::from(row));
        }
        let mapped = read(&paths[0]);
        for column in records_meta(true, false).columns.columns().map(Column::name) {
            assert_eq!(shown(&mapped, column), shown(&rows, column), "{column}");
        }
        let column = |name: &str| mapped[0].column_by_name(name).unwrap();
        let times = column("created_at").as_primitive::<TimestampMicrosecondType>();
        let time = Some(1_700_000_000_000_000);
        assert!(times.iter().eq([time, None, time]));
        assert_eq!(column("access_count").as_primitive::<Int64Type>().values(), &[3; 3]);
        assert_eq!(column("importance").as_primitive::<Float64Type>().values(), &[1.5; 3]);
        let last = column("categories").as_list::<i32>().value(2);
        assert!(last.as_string::<i32>().iter().eq([Some("one"), Some("två")]));
        assert_eq!(columns.find_rowid(14).unwrap(), Some(Row(2)));
    }

    #[test]
    fn batches_join_into_one_matrix() {
        let folder = tempfile::tempdir().unwrap();
        let (path, meta) = (folder.path().join("rows.parquet"), ColumnsMeta::vectors(2));
        let mut writer = ColumnsWriter::from_file(tempfile::tempfile().unwrap(), &meta).unwrap();
        let mut parquet = ColumnsWriter::create_parquet(&path, &meta).unwrap();
        let count = 2 * BATCH_ROWS + 5;
        for i in 0..count {
            writer.push_vector(&[i as f32, 1.0]).unwrap();
            parquet.push_vector(&[i as f32, 1.0]).unwrap();
        }
        let columns = writer.finish().unwrap();
        let matrix = columns.vectors();
        assert_eq!(matrix.len(), count);
        assert!(matrix.rows().all(|row| matrix.vector(row) == [row.index() as f32, 1.0]));
        let error = columns.ids().unwrap_err();
        assert_eq!(error.to_string(), "unnamed file: no column id, found row, vector");
        parquet.publish().unwrap();
        assert_eq!(meta_of(&path), meta);
        let values = vectors_in(&path, None).unwrap();
        assert_eq!(values.len(), 2 * count);
        assert!(values.chunks(2).enumerate().all(|(row, v)| v == [row as f32, 1.0]));
    }

    #[test]
    fn an_empty_file_has_no_rows() {
        let folder = tempfile::tempdir().unwrap();
        let writer =
            ColumnsWriter::create_unlinked(folder.path(), &ColumnsMeta::vectors(4)).unwrap();
        let columns = writer.finish().unwrap();
        assert!(columns.is_empty() && columns.vectors().is_empty());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_does_not_fit_is_refused_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("columns");
        let said = |error: DataError| error.to_string();
        let record = ColumnRecord { vector: &[1.0, 0.0], ..ColumnRecord::default() };
        for create in [ColumnsWriter::create, ColumnsWriter::create_parquet] {
            let mut writer = create(&path, &ColumnsMeta::vectors(2)).unwrap();
            for (pushed, expected) in [
                (writer.push_vector(&[1.0]), "row 0: vector has 1 components, expected 2"),
                (writer.push_vector(&[1.0, f32::NAN]), "row 0: component 1 is NaN"),
                (writer.push_vector(&[1.0, f32::INFINITY]), "row 0: component 1 is inf"),
                (writer.push(&record), "row 0: a record in a file of bare vectors"),
            ] {
                assert_eq!(said(pushed.unwrap_err()), expected);
            }
            drop(writer);
            let mut writer = create(&path, &records_meta(false, false)).unwrap();
            let expected = "row 0: a bare vector in a file of records";
            assert_eq!(said(writer.push_vector(&[1.0, 0.0, 0.0]).unwrap_err()), expected);
            drop(writer);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
            let error = create(&path, &ColumnsMeta::vectors(0)).err().unwrap();
            assert_eq!(said(error), "vectors of 0 components, expected 1 to 65536");
            let nowhere = folder.path().join("missing").join("columns");
            let error = create(&nowhere, &ColumnsMeta::vectors(1)).err().unwrap();
            assert!(matches!(error, DataError::Io { .. }));
            assert_eq!(error.hint().as_deref(), Some("create the folder first"));
            assert!(said(error).starts_with(&format!("{}: ", nowhere.display())));
        }
    }

    #[test]
    fn other_files_are_named_as_what_they_are() {
        for (bytes, expected) in [
            (&b""[..], "0 bytes"),
            (b"PAR1 and more bytes", r#"it begins with "PAR1 a""#),
            (b"ARROW1\0\0 cut in the middle", r#"it ends with "middle""#),
            (b"ARROW1\0\0\xFF\xFF\0\0ARROW1", "a footer of 65535 bytes"),
        ] {
            let error = MappedColumns::from_buffer(Buffer::from(bytes), Path::new("f"));
            let expected = format!("f: not a finished Arrow IPC file ({expected})");
            assert_eq!(error.unwrap_err().to_string(), expected);
        }
    }
}
