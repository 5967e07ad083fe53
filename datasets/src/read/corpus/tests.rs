use crate::DataError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::builder::{
    FixedSizeBinaryBuilder, FixedSizeListBuilder, Float16Builder, Float32Builder, Float64Builder,
    LargeListBuilder, ListBuilder,
};
use arrow_array::{ArrayRef, Int64Array};
use half::f16;
use memfold_index::{Progress, Row};
use proptest::prelude::*;

use super::*;
use crate::npy::{Component, NpyWriter};
use crate::read::support::{Form, ROWS, batch, fixture, write, write_as};

mod cells;
mod formats;

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

fn large_list_f16(rows: &[Cell]) -> ArrayRef {
    let mut builder = LargeListBuilder::new(Float16Builder::new());
    for row in rows {
        let row = row.as_ref().map(|row| row.iter().map(|value| value.map(f16::from_f64)));
        builder.append_option(row);
    }
    Arc::new(builder.finish())
}

/// A null row takes as much room as any other.
fn fixed_list_f32(rows: &[Cell], dim: usize) -> ArrayRef {
    let mut builder = FixedSizeListBuilder::new(Float32Builder::new(), dim as i32);
    for row in rows {
        for i in 0..dim {
            let value = row.as_ref().and_then(|row| row[i]);
            builder.values().append_option(value.map(|value| value as f32));
        }
        builder.append(row.is_some());
    }
    Arc::new(builder.finish())
}

fn binary(rows: &[Cell], dim: usize) -> ArrayRef {
    let mut builder = FixedSizeBinaryBuilder::new(4 * dim as i32);
    for row in rows {
        match row {
            None => builder.append_null(),
            Some(row) => {
                let bytes = row.iter().flat_map(|value| (value.unwrap() as f32).to_le_bytes());
                builder.append_value(bytes.collect::<Vec<u8>>()).unwrap();
            }
        }
    }
    Arc::new(builder.finish())
}

fn one(folder: &Path, form: Form, columns: &[(&str, ArrayRef)]) -> PathBuf {
    write(folder, form, &[batch(columns)])
}

fn npy(path: &Path, dim: usize, values: &[f32]) {
    let mut writer = NpyWriter::create(path, dim, Component::F32).unwrap();
    writer.push(values).unwrap();
    writer.finish().unwrap();
}

#[test]
fn every_form_and_type_gives_the_same_vectors() {
    let folder = tempfile::tempdir().unwrap();
    let mut rows =
        cells(&[&[0.5, -0.25], &[0.0, 0.0], &[3.0, 1.0], &[f64::NAN, 1.0], &[-2.0, 0.125]]);
    rows.push(None);
    let kept = [[0.5, -0.25], [3.0, 1.0], [-2.0, 0.125]];
    for form in Form::ALL {
        let columns =
            [list_f64(&rows), large_list_f16(&rows), fixed_list_f32(&rows, 2), binary(&rows, 2)];
        for column in columns {
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
fn files_of_other_programs_are_one_corpus() {
    let mut names: Vec<PathBuf> = ["list_f32", "large_list_f64", "fixed_list_f16", "fixed_binary"]
        .map(|name| fixture(&format!("parquet/{name}.parquet")))
        .to_vec();
    let arrow = std::fs::read_dir(fixture("arrow")).unwrap().map(|entry| entry.unwrap().path());
    names.extend(arrow);
    assert_eq!(names.len(), 11);
    let corpus = open(&names).unwrap();
    let expected: Vec<Vec<f32>> =
        names.iter().flat_map(|_| ROWS.chunks(3).map(<[f32]>::to_vec)).collect();
    assert_eq!(vectors_of(&corpus), expected);
    assert_eq!(corpus.rows(), 33);
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
    npy(&path("a.npy"), 2, &[1.0, 0.0, 0.0, 0.0, 2.0, 0.0]);
    npy(&path("b.npy"), 2, &[]);
    let rows = cells(&[&[0.0, 0.0], &[3.0, 0.0]]);
    write_as(&path("c"), Form::ArrowZstd, &[batch(&[("emb", list_f64(&rows))])]);
    npy(&path("d.npy"), 2, &[]);
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
    npy(&path, 3, &ROWS);
    let corpus = open(std::slice::from_ref(&path)).unwrap();
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    assert_eq!(vectors_of(&corpus).concat(), ROWS);
}

#[test]
fn vectors_beyond_the_memory_limit_go_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut storage = super::load::StorageBuilder::new(folder.path(), 2, 40);
    for row in 0..20_u8 {
        storage.push(&[row.into(), 1.0]).unwrap();
    }
    assert!(storage.is_in_file());
    let storage = storage.finish().unwrap();
    assert_eq!((storage.matrix().len(), storage.matrix().vector(Row(19))), (20, &[19.0, 1.0][..]));
    let mut nowhere = super::load::StorageBuilder::new(Path::new("/missing"), 2, 40);
    assert!((0..6).any(|_| nowhere.push(&[1.0, 1.0]).is_err()));
}

#[test]
fn sliced_columns_keep_their_own_rows() {
    let rows = cells(&[&[1.0, 0.0], &[2.0, 0.0], &[3.0, 0.0], &[4.0, 0.0]]);
    for column in
        [list_f64(&rows), large_list_f16(&rows), fixed_list_f32(&rows, 2), binary(&rows, 2)]
    {
        let cells = crate::read::VectorCells::of(&column.slice(1, 2)).unwrap();
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
        let fixed = one(folder.path(), form, &[("vector", fixed_list_f32(&[], 4))]);
        assert_eq!(open(&[fixed]).unwrap().matrix().len(), 0);
    }
    assert_eq!(open(&[]).unwrap_err().to_string(), "no input files, expected at least one");
}

#[test]
fn what_is_wrong_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let said = |columns: &[(&str, ArrayRef)]| {
        let path = one(folder.path(), Form::Parquet, columns);
        let error = open(std::slice::from_ref(&path)).unwrap_err();
        assert!(error.hint().is_some() || matches!(error, DataError::Shape { .. }), "{error}");
        error.to_string().strip_prefix(&format!("{}: ", path.display())).unwrap().to_owned()
    };
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    assert_eq!(
        said(&[("x", Arc::clone(&numbers))]),
        "no column vector, embedding, embeddings, emb, found \"x\" (Int64)"
    );
    assert_eq!(
        said(&[("vector", numbers)]),
        "column \"vector\" is Int64, expected a list of f16, f32, f64, i8, u8, i32 or i64, or \
         fixed-size binary of 4-byte floats"
    );
    assert_eq!(
        said(&[("vector", list_f64(&[Some(vec![Some(1.0); 65_537])]))]),
        "vectors of 65537 components, expected 1 to 65536"
    );
    let lists = list_f64(&cells(&[&[1.0]]));
    let strange = said(&[("vector", Arc::clone(&lists)), ("id", lists)]);
    assert!(strange.ends_with("expected text, numbers or bytes"), "{strange}");
}

#[test]
fn files_of_two_dimensions_are_both_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    npy(&path("a.npy"), 2, &[1.0, 0.0]);
    npy(&path("b.npy"), 3, &[1.0, 0.0, 0.0]);
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
fn damaged_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let rows: Vec<Cell> = (1..300).map(|i| Some(vec![Some(f64::from(i)); 8])).collect();
    for form in Form::ALL {
        let path = one(folder.path(), form, &[("vector", list_f64(&rows))]);
        let bytes = std::fs::read(&path).unwrap();
        for length in [0, 5, 20, bytes.len() / 2, bytes.len() - 9] {
            std::fs::write(&path, &bytes[..length]).unwrap();
            let error = open(std::slice::from_ref(&path)).unwrap_err().to_string();
            assert!(error.contains(&path.display().to_string()), "{form:?} {length}: {error}");
        }
    }
}

/// Counts rows, and asks to stop after some.
#[derive(Default)]
struct Counting {
    done: AtomicU64,
    total: AtomicU64,
    stop_after: u64,
}

impl Progress for Counting {
    fn begin(&self, _stage: &'static str, total: Option<u64>) {
        self.total.store(total.unwrap(), Ordering::Relaxed);
    }
    fn advance(&self, done: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
    }
    fn end(&self) {}
    fn cancelled(&self) -> bool {
        self.done.load(Ordering::Relaxed) >= self.stop_after
    }
}

#[test]
fn progress_is_told_and_can_stop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v.npy");
    npy(&path, 1, &[1.0; 200_000]);
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
