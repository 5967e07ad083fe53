//! [`LabelledPairs`]: JSON Lines, one by one.

use std::fmt;
use std::io::{BufRead, Read as _};

use serde::Deserialize;
use serde_json::Value;

/// A line with two texts of 1 MB, all escaped, fits six times.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Advice about a line that is no pair.
const FORMAT: &str = "write one pair on each line: {\"a\": \"…\", \"b\": \"…\", \"label\": \"contradiction\"}; \
                      a label is a word, or a similarity from 0, unrelated, to 5, the same";

/// Two texts and somebody's label of their relation; further fields are ignored.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct LabelledPair {
    /// The line, from 1.
    #[serde(skip)]
    pub(super) line: u64,
    /// The older text.
    pub(super) a: String,
    /// The newer text.
    pub(super) b: String,
    /// Their relation.
    pub(super) label: Label,
    /// The cosine of their vectors, where it is stated.
    pub(super) similarity: Option<f64>,
}

/// Reads pairs; empty lines are passed over. Holds one line. After an error nothing more comes.
pub(super) struct LabelledPairs<R> {
    input: R,
    line: u64,
    bytes: Vec<u8>,
    ended: bool,
}

impl<R: BufRead> LabelledPairs<R> {
    pub(super) const fn new(input: R) -> Self {
        Self { input, line: 0, bytes: Vec::new(), ended: false }
    }

    fn read(&mut self) -> Result<Option<LabelledPair>, PairError> {
        loop {
            self.bytes.clear();
            self.line += 1;
            let line = self.line;
            let mut limited = (&mut self.input).take(LINE_BYTES_MAX + 1);
            let read = limited.read_until(b'\n', &mut self.bytes);
            let unread = |error: std::io::Error| PairError::new(line, error.to_string(), None);
            if read.map_err(unread)? == 0 {
                return Ok(None);
            }
            if self.bytes.len() as u64 > LINE_BYTES_MAX {
                let reason = format!("longer than {LINE_BYTES_MAX} bytes");
                return Err(PairError::new(line, reason, Some(FORMAT)));
            }
            let bom = "\u{feff}".as_bytes();
            // Other programs may begin a file with a byte order mark.
            let bytes = self.bytes.strip_prefix(bom).filter(|_| line == 1).unwrap_or(&self.bytes);
            if !bytes.trim_ascii().is_empty() {
                let pair = serde_json::from_slice(bytes.trim_ascii_end());
                let pair: LabelledPair = pair.map_err(|error| PairError::of(line, &error))?;
                return Ok(Some(LabelledPair { line, ..pair }));
            }
        }
    }
}

impl<R: BufRead> Iterator for LabelledPairs<R> {
    type Item = Result<LabelledPair, PairError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// The relation of two texts by the judgement of others: bands of similarity in ascending order, then words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "Value")]
pub(super) enum Label {
    /// A position in [`BANDS`].
    Band(usize),
    /// Any word.
    Word(String),
}

/// Ranges of similarities from 0, unrelated, to 5, the same, as in STS-Benchmark: lower bounds, which belong to
/// them, and names. 5 belongs to the last.
const BANDS: [(f64, &str); 6] =
    [(0.0, "0-1"), (1.0, "1-2"), (2.0, "2-3"), (3.0, "3-4"), (4.0, "4-4.5"), (4.5, "4.5-5")];

impl Label {
    /// Returns the band of a similarity; `None` outside 0 to 5.
    pub(super) fn of(similarity: f64) -> Option<Self> {
        let position = BANDS.iter().rposition(|(least, _)| similarity >= *least)?;
        (similarity <= 5.0).then_some(Self::Band(position))
    }

    /// Tells whether the pair is labelled as a contradiction.
    pub(super) fn is_contradiction(&self) -> bool {
        matches!(self, Self::Word(word) if word == "contradiction")
    }
}

impl TryFrom<Value> for Label {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        match (value.as_f64(), value) {
            (_, Value::String(word)) => Ok(Self::Word(word)),
            (Some(similarity), _) => Self::of(similarity)
                .ok_or_else(|| format!("the label {similarity} is outside 0 to 5")),
            _ => Err("the label is neither a text nor a number".to_owned()),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Band(position) => formatter.write_str(BANDS[*position].1),
            Self::Word(word) => formatter.write_str(word),
        }
    }
}

/// Why labelled pairs could not be measured.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub(super) struct PairError {
    /// From 1.
    line: u64,
    reason: String,
    /// Advice for the user.
    pub(super) hint: Option<&'static str>,
}

impl PairError {
    pub(super) const fn new(line: u64, reason: String, hint: Option<&'static str>) -> Self {
        Self { line, reason, hint }
    }

    fn of(line: u64, error: &serde_json::Error) -> Self {
        // The parser saw one line and counts it as the first.
        let text = error.to_string();
        let reason = text.split(" at line 1").next().unwrap_or_default();
        Self::new(line, format!("{reason}, in column {}", error.column()), Some(FORMAT))
    }
}
