//! Why a file cannot be read.

use crate::columns::ColumnFileError;
use crate::schema::DIM_MAX;
use std::io;
use std::path::PathBuf;

use memfold_index::MapError;

/// The formats that are read, as errors list them.
pub(crate) const EXPECTED_FORMATS: &str = "Arrow IPC, Parquet, npy, npz, safetensors, HDF5, JSON \
     lines, fvecs, ivecs, bvecs, fbin, f16bin, u8bin, i8bin or ibin";

/// What to do about a file of no such format.
pub(crate) const UNKNOWN_FORMAT_HINT: &str = "save it with numpy.save or as Parquet";

/// An input file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// Neither content nor extension are those of a format that is read here.
    #[error(
        "{}: expected {EXPECTED_FORMATS}, found a file that begins with \"{found}\"",
        path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Its first bytes, escaped.
        found: String,
    },
    /// The header is not one of vectors.
    #[error("{}: {found}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What was found, and what was expected.
        found: String,
    },
    /// The file is shorter or longer than its header says.
    #[error("{}: {found} bytes, expected {expected} for {rows} × {dim}", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// Bytes in the file.
        found: u64,
        /// Bytes that the header asks for.
        expected: u64,
        /// Rows in the header.
        rows: usize,
        /// Components in the header.
        dim: usize,
    },
    /// A vector of another length than the first.
    #[error(
        "{}: row {row}: vector has {found} components, expected {expected} as in row 0",
        path.display()
    )]
    RowLength {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
        /// Its components.
        found: u32,
        /// Components of the first row.
        expected: usize,
    },
    /// This program was built without this format.
    #[error("{}: {format}, and this memfold was built without the feature {feature}", path.display())]
    NotBuilt {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: &'static str,
        /// The Cargo feature that adds it.
        feature: &'static str,
    },
    /// None of several arrays is known to hold the vectors.
    #[error("{}: expected {expected}, found {found}", path.display())]
    NoArray {
        /// The file.
        path: PathBuf,
        /// What would have been taken.
        expected: String,
        /// The arrays with shapes and types.
        found: String,
    },
    /// Its parts contradict each other, or it uses what is not read here.
    #[error("{}: damaged: {found}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where, and what was found.
        found: String,
    },
    /// It could not be mapped.
    #[error("{source}{}", cause(source))]
    Map {
        /// Why.
        source: MapError,
    },
    /// It does not begin and end as an Arrow IPC file, nor as a stream.
    #[error("{}: not a finished Arrow IPC file ({found})", path.display())]
    NotArrow {
        /// The file.
        path: PathBuf,
        /// What was found.
        found: String,
    },
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
    /// A component is NaN or infinite, or too large for 32 bits.
    #[error("{}: row {row}: component {component} is {value}", path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
        /// The component, from 0.
        component: usize,
        /// What it holds.
        value: f32,
    },
    /// What was given to write holds no whole number of rows.
    #[error("{}: {found} values are no whole rows of {dim}", path.display())]
    Ragged {
        /// The file.
        path: PathBuf,
        /// Values given.
        found: usize,
        /// Components of a row.
        dim: usize,
    },
    /// It does not begin and end as a Parquet file.
    #[error("{}: not a readable Parquet file ({found})", path.display())]
    NotParquet {
        /// The file.
        path: PathBuf,
        /// What was found.
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
    ParquetLength {
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
    ParquetNotFinite {
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
    /// A column file that cannot be read.
    #[error(transparent)]
    Columns(#[from] ColumnFileError),
    /// It has no vectors under the usual names.
    #[error("{}: no vectors named {expected}, found {found}", path.display())]
    NoVectors {
        /// The file.
        path: PathBuf,
        /// The names looked for.
        expected: String,
        /// The columns of the file with their types.
        found: String,
    },
    /// A row has no vector.
    #[error("{}: row {row} is null, expected a vector", path.display())]
    VectorFileNullRow {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
    },
    /// An integer that f32 does not hold.
    #[error(
        "{}: row {row}: component {component} is {value}, which f32 cannot hold exactly",
        path.display()
    )]
    VectorFileInexact {
        /// The file.
        path: PathBuf,
        /// The row.
        row: usize,
        /// The component, from 0.
        component: usize,
        /// What it holds.
        value: i64,
    },
    /// There are no files.
    #[error("no input files")]
    NoInputs,
    /// A file has no column of the names asked for.
    #[error("{}: no column {expected}, found {found}", path.display())]
    CorpusNoColumn {
        /// The file.
        path: PathBuf,
        /// The names asked for.
        expected: String,
        /// The columns of the file with their types.
        found: String,
        /// The option that names another.
        option: &'static str,
    },
    /// A column has a type that its use does not allow.
    #[error("{}: column {column:?} is {found}, expected {expected}", path.display())]
    CorpusColumnType {
        /// The file.
        path: PathBuf,
        /// The column.
        column: Box<str>,
        /// The types that can be read.
        expected: &'static str,
        /// Its type.
        found: String,
        /// The option that names another.
        option: &'static str,
    },
    /// Vectors of no or too many components.
    #[error("{}: vectors of {found} components, expected 1 to {DIM_MAX}", path.display())]
    CorpusDimension {
        /// The file.
        path: PathBuf,
        /// Components of its vectors.
        found: usize,
    },
    /// Two files hold vectors of different lengths.
    #[error(
        "{}: vectors of {found} components, expected {expected} as in {}",
        path.display(),
        first.display()
    )]
    DimensionsDiffer {
        /// The file.
        path: PathBuf,
        /// Components of its vectors.
        found: usize,
        /// The first file with vectors.
        first: PathBuf,
        /// Components of the first file's vectors.
        expected: usize,
    },
    /// Values of two files cannot be ordered among each other.
    #[error(
        "{}: column {column:?} holds {found}, expected {expected} as in {}",
        path.display(),
        first.display()
    )]
    OrderKindsDiffer {
        /// The file.
        path: PathBuf,
        /// The column.
        column: Box<str>,
        /// What it holds there.
        found: &'static str,
        /// The first file.
        first: PathBuf,
        /// What it holds in the first file.
        expected: &'static str,
    },
    /// Rows with vectors are numbered with 32 bits.
    #[error("more than {} rows with vectors", u32::MAX - 1)]
    TooManyRows,
    /// The vectors could not be kept.
    #[error("keep the vectors in {}: {source}", folder.display())]
    Scratch {
        /// The folder.
        folder: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file was written to while it was read.
    #[error("{}: changed while it was read", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl ReadError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let advice = match self {
            Self::Io { .. }
            | Self::Dimension { .. }
            | Self::CorpusDimension { .. }
            | Self::Empty { .. }
            | Self::Ragged { .. }
            | Self::Cancelled => return None,
            Self::Columns(error) => return error.hint(),
            Self::NotBuilt { feature, .. } => {
                return Some(format!(
                    "build it with `cargo install --path tools/cli --locked --features {feature}`"
                ));
            }
            Self::NoInputs => {
                return Some(format!("name at least one file: {EXPECTED_FORMATS}"));
            }
            Self::CorpusNoColumn { option, .. } | Self::CorpusColumnType { option, .. } => {
                return Some(format!("choose a column with {option}"));
            }
            Self::DimensionsDiffer { .. } => "compare files of one embedding model at a time",
            Self::OrderKindsDiffer { .. } => "write the column with one type in all files",
            Self::TooManyRows => "compare the files in smaller groups",
            Self::Scratch { .. } => "set TMPDIR to a folder with more space",
            Self::Changed { .. } => "run again when nobody writes to it",
            Self::NoVectors { .. } => "name the vectors \"vector\"",
            Self::Map { source } => return source.hint(),
            Self::Unknown { .. } => UNKNOWN_FORMAT_HINT,
            Self::Header { .. } => "docs/formats.md lists what can be read",
            Self::Length { .. } => "the copy is incomplete, or the extension is of another type",
            Self::RowLength { .. } | Self::ParquetLength { .. } => {
                "keep the rows of one embedding model"
            }
            Self::NoArray { .. } => {
                "name the array with --vector-column, in `memfold convert` with --member"
            }
            Self::Damaged { .. } => "fetch or write the file again",
            Self::NotArrow { .. } | Self::NotParquet { .. } => {
                "fetch or write the file again; its copy may be incomplete"
            }
            Self::Line { .. } => "write one object on each line, with vectors of one length",
            Self::Compression { .. } => "write it again with compression=\"zstd\"",
            Self::NoColumn { .. } => "rename the column that you mean, or choose it by its name",
            Self::ColumnType { .. } => "docs/formats.md lists the types that can be read",
            Self::NullRow { .. }
            | Self::VectorFileNullRow { .. }
            | Self::NullComponent { .. }
            | Self::NotFinite { .. }
            | Self::ParquetNotFinite { .. } => "leave such rows out of the file",
            Self::Inexact { .. } | Self::VectorFileInexact { .. } => {
                "write the vectors as f32 if they may be rounded"
            }
        };
        Some(advice.into())
    }
}

/// Returns what the system said, which a map's message leaves to its source.
fn cause(error: &MapError) -> String {
    std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default()
}
