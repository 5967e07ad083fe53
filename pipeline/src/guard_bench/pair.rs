//! [`LabelledPairs`]: JSON Lines, one by one.

use std::io::{BufRead, Read};

use serde_json::{Map, Value};

use super::{Band, GuardBenchError, Label};

/// A line with two texts of 1 MB, all escaped, fits six times.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Two texts and what somebody says of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledPair {
    /// The line, from 1.
    pub line: u64,
    /// The older text.
    pub a: String,
    /// The newer text.
    pub b: String,
    /// Their relation.
    pub label: Label,
}

/// Reads pairs, `{"a", "b", "label"}` on each line; further fields are not looked at, empty lines are passed over.
///
/// Holds one line. After an error nothing more comes.
#[derive(Debug)]
pub struct LabelledPairs<R> {
    input: R,
    line: u64,
    bytes: Vec<u8>,
    ended: bool,
}

impl<R: BufRead> LabelledPairs<R> {
    /// Reads from `input`.
    pub const fn new(input: R) -> Self {
        Self { input, line: 0, bytes: Vec::new(), ended: false }
    }

    /// Reads the next line that is not empty; tells whether there is one.
    fn next_line(&mut self) -> Result<bool, GuardBenchError> {
        loop {
            self.bytes.clear();
            self.line += 1;
            let line = self.line;
            let mut limited = (&mut self.input).take(LINE_BYTES_MAX + 1);
            let read = limited.read_until(b'\n', &mut self.bytes);
            if read.map_err(|source| GuardBenchError::Read { line, source })? == 0 {
                return Ok(false);
            }
            if self.bytes.len() as u64 > LINE_BYTES_MAX {
                return Err(GuardBenchError::LongLine { line, bytes_max: LINE_BYTES_MAX });
            }
            // Other programs may begin a file with a byte order mark.
            if self.line == 1 && self.bytes.starts_with("\u{feff}".as_bytes()) {
                self.bytes.drain(.."\u{feff}".len());
            }
            if !self.bytes.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    fn next_pair(&mut self) -> Result<Option<LabelledPair>, GuardBenchError> {
        if !self.next_line()? {
            return Ok(None);
        }
        let line = self.line;
        let value: Value = serde_json::from_slice(self.bytes.trim_ascii_end())
            .map_err(|error| no_json(line, &error))?;
        let Value::Object(mut fields) = value else {
            return Err(GuardBenchError::NotAnObject { line, found: kind(&value) });
        };
        let a = text(&mut fields, "a", line)?;
        let b = text(&mut fields, "b", line)?;
        Ok(Some(LabelledPair { line, a, b, label: label(&mut fields, line)? }))
    }
}

impl<R: BufRead> Iterator for LabelledPairs<R> {
    type Item = Result<LabelledPair, GuardBenchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.next_pair().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

fn no_json(line: u64, error: &serde_json::Error) -> GuardBenchError {
    // The parser saw one line and counts it as the first.
    let text = error.to_string();
    let reason = text.split(" at line 1").next().unwrap_or_default();
    GuardBenchError::Json { line, reason: format!("{reason}, in column {}", error.column()) }
}

fn field(
    fields: &mut Map<String, Value>,
    field: &'static str,
    line: u64,
) -> Result<Value, GuardBenchError> {
    fields.remove(field).ok_or(GuardBenchError::MissingField { line, field })
}

fn text(
    fields: &mut Map<String, Value>,
    name: &'static str,
    line: u64,
) -> Result<String, GuardBenchError> {
    match field(fields, name, line)? {
        Value::String(text) => Ok(text),
        other => Err(wrong(line, name, &other, "a text")),
    }
}

fn label(fields: &mut Map<String, Value>, line: u64) -> Result<Label, GuardBenchError> {
    match field(fields, "label", line)? {
        Value::String(word) => Ok(Label::Word(word)),
        Value::Number(number) => {
            let label = number.as_f64().unwrap_or(f64::NAN);
            let band = Band::of(label).ok_or(GuardBenchError::LabelRange { line, label })?;
            Ok(Label::Band(band))
        }
        other => Err(wrong(line, "label", &other, "a text or a number")),
    }
}

fn wrong(line: u64, field: &'static str, value: &Value, expected: &'static str) -> GuardBenchError {
    GuardBenchError::FieldType { line, field, found: kind(value), expected }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
