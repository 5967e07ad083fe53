use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use proptest::prelude::*;

use super::*;
use crate::read::support::opened;
use crate::read::support::read;

fn u64s(batch: &RecordBatch, name: &str) -> Vec<u64> {
    batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>().values().to_vec()
}

fn bits(batch: &RecordBatch, name: &str) -> Vec<u64> {
    let column = batch.column_by_name(name).unwrap().as_primitive::<Float64Type>();
    column.values().iter().map(|value| value.to_bits()).collect()
}

proptest! {
    #[test]
    fn pairs_come_back(
        pairs in prop::collection::vec((any::<u64>(), any::<u64>(), any::<f64>()), 0..200),
        threshold_column: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pairs.parquet");
        let options = ResultOptions { thresholds: &[0.85, 0.9], threshold_column };
        let mut writer = PairsWriter::create(&path, &options, PairsForm::All).unwrap();
        for &(left, right, similarity) in &pairs {
            writer.push(PairRow { threshold: 0.9, left, right, similarity }).unwrap();
        }
        prop_assert_eq!(writer.finish().unwrap(), pairs.len() as u64);
        let mut found = Vec::new();
        for batch in read(&path) {
            prop_assert_eq!(batch.column_by_name("threshold").is_some(), threshold_column);
            let rows = u64s(&batch, "left").into_iter().zip(u64s(&batch, "right"));
            found.extend(rows.zip(bits(&batch, "similarity")));
        }
        let expected: Vec<((u64, u64), u64)> =
            pairs.iter().map(|&(left, right, s)| ((left, right), s.to_bits())).collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn portions_make_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.parquet");
    let options = ResultOptions { thresholds: &[0.9], threshold_column: false };
    let mut writer = PairsWriter::create(&path, &options, PairsForm::Distinct).unwrap();
    let count = 2 * 65_536 + 3;
    for left in 0..count {
        let pair = PairRow { threshold: 0.9, left, right: left + 1, similarity: 0.95 };
        writer.push(pair).unwrap();
    }
    assert!(!path.exists());
    assert_eq!(writer.finish().unwrap(), count);
    let found: Vec<u64> = read(&path).iter().flat_map(|batch| u64s(batch, "left")).collect();
    assert!(found.into_iter().eq(0..count));
}

#[test]
fn files_say_what_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clusters.parquet");
    let options = ResultOptions { thresholds: &[0.85, 0.9], threshold_column: true };
    let mut writer = ClustersWriter::create(&path, &options, true).unwrap();
    for (row, id) in [(3, Some("a")), (9, None)] {
        let member = ClusterRow { threshold: 0.85, row, cluster: 3, similarity: 1.0, id };
        writer.push(member).unwrap();
    }
    writer.finish().unwrap();
    let batch = &read(&path)[0];
    let schema = batch.schema();
    let columns: Vec<(&str, &DataType, bool)> = schema
        .fields()
        .iter()
        .map(|field| (field.name().as_str(), field.data_type(), field.is_nullable()))
        .collect();
    assert_eq!(
        columns,
        [
            ("threshold", &DataType::Float64, false),
            ("row", &DataType::UInt64, false),
            ("cluster", &DataType::UInt64, false),
            ("similarity", &DataType::Float64, false),
            ("id", &DataType::Utf8, true),
        ]
    );
    let ids = batch.column_by_name("id").unwrap().as_string::<i32>();
    assert_eq!((ids.value(0), ids.is_null(1)), ("a", true));
    let file = opened(&path).unwrap();
    let metadata = file.schema().metadata();
    for (name, value) in [
        (key::SCHEMA_VERSION, "1"),
        (key::KIND, "clusters"),
        (key::THRESHOLD, "0.85,0.9"),
        (key::ROW_COUNT, "2"),
    ] {
        assert_eq!(metadata.get(name).map(String::as_str), Some(value), "{name}");
    }
}

#[test]
fn a_file_without_rows_has_its_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pairs.parquet");
    let options = ResultOptions { thresholds: &[0.9], threshold_column: false };
    assert_eq!(PairsWriter::create(&path, &options, PairsForm::All).unwrap().finish().unwrap(), 0);
    let file = opened(&path).unwrap();
    let names: Vec<String> =
        file.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(
        (file.row_count(), names),
        (0, vec!["left".into(), "right".into(), "similarity".into()])
    );
}

#[test]
fn a_missing_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing/pairs.parquet");
    let options = ResultOptions { thresholds: &[0.9], threshold_column: false };
    let error = PairsWriter::create(&path, &options, PairsForm::All).err().unwrap();
    assert!(error.to_string().starts_with(&format!("{}: ", path.display())), "{error}");
    assert_eq!(error.hint().as_deref(), Some("create the folder first"));
}
