//! [`ReadParquetError`].

use std::io;
use std::path::PathBuf;

use crate::schema::DIM_MAX;

/// A Parquet file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadParquetError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// It does not begin and end as a Parquet file.
    #[error("{}: not a readable Parquet file ({found})", path.display())]
    NotParquet {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
    },
    /// Its parts contradict each other, or it uses what the decoder does not know.
    #[error("{}: damaged: {found}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, and what was found.
        found: String,
    },
    /// It has no column of the names asked for.
    #[error("{}: no column {expected}, found {found}", path.display())]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// The names asked for.
        expected: String,
        /// The columns of the file with their types.
        found: String,
    },
    /// The column has another type.
    #[error("{}: column {column:?} is {found}, expected {expected}", path.display())]
    ColumnType {
        /// The file.
        path: PathBuf,
        /// The column.
        column: Box<str>,
        /// The types that can be read.
        expected: &'static str,
        /// Its type.
        found: String,
    },
    /// The column is compressed in a way that this build cannot read.
    #[error(
        "{}: column {column:?} is compressed with {found}, expected none, snappy or zstd",
        path.display()
    )]
    Compression {
        /// The file.
        path: PathBuf,
        /// The column.
        column: Box<str>,
        /// Its compression.
        found: Box<str>,
    },
    /// The number of components is out of range, or unknown because there is no row.
    #[error(
        "{}: column {column:?}: vectors of {found} components, expected 1 to {DIM_MAX}",
        path.display()
    )]
    Dimension {
        /// The file.
        path: PathBuf,
        /// The column.
        column: Box<str>,
        /// Components of the first row.
        found: usize,
    },
    /// The file has no rows, so the number of components is unknown.
    #[error("{}: column {column:?}: no rows", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// The column.
        column: Box<str>,
    },
    /// A vector of another length than the first.
    #[error(
        "{}: column {column:?}: row {row}: vector has {found} components, expected {expected} as in row 0",
        path.display()
    )]
    Length {
        /// The file.
        path: PathBuf,
        /// The column.
        column: Box<str>,
        /// The row.
        row: usize,
        /// Its components.
        found: usize,
        /// Components of the first row.
        expected: usize,
    },
    /// A row has no vector.
    #[error("{}: column {column:?}: row {row} is null, expected a vector", path.display())]
    NullRow {
        /// The file.
        path: PathBuf,
        /// The column.
        column: Box<str>,
        /// The row.
        row: usize,
    },
    /// A vector has a hole.
    #[error("{}: column {column:?}: row {row}: component {component} is null", path.display())]
    NullComponent {
        /// The file.
        path: PathBuf,
        /// The column.
        column: Box<str>,
        /// The row.
        row: usize,
        /// The component, from 0.
        component: usize,
    },
    /// A component is NaN or infinite, or too large for 32 bits.
    #[error("{}: column {column:?}: row {row}: component {component} is {value}", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The column.
        column: Box<str>,
        /// The row.
        row: usize,
        /// The component, from 0.
        component: usize,
        /// What it holds, as f32.
        value: f32,
    },
    /// An integer that f32 does not hold.
    #[error(
        "{}: column {column:?}: row {row}: component {component} is {value}, which f32 cannot hold exactly",
        path.display()
    )]
    Inexact {
        /// The file.
        path: PathBuf,
        /// The column.
        column: Box<str>,
        /// The row.
        row: usize,
        /// The component, from 0.
        component: usize,
        /// What it holds.
        value: i64,
    },
}

impl ReadParquetError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::NotParquet { .. } => "fetch or write the file again; its copy may be incomplete",
            Self::Damaged { .. } => "fetch or write the file again",
            Self::Compression { .. } => "write it again with compression=\"zstd\"",
            Self::NoColumn { .. } => "rename the column that you mean, or choose it by its name",
            Self::ColumnType { .. } => "docs/formats.md lists the types that can be read",
            Self::Length { .. } => "keep the rows of one embedding model",
            Self::NullRow { .. } | Self::NullComponent { .. } | Self::NotFinite { .. } => {
                "leave such rows out of the file"
            }
            Self::Inexact { .. } => "write the vectors as f32 if they may be rounded",
            Self::Io { .. } | Self::Dimension { .. } | Self::Empty { .. } => return None,
        };
        Some(advice.into())
    }
}
