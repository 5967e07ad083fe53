//! [`VectorCells`]: a column of vectors, each judged before it is taken.

use std::path::PathBuf;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use memfold_index::Row;

use crate::components::Components;

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

/// Rows named for each reason.
const NAMED_ROWS_MAX: usize = 3;

/// Why a row takes no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum SkipReason {
    /// The vector, or one of its components, is null.
    VectorNull,
    /// The vector has another length than most.
    VectorLength,
    /// A component is NaN or infinite, or too large for 32 bits.
    VectorNotFinite,
    /// All components are zero, so there is no direction to compare.
    VectorZero,
}

impl SkipReason {
    /// Every reason.
    pub const ALL: [Self; 4] =
        [Self::VectorNull, Self::VectorLength, Self::VectorNotFinite, Self::VectorZero];

    /// Returns the reason's name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::VectorNull => "vector_null",
            Self::VectorLength => "vector_length",
            Self::VectorNotFinite => "vector_not_finite",
            Self::VectorZero => "vector_zero",
        }
    }
}

/// A row that was skipped, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRow {
    /// Why.
    pub reason: SkipReason,
    /// Its file.
    pub path: PathBuf,
    /// Its position in the file, from 0.
    pub row: u64,
}

/// Rows without a usable vector, counted by reason and kept in their place.
#[derive(Debug, Clone, Default)]
pub struct SkippedRows {
    counts: [u64; SkipReason::ALL.len()],
    examples: Vec<SkippedRow>,
    /// Ascending.
    ordinals: Vec<u64>,
}

impl SkippedRows {
    /// Adds the row at `ordinal`, the largest so far; `row` tells its place.
    pub(super) fn add(
        &mut self,
        ordinal: u64,
        reason: SkipReason,
        place: impl FnOnce() -> (PathBuf, u64),
    ) {
        let count = &mut self.counts[reason as usize];
        *count += 1;
        if *count <= NAMED_ROWS_MAX as u64 {
            let (path, row) = place();
            self.examples.push(SkippedRow { reason, path, row });
        }
        self.ordinals.push(ordinal);
    }

    /// Returns how many rows were skipped.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ordinals.len()
    }

    /// Tells whether no row was skipped.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ordinals.is_empty()
    }

    /// Returns the reasons that occurred, in the order of [`SkipReason::ALL`], with their counts.
    pub fn counts(&self) -> impl Iterator<Item = (SkipReason, u64)> {
        let all = SkipReason::ALL.into_iter().zip(self.counts);
        all.filter(|(_, count)| *count > 0)
    }

    /// Returns the first rows of each reason, in the order in which they were met.
    #[must_use]
    pub fn examples(&self) -> &[SkippedRow] {
        &self.examples
    }

    /// Returns the ordinals of the skipped rows, ascending.
    #[must_use]
    pub fn ordinals(&self) -> &[u64] {
        &self.ordinals
    }

    /// Returns the ordinal of the kept row `row`.
    pub(super) fn ordinal(&self, row: Row) -> u64 {
        let row = u64::from(row.0);
        // Before the i-th skipped row lie all rows with smaller ordinals but the i skipped ones.
        let mut skipped = (0, self.ordinals.len());
        while skipped.0 < skipped.1 {
            let middle = usize::midpoint(skipped.0, skipped.1);
            if self.ordinals[middle] - middle as u64 <= row {
                skipped.0 = middle + 1;
            } else {
                skipped.1 = middle;
            }
        }
        row + skipped.0 as u64
    }

    /// Returns the kept row at `ordinal`; `None` where it was skipped.
    pub(super) fn row(&self, ordinal: u64) -> Option<Row> {
        let before = self.ordinals.binary_search(&ordinal).err()?;
        u32::try_from(ordinal - before as u64).ok().map(Row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_ordinals_agree_around_gaps() {
        for mask in 0..1_u32 << 9 {
            let mut skipped = SkippedRows::default();
            let mut kept = Vec::new();
            for ordinal in 0..9 {
                if mask >> ordinal & 1 == 1 {
                    skipped.add(ordinal, SkipReason::VectorZero, || (PathBuf::new(), ordinal));
                    assert_eq!(skipped.row(ordinal), None);
                } else {
                    kept.push(ordinal);
                }
            }
            for (row, &ordinal) in kept.iter().enumerate() {
                assert_eq!(skipped.ordinal(Row(row as u32)), ordinal, "{mask:b}");
                assert_eq!(skipped.row(ordinal), Some(Row(row as u32)), "{mask:b}");
            }
        }
    }

    #[test]
    fn the_first_of_each_reason_are_named() {
        let mut skipped = SkippedRows::default();
        for ordinal in 0..5 {
            skipped.add(ordinal, SkipReason::VectorNull, || ("a".into(), ordinal));
        }
        skipped.add(5, SkipReason::VectorZero, || ("b".into(), 0));
        let named: Vec<(SkipReason, u64)> =
            skipped.examples().iter().map(|example| (example.reason, example.row)).collect();
        let null = SkipReason::VectorNull;
        assert_eq!(named, [(null, 0), (null, 1), (null, 2), (SkipReason::VectorZero, 0)]);
        let counts: Vec<_> = skipped.counts().collect();
        assert_eq!(counts, [(null, 5), (SkipReason::VectorZero, 1)]);
    }
}
