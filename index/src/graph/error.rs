//! Why there is no graph.

use crate::Damaged;
use crate::join::JoinError;
use crate::scan::VectorError;

/// Why there is no graph.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildGraphError {
    /// A row holds NaN, an infinite value, or only zeros.
    #[error("row {row}: {reason}")]
    InvalidVector {
        /// The row.
        row: u32,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The vectors are too long for distances of codes.
    #[error(transparent)]
    Coding(#[from] Damaged),
    /// Rows are numbered with 31 bits.
    #[error("{found} rows are more than a graph can number (2,147,483,648)")]
    TooManyRows {
        /// Rows given.
        found: usize,
    },
    /// A parameter is out of range.
    #[error("degree must be 2 to 64, candidates degree to 1,024, probes 1 to 256")]
    Options,
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
    /// An option is out of range.
    #[error("{option} must be between {min} and {max}, found {found}")]
    Option {
        /// The option.
        option: &'static str,
        /// Its least value.
        min: usize,
        /// Its greatest value.
        max: usize,
        /// The value found.
        found: usize,
    },
    /// A row has no direction.
    #[error(transparent)]
    Row(#[from] VectorError),
}

impl From<JoinError> for BuildGraphError {
    fn from(error: JoinError) -> Self {
        match error {
            JoinError::InvalidVector { row, reason } => Self::InvalidVector { row, reason },
            // Reading rows in memory fails in no other way.
            _ => Self::Cancelled,
        }
    }
}
