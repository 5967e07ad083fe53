//! [`Output`]: the file that is written, whatever its format.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use serde_json::{Map, Value, json};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::component::bytes_of;
use super::json_lines::{JsonLinesFile, TableColumns, is_held};
use super::{ComponentType, WriteError};
use crate::atomic_file::NewFile;
use crate::guarded::guarded;
use crate::read::format::VectorFormat;
use crate::schema::BATCH_ROWS;
use crate::write::table_file::{TableFile, TableFormat};

/// Bytes of vectors in a batch of files whose batches have no fixed length.
pub(super) const BATCH_BYTES_MAX: usize = 128 << 20;
/// Bytes of vectors that are taken at once where a file has no batches: they stay near the processor.
const TAKEN_BYTES: usize = 4 << 20;

/// The file that is written, whatever its format.
pub(super) struct Output<'a> {
    path: &'a Path,
    kind: Kind,
}

enum Kind {
    Table { file: TableFile, columns: TableColumns, rebatcher: Option<Rebatcher> },
    JsonLines { file: JsonLinesFile, columns: TableColumns },
    Vectors(VectorsFile),
}

/// What is going to be written.
pub(super) struct Contents<'a> {
    pub(super) format: VectorFormat,
    pub(super) schema: &'a Schema,
    /// Where the vectors stand among the columns.
    pub(super) vector: usize,
    pub(super) shape: Shape,
}

impl<'a> Output<'a> {
    /// Begins a file that takes its place at `path` when finished.
    pub(super) fn create(path: &'a Path, contents: &Contents<'_>) -> Result<Self, WriteError> {
        let Contents { format, schema, vector, shape } = *contents;
        let table = |format| {
            let columns = TableColumns::new(schema, vector, shape, Some(format));
            let file = TableFile::create(path, format, columns.schema())?;
            let rebatcher = (format == TableFormat::Arrow)
                .then(|| Rebatcher::new(Arc::clone(columns.schema()), batch_rows(&columns, shape)));
            Ok::<_, WriteError>(Kind::Table { file, columns, rebatcher })
        };
        let kind = match format {
            VectorFormat::Columns => table(TableFormat::Arrow)?,
            VectorFormat::Parquet => table(TableFormat::Parquet)?,
            VectorFormat::Jsonl => {
                let columns = TableColumns::new(schema, vector, shape, None);
                Kind::JsonLines { file: JsonLinesFile::create(path, columns.schema())?, columns }
            }
            _ => Kind::Vectors(VectorsFile::create(path, format, shape, schema.metadata())?),
        };
        Ok(Self { path, kind })
    }

    /// Returns how many rows are best written at once.
    pub(super) fn batch_rows(&self, shape: Shape) -> usize {
        match &self.kind {
            Kind::Table { rebatcher: Some(rebatcher), .. } => rebatcher.rows(),
            _ => (TAKEN_BYTES / shape.row_bytes()).clamp(1, BATCH_ROWS),
        }
    }

    /// Appends the rows of a batch, whose vectors have these components.
    pub(super) fn write(
        &mut self,
        batch: &RecordBatch,
        components: ArrayRef,
        first_row: u64,
    ) -> Result<(), WriteError> {
        let encode = |reason| WriteError::Encode { path: self.path.into(), reason };
        match &mut self.kind {
            Kind::Table { file, columns, rebatcher } => {
                let batch = columns.batch(batch, components, first_row).map_err(encode)?;
                match rebatcher {
                    None => file.write(&batch),
                    Some(rebatcher) => {
                        let full = rebatcher.push(&batch).map_err(encode)?;
                        full.iter().try_for_each(|batch| file.write(batch))
                    }
                }
            }
            Kind::JsonLines { file, columns } => {
                file.write(&columns.batch(batch, components, first_row).map_err(encode)?)
            }
            Kind::Vectors(file) => file.write(&components),
        }
    }

    /// Writes what is left and publishes the file.
    pub(super) fn finish(self, rows: u64) -> Result<(), WriteError> {
        match self.kind {
            Kind::Table { mut file, columns, rebatcher } => {
                let last = rebatcher.map_or(Ok(None), |mut rebatcher| rebatcher.take());
                let last =
                    last.map_err(|reason| WriteError::Encode { path: self.path.into(), reason })?;
                if let Some(last) = last {
                    file.write(&last)?;
                }
                file.finish(columns.is_ours().then_some(rows))
            }
            Kind::JsonLines { file, .. } => file.finish(),
            Kind::Vectors(file) => file.finish(),
        }
    }
}

/// Returns how many rows a batch has; those of our files have a fixed number.
fn batch_rows(columns: &TableColumns, shape: Shape) -> usize {
    if columns.is_ours() {
        return BATCH_ROWS;
    }
    (BATCH_BYTES_MAX / shape.row_bytes()).clamp(1, BATCH_ROWS)
}

/// Refuses columns that the format cannot hold.
pub(super) fn check_columns(input: &Path, contents: &Contents<'_>) -> Result<(), WriteError> {
    if contents.format != VectorFormat::Jsonl {
        return Ok(());
    }
    match contents.schema.fields().iter().find(|field| !is_held(field.data_type())) {
        None => Ok(()),
        Some(field) => Err(WriteError::ColumnNotHeld {
            path: input.into(),
            column: field.name().clone(),
            found: field.data_type().to_string(),
            format: contents.format,
        }),
    }
}

/// Bytes gathered where every vector has something before it.
const GATHERED_BYTES: usize = 1 << 20;
/// An archive's member that may be longer needs long lengths.
const MEMBER_BYTES_MAX: u64 = u32::MAX as u64 / 2;

/// A file of bare vectors, all of whose rows are known to come.
pub(super) struct VectorsFile {
    sink: Sink,
    path: PathBuf,
    row_bytes: usize,
    row_prefix: Option<[u8; 4]>,
}

enum Sink {
    Plain(NewFile),
    Archive(Box<ZipWriter<NewFile>>),
}

impl VectorsFile {
    /// Begins a file and writes what stands before the vectors.
    pub(super) fn create(
        path: &Path,
        format: VectorFormat,
        shape: Shape,
        metadata: &HashMap<String, String>,
    ) -> Result<Self, WriteError> {
        let start = || -> io::Result<Self> {
            let file = NewFile::create(path)?;
            let sink = match format {
                VectorFormat::Npz => Sink::Archive(Box::new(archive(file, shape)?)),
                _ => Sink::Plain(file),
            };
            let (row_bytes, row_prefix) = (shape.row_bytes(), row_prefix(format, shape.dim));
            let mut vectors = Self { sink, path: path.into(), row_bytes, row_prefix };
            vectors.write_bytes(&header(format, shape, metadata))?;
            Ok(vectors)
        };
        start().map_err(|source| WriteError::TableWrite { path: path.into(), source })
    }

    /// Appends whole vectors.
    pub(super) fn write(&mut self, components: &ArrayRef) -> Result<(), WriteError> {
        let bytes = bytes_of(components);
        let written = match self.row_prefix {
            None => self.write_bytes(&bytes),
            Some(prefix) => self.write_rows(&bytes, prefix),
        };
        written.map_err(|source| WriteError::TableWrite { path: self.path.clone(), source })
    }

    fn write_rows(&mut self, bytes: &[u8], prefix: [u8; 4]) -> io::Result<()> {
        let rows_at_once = (GATHERED_BYTES / self.row_bytes).max(1);
        let mut gathered = Vec::with_capacity(rows_at_once * (self.row_bytes + prefix.len()));
        for rows in bytes.chunks(rows_at_once * self.row_bytes) {
            gathered.clear();
            for row in rows.chunks(self.row_bytes) {
                gathered.extend(prefix);
                gathered.extend_from_slice(row);
            }
            self.write_bytes(&gathered)?;
        }
        Ok(())
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.sink {
            Sink::Plain(file) => file.write_all(bytes),
            Sink::Archive(archive) => archive.write_all(bytes),
        }
    }

    /// Publishes the file.
    pub(super) fn finish(self) -> Result<(), WriteError> {
        let Self { sink, path, .. } = self;
        let publish = || -> io::Result<()> {
            let file = match sink {
                Sink::Plain(file) => file,
                Sink::Archive(archive) => archive.finish()?,
            };
            file.publish().map(drop)
        };
        publish().map_err(|source| WriteError::TableWrite { path, source })
    }
}

/// Begins an archive with its one member, stored as it is and aligned.
fn archive(file: NewFile, shape: Shape) -> io::Result<ZipWriter<NewFile>> {
    let mut archive = ZipWriter::new(file);
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .with_alignment(ALIGNMENT as u16)
        .large_file(shape.bytes() > MEMBER_BYTES_MAX);
    archive.start_file(format!("{NAME}.npy"), options)?;
    Ok(archive)
}

/// What tensors and arrays are called inside of a file.
pub(super) const NAME: &str = "vectors";

/// The data begin at a multiple of this, so that they can be used where they are mapped.
pub(super) const ALIGNMENT: usize = 64;

/// The header's length of an npy file, as numpy pads it.
const NPY_BYTES: usize = 128;

/// Vectors as a whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) rows: u64,
    pub(super) dim: usize,
    pub(super) component: ComponentType,
}

impl Shape {
    /// Returns the bytes of one vector.
    pub(super) const fn row_bytes(self) -> usize {
        self.dim * self.component.bytes()
    }

    /// Returns the bytes of all vectors.
    pub(super) const fn bytes(self) -> u64 {
        self.rows.saturating_mul(self.row_bytes() as u64)
    }
}

/// Returns the header of a file of bare vectors; that of an archive is its member's.
pub(super) fn header(
    format: VectorFormat,
    shape: Shape,
    metadata: &HashMap<String, String>,
) -> Vec<u8> {
    match format {
        VectorFormat::Npy | VectorFormat::Npz => npy(shape),
        VectorFormat::Safetensors => safetensors(shape, metadata),
        VectorFormat::Fbin
        | VectorFormat::F16bin
        | VectorFormat::U8bin
        | VectorFormat::I8bin
        | VectorFormat::Ibin => {
            // More rows than that were refused.
            [(shape.rows as u32).to_le_bytes(), (shape.dim as u32).to_le_bytes()].concat()
        }
        VectorFormat::Fvecs | VectorFormat::Ivecs | VectorFormat::Bvecs => Vec::new(),
        VectorFormat::Columns | VectorFormat::Parquet | VectorFormat::Jsonl => Vec::new(),
        VectorFormat::Hdf5 => unreachable!("a format that is not written was refused"),
    }
}

/// Returns what stands before every vector.
pub(super) fn row_prefix(format: VectorFormat, dim: usize) -> Option<[u8; 4]> {
    let has_lengths =
        matches!(format, VectorFormat::Fvecs | VectorFormat::Ivecs | VectorFormat::Bvecs);
    has_lengths.then(|| (dim as u32).to_le_bytes())
}

fn npy(Shape { rows, dim, component }: Shape) -> Vec<u8> {
    let text = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({rows}, {dim}), }}",
        component.npy_descr()
    );
    let width = NPY_BYTES - 11;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(((NPY_BYTES - 10) as u16).to_le_bytes());
    bytes.extend(format!("{text:<width$}\n").into_bytes());
    bytes
}

fn safetensors(shape: Shape, metadata: &HashMap<String, String>) -> Vec<u8> {
    let mut keys: Vec<&String> = metadata.keys().collect();
    keys.sort();
    let metadata: Map<String, Value> =
        keys.into_iter().map(|key| (key.clone(), metadata[key].clone().into())).collect();
    let mut header = Map::new();
    if !metadata.is_empty() {
        header.insert("__metadata__".to_owned(), metadata.into());
    }
    let tensor = json!({
        "dtype": shape.component.name().to_uppercase(),
        "shape": [shape.rows, shape.dim],
        "data_offsets": [0, shape.bytes()],
    });
    header.insert(NAME.to_owned(), tensor);
    let mut text = Value::from(header).to_string().into_bytes();
    text.resize((8 + text.len()).next_multiple_of(ALIGNMENT) - 8, b' ');
    [&(text.len() as u64).to_le_bytes()[..], &text].concat()
}

/// Makes batches of equally many rows; what fits already passes without a copy.
pub(super) struct Rebatcher {
    schema: SchemaRef,
    rows: usize,
    waiting: Vec<RecordBatch>,
    rows_waiting: usize,
}

impl Rebatcher {
    /// Makes batches of `rows` rows, which is at least one.
    pub(super) const fn new(schema: SchemaRef, rows: usize) -> Self {
        Self { schema, rows, waiting: Vec::new(), rows_waiting: 0 }
    }

    /// Returns how many rows a batch has.
    pub(super) const fn rows(&self) -> usize {
        self.rows
    }

    /// Takes a batch and returns those that are full.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<Vec<RecordBatch>, String> {
        let (mut full, mut start) = (Vec::new(), 0);
        while start < batch.num_rows() {
            let rows = (self.rows - self.rows_waiting).min(batch.num_rows() - start);
            self.waiting.push(batch.slice(start, rows));
            self.rows_waiting += rows;
            start += rows;
            if self.rows_waiting == self.rows {
                full.extend(self.take()?);
            }
        }
        Ok(full)
    }

    /// Returns the rows that are left.
    pub(super) fn take(&mut self) -> Result<Option<RecordBatch>, String> {
        let waiting = std::mem::take(&mut self.waiting);
        self.rows_waiting = 0;
        match waiting.as_slice() {
            [] => Ok(None),
            [batch] => Ok(Some(batch.clone())),
            batches => guarded(|| concat_batches(&self.schema, batches))?
                .map(Some)
                .map_err(|error| error.to_string()),
        }
    }
}

#[cfg(test)]
mod rebatch_tests {
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int32Type;
    use arrow_array::{Array, ArrayRef, Int32Array};

    use super::*;
    use crate::read::support;

    fn numbers(range: std::ops::Range<i32>) -> RecordBatch {
        support::batch(&[("n", Arc::new(Int32Array::from_iter_values(range)) as ArrayRef)])
    }

    #[test]
    fn rows_keep_their_order_and_whole_batches_their_memory() {
        let mut rebatcher = Rebatcher::new(numbers(0..1).schema(), 10);
        let (mut lengths, mut values) = (Vec::new(), Vec::new());
        let mut start = 0;
        for length in [10, 3, 4, 0, 28, 1] {
            let batch = numbers(start..start + length);
            start += length;
            for full in rebatcher.push(&batch).unwrap() {
                let address = |batch: &RecordBatch| batch.column(0).to_data().buffers()[0].as_ptr();
                let is_lent = address(&full) == address(&batch);
                assert_eq!(is_lent, length == 10, "{length}");
                lengths.push(full.num_rows());
                values.extend_from_slice(full.column(0).as_primitive::<Int32Type>().values());
            }
        }
        let last = rebatcher.take().unwrap().unwrap();
        lengths.push(last.num_rows());
        values.extend_from_slice(last.column(0).as_primitive::<Int32Type>().values());
        assert_eq!(lengths, [10, 10, 10, 10, 6]);
        assert!(values.into_iter().eq(0..46));
        assert!(rebatcher.take().unwrap().is_none());
    }
}
