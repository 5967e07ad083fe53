//! [`ConfigError`]: the fault of a configuration, and [`Source`]: its place.

use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use super::layers::Node;

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
    /// A layer has a wrong key or value, or the layers cannot be collected.
    #[error("{problem}")]
    Invalid {
        /// The place, and the problem with the key.
        problem: Box<str>,
        /// Advice.
        hint: Option<Box<str>>,
    },
}

impl ConfigError {
    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable { cause, .. } if cause.kind() == io::ErrorKind::NotFound => Some(
                "check the path; relative paths in a file count from that file's folder".to_owned(),
            ),
            Self::Unreadable { .. } => Some("check the path and its permissions".to_owned()),
            Self::Invalid { hint, .. } => hint.as_deref().map(str::to_owned),
        }
    }

    /// An empty hint is none.
    pub(super) fn new(problem: impl Into<Box<str>>, hint: impl Into<Box<str>>) -> Self {
        let hint = Some(hint.into()).filter(|hint| !hint.is_empty());
        Self::Invalid { problem: problem.into(), hint }
    }

    /// An error in a layer.
    pub(super) fn at(place: &Source, problem: impl Display, hint: impl Into<Box<str>>) -> Self {
        Self::new(format!("{place}: {problem}"), hint)
    }

    /// A key in two spellings, or set twice.
    pub(super) fn repeated_key(place: &Source, key: &str) -> Self {
        let hint = "keep one; camelCase and snake_case are the same key";
        Self::at(place, format!("key `{}` is given twice", shown(key)), hint)
    }

    /// A value of another type, or outside its range.
    pub(super) fn wrong_value(
        node: &Node,
        key: &str,
        expected: &str,
        hint: impl Into<Box<str>>,
    ) -> Self {
        let (key, found) = (shown(key), node.described());
        Self::at(&node.source, format!("`{key}` expects {expected}, found {found}"), hint)
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
        Self::at(&place(line), problem, hint)
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

/// Where a value comes from: the layer, and the place in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(tag = "layer", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Source {
    /// The program.
    BuiltIn,
    /// The machine that it runs on.
    Machine,
    /// A file.
    File {
        /// Which of the files.
        file: FileLayer,
        /// Its path.
        #[serde(serialize_with = "lossy")]
        path: PathBuf,
        /// The line, from 1; 0 where the whole file is meant.
        line: u64,
    },
    /// An environment variable.
    Environment {
        /// Its name.
        name: String,
    },
    /// `--set KEY=VALUE`.
    Set {
        /// The text as typed.
        text: String,
    },
    /// Another command line flag.
    Flag {
        /// Its name, `--threshold`.
        name: String,
    },
}

/// Which configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileLayer {
    /// The system's.
    System,
    /// The user's.
    User,
    /// The one beside the store.
    Store,
    /// The one given by `--config`.
    Given,
}

impl Source {
    /// Returns the layer without its place in it, for messages: a typed value may hold a secret.
    pub(super) fn layer(&self) -> String {
        match self {
            Self::File { path, .. } => shown(&path.to_string_lossy()),
            Self::Environment { name } => format!("the variable {name}"),
            Self::Set { .. } | Self::Flag { .. } => "the command line".to_owned(),
            Self::BuiltIn | Self::Machine => self.to_string(),
        }
    }

    /// Returns the folder that relative paths count from, where it is not the working directory.
    pub(super) fn folder(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => path.parent(),
            _ => None,
        }
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in"),
            Self::Machine => f.write_str("this machine"),
            Self::File { path, line: 0, .. } => write!(f, "{}", shown(&path.to_string_lossy())),
            Self::File { path, line, .. } => {
                write!(f, "{}, line {line}", shown(&path.to_string_lossy()))
            }
            Self::Environment { name } => write!(f, "variable {name}"),
            Self::Set { text } => write!(f, "--set {}", shown(text)),
            Self::Flag { name } => f.write_str(name),
        }
    }
}

/// Something that a person should know of, though the configuration is valid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// Where it was found.
    pub source: Source,
    /// The message.
    pub text: String,
}

impl Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.text)
    }
}

/// Serializes a path, whatever bytes it has.
fn lossy<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&path.display())
}
