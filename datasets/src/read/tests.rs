use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};

use super::support::{Form, ROWS, batch, fixture, opened, read, write};
use super::*;
use crate::DataError;
use crate::error::EXPECTED_FORMATS;
use crate::npy::{Component, NpyWriter};

mod build;
mod damaged;
#[cfg(feature = "hdf5")]
mod data_sets;
mod formats;
mod json_lines;
mod model;
mod mutated;

/// Files of pyarrow and polars: plain and compressed, in several batches, as a stream.
const ARROW_FILES: [&str; 7] = [
    "arrow/polars_array.arrow",
    "arrow/polars_zstd_list.arrow",
    "arrow/pyarrow_binary.arrow",
    "arrow/pyarrow_lz4.feather",
    "arrow/pyarrow_plain_batches.arrow",
    "arrow/pyarrow_stream.arrow",
    "arrow/pyarrow_zstd_batches.arrow",
];

fn values_of(list: &ArrayRef) -> Vec<f32> {
    let components = match list.data_type() {
        arrow_schema::DataType::FixedSizeList(..) => list.as_fixed_size_list().values(),
        arrow_schema::DataType::LargeList(_) => list.as_list::<i64>().values(),
        _ => list.as_list::<i32>().values(),
    };
    if let Some(values) = components.as_primitive_opt::<Float16Type>() {
        values.values().iter().map(|value| value.to_f32()).collect()
    } else if let Some(values) = components.as_primitive_opt::<Float64Type>() {
        values.values().iter().map(|&value| value as f32).collect()
    } else {
        components.as_primitive::<Float32Type>().values().to_vec()
    }
}

fn three_batches() -> Vec<RecordBatch> {
    let of = |rows: std::ops::Range<i64>| {
        let texts = rows.clone().map(|row| (row % 3 != 1).then(|| format!("text {row}")));
        batch(&[
            ("n", Arc::new(Int64Array::from_iter_values(rows.clone())) as ArrayRef),
            ("t", Arc::new(texts.collect::<StringArray>())),
            (
                "x",
                Arc::new(
                    rows.map(|row| (row != 4).then_some(row as f32)).collect::<Float32Array>(),
                ),
            ),
        ])
    };
    vec![of(0..5), of(5..6), of(6..13)]
}

#[test]
fn every_form_gives_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let expected: Vec<i64> = (0..13).collect();
    for form in Form::ALL {
        let path = write(folder.path(), form, &three_batches());
        let file = opened(&path).unwrap();
        assert_eq!(file.row_count(), 13, "{form:?}");
        let mut found: Vec<i64> = Vec::new();
        for batch in file.batches(&[0, 2], DECODE_ROWS).unwrap() {
            let batch = batch.unwrap();
            assert_eq!(batch.num_columns(), 2);
            let numbers = batch.column(0).as_primitive::<Int64Type>();
            for (i, number) in numbers.values().iter().enumerate() {
                let x = batch.column(1).as_primitive::<Float32Type>();
                let x = x.is_valid(i).then(|| x.value(i));
                assert_eq!(x, (*number != 4).then_some(*number as f32), "{form:?}");
            }
            found.extend(numbers.values());
        }
        assert_eq!(found, expected, "{form:?}");
    }
}

#[test]
fn some_rows_are_found_in_their_batches() {
    let folder = tempfile::tempdir().unwrap();
    let rows = [0, 4, 5, 7, 12];
    for form in Form::ALL {
        let path = write(folder.path(), form, &three_batches());
        let file = opened(&path).unwrap();
        let found: Vec<Option<String>> = file
            .batches_of_rows(1, &rows)
            .unwrap()
            .iter()
            .flat_map(|batch| {
                let texts = Texts::of(batch.column(0)).unwrap();
                (0..batch.num_rows())
                    .map(move |i| texts.get(i).map(str::to_owned))
                    .collect::<Vec<_>>()
            })
            .collect();
        let expected: Vec<Option<String>> =
            rows.iter().map(|row| (row % 3 != 1).then(|| format!("text {row}"))).collect();
        assert_eq!(found, expected, "{form:?}");
    }
}

#[test]
fn files_of_other_programs_are_read() {
    for name in ARROW_FILES.into_iter().filter(|name| !name.contains("binary")) {
        let batches = read(&fixture(name));
        let vectors: Vec<f32> = batches
            .iter()
            .flat_map(|batch| {
                let names = ["vector", "embedding", "emb"];
                values_of(names.iter().find_map(|name| batch.column_by_name(name)).unwrap())[..]
                    .to_vec()
            })
            .collect();
        // Slices of a file with two batches keep their own values.
        assert_eq!(vectors, ROWS, "{name}");
    }
    let plain = opened(&fixture("arrow/pyarrow_plain_batches.arrow")).unwrap();
    assert_eq!(plain.schema().metadata()["made"], "by pyarrow");
}

#[test]
fn npy_rows_are_one_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.npy");
    for component in [Component::F16, Component::F32, Component::F64] {
        let mut writer = NpyWriter::create(&path, 3, component).unwrap();
        writer.push(&ROWS).unwrap();
        writer.finish().unwrap();
        let batches = read(&path);
        assert_eq!((batches.len(), batches[0].num_rows()), (1, 3));
        assert_eq!(values_of(batches[0].column(0)), ROWS, "{component:?}");
    }
}

#[test]
fn npy_data_at_an_odd_place_are_copied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.npy");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    let header =
        format!("{:<60}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (1500, 2)}");
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    assert!(!bytes.len().is_multiple_of(4));
    let values: Vec<f32> = (0..3000).map(|i| i as f32).collect();
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    std::fs::write(&path, bytes).unwrap();
    let found: Vec<Vec<f32>> = read(&path).iter().map(|batch| values_of(batch.column(0))).collect();
    assert_eq!(found.concat(), values);
}

#[test]
fn what_is_wrong_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let said = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = opened(&path).unwrap_err();
        assert!(error.hint().is_some(), "{error}");
        error.to_string().strip_prefix(&format!("{}: ", path.display())).unwrap().to_owned()
    };
    assert_eq!(
        said("a", b"a,b\n1,2\n"),
        format!(r#"expected {EXPECTED_FORMATS}, found a file that begins with "a,b\n1,2\n""#)
    );
    let file = std::fs::read(fixture("arrow/pyarrow_lz4.feather")).unwrap();
    assert_eq!(
        said("b.arrow", &file[..700]),
        format!(
            r#"not a finished Arrow IPC file (it ends with "{}")"#,
            file[694..700].escape_ascii()
        )
    );
    let stream = std::fs::read(fixture("arrow/pyarrow_stream.arrow")).unwrap();
    let cut = said("c.arrow", &stream[..stream.len() - 100]);
    assert!(cut.starts_with("an Arrow stream, cut off: "), "{cut}");
    assert_eq!(said("d.npy", b"\x93NUMPY\x01\x00"), "damaged: the file ends in its header");
    let missing = opened(&folder.path().join("missing")).unwrap_err();
    assert!(missing.to_string().contains("missing: "), "{missing}");
}

/// A file of its own for bytes that are damaged again and again.
struct Damaged(tempfile::NamedTempFile);

impl Damaged {
    fn new() -> Self {
        Self(tempfile::Builder::new().suffix(".arrow").tempfile().unwrap())
    }

    /// Opens the file and decodes all its rows; returns how many.
    fn decode(&self, bytes: &[u8]) -> Result<usize, DataError> {
        std::fs::write(self.0.path(), bytes).unwrap();
        let file = opened(self.0.path())?;
        let positions: Vec<usize> = (0..file.schema().fields().len()).collect();
        file.batches(&positions, DECODE_ROWS)?.map(|batch| Ok(batch?.num_rows())).sum()
    }
}

#[test]
fn every_truncation_is_an_error() {
    let damaged = Damaged::new();
    for name in ARROW_FILES {
        let bytes = std::fs::read(fixture(name)).unwrap();
        assert_eq!(damaged.decode(&bytes).unwrap(), 3, "{name}");
        for length in 0..bytes.len() {
            assert!(damaged.decode(&bytes[..length]).is_err(), "{name} at {length}");
        }
    }
}

#[test]
fn no_flipped_bit_ends_the_process() {
    let damaged = Damaged::new();
    for name in ARROW_FILES {
        let mut bytes = std::fs::read(fixture(name)).unwrap();
        for position in 0..bytes.len() {
            let bit = 1 << (position % 8);
            bytes[position] ^= bit;
            let _ = damaged.decode(&bytes);
            bytes[position] ^= bit;
        }
    }
}

#[test]
fn a_compressed_buffer_cannot_ask_for_memory() {
    let mut bytes = std::fs::read(fixture("arrow/pyarrow_zstd_batches.arrow")).unwrap();
    // The length that a compressed buffer claims stands before zstd's own mark.
    let mark = bytes.windows(4).position(|w| w == [0x28, 0xB5, 0x2F, 0xFD]);
    let Some(mark) = mark else { panic!("no compressed buffer in the file") };
    bytes[mark - 8..mark].copy_from_slice(&(1_u64 << 45).to_le_bytes());
    let error = Damaged::new().decode(&bytes).unwrap_err().to_string();
    assert!(error.contains("claim to be 35184372088832"), "{error}");
}

#[test]
fn file_that_is_truncated_while_it_is_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let batches: Vec<RecordBatch> = (0..50).flat_map(|_| three_batches()).collect();
    for form in Form::ALL {
        let path = write(folder.path(), form, &batches);
        let file = opened(&path).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(9).unwrap();
        let read = file.batches(&[0, 1, 2], DECODE_ROWS);
        let read = read.and_then(|batches| batches.collect::<Result<Vec<_>, _>>());
        assert!(read.is_err(), "{form:?}");
    }
}
