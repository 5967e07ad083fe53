//! [`LabelledPairs`]: JSON Lines, one by one.

use std::io::{BufRead, Read};
use std::{fmt, io};

use serde_json::{Map, Value};

/// A line with two texts of 1 MB, all escaped, fits six times.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Two texts and somebody's label of their relation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LabelledPair {
    /// The line, from 1.
    pub(crate) line: u64,
    /// The older text.
    pub(crate) a: String,
    /// The newer text.
    pub(crate) b: String,
    /// Their relation.
    pub(crate) label: Label,
    /// The cosine of their vectors, where it is stated.
    pub(crate) similarity: Option<f64>,
}

/// Reads pairs, `{"a", "b", "label"}` on each line and perhaps `"similarity"`, their cosine;
/// further fields are ignored, empty lines are passed over.
///
/// Holds one line. After an error nothing more comes.
#[derive(Debug)]
pub(crate) struct LabelledPairs<R> {
    input: R,
    line: u64,
    bytes: Vec<u8>,
    ended: bool,
}

impl<R: BufRead> LabelledPairs<R> {
    /// Reads from `input`.
    pub(crate) const fn new(input: R) -> Self {
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
        let similarity = fields.get("similarity").and_then(Value::as_f64);
        Ok(Some(LabelledPair { line, a, b, label: label(&mut fields, line)?, similarity }))
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

/// The relation of two texts by the judgement of others: bands of similarity in ascending order, then words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Label {
    /// A similarity from 0 to 5, as in STS-Benchmark.
    Band(Band),
    /// Any word.
    Word(String),
}

/// A range of similarities from 0, unrelated, to 5, the same. The lower bound belongs to it; 5 to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Band(u8);

/// Lower bounds and names.
const BANDS: [(f64, &str); 6] =
    [(0.0, "0-1"), (1.0, "1-2"), (2.0, "2-3"), (3.0, "3-4"), (4.0, "4-4.5"), (4.5, "4.5-5")];

impl Label {
    /// The word that calls a pair contradictory.
    pub(crate) const CONTRADICTION: &str = "contradiction";

    /// Tells whether the pair is labelled as a contradiction.
    #[must_use]
    pub(crate) fn is_contradiction(&self) -> bool {
        matches!(self, Self::Word(word) if word == Self::CONTRADICTION)
    }
}

impl Band {
    /// Returns the band of a similarity; `None` outside 0 to 5.
    #[must_use]
    pub(crate) fn of(similarity: f64) -> Option<Self> {
        let is_in_range = (0.0..=5.0).contains(&similarity);
        let position = BANDS.iter().rposition(|(least, _)| similarity >= *least)?;
        is_in_range.then_some(Self(position as u8))
    }
}

impl fmt::Display for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Band(Band(position)) => formatter.write_str(BANDS[usize::from(*position)].1),
            Self::Word(word) => formatter.write_str(word),
        }
    }
}

/// Why labelled pairs could not be measured. Lines count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum GuardBenchError {
    /// The input stopped.
    #[error("line {line}: {source}")]
    Read {
        /// The line that was being read.
        line: u64,
        /// The system's error.
        source: io::Error,
    },
    /// A line without an end.
    #[error("line {line} is longer than {bytes_max} bytes")]
    LongLine {
        /// Where.
        line: u64,
        /// The limit of a line.
        bytes_max: u64,
    },
    /// No JSON.
    #[error("line {line} is no JSON: {reason}")]
    Json {
        /// Where.
        line: u64,
        /// The parser's error.
        reason: String,
    },
    /// JSON, but no object.
    #[error("line {line} is {found}, not an object")]
    NotAnObject {
        /// Where.
        line: u64,
        /// The value found.
        found: &'static str,
    },
    /// A field is not there.
    #[error("line {line} has no field \"{field}\"")]
    MissingField {
        /// Where.
        line: u64,
        /// Its name.
        field: &'static str,
    },
    /// A field holds something else.
    #[error("line {line}: \"{field}\" is {found}, not {expected}")]
    FieldType {
        /// Where.
        line: u64,
        /// Its name.
        field: &'static str,
        /// The value found.
        found: &'static str,
        /// The expected value.
        expected: &'static str,
    },
    /// A number that is not a similarity.
    #[error("line {line}: the label {label} is outside 0 to 5")]
    LabelRange {
        /// Where.
        line: u64,
        /// The number.
        label: f64,
    },
    /// The labels are not labels.
    #[error("line {line} has yet another label, after {labels_max}")]
    ManyLabels {
        /// Where.
        line: u64,
        /// How many there may be.
        labels_max: usize,
    },
}

impl GuardBenchError {
    /// Returns advice for the user.
    #[must_use]
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Read { .. } => return None,
            Self::LongLine { .. } => "put each pair on a line of its own",
            Self::Json { .. } | Self::NotAnObject { .. } | Self::MissingField { .. } => {
                "write one pair on each line: {\"a\": \"…\", \"b\": \"…\", \"label\": \"contradiction\"}"
            }
            Self::FieldType { .. } => {
                "a and b are texts; label is a word, or a similarity from 0 to 5"
            }
            Self::LabelRange { .. } => {
                "numbers are similarities from 0, unrelated, to 5, the same; write other labels as words"
            }
            Self::ManyLabels { .. } => "labels name a few kinds of pairs, such as paraphrase",
        };
        Some(hint.to_owned())
    }
}
