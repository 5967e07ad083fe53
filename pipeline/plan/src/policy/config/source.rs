//! Where a value comes from.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

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
    /// Returns the layer without its place in it, for messages: what was typed may hold a secret.
    pub(super) fn layer(&self) -> String {
        match self {
            Self::File { path, .. } => shown(&path.to_string_lossy()),
            Self::Environment { name } => format!("the variable {name}"),
            Self::Set { .. } | Self::Flag { .. } => "the command line".to_owned(),
            Self::BuiltIn | Self::Machine => self.to_string(),
        }
    }

    /// Returns the folder that relative paths count from, where it is not the working directory.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => path.parent(),
            _ => None,
        }
    }
}

impl fmt::Display for Source {
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
    /// What it is.
    pub text: String,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.text)
    }
}

/// Serializes a path, whatever bytes it has.
fn lossy<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&path.display())
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
