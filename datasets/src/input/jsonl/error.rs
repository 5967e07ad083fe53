//! [`ReadJsonlError`].

use std::path::PathBuf;

/// A file of JSON lines could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadJsonlError {
    /// A line is no object, or not like the others.
    #[error("{}: line {line}: {found}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What was found.
        found: String,
    },
}

impl ReadJsonlError {
    /// Returns advice.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Line { .. } => "write one object on each line, with vectors of one length".into(),
        }
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
