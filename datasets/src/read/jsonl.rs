//! JSON lines: an object on each line, its fields as columns.
//!
//! A file is parsed once, when it is opened, in chunks of lines and several chunks at a time.
//! Vectors become f32, straight from their digits; other values are kept as they were written until
//! all lines tell the types of their columns. Parsed columns are kept in memory, and beyond
//! [`MEMORY_BYTES_MAX`] in a file without a name.
//!
//! A chunk is parsed as if it were the whole file. Where it has an error, or does not fit the
//! earlier lines, it is parsed again with their facts: the error is then the same as that of a
//! reader that goes from line to line.

use std::collections::HashMap;
use std::fmt;
use std::io::{BufRead, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Float32Array, Float64Array, Int64Array,
    RecordBatch, RecordBatchOptions, StringArray, UInt64Array, new_null_array,
};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use memfold_index::Pool;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::source::{Batches, Source, SourceOptions, rows_of_batches};
use crate::DataError;
use crate::error::json_message;
use crate::input::{BYTE_ORDER_MARK, Cursor, InputBytes};
use crate::schema::{DIM_MAX, VECTOR_NAMES, component_field};

/// Lines of a chunk.
const CHUNK_LINES: usize = 1024;
/// Bytes of lines after which a chunk ends early.
const CHUNK_BYTES: usize = 16 << 20;
/// Chunks for each thread that are read before they are parsed, and their bytes.
const CHUNKS_PER_THREAD: usize = 4;
const CHUNKS_BYTES_MAX: usize = 64 << 20;
/// Bytes of parsed rows that are kept in memory.
const MEMORY_BYTES_MAX: usize = 64 << 20;
/// Longest line, without its end.
const LINE_BYTES_MAX: usize = 64 << 20;
/// Most columns of a file.
const COLUMNS_MAX: usize = 4096;

/// A file of JSON lines, parsed.
#[derive(Debug, Clone)]
pub(crate) struct JsonLines {
    schema: SchemaRef,
    kinds: Arc<[Kind]>,
    row_count: usize,
    parsed: Arc<[Parsed]>,
    scratch: Option<InputBytes>,
}

/// A batch of rows: vectors, and other values as they were written.
#[derive(Debug)]
enum Parsed {
    Memory(RecordBatch),
    /// A stream of one batch in the file without a name.
    Scratch {
        start: u64,
        length: usize,
        rows: usize,
    },
}

impl Parsed {
    fn rows(&self) -> usize {
        match self {
            Self::Memory(batch) => batch.num_rows(),
            Self::Scratch { rows, .. } => *rows,
        }
    }
}

impl JsonLines {
    /// Parses the file.
    pub(super) fn open(bytes: &InputBytes, options: &SourceOptions<'_>) -> Result<Self, DataError> {
        let mut lines = Lines::of(bytes);
        let input = FileInput { path: bytes.path(), member: options.member.as_deref() };
        let mut file = Collector::new(input, &options.scratch_dir);
        let first = lines.next_chunk()?;
        file.add(&first, parse(&first, file.input, &[]))?;
        if lines.is_over {
            return file.finish();
        }
        let own;
        let pool = match options.pool {
            Some(pool) => pool,
            None => {
                own = Pool::new(None).map_err(std::io::Error::other)?;
                &own
            }
        };
        while !lines.is_over {
            let chunks = lines.next_chunks(pool.threads() * CHUNKS_PER_THREAD)?;
            let parsed = pool.map(chunks.len(), |at| parse(&chunks[at], file.input, &file.known));
            chunks.iter().zip(parsed).try_for_each(|(chunk, parsed)| file.add(chunk, parsed))?;
        }
        file.finish()
    }

    /// Returns the columns at `positions` of a parsed batch.
    fn batch(&self, parsed: &Parsed, positions: &[usize]) -> Result<RecordBatch, DataError> {
        let read;
        let stored = match (parsed, &self.scratch) {
            (Parsed::Memory(batch), _) => batch,
            (&Parsed::Scratch { start, length, .. }, Some(scratch)) => {
                let bytes = scratch.read(start, length)?;
                let mut reader = StreamReader::try_new(&*bytes, None).map_err(|e| self.odd(e))?;
                read = reader.next().transpose().map_err(|e| self.odd(e))?;
                read.as_ref().ok_or_else(|| self.odd(ArrowError::ComputeError("no rows".into())))?
            }
            (Parsed::Scratch { .. }, None) => unreachable!("rows are in the file that there is"),
        };
        let rows = stored.num_rows();
        let column = |&at: &usize| match stored.column_by_name(self.schema.field(at).name()) {
            Some(values) => self.kinds[at].typed(values),
            None => new_null_array(self.schema.field(at).data_type(), rows),
        };
        let columns = positions.iter().map(column).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = self.schema.project(positions).map_err(|e| self.odd(e))?;
        RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)
            .map_err(|e| self.odd(e))
    }

    /// The file without a name is not as it was written.
    fn odd(&self, error: ArrowError) -> DataError {
        let path = self.scratch.as_ref().map(|scratch| scratch.path().to_owned());
        DataError::damaged(&path.unwrap_or_default(), format!("parsed rows: {error}"))
    }
}

impl Source for JsonLines {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn row_count(&self) -> usize {
        self.row_count
    }

    fn batches(&self, positions: &[usize], _: usize) -> Result<Batches, DataError> {
        let (file, positions) = (self.clone(), positions.to_vec());
        let batches = 0..self.parsed.len();
        Ok(Box::new(batches.map(move |at| file.batch(&file.parsed[at], &positions))))
    }

    fn batches_of_rows(
        &self,
        position: usize,
        rows: &[usize],
    ) -> Result<Vec<RecordBatch>, DataError> {
        let batch_rows = self.parsed.iter().map(Parsed::rows);
        rows_of_batches(batch_rows, rows, |at| self.batch(&self.parsed[at], &[position]))
    }
}

/// The lines of a file, in chunks.
struct Lines<'a> {
    bytes: &'a InputBytes,
    input: Cursor,
    line: u64,
    is_over: bool,
}

/// Some lines of a file.
struct Chunk {
    text: Vec<u8>,
    /// The number of the first line, from 1.
    first_line: u64,
}

impl<'a> Lines<'a> {
    fn of(bytes: &'a InputBytes) -> Self {
        Self { bytes, input: bytes.cursor(0), line: 0, is_over: false }
    }

    /// Reads the next lines, at least one where there is one.
    fn next_chunk(&mut self) -> Result<Chunk, DataError> {
        let mut chunk = Chunk { text: Vec::new(), first_line: self.line + 1 };
        for _ in 0..CHUNK_LINES {
            // A line that is longer is an error.
            let mut line = (&mut self.input).take(LINE_BYTES_MAX as u64 + 2);
            let read = line.read_until(b'\n', &mut chunk.text);
            self.is_over = read.map_err(|source| self.bytes.failed(source))? == 0;
            self.line += 1;
            if self.is_over || chunk.text.len() >= CHUNK_BYTES {
                break;
            }
        }
        Ok(chunk)
    }

    fn next_chunks(&mut self, count_max: usize) -> Result<Vec<Chunk>, DataError> {
        let (mut chunks, mut bytes) = (Vec::new(), 0);
        while !self.is_over && chunks.len() < count_max && bytes < CHUNKS_BYTES_MAX {
            let chunk = self.next_chunk()?;
            bytes += chunk.text.len();
            chunks.push(chunk);
        }
        Ok(chunks)
    }
}

/// The input parameters, the same for all lines of a file.
#[derive(Clone, Copy)]
struct FileInput<'a> {
    path: &'a Path,
    /// A field of vectors beside the usual names.
    member: Option<&'a str>,
}

/// The facts from lines about a column.
#[derive(Debug, Clone)]
struct Facts {
    name: String,
    /// Of values that are not vectors.
    kind: Kind,
    first_vector: Option<FirstVector>,
    /// Rows that have a value.
    valid: usize,
}

/// The length of the first vector, which all others have.
#[derive(Debug, Clone, Copy)]
struct FirstVector {
    dim: usize,
    line: u64,
}

/// A column of a chunk.
struct Column {
    facts: Facts,
    /// The last row that has the field, from 1.
    last_row: usize,
    values: Values,
}

/// The values of a column of a chunk.
enum Values {
    Written(StringBuilder),
    Vectors { components: Vec<f32>, valid: BooleanBufferBuilder },
}

/// A parsed chunk: the facts about its columns, and their values where they are not all null.
struct ParsedChunk {
    rows: usize,
    columns: Vec<(Facts, Option<ArrayRef>)>,
}

/// Parses a chunk; `known` are the facts from earlier lines.
fn parse(chunk: &Chunk, input: FileInput<'_>, known: &[Facts]) -> Result<ParsedChunk, DataError> {
    let columns = known.iter().cloned().map(|facts| Column::new(facts, input.member));
    let mut parser = Parser {
        member: input.member,
        columns: columns.collect(),
        positions: known.iter().map(|facts| facts.name.clone()).zip(0..).collect(),
        rows: 0,
        line: chunk.first_line,
        current: None,
    };
    for line in chunk.text.split_inclusive(|byte| *byte == b'\n') {
        let line = match line.strip_prefix(BYTE_ORDER_MARK) {
            Some(text) if parser.line == 1 => text,
            _ => line,
        };
        let taken = parser.take_line(line);
        taken.map_err(|found| DataError::line(input.path, parser.line, &found))?;
        parser.line += 1;
    }
    let rows = parser.rows;
    let columns = parser.columns.into_iter().map(|mut column| {
        let values = column.take(rows);
        (column.facts, values)
    });
    Ok(ParsedChunk { rows, columns: columns.collect() })
}

/// Takes line after line of a chunk.
struct Parser<'a> {
    member: Option<&'a str>,
    columns: Vec<Column>,
    positions: HashMap<String, usize>,
    /// Rows so far, with the one that is being read.
    rows: usize,
    line: u64,
    /// The column of the value that is being read.
    current: Option<usize>,
}

impl Parser<'_> {
    fn take_line(&mut self, line: &[u8]) -> Result<(), String> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if line.len() > LINE_BYTES_MAX {
            return Err(format!("longer than {LINE_BYTES_MAX} bytes"));
        }
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        self.rows += 1;
        self.current = None;
        let mut object = serde_json::Deserializer::from_slice(line);
        let read = object.deserialize_map(&mut *self).and_then(|()| object.end());
        read.map_err(|error| found(&error, self.current.map(|at| &*self.columns[at].facts.name)))?;
        let rows = self.rows;
        self.columns.iter_mut().filter(|column| column.last_row < rows).for_each(Column::push_null);
        Ok(())
    }

    /// Returns the position of the column called `name`, which is added where it is new.
    fn position(&mut self, name: &str) -> Result<usize, String> {
        if let Some(&at) = self.positions.get(name) {
            return Ok(at);
        }
        let at = self.columns.len();
        if at == COLUMNS_MAX {
            return Err(format!("more than {COLUMNS_MAX} different fields"));
        }
        let facts = Facts { name: name.into(), kind: Kind::Null, first_vector: None, valid: 0 };
        let mut column = Column::new(facts, self.member);
        // Rows that do not have it.
        (1..self.rows).for_each(|_| column.push_null());
        self.columns.push(column);
        self.positions.insert(name.into(), at);
        Ok(at)
    }
}

/// An object on its line.
impl<'de> Visitor<'de> for &mut Parser<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            let at = self.position(&name).map_err(A::Error::custom)?;
            self.current = Some(at);
            self.columns[at].push(self.rows, self.line, &mut map)?;
            self.current = None;
        }
        Ok(())
    }
}

/// Puts chunks together, in order.
struct Collector<'a> {
    input: FileInput<'a>,
    scratch_dir: &'a Path,
    known: Vec<Facts>,
    positions: HashMap<String, usize>,
    row_count: usize,
    parsed: Vec<Parsed>,
    memory_bytes: usize,
    scratch: Option<(std::fs::File, u64)>,
}

impl<'a> Collector<'a> {
    fn new(input: FileInput<'a>, scratch_dir: &'a Path) -> Self {
        Self {
            input,
            scratch_dir,
            known: Vec::new(),
            positions: HashMap::new(),
            row_count: 0,
            parsed: Vec::new(),
            memory_bytes: 0,
            scratch: None,
        }
    }

    /// Adds the rows of the next chunk.
    fn add(
        &mut self,
        chunk: &Chunk,
        parsed: Result<ParsedChunk, DataError>,
    ) -> Result<(), DataError> {
        let ParsedChunk { rows, columns } = match parsed {
            Ok(parsed) if self.agrees(&parsed) => parsed,
            _ => parse(chunk, self.input, &self.known)?,
        };
        if self.row_count + rows >= u32::MAX as usize {
            let found = format!("more than {} rows", u32::MAX - 1);
            return Err(DataError::line(self.input.path, chunk.first_line, &found));
        }
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (facts, values) in columns {
            let new = self.known.len();
            let at = *self.positions.entry(facts.name.clone()).or_insert(new);
            let valid = values.as_ref().map_or(0, |values| rows - values.null_count());
            match self.known.get_mut(at) {
                Some(known) => known.add(&facts, valid),
                None => self.known.push(Facts { valid, ..facts.clone() }),
            }
            if let Some(values) = values {
                fields.push(Field::new(facts.name, values.data_type().clone(), true));
                arrays.push(values);
            }
        }
        self.row_count += rows;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options);
        self.keep(batch.map_err(|error| DataError::of_arrow(self.scratch_dir, error))?)
    }

    /// Tells whether a chunk fits the lines before it.
    fn agrees(&self, parsed: &ParsedChunk) -> bool {
        let known = |facts: &Facts| Some(&self.known[*self.positions.get(&facts.name)?]);
        let facts = parsed.columns.iter().map(|(facts, _)| facts);
        let new_count = facts.clone().filter(|facts| known(facts).is_none()).count();
        let is_like = |facts: &Facts| {
            let before = known(facts).and_then(|known| known.first_vector);
            before.zip(facts.first_vector).is_none_or(|(before, own)| before.dim == own.dim)
        };
        self.known.len() + new_count <= COLUMNS_MAX && facts.into_iter().all(is_like)
    }

    /// Keeps rows in memory, or in the file without a name.
    fn keep(&mut self, batch: RecordBatch) -> Result<(), DataError> {
        let (rows, bytes) = (batch.num_rows(), batch.get_array_memory_size());
        if rows == 0 {
            return Ok(());
        }
        if self.scratch.is_none() && self.memory_bytes + bytes <= MEMORY_BYTES_MAX {
            self.memory_bytes += bytes;
            self.parsed.push(Parsed::Memory(batch));
            return Ok(());
        }
        let scratch_dir = self.scratch_dir;
        let encode = || -> Result<Vec<u8>, ArrowError> {
            let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
            writer.write(&batch)?;
            writer.into_inner()
        };
        let stream = encode().map_err(|error| DataError::of_arrow(scratch_dir, error))?;
        let failed = |source| DataError::io(scratch_dir, source);
        let (file, end) = match &mut self.scratch {
            Some(scratch) => scratch,
            none => none.insert((tempfile::tempfile_in(scratch_dir).map_err(failed)?, 0)),
        };
        file.write_all(&stream).map_err(failed)?;
        self.parsed.push(Parsed::Scratch { start: *end, length: stream.len(), rows });
        *end += stream.len() as u64;
        Ok(())
    }

    fn finish(self) -> Result<JsonLines, DataError> {
        let kinds: Vec<Kind> = self.known.iter().map(Facts::kind).collect();
        let field = |(facts, kind): (&Facts, &Kind)| {
            Field::new(&facts.name, kind.data_type(), facts.valid < self.row_count)
        };
        let fields = self.known.iter().zip(&kinds).map(field);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let scratch = self.scratch.map(|(mut file, _)| {
            let rewound = file.seek(SeekFrom::Start(0));
            rewound.map_err(|source| DataError::io(self.scratch_dir, source))?;
            InputBytes::of_scratch(file, self.input.path)
        });
        Ok(JsonLines {
            schema,
            kinds: kinds.into(),
            row_count: self.row_count,
            parsed: self.parsed.into(),
            scratch: scratch.transpose()?,
        })
    }
}

impl Facts {
    fn kind(&self) -> Kind {
        self.first_vector.map_or(self.kind, |first| Kind::Vector(first.dim))
    }

    /// Adds the facts of later lines.
    fn add(&mut self, later: &Self, valid: usize) {
        self.kind = self.kind.and(later.kind);
        self.first_vector = self.first_vector.or(later.first_vector);
        self.valid += valid;
    }
}

impl Column {
    fn new(facts: Facts, member: Option<&str>) -> Self {
        let is_vector = VECTOR_NAMES.contains(&&*facts.name) || member == Some(&facts.name);
        let values = match is_vector {
            true => Values::Vectors { components: Vec::new(), valid: BooleanBufferBuilder::new(0) },
            false => Values::Written(StringBuilder::new()),
        };
        Self { facts, last_row: 0, values }
    }

    fn push_null(&mut self) {
        match &mut self.values {
            Values::Written(values) => values.append_null(),
            Values::Vectors { components, valid } => {
                let dim = self.facts.first_vector.map_or(0, |first| first.dim);
                components.resize(components.len() + dim, 0.0);
                valid.append(false);
            }
        }
    }

    /// Returns the values of the chunk; `None` where all are null.
    fn take(&mut self, rows: usize) -> Option<ArrayRef> {
        match &mut self.values {
            Values::Written(values) => {
                let values = values.finish();
                (values.null_count() < rows).then(|| Arc::new(values) as ArrayRef)
            }
            Values::Vectors { components, valid } => {
                let mut components = std::mem::take(components);
                let dim = self.facts.first_vector?.dim;
                let nulls = NullBuffer::new(valid.finish());
                if nulls.null_count() == rows {
                    return None;
                }
                // Nulls before the first vector of all have no components yet.
                let missing = rows * dim - components.len();
                components.splice(0..0, std::iter::repeat_n(0.0, missing));
                let nulls = (nulls.null_count() > 0).then_some(nulls);
                // A dimension is at most 65,536.
                let components = Arc::new(Float32Array::from(components));
                let item = component_field();
                Some(Arc::new(FixedSizeListArray::new(item, dim as i32, components, nulls)))
            }
        }
    }

    /// Takes the value of the field, which is the next of `map`.
    fn push<'de, A: MapAccess<'de>>(
        &mut self,
        row: usize,
        line: u64,
        map: &mut A,
    ) -> Result<(), A::Error> {
        if self.last_row == row {
            return Err(A::Error::custom("it occurs twice"));
        }
        self.last_row = row;
        match &mut self.values {
            Values::Vectors { components, valid } => {
                let first = &mut self.facts.first_vector;
                valid.append(map.next_value_seed(VectorSeed { first, line, components })?);
            }
            Values::Written(values) => {
                let written: &RawValue = map.next_value()?;
                let text = written.get();
                let kind = Kind::of(text).map_err(A::Error::custom)?;
                self.facts.kind = self.facts.kind.and(kind);
                match kind {
                    Kind::Null => values.append_null(),
                    Kind::Text => {
                        let text: String = serde_json::from_str(text).map_err(A::Error::custom)?;
                        values.append_value(text);
                    }
                    _ => values.append_value(text),
                }
            }
        }
        Ok(())
    }
}

/// Parses a vector and appends its components; false for null.
struct VectorSeed<'a> {
    first: &'a mut Option<FirstVector>,
    line: u64,
    components: &'a mut Vec<f32>,
}

impl<'de> DeserializeSeed<'de> for VectorSeed<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for VectorSeed<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of numbers")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        let dim = self.first.map_or(0, |first| first.dim);
        self.components.resize(self.components.len() + dim, 0.0);
        Ok(false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<bool, A::Error> {
        let start = self.components.len();
        while let Some(component) = seq.next_element_seed(ComponentSeed)? {
            self.components.push(component);
        }
        let count = self.components.len() - start;
        if count == 0 || count > DIM_MAX {
            let found = format!("vector of {count} components, expected 1 to {DIM_MAX}");
            return Err(A::Error::custom(found));
        }
        let FirstVector { dim, line } =
            *self.first.get_or_insert(FirstVector { dim: count, line: self.line });
        if count != dim {
            return Err(A::Error::custom(format!(
                "vector has {count} components, expected {dim} as on line {line}"
            )));
        }
        Ok(true)
    }
}

/// A component of a vector, rounded once: the decimal digits become an f32.
struct ComponentSeed;

impl<'de> DeserializeSeed<'de> for ComponentSeed {
    type Value = f32;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<f32, D::Error> {
        deserializer.deserialize_f32(self)
    }
}

impl Visitor<'_> for ComponentSeed {
    type Value = f32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E>(self, value: f64) -> Result<f32, E> {
        Ok(value as f32)
    }

    fn visit_i64<E>(self, value: i64) -> Result<f32, E> {
        Ok(value as f32)
    }

    fn visit_u64<E>(self, value: u64) -> Result<f32, E> {
        Ok(value as f32)
    }
}

/// Returns the defect of a line: the message of `serde_json` with the field that it is about, and
/// without the line number, which is always 1.
fn found(error: &serde_json::Error, field: Option<&str>) -> String {
    let text = json_message(error);
    match field {
        Some(field) => format!("field {field:?}: {text} (column {})", error.column()),
        None => format!("{text} (column {})", error.column()),
    }
}

/// The kind of a column's values: the narrowest kind that holds all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nothing but nulls.
    Null,
    Flag,
    /// From 0 on, as far as i64 goes.
    Natural,
    Integer,
    Unsigned,
    Float,
    Text,
    EmptyList,
    Texts,
    Numbers,
    /// Objects, other lists, and values of several kinds: texts as they are, everything else as
    /// JSON.
    Json,
    /// Vectors with this number of components.
    Vector(usize),
}

impl Kind {
    /// Returns the kind of a JSON value.
    fn of(text: &str) -> Result<Self, String> {
        Ok(match text.as_bytes().first() {
            Some(b'n') => Self::Null,
            Some(b't' | b'f') => Self::Flag,
            Some(b'"') => Self::Text,
            Some(b'{') => Self::Json,
            Some(b'[') => Self::of_list(text)?,
            _ if text.parse::<f64>().is_ok_and(f64::is_finite) => match text.parse::<i64>() {
                Ok(0..) if !text.starts_with('-') => Self::Natural,
                // −0 is a float.
                Ok(..0) => Self::Integer,
                _ if text.parse::<u64>().is_ok() => Self::Unsigned,
                _ => Self::Float,
            },
            _ => return Err("number out of range".into()),
        })
    }

    fn of_list(text: &str) -> Result<Self, String> {
        let items: Vec<&RawValue> =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        let mut all = Self::Null;
        for item in items {
            let kind = match item.get().starts_with('[') {
                true => Self::Json,
                false => Self::of(item.get())?,
            };
            if kind == Self::Text {
                let text = serde_json::from_str::<String>(item.get());
                text.map_err(|error| error.to_string())?;
            }
            all = all.and(kind);
        }
        Ok(match all {
            Self::Null => Self::EmptyList,
            Self::Text => Self::Texts,
            Self::Natural | Self::Integer | Self::Unsigned | Self::Float => Self::Numbers,
            _ => Self::Json,
        })
    }

    /// Returns the narrowest kind that holds the values of both.
    fn and(self, other: Self) -> Self {
        use Kind::{EmptyList, Float, Integer, Natural, Null, Numbers, Texts, Unsigned};
        match (self, other) {
            (one, other) if one == other => one,
            (Null, kind) | (kind, Null) => kind,
            (Natural, kind @ (Integer | Unsigned | Float))
            | (kind @ (Integer | Unsigned | Float), Natural)
            | (EmptyList, kind @ (Texts | Numbers))
            | (kind @ (Texts | Numbers), EmptyList) => kind,
            (Integer | Unsigned | Float, Integer | Unsigned | Float) => Float,
            _ => Self::Json,
        }
    }

    fn data_type(self) -> DataType {
        match self {
            Self::Flag => DataType::Boolean,
            Self::Natural | Self::Integer => DataType::Int64,
            Self::Unsigned => DataType::UInt64,
            Self::Float => DataType::Float64,
            Self::Null | Self::Text | Self::Json => DataType::Utf8,
            Self::EmptyList | Self::Texts => DataType::new_list(DataType::Utf8, true),
            Self::Numbers => DataType::new_list(DataType::Float64, true),
            // A dimension is at most 65,536.
            Self::Vector(dim) => DataType::FixedSizeList(component_field(), dim as i32),
        }
    }

    /// Returns parsed values with their type.
    fn typed(self, values: &ArrayRef) -> ArrayRef {
        let Some(written) = values.as_string_opt::<i32>() else { return Arc::clone(values) };
        // Each value was checked when it was parsed.
        match self {
            Self::Flag => {
                Arc::new(written.iter().map(|v| v.map(|v| v == "true")).collect::<BooleanArray>())
            }
            Self::Natural | Self::Integer => {
                Arc::new(parsed::<i64>(written).collect::<Int64Array>())
            }
            Self::Unsigned => Arc::new(parsed::<u64>(written).collect::<UInt64Array>()),
            Self::Float => Arc::new(parsed::<f64>(written).collect::<Float64Array>()),
            Self::EmptyList | Self::Texts => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                written.iter().for_each(|v| lists.append_option(list::<String>(v)));
                Arc::new(lists.finish())
            }
            Self::Numbers => {
                let mut lists = ListBuilder::new(Float64Builder::new());
                written.iter().for_each(|v| lists.append_option(list::<f64>(v)));
                Arc::new(lists.finish())
            }
            _ => Arc::clone(values),
        }
    }
}

fn parsed<T: std::str::FromStr>(written: &StringArray) -> impl Iterator<Item = Option<T>> {
    written.iter().map(|value| value.and_then(|value| value.parse().ok()))
}

fn list<T: serde::de::DeserializeOwned>(written: Option<&str>) -> Option<Vec<Option<T>>> {
    written.and_then(|written| serde_json::from_str(written).ok())
}
