//! [`DataError`]: why a file of vectors or texts cannot be read or written.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

use crate::schema::DIM_MAX;

/// The formats that are read, as errors list them.
pub(crate) const EXPECTED_FORMATS: &str = "Arrow IPC, Parquet, npy, npz, safetensors, HDF5, JSON \
     lines, fvecs, ivecs, bvecs, fbin, f16bin, u8bin, i8bin or ibin";

/// A file could not be read or written.
///
/// Errors about texts name no path: they may come from a stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The system refused to open, read or write a file.
    #[error("{}{source}", At(path))]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file has no known format, or differs from the format that its beginning or its name
    /// indicates.
    #[error("{}{found}", At(path))]
    Format {
        /// The file.
        path: PathBuf,
        /// The content found, and the expected one.
        found: String,
        /// Advice; may be empty.
        advice: String,
    },
    /// The file is damaged, or does not fit its use: a line, a number of rows or components, or
    /// another file.
    #[error("{}{found}", At(path))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The place and the content found.
        found: String,
        /// Advice, if there is any.
        advice: Option<&'static str>,
    },
    /// The file lacks a column or array of the expected names.
    #[error("{}no {role} {expected}, found {found}", At(path))]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// The use of the column.
        role: ColumnRole,
        /// The names.
        expected: String,
        /// The columns of the file with their types, or its arrays with their shapes.
        found: String,
    },
    /// No record of texts has the field.
    #[error("no field for the {role}{}, found {}", named(expected.as_deref()), listed(found))]
    NoField {
        /// The use of the field: text, id, time or user.
        role: &'static str,
        /// The name that the caller gave.
        expected: Option<String>,
        /// The dotted names of the existing fields.
        found: Vec<String>,
    },
    /// The column has a type that its use does not allow.
    #[error("{}column {column:?} is {found}, expected {expected}", At(path))]
    ColumnType {
        /// The file.
        path: PathBuf,
        /// The use of the column.
        role: ColumnRole,
        /// The column.
        column: Box<str>,
        /// The types that its use allows.
        expected: &'static str,
        /// Its type.
        found: String,
    },
    /// The vector of a row cannot be used.
    #[error("{}row {row}: {fault}", At(path))]
    Vector {
        /// The file.
        path: PathBuf,
        /// The row, from 0.
        row: u64,
        /// The defect of its vector.
        fault: VectorFault,
    },
    /// The output cannot be written as requested.
    #[error("{}{found}", At(path))]
    Output {
        /// The file.
        path: PathBuf,
        /// Why.
        found: String,
        /// Advice, if there is any.
        advice: Option<&'static str>,
    },
    /// Another program wrote to the file while it was read.
    #[error("{}changed while it was read", At(path))]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The caller cancelled.
    #[error("interrupted")]
    Cancelled,
}

/// The use of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ColumnRole {
    /// It holds the vectors.
    Vector,
    /// It is one of several arrays, of which one holds the vectors.
    Array,
    /// It identifies rows.
    Id,
    /// It orders rows.
    Order,
}

impl fmt::Display for ColumnRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Array { "array" } else { "column" })
    }
}

/// The defect of a row's vector.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum VectorFault {
    /// There is none.
    Null,
    /// A component is null.
    ComponentNull {
        /// The component, from 0.
        component: usize,
    },
    /// It has another length than the others.
    Length {
        /// Its components.
        found: usize,
        /// Components of the others.
        expected: usize,
    },
    /// A component is NaN or infinite, or too large for its type.
    NotFinite {
        /// Its value.
        component: usize,
        /// The component.
        value: f64,
    },
    /// A component that the type it is read or written as does not hold exactly.
    Inexact {
        /// Its value.
        component: usize,
        /// The component.
        value: f64,
        /// The name of the type.
        expected: &'static str,
    },
    /// A component beyond the range of the type it is written as.
    OutOfRange {
        /// Its value.
        component: usize,
        /// The component.
        value: f64,
        /// The name of the type.
        expected: &'static str,
    },
}

impl fmt::Display for VectorFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("the vector is null"),
            Self::ComponentNull { component } => write!(f, "component {component} is null"),
            Self::Length { found, expected } => {
                write!(f, "vector has {found} components, expected {expected}")
            }
            Self::NotFinite { component, value } => write!(f, "component {component} is {value}"),
            Self::Inexact { component, value, expected } => {
                write!(
                    f,
                    "component {component} is {value}, which {expected} does not hold exactly"
                )
            }
            Self::OutOfRange { component, value, expected } => {
                write!(f, "component {component} is {value}, out of the range of {expected}")
            }
        }
    }
}

/// Returns the message of an error about JSON without its place.
pub(crate) fn json_message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

/// Names in an error.
const NAMES_SHOWN: usize = 20;

/// Lists names.
pub(crate) fn listed(names: &[String]) -> String {
    let shown: Vec<String> =
        names.iter().take(NAMES_SHOWN).map(|name| format!("{name:?}")).collect();
    match names.len() {
        0 => "none".into(),
        count if count > NAMES_SHOWN => {
            format!("{} and {} more", shown.join(", "), count - NAMES_SHOWN)
        }
        _ => shown.join(", "),
    }
}

/// Lists columns or arrays with their types.
pub(crate) fn described(all: impl ExactSizeIterator<Item = String>) -> String {
    let count = all.len();
    let mut shown: Vec<String> = all.take(NAMES_SHOWN).collect();
    if count > NAMES_SHOWN {
        shown.push(format!("{} more", count - NAMES_SHOWN));
    }
    if shown.is_empty() { "none".into() } else { shown.join(", ") }
}

fn named(expected: Option<&str>) -> String {
    expected.map(|name| format!(" {name:?}")).unwrap_or_default()
}

/// Tells whether the folder of a path exists.
fn has_folder(path: &Path) -> bool {
    path.parent().is_none_or(|folder| folder.as_os_str().is_empty() || folder.is_dir())
}

/// Of a stream, or of a file that the caller names.
impl From<io::Error> for DataError {
    fn from(source: io::Error) -> Self {
        Self::Io { path: PathBuf::new(), source }
    }
}

/// A path and a colon; nothing where the path is not known.
struct At<'a>(&'a Path);

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_os_str().is_empty() {
            true => Ok(()),
            false => write!(f, "{}: ", self.0.display()),
        }
    }
}

impl DataError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::Io { path, source } => match source.kind() {
                io::ErrorKind::StorageFull => "free some space, or choose another folder",
                io::ErrorKind::NotFound if !has_folder(path) => "create the folder first",
                io::ErrorKind::PermissionDenied => "check who may use the file and its folder",
                _ => return None,
            },
            Self::Format { advice, .. } if !advice.is_empty() => advice.as_str(),
            Self::Format { .. } => {
                "docs/formats.md lists what can be read; numpy.save and Parquet always work"
            }
            Self::NoField { role, found, .. } if found.is_empty() => {
                return Some(format!("write objects with a field for the {role}"));
            }
            Self::NoField { role, .. } => return Some(format!("name the field of the {role}")),
            Self::NoColumn { role: ColumnRole::Vector, .. } => {
                "name the column that holds the vectors, or call it \"vector\""
            }
            Self::NoColumn { role: ColumnRole::Array, .. } => {
                "name the array that holds the vectors"
            }
            Self::NoColumn { .. } | Self::ColumnType { .. } => "name another column",
            Self::Cancelled => return None,
            Self::Vector { fault, .. } => match fault {
                VectorFault::Length { .. } => "keep the rows of one embedding model",
                VectorFault::Inexact { .. } => "write the vectors as f32 if they may be rounded",
                VectorFault::OutOfRange { .. } => "choose a wider type",
                _ => "leave such rows out of the file",
            },
            Self::Invalid { advice, .. } | Self::Output { advice, .. } => (*advice)?,
            Self::Changed { .. } => "run again when nobody writes to it",
        };
        Some(advice.into())
    }

    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    pub(crate) fn format(path: &Path, found: impl Into<String>) -> Self {
        Self::Format { path: path.into(), found: found.into(), advice: String::new() }
    }

    /// An input of texts that cannot be read, with advice.
    pub(crate) fn texts(found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::Format { path: PathBuf::new(), found: found.into(), advice: advice.into() }
    }

    /// A file that is cut short, or has parts that contradict each other.
    pub(crate) fn damaged(path: &Path, found: impl fmt::Display) -> Self {
        let advice = "fetch or write the file again; its copy may be incomplete";
        Self::invalid(path, format!("damaged: {found}"), Some(advice))
    }

    /// A line of JSON Lines, from 1, that is not an object, or does not fit the lines before it.
    pub(crate) fn line(path: &Path, line: u64, found: &str) -> Self {
        let advice = "write one object on each line, with vectors of one length";
        Self::invalid(path, format!("line {line}: {found}"), Some(advice))
    }

    /// A file that holds something else than the `first` one.
    pub(crate) fn differs(path: &Path, found: &str, expected: &str, first: &Path) -> Self {
        let advice = "process files of other columns or another model on their own";
        let found = format!("{found}, expected {expected} as in {}", first.display());
        Self::invalid(path, found, Some(advice))
    }

    /// A number of rows or components that cannot be used.
    pub(crate) fn shape(
        path: &Path,
        found: impl fmt::Display,
        expected: impl fmt::Display,
    ) -> Self {
        Self::invalid(path, format!("{found}, expected {expected}"), None)
    }

    fn invalid(path: &Path, found: String, advice: Option<&'static str>) -> Self {
        Self::Invalid { path: path.into(), found, advice }
    }

    /// Refuses a number of components that no vector has.
    pub(crate) fn check_dim(path: &Path, dim: usize) -> Result<(), Self> {
        if (1..=DIM_MAX).contains(&dim) {
            return Ok(());
        }
        let found = format!("vectors of {dim} components");
        Err(Self::shape(path, found, format!("1 to {DIM_MAX}")))
    }

    /// An output that an encoder refused.
    pub(crate) fn encode(path: &Path, found: impl Into<String>) -> Self {
        Self::Output { path: path.into(), found: found.into(), advice: None }
    }

    pub(crate) fn of_arrow(path: &Path, error: ArrowError) -> Self {
        match error {
            ArrowError::IoError(_, source) => Self::io(path, source),
            other => Self::encode(path, other.to_string()),
        }
    }

    pub(crate) fn of_parquet(path: &Path, error: ParquetError) -> Self {
        match error {
            ParquetError::External(source) => match source.downcast() {
                Ok(source) => Self::io(path, *source),
                Err(other) => Self::encode(path, other.to_string()),
            },
            other => Self::encode(path, other.to_string()),
        }
    }

    /// Names the file of an error about its header.
    pub(crate) fn with_path(mut self, named: &Path) -> Self {
        if let Self::Io { path, .. } | Self::Format { path, .. } | Self::Invalid { path, .. } =
            &mut self
        {
            *path = named.into();
        }
        self
    }
}
