use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeBinaryBuilder, FixedSizeListBuilder, Float16Builder, Float32Builder, Float64Builder,
    LargeListBuilder, ListBuilder,
};
use arrow_array::types::Int8Type;
use arrow_array::{
    BinaryArray, BooleanArray, Date32Array, DictionaryArray, Float64Array, Int32Array, Int64Array,
    ListArray, StringArray, StringViewArray, TimestampMicrosecondArray, TimestampSecondArray,
    UInt64Array,
};
use half::f16;
use proptest::prelude::*;

use super::*;
use crate::read::support::{Counting, Form, ROWS, batch, fixture, write, write_as, write_npy};

/// A vector of a row, where there is one; components may be null.
type Cell = Option<Vec<Option<f64>>>;

fn open(paths: &[PathBuf]) -> Result<Corpus, DataError> {
    Corpus::open(paths, &CorpusOptions::new(&std::env::temp_dir()))
}

fn vectors_of(corpus: &Corpus) -> Vec<Vec<f32>> {
    let matrix = corpus.matrix();
    matrix.rows().map(|row| matrix.vector(row).to_vec()).collect()
}

fn ordinals_of(corpus: &Corpus) -> Vec<u64> {
    corpus.matrix().rows().map(|row| corpus.ordinal(row)).collect()
}

fn cells(rows: &[&[f64]]) -> Vec<Cell> {
    rows.iter().map(|row| Some(row.iter().map(|&value| Some(value)).collect())).collect()
}

fn list_f64(rows: &[Cell]) -> ArrayRef {
    let mut builder = ListBuilder::new(Float64Builder::new());
    rows.iter().for_each(|row| builder.append_option(row.clone()));
    Arc::new(builder.finish())
}

/// Vectors of two components in every form; a null row takes as much room as any other.
fn every_form(rows: &[Cell]) -> [ArrayRef; 4] {
    let mut halves = LargeListBuilder::new(Float16Builder::new());
    let mut fixed = FixedSizeListBuilder::new(Float32Builder::new(), 2);
    let mut binary = FixedSizeBinaryBuilder::new(8);
    for row in rows {
        let values = |row: &Vec<Option<f64>>| row.iter().map(|value| value.unwrap()).collect();
        let row: Option<Vec<f64>> = row.as_ref().map(values);
        halves.append_option(row.as_ref().map(|row| row.iter().map(|x| Some(f16::from_f64(*x)))));
        let floats: Option<Vec<f32>> =
            row.as_ref().map(|row| row.iter().map(|value| *value as f32).collect());
        fixed.values().append_slice(floats.as_deref().unwrap_or(&[0.0; 2]));
        fixed.append(floats.is_some());
        match floats {
            None => binary.append_null(),
            Some(row) => binary
                .append_value(row.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
                .unwrap(),
        }
    }
    [list_f64(rows), Arc::new(halves.finish()), Arc::new(fixed.finish()), Arc::new(binary.finish())]
}

fn one(folder: &Path, form: Form, columns: &[(&str, ArrayRef)]) -> PathBuf {
    write(folder, form, &[batch(columns)])
}

#[test]
fn every_form_and_type_gives_the_same_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows =
        cells(&[&[0.5, -0.25], &[0.0, 0.0], &[3.0, 1.0], &[f64::NAN, 1.0], &[-2.0, 0.125]]);
    rows.push(None);
    let kept = [[0.5, -0.25], [3.0, 1.0], [-2.0, 0.125]];
    for form in Form::ALL {
        for column in every_form(&rows) {
            let kind = column.data_type().clone();
            let corpus = open(&[one(folder.path(), form, &[("embedding", column)])]).unwrap();
            assert_eq!(vectors_of(&corpus), kept, "{form:?} {kind}");
            assert_eq!(ordinals_of(&corpus), [0, 2, 4], "{form:?} {kind}");
            assert_eq!((corpus.rows(), corpus.dim()), (6, 2));
            let counts: Vec<_> = corpus.skipped().counts().collect();
            let expected = SkipReason::ALL.into_iter().filter(|r| *r != SkipReason::VectorLength);
            let expected: Vec<_> = expected.map(|reason| (reason, 1)).collect();
            assert_eq!(counts, expected, "{form:?} {kind}");
        }
    }
}

#[test]
fn every_reason_is_counted_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows = cells(&[&[1.0, 2.0], &[1.0], &[1e300, 1.0], &[], &[0.0, -0.0], &[3.0, 4.0]]);
    rows.insert(1, None);
    rows.push(Some(vec![Some(1.0), None]));
    for form in Form::ALL {
        let path = one(folder.path(), form, &[("vector", list_f64(&rows))]);
        let corpus = open(std::slice::from_ref(&path)).unwrap();
        assert_eq!(ordinals_of(&corpus), [0, 6], "{form:?}");
        let named: Vec<(&str, u64)> = corpus
            .skipped()
            .examples()
            .iter()
            .map(|example| (example.reason.name(), example.row))
            .collect();
        assert_eq!(
            named,
            [
                ("vector_null", 1),
                ("vector_length", 2),
                ("vector_not_finite", 3),
                ("vector_length", 4),
                ("vector_zero", 5),
                ("vector_null", 7),
            ],
            "{form:?}"
        );
        let counts: Vec<u64> = corpus.skipped().counts().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 2, 1, 1]);
        assert_eq!(corpus.skipped().examples()[0].path, path);
    }
}

#[test]
fn most_vectors_tell_the_dimension_not_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let rows = cells(&[&[1.0], &[1.0, 2.0], &[3.0, 4.0]]);
    let corpus =
        open(&[one(folder.path(), Form::Parquet, &[("vector", list_f64(&rows))])]).unwrap();
    assert_eq!((corpus.dim(), ordinals_of(&corpus)), (2, vec![1, 2]));
}

#[test]
fn ordinals_go_on_from_file_to_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write_npy(&path("a.npy"), 2, &[1.0, 0.0, 0.0, 0.0, 2.0, 0.0]);
    write_npy(&path("b.npy"), 2, &[]);
    let rows = cells(&[&[0.0, 0.0], &[3.0, 0.0]]);
    write_as(&path("c"), Form::ArrowZstd, &[batch(&[("emb", list_f64(&rows))])]);
    write_npy(&path("d.npy"), 2, &[]);
    let paths = ["a.npy", "b.npy", "c", "d.npy"].map(path);
    let corpus = open(&paths).unwrap();
    assert_eq!((corpus.rows(), ordinals_of(&corpus)), (5, vec![0, 2, 4]));
    assert_eq!(vectors_of(&corpus), [[1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]);
    let places: Vec<(PathBuf, u64)> =
        (0..5).map(|ordinal| corpus.place(ordinal)).map(|p| (p.path.into(), p.row)).collect();
    let [a, _, c, _] = paths;
    assert_eq!(places, [(a.clone(), 0), (a.clone(), 1), (a, 2), (c.clone(), 0), (c, 1)]);
    assert_eq!(corpus.skipped().ordinals(), [1, 3]);
    assert_eq!(corpus.row_at(4), Some(Row(2)));
    assert_eq!((corpus.row_at(3), corpus.row_at(5)), (None, None));
}

#[test]
fn truncating_an_open_file_does_not_change_its_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.npy");
    write_npy(&path, 3, &ROWS);
    let corpus = open(std::slice::from_ref(&path)).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    assert_eq!(vectors_of(&corpus).concat(), ROWS);
}

#[test]
fn vectors_beyond_the_memory_limit_go_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut storage = load::StorageBuilder::new(folder.path(), 2, 40);
    for row in 0..20_u8 {
        storage.push(&[row.into(), 1.0]).unwrap();
    }
    assert!(storage.is_in_file());
    let storage = storage.finish().unwrap();
    assert_eq!((storage.matrix().len(), storage.matrix().vector(Row(19))), (20, &[19.0, 1.0][..]));
    let mut nowhere = load::StorageBuilder::new(Path::new("/missing"), 2, 40);
    assert!((0..6).any(|_| nowhere.push(&[1.0, 1.0]).is_err()));
}

#[test]
fn sliced_columns_keep_their_own_rows() {
    let rows = cells(&[&[1.0, 0.0], &[2.0, 0.0], &[3.0, 0.0], &[4.0, 0.0]]);
    for column in every_form(&rows) {
        let cells = crate::vectors::VectorCells::of(&column.slice(1, 2)).unwrap();
        let mut values = Vec::new();
        (0..2).for_each(|i| cells.append(i, &mut values));
        assert_eq!(values, [2.0, 0.0, 3.0, 0.0], "{}", column.data_type());
        assert_eq!(cells.fault(0, 2, true), None);
    }
}

#[test]
fn files_without_rows_are_an_empty_corpus() {
    let folder = tempfile::tempdir().unwrap();
    for form in Form::ALL {
        let none = batch(&[("vector", list_f64(&[]))]);
        let corpus = open(&[write(folder.path(), form, &[none])]).unwrap();
        assert_eq!((corpus.rows(), corpus.dim(), corpus.matrix().len()), (0, 0, 0), "{form:?}");
        let nulls = one(folder.path(), form, &[("vector", list_f64(&[None, None]))]);
        let corpus = open(&[nulls]).unwrap();
        assert_eq!((corpus.rows(), corpus.skipped().len()), (2, 2), "{form:?}");
        let [_, _, fixed, _] = every_form(&[]);
        let fixed = one(folder.path(), form, &[("vector", fixed)]);
        assert_eq!(open(&[fixed]).unwrap().matrix().len(), 0);
    }
    assert_eq!(open(&[]).unwrap_err().to_string(), "no input files, expected at least one");
}

#[test]
fn files_of_two_dimensions_are_both_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write_npy(&path("a.npy"), 2, &[1.0, 0.0]);
    write_npy(&path("b.npy"), 3, &[1.0, 0.0, 0.0]);
    let error = open(&["a.npy", "a.npy", "b.npy"].map(path)).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}: vectors of 3 components, expected 2 as in {}",
            path("b.npy").display(),
            path("a.npy").display()
        )
    );
    assert!(error.hint().is_some());
}

#[test]
fn progress_is_told_and_can_stop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.npy");
    write_npy(&path, 1, &[1.0; 200_000]);
    let run = |stop_after| {
        let counting = Counting { stop_after, ..Counting::default() };
        let options = CorpusOptions { progress: &counting, ..CorpusOptions::new(folder.path()) };
        let opened = Corpus::open(std::slice::from_ref(&path), &options).map(drop);
        (opened, counting.done.into_inner(), counting.total.into_inner())
    };
    let (opened, done, total) = run(u64::MAX);
    opened.unwrap();
    assert_eq!((done, total), (200_000, 200_000));
    let (opened, done, _) = run(1);
    assert!(matches!(opened, Err(DataError::Cancelled)));
    assert_eq!(done, 65_536);
}

fn any_cell() -> impl Strategy<Value = Cell> {
    let component = prop_oneof![
        8 => (-4.0..4.0).prop_map(Some),
        2 => Just(Some(0.0)),
        1 => Just(Some(f64::NAN)),
        1 => Just(None),
    ];
    prop_oneof![
        8 => prop::collection::vec(component, 0..4).prop_map(Some),
        4 => prop::collection::vec((1.0..4.0).prop_map(Some), 2).prop_map(Some),
        1 => Just(None),
    ]
}

proptest! {
    #[test]
    fn kept_rows_are_those_with_a_vector(
        files in prop::collection::vec(prop::collection::vec(any_cell(), 0..9), 1..4),
        forms in prop::collection::vec(prop::sample::select(Form::ALL.to_vec()), 4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        for (i, rows) in files.iter().enumerate() {
            // Enough vectors of two components that this is the dimension.
            let mut rows = rows.clone();
            rows.extend(vec![Some(vec![Some(1.0), Some(2.0)]); 10]);
            let path = folder.path().join(i.to_string());
            let at = rows.len() / 2;
            let parts = [&rows[..at], &rows[at..]].map(|rows| batch(&[("emb", list_f64(rows))]));
            write_as(&path, forms[i], &parts);
            paths.push((path, rows));
        }
        let all: Vec<Cell> = paths.iter().flat_map(|(_, rows)| rows.clone()).collect();
        let paths: Vec<PathBuf> = paths.into_iter().map(|(path, _)| path).collect();
        let is_usable = |cell: &Cell| cell.as_ref().is_some_and(|row| {
            row.len() == 2
                && row.iter().all(|value| value.is_some_and(f64::is_finite))
                && row.iter().any(|value| value.is_some_and(|value| value as f32 != 0.0))
        });
        let corpus = open(&paths).unwrap();
        let expected: Vec<u64> =
            (0..).zip(&all).filter(|(_, cell)| is_usable(cell)).map(|(i, _)| i).collect();
        prop_assert_eq!(ordinals_of(&corpus), expected);
        prop_assert_eq!(corpus.rows(), all.len() as u64);
        for row in corpus.matrix().rows() {
            let cell = all[corpus.ordinal(row) as usize].clone().unwrap();
            let cell: Vec<f32> = cell.into_iter().map(|value| value.unwrap() as f32).collect();
            prop_assert_eq!(corpus.matrix().vector(row), cell);
        }
    }
}

#[test]
fn ids_are_text_of_any_type() {
    let folder = tempfile::tempdir().unwrap();
    let vectors = || list_f64(&cells(&[&[1.0, 0.0], &[0.0, 0.0], &[2.0, 0.0], &[3.0, 0.0]]));
    let dictionary: DictionaryArray<Int8Type> =
        [Some("x"), None, Some("y"), None].into_iter().collect();
    let long = "a longer text than fits";
    let texts = vec![Some("x"), Some("-"), Some("é"), None];
    let bytes: Vec<&[u8]> = vec![b"\x00\xff", b"", b"\x10", b""];
    // The second row is skipped.
    let columns: [(ArrayRef, [&str; 3]); 8] = [
        (Arc::new(StringArray::from(texts)), ["x", "é", "∅"]),
        (Arc::new(LargeStringArray::from(vec!["x", "-", "", "z"])), ["x", "", "z"]),
        (Arc::new(StringViewArray::from(vec!["x", "-", long, "z"])), ["x", long, "z"]),
        (Arc::new(dictionary), ["x", "y", "∅"]),
        (
            Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(7), None])),
            ["-9223372036854775808", "7", "∅"],
        ),
        (Arc::new(UInt64Array::from(vec![u64::MAX, 0, 7, 8])), ["18446744073709551615", "7", "8"]),
        (Arc::new(Float64Array::from(vec![1.0, 0.0, 2.5, 3.0])), ["1", "2.5", "3"]),
        (Arc::new(BinaryArray::from(bytes)), ["00ff", "10", ""]),
    ];
    for (ids, expected) in columns {
        let kind = ids.data_type().clone();
        for form in [Form::Parquet, Form::ArrowLz4] {
            let ids = Arc::clone(&ids);
            let corpus = open(&[one(folder.path(), form, &[("id", ids), ("vector", vectors())])]);
            let corpus = corpus.unwrap();
            let found = [0, 1, 2].map(|row| corpus.id(Row(row)).unwrap_or("∅"));
            assert_eq!(found, expected, "{form:?} {kind}");
            assert_eq!(corpus.id_column(), Some("id"));
        }
    }
}

#[test]
fn ids_of_files_without_them_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.npy");
    write_npy(&path, 2, &[1.0, 0.0]);
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
        // Row 0 of each file is skipped, so ranks count kept rows only.
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
    let texts = |texts: &[&'static str]| -> ArrayRef {
        let texts = texts.iter().map(|text| (*text != "∅").then_some(*text));
        Arc::new(texts.collect::<StringArray>())
    };
    let numbers = vec![Some(0), Some(5), None, Some(-1), Some(5), Some(i64::MAX)];
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let floats = [0.0, nan, 0.0, -0.0, 0.0, -1.5, inf, -inf, 1e-300];
    let floats: Float64Array = (0..).zip(floats).map(|(i, x)| (i != 2).then_some(x)).collect();
    let zoned = TimestampMicrosecondArray::from(vec![Some(0), Some(2), Some(-1), None, Some(2)]);
    let columns: [(ArrayRef, &[u32]); 7] = [
        (Arc::new(Int64Array::from(numbers)), &[2, 0, 1, 2, 3]),
        (Arc::new(UInt64Array::from(vec![0, u64::MAX, 1])), &[1, 0]),
        (Arc::new(floats), &[0, 0, 3, 3, 2, 5, 1, 4]),
        (Arc::new(BooleanArray::from(vec![true, true, false, true])), &[1, 0, 1]),
        (texts(&["-", "2024-01-03", "∅", "2024-01-01", "", "2024-01-03"]), &[3, 0, 2, 1, 3]),
        // `--keep newest` compared times as texts.
        (
            texts(&[
                "2026-10-25T02:30:00+02:00",
                "2026-10-25T02:10:00+01:00",
                "∅",
                "2026-10-25 00:30Z",
                "2026-10-25T00:30:00.5",
                "2026-10-24",
            ]),
            &[4, 0, 2, 3, 1],
        ),
        (Arc::new(zoned.with_timezone("+02:00")), &[2, 1, 0, 2]),
    ];
    for (column, expected) in columns {
        assert_eq!(ranks(std::slice::from_ref(&column)).unwrap(), expected, "{column:?}");
    }
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
    let error = ranks(std::slice::from_ref(&lists)).unwrap_err();
    assert!(error.to_string().ends_with("expected numbers, times or text"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let vectors = list_f64(&cells(&[&[1.0], &[2.0]]));
    let path = one(folder.path(), Form::Parquet, &[("vector", vectors), ("id", lists)]);
    let error = open(&[path]).unwrap_err();
    assert!(error.to_string().ends_with("expected text, numbers or bytes"), "{error}");
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
    write_npy(&paths[2], 1, &[1.0; 20]);
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

fn open_named(names: &[PathBuf], vector_column: &str) -> Result<Corpus, DataError> {
    let folder = std::env::temp_dir();
    let vector_column = Some(vector_column.to_owned());
    Corpus::open(names, &CorpusOptions { vector_column, ..CorpusOptions::new(&folder) })
}

#[test]
fn arrays_are_chosen_by_name() {
    for (name, array, rows) in [
        ("npz/numpy_several.npz", "emb", 3),
        ("safetensors/numpy_f32.safetensors", "weights", 2),
        // These have no names.
        ("bare/numpy.fbin", "anything", 3),
        ("bare/numpy.fvecs", "anything", 3),
    ] {
        let corpus = open_named(&[fixture(name)], array).unwrap();
        assert_eq!(vectors_of(&corpus).concat(), ROWS[..3 * rows], "{name}");
    }
    let error = open_named(&[fixture("npz/numpy_several.npz")], "embedding").unwrap_err();
    let (said, hint) = (error.to_string(), error.hint().unwrap());
    assert!(said.contains("no array \"embedding\", found \"emb\""), "{said}");
    assert_eq!(hint, "name the array that holds the vectors");
}

#[test]
fn whole_numbers_become_floats() {
    let folder = tempfile::tempdir().unwrap();
    let lists: ArrayRef = {
        let mut builder = ListBuilder::new(arrow_array::builder::Int64Builder::new());
        for row in [[3, -4], [0, 0], [i64::MAX, 1]] {
            builder.append_value(row.map(Some));
        }
        Arc::new(builder.finish())
    };
    let path = one(folder.path(), Form::Parquet, &[("vector", lists)]);
    let corpus = open(&[path]).unwrap();
    assert_eq!(vectors_of(&corpus), [[3.0, -4.0], [9_223_372_036_854_775_807_i64 as f32, 1.0]]);
    assert_eq!(corpus.skipped().examples()[0].reason, SkipReason::VectorZero);
}

#[test]
fn json_lines_bring_ids_order_and_texts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let lines = r#"{"id":"a","emb":[1,0],"at":"2024-01-02","text":"one"}

{"id":"b","emb":null,"at":"2024-01-01","text":"two"}
{"id":"c","emb":[0,0],"at":"2024-01-03"}
{"emb":[0,2],"at":"2024-01-01","text":"four"}"#;
    std::fs::write(&path, lines).unwrap();
    let options =
        CorpusOptions { order_column: Some("at".into()), ..CorpusOptions::new(folder.path()) };
    let corpus = Corpus::open(std::slice::from_ref(&path), &options).unwrap();
    assert_eq!(vectors_of(&corpus), [[1.0, 0.0], [0.0, 2.0]]);
    assert_eq!(ordinals_of(&corpus), [0, 3]);
    assert_eq!((corpus.id(Row(0)), corpus.id(Row(1))), (Some("a"), None));
    assert_eq!(corpus.order_keys(), Some(&[1, 0][..]));
    let texts = corpus.excerpts(&[Row(1), Row(0)]).unwrap();
    assert_eq!(texts, [Some("four".to_owned()), Some("one".to_owned())]);
    let reasons: Vec<_> = corpus.skipped().counts().collect();
    assert_eq!(reasons, [(SkipReason::VectorNull, 1), (SkipReason::VectorZero, 1)]);
    // Another column of numbers may be chosen, as in other formats.
    std::fs::write(&path, "{\"e5\":[1,2.5]}\n{\"e5\":[3,4]}\n").unwrap();
    let options =
        CorpusOptions { vector_column: Some("e5".into()), ..CorpusOptions::new(folder.path()) };
    let corpus = Corpus::open(&[path], &options).unwrap();
    assert_eq!(vectors_of(&corpus), [[1.0, 2.5], [3.0, 4.0]]);
}

#[test]
fn rows_and_ordinals_agree_around_gaps() {
    for mask in 0..1_u32 << 9 {
        let mut skipped = SkippedRows::default();
        let mut kept = Vec::new();
        for ordinal in 0..9 {
            if mask >> ordinal & 1 == 1 {
                skipped.add(ordinal, SkipReason::VectorZero, || (PathBuf::new(), ordinal));
                assert_eq!(skipped.row(ordinal), None);
            } else {
                kept.push(ordinal);
            }
        }
        for (row, &ordinal) in kept.iter().enumerate() {
            assert_eq!(skipped.ordinal(Row(row as u32)), ordinal, "{mask:b}");
            assert_eq!(skipped.row(ordinal), Some(Row(row as u32)), "{mask:b}");
        }
    }
}

#[test]
fn the_first_of_each_reason_are_named() {
    let mut skipped = SkippedRows::default();
    for ordinal in 0..5 {
        skipped.add(ordinal, SkipReason::VectorNull, || ("a".into(), ordinal));
    }
    skipped.add(5, SkipReason::VectorZero, || ("b".into(), 0));
    let named: Vec<(SkipReason, u64)> =
        skipped.examples().iter().map(|example| (example.reason, example.row)).collect();
    let null = SkipReason::VectorNull;
    assert_eq!(named, [(null, 0), (null, 1), (null, 2), (SkipReason::VectorZero, 0)]);
    let counts: Vec<_> = skipped.counts().collect();
    assert_eq!(counts, [(null, 5), (SkipReason::VectorZero, 1)]);
}
