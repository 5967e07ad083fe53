//! [`ConfigError`]: what is wrong with a configuration, and where.

use std::io;
use std::path::PathBuf;

use super::layers::Source;

/// Why a configuration is refused. Every message names the place, the key, the expected and the found value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read.
    #[error("configuration file {} cannot be read: {cause}", shown(&path.to_string_lossy()))]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A file is not one to read a configuration from.
    #[error("configuration file {} {problem}", shown(&path.to_string_lossy()))]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// The problem.
        problem: Box<str>,
        /// Advice.
        hint: &'static str,
    },
    /// A layer has a wrong key or value.
    #[error("{place}: {problem}")]
    Invalid {
        /// Where.
        place: Source,
        /// The problem, with the key.
        problem: Box<str>,
        /// Advice.
        hint: Option<Box<str>>,
    },
    /// The layers cannot be collected.
    #[error("{problem}")]
    Layers {
        /// Why.
        problem: Box<str>,
        /// Advice.
        hint: &'static str,
    },
}

impl ConfigError {
    /// Returns what the user may do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable { cause, .. } if cause.kind() == io::ErrorKind::NotFound => Some(
                "check the path; relative paths in a file count from that file's folder".to_owned(),
            ),
            Self::Unreadable { .. } => Some("check the path and its permissions".to_owned()),
            Self::Unusable { hint, .. } | Self::Layers { hint, .. } => Some((*hint).to_owned()),
            Self::Invalid { hint, .. } => hint.as_deref().map(str::to_owned),
        }
    }

    /// An error in a layer; an empty hint is none.
    pub(super) fn at(place: Source, problem: impl Into<String>, hint: impl Into<String>) -> Self {
        let hint = Some(hint.into().into_boxed_str()).filter(|hint| !hint.is_empty());
        Self::Invalid { place, problem: problem.into().into(), hint }
    }

    pub(super) fn layers(problem: impl Into<String>, hint: &'static str) -> Self {
        Self::Layers { problem: problem.into().into(), hint }
    }

    /// A key in two spellings, or set twice.
    pub(super) fn repeated_key(place: Source, key: &str) -> Self {
        let hint = "keep one; camelCase and snake_case are the same key";
        Self::at(place, format!("key `{}` is given twice", shown(key)), hint)
    }

    /// A value of another type, or outside its range.
    pub(super) fn wrong_value(
        place: Source,
        key: &str,
        expected: &str,
        found: &str,
        hint: impl Into<String>,
    ) -> Self {
        Self::at(place, format!("`{}` expects {expected}, found {found}", shown(key)), hint)
    }

    /// A lower bound above its upper bound, each a key and its value.
    pub(super) fn empty_range(
        place: Source,
        low_key: &str,
        low: &str,
        high_key: &str,
        high: &str,
    ) -> Self {
        let problem = format!("`{low_key}` is {low}, above `{high_key}`, which is {high}");
        Self::at(place, problem, "nothing can lie between them; raise one or lower the other")
    }

    /// Translates a parser's error; `place` makes a source of a line.
    pub(super) fn syntax(error: &serde_saphyr::Error, place: &dyn Fn(u64) -> Source) -> Self {
        use serde_saphyr::Error;
        let line = error.location().map_or(0, |location| location.line());
        let (problem, hint) = match error.without_snippet() {
            Error::MultipleDocuments { .. } => {
                ("more than one YAML document".to_owned(), "keep one document per file")
            }
            Error::DuplicateMappingKey { key, .. } => (
                format!("key `{}` is given twice", shown(key.as_deref().unwrap_or("?"))),
                "keep one of them",
            ),
            Error::NonFiniteFloat { value, .. } => (
                format!("`{}` is not a finite number", shown(value)),
                "write a number such as 0.95",
            ),
            Error::Budget { .. }
            | Error::AliasReplayLimitExceeded { .. }
            | Error::AliasExpansionLimitExceeded { .. }
            | Error::AliasReplayStackDepthExceeded { .. }
            | Error::AliasError { .. } => (
                format!("too much for a configuration: {}", without_place(&error.to_string())),
                "write values out instead of nesting or repeating them by `&` and `*`",
            ),
            other => {
                let message = without_place(&other.to_string());
                let hint = match message.contains("tab") {
                    true => "indent with spaces",
                    false => "texts with `:`, `#`, `*` or `&` need quotes",
                };
                (message, hint)
            }
        };
        Self::at(place(line), problem, hint)
    }
}

/// Drops the parser's own place, which the message's beginning tells already.
fn without_place(message: &str) -> String {
    let end = message.find(" at line ").unwrap_or(message.len());
    shown(&message[..end])
}

/// Returns text with control characters escaped, shortened to a screen line.
pub(super) fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 120;
    let short: String = text.chars().take(CHARS_MAX).collect();
    let cut = if short.len() < text.len() { "…" } else { "" };
    let escaped: String = short
        .chars()
        .map(|char| if char.is_control() { char.escape_default().to_string() } else { char.into() })
        .collect();
    escaped + cut
}
