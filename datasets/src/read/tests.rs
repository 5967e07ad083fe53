//! Every format and type, byte by byte and as other programs write them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field};
use half::bf16;

use super::support::{
    Form, Member, ROWS, batch, bin, fixture, npy, opened, read, safetensors, touch, vecs, write,
    zip,
};
use super::*;
use crate::error::{EXPECTED_FORMATS, VectorFault};
use crate::schema::BATCH_ROWS;
use crate::vectors::{ComponentType, VectorCells};
use crate::{DataError, VectorFile};

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

#[test]
fn a_compressed_buffer_cannot_ask_for_memory() {
    let mut bytes = std::fs::read(fixture("arrow/pyarrow_zstd_batches.arrow")).unwrap();
    // The length that a compressed buffer claims stands before zstd's own mark.
    let mark = bytes.windows(4).position(|w| w == [0x28, 0xB5, 0x2F, 0xFD]);
    let Some(mark) = mark else { panic!("no compressed buffer in the file") };
    bytes[mark - 8..mark].copy_from_slice(&(1_u64 << 45).to_le_bytes());
    let path = tempfile::Builder::new().suffix(".arrow").tempfile().unwrap().into_temp_path();
    std::fs::write(&path, bytes).unwrap();
    let read = VectorFile::open(&path).and_then(VectorFile::read_all);
    let error = read.unwrap_err().to_string();
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
    for (name, format, element) in [
        ("v.fvecs", F::Fvecs, ComponentType::F32),
        ("v.ivecs", F::Ivecs, ComponentType::I32),
        ("v.bvecs", F::Bvecs, ComponentType::U8),
    ] {
        let bytes = vecs(2, 2 * element.bytes(), &stored(element));
        files.push((name.to_owned(), bytes, format, element));
    }
    for (name, format, element) in [
        ("v.fbin", F::Fbin, ComponentType::F32),
        ("v.f16bin", F::F16bin, ComponentType::F16),
        ("v.u8bin", F::U8bin, ComponentType::U8),
        ("v.i8bin", F::I8bin, ComponentType::I8),
        ("v.ibin", F::Ibin, ComponentType::I32),
    ] {
        files.push((name.to_owned(), bin(3, 2, &stored(element)), format, element));
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
        let plain = zip(&[Member::stored("arr_0.npy", &array)]);
        let deflated = zip(&[Member::deflated("arr_0.npy", &array)]);
        files.push((format!("v_{dtype}.unknown"), array, F::Npy, element));
        files.push((format!("plain_{dtype}.unknown"), plain, F::Npz, element));
        files.push((format!("deflated_{dtype}.unknown"), deflated, F::Npz, element));
    }
    files
}

fn components(batch: &RecordBatch) -> Vec<f32> {
    values_of(batch.column(0))
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
        let batches =
            file.batches(&[0], DECODE_ROWS).unwrap().map(|batch| components(&batch.unwrap()));
        assert_eq!(batches.collect::<Vec<_>>().concat(), expected, "{name} {format:?}");
        let rows = file.batches_of_rows(0, &[0, 2]).unwrap();
        let rows: Vec<f32> = rows.iter().flat_map(components).collect();
        assert_eq!(rows, [expected[0], expected[1], expected[4], expected[5]], "{name}");
        check_vector_file(&path, format, &expected);
    }
}

/// Reads the vectors in portions that do not fit their batches.
fn check_vector_file(path: &Path, format: VectorFormat, expected: &[f32]) {
    let mut file = VectorFile::open(path).unwrap();
    assert_eq!((file.format(), file.len(), file.dim()), (format, 3, 2));
    assert!(file.meta().is_none());
    let mut values = vec![9.0];
    assert_eq!(file.read_rows(2, &mut values).unwrap(), 2);
    assert_eq!(values, expected[..4]);
    assert_eq!(file.read_rows(2, &mut values).unwrap(), 1);
    assert_eq!(values, expected[4..]);
    assert_eq!(file.read_rows(2, &mut values).unwrap(), 0);
    assert!(values.is_empty());
}

#[test]
fn rows_of_several_batches_come_in_order() {
    let folder = tempfile::tempdir().unwrap();
    // Four MiB make a batch.
    let (rows, dim) = (70_000_u32, 32_u32);
    let values: Vec<f32> = (0..rows * dim).map(|i| (i % 4099) as f32).collect();
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let array = npy("<f4", &format!("({rows}, {dim})"), &data);
    for (name, bytes) in [
        ("v.fbin", bin(rows, dim, &data)),
        ("v.fvecs", vecs(dim, 4 * dim as usize, &data)),
        ("v.npz", zip(&[Member::deflated("v.npy", &array)])),
        ("w.npz", zip(&[Member::stored("odd.npy", &array)])),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let file = opened(&path).unwrap();
        let batches: Vec<_> =
            file.batches(&[0], DECODE_ROWS).unwrap().map(Result::unwrap).collect();
        assert!(batches.len() > 1, "{name}");
        assert!(batches.iter().all(|batch| batch.num_rows() <= BATCH_ROWS));
        let found: Vec<f32> = batches.iter().flat_map(components).collect();
        assert!(found == values, "{name}");
        let some = file.batches_of_rows(0, &[69_999]).unwrap();
        assert_eq!(components(&some[0]), values[values.len() - 32..], "{name}");
        assert!(VectorFile::open(&path).unwrap().read_all().unwrap() == values, "{name}");
    }
}

#[test]
fn files_of_other_programs_hold_the_same_vectors() {
    let of = |name: &str| VectorFile::open(&fixture(name)).unwrap().read_all().unwrap();
    for name in [
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
    ] {
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
    let file = opened(&fixture("safetensors/numpy_f32.safetensors")).unwrap();
    assert_eq!(file.schema().metadata()["model"], "tiny");
}

#[test]
fn members_are_chosen_by_name() {
    let of = |name: &str, member: &str| {
        VectorFile::open_member(&fixture(name), Some(member)).unwrap().read_all().unwrap()
    };
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
    let several = VectorFile::open(&fixture("npz/numpy_several.npz")).unwrap();
    assert_eq!(several.read_all().unwrap(), ROWS);
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

#[test]
fn values_that_f32_cannot_hold_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let said = |name: &str, bytes: Vec<u8>| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let error = VectorFile::open(&path).unwrap().read_all().unwrap_err();
        assert!(error.hint().is_some(), "{error}");
        (error.to_string().replace(&format!("{}: ", path.display()), ""), error)
    };
    let i32s = |values: [i32; 4]| -> Vec<u8> { values.map(i32::to_le_bytes).concat() };
    let exact = bin(2, 2, &i32s([16_777_216, -16_777_216, i32::MIN, 1 << 30]));
    let path = folder.path().join("exact.ibin");
    std::fs::write(&path, exact).unwrap();
    let values = VectorFile::open(&path).unwrap().read_all().unwrap();
    assert_eq!(values, [16_777_216.0, -16_777_216.0, -2_147_483_648.0, 1_073_741_824.0]);
    let (text, error) = said("v.ibin", bin(2, 2, &i32s([1, 2, 16_777_217, 3])));
    assert!(matches!(
        error,
        DataError::Vector { row: 1, fault: VectorFault::Inexact { component: 0, .. }, .. }
    ));
    assert_eq!(text, "row 1: component 0 is 16777217, which f32 does not hold exactly");
    let i64s: Vec<u8> = [1_i64, i64::MAX].map(i64::to_le_bytes).concat();
    let (text, _) = said("v.npy", npy("<i8", "(1, 2)", &i64s));
    assert_eq!(text, "row 0: component 1 is 9223372036854776000, which f32 does not hold exactly");
    let f32s = |values: [f32; 4]| -> Vec<u8> { values.map(f32::to_le_bytes).concat() };
    let nan = f32s([1.0, 2.0, 3.0, f32::NAN]);
    for (name, bytes) in [
        ("v.fbin", bin(2, 2, &nan)),
        ("v.fvecs", vecs(2, 8, &nan)),
        ("v.npz", zip(&[Member::deflated("v.npy", &npy("<f4", "(2, 2)", &nan))])),
        (
            "v.safetensors",
            safetensors(r#"{"v":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}"#, &nan),
        ),
    ] {
        assert_eq!(said(name, bytes).0, "row 1: component 1 is NaN", "{name}");
    }
    let long = f64::to_le_bytes(1e39);
    assert_eq!(said("v.npy", npy("<f8", "(1, 1)", &long)).0, "row 0: component 0 is inf");
}
