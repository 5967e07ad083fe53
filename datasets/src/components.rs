//! [`ElementType`] and [`Components`]: how the components of vectors are stored, and their values.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int32Type, Int64Type, UInt8Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ScalarBuffer;
use arrow_schema::DataType;
use half::f16;

/// How a component is stored in a file, always little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElementType {
    F16,
    /// The upper half of an f32, which it becomes in memory.
    Bf16,
    F32,
    F64,
    I8,
    U8,
    I32,
    I64,
}

impl ElementType {
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
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
}

/// A component of any type, as f32.
trait ToF32: Copy {
    fn to_f32(self) -> f32;

    /// Tells whether [`to_f32`](Self::to_f32) changes the value of an integer.
    fn is_inexact(self) -> bool {
        false
    }
}

macro_rules! as_f32 {
    ($($type:ty: $convert:expr, $inexact:expr;)*) => {$(
        impl ToF32 for $type {
            fn to_f32(self) -> f32 {
                $convert(self)
            }

            fn is_inexact(self) -> bool {
                $inexact(self)
            }
        }
    )*};
}

as_f32! {
    f16: f16::to_f32, |_| false;
    f32: |value| value, |_| false;
    f64: |value| value as f32, |_| false;
    i8: f32::from, |_| false;
    u8: f32::from, |_| false;
    i32: |value| value as f32, |value: i32| i64::from(value) != (value as f32) as i64;
    i64: |value| value as f32, |value: i64| i128::from(value) != (value as f32) as i128;
}

/// The components of a column of vectors.
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
    /// Tells whether components of `data_type` are read.
    pub(crate) const fn accept(data_type: &DataType) -> bool {
        matches!(
            data_type,
            DataType::Float16
                | DataType::Float32
                | DataType::Float64
                | DataType::Int8
                | DataType::UInt8
                | DataType::Int32
                | DataType::Int64
        )
    }

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

    /// Returns the first integer in `range` that f32 does not hold exactly, and where it stands.
    pub(crate) fn first_inexact(&self, range: Range<usize>) -> Option<(usize, i64)> {
        let start = range.start;
        let at = with_values!(self, values => {
            values[range].iter().position(|value| value.is_inexact()).map(|at| start + at)
        })?;
        match self {
            Self::I32(values) => Some((at, i64::from(values[at]))),
            Self::I64(values) => Some((at, values[at])),
            _ => None,
        }
    }
}

/// One pass without a branch, so that it runs at memory speed.
fn finite_and_any<T: ToF32>(values: &[T]) -> (bool, bool) {
    values.iter().fold((true, false), |(finite, any), value| {
        let value = value.to_f32();
        (finite & value.is_finite(), any | (value != 0.0))
    })
}
