//! [`JsonLinesFile`]: one JSON object for each row.

use std::collections::HashMap;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Decimal256Type, DecimalType, Float16Type, Float32Type,
    Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, PrimitiveArray, RecordBatch, StructArray, UInt32Array,
    new_empty_array,
};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use serde::Serialize;

use super::component::{VectorCells, shape_of};
use super::output::Shape;
use super::{ComponentType, WriteError};
use crate::atomic_file::NewFile;
use crate::guarded::guarded;
use crate::parquet::column_list;
use crate::read::{CellKind, Cells, InputFile, Texts};
use crate::schema::{ColumnSet, ColumnsMeta, DIM_MAX, VECTOR_NAMES, key};
use crate::write::table_file::{TableFormat, stored_column, stored_field};

const BUFFER_BYTES: usize = 1 << 20;
const NANOS_OF_SECOND: i128 = 1_000_000_000;
const SECONDS_OF_DAY: i128 = 86_400;

/// Writes the value at a position, which is not null.
type WriteValue = Box<dyn Fn(usize, &mut Vec<u8>)>;

/// Rows on their way to their place.
pub(super) struct JsonLinesFile {
    output: BufWriter<NewFile>,
    path: PathBuf,
    /// What stands before each value of a row.
    keys: Vec<Vec<u8>>,
    line: Vec<u8>,
}

impl JsonLinesFile {
    /// Begins a file of rows with the columns of `schema`, all of which [`is_held`].
    pub(super) fn create(path: &Path, schema: &Schema) -> Result<Self, WriteError> {
        let file = NewFile::create(path)
            .map_err(|source| WriteError::TableWrite { path: path.into(), source })?;
        let key = |(at, field): (usize, &Arc<arrow_schema::Field>)| {
            let start = if at == 0 { "{" } else { "," };
            format!("{start}{}:", json_text(field.name())).into_bytes()
        };
        let keys = schema.fields().iter().enumerate().map(key).collect();
        let output = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self { output, path: path.into(), keys, line: Vec::new() })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), WriteError> {
        let columns: Option<Vec<Column>> = batch.columns().iter().map(Column::of).collect();
        let columns = columns.ok_or_else(|| WriteError::Encode {
            path: self.path.clone(),
            reason: "a column of a type that JSON does not hold".into(),
        })?;
        for row in 0..batch.num_rows() {
            self.line.clear();
            for (key, column) in self.keys.iter().zip(&columns) {
                self.line.extend_from_slice(key);
                column.write(row, &mut self.line);
            }
            self.line.extend_from_slice(b"}\n");
            self.output
                .write_all(&self.line)
                .map_err(|source| WriteError::TableWrite { path: self.path.clone(), source })?;
        }
        Ok(())
    }

    /// Publishes the file.
    pub(super) fn finish(self) -> Result<(), WriteError> {
        let Self { output, path, .. } = self;
        let publish = || -> io::Result<()> {
            let file = output.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.publish().map(drop)
        };
        publish().map_err(|source| WriteError::TableWrite { path, source })
    }
}

/// Tells whether values of `data_type` can be written.
pub(super) fn is_held(data_type: &DataType) -> bool {
    guarded(|| Column::of(&new_empty_array(data_type)).is_some()).unwrap_or(false)
}

/// A column's values as JSON.
struct Column {
    array: ArrayRef,
    write: WriteValue,
}

impl Column {
    fn of(array: &ArrayRef) -> Option<Self> {
        Some(Self { array: Arc::clone(array), write: writer_of(array)? })
    }

    fn write(&self, i: usize, out: &mut Vec<u8>) {
        if self.array.is_null(i) {
            out.extend_from_slice(b"null");
        } else {
            (self.write)(i, out);
        }
    }
}

fn writer_of(array: &ArrayRef) -> Option<WriteValue> {
    Some(match array.data_type() {
        DataType::Null => Box::new(|_, out| out.extend_from_slice(b"null")),
        DataType::Boolean => {
            let values = array.as_boolean().clone();
            Box::new(move |i, out| push(out, values.value(i)))
        }
        DataType::Int8 => integers::<Int8Type>(array),
        DataType::Int16 => integers::<Int16Type>(array),
        DataType::Int32 => integers::<Int32Type>(array),
        DataType::Int64 => integers::<Int64Type>(array),
        DataType::UInt8 => integers::<UInt8Type>(array),
        DataType::UInt16 => integers::<UInt16Type>(array),
        DataType::UInt32 => integers::<UInt32Type>(array),
        DataType::UInt64 => integers::<UInt64Type>(array),
        DataType::Float16 => floats::<Float16Type, f32>(array, |value| value.to_f32()),
        DataType::Float32 => floats::<Float32Type, f32>(array, |value| value),
        DataType::Float64 => floats::<Float64Type, f64>(array, |value| value),
        DataType::Decimal128(..) => decimals::<Decimal128Type>(array),
        DataType::Decimal256(..) => decimals::<Decimal256Type>(array),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let offsets = lists.offsets().clone();
            // Offsets are never negative and never fall: the array was built with that check.
            items(lists.values(), move |i| offsets[i] as usize..offsets[i + 1] as usize)?
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            let offsets = lists.offsets().clone();
            items(lists.values(), move |i| offsets[i] as usize..offsets[i + 1] as usize)?
        }
        DataType::FixedSizeList(_, width) => {
            let width = usize::try_from(*width).ok()?;
            items(array.as_fixed_size_list().values(), move |i| i * width..(i + 1) * width)?
        }
        DataType::Struct(_) => fields(array.as_struct())?,
        other => return cells(array, other),
    })
}

fn integers<T: ArrowPrimitiveType>(array: &ArrayRef) -> WriteValue
where
    T::Native: fmt::Display,
{
    let values = array.as_primitive::<T>().clone();
    Box::new(move |i, out| push(out, values.value(i)))
}

/// The fewest digits that tell a value from its neighbours; null where JSON has no word for it.
fn floats<T: ArrowPrimitiveType, F: Serialize + 'static>(
    array: &ArrayRef,
    of: fn(T::Native) -> F,
) -> WriteValue {
    let values = array.as_primitive::<T>().clone();
    Box::new(move |i, out| {
        serde_json::to_writer(out, &of(values.value(i))).expect("memory takes all that is written");
    })
}

fn decimals<T: DecimalType + ArrowPrimitiveType>(array: &ArrayRef) -> WriteValue {
    let values: PrimitiveArray<T> = array.as_primitive::<T>().clone();
    Box::new(move |i, out| push(out, values.value_as_string(i)))
}

fn items(
    values: &ArrayRef,
    range: impl Fn(usize) -> std::ops::Range<usize> + 'static,
) -> Option<WriteValue> {
    let values = Column::of(values)?;
    Some(Box::new(move |i, out| {
        out.push(b'[');
        for (at, item) in range(i).enumerate() {
            if at > 0 {
                out.push(b',');
            }
            values.write(item, out);
        }
        out.push(b']');
    }))
}

fn fields(array: &StructArray) -> Option<WriteValue> {
    let named = array.fields().iter().zip(array.columns());
    let columns: Option<Vec<(String, Column)>> =
        named.map(|(field, column)| Some((json_text(field.name()), Column::of(column)?))).collect();
    let columns = columns?;
    Some(Box::new(move |i, out| {
        out.push(b'{');
        for (at, (key, column)) in columns.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            push(out, format_args!("{key}:"));
            column.write(i, out);
        }
        out.push(b'}');
    }))
}

/// Texts as they are, times as ISO 8601, bytes in hexadecimal.
fn cells(array: &ArrayRef, data_type: &DataType) -> Option<WriteValue> {
    match CellKind::of(data_type)? {
        CellKind::Text => {
            let texts = Texts::of(array)?;
            Some(Box::new(move |i, out| match texts.get(i) {
                Some(text) => push(out, json_text(text)),
                None => out.extend_from_slice(b"null"),
            }))
        }
        CellKind::Time => {
            let Cells::Time(nanos) = Cells::of(array)? else { return None };
            let form = TimeForm::of(data_type);
            Some(Box::new(move |i, out| match nanos[i] {
                Some(nanos) => push(out, format_args!("\"{}\"", form.text(nanos))),
                None => out.extend_from_slice(b"null"),
            }))
        }
        CellKind::Binary => {
            let bytes = Cells::of(array)?;
            Some(Box::new(move |i, out| {
                let mut text = String::new();
                bytes.write(i, &mut text);
                push(out, format_args!("\"{text}\""));
            }))
        }
        CellKind::Integer | CellKind::Float => None,
    }
}

/// How a time is written.
#[derive(Debug, Clone, Copy)]
struct TimeForm {
    digits: usize,
    is_date: bool,
    zone: &'static str,
}

impl TimeForm {
    fn of(data_type: &DataType) -> Self {
        let is_date = matches!(data_type, DataType::Date32 | DataType::Date64);
        let digits = match data_type {
            DataType::Timestamp(TimeUnit::Nanosecond, _) => 9,
            DataType::Timestamp(TimeUnit::Microsecond, _) => 6,
            DataType::Timestamp(TimeUnit::Millisecond, _) | DataType::Date64 => 3,
            _ => 0,
        };
        let zone = if matches!(data_type, DataType::Timestamp(_, Some(_))) { "Z" } else { "" };
        Self { digits, is_date, zone }
    }

    /// Writes nanoseconds since 1970.
    fn text(self, nanos: i128) -> String {
        let (seconds, nanos) =
            (nanos.div_euclid(NANOS_OF_SECOND), nanos.rem_euclid(NANOS_OF_SECOND));
        let (days, second) =
            (seconds.div_euclid(SECONDS_OF_DAY), seconds.rem_euclid(SECONDS_OF_DAY));
        let (year, month, day) = civil(days);
        let date = format!("{year:04}-{month:02}-{day:02}");
        if self.is_date && (second, nanos) == (0, 0) {
            return date;
        }
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        let fraction =
            &format!(".{nanos:09}")[..if self.digits == 0 { 0 } else { 1 + self.digits }];
        format!("{date}T{hour:02}:{minute:02}:{second:02}{fraction}{}", self.zone)
    }
}

/// Returns year, month and day of a day counted from 1970, in the Gregorian calendar.
fn civil(days: i128) -> (i128, i128, i128) {
    // Years begin in March here, so that the leap day is the last of its year.
    const DAYS_OF_400_YEARS: i128 = 146_097;
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(DAYS_OF_400_YEARS), days.rem_euclid(DAYS_OF_400_YEARS));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i128::from(month <= 2), month, day)
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn push(out: &mut Vec<u8>, value: impl fmt::Display) {
    write!(out, "{value}").expect("memory takes all that is written");
}

/// The column of a file that holds its vectors.
#[derive(Debug)]
pub(super) struct VectorColumn {
    pub(super) position: usize,
    pub(super) component: ComponentType,
    /// Components of each vector, where the type says how many.
    width: Option<usize>,
}

impl VectorColumn {
    /// Finds the column `name`, or the first of the usual names.
    pub(super) fn find(
        schema: &Schema,
        path: &Path,
        name: Option<&str>,
    ) -> Result<Self, WriteError> {
        let names = name.map_or(VECTOR_NAMES.to_vec(), |name| vec![name]);
        let position = names.iter().find_map(|name| schema.index_of(name).ok());
        let position = position.ok_or_else(|| WriteError::NoColumn {
            path: path.into(),
            expected: names.join(", "),
            found: column_list(schema),
        })?;
        let field = schema.field(position);
        let (component, width) =
            shape_of(field.data_type()).ok_or_else(|| WriteError::ColumnType {
                path: path.into(),
                column: field.name().clone(),
                found: field.data_type().to_string(),
            })?;
        Ok(Self { position, component, width })
    }

    /// Returns the number of components, which the first vector says where the type does not.
    pub(super) fn dim(&self, file: &InputFile, path: &Path) -> Result<usize, WriteError> {
        let dim = match self.width {
            Some(width) => Some(width),
            None => self.first_length(file)?.or_else(|| stated_dim(file.schema())),
        };
        match dim {
            Some(dim) if (1..=DIM_MAX).contains(&dim) => Ok(dim),
            Some(found) => Err(WriteError::Dimension { path: path.into(), found }),
            // Vectors there are none of have any length: the rows will be refused one by one.
            None if file.row_count() > 0 => Ok(1),
            None => Err(WriteError::NoRows { path: path.into() }),
        }
    }

    fn first_length(&self, file: &InputFile) -> Result<Option<usize>, WriteError> {
        for batch in file.batches(&[self.position])? {
            let length = VectorCells::of(batch?.column(0)).first_length();
            if length.is_some() {
                return Ok(length);
            }
        }
        Ok(None)
    }
}

fn stated_dim(schema: &Schema) -> Option<usize> {
    schema.metadata().get(key::DIM)?.parse().ok()
}

/// The columns of the table that is written.
pub(super) struct TableColumns {
    schema: SchemaRef,
    format: Option<TableFormat>,
    /// Where the vectors stand in the input.
    vector: usize,
    dim: usize,
    /// Whether rows are numbered: bare vectors become a column file of ours.
    is_numbered: bool,
}

impl TableColumns {
    /// Makes the columns of a table from those of the input; `format` is `None` where types are not
    /// stored.
    pub(super) fn new(
        input: &Schema,
        vector: usize,
        shape: Shape,
        format: Option<TableFormat>,
    ) -> Self {
        let is_numbered = format.is_some() && is_bare(input, shape);
        let schema = if is_numbered {
            column_file_schema(input.metadata(), shape.dim)
        } else {
            let fields = input.fields().iter().enumerate().map(|(at, field)| {
                if at == vector {
                    return vector_field(field, shape);
                }
                format.map_or_else(
                    || Field::clone(field),
                    |format| stored_field(Field::clone(field), format),
                )
            });
            let mut metadata = input.metadata().clone();
            // Written again when all rows are.
            metadata.remove(key::ROW_COUNT);
            Schema::new_with_metadata(fields.collect::<Vec<_>>(), metadata)
        };
        Self { schema: Arc::new(schema), format, vector, dim: shape.dim, is_numbered }
    }

    pub(super) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Tells whether the file says of itself that it has our columns.
    pub(super) fn is_ours(&self) -> bool {
        self.schema.metadata().contains_key(key::FORMAT_VERSION)
    }

    /// Returns a batch as it is written: that of the input with other components for its vectors.
    pub(super) fn batch(
        &self,
        input: &RecordBatch,
        components: ArrayRef,
        first_row: u64,
    ) -> Result<RecordBatch, String> {
        let mut columns: Vec<ArrayRef> = Vec::new();
        if self.is_numbered {
            // Rows of a column file are counted with 32 bits.
            let rows = first_row as u32..first_row as u32 + input.num_rows() as u32;
            columns.push(Arc::new(UInt32Array::from_iter_values(rows)));
        }
        for (at, column) in input.columns().iter().enumerate() {
            columns.push(match self.format {
                _ if at == self.vector => self.vectors(Arc::clone(&components))?,
                Some(format) => stored_column(column, format),
                None => Arc::clone(column),
            });
        }
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|error| error.to_string())
    }

    fn vectors(&self, components: ArrayRef) -> Result<ArrayRef, String> {
        let item = item_of(components.data_type().clone());
        let vectors = FixedSizeListArray::try_new(item, self.dim as i32, components, None);
        Ok(Arc::new(vectors.map_err(|error| error.to_string())?))
    }
}

/// Returns the schema of a column file of bare vectors, with what the input says of them.
fn column_file_schema(input: &HashMap<String, String>, dim: usize) -> Schema {
    let stated =
        ColumnsMeta::from_metadata(|name| input.get(name).map(String::as_str), ColumnSet::Vectors);
    // A dimension is at most 65,536.
    let dim = dim as u32;
    let stated = stated.ok().filter(|meta| meta.dim == dim);
    let meta = stated.unwrap_or_else(|| ColumnsMeta::vectors(dim));
    let schema = meta.arrow_schema();
    let mut metadata = schema.metadata().clone();
    let others = input.iter().filter(|(name, _)| !is_own_key(name));
    metadata.extend(others.map(|(name, value)| (name.clone(), value.clone())));
    schema.with_metadata(metadata)
}

fn is_own_key(name: &str) -> bool {
    [
        key::FORMAT_VERSION,
        key::DIM,
        key::MODEL,
        key::METRIC,
        key::NORMALISED,
        key::SOURCE_HASH,
        key::SYNTHETIC,
        key::ROW_COUNT,
    ]
    .contains(&name)
}

/// Tells whether a file has nothing but vectors that a column file holds.
fn is_bare(input: &Schema, shape: Shape) -> bool {
    input.fields().len() == 1
        && input.field(0).name() == crate::schema::Column::Vector.name()
        && shape.component == ComponentType::F32
        && shape.rows < u64::from(u32::MAX)
}

fn vector_field(field: &Field, shape: Shape) -> Field {
    let item = item_of(shape.component.data_type());
    // A dimension is at most 65,536.
    let data_type = DataType::FixedSizeList(item, shape.dim as i32);
    Field::new(field.name(), data_type, false).with_metadata(field.metadata().clone())
}

fn item_of(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("item", data_type, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let day = SECONDS_OF_DAY * NANOS_OF_SECOND;
        let micros = DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into()));
        let said = |data_type: &DataType, nanos| TimeForm::of(data_type).text(nanos);
        assert_eq!(said(&micros, 1_782_820_800_123_456_000), "2026-06-30T12:00:00.123456Z");
        assert_eq!(said(&micros, -1000), "1969-12-31T23:59:59.999999Z");
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        assert_eq!(said(&seconds, 951_782_399 * NANOS_OF_SECOND), "2000-02-28T23:59:59");
        for (days, date) in [(0, "1970-01-01"), (11_016, "2000-02-29"), (-25_509, "1900-02-28")] {
            assert_eq!(said(&DataType::Date32, days * day), date);
        }
        assert_eq!(said(&DataType::Date32, -25_508 * day), "1900-03-01");
        assert_eq!(said(&DataType::Date64, day / 2), "1970-01-01T12:00:00.000");
    }
}
