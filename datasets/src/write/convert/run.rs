//! [`convert`].

use std::fmt;
use std::path::{Path, PathBuf};

use arrow_array::{ArrayRef, RecordBatch};
use memfold_index::Progress;

use super::component::{Rounding, VectorCells, converted};
use super::json_lines::VectorColumn;
use super::output::{BATCH_BYTES_MAX, Contents, Output, Shape, check_columns};
use super::{ComponentType, VectorFormat};
use crate::parquet::{TypesFrom, WriteTableError};
use crate::read::{InputError, InputFile, InputOptions};
use crate::schema::DIM_MAX;

/// How to convert.
#[derive(Clone, Copy)]
pub struct ConvertOptions<'a> {
    /// The output's format; `None`: its extension tells.
    pub format: Option<VectorFormat>,
    /// What components become, rounded to nearest; `None`: what they are where the format holds
    /// it, else its own type if no value changes by it.
    pub component: Option<ComponentType>,
    /// The column of the vectors; `None`: `vector`, `embedding`, `embeddings` or `emb`.
    pub column: Option<&'a str>,
    /// Which array of an npz or HDF5 file, or tensor, holds the vectors; `None`: the one that is known to.
    pub member: Option<&'a str>,
    /// Is told of rows, and asked whether to go on.
    pub progress: &'a dyn Progress,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// Rows of both files.
    pub rows: u64,
    /// Components of each vector.
    pub dim: usize,
    /// What they were read as.
    pub component_read: ComponentType,
    /// What they were written as.
    pub component: ComponentType,
    /// The input's format.
    pub from: &'static str,
    /// The output's format.
    pub to: VectorFormat,
    /// Columns of the input that the output does not hold.
    pub columns_left_out: Vec<String>,
    /// The output's length.
    pub bytes_written: u64,
}

/// Writes the rows of `input` to `output` in another format, or with another type of components.
///
/// Arrow, Parquet and JSON Lines take every column, the others the vectors. Vectors whose type stays
/// keep their bits. Bare vectors of f32 become a column file in Arrow and Parquet. Reads and writes
/// batch by batch; a batch of a column file is the most that is held.
///
/// # Errors
/// Before anything is written: when no format is told, the output is the input, the format does not
/// hold what it is asked to, or the input has no column of vectors. After that: when a vector is
/// null, not finite or of another length than the first, a component does not fit its new type,
/// reading or writing fails, or the caller asks to stop; the output's place then holds what it held
/// before.
pub fn convert(
    input: &Path,
    output: &Path,
    options: &ConvertOptions<'_>,
) -> Result<Converted, ConvertError> {
    let format = options.format.or_else(|| VectorFormat::of_output(output));
    let format = format.filter(|format| VectorFormat::WRITTEN.contains(format));
    let format = format.ok_or_else(|| ConvertError::OutputFormat { path: output.into() })?;
    if is_same_file(input, output) {
        return Err(ConvertError::OutputIsInput { path: output.into() });
    }
    let from = InputFile::detect(input)?;
    let member = options.member.map(str::to_owned);
    let file = InputFile::open_as(input, from, &InputOptions { types: TypesFrom::Arrow, member })?;
    let column = VectorColumn::find(file.schema(), input, options.column)?;
    let target = Target::new(format, options.component, column.component)?;
    let dim = column.dim(&file, input)?;
    let shape = Shape { rows: file.row_count() as u64, dim, component: target.component };
    let run = Run { file: &file, input, column, target, shape, progress: options.progress };
    run.check_rows()?;
    options.progress.begin("convert", Some(shape.rows));
    let written = run.write(output);
    options.progress.end();
    written?;
    let length = std::fs::metadata(output)
        .map_err(|source| WriteTableError::Write { path: output.into(), source })?;
    Ok(Converted {
        rows: shape.rows,
        dim,
        component_read: run.column.component,
        component: shape.component,
        from: from.name(),
        to: format,
        columns_left_out: run.columns_left_out(),
        bytes_written: length.len(),
    })
}

fn is_same_file(path: &Path, other: &Path) -> bool {
    let resolved = path.canonicalize().and_then(|path| Ok((path, other.canonicalize()?)));
    // A file that does not exist yet is no input.
    resolved.is_ok_and(|(path, other)| path == other)
}

/// What components become.
#[derive(Debug, Clone, Copy)]
struct Target {
    format: VectorFormat,
    component: ComponentType,
    rounding: Rounding,
}

impl Target {
    fn new(
        format: VectorFormat,
        asked: Option<ComponentType>,
        found: ComponentType,
    ) -> Result<Self, ConvertError> {
        let rounding = if asked.is_some() { Rounding::Nearest } else { Rounding::Exact };
        let component = match (asked, ComponentType::only_in(format)) {
            (Some(found), Some(expected)) if found != expected => {
                return Err(ConvertError::TypeNotHeld { format, expected, found });
            }
            (Some(asked), _) => asked,
            (None, only) => only.unwrap_or(found),
        };
        Ok(Self { format, component, rounding })
    }
}

/// One file on its way to another.
struct Run<'a> {
    file: &'a InputFile,
    input: &'a Path,
    column: VectorColumn,
    target: Target,
    shape: Shape,
    progress: &'a dyn Progress,
}

impl Run<'_> {
    fn check_rows(&self) -> Result<(), ConvertError> {
        let (format, rows) = (self.target.format, self.shape.rows);
        let rows_max = format.rows_max();
        if rows > rows_max {
            let path = self.input.into();
            return Err(ConvertError::TooManyRows { path, rows, format, rows_max });
        }
        Ok(())
    }

    /// Returns the positions of the columns that are written.
    fn positions(&self) -> Vec<usize> {
        if self.target.format.is_table() {
            (0..self.file.schema().fields().len()).collect()
        } else {
            vec![self.column.position]
        }
    }

    fn columns_left_out(&self) -> Vec<String> {
        let kept = self.positions();
        let fields = self.file.schema().fields().iter().enumerate();
        fields.filter(|(at, _)| !kept.contains(at)).map(|(_, field)| field.name().clone()).collect()
    }

    /// Returns where the vectors stand among the columns that are written.
    fn vector(&self) -> usize {
        if self.target.format.is_table() { self.column.position } else { 0 }
    }

    /// Returns how many rows are converted at once.
    fn rows_at_once(&self) -> usize {
        if self.column.component == self.target.component {
            return usize::MAX;
        }
        (BATCH_BYTES_MAX / self.shape.row_bytes()).max(1)
    }

    fn write(&self, path: &Path) -> Result<(), ConvertError> {
        let contents = Contents {
            format: self.target.format,
            schema: self.file.schema(),
            vector: self.vector(),
            shape: self.shape,
        };
        check_columns(self.input, &contents)?;
        let mut output = Output::create(path, &contents)?;
        let rows = output.batch_rows(self.shape);
        let mut batches = self.file.batches_of(&self.positions(), rows)?;
        let mut rows_read = 0;
        while let Some(batch) = batches.next() {
            let batch = self.unless_cancelled(batch?)?;
            let cells = VectorCells::of(batch.column(self.vector()));
            let components = match cells.in_one_piece(self.shape.dim) {
                Ok(components) => components,
                Err((row, fault)) => {
                    let rows_bad = cells.fault_count(self.shape.dim) + self.count_bad(batches)?;
                    let (row, rows) = (rows_read + row as u64, self.shape.rows);
                    let path = self.input.into();
                    return Err(ConvertError::Vector { path, row, fault, rows, rows_bad });
                }
            };
            self.write_batch(&mut output, &batch, &components, rows_read)?;
            rows_read += batch.num_rows() as u64;
        }
        if rows_read != self.shape.rows {
            let (found, expected) = (rows_read, self.shape.rows);
            return Err(ConvertError::Changed { path: self.input.into(), found, expected });
        }
        Ok(output.finish(rows_read)?)
    }

    fn unless_cancelled(&self, batch: RecordBatch) -> Result<RecordBatch, ConvertError> {
        if self.progress.cancelled() { Err(ConvertError::Cancelled) } else { Ok(batch) }
    }

    /// Counts the rows of the batches that have no usable vector.
    fn count_bad(
        &self,
        batches: impl Iterator<Item = Result<RecordBatch, InputError>>,
    ) -> Result<u64, ConvertError> {
        let mut count = 0;
        for batch in batches {
            let batch = self.unless_cancelled(batch?)?;
            let cells = VectorCells::of(batch.column(self.vector()));
            count += cells.fault_count(self.shape.dim);
            self.progress.advance(batch.num_rows() as u64);
        }
        Ok(count)
    }

    /// Writes the rows of a batch, converted some at a time.
    fn write_batch(
        &self,
        output: &mut Output<'_>,
        batch: &RecordBatch,
        components: &ArrayRef,
        first_row: u64,
    ) -> Result<(), ConvertError> {
        let (step, dim) = (self.rows_at_once(), self.shape.dim);
        for start in (0..batch.num_rows()).step_by(step) {
            let rows = step.min(batch.num_rows() - start);
            let first_row = first_row + start as u64;
            let components = components.slice(start * dim, rows * dim);
            let components = self.converted(components, first_row)?;
            output.write(&batch.slice(start, rows), components, first_row)?;
            self.progress.advance(rows as u64);
        }
        Ok(())
    }

    fn converted(&self, components: ArrayRef, first_row: u64) -> Result<ArrayRef, ConvertError> {
        let (found, expected) = (self.column.component, self.target.component);
        if found == expected {
            return Ok(components);
        }
        let rounding = self.target.rounding;
        converted(&components, expected, rounding).map_err(|misfit| {
            let (row, component) = (misfit.at / self.shape.dim, misfit.at % self.shape.dim);
            let (path, row, value) = (self.input.into(), first_row + row as u64, misfit.value);
            match rounding {
                Rounding::Exact => {
                    ConvertError::Inexact { path, row, component, value, found, expected }
                }
                Rounding::Nearest => {
                    ConvertError::OutOfRange { path, row, component, value, expected }
                }
            }
        })
    }
}

/// A file could not be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
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
    Input(#[from] InputError),
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
    /// The output cannot be written.
    #[error(transparent)]
    Write(#[from] WriteTableError),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
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

impl ConvertError {
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
            Self::Changed { .. } => "run again when nobody writes to it",
            Self::Write(error) => return error.hint(),
            Self::Dimension { .. } | Self::NoRows { .. } | Self::Cancelled => return None,
        };
        Some(advice.into())
    }
}
