//! Ids, order and texts of a corpus.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, DictionaryArray, Float64Array, Int32Array,
    Int64Array, LargeStringArray, ListArray, StringArray, StringViewArray,
    TimestampMicrosecondArray, TimestampSecondArray, UInt64Array,
};
use memfold_index::Row;

use super::{Cell, cells, list_f64, npy, one, open};
use crate::DataError;
use crate::read::corpus::{Corpus, CorpusOptions};
use crate::read::support::{Form, batch, write_as};

#[test]
fn ids_are_text_of_any_type() {
    let folder = tempfile::tempdir().unwrap();
    let vectors = || list_f64(&cells(&[&[1.0, 0.0], &[0.0, 0.0], &[2.0, 0.0], &[3.0, 0.0]]));
    let dictionary: DictionaryArray<Int8Type> =
        [Some("x"), None, Some("y"), None].into_iter().collect();
    let columns: [(ArrayRef, [Option<&str>; 3]); 8] = [
        (
            Arc::new(StringArray::from(vec![Some("x"), Some("-"), Some("é"), None])),
            [Some("x"), Some("é"), None],
        ),
        (
            Arc::new(LargeStringArray::from(vec!["x", "-", "", "z"])),
            [Some("x"), Some(""), Some("z")],
        ),
        (
            Arc::new(StringViewArray::from(vec!["x", "-", "a longer text than fits", "z"])),
            [Some("x"), Some("a longer text than fits"), Some("z")],
        ),
        (Arc::new(dictionary), [Some("x"), Some("y"), None]),
        (
            Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(7), None])),
            [Some("-9223372036854775808"), Some("7"), None],
        ),
        (
            Arc::new(UInt64Array::from(vec![u64::MAX, 0, 7, 8])),
            [Some("18446744073709551615"), Some("7"), Some("8")],
        ),
        (
            Arc::new(Float64Array::from(vec![1.0, 0.0, 2.5, 3.0])),
            [Some("1"), Some("2.5"), Some("3")],
        ),
        (
            Arc::new(BinaryArray::from(vec![b"\x00\xff".as_slice(), b"", b"\x10", b""])),
            [Some("00ff"), Some("10"), Some("")],
        ),
    ];
    for (ids, expected) in columns {
        let kind = ids.data_type().clone();
        for form in [Form::Parquet, Form::ArrowLz4] {
            let ids = Arc::clone(&ids);
            let corpus = open(&[one(folder.path(), form, &[("id", ids), ("vector", vectors())])]);
            let corpus = corpus.unwrap();
            let found = [0, 1, 2].map(|row| corpus.id(Row(row)));
            assert_eq!(found, expected, "{form:?} {kind}");
            assert_eq!(corpus.id_column(), Some("id"));
        }
    }
}

#[test]
fn ids_of_files_without_them_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.npy");
    npy(&path, 2, &[1.0, 0.0]);
    let ids: ArrayRef = Arc::new(Int32Array::from(vec![5]));
    let with = one(
        folder.path(),
        Form::Parquet,
        &[("vector", list_f64(&cells(&[&[1.0, 0.0]]))), ("id", ids)],
    );
    let corpus = open(&[path.clone(), with.clone()]).unwrap();
    assert_eq!((corpus.id(Row(0)), corpus.id(Row(1))), (None, Some("5")));
    let corpus = open(std::slice::from_ref(&path)).unwrap();
    assert_eq!((corpus.has_ids(), corpus.id_column(), corpus.id(Row(0))), (false, None, None));
    let mut options = CorpusOptions::new(folder.path());
    options.id_column = Some("id".into());
    let error = Corpus::open(&[with, path.clone()], &options).unwrap_err();
    assert!(error.to_string().starts_with(&format!("{}: no column id", path.display())), "{error}");
    assert_eq!(error.hint().as_deref(), Some("name another column"));
}

fn ranks(columns: &[ArrayRef]) -> Result<Vec<u32>, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        // Row 0 of each file is skipped, so that ranks are those of kept rows.
        let mut rows = cells(&[&[0.0, 0.0]]);
        rows.resize(column.len(), Some(vec![Some(1.0), Some(1.0)]));
        let path = folder.path().join(i.to_string());
        let columns = [("o", Arc::clone(column)), ("vector", list_f64(&rows))];
        let form = if i % 2 == 0 { Form::Arrow } else { Form::Parquet };
        write_as(&path, form, &[batch(&columns)]);
        paths.push(path);
    }
    let mut options = CorpusOptions::new(folder.path());
    options.order_column = Some("o".into());
    Ok(Corpus::open(&paths, &options)?.order_keys().unwrap().to_vec())
}

#[test]
fn values_of_every_kind_are_ranked() {
    let of = |column: ArrayRef| ranks(&[column]).unwrap();
    assert_eq!(
        of(Arc::new(Int64Array::from(vec![
            Some(0),
            Some(5),
            None,
            Some(-1),
            Some(5),
            Some(i64::MAX)
        ]))),
        [2, 0, 1, 2, 3]
    );
    assert_eq!(of(Arc::new(UInt64Array::from(vec![0, u64::MAX, 1]))), [1, 0]);
    assert_eq!(
        of(Arc::new(Float64Array::from(vec![
            Some(0.0),
            Some(f64::NAN),
            None,
            Some(-0.0),
            Some(0.0),
            Some(-1.5),
            Some(f64::INFINITY),
            Some(f64::NEG_INFINITY),
            Some(1e-300)
        ]))),
        [0, 0, 3, 3, 2, 5, 1, 4]
    );
    assert_eq!(of(Arc::new(BooleanArray::from(vec![true, true, false, true]))), [1, 0, 1]);
    assert_eq!(
        of(Arc::new(StringArray::from(vec![
            Some("-"),
            Some("2024-01-03"),
            None,
            Some("2024-01-01"),
            Some(""),
            Some("2024-01-03")
        ]))),
        [3, 0, 2, 1, 3]
    );
    // `--keep newest` compared times as texts.
    assert_eq!(
        of(Arc::new(StringArray::from(vec![
            Some("2026-10-25T02:30:00+02:00"),
            Some("2026-10-25T02:10:00+01:00"),
            None,
            Some("2026-10-25 00:30Z"),
            Some("2026-10-25T00:30:00.5"),
            Some("2026-10-24")
        ]))),
        [4, 0, 2, 3, 1]
    );
    let zoned = TimestampMicrosecondArray::from(vec![Some(0), Some(2), Some(-1), None, Some(2)]);
    assert_eq!(of(Arc::new(zoned.with_timezone("+02:00"))), [2, 1, 0, 2]);
}

#[test]
fn one_column_may_serve_twice() {
    let folder = tempfile::tempdir().unwrap();
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![9, 7]));
    let vectors = list_f64(&cells(&[&[1.0], &[2.0]]));
    let path = one(folder.path(), Form::Parquet, &[("vector", vectors), ("id", ids)]);
    let mut options = CorpusOptions::new(folder.path());
    options.order_column = Some("id".into());
    let corpus = Corpus::open(&[path], &options).unwrap();
    assert_eq!((corpus.order_keys(), corpus.id(Row(0))), (Some(&[1, 0][..]), Some("9")));
}

#[test]
fn files_are_ranked_together() {
    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0, 86_400, 86_401]));
    let days: ArrayRef = Arc::new(Date32Array::from(vec![0, 1, 2]));
    assert_eq!(ranks(&[seconds.clone(), days]).unwrap(), [0, 1, 0, 2]);
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["-", "b", "a"]));
    let views: ArrayRef = Arc::new(StringViewArray::from(vec!["-", "c", "b"]));
    assert_eq!(ranks(&[texts.clone(), views]).unwrap(), [1, 0, 2, 1]);
    let error = ranks(&[seconds, texts]).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("1: column \"o\" holds texts, expected times as in "), "{said}");
    assert!(error.hint().is_some());
}

#[test]
fn an_order_that_cannot_be_is_refused() {
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int8Type, _, _>([
        Some(vec![Some(1)]),
        Some(vec![]),
    ]));
    let error = ranks(&[lists]).unwrap_err();
    assert!(error.to_string().ends_with("expected numbers, times or text"), "{error}");
    assert!(ranks(&[Arc::new(BinaryArray::from(vec![b"a".as_slice()]))]).is_err());
}

#[test]
fn excerpts_come_in_the_order_of_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let text = |i: i64| (i % 5 != 3).then(|| format!("text {i}"));
    let part = |rows: std::ops::Range<i64>| {
        let vectors: Vec<Cell> = rows.clone().map(|i| Some(vec![Some((i % 4) as f64)])).collect();
        let texts: StringArray = rows.map(text).collect();
        batch(&[("content", Arc::new(texts) as ArrayRef), ("vector", list_f64(&vectors))])
    };
    let mut paths = Vec::new();
    for (i, form) in (0..).zip(Form::ALL) {
        let path = folder.path().join(i.to_string());
        write_as(&path, form, &[part(20 * i..20 * i + 7), part(20 * i + 7..20 * i + 20)]);
        paths.push(path);
    }
    paths.insert(2, folder.path().join("v.npy"));
    npy(&paths[2], 1, &[1.0; 20]);
    let corpus = open(&paths).unwrap();
    let rows: Vec<Row> = corpus.matrix().rows().step_by(3).collect();
    let rows: Vec<Row> = rows.iter().rev().chain(&rows).copied().collect();
    let expected: Vec<Option<String>> = rows
        .iter()
        .map(|&row| match corpus.ordinal(row) as i64 {
            ordinal @ 0..40 => text(ordinal),
            40..60 => None,
            ordinal => text(ordinal - 20),
        })
        .collect();
    assert_eq!(corpus.excerpts(&rows).unwrap(), expected);
    // The files stay open.
    std::fs::remove_file(&paths[0]).unwrap();
    assert_eq!(corpus.excerpts(&rows).unwrap(), expected);
}
