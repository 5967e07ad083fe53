//! [`Cells`]: a column's values in the few forms that ids, order and texts need.

use std::fmt::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float16Type, Float32Type, Float64Type};
use arrow_array::{
    Array, ArrayRef, PrimitiveArray, downcast_integer_array, downcast_temporal_array,
};
use arrow_schema::{DataType, TimeUnit};

const NANOS_OF_DAY: i128 = 86_400_000_000_000;

/// The kind of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellKind {
    Text,
    Integer,
    Float,
    Time,
    Binary,
}

impl CellKind {
    /// Returns the kind of values of `data_type`; `None` for types that are not read here.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Dictionary(_, values) => {
                return Self::of(values).filter(|kind| *kind == Self::Text);
            }
            DataType::Boolean => Self::Integer,
            integer if integer.is_integer() => Self::Integer,
            float if float.is_floating() => Self::Float,
            DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => Self::Time,
            DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => Self::Binary,
            _ => return None,
        })
    }

    /// Names the values in an error.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Text => "texts",
            Self::Integer => "integers",
            Self::Float => "floats",
            Self::Time => "times",
            Self::Binary => "bytes",
        }
    }
}

/// A column's values; nulls are `None`.
pub(crate) enum Cells {
    Text(Texts),
    Integer(Vec<Option<i128>>),
    Float(Vec<Option<f64>>),
    /// Nanoseconds since 1970 in UTC; times without a zone are taken for UTC.
    Time(Vec<Option<i128>>),
    Binary(ArrayRef),
}

impl Cells {
    /// Reads the values of `array`; `None` when it is none of the kinds.
    pub(crate) fn of(array: &ArrayRef) -> Option<Self> {
        Some(match CellKind::of(array.data_type())? {
            CellKind::Text => Self::Text(Texts::of(array)?),
            CellKind::Integer => Self::Integer(integers_of(array)?),
            CellKind::Float => Self::Float(floats_of(array)?),
            CellKind::Time => Self::Time(times_of(array)?),
            CellKind::Binary => Self::Binary(ArrayRef::clone(array)),
        })
    }

    /// Writes the value at `i` as text; returns false where it is null.
    pub(crate) fn write(&self, i: usize, out: &mut impl Write) -> bool {
        let written = match self {
            Self::Text(texts) => texts.get(i).map(|text| out.write_str(text)),
            Self::Integer(values) | Self::Time(values) => {
                values[i].map(|value| write!(out, "{value}"))
            }
            Self::Float(values) => values[i].map(|value| write!(out, "{value}")),
            Self::Binary(array) => bytes_at(array, i)
                .map(|bytes| bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))),
        };
        written.is_some()
    }
}

/// A column of text.
pub(crate) struct Texts {
    values: ArrayRef,
    /// Positions in `values`, where the column is a dictionary.
    keys: Option<(Vec<usize>, ArrayRef)>,
}

impl Texts {
    /// Tells whether values of `data_type` are texts.
    pub(crate) fn accept(data_type: &DataType) -> bool {
        CellKind::of(data_type) == Some(CellKind::Text)
    }

    /// Reads the texts of `array`; `None` when it holds none.
    pub(crate) fn of(array: &ArrayRef) -> Option<Self> {
        if !Self::accept(array.data_type()) {
            return None;
        }
        let Some(dictionary) = array.as_any_dictionary_opt() else {
            return Some(Self { values: ArrayRef::clone(array), keys: None });
        };
        // Without values there is nothing to normalise keys by: all rows are null.
        let values = ArrayRef::clone(dictionary.values());
        let keys = if values.is_empty() { Vec::new() } else { dictionary.normalized_keys() };
        Some(Self { values, keys: Some((keys, ArrayRef::clone(array))) })
    }

    /// Returns the text at `i`; `None` where it is null.
    pub(crate) fn get(&self, i: usize) -> Option<&str> {
        let at = match &self.keys {
            None => i,
            Some((_, array)) if array.is_null(i) => return None,
            Some((keys, _)) => *keys.get(i)?,
        };
        if self.values.is_null(at) {
            return None;
        }
        Some(match self.values.data_type() {
            DataType::Utf8 => self.values.as_string::<i32>().value(at),
            DataType::LargeUtf8 => self.values.as_string::<i64>().value(at),
            _ => self.values.as_string_view().value(at),
        })
    }
}

fn bytes_at(array: &ArrayRef, i: usize) -> Option<&[u8]> {
    if array.is_null(i) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Binary => array.as_binary::<i32>().value(i),
        DataType::LargeBinary => array.as_binary::<i64>().value(i),
        _ => array.as_fixed_size_binary().value(i),
    })
}

fn integers_of(array: &ArrayRef) -> Option<Vec<Option<i128>>> {
    let array = array.as_ref();
    downcast_integer_array!(
        array => Some(scaled(array, 1)),
        DataType::Boolean => {
            Some(array.as_boolean().iter().map(|value| value.map(i128::from)).collect())
        },
        _ => None
    )
}

fn times_of(array: &ArrayRef) -> Option<Vec<Option<i128>>> {
    let scale = match array.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) | DataType::Date64 => 1_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => 1,
        DataType::Date32 => NANOS_OF_DAY,
        _ => return None,
    };
    let array = array.as_ref();
    downcast_temporal_array!(array => Some(scaled(array, scale)), _ => None)
}

fn floats_of(array: &ArrayRef) -> Option<Vec<Option<f64>>> {
    Some(match array.data_type() {
        DataType::Float16 => {
            let values = array.as_primitive::<Float16Type>().iter();
            values.map(|value| value.map(|value| value.to_f64())).collect()
        }
        DataType::Float32 => {
            array.as_primitive::<Float32Type>().iter().map(|value| value.map(f64::from)).collect()
        }
        DataType::Float64 => array.as_primitive::<Float64Type>().iter().collect(),
        _ => return None,
    })
}

/// Widens the values and multiplies them by `scale`; 64 bits times any scale here fit 128.
fn scaled<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, scale: i128) -> Vec<Option<i128>>
where
    T::Native: Into<i128>,
{
    array.iter().map(|value| value.map(|value| value.into() * scale)).collect()
}
