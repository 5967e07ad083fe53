use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeBinaryBuilder, FixedSizeListBuilder, Float32Builder, Float64Builder, LargeListBuilder,
    ListBuilder, StringBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, DictionaryArray,
    DurationSecondArray, Float64Array, Int64Array, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray, UnionArray,
};
use arrow_schema::{DataType, Field, Schema};
use serde_json::{Value, json};

use super::material::{converted, edges, many, one_column, options, said, shown, vectors};
use super::readers::tensor_header;
use super::{ComponentType, ConvertOptions, MappedColumns, convert};
use crate::columns::{ColumnRecord, ColumnsWriter};
use crate::read::VectorCells;
use crate::read::support::{self, Form, opened};
use crate::schema::{ColumnSet, ColumnsMeta};

/// Bits between two that are damaged: no multiple of eight, so that every place in a byte is met.
const STEP_BITS: usize = 8 * 29 + 1;

/// Columns of many types with nulls, and a vector of each form.
fn many_columns(rows: usize) -> RecordBatch {
    let each = || 0..rows as i64;
    let text = |row: i64| (row % 4 != 1).then(|| format!("\"text\" {row}\n"));
    let mut tags = ListBuilder::new(StringBuilder::new());
    let mut lists = ListBuilder::new(Float64Builder::new());
    let mut large = LargeListBuilder::new(Float32Builder::new());
    let mut bytes = FixedSizeBinaryBuilder::new(8);
    let mut fixed = FixedSizeListBuilder::new(Float32Builder::new(), 2);
    for row in each() {
        tags.append_option((row % 5 != 2).then(|| (0..row % 3).map(text).collect::<Vec<_>>()));
        let (x, y) = (row as f64 / 7.0, -0.0);
        lists.append_value([Some(x), Some(y)]);
        large.append_value([Some(x as f32), Some(y as f32)]);
        bytes.append_value([(x as f32).to_le_bytes(), (y as f32).to_le_bytes()].concat()).unwrap();
        fixed.values().append_slice(&[x as f32, y as f32]);
        fixed.append(row % 3 != 0);
    }
    let numbers: ArrayRef =
        Arc::new(each().map(|row| (row % 3 != 0).then_some(row)).collect::<Int64Array>());
    let nested = Field::new("n", DataType::Int64, true);
    let times = TimestampMicrosecondArray::from_iter_values(each()).with_timezone("UTC");
    let kinds: DictionaryArray<Int8Type> =
        each().map(|row| ["x", "y"].get(row as usize % 3).copied()).collect();
    let plain = support::batch(&[
        ("id", Arc::new(each().map(text).collect::<StringArray>()) as ArrayRef),
        ("kind", Arc::new(kinds)),
        ("at", Arc::new(times)),
        ("tags", Arc::new(tags.finish())),
        ("both", Arc::new(StructArray::new(vec![nested].into(), vec![numbers], None))),
        ("lists", Arc::new(lists.finish())),
        ("large", Arc::new(large.finish())),
        ("bytes", Arc::new(bytes.finish())),
        ("holes", Arc::new(fixed.finish())),
    ]);
    let metadata = [("made".to_owned(), "by a test".to_owned())].into();
    let schema = Schema::clone(&plain.schema()).with_metadata(metadata);
    RecordBatch::try_new(Arc::new(schema), plain.columns().to_vec()).unwrap()
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
    let before = [many_columns(70_000)];
    let input = support::write(folder.path(), Form::Arrow, &before);
    for column in ["lists", "large", "bytes"] {
        let options = ConvertOptions { column: Some(column), ..options() };
        convert(&input, &path("a.parquet"), &options).unwrap();
        convert(&path("a.parquet"), &path("b.arrow"), &options).unwrap();
        for (name, has_dictionary) in [("a.parquet", true), ("b.arrow", false)] {
            let after = support::read(&path(name));
            let file = opened(&path(name)).unwrap();
            assert_eq!(file.schema().metadata()["made"], "by a test", "{name}");
            for ((was, before_type), (is, after_type)) in
                types_of(&before).into_iter().zip(types_of(&after))
            {
                assert_eq!(was, is);
                if was == column {
                    let component = if column == "lists" { "Float64" } else { "Float32" };
                    let expected = format!("FixedSizeList(2 x non-null {component})");
                    assert_eq!(after_type.to_string(), expected);
                } else if was == "kind" && !has_dictionary {
                    assert_eq!(after_type, DataType::LargeUtf8);
                } else {
                    assert_eq!(after_type, before_type, "{name} {was}");
                    if was != "kind" {
                        assert!(shown(&after, &was) == shown(&before, &was), "{name} {was}");
                    }
                }
            }
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

fn write_records(path: &Path) -> ColumnsMeta {
    let meta = ColumnsMeta {
        model: Some("a-model".into()),
        normalised: true,
        source_hash: Some("ab12".into()),
        columns: ColumnSet::Records { text: true, lineage: false },
        ..ColumnsMeta::vectors(2)
    };
    let mut writer = ColumnsWriter::create(path, &meta).unwrap();
    for row in 0..66_000_i64 {
        let id = format!("m{row}");
        writer
            .push(&ColumnRecord {
                rowid: row * 3,
                id: &id,
                created_at: (row % 5 != 0).then_some(row),
                categories: &["a".into(), "b".into()],
                source: "agent",
                model: "a-model",
                text: (row % 7 != 0).then_some("a text"),
                vector: &[row as f32, -0.0],
                ..ColumnRecord::default()
            })
            .unwrap();
    }
    writer.finish().unwrap();
    meta
}

#[test]
fn column_files_stay_ours() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let meta = write_records(&path("a.arrow"));
    converted(&path("a.arrow"), &path("b.parquet"));
    converted(&path("b.parquet"), &path("c.arrow"));
    converted(&path("a.arrow"), &path("d.arrow"));
    let before = support::read(&path("a.arrow"));
    for name in ["c.arrow", "d.arrow"] {
        let columns = MappedColumns::open(&path(name)).unwrap();
        assert_eq!((columns.meta(), columns.len()), (&meta, 66_000));
        let after = support::read(&path(name));
        assert_eq!(types_of(&after), types_of(&before));
        for (column, _) in types_of(&before) {
            assert!(shown(&after, &column) == shown(&before, &column), "{name} {column}");
        }
    }
    let reader = crate::VectorFile::open(&path("b.parquet")).unwrap();
    assert_eq!((reader.meta(), reader.len()), (Some(meta), 66_000));
    let made = converted(&path("b.parquet"), &path("e.safetensors"));
    assert_eq!(made.columns_left_out.len(), 10);
    let (header, _) = tensor_header(&std::fs::read(path("e.safetensors")).unwrap());
    let kept = &header["__metadata__"];
    assert_eq!(kept["memfold.model"], "a-model");
    assert_eq!(kept["memfold.normalised"], "true");
}

#[test]
fn what_is_known_of_bare_vectors_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let stated = ColumnsMeta { normalised: true, ..ColumnsMeta::vectors(3) };
    let own = Schema::new(vec![Field::new("vector", DataType::Null, true)])
        .with_metadata(stated.arrow_schema().metadata().clone());
    for (dim, is_normalised) in [(3, true), (2, false)] {
        let source = support::read(&many(folder.path(), 4, dim)).remove(0);
        let mut metadata = own.metadata().clone();
        metadata.insert("made".to_owned(), "by a test".to_owned());
        let schema = Schema::clone(&source.schema()).with_metadata(metadata);
        let batch = RecordBatch::try_new(Arc::new(schema), source.columns().to_vec()).unwrap();
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
    let input = support::write(folder.path(), Form::Arrow, &[many_columns(3)]);
    let made =
        convert(&input, &output, &ConvertOptions { column: Some("lists"), ..options() }).unwrap();
    assert_eq!((made.rows, made.columns_left_out.len()), (3, 0));
    let text = std::fs::read_to_string(&output).unwrap();
    let second = r#"{"id":null,"kind":"y","at":"1970-01-01T00:00:00.000001Z","tags":["\"text\" 0\n"],"both":{"n":1},"lists":[0.14285714285714285,-0.0],"large":[0.14285715,-0.0],"bytes":"2549123e00000080","holes":[0.14285715,-0.0]}"#;
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
fn no_flipped_bit_makes_it_panic() {
    let folder = tempfile::tempdir().unwrap();
    let whole = support::write(folder.path(), Form::Arrow, &[many_columns(5)]);
    let bytes = std::fs::read(whole).unwrap();
    let input = folder.path().join("damaged.arrow");
    let mut converted = 0;
    for position in (0..bytes.len() * 8).step_by(STEP_BITS) {
        let mut damaged = bytes.clone();
        damaged[position / 8] ^= 1 << (position % 8);
        std::fs::write(&input, &damaged).unwrap();
        for name in ["a.arrow", "a.parquet", "a.jsonl", "a.npy"] {
            let options = ConvertOptions { column: Some("lists"), ..options() };
            converted += usize::from(convert(&input, &folder.path().join(name), &options).is_ok());
        }
    }
    assert!(converted > 0);
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
    assert_eq!(super::bytes_of(components), super::bytes_of(&edges(ComponentType::F32)));
}
