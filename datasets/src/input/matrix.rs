//! [`MappedMatrix`]: vectors that lie one after another in a mapped file.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int32Type, Int64Type,
    UInt8Type,
};
use arrow_array::{ArrayRef, FixedSizeListArray, PrimitiveArray, RecordBatch};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use half::bf16;
use memfold_index::{MapError, Mapped};

use super::components::ElementType;
use super::error::InputError;
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
pub(super) fn map_file(path: &Path) -> Result<Buffer, InputError> {
    let mapped = Mapped::open(path).map_err(|error| {
        let source = match error {
            MapError::Open { source, .. } | MapError::Map { source, .. } => source,
            other => std::io::Error::other(other.to_string()),
        };
        InputError::Io { path: path.into(), source }
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
