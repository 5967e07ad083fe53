//! [`VectorCells`]: a column of vectors, each judged before it is taken.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::DataType;

use super::skipped::SkipReason;
use crate::input::Components;

/// What a vector column may be.
pub(super) const EXPECTED: &str =
    "a list of f16, f32, f64, i8, u8, i32 or i64, or fixed-size binary of 4-byte floats";

/// How long the vectors of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// As long as the type says.
    Fixed(usize),
    /// Each row says.
    OfRow,
}

/// Returns how long vectors of `data_type` are; `None` where it holds no vectors.
pub(super) fn width_of(data_type: &DataType) -> Option<Width> {
    match data_type {
        DataType::FixedSizeBinary(bytes) if bytes % 4 == 0 => {
            usize::try_from(bytes / 4).ok().map(Width::Fixed)
        }
        DataType::FixedSizeList(item, size) if Components::accept(item.data_type()) => {
            usize::try_from(*size).ok().map(Width::Fixed)
        }
        DataType::List(item) | DataType::LargeList(item)
            if Components::accept(item.data_type()) =>
        {
            Some(Width::OfRow)
        }
        _ => None,
    }
}

enum Starts {
    Fixed { first: usize, width: usize },
    Offsets(OffsetBuffer<i32>),
    LargeOffsets(OffsetBuffer<i64>),
}

/// A column of vectors.
pub(super) struct VectorCells {
    components: Components,
    starts: Starts,
    nulls: Option<NullBuffer>,
    component_nulls: Option<NullBuffer>,
    len: usize,
}

impl VectorCells {
    /// Reads the vectors of `array`; `None` when it holds none.
    pub(super) fn of(array: &ArrayRef) -> Option<Self> {
        let (values, starts) = match array.data_type() {
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
            DataType::FixedSizeBinary(_) => {
                return Some(Self::of_binary(array.as_fixed_size_binary()));
            }
            _ => return None,
        };
        let (component_nulls, nulls) = (values.nulls().cloned(), array.nulls().cloned());
        let components = Components::of(&values)?;
        Some(Self { components, starts, nulls, component_nulls, len: array.len() })
    }

    fn of_binary(array: &FixedSizeBinaryArray) -> Self {
        let width = array.value_length().cast_unsigned() as usize / 4;
        let mut values = Vec::with_capacity(width * array.len());
        for row in 0..array.len() {
            let bytes = array.value(row).as_chunks().0.iter();
            values.extend(bytes.map(|chunk| f32::from_le_bytes(*chunk)));
        }
        Self {
            components: Components::F32(values.into()),
            starts: Starts::Fixed { first: 0, width },
            nulls: array.nulls().cloned(),
            component_nulls: None,
            len: array.len(),
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the length of the vector at `i`; `None` where it is null.
    pub(super) fn length(&self, i: usize) -> Option<usize> {
        let is_valid = self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(i));
        is_valid.then(|| self.range(i).len())
    }

    /// Tells why the vector at `i` cannot be used; `None` where it can.
    pub(super) fn judge(&self, i: usize, dim: usize) -> Option<SkipReason> {
        match self.length(i) {
            None => return Some(SkipReason::VectorNull),
            Some(length) if length != dim => return Some(SkipReason::VectorLength),
            Some(_) => {}
        }
        let range = self.range(i);
        if let Some(nulls) = &self.component_nulls
            && range.clone().any(|component| nulls.is_null(component))
        {
            return Some(SkipReason::VectorNull);
        }
        match self.components.finite_and_any(range) {
            (false, _) => Some(SkipReason::VectorNotFinite),
            (true, false) => Some(SkipReason::VectorZero),
            (true, true) => None,
        }
    }

    /// Appends the components of the vector at `i`.
    pub(super) fn append(&self, i: usize, to: &mut Vec<f32>) {
        self.components.append(self.range(i), to);
    }

    /// Returns all components, where they are f32 and every vector has `dim` of them, in one piece.
    pub(super) fn in_one_piece(&self, dim: usize) -> Option<&[f32]> {
        let values = self.components.as_f32()?;
        if self.len == 0 {
            return Some(&[]);
        }
        let (start, end) = (self.range(0).start, self.range(self.len - 1).end);
        (end - start == self.len * dim).then(|| &values[start..end])
    }

    fn range(&self, i: usize) -> std::ops::Range<usize> {
        // Offsets are never negative and never fall: the array was built with that check.
        match &self.starts {
            Starts::Fixed { first, width } => first + i * width..first + (i + 1) * width,
            Starts::Offsets(offsets) => offsets[i] as usize..offsets[i + 1] as usize,
            Starts::LargeOffsets(offsets) => offsets[i] as usize..offsets[i + 1] as usize,
        }
    }
}
