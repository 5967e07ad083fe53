//! [`VectorCells`]: a column of vectors, of whatever type.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::DataType;

use crate::components::{ComponentType, Components};
use crate::error::VectorFault;

/// What a column of vectors may be.
pub(crate) const EXPECTED: &str =
    "a list of f16, f32, f64, i8, u8, i32 or i64, or fixed-size binary of 4-byte floats";

/// Bytes of a component of fixed-size binary.
const BINARY_BYTES: i32 = 4;

/// Returns the type of the components in a column of `data_type`, and their number where the type
/// says it; `None` where it holds no vectors.
pub(crate) fn shape_of(data_type: &DataType) -> Option<(ComponentType, Option<usize>)> {
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
    Fixed { first: usize, width: usize },
    Offsets(OffsetBuffer<i32>),
    LargeOffsets(OffsetBuffer<i64>),
}

/// A column of vectors.
pub(crate) struct VectorCells {
    components: Components,
    starts: Starts,
    nulls: Option<NullBuffer>,
    component_nulls: Option<NullBuffer>,
    len: usize,
}

impl VectorCells {
    /// Takes the vectors of `array`; `None` when it holds none.
    pub(crate) fn of(array: &ArrayRef) -> Option<Self> {
        let (components, starts) = match array.data_type() {
            DataType::FixedSizeList(..) => {
                let list = array.as_fixed_size_list();
                let width = usize::try_from(list.value_length()).ok()?;
                let first = usize::try_from(list.value_offset(0)).ok()?;
                (ArrayRef::clone(list.values()), Starts::Fixed { first, width })
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (ArrayRef::clone(list.values()), Starts::Offsets(list.offsets().clone()))
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (ArrayRef::clone(list.values()), Starts::LargeOffsets(list.offsets().clone()))
            }
            DataType::FixedSizeBinary(bytes) => {
                let binary = array.as_fixed_size_binary();
                let width = usize::try_from(bytes / BINARY_BYTES).ok()?;
                let bytes = Buffer::from_slice_ref(binary.value_data());
                (ComponentType::F32.array_of(bytes), Starts::Fixed { first: 0, width })
            }
            _ => return None,
        };
        let (component_nulls, nulls) = (components.nulls().cloned(), array.nulls().cloned());
        let components = Components::of(&components)?;
        Some(Self { components, starts, nulls, component_nulls, len: array.len() })
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the length of the vector at `i`; `None` where it is null.
    pub(crate) fn length(&self, i: usize) -> Option<usize> {
        let is_valid = self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(i));
        is_valid.then(|| self.range(i).len())
    }

    /// Tells what is wrong with the vector at `i`, whose components must be finite, as f32 where `is_f32`.
    pub(crate) fn fault(&self, i: usize, dim: usize, is_f32: bool) -> Option<VectorFault> {
        match self.length(i) {
            None => return Some(VectorFault::Null),
            Some(found) if found != dim => {
                return Some(VectorFault::Length { found, expected: dim });
            }
            Some(_) => {}
        }
        let range = self.range(i);
        if let Some(nulls) = &self.component_nulls
            && let Some(component) = range.clone().position(|at| nulls.is_null(at))
        {
            return Some(VectorFault::ComponentNull { component });
        }
        match self.components.finite_and_any(range.clone()) {
            (true, _) => None,
            (false, _) => self.components.not_finite(range, is_f32),
        }
    }

    /// Tells whether all components of the vector at `i` are zero.
    pub(crate) fn is_zero(&self, i: usize) -> bool {
        !self.components.finite_and_any(self.range(i)).1
    }

    /// Tells what is wrong with the first integer of the vector at `i` that f32 does not hold.
    pub(crate) fn inexact(&self, i: usize) -> Option<VectorFault> {
        self.components.inexact(self.range(i))
    }

    /// Appends the components of the vector at `i`.
    pub(crate) fn append(&self, i: usize, to: &mut Vec<f32>) {
        self.components.append(self.range(i), to);
    }

    /// Returns all components in one piece, where every vector has `dim` of them.
    pub(crate) fn in_one_piece(&self, dim: usize) -> Option<Components> {
        self.whole(dim).map(|range| self.components.slice(range))
    }

    /// Returns all components in one piece, where they are f32 and every vector has `dim` of them.
    pub(crate) fn as_f32(&self, dim: usize) -> Option<&[f32]> {
        self.components.as_f32().zip(self.whole(dim)).map(|(values, range)| &values[range])
    }

    fn whole(&self, dim: usize) -> Option<Range<usize>> {
        if self.len == 0 {
            return Some(0..0);
        }
        let (start, end) = (self.range(0).start, self.range(self.len - 1).end);
        (end - start == self.len * dim && end <= self.components.len()).then_some(start..end)
    }

    fn range(&self, i: usize) -> Range<usize> {
        // Offsets are never negative and never fall: the array was built with that check.
        match &self.starts {
            Starts::Fixed { first, width } => first + i * width..first + (i + 1) * width,
            Starts::Offsets(offsets) => offsets[i] as usize..offsets[i + 1] as usize,
            Starts::LargeOffsets(offsets) => offsets[i] as usize..offsets[i + 1] as usize,
        }
    }
}
