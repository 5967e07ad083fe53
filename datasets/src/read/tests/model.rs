//! JSON lines against what `serde_json` makes of the same lines.

use arrow_array::types::UInt64Type;
use arrow_schema::DataType;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

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

/// Rows whose fields are of any kinds, or mostly of one each.
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
    fn every_cell_holds_its_value(rows in rows()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        let lines: Vec<String> =
            rows.iter().map(|row| serde_json::to_string(row).unwrap()).collect();
        std::fs::write(&path, lines.join("\n")).unwrap();
        let file = opened(&path).unwrap();
        prop_assert_eq!(file.row_count(), rows.len());
        for (position, field) in file.schema().fields().iter().enumerate() {
            let batch = file.batches(&[position], DECODE_ROWS).unwrap().next().unwrap().unwrap();
            let column = batch.column(0);
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
