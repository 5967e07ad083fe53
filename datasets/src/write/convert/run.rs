//! [`convert`].

use std::path::Path;

use arrow_array::{ArrayRef, RecordBatch};
use memfold_index::Progress;

use super::component::{Rounding, VectorCells, converted};
use super::json_lines::VectorColumn;
use super::output::{BATCH_BYTES_MAX, Contents, Output, Shape, check_columns};
use super::{ComponentType, VectorFormat, WriteError};
use crate::parquet::TypesFrom;
use crate::read::{InputFile, InputOptions, ReadError};

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
) -> Result<Converted, WriteError> {
    let format = options.format.or_else(|| VectorFormat::of_output(output));
    let format = format.filter(|format| VectorFormat::WRITTEN.contains(format));
    let format = format.ok_or_else(|| WriteError::OutputFormat { path: output.into() })?;
    if is_same_file(input, output) {
        return Err(WriteError::OutputIsInput { path: output.into() });
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
        .map_err(|source| WriteError::TableWrite { path: output.into(), source })?;
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
    ) -> Result<Self, WriteError> {
        let rounding = if asked.is_some() { Rounding::Nearest } else { Rounding::Exact };
        let component = match (asked, ComponentType::only_in(format)) {
            (Some(found), Some(expected)) if found != expected => {
                return Err(WriteError::TypeNotHeld { format, expected, found });
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
    fn check_rows(&self) -> Result<(), WriteError> {
        let (format, rows) = (self.target.format, self.shape.rows);
        let rows_max = format.rows_max();
        if rows > rows_max {
            let path = self.input.into();
            return Err(WriteError::TooManyRows { path, rows, format, rows_max });
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

    fn write(&self, path: &Path) -> Result<(), WriteError> {
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
                    return Err(WriteError::Vector { path, row, fault, rows, rows_bad });
                }
            };
            self.write_batch(&mut output, &batch, &components, rows_read)?;
            rows_read += batch.num_rows() as u64;
        }
        if rows_read != self.shape.rows {
            let (found, expected) = (rows_read, self.shape.rows);
            return Err(WriteError::Changed { path: self.input.into(), found, expected });
        }
        output.finish(rows_read)
    }

    fn unless_cancelled(&self, batch: RecordBatch) -> Result<RecordBatch, WriteError> {
        if self.progress.cancelled() { Err(WriteError::Cancelled) } else { Ok(batch) }
    }

    /// Counts the rows of the batches that have no usable vector.
    fn count_bad(
        &self,
        batches: impl Iterator<Item = Result<RecordBatch, ReadError>>,
    ) -> Result<u64, WriteError> {
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
    ) -> Result<(), WriteError> {
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

    fn converted(&self, components: ArrayRef, first_row: u64) -> Result<ArrayRef, WriteError> {
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
                    WriteError::Inexact { path, row, component, value, found, expected }
                }
                Rounding::Nearest => {
                    WriteError::OutOfRange { path, row, component, value, expected }
                }
            }
        })
    }
}
