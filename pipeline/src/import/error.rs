//! [`ImportError`].

use std::fmt;
use std::io;

use memfold_store::brain_db::{CreateStoreError, SessionError};

/// A line that is no memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub number: u64,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.number, self.reason)
    }
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file cannot be read.
    #[error("{source}")]
    Read {
        /// What the system says.
        #[from]
        source: io::Error,
    },
    /// Lines are no memories.
    #[error("{}", listed(*count, bad))]
    Lines {
        /// How many.
        count: u64,
        /// The first of them.
        bad: Vec<BadLine>,
    },
    /// The store cannot be created.
    #[error(transparent)]
    Create(#[from] CreateStoreError),
    /// The store cannot be written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl ImportError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Lines { .. } => Some(
                "nothing was imported; mend or remove these lines and import the file again".into(),
            ),
            Self::Create(error) => error.hint(),
            Self::Session(error) => error.hint(),
            Self::Read { .. } | Self::Cancelled => None,
        }
    }
}

fn listed(count: u64, bad: &[BadLine]) -> String {
    let shown: Vec<String> = bad.iter().map(BadLine::to_string).collect();
    match count - bad.len() as u64 {
        0 if count == 1 => shown.concat(),
        0 => format!("{count} bad lines: {}", shown.join("; ")),
        more => format!("{count} bad lines: {}; and {more} more", shown.join("; ")),
    }
}
