//! [`VectorCells`]: the vectors of a batch, refused where they cannot be written.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, PrimitiveArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;

use super::VectorFault;
use super::component::{ComponentType, first_not_finite, value_at};

/// Bytes of a component of fixed-size binary.
const BINARY_BYTES: i32 = 4;

/// Returns the type of the components in a column of `data_type`, and their number where the type
/// says it; `None` where it holds no vectors.
pub(super) fn shape_of(data_type: &DataType) -> Option<(ComponentType, Option<usize>)> {
    match data_type {
        DataType::FixedSizeBinary(bytes) if bytes % BINARY_BYTES == 0 => {
            Some((ComponentType::F32, Some(usize::try_from(bytes / BINARY_BYTES).ok()?)))
        }
        DataType::FixedSizeList(item, size) => {
            Some((ComponentType::of(item.data_type())?, Some(usize::try_from(*size).ok()?)))
        }
        DataType::List(item) | DataType::LargeList(item) => {
            Some((ComponentType::of(item.data_type())?, None))
        }
        _ => None,
    }
}

/// Where the vectors begin among the components.
enum Starts {
    Fixed(usize),
    Offsets(OffsetBuffer<i32>),
    LargeOffsets(OffsetBuffer<i64>),
}

/// A column of vectors.
pub(super) struct VectorCells {
    components: ArrayRef,
    starts: Starts,
    nulls: Option<NullBuffer>,
    len: usize,
}

impl VectorCells {
    /// Takes the vectors of `array`, whose type has a [`shape_of`].
    pub(super) fn of(array: &ArrayRef) -> Self {
        let (components, starts) = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (Arc::clone(list.values()), Starts::Offsets(list.offsets().clone()))
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (Arc::clone(list.values()), Starts::LargeOffsets(list.offsets().clone()))
            }
            DataType::FixedSizeBinary(_) => {
                let binary = array.as_fixed_size_binary();
                let width = (binary.value_length() / BINARY_BYTES).cast_unsigned() as usize;
                (floats_of(binary), Starts::Fixed(width))
            }
            _ => {
                let list = array.as_fixed_size_list();
                let width = list.value_length().cast_unsigned() as usize;
                (Arc::clone(list.values()), Starts::Fixed(width))
            }
        };
        Self { components, starts, nulls: array.nulls().cloned(), len: array.len() }
    }

    /// Returns the length of the first vector that is not null.
    pub(super) fn first_length(&self) -> Option<usize> {
        (0..self.len).find(|&i| self.is_valid(i)).map(|i| self.range(i).len())
    }

    /// Returns the components of all vectors in one piece, without a copy.
    ///
    /// # Errors
    /// The first vector that cannot be written, with what is wrong with it.
    pub(super) fn in_one_piece(&self, dim: usize) -> Result<ArrayRef, (usize, VectorFault)> {
        let has_lengths = (0..self.len).all(|i| self.is_valid(i) && self.range(i).len() == dim);
        if has_lengths {
            let start = if self.len == 0 { 0 } else { self.range(0).start };
            let components = self.components.slice(start, self.len * dim);
            if components.null_count() == 0 && first_not_finite(&components).is_none() {
                return Ok(components);
            }
        }
        let fault = (0..self.len).find_map(|i| Some((i, self.fault(i, dim)?)));
        Err(fault.expect("a batch without a fault is in one piece"))
    }

    /// Counts the vectors that cannot be written.
    pub(super) fn fault_count(&self, dim: usize) -> u64 {
        (0..self.len).filter(|&i| self.fault(i, dim).is_some()).count() as u64
    }

    fn fault(&self, i: usize, dim: usize) -> Option<VectorFault> {
        if !self.is_valid(i) {
            return Some(VectorFault::Null);
        }
        let range = self.range(i);
        if range.len() != dim {
            return Some(VectorFault::Length { found: range.len(), expected: dim });
        }
        let components = self.components.slice(range.start, dim);
        if components.null_count() > 0 {
            let component = (0..dim).find(|&component| components.is_null(component))?;
            return Some(VectorFault::ComponentNull { component });
        }
        let component = first_not_finite(&components)?;
        Some(VectorFault::NotFinite { component, value: value_at(&components, component) })
    }

    fn is_valid(&self, i: usize) -> bool {
        self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(i))
    }

    fn range(&self, i: usize) -> Range<usize> {
        // Offsets are never negative and never fall: the array was built with that check.
        match &self.starts {
            Starts::Fixed(width) => i * width..(i + 1) * width,
            Starts::Offsets(offsets) => offsets[i] as usize..offsets[i + 1] as usize,
            Starts::LargeOffsets(offsets) => offsets[i] as usize..offsets[i + 1] as usize,
        }
    }
}

/// Returns the floats of fixed-size binary; a copy only where they are misaligned.
fn floats_of(binary: &FixedSizeBinaryArray) -> ArrayRef {
    let bytes = binary.values();
    let is_aligned = bytes.as_ptr().addr().is_multiple_of(align_of::<f32>());
    let bytes = if is_aligned { bytes.clone() } else { Buffer::from_slice_ref(bytes.as_slice()) };
    Arc::new(PrimitiveArray::<Float32Type>::new(ScalarBuffer::from(bytes), None))
}
