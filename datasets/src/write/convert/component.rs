//! [`ComponentType`], and values of one type as values of another.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int32Type, UInt8Type,
};
use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, PrimitiveArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use half::f16;

use super::VectorFault;
use crate::columns;
use crate::read::format::VectorFormat;

/// Values converted at once: they stay in the first cache.
const CHUNK: usize = 2048;

/// What the components of a vector are stored as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ComponentType {
    /// 16-bit floats.
    F16,
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
    /// 8-bit integers from 0 to 255.
    U8,
    /// 8-bit integers from -128 to 127.
    I8,
    /// 32-bit integers with a sign.
    I32,
}

impl ComponentType {
    /// Every type.
    pub const ALL: [Self; 6] = [Self::F16, Self::F32, Self::F64, Self::U8, Self::I8, Self::I32];

    /// Returns the type's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::I32 => "i32",
        }
    }

    /// Returns the type of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|component| component.name() == name)
    }

    /// Returns the bytes of one value.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::F16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 => 8,
        }
    }

    /// Returns the one type that `format` holds; `None` where it holds all.
    #[must_use]
    pub(crate) const fn only_in(format: VectorFormat) -> Option<Self> {
        match format {
            VectorFormat::Fvecs | VectorFormat::Fbin => Some(Self::F32),
            VectorFormat::F16bin => Some(Self::F16),
            VectorFormat::Ivecs | VectorFormat::Ibin => Some(Self::I32),
            VectorFormat::Bvecs | VectorFormat::U8bin => Some(Self::U8),
            VectorFormat::I8bin => Some(Self::I8),
            _ => None,
        }
    }

    /// Returns the type of components that a column stores as `data_type`.
    pub(super) const fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Float16 => Self::F16,
            DataType::Float32 => Self::F32,
            DataType::Float64 => Self::F64,
            DataType::UInt8 => Self::U8,
            DataType::Int8 => Self::I8,
            DataType::Int32 => Self::I32,
            _ => return None,
        })
    }

    pub(super) const fn data_type(self) -> DataType {
        match self {
            Self::F16 => DataType::Float16,
            Self::F32 => DataType::Float32,
            Self::F64 => DataType::Float64,
            Self::U8 => DataType::UInt8,
            Self::I8 => DataType::Int8,
            Self::I32 => DataType::Int32,
        }
    }

    /// Names the type as numpy does.
    pub(super) const fn npy_descr(self) -> &'static str {
        match self {
            Self::F16 => "<f2",
            Self::F32 => "<f4",
            Self::F64 => "<f8",
            Self::U8 => "|u1",
            Self::I8 => "|i1",
            Self::I32 => "<i4",
        }
    }
}

impl fmt::Display for ComponentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How values become those of another type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    /// Only where they stay the same, with their sign.
    Exact,
    /// To the nearest one, to even between two.
    Nearest,
}

/// A value that the other type cannot hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Misfit {
    /// Its position.
    pub(super) at: usize,
    pub(super) value: f64,
}

/// A component. Every one of them is an f64 too.
trait Component: Copy {
    fn wide(self) -> f64;

    /// Returns the nearest value; `None` where `value` is out of range.
    fn nearest(value: f64) -> Option<Self>;
}

impl Component for f64 {
    fn wide(self) -> f64 {
        self
    }

    fn nearest(value: f64) -> Option<Self> {
        Some(value)
    }
}

impl Component for f32 {
    fn wide(self) -> f64 {
        f64::from(self)
    }

    fn nearest(value: f64) -> Option<Self> {
        Some(value as Self).filter(|value| value.is_finite())
    }
}

impl Component for f16 {
    fn wide(self) -> f64 {
        self.to_f64()
    }

    fn nearest(value: f64) -> Option<Self> {
        Some(Self::from_f32(odd_f32(value))).filter(|value| value.is_finite())
    }
}

macro_rules! integer_components {
    ($($integer:ty),*) => {$(
        impl Component for $integer {
            fn wide(self) -> f64 {
                f64::from(self)
            }

            fn nearest(value: f64) -> Option<Self> {
                let nearest = value.round_ties_even();
                let range = f64::from(Self::MIN)..=f64::from(Self::MAX);
                range.contains(&nearest).then_some(nearest as Self)
            }
        }
    )*};
}

integer_components!(u8, i8, i32);

/// Rounds towards zero, and makes the last bit odd where that is not exact: what rounds the result
/// further rounds as if it had seen `value`.
fn odd_f32(value: f64) -> f32 {
    let near = value as f32;
    let wide = f64::from(near);
    if wide.to_bits() == value.to_bits() {
        return near;
    }
    let below = if wide.abs() > value.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(below | 1)
}

/// Returns components, none of them null, as values of another type.
pub(super) fn converted(
    values: &ArrayRef,
    to: ComponentType,
    rounding: Rounding,
) -> Result<ArrayRef, Misfit> {
    match to {
        ComponentType::F16 => narrowed::<Float16Type>(values, rounding),
        ComponentType::F32 => narrowed::<Float32Type>(values, rounding),
        ComponentType::F64 => narrowed::<Float64Type>(values, rounding),
        ComponentType::U8 => narrowed::<UInt8Type>(values, rounding),
        ComponentType::I8 => narrowed::<Int8Type>(values, rounding),
        ComponentType::I32 => narrowed::<Int32Type>(values, rounding),
    }
}

fn narrowed<To: ArrowPrimitiveType>(
    values: &ArrayRef,
    rounding: Rounding,
) -> Result<ArrayRef, Misfit>
where
    To::Native: Component,
{
    let fits = |value: f64| {
        let narrow = <To::Native>::nearest(value)?;
        let is_same = narrow.wide().to_bits() == value.to_bits();
        (is_same || rounding == Rounding::Nearest).then_some(narrow)
    };
    let mut narrow = Vec::with_capacity(values.len());
    let mut wide = Vec::with_capacity(CHUNK);
    for start in (0..values.len()).step_by(CHUNK) {
        wide.clear();
        widen(values, start..values.len().min(start + CHUNK), &mut wide);
        for (i, &value) in wide.iter().enumerate() {
            narrow.push(fits(value).ok_or(Misfit { at: start + i, value })?);
        }
    }
    Ok(Arc::new(PrimitiveArray::<To>::new(narrow.into(), None)))
}

fn widen(values: &ArrayRef, range: Range<usize>, to: &mut Vec<f64>) {
    fn all<From: ArrowPrimitiveType>(values: &ArrayRef, range: Range<usize>, to: &mut Vec<f64>)
    where
        From::Native: Component,
    {
        to.extend(values.as_primitive::<From>().values()[range].iter().map(|value| value.wide()));
    }
    match values.data_type() {
        DataType::Float16 => all::<Float16Type>(values, range, to),
        DataType::Float32 => all::<Float32Type>(values, range, to),
        DataType::Float64 => all::<Float64Type>(values, range, to),
        DataType::UInt8 => all::<UInt8Type>(values, range, to),
        DataType::Int8 => all::<Int8Type>(values, range, to),
        DataType::Int32 => all::<Int32Type>(values, range, to),
        other => unreachable!("{other} is no type of components"),
    }
}

/// Returns the value at `at`.
pub(super) fn value_at(values: &ArrayRef, at: usize) -> f64 {
    let mut value = Vec::with_capacity(1);
    widen(values, at..at + 1, &mut value);
    value[0]
}

/// Returns the position of the first NaN or infinite component.
pub(super) fn first_not_finite(values: &ArrayRef) -> Option<usize> {
    match values.data_type() {
        DataType::Float16 => {
            let values = values.as_primitive::<Float16Type>().values();
            let finite = values.iter().fold(true, |finite, value| finite & value.is_finite());
            if finite { None } else { values.iter().position(|value| !value.is_finite()) }
        }
        DataType::Float32 => {
            columns::first_not_finite(values.as_primitive::<Float32Type>().values())
        }
        DataType::Float64 => {
            let values = values.as_primitive::<Float64Type>().values();
            let finite = values.iter().fold(true, |finite, value| finite & value.is_finite());
            if finite { None } else { values.iter().position(|value| !value.is_finite()) }
        }
        _ => None,
    }
}

/// Returns the bytes of the components, none of them null.
pub(super) fn bytes_of(values: &ArrayRef) -> Buffer {
    fn all<T: ArrowPrimitiveType>(values: &ArrayRef) -> Buffer {
        values.as_primitive::<T>().values().inner().clone()
    }
    match values.data_type() {
        DataType::Float16 => all::<Float16Type>(values),
        DataType::Float32 => all::<Float32Type>(values),
        DataType::Float64 => all::<Float64Type>(values),
        DataType::UInt8 => all::<UInt8Type>(values),
        DataType::Int8 => all::<Int8Type>(values),
        DataType::Int32 => all::<Int32Type>(values),
        other => unreachable!("{other} is no type of components"),
    }
}

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bits<T: ArrowPrimitiveType>(values: Vec<T::Native>) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::new(values.into(), None))
    }

    /// The f16 nearest to `value`, found by looking at all of them.
    fn nearest_f16(value: f64) -> f16 {
        let all = (0..=u16::MAX).map(f16::from_bits).filter(|half| half.is_finite());
        let same_sign = all.filter(|half| half.is_sign_negative() == value.is_sign_negative());
        same_sign
            .min_by(|a, b| {
                let gap = |half: &f16| (half.to_f64() - value).abs();
                gap(a).total_cmp(&gap(b)).then((a.to_bits() & 1).cmp(&(b.to_bits() & 1)))
            })
            .unwrap()
    }

    #[test]
    fn halves_are_rounded_once() {
        // Between two halves, a little above the middle: f32 would round it to the middle itself.
        let middle = 1.0 + f64::from(f16::EPSILON) / 2.0;
        for value in [middle, middle + 1e-12, middle - 1e-12, -middle - 1e-12, 65_519.999, 3e-8] {
            let found = f16::nearest(value).unwrap();
            assert_eq!(found.to_bits(), nearest_f16(value).to_bits(), "{value}");
        }
        assert_eq!(f16::nearest(65_520.0), None);
        assert_eq!(f16::nearest(-1e300), None);
        assert!(f16::nearest(1e-300).is_some_and(|half| half.to_bits() == 0));
    }

    #[test]
    fn integers_are_rounded_to_even_within_their_range() {
        let rounded = |value| u8::nearest(value);
        assert_eq!((rounded(0.5), rounded(1.5), rounded(254.6)), (Some(0), Some(2), Some(255)));
        assert_eq!((rounded(255.5), rounded(-0.6), rounded(-0.5)), (None, None, Some(0)));
        assert_eq!(i32::nearest(2_147_483_647.4), Some(i32::MAX));
        assert_eq!(i32::nearest(2_147_483_647.5), None);
        assert_eq!(i8::nearest(-128.5), Some(-128));
    }

    #[test]
    fn what_is_not_exact_is_found_where_it_stands() {
        let exact = |values: &ArrayRef, to| converted(values, to, Rounding::Exact);
        let mut values = vec![1.0_f32; 3 * CHUNK];
        assert!(exact(&bits::<Float32Type>(values.clone()), ComponentType::U8).is_ok());
        for (value, to) in [
            (0.1, ComponentType::F16),
            (-0.0, ComponentType::I32),
            (0.5, ComponentType::I8),
            (256.0, ComponentType::U8),
            (f32::MIN_POSITIVE / 4.0, ComponentType::F16),
        ] {
            values[CHUNK + 7] = value;
            let misfit = exact(&bits::<Float32Type>(values.clone()), to).unwrap_err();
            assert_eq!(misfit, Misfit { at: CHUNK + 7, value: f64::from(value) }, "{to}");
        }
        let integers = bits::<Int32Type>(vec![i32::MIN, 1 << 24, i32::MAX]);
        assert_eq!(exact(&integers, ComponentType::F32).unwrap_err().at, 2);
        assert!(exact(&integers, ComponentType::F64).is_ok());
    }

    #[test]
    fn values_that_are_not_finite_are_found_in_every_type() {
        let half = |value| f16::from_f32(value);
        let values: [ArrayRef; 3] = [
            bits::<Float16Type>(vec![half(1.0), half(f32::NAN), half(f32::INFINITY)]),
            bits::<Float32Type>(vec![1.0, f32::NEG_INFINITY, f32::NAN]),
            bits::<Float64Type>(vec![1.0, f64::NAN, 2.0]),
        ];
        for values in values {
            assert_eq!(first_not_finite(&values), Some(1));
            assert_eq!(first_not_finite(&values.slice(0, 1)), None);
        }
        assert_eq!(first_not_finite(&bits::<Int8Type>(vec![1, -1])), None);
    }

    proptest! {
        #[test]
        fn every_value_comes_back_through_a_wider_type(integers: Vec<i32>, halves: Vec<u16>) {
            let halves: Vec<f16> = halves.into_iter().map(f16::from_bits).filter(|half| half.is_finite()).collect();
            let pairs = [
                (bits::<Int32Type>(integers), ComponentType::F64),
                (bits::<Float16Type>(halves.clone()), ComponentType::F32),
                (bits::<Float16Type>(halves), ComponentType::F64),
            ];
            for (values, through) in pairs {
                let own = ComponentType::of(values.data_type()).unwrap();
                let wide = converted(&values, through, Rounding::Exact).unwrap();
                let back = converted(&wide, own, Rounding::Exact).unwrap();
                prop_assert_eq!(bytes_of(&back), bytes_of(&values));
            }
        }

        #[test]
        fn halves_are_the_nearest_ones(value in -70_000.0..70_000.0_f64, scale in -20..1_i32) {
            let value = value * f64::from(scale).exp2();
            match f16::nearest(value) {
                Some(found) => prop_assert_eq!(found.to_bits(), nearest_f16(value).to_bits()),
                None => prop_assert!(value.abs() >= 65_520.0),
            }
        }
    }
}
