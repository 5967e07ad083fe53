//! Every format and type, byte by byte and as other programs write them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field};
use half::bf16;

use super::support::{
    Form, ROWS, bin, check_said, fixture, many_columns, npy, opened, read, safetensors, said,
    shown, touch, vecs, vectors_in, write, zip,
};
use super::*;
use crate::DataError;
use crate::schema::BATCH_ROWS;
use crate::vectors::{ComponentType, VectorCells};

mod damaged;
mod json_lines;

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
    let cells = VectorCells::of(list).unwrap();
    let mut values = Vec::new();
    (0..cells.len()).for_each(|i| cells.append(i, &mut values));
    values
}

/// Batches with equal dictionaries: an Arrow file has one for each column.
fn three_batches() -> [RecordBatch; 3] {
    [0..6, 6..9, 9..21].map(many_columns)
}

#[test]
fn every_form_gives_the_same_rows() {
    let (folder, expected) = (tempfile::tempdir().unwrap(), three_batches());
    for form in Form::ALL {
        let path = write(folder.path(), form, &expected);
        let (file, found) = (opened(&path).unwrap(), read(&path));
        assert_eq!(file.row_count(), 21, "{form:?}");
        for field in file.schema().fields() {
            let name = field.name();
            assert_eq!(shown(&found, name), shown(&expected, name), "{form:?} {name}");
        }
        let some: Vec<RecordBatch> =
            file.batches(&[0, 5], DECODE_ROWS).unwrap().map(Result::unwrap).collect();
        assert!(some.iter().all(|batch| batch.num_columns() == 2));
        assert_eq!(shown(&some, "both"), shown(&expected, "both"), "{form:?}");
    }
}

#[test]
fn a_compressed_buffer_cannot_ask_for_memory() {
    let mut bytes = std::fs::read(fixture("arrow/pyarrow_zstd_batches.arrow")).unwrap();
    // The length that a compressed buffer claims stands before zstd's own mark.
    let mark = bytes.windows(4).position(|w| w == [0x28, 0xB5, 0x2F, 0xFD]).unwrap();
    bytes[mark - 8..mark].copy_from_slice(&(1_u64 << 45).to_le_bytes());
    let path = tempfile::Builder::new().suffix(".arrow").tempfile().unwrap().into_temp_path();
    std::fs::write(&path, bytes).unwrap();
    let error = said(&path, None);
    assert!(error.contains("claim to be 35184372088832"), "{error}");
}

/// A mapped file that became shorter ended the process with SIGBUS.
#[test]
fn file_that_is_changed_while_it_is_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let batches: Vec<RecordBatch> = (0..50).flat_map(|_| three_batches()).collect();
    let path = |name: &str| folder.path().join(name);
    let mut paths: Vec<PathBuf> =
        Form::ALL.map(|form| write(folder.path(), form, &batches)).to_vec();
    for (name, bytes) in [
        ("v.fbin", bin(4, 2, &stored(ComponentType::F32)[..8].repeat(4))),
        ("v.npy", npy("<f4", "(3, 2)", &stored(ComponentType::F32))),
    ] {
        std::fs::write(path(name), bytes).unwrap();
        paths.push(path(name));
    }
    for path in paths {
        let file = opened(&path).unwrap();
        file.check_unchanged().unwrap();
        let written = touch(&path);
        assert!(matches!(file.check_unchanged(), Err(DataError::Changed { .. })), "{file:?}");
        written.set_len(9).unwrap();
        let positions: Vec<usize> = (0..file.schema().fields().len()).collect();
        let read = file.batches(&positions, DECODE_ROWS);
        let read = read.and_then(|batches| batches.collect::<Result<Vec<_>, _>>());
        assert!(read.is_err(), "{file:?}");
    }
}

/// Values that every type holds, in rows of two.
const VALUES: [u8; 6] = [1, 2, 3, 0, 127, 64];
/// The whole numbers of the files in `tests-data`.
const WHOLE: [f32; 9] = [1.0, 2.0, 3.0, 0.0, 127.0, 5.0, 100.0, 101.0, 102.0];

/// The values as they are stored with a type.
fn stored(element: ComponentType) -> Vec<u8> {
    let bytes = |value: u8| match element {
        ComponentType::F16 => half::f16::from(value).to_le_bytes().to_vec(),
        ComponentType::Bf16 => bf16::from(value).to_le_bytes().to_vec(),
        ComponentType::F32 => f32::from(value).to_le_bytes().to_vec(),
        ComponentType::F64 => f64::from(value).to_le_bytes().to_vec(),
        ComponentType::I8 | ComponentType::U8 => vec![value],
        ComponentType::I32 => i32::from(value).to_le_bytes().to_vec(),
        ComponentType::I64 => i64::from(value).to_le_bytes().to_vec(),
    };
    VALUES.into_iter().flat_map(bytes).collect()
}

const NAMES: [(ComponentType, &str, &str); 8] = [
    (ComponentType::F16, "<f2", "F16"),
    (ComponentType::Bf16, "", "BF16"),
    (ComponentType::F32, "<f4", "F32"),
    (ComponentType::F64, "<f8", "F64"),
    (ComponentType::I8, "|i1", "I8"),
    (ComponentType::U8, "|u1", "U8"),
    (ComponentType::I32, "<i4", "I32"),
    (ComponentType::I64, "<i8", "I64"),
];

/// The same three rows in every format and type: name, bytes, format, type.
fn all_files() -> Vec<(String, Vec<u8>, VectorFormat, ComponentType)> {
    use VectorFormat as F;
    let mut files = Vec::new();
    for format in F::WRITTEN {
        let Some(element) = format.only_type() else { continue };
        let bytes = match format.name().ends_with("vecs") {
            true => vecs(2, 2 * element.bytes(), &stored(element)),
            false => bin(3, 2, &stored(element)),
        };
        files.push((format!("v.{}", format.name()), bytes, format, element));
    }
    for (element, descr, dtype) in NAMES {
        let data = stored(element);
        let length = data.len();
        let header =
            format!(r#"{{"v":{{"dtype":"{dtype}","shape":[3,2],"data_offsets":[0,{length}]}}}}"#);
        let tensors = safetensors(&header, &data);
        files.push((format!("v_{dtype}.unknown"), tensors, F::Safetensors, element));
        if element == ComponentType::Bf16 {
            continue;
        }
        let array = npy(descr, "(3, 2)", &data);
        let [plain, deflated] = [false, true].map(|it| zip(&[("arr_0.npy", &*array, it)]));
        files.push((format!("v_{dtype}.unknown"), array, F::Npy, element));
        files.push((format!("plain_{dtype}.unknown"), plain, F::Npz, element));
        files.push((format!("deflated_{dtype}.unknown"), deflated, F::Npz, element));
    }
    files
}

#[test]
fn every_format_and_type_gives_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let expected = VALUES.map(f32::from);
    let files = all_files();
    assert_eq!(files.len(), 8 + 8 + 7 * 3);
    for (name, bytes, format, element) in files {
        let path = folder.path().join(&name);
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(VectorFormat::of_file(&path), Some(format), "{name}");
        let file = opened(&path).unwrap();
        assert_eq!(file.row_count(), 3, "{name} {format:?}");
        let field = file.schema().field(0);
        let item = Field::new("item", element.data_type(), false);
        let expected_type = DataType::FixedSizeList(Arc::new(item), 2);
        assert_eq!((field.name().as_str(), field.is_nullable()), ("vector", false));
        assert_eq!(field.data_type(), &expected_type, "{name}");
        let batches = file
            .batches(&[0], DECODE_ROWS)
            .unwrap()
            .map(|batch| values_of(batch.unwrap().column(0)));
        assert_eq!(batches.collect::<Vec<_>>().concat(), expected, "{name} {format:?}");
        let rows = file.batches_of_rows(0, &[0, 2]).unwrap();
        let rows: Vec<f32> = rows.iter().flat_map(|batch| values_of(batch.column(0))).collect();
        assert_eq!(rows, [expected[0], expected[1], expected[4], expected[5]], "{name}");
        assert_eq!(vectors_in(&path, None).unwrap(), expected, "{name}");
    }
}

#[test]
fn rows_of_several_batches_come_in_order() {
    let folder = tempfile::tempdir().unwrap();
    // Four MiB make a batch.
    let (rows, dim) = (70_000_u32, 32_u32);
    let values: Vec<f32> = (0..rows * dim).map(|i| (i % 4099) as f32).collect();
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let shape = format!("({rows}, {dim})");
    let array = npy("<f4", &shape, &data);
    let by_component =
        (0..dim).flat_map(|at| values.iter().skip(at as usize).step_by(dim as usize));
    let by_component: Vec<u8> = by_component.flat_map(|value| value.to_be_bytes()).collect();
    let fortran = npy(">f4', 'fortran_order': True, 'then': '", &shape, &by_component);
    // A header that ends at an odd place.
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}\n");
    assert!(!(10 + header.len()).is_multiple_of(4));
    let odd = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()];
    let odd = [&odd.concat()[..], &data].concat();
    for (name, bytes) in [
        ("v.fbin", bin(rows, dim, &data)),
        ("v.fvecs", vecs(dim, 4 * dim as usize, &data)),
        ("v.npz", zip(&[("v.npy", &array, true)])),
        ("w.npz", zip(&[("odd.npy", &array, false)])),
        ("fortran.npy", fortran),
        ("odd.npy", odd),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let file = opened(&path).unwrap();
        let batches: Vec<_> =
            file.batches(&[0], DECODE_ROWS).unwrap().map(Result::unwrap).collect();
        assert!(batches.len() > 1, "{name}");
        assert!(batches.iter().all(|batch| batch.num_rows() <= BATCH_ROWS));
        let found: Vec<f32> = batches.iter().flat_map(|batch| values_of(batch.column(0))).collect();
        assert!(found == values, "{name}");
        let some = file.batches_of_rows(0, &[69_999]).unwrap();
        assert_eq!(values_of(some[0].column(0)), values[values.len() - 32..], "{name}");
        assert!(vectors_in(&path, None).unwrap() == values, "{name}");
    }
}

#[test]
fn files_of_other_programs_hold_the_same_vectors() {
    let of = |name: &str| vectors_in(&fixture(name), None).unwrap();
    for name in ARROW_FILES.into_iter().chain([
        "bare/numpy.fbin",
        "bare/numpy.f16bin",
        "bare/numpy.fvecs",
        "npz/numpy_stored.npz",
        "npz/numpy_deflated_f64.npz",
        "npz/numpy_fortran.npz",
        "safetensors/numpy_f32.safetensors",
        "safetensors/numpy_f16.safetensors",
        "safetensors/numpy_f64.safetensors",
        #[cfg(feature = "hdf5")]
        "hdf5/h5py_contiguous.hdf5",
        #[cfg(feature = "hdf5")]
        "hdf5/h5py_gzip_f64.hdf5",
        #[cfg(feature = "hdf5")]
        "hdf5/h5py_chunked_latest.hdf5",
        #[cfg(feature = "hdf5")]
        "hdf5/h5py_big_endian.hdf5",
        "jsonl/python.jsonl",
        "jsonl/python_utf8.ndjson",
        "parquet/list_f32.parquet",
        "parquet/large_list_f64.parquet",
        "parquet/fixed_list_f16.parquet",
        "parquet/fixed_list_f32_pages_v2.parquet",
        "parquet/fixed_binary.parquet",
        "parquet/gzip.parquet",
    ]) {
        let values = of(name);
        assert_eq!(values, ROWS, "{name}");
        assert!(values[5].is_sign_negative(), "{name}");
    }
    for name in [
        "bare/numpy.ibin",
        "bare/numpy.u8bin",
        "bare/numpy.i8bin",
        "bare/numpy.ivecs",
        "bare/numpy.bvecs",
        "safetensors/numpy_u8.safetensors",
    ] {
        assert_eq!(of(name), WHOLE, "{name}");
    }
    let metadata = |name| opened(&fixture(name)).unwrap().schema().metadata().clone();
    assert_eq!(metadata("safetensors/numpy_f32.safetensors")["model"], "tiny");
    assert_eq!(metadata("arrow/pyarrow_plain_batches.arrow")["made"], "by pyarrow");
}

#[test]
fn members_are_chosen_by_name() {
    let of = |name: &str, member: &str| vectors_in(&fixture(name), Some(member)).unwrap();
    assert_eq!(of("npz/numpy_several.npz", "other"), WHOLE);
    assert_eq!(of("npz/numpy_several.npz", "emb"), ROWS);
    assert_eq!(of("npz/numpy_unnamed.npz", "a"), ROWS);
    assert_eq!(of("safetensors/numpy_unnamed.safetensors", "b"), ROWS);
    assert_eq!(of("safetensors/numpy_f32.safetensors", "weights"), ROWS[..6]);
    if cfg!(feature = "hdf5") {
        assert_eq!(of("hdf5/h5py_gzip_f64.hdf5", "test"), ROWS[..3]);
        assert_eq!(of("hdf5/h5py_gzip_f64.hdf5", "/distances"), [0.25, 0.5]);
        assert_eq!(of("hdf5/h5py_contiguous.hdf5", "neighbors"), [2.0, 0.0]);
        assert_eq!(of("hdf5/h5py_others.h5", "group/train"), ROWS);
        assert_eq!(of("hdf5/h5py_others.h5", "i8"), WHOLE);
        assert_eq!(of("hdf5/h5py_others.h5", "u1"), WHOLE);
    }
    assert_eq!(of("parquet/list_f32.parquet", "embedding"), ROWS);
    // Without a name, the usual one counts.
    assert_eq!(vectors_in(&fixture("npz/numpy_several.npz"), None).unwrap(), ROWS);
}

#[test]
fn numbers_that_look_like_text_stay_numbers() {
    let folder = tempfile::tempdir().unwrap();
    // 123 is the code of a brace, 34 that of a quotation mark.
    let rows: Vec<u8> =
        [[0, 0, 0, 0, 123, 34, 58, 32], [123, 34, 97, 34, 58, 32, 49, 125]].concat();
    let path = folder.path().join("v.bvecs");
    std::fs::write(&path, vecs(8, 8, &rows)).unwrap();
    assert_eq!(VectorFormat::of_file(&path), Some(VectorFormat::Bvecs));
    let path = folder.path().join("v.U8BIN");
    std::fs::write(&path, bin(123, 1, &[7; 123])).unwrap();
    assert_eq!(VectorFormat::of_file(&path), Some(VectorFormat::U8bin));
    let path = folder.path().join("v");
    std::fs::write(&path, bin(123, 34, &[])).unwrap();
    assert_eq!(VectorFormat::of_file(&path), None);
    for text in ["{\"a\":1}\n", "\u{FEFF}{}", " \n{ \"a\": 1}"] {
        std::fs::write(&path, text).unwrap();
        assert_eq!(VectorFormat::of_file(&path), Some(VectorFormat::Jsonl), "{text:?}");
    }
    let empty: PathBuf = folder.path().join("v.NDJSON");
    std::fs::write(&empty, "").unwrap();
    assert_eq!(VectorFormat::of_file(&empty), Some(VectorFormat::Jsonl));
}
