//! A file of vectors in another format: [`convert`].
//!
//! Tables (Arrow, Parquet, JSON Lines) keep every column; the other formats take the vectors alone.
//! Rows go from one file to the other batch by batch.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeListArray, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use arrow_select::coalesce::BatchCoalescer;
use memfold_index::Progress;

use super::files::{TableFile, VectorsFile, is_same_file, refused, stored_column, stored_field};
use super::lines::is_held;
use crate::DataError;
use crate::error::VectorFault;
pub use crate::read::VectorFormat;
use crate::read::{Layout, Opened, Source, SourceOptions, open, vectors_of};
use crate::schema::{BATCH_ROWS, Column, ColumnSet, ColumnsMeta, key};
pub use crate::vectors::ComponentType;
use crate::vectors::{Components, Rounding, VectorCells, shape_of};

/// Bytes of vectors in a batch of Arrow files that are not ours.
const BATCH_BYTES_MAX: usize = 128 << 20;
/// Bytes of vectors that are converted at once.
const TAKEN_BYTES: usize = 4 << 20;

/// How to convert.
#[derive(Clone, Copy)]
pub struct ConvertOptions<'a> {
    /// The output's format; `None`: its extension tells.
    pub format: Option<VectorFormat>,
    /// The type of the components, rounded to nearest; `None`: the one they have where the format
    /// holds it, else its own type if no value changes by it.
    pub component: Option<ComponentType>,
    /// The column of the vectors; `None`: `vector`, `embedding`, `embeddings` or `emb`.
    pub column: Option<&'a str>,
    /// Which array of an npz or HDF5 file, or tensor, holds the vectors; `None`: the one that is
    /// known to.
    pub member: Option<&'a str>,
    /// Receives the number of rows, and says whether to stop.
    pub progress: &'a dyn Progress,
}

/// The result of a conversion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// Rows of both files.
    pub rows: u64,
    /// Components of each vector.
    pub dim: usize,
    /// The type they were read as.
    pub component_read: ComponentType,
    /// The type they were written as.
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
/// Arrow, Parquet and JSON Lines take every column, the others the vectors. Vectors that keep their
/// type keep their bits. Bare vectors of f32 become a column file in Arrow and Parquet.
///
/// # Errors
/// Before anything is written: when the format is unknown, the output is the input, the format
/// cannot hold the requested contents, or the input has no column of vectors. After that: when a
/// vector is null, not finite or of another length than the first, a component does not fit its new
/// type, reading or writing fails, or the caller cancels; the output's place then has its former
/// content.
pub fn convert(
    input: &Path,
    output: &Path,
    options: &ConvertOptions<'_>,
) -> Result<Converted, DataError> {
    let format = options.format.or_else(|| VectorFormat::of_output(output));
    let Some(to) = format.filter(|format| VectorFormat::WRITTEN.contains(format)) else {
        return Err(refused(output, "unknown extension", "name the format of the output"));
    };
    if is_same_file(input, output) {
        return Err(refused(output, "the output is the input", "name another file"));
    }
    let member = options.member.or(options.column).map(str::to_owned);
    let Opened { source, format: from, .. } =
        open(input, &SourceOptions { member, ..SourceOptions::default() })?;
    let (position, dim) = vectors_of(&*source, input, options.column)?;
    let field = source.schema().field(position);
    let (component_read, _) = shape_of(field.data_type()).expect("the column holds vectors");
    let component = options.component.or(to.only_type()).unwrap_or(component_read);
    if let Some(only) = to.only_type().filter(|only| *only != component) {
        let found = format!("{} holds {only}, not {component}", to.name());
        return Err(refused(output, &found, "choose a format that holds all types, such as npy"));
    }
    let layout = Layout::plain(source.row_count(), dim, component);
    let rows = layout.rows as u64;
    if rows > to.rows_max() {
        let found = format!("{rows} rows, {} holds {} at most", to.name(), to.rows_max());
        return Err(refused(output, &found, "write npy, Arrow or Parquet"));
    }
    let rounding = match options.component {
        Some(_) => Rounding::Nearest,
        None => Rounding::Exact,
    };
    let (source, progress) = (&*source, options.progress);
    let run = Run { source, input, position, component_read, to, layout, rounding, progress };
    progress.begin("convert", Some(rows));
    let written = run.write(output);
    progress.end();
    written?;
    let bytes_written =
        std::fs::metadata(output).map_err(|source| DataError::io(output, source))?;
    Ok(Converted {
        rows,
        dim,
        component_read,
        component,
        from: from.name(),
        to,
        columns_left_out: run.columns_left_out(),
        bytes_written: bytes_written.len(),
    })
}

/// One file on its way to another.
struct Run<'a> {
    source: &'a dyn Source,
    input: &'a Path,
    /// Where the vectors stand among the columns of the input.
    position: usize,
    component_read: ComponentType,
    to: VectorFormat,
    layout: Layout,
    rounding: Rounding,
    progress: &'a dyn Progress,
}

impl Run<'_> {
    /// Returns the positions of the columns that are written.
    fn positions(&self) -> Vec<usize> {
        match self.to.is_table() {
            true => (0..self.source.schema().fields().len()).collect(),
            false => vec![self.position],
        }
    }

    fn columns_left_out(&self) -> Vec<String> {
        let kept = self.positions();
        let fields = self.source.schema().fields().iter().enumerate();
        fields.filter(|(at, _)| !kept.contains(at)).map(|(_, field)| field.name().clone()).collect()
    }

    fn write(&self, path: &Path) -> Result<(), DataError> {
        let mut output = Output::create(path, self)?;
        let vector = if self.to.is_table() { self.position } else { 0 };
        let step = (TAKEN_BYTES / self.layout.row_bytes()).clamp(1, BATCH_ROWS);
        let mut rows_read = 0;
        for batch in self.source.batches(&self.positions(), step)? {
            let batch = batch?;
            for start in (0..batch.num_rows()).step_by(step) {
                if self.progress.cancelled() {
                    return Err(DataError::Cancelled);
                }
                let batch = batch.slice(start, step.min(batch.num_rows() - start));
                let components = self.components(batch.column(vector), rows_read)?;
                output.write(&batch, &components, rows_read)?;
                rows_read += batch.num_rows() as u64;
                self.progress.advance(batch.num_rows() as u64);
            }
        }
        if rows_read != self.layout.rows as u64 {
            return Err(DataError::Changed { path: self.input.into() });
        }
        output.finish(rows_read)
    }

    /// Returns the components of whole vectors, as they are written.
    fn components(&self, column: &ArrayRef, first_row: u64) -> Result<Components, DataError> {
        let (dim, path) = (self.layout.dim, || self.input.into());
        let cells = VectorCells::of(column).expect("the type of the column was checked");
        let fault = |i: usize| Some((i, cells.fault(i, dim, false)?));
        if let Some((i, fault)) = (0..cells.len()).find_map(fault) {
            return Err(DataError::Vector { path: path(), row: first_row + i as u64, fault });
        }
        let components = cells.in_one_piece(dim).expect("every vector has the same length");
        if self.component_read == self.layout.component {
            return Ok(components);
        }
        components.converted(self.layout.component, self.rounding).map_err(|(at, mut fault)| {
            if let VectorFault::Inexact { component, .. }
            | VectorFault::OutOfRange { component, .. } = &mut fault
            {
                *component = at % dim;
            }
            DataError::Vector { path: path(), row: first_row + (at / dim) as u64, fault }
        })
    }
}

/// The file that is written, in any format.
enum Output {
    Table { file: TableFile, columns: TableColumns, coalescer: Option<BatchCoalescer> },
    Vectors(VectorsFile),
}

impl Output {
    /// Begins a file that takes its place at `path` when finished.
    fn create(path: &Path, run: &Run<'_>) -> Result<Self, DataError> {
        let schema = run.source.schema();
        if !run.to.is_table() {
            let file = VectorsFile::create(path, run.to, run.layout, schema.metadata());
            return file.map(Self::Vectors);
        }
        let unheld = schema.fields().iter().find(|field| !is_held(field.data_type()));
        if let (VectorFormat::Jsonl, Some(field)) = (run.to, unheld) {
            let (name, held) = (field.name(), field.data_type());
            let found = format!("column {name:?} is {held}, which jsonl does not hold");
            let advice = "write Arrow or Parquet, or drop the column first";
            return Err(refused(run.input, &found, advice));
        }
        let (columns, schema) = TableColumns::new(run);
        let file = TableFile::create(path, run.to, &Arc::new(schema))?;
        let rows = match is_ours(file.schema()) {
            true => BATCH_ROWS,
            false => (BATCH_BYTES_MAX / run.layout.row_bytes()).clamp(1, BATCH_ROWS),
        };
        let coalescer = (run.to == VectorFormat::Columns)
            .then(|| BatchCoalescer::new(Arc::clone(file.schema()), rows));
        Ok(Self::Table { file, columns, coalescer })
    }

    /// Appends the rows of a batch with these components of its vectors.
    fn write(
        &mut self,
        batch: &RecordBatch,
        components: &Components,
        first_row: u64,
    ) -> Result<(), DataError> {
        match self {
            Self::Table { file, columns, coalescer } => {
                let batch = file.batch(columns.of(batch, components, first_row))?;
                let Some(coalescer) = coalescer else { return file.write(&batch) };
                let pushed = coalescer.push_batch(batch);
                pushed.map_err(|error| DataError::of_arrow(file.path(), error))?;
                write_completed(file, coalescer)
            }
            Self::Vectors(file) => file.write(components.bytes()),
        }
    }

    /// Writes the rows that are left and publishes the file.
    fn finish(self, rows: u64) -> Result<(), DataError> {
        match self {
            Self::Table { mut file, coalescer, .. } => {
                if let Some(mut coalescer) = coalescer {
                    let finished = coalescer.finish_buffered_batch();
                    finished.map_err(|error| DataError::of_arrow(file.path(), error))?;
                    write_completed(&mut file, &mut coalescer)?;
                }
                let row_count = is_ours(file.schema()).then_some(rows);
                file.finish(row_count).map(drop)
            }
            Self::Vectors(file) => file.finish(),
        }
    }
}

fn write_completed(file: &mut TableFile, coalescer: &mut BatchCoalescer) -> Result<(), DataError> {
    while let Some(batch) = coalescer.next_completed_batch() {
        file.write(&batch)?;
    }
    Ok(())
}

/// Tells whether a file says of itself that it has our columns.
fn is_ours(schema: &Schema) -> bool {
    schema.metadata().contains_key(key::FORMAT_VERSION)
}

/// The columns of the table that is written.
struct TableColumns {
    format: VectorFormat,
    /// Where the vectors stand in the input.
    vector: usize,
    dim: usize,
    /// Whether rows are numbered: bare vectors become a column file of ours.
    is_numbered: bool,
}

impl TableColumns {
    /// Makes the columns of a table, and its schema, from the input's.
    fn new(run: &Run<'_>) -> (Self, Schema) {
        let (input, vector, layout) = (run.source.schema(), run.position, run.layout);
        let format = run.to;
        let is_numbered = format != VectorFormat::Jsonl
            && input.fields().len() == 1
            && input.field(0).name() == Column::Vector.name()
            && layout.component == ComponentType::F32
            && layout.rows < u32::MAX as usize;
        let columns = Self { format, vector, dim: layout.dim, is_numbered };
        if is_numbered {
            return (columns, column_file_schema(input.metadata(), layout.dim));
        }
        let fields = input.fields().iter().enumerate().map(|(at, field)| {
            let field = Field::clone(field);
            if at == vector { vector_field(&field, layout) } else { stored_field(field, format) }
        });
        let mut metadata = input.metadata().clone();
        // Written again when all rows are.
        metadata.remove(key::ROW_COUNT);
        (columns, Schema::new_with_metadata(fields.collect::<Vec<_>>(), metadata))
    }

    /// Returns the columns as they are written: the input's, with these components of its vectors.
    fn of(&self, input: &RecordBatch, components: &Components, first_row: u64) -> Vec<ArrayRef> {
        let mut columns: Vec<ArrayRef> = Vec::new();
        if self.is_numbered {
            // Rows of a column file are counted with 32 bits.
            let rows = first_row as u32..first_row as u32 + input.num_rows() as u32;
            columns.push(Arc::new(UInt32Array::from_iter_values(rows)));
        }
        columns.extend(input.columns().iter().map(|column| stored_column(column, self.format)));
        let components = components.to_array();
        let item = item_of(components.data_type().clone());
        columns[self.vector + usize::from(self.is_numbered)] =
            Arc::new(FixedSizeListArray::new(item, self.dim as i32, components, None));
        columns
    }
}

/// Returns the schema of a column file of bare vectors, with the input's metadata about them.
fn column_file_schema(input: &HashMap<String, String>, dim: usize) -> Schema {
    let stated =
        ColumnsMeta::from_metadata(|name| input.get(name).map(String::as_str), ColumnSet::Vectors);
    // A dimension is at most 65,536.
    let stated = stated.ok().filter(|meta| meta.dim == dim as u32);
    let schema = stated.unwrap_or_else(|| ColumnsMeta::vectors(dim as u32)).arrow_schema();
    let mut metadata = schema.metadata().clone();
    let others = input.iter().filter(|(name, _)| !key::ALL.contains(&name.as_str()));
    metadata.extend(others.map(|(name, value)| (name.clone(), value.clone())));
    schema.with_metadata(metadata)
}

fn vector_field(field: &Field, layout: Layout) -> Field {
    let item = item_of(layout.component.data_type());
    // A dimension is at most 65,536.
    let data_type = DataType::FixedSizeList(item, layout.dim as i32);
    Field::new(field.name(), data_type, false).with_metadata(field.metadata().clone())
}

fn item_of(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("item", data_type, false))
}

#[cfg(test)]
mod tests;
