//! [`MappedMatrix`]: vectors that lie one after another in a mapped file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int32Type, Int64Type,
    UInt8Type,
};
use arrow_array::{ArrayRef, FixedSizeListArray, PrimitiveArray, RecordBatch};
use arrow_buffer::{Buffer, MutableBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use half::bf16;
use memfold_index::{MapError, Mapped};

use super::ReadError;
use crate::components::ElementType;
use crate::read::npy::read_layout;
use crate::schema::{BATCH_ROWS, Column, DIM_MAX};

/// Bytes of a batch that must be copied out of the file.
const COPIED_BYTES: usize = 4 << 20;
/// Most bytes that a deflated byte stands for: 258 of them take at least two bits.
pub(super) const INFLATED_RATIO_MAX: u64 = 1032;
/// Most rows of a file.
const ROWS_MAX: u64 = u32::MAX as u64 - 1;

/// How many vectors there are, how long they are and how their components are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) rows: usize,
    pub(crate) dim: usize,
    pub(crate) element: ElementType,
}

impl Layout {
    /// Accepts what a header says about a matrix, or says what is wrong.
    pub(super) fn checked(rows: u64, dim: u64, element: ElementType) -> Result<Self, String> {
        if dim == 0 || dim > DIM_MAX as u64 {
            return Err(format!("vectors of {dim} components, expected 1 to {DIM_MAX}"));
        }
        if rows > ROWS_MAX {
            return Err(format!("{rows} rows, expected at most {ROWS_MAX}"));
        }
        Ok(Self { rows: rows as usize, dim: dim as usize, element })
    }

    /// Returns the bytes of a row.
    pub(crate) const fn row_bytes(self) -> usize {
        self.dim * self.element.bytes()
    }

    /// Returns the bytes of all rows; a row has at most half a MiB, so the product fits.
    pub(crate) const fn data_bytes(self) -> u64 {
        self.rows as u64 * self.row_bytes() as u64
    }

    /// Returns the rows of a batch whose bytes are copied.
    pub(super) fn copied_rows(self) -> usize {
        (COPIED_BYTES / self.row_bytes()).clamp(1, BATCH_ROWS)
    }

    /// Returns all rows in order, as the first and the number of some at a time.
    pub(super) fn spans(self, rows_at_once: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let rows = self.rows;
        (0..rows).step_by(rows_at_once).map(move |start| (start, rows_at_once.min(rows - start)))
    }

    /// Returns the schema of one column, `vector`.
    pub(super) fn schema(self, metadata: HashMap<String, String>) -> SchemaRef {
        let item = Arc::new(Field::new("item", self.element.data_type(), false));
        // A dimension is at most 65,536.
        let vector = DataType::FixedSizeList(item, self.dim as i32);
        let fields = vec![Field::new(Column::Vector.name(), vector, false)];
        Arc::new(Schema::new_with_metadata(fields, metadata))
    }
}

/// Vectors that lie one after another in a mapped file, as one column `vector`.
#[derive(Debug, Clone)]
pub(crate) struct MappedMatrix {
    bytes: Buffer,
    data_start: usize,
    layout: Layout,
    schema: SchemaRef,
}

impl MappedMatrix {
    /// Takes the bytes of a whole file, whose length was checked: the rows begin at `data_start`.
    pub(super) fn new(
        bytes: Buffer,
        data_start: usize,
        layout: Layout,
        metadata: HashMap<String, String>,
    ) -> Self {
        Self { bytes, data_start, layout, schema: layout.schema(metadata) }
    }

    pub(crate) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) const fn row_count(&self) -> usize {
        self.layout.rows
    }

    /// Returns the bytes of the whole file.
    pub(crate) const fn bytes(&self) -> &Buffer {
        &self.bytes
    }

    /// Returns all rows in order.
    pub(crate) fn batches(&self) -> impl Iterator<Item = RecordBatch> + use<> {
        let step = if self.is_lent() { BATCH_ROWS } else { self.layout.copied_rows() };
        let matrix = self.clone();
        self.layout.spans(step).map(move |(start, rows)| matrix.batch(start, rows))
    }

    /// Returns one row.
    pub(crate) fn batch_of_row(&self, row: usize) -> RecordBatch {
        self.batch(row, 1)
    }

    /// Tells whether components can be used where they lie.
    fn is_lent(&self) -> bool {
        let start = self.bytes.as_ptr().addr() + self.data_start;
        let element = self.layout.element;
        element != ElementType::Bf16 && start.is_multiple_of(element.bytes())
    }

    fn batch(&self, start: usize, rows: usize) -> RecordBatch {
        let row_bytes = self.layout.row_bytes();
        let bytes =
            self.bytes.slice_with_length(self.data_start + start * row_bytes, rows * row_bytes);
        // A new buffer is aligned for every type.
        let bytes = if self.is_lent() { bytes } else { Buffer::from_slice_ref(bytes.as_slice()) };
        batch_of(&self.schema, self.layout.element, bytes)
    }
}

/// Returns whole rows as a batch of `schema`, which is that of their layout; the bytes are aligned.
pub(super) fn batch_of(schema: &SchemaRef, element: ElementType, bytes: Buffer) -> RecordBatch {
    let components: ArrayRef = match element {
        ElementType::F16 => components::<Float16Type>(bytes),
        ElementType::Bf16 => components::<Float32Type>(widened(&bytes)),
        ElementType::F32 => components::<Float32Type>(bytes),
        ElementType::F64 => components::<Float64Type>(bytes),
        ElementType::I8 => components::<Int8Type>(bytes),
        ElementType::U8 => components::<UInt8Type>(bytes),
        ElementType::I32 => components::<Int32Type>(bytes),
        ElementType::I64 => components::<Int64Type>(bytes),
    };
    let DataType::FixedSizeList(item, dim) = schema.field(0).data_type() else {
        unreachable!("the schema was made with this type")
    };
    let vectors = FixedSizeListArray::new(Arc::clone(item), *dim, components, None);
    RecordBatch::try_new(Arc::clone(schema), vec![Arc::new(vectors)])
        .expect("the column is that of the schema")
}

fn components<T: ArrowPrimitiveType>(bytes: Buffer) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(bytes), None))
}

/// Widens 16-bit brain floats, which are the upper halves of f32.
fn widened(bytes: &[u8]) -> Buffer {
    let values = bytes.as_chunks().0.iter().map(|chunk| bf16::from_le_bytes(*chunk).to_f32());
    Buffer::from_vec(values.collect::<Vec<f32>>())
}

/// Maps the file at `path`.
pub(super) fn map_file(path: &Path) -> Result<Buffer, ReadError> {
    let mapped = Mapped::open(path).map_err(|error| {
        let source = match error {
            MapError::Open { source, .. } | MapError::Map { source, .. } => source,
            other => std::io::Error::other(other.to_string()),
        };
        ReadError::Io { path: path.into(), source }
    })?;
    Ok(Buffer::from(bytes::Bytes::from_owner(mapped)))
}

/// Bytes of a map, which they keep open.
pub(super) struct MapOwner(pub(super) Buffer);

impl AsRef<[u8]> for MapOwner {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Bytes before the rows.
const HEADER_BYTES: usize = 8;

/// Maps the file at `path` and checks its header and length.
pub(super) fn open_bin(path: &Path, element: ElementType) -> Result<MappedMatrix, ReadError> {
    let bytes = map_file(path)?;
    let header = |found| ReadError::Header { path: path.into(), found };
    let Some((&[n0, n1, n2, n3, d0, d1, d2, d3], rows)) = bytes.split_first_chunk() else {
        let found = format!("{} bytes, expected a header of {HEADER_BYTES}", bytes.len());
        return Err(header(found));
    };
    let row_count = u32::from_le_bytes([n0, n1, n2, n3]);
    let dim = u32::from_le_bytes([d0, d1, d2, d3]);
    let layout = Layout::checked(row_count.into(), dim.into(), element).map_err(header)?;
    if layout.data_bytes() != rows.len() as u64 {
        return Err(ReadError::Length {
            path: path.into(),
            found: bytes.len() as u64,
            expected: layout.data_bytes() + HEADER_BYTES as u64,
            rows: layout.rows,
            dim: layout.dim,
        });
    }
    Ok(MappedMatrix::new(bytes, HEADER_BYTES, layout, HashMap::new()))
}

/// Maps the file at `path` and checks its header and length.
pub(super) fn open_npy(path: &Path) -> Result<MappedMatrix, ReadError> {
    let bytes = map_file(path)?;
    let (layout, data_start) = read_layout(&mut bytes.as_slice(), bytes.len() as u64, path)?;
    Ok(MappedMatrix::new(bytes, data_start, layout, HashMap::new()))
}

/// Bytes before each row: its number of components.
const PREFIX_BYTES: usize = 4;

/// A file of the kind fvecs, mapped, as one column `vector`.
#[derive(Debug, Clone)]
pub(crate) struct VecsFile {
    path: PathBuf,
    bytes: Buffer,
    layout: Layout,
    schema: SchemaRef,
}

impl VecsFile {
    /// Maps the file at `path` and checks its first row and its length.
    pub(super) fn open(path: &Path, element: ElementType) -> Result<Self, ReadError> {
        let bytes = map_file(path)?;
        let header = |found| ReadError::Header { path: path.into(), found };
        let Some(&dim) = bytes.first_chunk() else {
            let found = format!("{} bytes, expected at least one row", bytes.len());
            return Err(header(found));
        };
        let dim = u32::from_le_bytes(dim);
        let row = Layout::checked(1, dim.into(), element).map_err(header)?;
        let row_bytes = PREFIX_BYTES + row.row_bytes();
        if !bytes.len().is_multiple_of(row_bytes) {
            let found = format!(
                "{} bytes, expected whole rows of {row_bytes} for a dim of {dim}",
                bytes.len()
            );
            return Err(header(found));
        }
        let row_count = (bytes.len() / row_bytes) as u64;
        let layout = Layout::checked(row_count, dim.into(), element).map_err(header)?;
        Ok(Self { path: path.into(), bytes, layout, schema: layout.schema(HashMap::new()) })
    }

    pub(crate) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) const fn row_count(&self) -> usize {
        self.layout.rows
    }

    /// Returns all rows in order.
    pub(crate) fn batches(&self) -> impl Iterator<Item = Result<RecordBatch, ReadError>> + use<> {
        let (layout, file) = (self.layout, self.clone());
        layout.spans(layout.copied_rows()).map(move |(start, rows)| file.batch(start, rows))
    }

    /// Returns one row.
    pub(crate) fn batch_of_row(&self, row: usize) -> Result<RecordBatch, ReadError> {
        self.batch(row, 1)
    }

    /// Copies rows without what stands before each, which must be the dimension.
    fn batch(&self, start: usize, rows: usize) -> Result<RecordBatch, ReadError> {
        let Layout { dim, element, .. } = self.layout;
        let row_bytes = self.layout.row_bytes();
        let mut components = MutableBuffer::with_capacity(rows * row_bytes);
        let stored = &self.bytes[start * (PREFIX_BYTES + row_bytes)..];
        for (i, row) in stored.chunks_exact(PREFIX_BYTES + row_bytes).take(rows).enumerate() {
            let (prefix, row_components) = row.split_at(PREFIX_BYTES);
            if *prefix != (dim as u32).to_le_bytes() {
                return Err(self.length_error(start + i, prefix));
            }
            components.extend_from_slice(row_components);
        }
        Ok(batch_of(&self.schema, element, components.into()))
    }

    fn length_error(&self, row: usize, prefix: &[u8]) -> ReadError {
        let found = prefix.first_chunk().map_or(0, |&prefix| u32::from_le_bytes(prefix));
        ReadError::RowLength { path: self.path.clone(), row, found, expected: self.layout.dim }
    }
}
