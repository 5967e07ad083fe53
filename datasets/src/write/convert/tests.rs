use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int32Type, UInt8Type,
};
use arrow_array::{
    Array, BinaryArray, BooleanArray, Decimal128Array, DurationSecondArray, Float32Array,
    Float64Array, Int64Array, ListArray, PrimitiveArray, StringArray, UnionArray,
};
use half::f16;
use memfold_index::{NoProgress, Row};
use serde_json::{Value, json};

use super::*;
use crate::columns::{ColumnsWriter, MappedColumns};
use crate::read::DECODE_ROWS;
use crate::read::support::{
    self, Counting, Form, check_columns, many_columns, opened, records_meta, shown, with_metadata,
    write_records,
};

/// Components of the vectors here.
const DIM: usize = 3;

fn array<T: ArrowPrimitiveType>(values: Vec<T::Native>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(values.into(), None))
}

/// Four vectors of the values of each type that are most easily lost.
fn edges(component: ComponentType) -> ArrayRef {
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
fn vectors(components: ArrayRef, dim: usize) -> ArrayRef {
    let item = Arc::new(Field::new("item", components.data_type().clone(), true));
    Arc::new(FixedSizeListArray::new(item, dim as i32, components, None))
}

/// Writes an Arrow file with one column.
fn one_column(folder: &Path, name: &str, column: ArrayRef) -> PathBuf {
    let path = folder.join("in.arrow");
    support::write_as(&path, Form::Arrow, &[support::batch(&[(name, column)])]);
    path
}

/// Writes an Arrow file of vectors of random bits, but finite ones.
fn many(folder: &Path, rows: usize, dim: usize) -> PathBuf {
    let mut state = 1_u32;
    let mut values = Vec::with_capacity(rows * dim);
    while values.len() < rows * dim {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        values.push(Some(f32::from_bits(state)).filter(|value| value.is_finite()).unwrap_or(-0.0));
    }
    one_column(folder, "vector", vectors(array::<Float32Type>(values), dim))
}

fn options<'a>() -> ConvertOptions<'a> {
    ConvertOptions {
        format: None,
        component: None,
        column: None,
        member: None,
        progress: &NoProgress,
    }
}

fn converted(input: &Path, output: &Path) -> Converted {
    convert(input, output, &options()).unwrap()
}

/// Tries an impossible conversion, and returns the error; nothing is left behind.
#[track_caller]
fn refused(input: &Path, name: &str, options: &ConvertOptions<'_>) -> DataError {
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
fn said(input: &Path, name: &str, options: &ConvertOptions<'_>) -> String {
    let folder = format!("{}/", input.parent().unwrap().display());
    refused(input, name, options).to_string().replace(&folder, "")
}

/// Every format and type that it holds.
fn formats_and_types() -> impl Iterator<Item = (VectorFormat, ComponentType)> {
    let all = VectorFormat::WRITTEN.into_iter();
    all.flat_map(|format| ComponentType::ALL.map(|component| (format, component)))
        .filter(|(format, component)| format.only_type().is_none_or(|only| only == *component))
}

/// Returns the bytes of components.
fn bytes_of(values: &ArrayRef) -> Vec<u8> {
    Components::of(values).unwrap().bytes().to_vec()
}

/// The contents of a file: rows, components, and the bytes of all vectors.
#[derive(Debug, PartialEq)]
struct Found {
    rows: usize,
    dim: usize,
    bytes: Vec<u8>,
}

/// Reads a file by the readers, which are tested with files of other programs; JSON, which they
/// read as f32, by text.
fn read(path: &Path, format: VectorFormat, component: ComponentType) -> Found {
    if format == VectorFormat::Jsonl {
        return json_lines(&std::fs::read(path).unwrap(), component);
    }
    if path.metadata().unwrap().len() == 0 {
        // Rows that each have their length before them have no header.
        return Found { rows: 0, dim: 0, bytes: Vec::new() };
    }
    let Opened { source, format: found, .. } = open(path, &SourceOptions::default()).unwrap();
    assert_eq!(found, format);
    let (position, dim) = vectors_of(&*source, path, None).unwrap();
    let mut bytes = Vec::new();
    for batch in source.batches(&[position], DECODE_ROWS).unwrap() {
        let cells = VectorCells::of(batch.unwrap().column(0)).unwrap();
        bytes.extend_from_slice(cells.in_one_piece(dim).unwrap().bytes());
    }
    let field = source.schema().field(position).data_type().clone();
    assert_eq!(shape_of(&field), Some((component, Some(dim))));
    Found { rows: source.row_count(), dim, bytes }
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte))
}

fn json_lines(bytes: &[u8], component: ComponentType) -> Found {
    let mut found = Found { rows: 0, dim: 0, bytes: Vec::new() };
    for line in std::str::from_utf8(bytes).unwrap().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let vector = row["vector"].as_array().unwrap();
        for value in vector {
            let text = value.to_string();
            let bytes = match component {
                ComponentType::F16 => f16::from_f32(text.parse().unwrap()).to_le_bytes().to_vec(),
                ComponentType::F32 => text.parse::<f32>().unwrap().to_le_bytes().to_vec(),
                ComponentType::F64 => text.parse::<f64>().unwrap().to_le_bytes().to_vec(),
                ComponentType::U8 => text.parse::<u8>().unwrap().to_le_bytes().to_vec(),
                ComponentType::I8 => text.parse::<i8>().unwrap().to_le_bytes().to_vec(),
                _ => text.parse::<i32>().unwrap().to_le_bytes().to_vec(),
            };
            found.bytes.extend(bytes);
        }
        (found.rows, found.dim) = (found.rows + 1, vector.len());
    }
    found
}

/// The metadata of a safetensors file.
fn tensor_header(bytes: &[u8]) -> (Value, usize) {
    let end = 8 + number(&bytes[..8]);
    assert_eq!(end % 64, 0);
    (serde_json::from_slice(&bytes[8..end]).unwrap(), end)
}

fn file_name(stem: &str, format: VectorFormat) -> String {
    format!("{stem}.{}", format.name())
}

#[test]
fn every_format_holds_every_bit() {
    for (format, component) in formats_and_types() {
        let folder = tempfile::tempdir().unwrap();
        let values = edges(component);
        let input = one_column(folder.path(), "vector", vectors(values.clone(), DIM));
        let output = folder.path().join(file_name("out", format));
        let made = converted(&input, &output);
        let rows = values.len() / DIM;
        let expected = Found { rows, dim: DIM, bytes: bytes_of(&values) };
        assert_eq!(read(&output, format, component), expected, "{format:?} {component}");
        assert_eq!((made.rows, made.dim, made.component), (rows as u64, DIM, component));
        assert_eq!((made.from, made.to), ("arrow", format));
        assert_eq!(made.bytes_written, output.metadata().unwrap().len());
        assert_eq!(made.columns_left_out, [""; 0]);
    }
}

#[test]
fn bare_vectors_become_a_column_file_that_is_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let source = many(folder.path(), 70_000, 3);
    converted(&source, &path("a.npy"));
    converted(&path("a.npy"), &path("b.arrow"));
    converted(&path("b.arrow"), &path("c.parquet"));
    converted(&path("c.parquet"), &path("d.arrow"));
    let values = read(&path("a.npy"), VectorFormat::Npy, ComponentType::F32).bytes;
    for name in ["b.arrow", "d.arrow"] {
        let columns = MappedColumns::open(&path(name)).unwrap();
        assert_eq!((columns.len(), columns.dim()), (70_000, 3));
        let vectors = columns.vectors();
        let bits = (0..70_000).flat_map(|row| vectors.vector(Row(row)).to_vec());
        assert!(bits.flat_map(f32::to_le_bytes).eq(values.iter().copied()), "{name}");
    }
    let made = converted(&path("d.arrow"), &path("e.fvecs"));
    assert_eq!(made.columns_left_out, ["row"]);
    assert!(read(&path("e.fvecs"), VectorFormat::Fvecs, ComponentType::F32).bytes == values);
    let bytes = |name: &str| std::fs::read(path(name)).unwrap();
    assert!(bytes("b.arrow") == bytes("d.arrow"), "the same rows make the same bytes");
}

#[test]
fn files_without_rows_stay_what_they_are() {
    for (format, component) in formats_and_types() {
        let folder = tempfile::tempdir().unwrap();
        let none = edges(component).slice(0, 0);
        let input = one_column(folder.path(), "vector", vectors(none, DIM));
        let output = folder.path().join(file_name("out", format));
        let made = converted(&input, &output);
        assert_eq!((made.rows, made.dim, made.component), (0, DIM, component));
        assert_eq!(read(&output, format, component).rows, 0, "{format:?} {component}");
    }
}

#[test]
fn a_type_that_the_format_holds_is_taken_where_no_value_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let whole = edges(ComponentType::U8);
    let input = one_column(folder.path(), "vector", vectors(whole.clone(), DIM));
    for name in ["a.fbin", "a.ivecs", "a.f16bin", "a.fvecs"] {
        let made = converted(&input, &path(name));
        assert_eq!(made.component_read, ComponentType::U8);
        let wide = Components::of(&whole).unwrap().converted(made.component, Rounding::Exact);
        let found = read(&path(name), made.to, made.component);
        assert_eq!(found.bytes, wide.unwrap().bytes(), "{name}");
    }
    let error = refused(&input, "a.i8bin", &options());
    assert_eq!(error.hint().unwrap(), "write the vectors as f32 if they may be rounded");
}

#[test]
fn a_type_that_was_asked_for_is_rounded_to() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let values: arrow_array::Float64Array = vec![0.1, 254.5, 2.5, 3.5, 1e-300, 7.0].into();
    let input = one_column(folder.path(), "vector", vectors(std::sync::Arc::new(values), 2));
    let to = |name: &str, component| {
        let options = ConvertOptions { component: Some(component), ..options() };
        let made = convert(&input, &path(name), &options).unwrap();
        assert_eq!((made.component_read, made.component), (ComponentType::F64, component));
        read(&path(name), made.to, component).bytes
    };
    assert_eq!(to("a.bvecs", ComponentType::U8), [0, 254, 2, 4, 0, 7]);
    let floats = [0.1_f32, 254.5, 2.5, 3.5, 0.0, 7.0];
    let bytes: Vec<u8> = floats.iter().flat_map(|value| value.to_le_bytes()).collect();
    for name in ["a.npy", "a.fbin", "a.jsonl", "a.safetensors"] {
        assert_eq!(to(name, ComponentType::F32), bytes, "{name}");
    }
    // Now they are f32, the file is one of ours.
    assert_eq!(to("a.arrow", ComponentType::F32), bytes);
    assert_eq!(MappedColumns::open(&path("a.arrow")).unwrap().len(), 3);
}

#[test]
fn progress_counts_every_row_and_stops_where_asked() {
    let folder = tempfile::tempdir().unwrap();
    let source = many(folder.path(), 70_000, 2);
    let whole = Counting { stop_after: u64::MAX, ..Counting::default() };
    let output = folder.path().join("a.npy");
    convert(&source, &output, &ConvertOptions { progress: &whole, ..options() }).unwrap();
    assert_eq!((whole.done.into_inner(), whole.total.into_inner()), (70_000, 70_000));
    let stopped = Counting { stop_after: 1, ..Counting::default() };
    for name in ["b.npy", "b.arrow", "b.parquet", "b.jsonl", "b.npz"] {
        let options = ConvertOptions { progress: &stopped, ..options() };
        assert!(matches!(refused(&source, name, &options), DataError::Cancelled), "{name}");
    }
}

fn link(to: &Path, from: &Path) {
    #[cfg(unix)]
    std::os::unix::fs::symlink(to, from).unwrap();
    #[cfg(not(unix))]
    std::fs::hard_link(to, from).unwrap();
}

fn floats(folder: &Path, values: &[f64]) -> std::path::PathBuf {
    one_column(folder, "vector", vectors(Arc::new(Float64Array::from(values.to_vec())), 2))
}

#[test]
fn rows_without_a_usable_vector_are_named_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let input = floats(folder.path(), &[1.0, 2.0, 3.0, f64::NAN, 0.0, 1.0, f64::INFINITY, 0.0]);
    for name in ["a.npy", "a.arrow", "a.parquet", "a.jsonl", "a.npz", "a.fvecs"] {
        assert_eq!(said(&input, name, &options()), "in.arrow: row 1: component 1 is NaN");
    }
    assert_eq!(
        refused(&input, "a.npy", &options()).hint().unwrap(),
        "leave such rows out of the file"
    );

    let list = |rows: Vec<Option<Vec<Option<f32>>>>| -> ArrayRef {
        Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(rows))
    };
    let two = || Some(vec![Some(1.0), Some(2.0)]);
    let fixed = many_columns(0..2).column_by_name("holes").unwrap().clone();
    for (column, expected) in [
        (list(vec![two(), None, two()]), "row 1: the vector is null"),
        (list(vec![None]), "row 0: the vector is null"),
        (list(vec![Some(vec![Some(1.0), None]), two()]), "row 0: component 1 is null"),
        (list(vec![two(), Some(vec![Some(1.0)])]), "row 1: vector has 1 components, expected 2"),
        (fixed, "row 0: the vector is null"),
    ] {
        let input = one_column(folder.path(), "vector", column);
        assert_eq!(said(&input, "a.npy", &options()), format!("in.arrow: {expected}"));
    }
}

#[test]
fn components_that_do_not_fit_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let input = floats(folder.path(), &[1.0, 2.0, 3.0, 4.0, -0.0, 70_000.5]);
    for (name, expected) in [
        ("a.ivecs", "row 2: component 0 is -0, which i32 does not hold exactly"),
        ("a.f16bin", "row 2: component 1 is 70000.5, which f16 does not hold exactly"),
    ] {
        assert_eq!(said(&input, name, &options()), format!("in.arrow: {expected}"));
    }
    for (name, component) in [
        ("a.u8bin", ComponentType::U8),
        ("a.i8bin", ComponentType::I8),
        ("a.f16bin", ComponentType::F16),
        ("a.arrow", ComponentType::F16),
    ] {
        let options = ConvertOptions { component: Some(component), ..options() };
        let expected =
            format!("in.arrow: row 2: component 1 is 70000.5, out of the range of {component}");
        assert_eq!(said(&input, name, &options), expected);
    }
    let options = ConvertOptions { component: Some(ComponentType::F64), ..options() };
    assert_eq!(said(&input, "a.fvecs", &options), "a.fvecs: fvecs holds f32, not f64");
}

#[test]
fn what_cannot_begin_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let input = floats(folder.path(), &[1.0, 2.0]);
    let error = refused(&input, "a.csv", &options());
    assert_eq!(error.hint().unwrap(), "name the format of the output");
    assert_eq!(said(&input, "in.arrow", &options()), "in.arrow: the output is the input");
    link(&input, &folder.path().join("link.npy"));
    let linked = ConvertOptions { format: Some(VectorFormat::Npy), ..options() };
    #[cfg(unix)]
    assert_eq!(said(&input, "link.npy", &linked), "link.npy: the output is the input");
    let other = ConvertOptions { column: Some("other"), ..linked };
    assert_eq!(
        said(&input, "a.npy", &other),
        r#"in.arrow: no column other, found "vector" (FixedSizeList(2 x Float64))"#
    );
    let missing = folder.path().join("missing.npy");
    assert!(matches!(refused(&missing, "a.arrow", &options()), DataError::Io { .. }));
    let text = StringArray::from(vec!["a"]);
    let input = one_column(folder.path(), "vector", Arc::new(text));
    assert_eq!(
        said(&input, "a.npy", &options()),
        "in.arrow: column \"vector\" is Utf8, expected a list of f16, f32, f64, i8, u8, i32 or i64, \
         or fixed-size binary of 4-byte floats"
    );
    let none = vectors(Arc::new(Float32Array::from(vec![0.0; 65_537])), 65_537);
    let input = one_column(folder.path(), "vector", none);
    assert_eq!(
        said(&input, "a.npy", &options()),
        "in.arrow: vectors of 65537 components, expected 1 to 65536"
    );
    let lists = ListArray::from_iter_primitive::<Float32Type, Vec<Option<f32>>, _>([]);
    let input = one_column(folder.path(), "vector", Arc::new(lists));
    assert_eq!(said(&input, "a.npy", &options()), "in.arrow: no rows, expected at least one");
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let input = floats(folder.path(), &[1.0, 2.0]);
    for name in ["no/a.npy", "no/a.arrow", "no/a.parquet", "no/a.jsonl", "no/a.npz"] {
        let error = refused(&input, name, &options());
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(error.hint().unwrap(), "create the folder first");
    }
}

fn types_of(batches: &[RecordBatch]) -> Vec<(String, DataType)> {
    let schema = batches[0].schema();
    let fields = schema.fields().iter();
    fields.map(|field| (field.name().clone(), field.data_type().clone())).collect()
}

#[test]
fn tables_keep_every_column_and_their_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let before = [many_columns(0..70_000)];
    let input = support::write(folder.path(), Form::Arrow, &before);
    for column in ["lists", "large", "bytes"] {
        let options = ConvertOptions { column: Some(column), ..options() };
        convert(&input, &path("a.parquet"), &options).unwrap();
        convert(&path("a.parquet"), &path("b.arrow"), &options).unwrap();
        for name in ["a.parquet", "b.arrow"] {
            check_columns(&path(name), &before, column);
            let after = support::read(&path(name));
            let component = if column == "lists" { "Float64" } else { "Float32" };
            let expected = format!("FixedSizeList(2 x non-null {component})");
            let vectors = after[0].column_by_name(column).unwrap();
            assert_eq!(vectors.data_type().to_string(), expected);
            let bits = |batches: &[RecordBatch]| {
                let parts = batches.iter().map(|batch| batch.column_by_name(column).unwrap());
                parts.map(one_piece).collect::<Vec<_>>().concat()
            };
            assert!(bits(&after) == bits(&before), "{name} {column}");
        }
        let rows: Vec<usize> =
            support::read(&path("b.arrow")).iter().map(RecordBatch::num_rows).collect();
        assert_eq!(rows, [65_536, 4464]);
    }
}

fn one_piece(vectors: &ArrayRef) -> Vec<u8> {
    VectorCells::of(vectors).unwrap().in_one_piece(2).unwrap().bytes().to_vec()
}

#[test]
fn column_files_stay_ours() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (meta, rows) = (records_meta(true, false), 66_000);
    let vectors: Vec<f32> = (0..rows).flat_map(|row| [row as f32, -0.0, 1.0]).collect();
    write_records(ColumnsWriter::create(&path("a.arrow"), &meta).unwrap(), &vectors);
    converted(&path("a.arrow"), &path("b.parquet"));
    converted(&path("b.parquet"), &path("c.arrow"));
    converted(&path("a.arrow"), &path("d.arrow"));
    let before = support::read(&path("a.arrow"));
    for name in ["c.arrow", "d.arrow"] {
        let columns = MappedColumns::open(&path(name)).unwrap();
        assert_eq!((columns.meta(), columns.len()), (&meta, rows));
        let after = support::read(&path(name));
        assert_eq!(types_of(&after), types_of(&before));
        for (column, _) in types_of(&before) {
            assert!(shown(&after, &column) == shown(&before, &column), "{name} {column}");
        }
    }
    let parquet = opened(&path("b.parquet")).unwrap();
    let get = |name: &str| parquet.schema().metadata().get(name).map(String::as_str);
    assert_eq!(ColumnsMeta::from_metadata(get, meta.columns), Ok(meta));
    assert_eq!(parquet.row_count(), rows);
    let made = converted(&path("b.parquet"), &path("e.safetensors"));
    assert_eq!(made.columns_left_out.len(), 10);
    let (header, _) = tensor_header(&std::fs::read(path("e.safetensors")).unwrap());
    let kept = &header["__metadata__"];
    assert_eq!(kept["memfold.model"], "all-MiniLM-L6-v2");
    assert_eq!(kept["memfold.normalised"], "true");
}

#[test]
fn what_is_known_of_bare_vectors_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let stated = ColumnsMeta { normalised: true, ..ColumnsMeta::vectors(3) };
    for (dim, is_normalised) in [(3, true), (2, false)] {
        let source = support::read(&many(folder.path(), 4, dim)).remove(0);
        let mut metadata = stated.arrow_schema().metadata().clone();
        metadata.insert("made".to_owned(), "by a test".to_owned());
        let batch = with_metadata(&source, metadata);
        support::write_as(&path("in.arrow"), Form::Arrow, &[batch]);
        converted(&path("in.arrow"), &path("out.arrow"));
        let columns = MappedColumns::open(&path("out.arrow")).unwrap();
        assert_eq!((columns.dim(), columns.meta().normalised), (dim, is_normalised));
        let file = opened(&path("out.arrow")).unwrap();
        assert_eq!(file.schema().metadata()["made"], "by a test");
    }
}

#[test]
fn json_lines_say_what_the_columns_hold() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.jsonl");
    let input = support::write(folder.path(), Form::Arrow, &[many_columns(0..3)]);
    let made =
        convert(&input, &output, &ConvertOptions { column: Some("lists"), ..options() }).unwrap();
    assert_eq!((made.rows, made.columns_left_out.len()), (3, 0));
    let text = std::fs::read_to_string(&output).unwrap();
    let second = r#"{"id":null,"view":null,"kind":"y","at":"1970-01-01T00:00:00.000001Z","tags":["a \"text\" of some length 0\n"],"both":{"n":1},"vector":[1.0,0.0],"lists":[0.14285714285714285,-0.0],"large":[0.14285715,-0.0],"bytes":"2549123e00000080","holes":[0.14285715,-0.0]}"#;
    assert_eq!(text.lines().nth(1).unwrap(), second);
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows[2]["tags"], Value::Null);
    assert_eq!((&rows[0]["holes"], &rows[0]["both"]), (&Value::Null, &json!({ "n": null })));
    assert_eq!(rows[2]["kind"], Value::Null);
}

#[test]
fn json_lines_take_numbers_of_every_kind() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.jsonl");
    let decimal = Decimal128Array::from(vec![-12_345]).with_precision_and_scale(9, 2).unwrap();
    let batch = support::batch(&[
        ("yes", Arc::new(BooleanArray::from(vec![true])) as ArrayRef),
        ("price", Arc::new(decimal)),
        ("big", Arc::new(Int64Array::from(vec![i64::MIN]))),
        ("odd", Arc::new(Float64Array::from(vec![f64::NAN]))),
        ("raw", Arc::new(BinaryArray::from(vec![&b"\x00\xff"[..]]))),
        ("vector", vectors(edges(ComponentType::F16).slice(0, 3), 3)),
    ]);
    support::write_as(&folder.path().join("in.parquet"), Form::Parquet, &[batch]);
    converted(&folder.path().join("in.parquet"), &output);
    assert_eq!(
        std::fs::read_to_string(&output).unwrap(),
        "{\"yes\":true,\"price\":-123.45,\"big\":-9223372036854775808,\"odd\":null,\
         \"raw\":\"00ff\",\"vector\":[-0.0,5.9604645e-8,-0.00006097555]}\n"
    );
    let duration = DurationSecondArray::from(vec![1]);
    let batch = support::batch(&[
        ("took", Arc::new(duration) as ArrayRef),
        ("vector", vectors(edges(ComponentType::F32).slice(0, 3), 3)),
    ]);
    let input = support::write(folder.path(), Form::Arrow, &[batch]);
    assert_eq!(
        said(&input, "b.jsonl", &options()),
        "rows.arrow: column \"took\" is Duration(s), which jsonl does not hold"
    );
}

#[test]
fn unions_go_where_they_are_held() {
    let folder = tempfile::tempdir().unwrap();
    let fields = [(0, Arc::new(Field::new("n", DataType::Int64, true)))].into_iter().collect();
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let union = UnionArray::try_new(fields, vec![0, 0].into(), None, vec![numbers]).unwrap();
    let batch = support::batch(&[
        ("either", Arc::new(union) as ArrayRef),
        ("vector", vectors(edges(ComponentType::U8).slice(0, 6), 3)),
    ]);
    let input = support::write(folder.path(), Form::Arrow, std::slice::from_ref(&batch));
    let refused = |name: &str| said(&input, name, &options());
    let expected = "column \"either\" is a union, which Parquet does not hold";
    assert!(refused("a.parquet").ends_with(expected), "{}", refused("a.parquet"));
    assert!(refused("a.jsonl").contains("column \"either\" is Union("), "{}", refused("a.jsonl"));
    let output = folder.path().join("a.arrow");
    converted(&input, &output);
    assert_eq!(shown(&support::read(&output), "either"), shown(&[batch], "either"));
}

#[test]
fn a_vector_column_keeps_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.parquet");
    let input = one_column(folder.path(), "emb", vectors(edges(ComponentType::F32), 4));
    converted(&input, &output);
    let after = support::read(&output).remove(0);
    let components = after.column_by_name("emb").unwrap().as_fixed_size_list().values();
    assert_eq!(bytes_of(components), bytes_of(&edges(ComponentType::F32)));
}
