//! What JSON lines become.

use arrow_array::types::UInt64Type;
use arrow_schema::DataType;

use super::super::support::{fixture, read};
use super::*;
use crate::VectorFile;

fn write_lines(folder: &Path, text: &str) -> std::path::PathBuf {
    let path = folder.join("rows.jsonl");
    std::fs::write(&path, text).unwrap();
    path
}

fn type_of(file: &dyn Source, name: &str) -> (DataType, bool) {
    let field = file.schema().field_with_name(name).unwrap();
    (field.data_type().clone(), field.is_nullable())
}

fn texts(column: &ArrayRef) -> Vec<Option<&str>> {
    column.as_string::<i32>().iter().collect()
}

#[test]
fn fields_become_columns_of_the_narrowest_type() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_lines(
        folder.path(),
        concat!(
            r#"{"flag":true,"n":-3,"big":18446744073709551615,"x":1,"t":"a\u00fc","mixed":1,"none":null}"#,
            "\r\n\n   \n",
            r#"{"tags":["x",null],"nums":[1,2.5],"meta":{"k":[1, 2.50]},"mixed":"s","x":0.5,"big":1,"n":4}"#,
            "\n",
            r#"{"flag":false,"tags":[],"nums":[],"list":[1,"a"],"mixed":[true],"t":"b"}"#,
        ),
    );
    let file = opened(&path).unwrap();
    assert_eq!(file.row_count(), 3);
    let list = |item| DataType::new_list(item, true);
    for (name, data_type) in [
        ("flag", DataType::Boolean),
        ("n", DataType::Int64),
        ("big", DataType::UInt64),
        ("x", DataType::Float64),
        ("t", DataType::Utf8),
        ("mixed", DataType::Utf8),
        ("none", DataType::Utf8),
        ("tags", list(DataType::Utf8)),
        ("nums", list(DataType::Float64)),
        ("meta", DataType::Utf8),
        ("list", DataType::Utf8),
    ] {
        assert_eq!(type_of(&*file, name), (data_type, name != "mixed"), "{name}");
    }
    let batch = &read(&path)[0];
    let column = |name: &str| batch.column_by_name(name).unwrap();
    assert_eq!(texts(column("mixed")), [Some("1"), Some("s"), Some("[true]")]);
    assert_eq!(texts(column("t")), [Some("aü"), None, Some("b")]);
    assert_eq!(texts(column("meta")), [None, Some(r#"{"k":[1, 2.50]}"#), None]);
    assert_eq!(texts(column("list")), [None, None, Some(r#"[1,"a"]"#)]);
    assert_eq!(column("none").null_count(), 3);
    assert_eq!(column("big").as_primitive::<UInt64Type>().values()[..2], [u64::MAX, 1]);
    assert_eq!(column("x").as_primitive::<Float64Type>().values()[..2], [1.0, 0.5]);
    assert_eq!(column("n").as_primitive::<Int64Type>().values()[..2], [-3, 4]);
    let tags = column("tags").as_list::<i32>();
    assert!(tags.is_null(0));
    assert_eq!(texts(&tags.value(1)), [Some("x"), None]);
    assert_eq!((tags.is_valid(2), tags.value(2).len()), (true, 0));
}

#[test]
fn files_of_another_program_are_read() {
    for name in ["jsonl/python.jsonl", "jsonl/python_utf8.ndjson"] {
        let batch = &read(&fixture(name))[0];
        let names: Vec<String> =
            batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["id", "vector", "text", "tags", "score", "seen", "meta"]);
        assert_eq!(texts(batch.column(0)), [Some("a"), Some("b"), Some("c")]);
        let expected = [Some("erste Zeile: ü"), None, Some("\u{2028} 🦀")];
        assert_eq!(texts(batch.column(2)), expected, "{name}");
        assert_eq!(texts(batch.column(6))[2], Some(r#"{"k": [1, null]}"#));
    }
}

#[test]
fn components_are_rounded_once() {
    let folder = tempfile::tempdir().unwrap();
    // The second lies just above the middle of two neighbours; by way of f64 it would be the lower.
    let written = "[0.1, 1.00000005960464477539062500001, 16777217, 1e-46, -3.4028235e38]";
    let path = write_lines(folder.path(), &format!("{{\"emb\":{written}}}"));
    let values = VectorFile::open(&path).unwrap().read_all().unwrap();
    assert_eq!(values, [0.1, 1.000_000_1, 16_777_216.0, 0.0, f32::MIN]);
}

#[test]
fn rows_without_a_vector_are_null() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_lines(
        folder.path(),
        "{\"vector\":[1,2]}\n{\"vector\":null}\n{\"id\":3}\n{\"vector\":[3,4]}\n",
    );
    let file = opened(&path).unwrap();
    assert!(type_of(&*file, "vector").1);
    let batch = &read(&path)[0];
    let vectors = batch.column_by_name("vector").unwrap();
    assert_eq!((0..4).map(|i| vectors.is_null(i)).collect::<Vec<_>>(), [false, true, true, false]);
    assert_eq!(values_of(vectors)[6..], [3.0, 4.0]);
    let error = VectorFile::open(&path).unwrap().read_all().unwrap_err();
    assert!(error.to_string().ends_with("row 1: the vector is null"), "{error}");
}

#[test]
fn another_field_may_hold_the_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_lines(folder.path(), "{\"e5\":[1,2],\"x\":[1]}\n{\"e5\":[3,4],\"x\":[]}\n");
    let vectors = VectorFile::open_member(&path, Some("e5")).unwrap();
    assert_eq!(vectors.read_all().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    let error = VectorFile::open(&path).unwrap_err().to_string();
    let expected = "no column vector, embedding, embeddings, emb, found \"e5\" (List(Float64)), \
                    \"x\" (List(Float64))";
    assert!(error.ends_with(expected), "{error}");
}

#[test]
fn some_rows_are_found_behind_many() {
    let folder = tempfile::tempdir().unwrap();
    let lines: String =
        (0..5000).map(|row| format!("{{\"n\":{row},\"t\":\"text {row}\"}}\n")).collect();
    let path = write_lines(folder.path(), &lines);
    let file = opened(&path).unwrap();
    let rows = [0, 1, 1023, 1024, 3000, 3001, 4999];
    let batches = file.batches_of_rows(1, &rows).unwrap();
    let found: Vec<&str> = batches.iter().map(|batch| texts(batch.column(0))[0].unwrap()).collect();
    assert_eq!(found, rows.map(|row| format!("text {row}")));
    let batches: Vec<_> = file.batches(&[0], DECODE_ROWS).unwrap().map(Result::unwrap).collect();
    assert!(batches.iter().all(|batch| batch.num_rows() <= 1024 && batch.num_columns() == 1));
    let numbers: Vec<i64> = batches
        .iter()
        .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
        .collect();
    assert_eq!(numbers, (0..5000).collect::<Vec<i64>>());
}

#[test]
fn a_file_without_rows_has_no_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_lines(folder.path(), "\n \n");
    let file = opened(&path).unwrap();
    assert_eq!((file.row_count(), file.schema().fields().len()), (0, 0));
    assert_eq!(file.batches(&[], DECODE_ROWS).unwrap().count(), 0);
}

#[test]
fn many_rows_are_kept_in_a_file_and_typed_by_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    // More than memory keeps: 40 columns of texts, and a column that is a fraction at last.
    let filler = "x".repeat(20_000);
    let rows = 5_000;
    let mut lines = String::new();
    for row in 0..rows {
        let n = if row + 1 == rows { "0.5".to_owned() } else { row.to_string() };
        lines.push_str(&format!("{{\"n\":{n},\"t\":\"{filler}\",\"vector\":[{row},1]}}\n"));
    }
    let path = write_lines(folder.path(), &lines);
    let file = opened(&path).unwrap();
    assert_eq!(type_of(&*file, "n"), (DataType::Float64, false));
    let numbers: Vec<f64> = file
        .batches(&[0], DECODE_ROWS)
        .unwrap()
        .flat_map(|batch| batch.unwrap().column(0).as_primitive::<Float64Type>().values().to_vec())
        .collect();
    assert_eq!((numbers.len(), numbers[4_000], numbers[rows - 1]), (rows, 4_000.0, 0.5));
    let text = file.batches_of_rows(1, &[4_500]).unwrap();
    assert_eq!(texts(text[0].column(0)), [Some(&*filler)]);
    // What was parsed needs the file no more.
    std::fs::remove_file(&path).unwrap();
    let vectors = file.batches(&[2], DECODE_ROWS).unwrap().map(|batch| batch.unwrap());
    let vectors: Vec<f32> = vectors.flat_map(|batch| values_of(batch.column(0))).collect();
    assert_eq!(vectors[2 * 4_999..], [4_999.0, 1.0]);
}
