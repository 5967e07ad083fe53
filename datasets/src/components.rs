//! [`ComponentType`] and [`Components`]: how the components of vectors are stored, and their values.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int32Type, Int64Type,
    UInt8Type,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::DataType;
use half::f16;

use crate::error::VectorFault;

/// What the components of a vector are stored as.
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

    /// Returns the type's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::I32 => "i32",
            Self::I64 => "i64",
        }
    }

    /// Returns the type of a name, among those that are written.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|component| component.name() == name)
    }

    /// Returns the bytes of one value.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// Returns the type of the components in memory.
    pub(crate) const fn data_type(self) -> DataType {
        match self {
            Self::F16 => DataType::Float16,
            Self::Bf16 | Self::F32 => DataType::Float32,
            Self::F64 => DataType::Float64,
            Self::I8 => DataType::Int8,
            Self::U8 => DataType::UInt8,
            Self::I32 => DataType::Int32,
            Self::I64 => DataType::Int64,
        }
    }

    /// Returns the type of components that a column stores as `data_type`.
    pub(crate) const fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Float16 => Self::F16,
            DataType::Float32 => Self::F32,
            DataType::Float64 => Self::F64,
            DataType::UInt8 => Self::U8,
            DataType::Int8 => Self::I8,
            DataType::Int32 => Self::I32,
            DataType::Int64 => Self::I64,
            _ => return None,
        })
    }

    /// Names the type as numpy does.
    pub(crate) const fn npy_descr(self) -> &'static str {
        match self {
            Self::F16 => "<f2",
            Self::Bf16 | Self::F32 => "<f4",
            Self::F64 => "<f8",
            Self::U8 => "|u1",
            Self::I8 => "|i1",
            Self::I32 => "<i4",
            Self::I64 => "<i8",
        }
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

/// How values become those of another type.
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

    /// Tells whether an integer changes when it becomes an f32.
    fn is_inexact(self) -> bool {
        false
    }

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

    fn to_f32(self) -> f32 {
        self
    }

    fn nearest(value: f64) -> Option<Self> {
        Some(value as Self).filter(|value| value.is_finite())
    }
}

impl Component for f16 {
    fn wide(self) -> f64 {
        self.to_f64()
    }

    fn to_f32(self) -> f32 {
        Self::to_f32(self)
    }

    fn nearest(value: f64) -> Option<Self> {
        Some(Self::from_f32(odd_f32(value))).filter(|value| value.is_finite())
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

            fn is_inexact(self) -> bool {
                i128::from(self) != (self as f32) as i128
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

/// The components of a column of vectors.
#[derive(Debug, Clone)]
pub(crate) enum Components {
    F16(ScalarBuffer<f16>),
    F32(ScalarBuffer<f32>),
    F64(ScalarBuffer<f64>),
    I8(ScalarBuffer<i8>),
    U8(ScalarBuffer<u8>),
    I32(ScalarBuffer<i32>),
    I64(ScalarBuffer<i64>),
}

/// Evaluates an expression with the values of whatever type they are.
macro_rules! with_values {
    ($components:expr, $values:ident => $result:expr) => {
        match $components {
            Components::F16($values) => $result,
            Components::F32($values) => $result,
            Components::F64($values) => $result,
            Components::I8($values) => $result,
            Components::U8($values) => $result,
            Components::I32($values) => $result,
            Components::I64($values) => $result,
        }
    };
}

impl Components {
    /// Takes the components of `values`; `None` when they are of another type.
    pub(crate) fn of(values: &ArrayRef) -> Option<Self> {
        Some(match values.data_type() {
            DataType::Float16 => Self::F16(values.as_primitive::<Float16Type>().values().clone()),
            DataType::Float32 => Self::F32(values.as_primitive::<Float32Type>().values().clone()),
            DataType::Float64 => Self::F64(values.as_primitive::<Float64Type>().values().clone()),
            DataType::Int8 => Self::I8(values.as_primitive::<Int8Type>().values().clone()),
            DataType::UInt8 => Self::U8(values.as_primitive::<UInt8Type>().values().clone()),
            DataType::Int32 => Self::I32(values.as_primitive::<Int32Type>().values().clone()),
            DataType::Int64 => Self::I64(values.as_primitive::<Int64Type>().values().clone()),
            _ => return None,
        })
    }

    pub(crate) fn len(&self) -> usize {
        with_values!(self, values => values.len())
    }

    /// Returns the components in `range`.
    pub(crate) fn slice(&self, range: Range<usize>) -> Self {
        let (start, count) = (range.start, range.len());
        match self {
            Self::F16(values) => Self::F16(values.slice(start, count)),
            Self::F32(values) => Self::F32(values.slice(start, count)),
            Self::F64(values) => Self::F64(values.slice(start, count)),
            Self::I8(values) => Self::I8(values.slice(start, count)),
            Self::U8(values) => Self::U8(values.slice(start, count)),
            Self::I32(values) => Self::I32(values.slice(start, count)),
            Self::I64(values) => Self::I64(values.slice(start, count)),
        }
    }

    /// Returns the bytes of the components.
    pub(crate) fn bytes(&self) -> &[u8] {
        with_values!(self, values => values.inner().as_slice())
    }

    /// Returns the components as an array without nulls.
    pub(crate) fn to_array(&self) -> ArrayRef {
        let (component, bytes) = match self {
            Self::F16(values) => (ComponentType::F16, values.inner()),
            Self::F32(values) => (ComponentType::F32, values.inner()),
            Self::F64(values) => (ComponentType::F64, values.inner()),
            Self::I8(values) => (ComponentType::I8, values.inner()),
            Self::U8(values) => (ComponentType::U8, values.inner()),
            Self::I32(values) => (ComponentType::I32, values.inner()),
            Self::I64(values) => (ComponentType::I64, values.inner()),
        };
        component.array_of(bytes.clone())
    }

    /// Returns the components where they are f32 already.
    pub(crate) fn as_f32(&self) -> Option<&[f32]> {
        match self {
            Self::F32(values) => Some(values),
            _ => None,
        }
    }

    /// Appends the components in `range`, rounded to f32 where they are longer.
    pub(crate) fn append(&self, range: Range<usize>, to: &mut Vec<f32>) {
        match self {
            Self::F32(values) => to.extend_from_slice(&values[range]),
            other => {
                with_values!(other, values => to.extend(values[range].iter().map(|&x| x.to_f32())));
            }
        }
    }

    /// Tells whether all components in `range` are finite as f32, and whether any is not zero.
    pub(crate) fn finite_and_any(&self, range: Range<usize>) -> (bool, bool) {
        with_values!(self, values => finite_and_any(&values[range]))
    }

    /// Returns what is wrong with the first component in `range` that is not finite, or not as an f32
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

    /// Returns what is wrong with the first integer in `range` that f32 does not hold exactly.
    pub(crate) fn inexact(&self, range: Range<usize>) -> Option<VectorFault> {
        let start = range.start;
        let component = with_values!(self, values => {
            values[range].iter().position(|value| value.is_inexact())
        })?;
        let value = with_values!(self, values => values[start + component].wide());
        Some(VectorFault::Inexact { component, value, expected: ComponentType::F32.name() })
    }

    /// Returns the components as values of another type.
    ///
    /// # Errors
    /// The position of the first value that does not become one, with what is wrong with it.
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
            ComponentType::F16 => self.narrowed(rounding).map(|v| Self::F16(v.into())),
            ComponentType::F64 => self.narrowed(rounding).map(|v| Self::F64(v.into())),
            ComponentType::U8 => self.narrowed(rounding).map(|v| Self::U8(v.into())),
            ComponentType::I8 => self.narrowed(rounding).map(|v| Self::I8(v.into())),
            ComponentType::I32 => self.narrowed(rounding).map(|v| Self::I32(v.into())),
            ComponentType::I64 => self.narrowed(rounding).map(|v| Self::I64(v.into())),
            ComponentType::F32 | ComponentType::Bf16 => {
                self.narrowed(rounding).map(|v| Self::F32(v.into()))
            }
        };
        narrowed.map_err(fault)
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

/// One pass without a branch, so that it runs at memory speed.
fn finite_and_any<T: Component>(values: &[T]) -> (bool, bool) {
    values.iter().fold((true, false), |(finite, any), value| {
        let value = value.to_f32();
        (finite & value.is_finite(), any | (value != 0.0))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
            assert!(Components::F32(values.clone().into()).converted(to, Rounding::Exact).is_ok());
            values[7] = value;
            let found = Components::F32(values.into()).converted(to, Rounding::Exact).unwrap_err();
            let (component, value, expected) = (0, f64::from(value), to.name());
            assert_eq!(found, (7, VectorFault::Inexact { component, value, expected }));
        }
    }

    #[test]
    fn integers_that_f32_does_not_hold_are_found() {
        let found = Components::I64(vec![1, (1 << 24) + 1].into()).inexact(0..2);
        let (component, expected) = (1, "f32");
        assert_eq!(found, Some(VectorFault::Inexact { component, value: 16_777_217.0, expected }));
        assert_eq!(Components::I32(vec![1 << 24, i32::MIN].into()).inexact(0..2), None);
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
            through(Components::I32(integers.into()), ComponentType::F64, ComponentType::I32);
            through(Components::F16(halves.clone().into()), ComponentType::F32, ComponentType::F16);
            through(Components::F16(halves.into()), ComponentType::F64, ComponentType::F16);
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
