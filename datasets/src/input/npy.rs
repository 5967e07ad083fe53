//! [`NpyFile`]: an npy file of vectors, mapped, as one column `vector`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use arrow_array::{ArrayRef, FixedSizeListArray, PrimitiveArray, RecordBatch};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use memfold_index::{MapError, Mapped};

use super::InputError;
use crate::npy::{Component, Shape, read_shape};
use crate::schema::{BATCH_ROWS, Column};

/// Rows of a batch whose bytes must be copied to be aligned.
const COPIED_ROWS: usize = 1024;

/// An npy file of vectors, mapped, as one column `vector`.
#[derive(Debug)]
pub(crate) struct NpyFile {
    bytes: Buffer,
    data_start: usize,
    shape: Shape,
    schema: SchemaRef,
}

impl NpyFile {
    /// Maps the file at `path` and checks its header and length.
    pub(crate) fn open(path: &Path) -> Result<Self, InputError> {
        let mapped = Mapped::open(path).map_err(|error| map_error(error, path))?;
        let mut header = &*mapped;
        let (shape, data_start) = read_shape(&mut header, mapped.len() as u64, path)?;
        let item = Arc::new(Field::new("item", data_type(shape.component), false));
        // The header was checked: a dimension is at most 65,536.
        let vector = DataType::FixedSizeList(item, shape.dim as i32);
        let schema = Schema::new(vec![Field::new(Column::Vector.name(), vector, false)]);
        let bytes = Buffer::from(bytes::Bytes::from_owner(mapped));
        Ok(Self { bytes, data_start, shape, schema: Arc::new(schema) })
    }

    pub(crate) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) const fn row_count(&self) -> usize {
        self.shape.rows
    }

    /// Returns the bytes of the whole file.
    pub(crate) const fn bytes(&self) -> &Buffer {
        &self.bytes
    }

    /// Returns all rows in order.
    pub(crate) fn batches(&self) -> impl Iterator<Item = RecordBatch> {
        let aligned = self.is_aligned();
        let step = if aligned { BATCH_ROWS } else { COPIED_ROWS };
        let rows = self.shape.rows;
        (0..rows).step_by(step).map(move |start| self.batch(start, step.min(rows - start), aligned))
    }

    /// Returns one row.
    pub(crate) fn batch_of_row(&self, row: usize) -> RecordBatch {
        self.batch(row, 1, self.is_aligned())
    }

    fn is_aligned(&self) -> bool {
        let data = self.bytes.as_ptr().addr() + self.data_start;
        data.is_multiple_of(self.shape.component.bytes())
    }

    fn batch(&self, start: usize, rows: usize, aligned: bool) -> RecordBatch {
        let row_bytes = self.shape.dim * self.shape.component.bytes();
        let bytes =
            self.bytes.slice_with_length(self.data_start + start * row_bytes, rows * row_bytes);
        // A new buffer is aligned for every type.
        let bytes = if aligned { bytes } else { Buffer::from_slice_ref(bytes.as_slice()) };
        let components: ArrayRef = match self.shape.component {
            Component::F16 => components::<Float16Type>(bytes),
            Component::F32 => components::<Float32Type>(bytes),
            Component::F64 => components::<Float64Type>(bytes),
        };
        let DataType::FixedSizeList(item, dim) = self.schema.field(0).data_type() else {
            unreachable!("the schema was made with this type")
        };
        let vectors = FixedSizeListArray::new(Arc::clone(item), *dim, components, None);
        RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::new(vectors)])
            .expect("the column is that of the schema")
    }
}

fn components<T: ArrowPrimitiveType>(bytes: Buffer) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(bytes), None))
}

const fn data_type(component: Component) -> DataType {
    match component {
        Component::F16 => DataType::Float16,
        Component::F32 => DataType::Float32,
        Component::F64 => DataType::Float64,
    }
}

fn map_error(error: MapError, path: &Path) -> InputError {
    let path = PathBuf::from(path);
    match error {
        MapError::Open { source, .. } | MapError::Map { source, .. } => {
            InputError::Io { path, source }
        }
        other => InputError::Io { path, source: std::io::Error::other(other.to_string()) },
    }
}
