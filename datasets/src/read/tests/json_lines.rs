//! Columns from JSON lines, also compared with `serde_json` on the same lines.

use arrow_array::types::UInt64Type;
use arrow_select::concat::concat;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

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
    let values = vectors_in(&path, None).unwrap();
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
    let error = vectors_in(&path, None).unwrap_err();
    assert!(error.to_string().ends_with("row 1: the vector is null"), "{error}");
}

#[test]
fn another_field_may_hold_the_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_lines(folder.path(), "{\"e5\":[1,2],\"x\":[1]}\n{\"e5\":[3,4],\"x\":[]}\n");
    assert_eq!(vectors_in(&path, Some("e5")).unwrap(), [1.0, 2.0, 3.0, 4.0]);
    let error = vectors_in(&path, None).unwrap_err().to_string();
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
    // Parsed rows need the file no more.
    std::fs::remove_file(&path).unwrap();
    let vectors = file.batches(&[2], DECODE_ROWS).unwrap().map(|batch| batch.unwrap());
    let vectors: Vec<f32> = vectors.flat_map(|batch| values_of(batch.column(0))).collect();
    assert_eq!(vectors[2 * 4_999..], [4_999.0, 1.0]);
}

/// Chunks of lines are parsed on their own; the facts of earlier lines apply all the same.
#[test]
fn later_chunk_is_held_to_what_the_first_lines_say() {
    let folder = tempfile::tempdir().unwrap();
    let many = "{\"vector\":[1,2]}\n".repeat(3000);
    for (line, expected) in [
        ("{\"vector\":[1,2,3]}", "vector has 3 components, expected 2 as on line 1 (column 17)"),
        ("{\"vector\":[1,2,3]", "vector has 3 components, expected 2 as on line 1 (column 17)"),
        ("{\"vector\":[1,2]", "EOF while parsing an object (column 15)"),
    ] {
        let path = write_lines(folder.path(), &format!("{many}{line}\n{many}{{\n"));
        let error = opened(&path).unwrap_err().to_string();
        assert!(error.contains("line 3001: ") && error.ends_with(expected), "{error}");
    }
    let fields = |at: usize| (0..3000).map(|i| format!("\"f{}\":1", i + at)).collect::<Vec<_>>();
    let [first, second] = [0, 1500].map(|at| format!("{{{}}}\n", fields(at).join(",")));
    let path = write_lines(folder.path(), &format!("{first}{}{second}", "\n".repeat(2000)));
    let error = opened(&path).unwrap_err().to_string();
    assert!(error.contains("line 2002: more than 4096 different fields"), "{error}");
}

fn value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        (-3_i64..3).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e6..1e6_f64).prop_map(Value::from),
    ];
    let plain = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number.clone(),
        "[a-z\"\\\\ü🦀\n]{0,6}".prop_map(Value::from),
    ];
    prop_oneof![
        6 => plain.clone(),
        1 => prop::collection::vec("[a-z]{0,3}".prop_map(Value::from), 0..3).prop_map(Value::from),
        1 => prop::collection::vec(number, 0..3).prop_map(Value::from),
        1 => prop::collection::vec(plain.clone(), 0..3).prop_map(Value::from),
        1 => prop::collection::btree_map("[a-c]", plain, 0..3)
            .prop_map(|map| Value::Object(map.into_iter().collect())),
    ]
}

/// Rows with fields of any kinds, or mostly of one each.
fn rows() -> impl Strategy<Value = Vec<Map<String, Value>>> {
    let row = prop::collection::btree_map("[a-e]", value(), 0..5);
    let row = (row, prop::option::of([-10.0..10.0_f32, -1.0..1.0_f32]));
    let row = row.prop_map(|(fields, vector)| {
        let mut row: Map<String, Value> = fields.into_iter().collect();
        row.extend(vector.map(|vector| ("emb".to_owned(), json!(vector))));
        row
    });
    prop::collection::vec(row, 1..12)
}

/// Tells whether a cell holds `value`, as the type of its column allows.
fn holds(column: &ArrayRef, row: usize, value: &Value) -> bool {
    if column.is_null(row) || value.is_null() {
        return column.is_null(row) && value.is_null();
    }
    match column.data_type() {
        DataType::Boolean => value.as_bool() == Some(column.as_boolean().value(row)),
        DataType::Int64 => value.as_i64() == Some(column.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => value.as_u64() == Some(column.as_primitive::<UInt64Type>().value(row)),
        DataType::Float64 => {
            value.as_f64() == Some(column.as_primitive::<Float64Type>().value(row))
        }
        DataType::Utf8 => {
            let text = column.as_string::<i32>().value(row);
            match value {
                Value::String(expected) => text == expected,
                other => serde_json::from_str::<Value>(text).is_ok_and(|found| found == *other),
            }
        }
        DataType::List(_) => {
            let (items, values) = (column.as_list::<i32>().value(row), value.as_array());
            values.is_some_and(|values| {
                values.len() == items.len()
                    && values.iter().enumerate().all(|(i, value)| holds(&items, i, value))
            })
        }
        _ => false,
    }
}

proptest! {
    #[test]
    fn every_cell_holds_its_value(rows in rows(), at in any::<prop::sample::Index>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let lines: Vec<String> =
            rows.iter().map(|row| serde_json::to_string(row).unwrap()).collect();
        // Blank lines between two of the rows, so that these are in different chunks.
        let (before, after) = lines.split_at(at.index(lines.len() + 1));
        let blank = "\n".repeat(1024 * (at.index(4) / 2));
        let lines = [before.join("\n"), blank, after.join("\n")];
        std::fs::write(&path, lines.join("\n")).unwrap();
        let file = opened(&path).unwrap();
        prop_assert_eq!(file.row_count(), rows.len());
        for (position, field) in file.schema().fields().iter().enumerate() {
            let batches: Vec<RecordBatch> =
                file.batches(&[position], DECODE_ROWS).unwrap().map(Result::unwrap).collect();
            let columns: Vec<&dyn Array> = batches.iter().map(|batch| &**batch.column(0)).collect();
            let column = &concat(&columns).unwrap();
            prop_assert_eq!(field.is_nullable(), column.null_count() > 0);
            for (i, row) in rows.iter().enumerate() {
                let value = row.get(field.name()).unwrap_or(&Value::Null);
                if field.name() == "emb" && value.is_array() {
                    let found: Vec<f32> = serde_json::from_value(value.clone()).unwrap();
                    prop_assert_eq!(values_of(column)[2 * i..][..2].to_vec(), found);
                } else {
                    prop_assert!(holds(column, i, value), "{} of {column:?}", value);
                }
            }
        }
    }
}
