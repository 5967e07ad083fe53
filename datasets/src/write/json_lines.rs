//! [`JsonLinesFile`]: one JSON object for each row.

use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema, TimeUnit};
use jiff::fmt::temporal::DateTimePrinter;
use jiff::tz::TimeZone;

use super::files::{TableFormat, stored_column};
use crate::DataError;
use crate::atomic_file::NewFile;
use crate::read::Cells;

const BUFFER_BYTES: usize = 1 << 20;

/// Rows on their way to their place.
pub(super) struct JsonLinesFile {
    output: BufWriter<NewFile>,
    path: PathBuf,
    /// The text before each value of a row.
    keys: Vec<String>,
    line: Vec<u8>,
}

impl JsonLinesFile {
    /// Begins a file of rows with the columns of `schema`, all of which [`is_held`].
    pub(super) fn create(path: &Path, schema: &Schema) -> Result<Self, DataError> {
        let file = NewFile::create(path).map_err(|source| DataError::io(path, source))?;
        let key = |(at, name): (usize, &str)| {
            format!("{}{}:", if at == 0 { "{" } else { "," }, json_text(name))
        };
        let names = schema.fields().iter().map(|field| field.name().as_str());
        let keys = names.enumerate().map(key).collect();
        let output = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self { output, path: path.into(), keys, line: Vec::new() })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), DataError> {
        let columns: Vec<JsonColumn> = batch.columns().iter().map(JsonColumn::of).collect();
        for row in 0..batch.num_rows() {
            self.line.clear();
            for (key, column) in self.keys.iter().zip(&columns) {
                push(&mut self.line, key);
                column.write(row, &mut self.line);
            }
            push(&mut self.line, "}\n");
            let written = self.output.write_all(&self.line);
            written.map_err(|source| DataError::io(&self.path, source))?;
        }
        Ok(())
    }

    /// Publishes the file.
    pub(super) fn finish(self) -> Result<(), DataError> {
        let file = self.output.into_inner().map_err(io::IntoInnerError::into_error);
        let published = file.and_then(|file| file.publish().map(drop));
        published.map_err(|source| DataError::io(&self.path, source))
    }
}

/// Tells whether values of `data_type` can be written.
pub(super) fn is_held(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null | DataType::Boolean | DataType::Decimal128(..) => true,
        DataType::Decimal256(..) | DataType::Timestamp(..) => true,
        DataType::Date32 | DataType::Date64 => true,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => true,
        DataType::Dictionary(_, values) => {
            matches!(**values, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_held(item.data_type())
        }
        DataType::Struct(fields) => fields.iter().all(|field| is_held(field.data_type())),
        other => other.is_integer() || other.is_floating(),
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
    Lists(Box<JsonColumn>),
    Fields(Vec<(String, JsonColumn)>),
}

impl JsonColumn {
    /// Tells whether values of `data_type` can be written.
    pub(crate) fn is_held(data_type: &DataType) -> bool {
        is_held(data_type)
    }

    /// Takes an array whose type [`is_held`].
    pub(crate) fn of(array: &ArrayRef) -> Self {
        // Dictionaries become texts.
        let array = stored_column(array, TableFormat::Arrow);
        let values = match array.data_type() {
            DataType::List(_) => Values::Lists(Self::of(array.as_list::<i32>().values()).into()),
            DataType::LargeList(_) => {
                Values::Lists(Self::of(array.as_list::<i64>().values()).into())
            }
            DataType::FixedSizeList(..) => {
                Values::Lists(Self::of(array.as_fixed_size_list().values()).into())
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
                match jiff::Timestamp::from_nanosecond(nanos) {
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
            Values::Lists(values) => {
                for (at, item) in self.items(i).enumerate() {
                    push(out, if at == 0 { "[" } else { "," });
                    values.write(item, out);
                }
                push(out, if self.items(i).is_empty() { "[]" } else { "]" });
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

    /// Returns where the items of a list lie; offsets are never negative and never fall.
    fn items(&self, i: usize) -> std::ops::Range<usize> {
        match self.array.data_type() {
            DataType::List(_) => {
                let offsets = self.array.as_list::<i32>().offsets();
                offsets[i] as usize..offsets[i + 1] as usize
            }
            DataType::LargeList(_) => {
                let offsets = self.array.as_list::<i64>().offsets();
                offsets[i] as usize..offsets[i + 1] as usize
            }
            _ => {
                let width = self.array.as_fixed_size_list().value_length().cast_unsigned() as usize;
                i * width..(i + 1) * width
            }
        }
    }

    /// Writes floats with the fewest digits that tell them from their neighbours, null where JSON has no word for them.
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
