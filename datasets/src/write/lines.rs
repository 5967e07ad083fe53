//! Rows as lines: [`Lines`], one JSON object for each row of a table, and
//! [`TextRowsWriter`], memories as JSON Lines or CSV, as [`crate::texts`] reads them.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema, TimeUnit};
use jiff::Timestamp;
use jiff::fmt::temporal::DateTimePrinter;
use jiff::tz::TimeZone;
use serde_json::json;

use super::files::stored_column;
use crate::DataError;
use crate::atomic_file::NewFile;
use crate::columns::ColumnRecord;
use crate::read::{CellKind, Cells, VectorFormat};

/// Rows as objects in JSON, a line for each.
pub(super) struct Lines<W> {
    out: W,
    /// The text before each value of a row.
    keys: Vec<String>,
    line: Vec<u8>,
}

impl<W: Write> Lines<W> {
    /// Begins rows with the columns of `schema`, all of which [`is_held`].
    pub(super) fn new(out: W, schema: &Schema) -> Self {
        let key = |(at, name): (usize, &str)| {
            format!("{}{}:", if at == 0 { "{" } else { "," }, json_text(name))
        };
        let names = schema.fields().iter().map(|field| field.name().as_str());
        Self { out, keys: names.enumerate().map(key).collect(), line: Vec::new() }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> io::Result<()> {
        let columns: Vec<JsonColumn> = batch.columns().iter().map(JsonColumn::of).collect();
        (0..batch.num_rows()).try_for_each(|row| {
            self.line.clear();
            for (key, column) in self.keys.iter().zip(&columns) {
                push(&mut self.line, key);
                column.write(row, &mut self.line);
            }
            push(&mut self.line, "}\n");
            self.out.write_all(&self.line)
        })
    }

    pub(super) fn into_inner(self) -> W {
        self.out
    }
}

/// Tells whether values of `data_type` can be written.
pub(crate) fn is_held(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null | DataType::Decimal128(..) | DataType::Decimal256(..) => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_held(item.data_type())
        }
        DataType::Struct(fields) => fields.iter().all(|field| is_held(field.data_type())),
        other => CellKind::of(other).is_some(),
    }
}

/// A column's values as JSON.
pub(crate) struct JsonColumn {
    array: ArrayRef,
    values: Values,
}

enum Values {
    /// Numbers and flags, and nothing.
    Plain,
    Cells(Cells),
    /// Nanoseconds since 1970.
    Times {
        nanos: Vec<Option<i128>>,
        printer: DateTimePrinter,
        zone: &'static str,
    },
    Lists {
        items: Box<JsonColumn>,
        offsets: Vec<usize>,
    },
    Fields(Vec<(String, JsonColumn)>),
}

impl Values {
    fn lists(items: &ArrayRef, offsets: impl Iterator<Item = usize>) -> Self {
        Self::Lists { items: JsonColumn::of(items).into(), offsets: offsets.collect() }
    }
}

impl JsonColumn {
    /// Takes an array of a type that [`is_held`] accepts.
    pub(crate) fn of(array: &ArrayRef) -> Self {
        // Dictionaries become texts.
        let array = stored_column(array, VectorFormat::Columns);
        let values = match array.data_type() {
            // Offsets are never negative and never fall.
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                Values::lists(list.values(), list.offsets().iter().map(|at| *at as usize))
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                Values::lists(list.values(), list.offsets().iter().map(|at| *at as usize))
            }
            DataType::FixedSizeList(_, width) => {
                let width = width.cast_unsigned() as usize;
                let values = array.as_fixed_size_list().values();
                Values::lists(values, (0..=array.len()).map(|at| at * width))
            }
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns().iter().map(Self::of);
                let names = fields.iter().map(|field| json_text(field.name()));
                Values::Fields(names.zip(columns).collect())
            }
            other => match Cells::of(&array) {
                Some(Cells::Time(nanos)) => {
                    let printer = DateTimePrinter::new().precision(Some(digits_of(other)));
                    let has_zone = matches!(other, DataType::Timestamp(_, Some(_)));
                    Values::Times { nanos, printer, zone: if has_zone { "Z" } else { "" } }
                }
                Some(Cells::Float(_)) | None => Values::Plain,
                Some(_) if *other == DataType::Boolean => Values::Plain,
                Some(cells) => Values::Cells(cells),
            },
        };
        Self { array, values }
    }

    /// Appends the value at `i`.
    pub(crate) fn write(&self, i: usize, out: &mut Vec<u8>) {
        if self.array.is_null(i) {
            return push(out, "null");
        }
        match &self.values {
            Values::Plain => self.write_plain(i, out),
            Values::Cells(Cells::Text(texts)) => {
                push(out, json_text(texts.get(i).unwrap_or_default()));
            }
            Values::Cells(cells) => {
                let mut text = String::new();
                cells.write(i, &mut text);
                match cells {
                    Cells::Binary(_) => push(out, format_args!("\"{text}\"")),
                    _ => push(out, text),
                }
            }
            Values::Times { nanos, printer, zone } => {
                let nanos = nanos[i].unwrap_or_default();
                match Timestamp::from_nanosecond(nanos) {
                    Ok(time) => {
                        let time = time.to_zoned(TimeZone::UTC).datetime();
                        let is_date = matches!(self.array.data_type(), DataType::Date32);
                        let text = match is_date {
                            true => time.date().to_string(),
                            false => printer.datetime_to_string(&time),
                        };
                        push(out, format_args!("\"{text}{zone}\""));
                    }
                    // Years that ISO 8601 has no four digits for.
                    Err(_) => push(out, nanos),
                }
            }
            Values::Lists { items, offsets } => {
                let range = offsets[i]..offsets[i + 1];
                for item in range.clone() {
                    push(out, if item == range.start { "[" } else { "," });
                    items.write(item, out);
                }
                push(out, if range.is_empty() { "[]" } else { "]" });
            }
            Values::Fields(columns) => {
                for (at, (name, column)) in columns.iter().enumerate() {
                    push(out, format_args!("{}{name}:", if at == 0 { "{" } else { "," }));
                    column.write(i, out);
                }
                push(out, if columns.is_empty() { "{}" } else { "}" });
            }
        }
    }

    /// Writes floats with the fewest digits that tell them from their neighbours, null where JSON
    /// has no word for them.
    fn write_plain(&self, i: usize, out: &mut Vec<u8>) {
        fn float(value: &impl serde::Serialize, out: &mut Vec<u8>) {
            serde_json::to_writer(out, value).expect("memory takes all that is written");
        }
        let array = &self.array;
        match array.data_type() {
            DataType::Boolean => push(out, array.as_boolean().value(i)),
            DataType::Float16 => float(&array.as_primitive::<Float16Type>().value(i).to_f32(), out),
            DataType::Float32 => float(&array.as_primitive::<Float32Type>().value(i), out),
            DataType::Float64 => float(&array.as_primitive::<Float64Type>().value(i), out),
            DataType::Decimal128(..) => {
                push(out, array.as_primitive::<Decimal128Type>().value_as_string(i));
            }
            DataType::Decimal256(..) => {
                push(out, array.as_primitive::<Decimal256Type>().value_as_string(i));
            }
            _ => push(out, "null"),
        }
    }
}

fn digits_of(data_type: &DataType) -> u8 {
    match data_type {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 9,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 6,
        DataType::Timestamp(TimeUnit::Millisecond, _) | DataType::Date64 => 3,
        _ => 0,
    }
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn push(out: &mut Vec<u8>, value: impl Display) {
    write!(out, "{value}").expect("memory takes all that is written");
}

/// The fields of a row; the last two only where vectors are written.
const FIELDS: &str = "id text categories importance access_count created_at source model vector";
const FIELDS_WITHOUT_VECTOR: usize = 7;

/// Writes memories with their texts, and with vectors if requested.
pub struct TextRowsWriter {
    output: Output,
    path: PathBuf,
    fields: Vec<&'static str>,
}

enum Output {
    JsonLines(NewFile),
    Csv(Box<csv::Writer<NewFile>>),
}

impl TextRowsWriter {
    /// Begins CSV, or JSON Lines, in a new file, which takes its place when finished.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create_in(file: NewFile, is_csv: bool, has_vectors: bool) -> Result<Self, DataError> {
        let count = if has_vectors { usize::MAX } else { FIELDS_WITHOUT_VECTOR };
        let fields: Vec<&str> = FIELDS.split(' ').take(count).collect();
        let path = file.path().to_owned();
        let output = if is_csv {
            let mut csv = csv::Writer::from_writer(file);
            csv.write_record(&fields).map_err(|error| failed(&path, error))?;
            Output::Csv(Box::new(csv))
        } else {
            Output::JsonLines(file)
        };
        Ok(Self { output, path, fields })
    }

    /// Appends a row; an empty vector is none.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn push(&mut self, record: &ColumnRecord<'_>) -> Result<(), DataError> {
        let time = record.created_at.and_then(|micros| Timestamp::from_microsecond(micros).ok());
        let vector = (!record.vector.is_empty()).then_some(record.vector);
        let values = [
            json!(record.id),
            json!(record.text),
            json!(record.categories),
            json!(record.importance),
            json!(record.access_count),
            json!(time.map(|time| time.to_string())),
            json!(record.source),
            json!(vector.map(|_| record.model)),
        ];
        // A value of JSON would hold f64, with more digits.
        let vector = vector.map(|vector| serde_json::to_string(vector).unwrap_or_default());
        let in_json = |at: usize| match values.get(at) {
            Some(value) => (!value.is_null()).then(|| value.to_string()),
            None => vector.clone(),
        };
        let written = match &mut self.output {
            Output::Csv(csv) => {
                let as_text = |at: usize| values.get(at)?.as_str().map(str::to_owned);
                let cell = |at| as_text(at).or_else(|| in_json(at)).unwrap_or_default();
                csv.write_record((0..self.fields.len()).map(cell)).map_err(io::Error::other)
            }
            Output::JsonLines(output) => {
                let member = |(at, name): (usize, &&str)| {
                    format!("{name:?}:{}", in_json(at).as_deref().unwrap_or("null"))
                };
                let members: Vec<String> = self.fields.iter().enumerate().map(member).collect();
                writeln!(output, "{{{}}}", members.join(","))
            }
        };
        written.map_err(|source| DataError::io(&self.path, source))
    }

    /// Publishes the file.
    ///
    /// # Errors
    /// When writing or publishing fails; the file's place then has its former content.
    pub fn finish(self) -> Result<(), DataError> {
        let file = match self.output {
            Output::Csv(csv) => {
                csv.into_inner().map_err(|error| io::Error::other(error.to_string()))
            }
            Output::JsonLines(file) => Ok(file),
        };
        let published = file.and_then(|file| file.publish().map(drop));
        published.map_err(|source| DataError::io(&self.path, source))
    }
}

fn failed(path: &Path, error: csv::Error) -> DataError {
    DataError::io(path, io::Error::other(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::{TextFields, TextFile};

    #[test]
    fn rows_are_read_back_from_both_forms() {
        let folder = tempfile::tempdir().unwrap();
        let categories = ["ops".into(), "user:u".into()];
        let record = ColumnRecord {
            id: "a",
            created_at: Some(1_767_225_600_000_000),
            categories: &categories,
            importance: 1.5,
            access_count: 3,
            source: "manual",
            model: "m",
            text: Some("two\nlines, \"quoted\""),
            vector: &[0.1, -2.0],
            ..ColumnRecord::default()
        };
        for (name, has_vectors) in
            [("a.jsonl", true), ("b.jsonl", false), ("a.csv", true), ("b.csv", false)]
        {
            let path = folder.path().join(name);
            let file = NewFile::create(&path).unwrap();
            let mut writer =
                TextRowsWriter::create_in(file, name.ends_with("csv"), has_vectors).unwrap();
            writer.push(&record).unwrap();
            let other = ColumnRecord { id: "b", created_at: None, vector: &[], ..record };
            writer.push(&other).unwrap();
            writer.finish().unwrap();
            let file = TextFile::read(&path, &TextFields::default()).unwrap();
            let [first, second] = &*file.records else { panic!("{file:?}") };
            assert_eq!(Some(&*first.text), record.text, "{name}");
            assert_eq!(first.categories, ["ops", "user:u"]);
            assert_eq!((first.importance, first.access_count), (Some(1.5), Some(3)));
            assert_eq!(first.created_at.as_deref(), Some("2026-01-01T00:00:00Z"));
            assert_eq!(first.vector.as_deref(), has_vectors.then_some(record.vector));
            assert_eq!(first.model.is_some(), has_vectors);
            assert_eq!((&second.created_at, &second.vector, &second.model), (&None, &None, &None));
            assert!(file.passed_over.is_empty() && second.fault.is_none());
        }
    }
}
