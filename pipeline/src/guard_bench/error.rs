//! [`GuardBenchError`].

use std::io;

/// Why labelled pairs could not be measured. Lines count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardBenchError {
    /// The input stopped.
    #[error("line {line}: {source}")]
    Read {
        /// The line that was being read.
        line: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A line without an end.
    #[error("line {line} is longer than {bytes_max} bytes")]
    LongLine {
        /// Where.
        line: u64,
        /// What a line may have.
        bytes_max: u64,
    },
    /// No JSON.
    #[error("line {line} is no JSON: {reason}")]
    Json {
        /// Where.
        line: u64,
        /// What the parser said.
        reason: String,
    },
    /// JSON, but no object.
    #[error("line {line} is {found}, not an object")]
    NotAnObject {
        /// Where.
        line: u64,
        /// What stands there.
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
        /// What stands there.
        found: &'static str,
        /// What should.
        expected: &'static str,
    },
    /// A number that is no similarity.
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
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
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
