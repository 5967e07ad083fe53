//! [`JsonlFile`]: a file of JSON lines, mapped.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBuilder, Float64Builder, Int64Builder, ListBuilder, StringBuilder, UInt64Builder,
};
use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, RecordBatch, RecordBatchOptions};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_schema::SchemaRef;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::learn::{BadLine, ComponentSeed, Kind, Learnt, MARKED_ROWS, component, learn};
use crate::read::ReadError;
use crate::read::matrix::map_file;

/// Rows of a batch.
const DECODED_ROWS: usize = 1024;
/// Bytes of lines after which a batch ends early.
const DECODED_BYTES: usize = 16 << 20;

/// A file of JSON lines, mapped.
#[derive(Debug, Clone)]
pub(crate) struct JsonlFile {
    path: PathBuf,
    bytes: Buffer,
    schema: SchemaRef,
    kinds: Arc<[Kind]>,
    row_count: usize,
    marks: Arc<[Place]>,
}

impl JsonlFile {
    /// Maps the file at `path` and reads it once to learn its columns; `member` is the name of
    /// another field that holds vectors.
    pub(crate) fn open(path: &Path, member: Option<&str>) -> Result<Self, ReadError> {
        let bytes = map_file(path)?;
        let learnt = learn(Lines::new(bytes.clone()), member);
        let Learnt { schema, kinds, row_count, marks } =
            learnt.map_err(|BadLine { line, found }| ReadError::Line {
                path: path.into(),
                line,
                found,
            })?;
        let (schema, kinds, marks) = (Arc::new(schema), kinds.into(), marks.into());
        Ok(Self { path: path.into(), bytes, schema, kinds, row_count, marks })
    }

    pub(crate) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) const fn row_count(&self) -> usize {
        self.row_count
    }

    /// Returns the columns at `positions`, ascending, of all rows in order.
    pub(crate) fn batches(
        &self,
        positions: &[usize],
    ) -> impl Iterator<Item = Result<RecordBatch, ReadError>> + use<> {
        let (file, positions) = (self.clone(), positions.to_vec());
        let mut lines = Some(Lines::new(self.bytes.clone()));
        std::iter::from_fn(move || {
            let next = file.next_batch(lines.as_mut()?, &positions).transpose();
            // After an error there are no more.
            lines = lines.take().filter(|_| matches!(next, Some(Ok(_))));
            next
        })
    }

    /// Returns the column at `position` of the rows asked for, ascending, each in a batch.
    pub(crate) fn batches_of_rows(
        &self,
        position: usize,
        rows: &[usize],
    ) -> Result<Vec<RecordBatch>, ReadError> {
        // The row that the lines stand before.
        let mut lines = Lines::new(self.bytes.clone());
        let mut next_row = 0;
        let mut taken = Vec::with_capacity(rows.len());
        for &row in rows {
            let mark = row / MARKED_ROWS;
            if next_row < mark * MARKED_ROWS {
                lines = Lines::at(self.bytes.clone(), self.marks[mark]);
                next_row = mark * MARKED_ROWS;
            }
            while next_row < row {
                lines.next_line().map_err(|found| self.bad_line(&lines, found))?;
                next_row += 1;
            }
            let mut decoder = self.decoder(&[position]);
            self.read_line(&mut lines, &mut decoder)?;
            next_row += 1;
            taken.push(self.batch(&[position], decoder, &lines)?);
        }
        Ok(taken)
    }

    fn next_batch(
        &self,
        lines: &mut Lines,
        positions: &[usize],
    ) -> Result<Option<RecordBatch>, ReadError> {
        let mut decoder = self.decoder(positions);
        let start = lines.place().position;
        while decoder.rows() < DECODED_ROWS && lines.place().position - start < DECODED_BYTES {
            if !self.read_line(lines, &mut decoder)? {
                break;
            }
        }
        (decoder.rows() > 0).then(|| self.batch(positions, decoder, lines)).transpose()
    }

    /// Decodes the next row; returns false after the last.
    fn read_line(&self, lines: &mut Lines, decoder: &mut Decoder) -> Result<bool, ReadError> {
        let range = lines.next_line().map_err(|found| self.bad_line(lines, found))?;
        let Some(range) = range else { return Ok(false) };
        let read = decoder.read(&self.bytes[range]);
        read.map_err(|found| self.bad_line(lines, found))?;
        Ok(true)
    }

    fn decoder(&self, positions: &[usize]) -> Decoder {
        let column = |&at: &usize| (self.schema.field(at).name().as_str(), self.kinds[at]);
        Decoder::new(positions.iter().map(column))
    }

    /// Returns the rows of the decoder; the file may have been written to since it was learnt.
    fn batch(
        &self,
        positions: &[usize],
        decoder: Decoder,
        lines: &Lines,
    ) -> Result<RecordBatch, ReadError> {
        let options = RecordBatchOptions::new().with_row_count(Some(decoder.rows()));
        let columns = decoder.finish();
        let batch = self.schema.project(positions).and_then(|schema| {
            RecordBatch::try_new_with_options(Arc::new(schema), columns, &options)
        });
        batch.map_err(|error| self.bad_line(lines, format!("changed: {error}")))
    }

    fn bad_line(&self, lines: &Lines, found: String) -> ReadError {
        ReadError::Line { path: self.path.clone(), line: lines.number(), found }
    }
}

/// Longest line, without its end.
const LINE_BYTES_MAX: usize = 64 << 20;
/// What some programs write before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A place between two lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) position: usize,
    /// Lines before it.
    pub(super) lines: u64,
}

/// The lines of a mapped file that are not blank.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    bytes: Buffer,
    place: Place,
}

impl Lines {
    /// Begins at the start of a file.
    pub(super) fn new(bytes: Buffer) -> Self {
        let position = if bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        Self { bytes, place: Place { position, lines: 0 } }
    }

    /// Begins at a place of the file.
    pub(super) const fn at(bytes: Buffer, place: Place) -> Self {
        Self { bytes, place }
    }

    /// Returns where the next line begins.
    pub(super) const fn place(&self) -> Place {
        self.place
    }

    /// Returns the number of the line that was returned last, from 1.
    pub(super) const fn number(&self) -> u64 {
        self.place.lines
    }

    /// Returns where the next line lies that is not blank; `Err` says what is wrong with it.
    pub(super) fn next_line(&mut self) -> Result<Option<Range<usize>>, String> {
        while self.place.position < self.bytes.len() {
            let start = self.place.position;
            let rest = &self.bytes[start..];
            let within = &rest[..rest.len().min(LINE_BYTES_MAX + 1)];
            self.place.lines += 1;
            let length = match within.iter().position(|&byte| byte == b'\n') {
                Some(length) => length,
                None if within.len() > LINE_BYTES_MAX => {
                    return Err(format!("longer than {LINE_BYTES_MAX} bytes"));
                }
                None => within.len(),
            };
            // At the end of the file there is no line end to skip.
            self.place.position = self.bytes.len().min(start + length + 1);
            if !rest[..length].trim_ascii().is_empty() {
                return Ok(Some(start..start + length));
            }
        }
        Ok(None)
    }

    pub(super) fn bytes(&self) -> &Buffer {
        &self.bytes
    }
}

/// Takes the fields of rows.
pub(super) trait Fields {
    /// Returns the position of the column called `name`; `None` where it is not read.
    ///
    /// # Errors
    /// When there cannot be such a column.
    fn position(&mut self, name: &str) -> Result<Option<usize>, String>;

    /// Returns the name of a column.
    fn name(&self, position: usize) -> &str;

    /// Takes the value of a field, which is the next of `map`.
    ///
    /// # Errors
    /// When the value is not like those before, or the row has the field already.
    fn take<'de, A: MapAccess<'de>>(&mut self, at: usize, map: &mut A) -> Result<(), A::Error>;
}

/// The error of a field that a row has already.
pub(super) fn twice<E: Error>() -> E {
    E::custom("it occurs twice")
}

/// Reads the row on a line, or says what is wrong, and with which field.
pub(super) fn read_row(line: &[u8], fields: &mut impl Fields) -> Result<(), String> {
    let mut current = None;
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let row = Row { fields: &mut *fields, current: &mut current };
    let read = row.deserialize(&mut deserializer);
    read.and_then(|()| deserializer.end())
        .map_err(|error| found(&error, current.map(|at| fields.name(at))))
}

/// An object on its line.
struct Row<'a, F> {
    fields: &'a mut F,
    /// The column of the value that is being read.
    current: &'a mut Option<usize>,
}

impl<'de, F: Fields> DeserializeSeed<'de> for Row<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: Fields> Visitor<'de> for Row<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(at) = map.next_key_seed(Name(&mut *self.fields))? {
            *self.current = at;
            match at {
                Some(at) => self.fields.take(at, &mut map)?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
            *self.current = None;
        }
        Ok(())
    }
}

/// The name of a field, as the position of its column.
struct Name<'a, F>(&'a mut F);

impl<'de, F: Fields> DeserializeSeed<'de> for Name<'_, F> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<F: Fields> Visitor<'_> for Name<'_, F> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        self.0.position(name).map_err(E::custom)
    }
}

/// Decodes some fields of lines into columns.
pub(super) struct Decoder {
    positions: HashMap<String, usize>,
    columns: Vec<Column>,
    rows: usize,
}

struct Column {
    name: String,
    values: Values,
    /// Rows that have a value or a null.
    rows: usize,
}

/// The values of a column so far.
enum Values {
    Flags(BooleanBuilder),
    Integers(Int64Builder),
    Unsigned(UInt64Builder),
    Floats(Float64Builder),
    Text(StringBuilder),
    Texts(ListBuilder<StringBuilder>),
    Numbers(ListBuilder<Float64Builder>),
    Vectors { dim: usize, components: Vec<f32>, valid: BooleanBufferBuilder },
}

impl Decoder {
    /// Decodes the columns of these names and kinds.
    pub(super) fn new<'a>(columns: impl Iterator<Item = (&'a str, Kind)>) -> Self {
        let column = |(name, kind): (&str, _)| Column {
            name: name.into(),
            values: Values::new(kind),
            rows: 0,
        };
        let columns: Vec<Column> = columns.map(column).collect();
        let positions = columns.iter().enumerate().map(|(at, column)| (column.name.clone(), at));
        Self { positions: positions.collect(), columns, rows: 0 }
    }

    /// Returns the rows so far.
    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    /// Reads the row on a line.
    pub(super) fn read(&mut self, line: &[u8]) -> Result<(), String> {
        self.rows += 1;
        read_row(line, self)?;
        let rows = self.rows;
        self.columns.iter_mut().filter(|column| column.rows < rows).for_each(Column::push_null);
        Ok(())
    }

    /// Returns the columns of the rows so far.
    pub(super) fn finish(self) -> Vec<ArrayRef> {
        self.columns.into_iter().map(|column| column.values.finish()).collect()
    }
}

impl Column {
    fn push_null(&mut self) {
        self.rows += 1;
        match &mut self.values {
            Values::Flags(values) => values.append_null(),
            Values::Integers(values) => values.append_null(),
            Values::Unsigned(values) => values.append_null(),
            Values::Floats(values) => values.append_null(),
            Values::Text(values) => values.append_null(),
            Values::Texts(values) => values.append_null(),
            Values::Numbers(values) => values.append_null(),
            Values::Vectors { dim, components, valid } => {
                components.resize(components.len() + *dim, 0.0);
                valid.append(false);
            }
        }
    }
}

impl Values {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Flag => Self::Flags(BooleanBuilder::new()),
            Kind::Integer => Self::Integers(Int64Builder::new()),
            Kind::Unsigned => Self::Unsigned(UInt64Builder::new()),
            Kind::Float => Self::Floats(Float64Builder::new()),
            Kind::Text => Self::Text(StringBuilder::new()),
            Kind::Texts => Self::Texts(ListBuilder::new(StringBuilder::new())),
            Kind::Numbers => Self::Numbers(ListBuilder::new(Float64Builder::new())),
            Kind::Vector(dim) => {
                Self::Vectors { dim, components: Vec::new(), valid: BooleanBufferBuilder::new(0) }
            }
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Flags(mut values) => Arc::new(values.finish()),
            Self::Integers(mut values) => Arc::new(values.finish()),
            Self::Unsigned(mut values) => Arc::new(values.finish()),
            Self::Floats(mut values) => Arc::new(values.finish()),
            Self::Text(mut values) => Arc::new(values.finish()),
            Self::Texts(mut values) => Arc::new(values.finish()),
            Self::Numbers(mut values) => Arc::new(values.finish()),
            Self::Vectors { dim, components, mut valid } => {
                let components = Arc::new(Float32Array::from(components));
                let nulls = NullBuffer::new(valid.finish());
                let nulls = (nulls.null_count() > 0).then_some(nulls);
                // A dimension is at most 65,536.
                Arc::new(FixedSizeListArray::new(component(), dim as i32, components, nulls))
            }
        }
    }

    /// Reads one value, or a null, from a field.
    fn push<'de, A: MapAccess<'de>>(&mut self, map: &mut A) -> Result<(), A::Error> {
        match self {
            Self::Flags(values) => values.append_option(map.next_value()?),
            Self::Integers(values) => values.append_option(map.next_value()?),
            Self::Unsigned(values) => values.append_option(map.next_value()?),
            Self::Floats(values) => values.append_option(map.next_value()?),
            Self::Text(values) => values.append_option(text(map.next_value()?)?),
            Self::Texts(values) => {
                values.append_option(map.next_value::<Option<Vec<Option<String>>>>()?);
            }
            Self::Numbers(values) => {
                values.append_option(map.next_value::<Option<Vec<Option<f64>>>>()?);
            }
            Self::Vectors { dim, components, valid } => {
                let is_valid = map.next_value_seed(VectorSeed { dim: *dim, components })?;
                valid.append(is_valid);
            }
        }
        Ok(())
    }
}

/// Returns a text as it is, anything else as it was written; `None` for null.
fn text<E: Error>(value: &RawValue) -> Result<Option<String>, E> {
    match value.get() {
        "null" => Ok(None),
        text if text.starts_with('"') => serde_json::from_str(text).map(Some).map_err(E::custom),
        other => Ok(Some(other.into())),
    }
}

impl Fields for Decoder {
    fn position(&mut self, name: &str) -> Result<Option<usize>, String> {
        Ok(self.positions.get(name).copied())
    }

    fn name(&self, position: usize) -> &str {
        &self.columns[position].name
    }

    fn take<'de, A: MapAccess<'de>>(&mut self, at: usize, map: &mut A) -> Result<(), A::Error> {
        let column = &mut self.columns[at];
        if column.rows == self.rows {
            return Err(twice());
        }
        column.rows += 1;
        column.values.push(map)
    }
}

/// A vector, whose components are appended; false for null.
struct VectorSeed<'a> {
    dim: usize,
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
        self.components.resize(self.components.len() + self.dim, 0.0);
        Ok(false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<bool, A::Error> {
        let start = self.components.len();
        while let Some(component) = seq.next_element_seed(ComponentSeed)? {
            self.components.push(component);
        }
        let (found, expected) = (self.components.len() - start, self.dim);
        if found != expected {
            let found = format!("vector has {found} components, expected {expected}");
            return Err(A::Error::custom(found));
        }
        Ok(true)
    }
}

/// What is wrong with a line: the message of `serde_json` with the field that it is about, and
/// without the line, which is always the first of one.
pub(super) fn found(error: &serde_json::Error, field: Option<&str>) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    match field {
        Some(field) => format!("field {field:?}: {text} (column {})", error.column()),
        None => format!("{text} (column {})", error.column()),
    }
}
