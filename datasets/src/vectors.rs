//! How vectors are stored: [`ComponentType`], [`Components`], and [`VectorCells`], a column of
//! vectors of any type.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int32Type, Int64Type,
    UInt8Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;
use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::error::VectorFault;

/// The stored type of a vector's components.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ComponentType {
    /// 16-bit floats.
    F16,
    /// The upper halves of f32, which they become in memory.
    Bf16,
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
    /// 64-bit integers with a sign.
    I64,
}

impl ComponentType {
    /// The types that are written.
    pub const ALL: [Self; 6] = [Self::F16, Self::F32, Self::F64, Self::U8, Self::I8, Self::I32];

    /// Every type, with its name and how it is kept in memory.
    const TYPES: [(Self, &'static str, DataType); 8] = [
        (Self::F16, "f16", DataType::Float16),
        (Self::Bf16, "bf16", DataType::Float32),
        (Self::F32, "f32", DataType::Float32),
        (Self::F64, "f64", DataType::Float64),
        (Self::I8, "i8", DataType::Int8),
        (Self::U8, "u8", DataType::UInt8),
        (Self::I32, "i32", DataType::Int32),
        (Self::I64, "i64", DataType::Int64),
    ];

    /// Returns every type that is read.
    pub(crate) fn every() -> impl Iterator<Item = Self> {
        Self::TYPES.into_iter().map(|(component, ..)| component)
    }

    fn entry(self) -> (Self, &'static str, DataType) {
        let found = Self::TYPES.into_iter().find(|(component, ..)| *component == self);
        found.expect("every type is in the table")
    }

    /// Returns the type's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.entry().1
    }

    /// Returns the type of a name, among the types that are written.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|component| component.name() == name)
    }

    /// Returns the bytes of one value.
    #[must_use]
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// Returns the type of the components in memory.
    pub(crate) fn data_type(self) -> DataType {
        self.entry().2
    }

    /// Returns the type of components that a column stores as `data_type`.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        let found = |(component, _, own): &(Self, _, DataType)| {
            own == data_type && *component != Self::Bf16
        };
        Self::TYPES.into_iter().find(found).map(|(component, ..)| component)
    }

    /// Names the type as numpy does, without the byte order: its kind and its bytes.
    pub(crate) fn npy_name(self) -> String {
        format!("{}{}", &self.name()[..1], self.bytes())
    }

    /// Returns little-endian values, in memory that is aligned for them, as an array.
    pub(crate) fn array_of(self, bytes: Buffer) -> ArrayRef {
        fn all<T: ArrowPrimitiveType>(bytes: Buffer) -> ArrayRef {
            Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(bytes), None))
        }
        match self {
            Self::F16 => all::<Float16Type>(bytes),
            Self::Bf16 => {
                let values = bytes.as_chunks().0.iter();
                let wide = values.map(|chunk| half::bf16::from_le_bytes(*chunk).to_f32());
                all::<Float32Type>(Buffer::from_vec(wide.collect::<Vec<f32>>()))
            }
            Self::F32 => all::<Float32Type>(bytes),
            Self::F64 => all::<Float64Type>(bytes),
            Self::I8 => all::<Int8Type>(bytes),
            Self::U8 => all::<UInt8Type>(bytes),
            Self::I32 => all::<Int32Type>(bytes),
            Self::I64 => all::<Int64Type>(bytes),
        }
    }
}

impl fmt::Display for ComponentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How values are converted to another type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Only where they stay the same, with their sign.
    Exact,
    /// To the nearest one, to even between two.
    Nearest,
}

/// A component of any type. Every one of them but large i64 is an f64 too.
pub(crate) trait Component: Copy {
    fn wide(self) -> f64;

    fn to_f32(self) -> f32 {
        self.wide() as f32
    }

    /// Returns the nearest value; `None` where `value` is out of range.
    fn nearest(value: f64) -> Option<Self>;

    /// Appends the values as f32.
    fn append(values: &[Self], to: &mut Vec<f32>) {
        to.extend(values.iter().map(|value| value.to_f32()));
    }

    /// Tells whether all values are finite as f32, and whether any is not zero: one pass without a
    /// branch, so that it runs at memory speed.
    fn finite_and_any(values: &[Self]) -> (bool, bool) {
        values.iter().fold((true, false), |(finite, any), value| {
            let value = value.to_f32();
            (finite & value.is_finite(), any | (value != 0.0))
        })
    }
}

macro_rules! float_components {
    ($($float:ty, $to_f32:expr, $nearest:expr;)*) => {$(
        impl Component for $float {
            fn wide(self) -> f64 {
                self.into()
            }

            fn to_f32(self) -> f32 {
                let to_f32: fn(Self) -> f32 = $to_f32;
                to_f32(self)
            }

            fn nearest(value: f64) -> Option<Self> {
                let nearest: fn(f64) -> Self = $nearest;
                Some(nearest(value)).filter(|value| value.is_finite())
            }
        }
    )*};
}

float_components! {
    f64, |value| value as f32, |value| value;
    f32, |value| value, |value| value as f32;
}

// Slices at once: each single conversion would look up the features of the processor.
impl Component for f16 {
    fn wide(self) -> f64 {
        self.into()
    }

    fn nearest(value: f64) -> Option<Self> {
        Some(Self::from_f32(odd_f32(value))).filter(|value| value.is_finite())
    }

    fn append(values: &[Self], to: &mut Vec<f32>) {
        let start = to.len();
        to.resize(start + values.len(), 0.0);
        values.convert_to_f32_slice(&mut to[start..]);
    }

    fn finite_and_any(values: &[Self]) -> (bool, bool) {
        values.iter().fold((true, false), |(finite, any), value| {
            (finite & value.is_finite(), any | (value.to_bits() << 1 != 0))
        })
    }
}

macro_rules! integer_components {
    ($($integer:ty),*) => {$(
        impl Component for $integer {
            fn wide(self) -> f64 {
                self as f64
            }

            fn to_f32(self) -> f32 {
                self as f32
            }

            fn nearest(value: f64) -> Option<Self> {
                let nearest = value.round_ties_even();
                let range = Self::MIN as f64..=Self::MAX as f64;
                range.contains(&nearest).then_some(nearest as Self)
            }
        }
    )*};
}

integer_components!(u8, i8, i32, i64);

/// Rounds towards zero, and makes the last bit odd where that is not exact: further rounding of the
/// result equals rounding of `value`.
fn odd_f32(value: f64) -> f32 {
    let near = value as f32;
    let wide = f64::from(near);
    if wide.to_bits() == value.to_bits() {
        return near;
    }
    let below = if wide.abs() > value.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(below | 1)
}

/// The components of a column of vectors, of a [`ComponentType`].
#[derive(Debug, Clone)]
pub(crate) struct Components(ArrayRef);

/// Evaluates an expression with the values of any type.
macro_rules! with_values {
    ($components:expr, $values:ident => $result:expr) => {
        with_values!($components, $values => $result;
            Float16 Float16Type, Float32 Float32Type, Float64 Float64Type, Int8 Int8Type,
            UInt8 UInt8Type, Int32 Int32Type, Int64 Int64Type)
    };
    ($components:expr, $values:ident => $result:expr; $($name:ident $type:ty),*) => {
        match $components.0.data_type() {
            $(DataType::$name => {
                let $values = $components.0.as_primitive::<$type>().values();
                $result
            })*
            other => unreachable!("{other} was refused when the components were taken"),
        }
    };
}

impl Components {
    /// Takes the components of `values`; `None` when they are of another type.
    pub(crate) fn of(values: &ArrayRef) -> Option<Self> {
        ComponentType::of(values.data_type()).map(|_| Self(Arc::clone(values)))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the components in `range`.
    pub(crate) fn slice(&self, range: Range<usize>) -> Self {
        Self(self.0.slice(range.start, range.len()))
    }

    /// Returns the bytes of the components.
    pub(crate) fn bytes(&self) -> &[u8] {
        with_values!(self, values => values.inner().as_slice())
    }

    /// Returns the components as an array without nulls.
    pub(crate) fn to_array(&self) -> ArrayRef {
        let component = ComponentType::of(self.0.data_type()).expect("checked when it was taken");
        component.array_of(with_values!(self, values => values.inner().clone()))
    }

    /// Returns the components where they are f32 already.
    pub(crate) fn as_f32(&self) -> Option<&[f32]> {
        self.0.as_primitive_opt::<Float32Type>().map(|values| &values.values()[..])
    }

    /// Appends the components in `range`, rounded to f32 where they are longer.
    pub(crate) fn append(&self, range: Range<usize>, to: &mut Vec<f32>) {
        with_values!(self, values => Component::append(&values[range], to));
    }

    /// Tells whether all components in `range` are finite as f32, and whether any is not zero.
    pub(crate) fn finite_and_any(&self, range: Range<usize>) -> (bool, bool) {
        with_values!(self, values => Component::finite_and_any(&values[range]))
    }

    /// Returns the defect of the first component in `range` that is not finite, or not as an f32
    /// where `is_f32`.
    pub(crate) fn not_finite(&self, range: Range<usize>, is_f32: bool) -> Option<VectorFault> {
        let wide = |at: usize| with_values!(self, values => values[at].wide());
        let is_bad = |value: f64| match is_f32 {
            true => !(value as f32).is_finite(),
            false => !value.is_finite(),
        };
        let component = range.clone().position(|at| is_bad(wide(at)))?;
        let value = wide(range.start + component);
        let value = if is_f32 { f64::from(value as f32) } else { value };
        Some(VectorFault::NotFinite { component, value })
    }

    /// Returns the components as values of another type.
    ///
    /// # Errors
    /// The position of the first value that cannot be converted, with its defect.
    pub(crate) fn converted(
        &self,
        to: ComponentType,
        rounding: Rounding,
    ) -> Result<Self, (usize, VectorFault)> {
        let fault = |(at, value)| {
            let (component, expected) = (0, to.name());
            match rounding {
                Rounding::Exact => (at, VectorFault::Inexact { component, value, expected }),
                Rounding::Nearest => (at, VectorFault::OutOfRange { component, value, expected }),
            }
        };
        let narrowed = match to {
            ComponentType::F16 => self.narrowed::<f16>(rounding).map(Buffer::from_vec),
            ComponentType::F64 => self.narrowed::<f64>(rounding).map(Buffer::from_vec),
            ComponentType::U8 => self.narrowed::<u8>(rounding).map(Buffer::from_vec),
            ComponentType::I8 => self.narrowed::<i8>(rounding).map(Buffer::from_vec),
            ComponentType::I32 => self.narrowed::<i32>(rounding).map(Buffer::from_vec),
            ComponentType::I64 => self.narrowed::<i64>(rounding).map(Buffer::from_vec),
            ComponentType::F32 | ComponentType::Bf16 => {
                self.narrowed::<f32>(rounding).map(Buffer::from_vec)
            }
        };
        let in_memory = ComponentType::of(&to.data_type()).unwrap_or(to);
        narrowed.map(|bytes| Self(in_memory.array_of(bytes))).map_err(fault)
    }

    fn narrowed<T: Component>(&self, rounding: Rounding) -> Result<Vec<T>, (usize, f64)> {
        let narrow = |at: usize, value: f64| {
            let narrow = T::nearest(value);
            let is_same = |narrow: &T| narrow.wide().to_bits() == value.to_bits();
            let fitting = narrow.filter(|narrow| rounding == Rounding::Nearest || is_same(narrow));
            fitting.ok_or((at, value))
        };
        with_values!(self, values => {
            values.iter().enumerate().map(|(at, value)| narrow(at, value.wide())).collect()
        })
    }
}

/// The allowed types of a column of vectors.
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

    /// Returns the defect of the vector at `i`: its components must be finite, as f32 where
    /// `is_f32`.
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

#[cfg(test)]
mod tests {
    use arrow_array::{Float16Array, Float32Array, Int32Array};
    use proptest::prelude::*;

    use super::*;

    fn components<A: Array + 'static>(values: A) -> Components {
        Components::of(&(Arc::new(values) as ArrayRef)).unwrap()
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
    }

    #[test]
    fn first_value_that_changes_is_named() {
        for (value, to) in [
            (0.1, ComponentType::F16),
            (-0.0, ComponentType::I32),
            (0.5, ComponentType::I8),
            (256.0, ComponentType::U8),
            (f32::MIN_POSITIVE / 4.0, ComponentType::F16),
        ] {
            let mut values = vec![1.0_f32; 100];
            assert!(
                components(Float32Array::from(values.clone()))
                    .converted(to, Rounding::Exact)
                    .is_ok()
            );
            values[7] = value;
            let found =
                components(Float32Array::from(values)).converted(to, Rounding::Exact).unwrap_err();
            let (component, value, expected) = (0, f64::from(value), to.name());
            assert_eq!(found, (7, VectorFault::Inexact { component, value, expected }));
        }
    }

    #[test]
    fn slices_of_halves_are_read_as_their_values_are() {
        let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        let values = components(Float16Array::from(halves.clone()));
        let mut wide = Vec::new();
        values.append(3..halves.len(), &mut wide);
        for (value, half) in wide.iter().zip(&halves[3..]) {
            assert!(
                value.to_bits() == f32::from(*half).to_bits() || value.is_nan() && half.is_nan()
            );
        }
        for (at, half) in halves.iter().enumerate() {
            let found = values.finite_and_any(at..at + 1);
            assert_eq!(found, (half.is_finite(), half.to_f64() != 0.0), "{half}");
        }
        assert_eq!(values.finite_and_any(0..0x7C01), (false, true));
    }

    proptest! {
        #[test]
        fn every_value_comes_back_through_a_wider_type(integers: Vec<i32>, halves: Vec<u16>) {
            let halves = halves.into_iter().map(f16::from_bits).filter(|half| half.is_finite());
            let halves: Vec<f16> = halves.collect();
            let through = |values: Components, wide, own| {
                let wide = values.converted(wide, Rounding::Exact).unwrap();
                assert_eq!(wide.converted(own, Rounding::Exact).unwrap().bytes(), values.bytes());
            };
            through(components(Int32Array::from(integers)), ComponentType::F64, ComponentType::I32);
            through(components(Float16Array::from(halves.clone())), ComponentType::F32, ComponentType::F16);
            through(components(Float16Array::from(halves)), ComponentType::F64, ComponentType::F16);
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
