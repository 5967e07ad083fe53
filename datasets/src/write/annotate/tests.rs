use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{FixedSizeListBuilder, Float32Builder, ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int8Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, StringViewArray,
    StructArray, TimestampMicrosecondArray,
};
use arrow_schema::{DataType, Field, Schema};
use memfold_index::{NoProgress, Progress, Row};
use proptest::prelude::*;

use super::*;
use crate::npy::{Component, NpyWriter};
use crate::read::corpus::{Corpus, CorpusOptions};
use crate::read::support::opened;
use crate::read::support::{Form, ROWS, batch, fixture, read, write, write_as};

const FORMATS: [&str; 2] = ["copy.parquet", "copy.arrow"];

fn open(paths: &[PathBuf]) -> Corpus {
    Corpus::open(paths, &CorpusOptions::new(&std::env::temp_dir())).unwrap()
}

/// Kept rows in clusters of `size`, the last of each its survivor; a rest is in none.
fn in_groups(corpus: &Corpus, size: u32) -> impl Fn(Row) -> Option<Membership> {
    let whole = corpus.matrix().len() as u32 / size * size;
    move |row| {
        let survivor = Row(row.0 / size * size + size - 1);
        (row.0 < whole).then(|| Membership {
            survivor,
            size: u64::from(size),
            similarity: 1.0 / f64::from(1 + survivor.0 - row.0),
        })
    }
}

fn vectors(rows: std::ops::Range<i64>) -> ArrayRef {
    let mut builder = FixedSizeListBuilder::new(Float32Builder::new(), 2);
    for row in rows {
        // Every seventh row is skipped.
        builder.values().append_slice(&[if row % 7 == 3 { 0.0 } else { 1.0 }, 0.0]);
        builder.append(true);
    }
    Arc::new(builder.finish())
}

/// Columns of many types with nulls, for the rows `rows`.
fn many_columns(rows: std::ops::Range<i64>) -> RecordBatch {
    let text = |row: i64| (row % 4 != 1).then(|| format!("a text of some length {row}"));
    let mut tags = ListBuilder::new(StringBuilder::new());
    for row in rows.clone() {
        tags.append_option((row % 5 != 2).then(|| (0..row % 3).map(text).collect::<Vec<_>>()));
    }
    let numbers: ArrayRef =
        Arc::new(rows.clone().map(|row| (row % 3 != 0).then_some(row)).collect::<Int64Array>());
    let nested = Field::new("n", DataType::Int64, true);
    let times = TimestampMicrosecondArray::from_iter_values(rows.clone()).with_timezone("UTC");
    let dictionary: DictionaryArray<Int8Type> =
        rows.clone().map(|row| ["x", "y"].get(row as usize % 3).copied()).collect();
    let plain = batch(&[
        ("id", Arc::new(rows.clone().map(text).collect::<StringArray>()) as ArrayRef),
        ("view", Arc::new(rows.clone().map(text).collect::<StringViewArray>())),
        ("kind", Arc::new(dictionary)),
        ("at", Arc::new(times)),
        ("tags", Arc::new(tags.finish())),
        ("both", Arc::new(StructArray::new(vec![nested].into(), vec![numbers], None))),
        ("vector", vectors(rows)),
    ]);
    let metadata = [("made".to_owned(), "by a test".to_owned())].into();
    let schema = Schema::clone(&plain.schema()).with_metadata(metadata);
    RecordBatch::try_new(Arc::new(schema), plain.columns().to_vec()).unwrap()
}

/// Returns every row of a column as text, whatever its encoding.
fn shown(batches: &[RecordBatch], column: &str) -> Vec<String> {
    let mut all = Vec::new();
    for batch in batches {
        let values = batch.column_by_name(column).unwrap();
        match crate::read::Texts::of(values) {
            Some(texts) => all.extend((0..values.len()).map(|i| format!("{:?}", texts.get(i)))),
            None => all.extend((0..values.len()).map(|i| format!("{:?}", values.slice(i, 1)))),
        }
    }
    all
}

fn annotated(corpus: &Corpus, output: &Path, size: u32) -> Vec<RecordBatch> {
    let membership = in_groups(corpus, size);
    let written = annotate(corpus, output, &membership, &NoProgress).unwrap();
    assert_eq!(written, corpus.rows());
    read(output)
}

/// Checks the added columns against what they should say.
fn check_added(corpus: &Corpus, batches: &[RecordBatch], size: u32) {
    let membership = in_groups(corpus, size);
    let mut ordinal = 0;
    for batch in batches {
        let column = |name| batch.column_by_name(name).unwrap();
        let clusters = column("cluster").as_primitive::<UInt64Type>();
        let sizes = column("cluster_size").as_primitive::<UInt64Type>();
        let similarities = column("cluster_similarity").as_primitive::<Float64Type>();
        for i in 0..batch.num_rows() {
            let row = corpus.row_at(ordinal);
            let member = row.and_then(&membership);
            let cluster = clusters.is_valid(i).then(|| clusters.value(i));
            assert_eq!(cluster, member.map(|member| corpus.ordinal(member.survivor)));
            assert_eq!(sizes.is_valid(i).then(|| sizes.value(i)), member.map(|member| member.size));
            let similarity = similarities.is_valid(i).then(|| similarities.value(i).to_bits());
            assert_eq!(similarity, member.map(|member| member.similarity.to_bits()));
            let survives = column("is_survivor").as_boolean().value(i);
            assert_eq!(survives, cluster.is_none_or(|cluster| cluster == ordinal), "{ordinal}");
            ordinal += 1;
        }
    }
    assert_eq!(ordinal, corpus.rows());
}

#[test]
fn every_column_comes_back_from_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let parts = [many_columns(0..30), many_columns(30..31), many_columns(31..80)];
    for form in [Form::Parquet, Form::ArrowStream] {
        let path = write(folder.path(), form, &parts);
        let corpus = open(std::slice::from_ref(&path));
        assert_eq!(corpus.skipped().len(), 11);
        for name in FORMATS {
            let copy = annotated(&corpus, &folder.path().join(name), 3);
            check_added(&corpus, &copy, 3);
            let file = opened(&folder.path().join(name)).unwrap();
            let (before, after) = (parts[0].schema(), file.schema());
            assert_eq!(after.fields().len(), before.fields().len() + COLUMN_NAMES.len());
            assert_eq!(after.metadata()["made"], "by a test", "{form:?} {name}");
            for (field, kept) in before.fields().iter().zip(after.fields()) {
                let column = field.name();
                assert_eq!(shown(&copy, column), shown(&parts, column), "{form:?} {name} {column}");
                let is_same = kept.data_type() == field.data_type();
                assert!(is_same || (column == "kind" && name.ends_with("arrow")), "{column}");
            }
        }
    }
}

#[test]
fn large_batches_are_copied_in_portions() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), Form::Arrow, &[many_columns(0..70_000)]);
    let corpus = open(&[path]);
    let parts = [many_columns(0..70_000)];
    let length = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();
    for name in FORMATS {
        let copy = annotated(&corpus, &folder.path().join(name), 4);
        check_added(&corpus, &copy, 4);
        for column in ["id", "view", "tags", "vector"] {
            assert!(shown(&copy, column) == shown(&parts, column), "{name} {column}");
        }
    }
    // Views of a portion do not bring the texts of the whole batch along.
    assert!(length("copy.arrow") < length("rows.arrow") * 3 / 2);
}

#[test]
fn several_files_become_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let parts = [many_columns(0..9), many_columns(9..20), many_columns(20..21)];
    write_as(&path("a"), Form::Parquet, &parts[..1]);
    write_as(&path("b"), Form::ArrowZstd, &parts[1..2]);
    write_as(&path("c"), Form::Arrow, &parts[2..]);
    let corpus = open(&["a", "b", "c"].map(path));
    for name in FORMATS {
        let copy = annotated(&corpus, &path(name), 2);
        check_added(&corpus, &copy, 2);
        for column in ["id", "view", "kind", "at", "tags", "both", "vector"] {
            assert_eq!(shown(&copy, column), shown(&parts, column), "{name} {column}");
        }
    }
}

#[test]
fn files_of_other_programs_are_copied() {
    let folder = tempfile::tempdir().unwrap();
    let arrow = std::fs::read_dir(fixture("arrow")).unwrap().map(|entry| entry.unwrap().path());
    let parquet = ["list_f32", "fixed_list_f16", "fixed_binary", "two_vectors"]
        .map(|name| fixture(&format!("parquet/{name}.parquet")));
    for path in arrow.chain(parquet) {
        let (corpus, before) = (open(std::slice::from_ref(&path)), read(&path));
        for name in FORMATS {
            let copy = annotated(&corpus, &folder.path().join(name), 2);
            check_added(&corpus, &copy, 2);
            for field in before[0].schema().fields() {
                let column = field.name();
                let path = path.display();
                assert_eq!(shown(&copy, column), shown(&before, column), "{path} {name} {column}");
            }
        }
    }
}

#[test]
fn npy_rows_get_their_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.npy");
    let mut writer = NpyWriter::create(&path, 3, Component::F32).unwrap();
    writer.push(&ROWS).unwrap();
    writer.push(&[0.0; 3]).unwrap();
    writer.finish().unwrap();
    let corpus = open(&[path.clone(), path]);
    for name in FORMATS {
        let copy = annotated(&corpus, &folder.path().join(name), 2);
        check_added(&corpus, &copy, 2);
        let numbers = copy
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<UInt64Type>().values().to_vec());
        assert!(numbers.eq(0..8), "{name}");
        let values: Vec<f32> = copy
            .iter()
            .flat_map(|batch| {
                let list = batch.column_by_name("vector").unwrap().as_fixed_size_list();
                list.values().as_primitive::<Float32Type>().values().to_vec()
            })
            .collect();
        assert_eq!(values, [&ROWS[..], &[0.0; 3], &ROWS, &[0.0; 3]].concat(), "{name}");
    }
}

#[test]
fn the_copy_holds_the_array_that_was_compared() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        CorpusOptions { vector_column: Some("a".into()), ..CorpusOptions::new(folder.path()) };
    let corpus = Corpus::open(&[fixture("npz/numpy_unnamed.npz")], &options).unwrap();
    let copy = annotated(&corpus, &folder.path().join("copy.parquet"), 2);
    let vectors = copy[0].column_by_name("vector").unwrap().as_fixed_size_list();
    assert_eq!(vectors.values().as_primitive::<Float32Type>().values(), &ROWS);
}

#[test]
fn a_file_without_rows_has_its_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), Form::Parquet, &[many_columns(0..0)]);
    let corpus = open(&[path]);
    for name in FORMATS {
        let output = folder.path().join(name);
        assert_eq!(annotate(&corpus, &output, &|_| None, &NoProgress).unwrap(), 0);
        let file = opened(&output).unwrap();
        assert_eq!((file.row_count(), file.schema().fields().len()), (0, 11), "{name}");
    }
}

#[test]
fn nothing_is_written_when_inputs_do_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let names: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
    let more: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let vector = || ("vector", vectors(0..2));
    write_as(&path("a"), Form::Parquet, &[batch(&[vector(), ("n", names.clone())])]);
    write_as(&path("b"), Form::Parquet, &[batch(&[vector(), ("n", more.clone())])]);
    write_as(&path("c"), Form::Arrow, &[batch(&[vector()])]);
    write_as(&path("d"), Form::Arrow, &[batch(&[vector(), ("is_survivor", more)])]);
    let said = |inputs: &[&str], output: &str| {
        let corpus = open(&inputs.iter().map(|name| path(name)).collect::<Vec<_>>());
        let error = annotate(&corpus, &path(output), &|_| None, &NoProgress).unwrap_err();
        assert!(error.hint().is_some(), "{error}");
        let folder = format!("{}/", folder.path().display());
        error.to_string().replace(&folder, "")
    };
    assert_eq!(
        said(&["a", "b"], "o.parquet"),
        r#"b: column 1 is "n" (Int64), expected column 1 is "n" (Utf8) as in a"#
    );
    assert_eq!(said(&["a", "c"], "o.parquet"), "c: 1 columns, expected 2 columns as in a");
    assert_eq!(said(&["d"], "o.arrow"), r#"d: there is a column "is_survivor" already"#);
    assert_eq!(
        said(&["a"], "o.csv"),
        "o.csv: unknown extension, expected .parquet, .pq, .arrow, .ipc or .feather"
    );
    write_as(&path("e.parquet"), Form::Parquet, &[batch(&[vector()])]);
    assert_eq!(said(&["e.parquet"], "e.parquet"), "e.parquet: the copy would replace an input");
    let missing = said(&["a"], "missing/o.arrow");
    assert!(missing.starts_with("missing/o.arrow: "), "{missing}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 5);
}

/// Asks to stop after the first portion.
#[derive(Default)]
struct StopSoon(std::sync::atomic::AtomicBool);

impl Progress for StopSoon {
    fn begin(&self, _stage: &'static str, _total: Option<u64>) {}
    fn advance(&self, _done: u64) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
    fn end(&self) {}
    fn cancelled(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[test]
fn an_interrupted_copy_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), Form::Parquet, &[many_columns(0..3000)]);
    let corpus = open(&[path]);
    for name in FORMATS {
        let stopped = annotate(&corpus, &folder.path().join(name), &|_| None, &StopSoon::default());
        assert!(matches!(stopped, Err(DataError::Cancelled)));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        lengths in prop::collection::vec(0_i64..40, 1..5),
        size in 1_u32..5,
        form in prop::sample::select(Form::ALL.to_vec()),
        name in prop::sample::select(FORMATS.to_vec()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut start = 0;
        let parts: Vec<RecordBatch> = lengths
            .iter()
            .map(|length| {
                start += length;
                many_columns(start - length..start)
            })
            // Arrow files have one dictionary for each column, so theirs must be the same.
            .map(|part| part.project(&[0, 1, 3, 4, 5, 6]).unwrap())
            .collect();
        let corpus = open(&[write(folder.path(), form, &parts)]);
        let copy = annotated(&corpus, &folder.path().join(name), size);
        check_added(&corpus, &copy, size);
        if corpus.rows() > 0 {
            for column in ["id", "view", "at", "tags", "both", "vector"] {
                prop_assert_eq!(shown(&copy, column), shown(&parts, column));
            }
        }
    }
}
