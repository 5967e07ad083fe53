//! Files to convert.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int32Type, UInt8Type,
};
use arrow_array::{ArrayRef, FixedSizeListArray, PrimitiveArray, RecordBatch};
use arrow_schema::Field;
use half::f16;
use memfold_index::NoProgress;

use crate::DataError;
use crate::read::support::{self, Form};
use crate::write::convert::{ComponentType, ConvertOptions, Converted, VectorFormat, convert};

/// Components of the vectors here.
pub(super) const DIM: usize = 3;

fn array<T: ArrowPrimitiveType>(values: Vec<T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), None))
}

/// Four vectors of the values of each type that are most easily lost.
pub(super) fn edges(component: ComponentType) -> ArrayRef {
    let half = f16::from_bits;
    match component {
        ComponentType::F16 => {
            let bits = [0x8000, 0x0001, 0x83FF, 0x7BFF, 0xFBFF, 0x3C01, 0, 0x3555, 1, 2, 3, 0xB800];
            array::<Float16Type>(bits.map(half).to_vec())
        }
        ComponentType::F32 => {
            let subnormal = f32::from_bits(1);
            let near = [0.1, 1.0 / 3.0, f32::EPSILON, 16_777_217.0, 1.000_000_1];
            let edges = [-0.0, subnormal, -subnormal, f32::MAX, f32::MIN, f32::MIN_POSITIVE, 0.0];
            array::<Float32Type>([&edges[..], &near].concat())
        }
        ComponentType::F64 => {
            let subnormal = f64::from_bits(1);
            let near = [0.1, 1.0 / 3.0, f64::EPSILON, 9_007_199_254_740_993.0, 1e-310];
            let edges = [-0.0, subnormal, -subnormal, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 0.0];
            array::<Float64Type>([&edges[..], &near].concat())
        }
        ComponentType::U8 => array::<UInt8Type>(vec![0, 255, 1, 127, 128, 2, 3, 4, 5, 6, 7, 8]),
        ComponentType::I8 => array::<Int8Type>(vec![0, -128, 127, -1, 1, 2, 3, 4, 5, 6, 7, 8]),
        ComponentType::I32 => {
            let wide = [i32::MIN, i32::MAX, -1, 0, 16_777_217, 5, 6, 7, 8, 9, 10, 11];
            array::<Int32Type>(wide.to_vec())
        }
        other => unreachable!("{other} is not written"),
    }
}

/// Puts components together as vectors.
pub(super) fn vectors(components: ArrayRef, dim: usize) -> ArrayRef {
    let item = Arc::new(Field::new("item", components.data_type().clone(), true));
    Arc::new(FixedSizeListArray::new(item, dim as i32, components, None))
}

/// Writes an Arrow file with one column.
pub(super) fn one_column(folder: &Path, name: &str, column: ArrayRef) -> PathBuf {
    let path = folder.join("in.arrow");
    support::write_as(&path, Form::Arrow, &[support::batch(&[(name, column)])]);
    path
}

/// Writes an Arrow file of vectors of random bits, but finite ones.
pub(super) fn many(folder: &Path, rows: usize, dim: usize) -> PathBuf {
    let mut state = 1_u32;
    let mut values = Vec::with_capacity(rows * dim);
    while values.len() < rows * dim {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        values.push(Some(f32::from_bits(state)).filter(|value| value.is_finite()).unwrap_or(-0.0));
    }
    one_column(folder, "vector", vectors(array::<Float32Type>(values), dim))
}

pub(super) fn options<'a>() -> ConvertOptions<'a> {
    ConvertOptions {
        format: None,
        component: None,
        column: None,
        member: None,
        progress: &NoProgress,
    }
}

pub(super) fn converted(input: &Path, output: &Path) -> Converted {
    convert(input, output, &options()).unwrap()
}

/// Converts what cannot be, and returns the error; nothing is left behind.
#[track_caller]
pub(super) fn refused(input: &Path, name: &str, options: &ConvertOptions<'_>) -> DataError {
    let folder = input.parent().unwrap();
    let files = || {
        let mut names: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = files();
    let error = convert(input, &folder.join(name), options).unwrap_err();
    assert_eq!(files(), before);
    error
}

/// The error without the folder in it.
#[track_caller]
pub(super) fn said(input: &Path, name: &str, options: &ConvertOptions<'_>) -> String {
    let folder = format!("{}/", input.parent().unwrap().display());
    refused(input, name, options).to_string().replace(&folder, "")
}

/// Every format and type that it holds.
pub(super) fn formats_and_types() -> impl Iterator<Item = (VectorFormat, ComponentType)> {
    let all = VectorFormat::WRITTEN.into_iter();
    all.flat_map(|format| ComponentType::ALL.map(|component| (format, component)))
        .filter(|(format, component)| format.only_type().is_none_or(|only| only == *component))
}

/// Returns every value of a column as text, whatever its batches.
pub(super) fn shown(batches: &[RecordBatch], column: &str) -> Vec<String> {
    let values = batches.iter().map(|batch| batch.column_by_name(column).unwrap());
    values
        .flat_map(|values| (0..values.len()).map(|i| format!("{:?}", values.slice(i, 1))))
        .collect()
}
