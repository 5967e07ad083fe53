//! Why a file cannot be converted.

use parquet::errors::ParquetError;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::{ComponentType, VectorFormat};
use crate::read::ReadError;
use crate::schema::DIM_MAX;

/// A file could not be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The name of the output tells no format.
    #[error("{}: unknown extension", path.display())]
    OutputFormat {
        /// The output.
        path: PathBuf,
    },
    /// The output is the input.
    #[error("{}: the output is the input", path.display())]
    OutputIsInput {
        /// The file.
        path: PathBuf,
    },
    /// The format does not hold components of the type asked for.
    #[error("{} holds {expected}, not {found}", format.name())]
    TypeNotHeld {
        /// The format.
        format: VectorFormat,
        /// What it holds.
        expected: ComponentType,
        /// What was asked for.
        found: ComponentType,
    },
    /// The input cannot be read.
    #[error(transparent)]
    Input(#[from] ReadError),
    /// The input has no column of the names asked for.
    #[error("{}: no column {expected}, found {found}", path.display())]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// The names asked for.
        expected: String,
        /// The columns of the file with their types.
        found: String,
    },
    /// The column holds no vectors.
    #[error(
        "{}: column {column:?} is {found}, expected a list of f16, f32, f64, u8, i8 or i32, \
         or fixed-size binary of 4-byte floats",
        path.display()
    )]
    ColumnType {
        /// The file.
        path: PathBuf,
        /// The column.
        column: String,
        /// Its type.
        found: String,
    },
    /// The number of components is out of range.
    #[error("{}: vectors of {found} components, expected 1 to {DIM_MAX}", path.display())]
    Dimension {
        /// The file.
        path: PathBuf,
        /// Components of its vectors.
        found: usize,
    },
    /// Without a row the number of components is unknown.
    #[error("{}: no rows, so nothing tells how many components a vector has", path.display())]
    NoRows {
        /// The file.
        path: PathBuf,
    },
    /// Rows without a usable vector.
    #[error(
        "{}: row {row}: {fault}; rows without a usable vector: {rows_bad} of {rows}", path.display()
    )]
    Vector {
        /// The file.
        path: PathBuf,
        /// The first such row.
        row: u64,
        /// What is wrong with its vector.
        fault: VectorFault,
        /// Rows of the file.
        rows: u64,
        /// Those that have no usable vector.
        rows_bad: u64,
    },
    /// A component changes in the type that the format holds.
    #[error("{}: row {row}: component {component} is {value}, no value of {expected}", path.display())]
    Inexact {
        /// The file.
        path: PathBuf,
        /// The row.
        row: u64,
        /// The component, from 0.
        component: usize,
        /// What it holds.
        value: f64,
        /// The type in the input.
        found: ComponentType,
        /// The type that the format holds.
        expected: ComponentType,
    },
    /// A component is out of the range of the type asked for.
    #[error("{}: row {row}: component {component} is {value}, out of the range of {expected}", path.display())]
    OutOfRange {
        /// The file.
        path: PathBuf,
        /// The row.
        row: u64,
        /// The component, from 0.
        component: usize,
        /// What it holds.
        value: f64,
        /// The type asked for.
        expected: ComponentType,
    },
    /// The format cannot count so many rows.
    #[error("{}: {rows} rows, {} holds {rows_max} at most", path.display(), format.name())]
    TooManyRows {
        /// The input.
        path: PathBuf,
        /// Its rows.
        rows: u64,
        /// The format.
        format: VectorFormat,
        /// The most rows that it holds.
        rows_max: u64,
    },
    /// The format cannot hold a column of the input.
    #[error("{}: column {column:?} is {found}, which {} does not hold", path.display(), format.name())]
    ColumnNotHeld {
        /// The input.
        path: PathBuf,
        /// The column.
        column: String,
        /// Its type.
        found: String,
        /// The format.
        format: VectorFormat,
    },
    /// The input was written to while it was read.
    #[error("{}: {found} rows, expected {expected} as when it was opened", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
        /// Rows that were read.
        found: u64,
        /// Rows that it had.
        expected: u64,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
    /// The system refused to write.
    #[error("write {}: {source}", path.display())]
    TableWrite {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The format refused the rows.
    #[error("write {}: {reason}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// What the encoder said.
        reason: String,
    },
    /// The name of the copy tells no format.
    #[error("{}: unknown extension, expected {expected}", path.display())]
    AnnotateOutputFormat {
        /// The copy.
        path: PathBuf,
        /// Extensions that tell one.
        expected: &'static str,
    },
    /// The copy would replace its own input.
    #[error("{}: the copy would replace an input", path.display())]
    AnnotateOutputIsInput {
        /// The file.
        path: PathBuf,
    },
    /// An input has a column of a name that is to be added.
    #[error("{}: there is a column {column:?} already", path.display())]
    ColumnExists {
        /// The file.
        path: PathBuf,
        /// The column.
        column: &'static str,
    },
    /// The rows of two inputs do not fit one file.
    #[error("{}: {found}, expected {expected} as in {}", path.display(), first.display())]
    SchemasDiffer {
        /// The file.
        path: PathBuf,
        /// What it has.
        found: String,
        /// The first file.
        first: PathBuf,
        /// What the first file has.
        expected: String,
    },
    /// An input was written to since the corpus was read.
    #[error("{}: {found} rows, expected {expected} as when it was read first", path.display())]
    AnnotateChanged {
        /// The file.
        path: PathBuf,
        /// Rows now.
        found: u64,
        /// Rows before.
        expected: u64,
    },
}

/// What is wrong with the vector of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum VectorFault {
    /// There is none.
    Null,
    /// It has a hole.
    ComponentNull {
        /// The component, from 0.
        component: usize,
    },
    /// It is longer or shorter than the first.
    Length {
        /// Its components.
        found: usize,
        /// Components of the first.
        expected: usize,
    },
    /// It holds NaN or an infinite value.
    NotFinite {
        /// The component, from 0.
        component: usize,
        /// What it holds.
        value: f64,
    },
}

impl fmt::Display for VectorFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("the vector is null"),
            Self::ComponentNull { component } => write!(f, "component {component} is null"),
            Self::Length { found, expected } => {
                write!(f, "vector has {found} components, expected {expected} as the first")
            }
            Self::NotFinite { component, value } => write!(f, "component {component} is {value}"),
        }
    }
}

impl WriteError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::OutputFormat { .. } => {
                let names = VectorFormat::WRITTEN.map(VectorFormat::name);
                return Some(format!("name the format with --to: {}", names.join(", ")));
            }
            Self::OutputIsInput { .. } => "name another file: inputs are never changed",
            Self::TypeNotHeld { .. } => "leave --type out, or choose a format that holds all types",
            Self::Input(error) => return error.hint(),
            Self::NoColumn { .. } | Self::ColumnType { .. } => "choose a column with --column NAME",
            Self::Vector { .. } => "write the input again without these rows",
            Self::Inexact { found, expected, .. } => {
                return Some(format!(
                    "round with --type {expected}, or write a format that holds {found}, such as npy"
                ));
            }
            Self::OutOfRange { .. } => "choose a wider type",
            Self::TooManyRows { .. } => "write npy, Arrow or Parquet",
            Self::ColumnNotHeld { .. } => "write Arrow or Parquet, or drop the column first",
            Self::Changed { .. } | Self::AnnotateChanged { .. } => {
                "run again when nobody writes to it"
            }
            Self::TableWrite { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull => "free some space, or choose another folder",
                io::ErrorKind::NotFound => "create the folder first",
                io::ErrorKind::PermissionDenied => "choose a folder that you may write to",
                _ => return None,
            },
            Self::AnnotateOutputFormat { .. } => "name the copy with one of these extensions",
            Self::AnnotateOutputIsInput { .. } => "give the copy another name",
            Self::ColumnExists { .. } => {
                "rename or drop the column first; it may come from an earlier run"
            }
            Self::SchemasDiffer { .. } => {
                "annotate files of the same columns together, others alone"
            }
            Self::Encode { .. }
            | Self::Dimension { .. }
            | Self::NoRows { .. }
            | Self::Cancelled => return None,
        };
        Some(advice.into())
    }

    pub(crate) fn of_parquet(path: &Path, error: ParquetError) -> Self {
        let encode = |reason| Self::Encode { path: path.into(), reason };
        match error {
            ParquetError::External(source) => match source.downcast() {
                Ok(source) => Self::TableWrite { path: path.into(), source: *source },
                Err(other) => encode(other.to_string()),
            },
            other => encode(other.to_string()),
        }
    }
}
