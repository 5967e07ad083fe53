//! [`MatrixFile`]: vectors that lie one after another in a file (npy, fbin, fvecs and others).

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{FixedSizeListArray, RecordBatch};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

#[cfg(feature = "hdf5")]
use super::hdf5::DataSet;
use super::source::{Batches, Source};
use crate::DataError;
use crate::error::VectorFault;
use crate::input::InputBytes;
use crate::npy::Header;
use crate::schema::{BATCH_ROWS, Column, DIM_MAX};
use crate::vectors::ComponentType;

/// Bytes of a batch: few enough to stay in the caches of a core.
const BATCH_BYTES: usize = 512 << 10;
/// Most rows of a file.
const ROWS_MAX: u64 = u32::MAX as u64 - 1;
/// Bytes before the rows of fbin and its like: the numbers of rows and components.
const BIN_HEADER_BYTES: usize = 8;
/// Bytes before each row of fvecs and its like: its number of components.
const ROW_PREFIX_BYTES: usize = 4;

/// How many vectors there are, how long they are and how their components are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) rows: usize,
    pub(crate) dim: usize,
    pub(crate) component: ComponentType,
    /// Whether each row has its length before it.
    pub(crate) has_prefixes: bool,
    pub(crate) is_big_endian: bool,
    /// Whether the first components of all rows come first (Fortran order).
    pub(crate) is_by_component: bool,
}

impl Layout {
    /// Accepts the header of a matrix, or returns its defect.
    pub(crate) fn checked(rows: u64, dim: u64, component: ComponentType) -> Result<Self, String> {
        if dim == 0 || dim > DIM_MAX as u64 {
            return Err(format!("vectors of {dim} components, expected 1 to {DIM_MAX}"));
        }
        if rows > ROWS_MAX {
            return Err(format!("{rows} rows, expected at most {ROWS_MAX}"));
        }
        Ok(Self::plain(rows as usize, dim as usize, component))
    }

    /// Lays out little-endian vectors one after another.
    pub(crate) const fn plain(rows: usize, dim: usize, component: ComponentType) -> Self {
        let (has_prefixes, is_big_endian, is_by_component) = (false, false, false);
        Self { rows, dim, component, has_prefixes, is_big_endian, is_by_component }
    }

    /// Returns the bytes of a row's components.
    pub(crate) const fn row_bytes(self) -> usize {
        self.dim * self.component.bytes()
    }

    /// Returns the bytes from one row to the next.
    const fn stride(self) -> usize {
        self.row_bytes() + if self.has_prefixes { ROW_PREFIX_BYTES } else { 0 }
    }

    /// Returns the bytes of all rows; a row has at most half a MiB, so the product fits.
    pub(crate) const fn data_bytes(self) -> u64 {
        self.rows as u64 * self.stride() as u64
    }

    /// Refuses another number of bytes than those of a header and all rows.
    pub(super) fn check_bytes(self, found: u64, header_bytes: u64) -> Result<(), String> {
        let (expected, Self { rows, dim, .. }) = (header_bytes + self.data_bytes(), self);
        match found == expected {
            true => Ok(()),
            false => Err(format!("{found} bytes, expected {expected} for {rows} × {dim}")),
        }
    }

    /// Returns the schema of one column, `vector`.
    fn schema(self, metadata: HashMap<String, String>) -> SchemaRef {
        let item = Arc::new(Field::new("item", self.component.data_type(), false));
        // A dimension is at most 65,536.
        let vector = DataType::FixedSizeList(item, self.dim as i32);
        let fields = vec![Field::new(Column::Vector.name(), vector, false)];
        Arc::new(Schema::new_with_metadata(fields, metadata))
    }
}

/// A matrix in a file, as one column `vector`.
#[derive(Debug, Clone)]
pub(crate) struct MatrixFile {
    bytes: InputBytes,
    layout: Layout,
    schema: SchemaRef,
    rows: Rows,
}

#[derive(Debug, Clone)]
enum Rows {
    /// They lie one after another from this byte on.
    At(u64),
    #[cfg(feature = "hdf5")]
    DataSet(DataSet),
}

impl MatrixFile {
    /// Takes a file after its length was checked: the rows begin at `data_start`.
    pub(super) fn new(
        bytes: InputBytes,
        data_start: u64,
        layout: Layout,
        metadata: HashMap<String, String>,
    ) -> Self {
        Self { bytes, layout, schema: layout.schema(metadata), rows: Rows::At(data_start) }
    }

    #[cfg(feature = "hdf5")]
    pub(super) fn of_data_set(bytes: InputBytes, layout: Layout, data_set: DataSet) -> Self {
        let schema = layout.schema(HashMap::new());
        Self { bytes, layout, schema, rows: Rows::DataSet(data_set) }
    }

    /// Opens an npy file.
    pub(super) fn open_npy(bytes: InputBytes) -> Result<Self, DataError> {
        let header = Header::read(&mut bytes.cursor(0)).and_then(|header| {
            let layout = header.layout()?;
            Ok((header, layout))
        });
        let (header, layout) = header.map_err(|error| error.with_path(bytes.path()))?;
        Self::of_length(bytes, header.data_start, layout)
    }

    /// Opens a file of the kind fbin.
    pub(super) fn open_bin(bytes: InputBytes, component: ComponentType) -> Result<Self, DataError> {
        if bytes.len() < BIN_HEADER_BYTES as u64 {
            let found = format!("{} bytes, expected a header of {BIN_HEADER_BYTES}", bytes.len());
            return Err(DataError::damaged(bytes.path(), found));
        }
        let header = bytes.read(0, BIN_HEADER_BYTES)?;
        let number = |at: usize| {
            let number = header[at..].first_chunk().copied().map(u32::from_le_bytes);
            u64::from(number.unwrap_or_default())
        };
        let layout = Layout::checked(number(0), number(4), component)
            .map_err(|found| DataError::format(bytes.path(), found))?;
        Self::of_length(bytes, BIN_HEADER_BYTES as u64, layout)
    }

    fn of_length(bytes: InputBytes, data_start: u64, layout: Layout) -> Result<Self, DataError> {
        let damaged = |found| DataError::damaged(bytes.path(), found);
        layout.check_bytes(bytes.len(), data_start).map_err(damaged)?;
        Ok(Self::new(bytes, data_start, layout, HashMap::new()))
    }

    /// Opens a file of the kind fvecs.
    pub(super) fn open_vecs(
        bytes: InputBytes,
        component: ComponentType,
    ) -> Result<Self, DataError> {
        let length = bytes.len();
        if length < ROW_PREFIX_BYTES as u64 {
            let found = format!("{length} bytes, expected at least one row");
            return Err(DataError::damaged(bytes.path(), found));
        }
        let format = |found| DataError::format(bytes.path(), found);
        let prefix = bytes.read(0, ROW_PREFIX_BYTES)?;
        let dim = prefix.first_chunk().copied().map_or(0, u32::from_le_bytes);
        let mut layout = Layout::checked(1, dim.into(), component).map_err(format)?;
        layout.has_prefixes = true;
        let stride = layout.stride() as u64;
        if !length.is_multiple_of(stride) {
            let found =
                format!("{length} bytes, expected whole rows of {stride} for a dim of {dim}");
            return Err(DataError::damaged(bytes.path(), found));
        }
        layout.rows = Layout::checked(length / stride, dim.into(), component).map_err(format)?.rows;
        Ok(Self::new(bytes, 0, layout, HashMap::new()))
    }

    fn batch(&self, start: usize, rows: usize) -> Result<RecordBatch, DataError> {
        let components = match &self.rows {
            Rows::At(data_start) => self.components(*data_start, start, rows)?,
            #[cfg(feature = "hdf5")]
            Rows::DataSet(data_set) => {
                data_set.read(self.bytes.path(), self.layout, start, rows)?
            }
        };
        let DataType::FixedSizeList(item, dim) = self.schema.field(0).data_type() else {
            unreachable!("the schema was made with this type")
        };
        let components = self.layout.component.array_of(components);
        let vectors = FixedSizeListArray::new(Arc::clone(item), *dim, components, None);
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::new(vectors)])
            .expect("the column is that of the schema"))
    }

    fn components(&self, data_start: u64, start: usize, rows: usize) -> Result<Buffer, DataError> {
        let layout = self.layout;
        let mut components = match layout.is_by_component {
            true => self.transposed(data_start, start, rows)?,
            false => {
                let stride = layout.stride();
                let from = data_start + start as u64 * stride as u64;
                let bytes = self.bytes.read(from, rows * stride)?;
                if layout.has_prefixes { self.without_prefixes(&bytes, start)? } else { bytes }
            }
        };
        if layout.is_big_endian && layout.component.bytes() > 1 {
            let mut swapped = MutableBuffer::from(components.to_vec());
            swapped.chunks_exact_mut(layout.component.bytes()).for_each(<[u8]>::reverse);
            components = swapped.into();
        }
        // Vectors of bytes have no alignment, all others that of their type.
        Ok(match components.as_ptr().addr().is_multiple_of(8) {
            true => components,
            false => Buffer::from_slice_ref(components.as_slice()),
        })
    }

    /// Reads rows with components far apart.
    fn transposed(&self, data_start: u64, start: usize, rows: usize) -> Result<Buffer, DataError> {
        let (width, dim) = (self.layout.component.bytes(), self.layout.dim);
        let mut to = MutableBuffer::from_len_zeroed(rows * dim * width);
        for component in 0..dim {
            let first = (component * self.layout.rows + start) as u64 * width as u64;
            let values = self.bytes.read(data_start + first, rows * width)?;
            for (row, value) in values.chunks_exact(width).enumerate() {
                to[(row * dim + component) * width..][..width].copy_from_slice(value);
            }
        }
        Ok(to.into())
    }

    /// Removes the prefix of each row, which must be the dimension.
    fn without_prefixes(&self, bytes: &[u8], start: usize) -> Result<Buffer, DataError> {
        let Layout { dim, .. } = self.layout;
        let mut components = MutableBuffer::with_capacity(bytes.len());
        for (i, row) in bytes.chunks_exact(self.layout.stride()).enumerate() {
            let (prefix, row_components) = row.split_at(ROW_PREFIX_BYTES);
            let found = prefix.first_chunk().copied().map_or(0, u32::from_le_bytes) as usize;
            if found != dim {
                let fault = VectorFault::Length { found, expected: dim };
                let (path, row) = (self.bytes.path().into(), (start + i) as u64);
                return Err(DataError::Vector { path, row, fault });
            }
            components.extend_from_slice(row_components);
        }
        Ok(components.into())
    }
}

impl Source for MatrixFile {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn row_count(&self) -> usize {
        self.layout.rows
    }

    fn check_unchanged(&self) -> Result<(), DataError> {
        self.bytes.check_unchanged()
    }

    fn is_vectors_only(&self) -> bool {
        true
    }

    fn batches(&self, _: &[usize], _: usize) -> Result<Batches, DataError> {
        let (file, rows) = (self.clone(), self.layout.rows);
        let step = (BATCH_BYTES / self.layout.row_bytes()).clamp(1, BATCH_ROWS);
        let starts = (0..rows).step_by(step);
        Ok(Box::new(starts.map(move |start| file.batch(start, step.min(rows - start)))))
    }

    fn batches_of_rows(&self, _: usize, rows: &[usize]) -> Result<Vec<RecordBatch>, DataError> {
        rows.iter().map(|&row| self.batch(row, 1)).collect()
    }
}
