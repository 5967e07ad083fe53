use std::path::{Path, PathBuf};
use std::time::Duration;

use memfold_datasets::columns::ColumnRecord;
use memfold_datasets::corpus::CorpusOptions;
use memfold_datasets::npy::{Component, NpyWriter};
use memfold_datasets::{ColumnSet, ColumnsMeta, ColumnsWriter, Corpus};
use memfold_index::file::FileMode;
use memfold_index::file::generations::{COLUMNS_FILE, INDEX_FILE};
use memfold_index::{NoProgress, Pool, Row, VectorError, VectorMatrix};
use memfold_simd::{Kernels, Similarity};
use tempfile::TempDir;

use super::*;
use crate::lookup::SearchError;
use crate::lookup::{BuiltIndex, IndexDifference, IndexError, TierChoice, VerifiedIndex, Wanted};

const DIM: usize = 6;
const TIERS: [TierChoice; 2] = [TierChoice::Scan, TierChoice::Graph];

/// A row of a file: an id, where it has one, and a vector.
type TestRow = (Option<String>, Vec<f32>);

/// Rows of few values, so that many are equally similar, with copies and one without direction.
fn rows(count: usize, has_ids: bool) -> Vec<TestRow> {
    let component = |row: usize, at: usize| {
        let mixed = row * 7_919 + at * 104_729 + 1;
        mixed * mixed / 13 % 5
    };
    let vector = |row: usize| (0..DIM).map(|at| component(row % 90, at) as f32 - 1.5).collect();
    let id = |row: usize| has_ids.then(|| format!("id{}", row * 7 % (count - 2)));
    let mut rows: Vec<TestRow> = (0..count).map(|row| (id(row), vector(row))).collect();
    rows[4].1 = vec![0.0; DIM];
    rows
}

/// The rows in another order.
fn shuffled(rows: &[TestRow]) -> Vec<TestRow> {
    (0..rows.len()).map(|at| rows[(at * 37 + 11) % rows.len()].clone()).collect()
}

/// A file of vectors and the folder of its index.
struct Fixture {
    place: TempDir,
    file: PathBuf,
}

impl Fixture {
    /// Writes rows with ids as Parquet, others as npy.
    fn with(rows: &[TestRow]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let has_ids = rows.iter().any(|(id, _)| id.is_some());
        let file = place.path().join(if has_ids { "rows.parquet" } else { "rows.npy" });
        write(&file, rows);
        Self { place, file }
    }

    fn folder(&self) -> PathBuf {
        self.place.path().join("index")
    }

    fn try_build(&self, tier: TierChoice) -> Result<BuiltIndex, IndexError> {
        let request = BuildCorpusIndex {
            folder: &self.folder(),
            mode: FileMode::PRIVATE,
            columns: &CorpusColumns::default(),
            tier,
            pool: &Pool::new(None).unwrap(),
            kernels: Kernels::active(),
            scratch_dir: self.place.path(),
            progress: &NoProgress,
            wait: Duration::ZERO,
        };
        build_corpus_index(&self.file, &request)
    }

    fn build(&self, tier: TierChoice) -> CorpusIndex {
        self.try_build(tier).unwrap();
        CorpusIndex::open(&self.folder()).unwrap().unwrap()
    }

    fn corpus(&self) -> Corpus {
        let options = CorpusOptions::new(self.place.path());
        Corpus::open(std::slice::from_ref(&self.file), &options).unwrap()
    }
}

fn write(file: &Path, rows: &[TestRow]) {
    if file.extension() == Some("npy".as_ref()) {
        let mut writer = NpyWriter::create(file, DIM, Component::F32).unwrap();
        rows.iter().for_each(|(_, vector)| writer.push(vector).unwrap());
        writer.finish().unwrap();
        return;
    }
    let columns = ColumnSet::Records { text: false, lineage: false };
    let meta = ColumnsMeta { columns, ..ColumnsMeta::vectors(DIM as u32) };
    let mut writer = ColumnsWriter::create_parquet(file, &meta).unwrap();
    for (id, vector) in rows {
        let id = id.as_deref().unwrap_or_default();
        writer.push(&ColumnRecord { id, vector, ..ColumnRecord::default() }).unwrap();
    }
    writer.publish().unwrap();
}

fn search(
    rows: SearchedRows<'_>,
    query: RowQuery<'_>,
    wanted: Wanted,
) -> Result<Vec<RowMatch>, SearchError> {
    search_rows(rows, query, wanted, &Pool::new(None).unwrap(), Kernels::active())
}

/// Every row compared, one after the other.
fn by_definition(rows: &[TestRow], query: &[f32], except: usize, wanted: Wanted) -> Vec<RowMatch> {
    let kernels = Kernels::active();
    let norm = |vector: &[f32]| kernels.dot(vector, vector);
    let mut found: Vec<RowMatch> = rows
        .iter()
        .enumerate()
        .filter(|(row, _)| *row != except)
        .filter_map(|(row, (id, vector))| {
            let similarity = kernels.similarity(query, vector, [norm(query), norm(vector)])?;
            Some(RowMatch { row: row as u64, id: id.as_deref().map(Into::into), similarity })
        })
        .filter(|found| wanted.similarity_min.is_none_or(|least| found.similarity >= least))
        .collect();
    found.sort_by(|a, b| b.similarity.cmp(&a.similarity).then(a.row.cmp(&b.row)));
    found.truncate(wanted.neighbors.unwrap_or(usize::MAX));
    found
}

fn wanted() -> [Wanted; 4] {
    let least = Similarity::new(0.6);
    let wants = |neighbors, similarity_min| Wanted { neighbors, similarity_min };
    [wants(Some(5), None), wants(None, least), wants(Some(3), least), wants(Some(9_999), None)]
}

#[test]
fn rows_in_any_order_make_the_same_bytes() {
    for has_ids in [false, true] {
        let rows = rows(200, has_ids);
        let (fixture, other) = (Fixture::with(&rows), Fixture::with(&shuffled(&rows)));
        for tier in TIERS {
            let (one, two) = (fixture.build(tier), other.build(tier));
            let bytes =
                |index: &CorpusIndex, name| index.files().generation().file(name).unwrap().to_vec();
            assert_eq!(bytes(&one, INDEX_FILE), bytes(&two, INDEX_FILE), "{has_ids}, {tier:?}");
            assert_ne!(bytes(&one, COLUMNS_FILE), bytes(&two, COLUMNS_FILE));
            assert_eq!(one.files().columns().len(), 199);
            for row in one.files().columns().vectors().rows() {
                let ordinal = one.files().columns().rowid_at(row).unwrap();
                let (id, vector) = &rows[ordinal as usize];
                assert_eq!(one.files().columns().vectors().vector(row), &vector[..]);
                assert_eq!(
                    one.files().columns().id_at(row).unwrap(),
                    id.as_deref().unwrap_or_default()
                );
            }
        }
        let mut fewer = rows.clone();
        fewer.truncate(199);
        let fewer = Fixture::with(&fewer).build(TierChoice::Scan);
        let whole = fixture.build(TierChoice::Scan);
        assert_ne!(
            fewer.files().tiers().head().store_identity,
            whole.files().tiers().head().store_identity
        );
    }
}

#[test]
fn matches_are_those_of_comparing_every_row() {
    for has_ids in [false, true] {
        let rows = rows(200, has_ids);
        let fixture = Fixture::with(&rows);
        let corpus = fixture.corpus();
        for tier in TIERS {
            let index = fixture.build(tier);
            let both = [SearchedRows::Index(&index), SearchedRows::Corpus(&corpus)];
            for wanted in wanted() {
                for at in [0, 3, 90, 199] {
                    let by_vector = by_definition(&rows, &rows[at].1, usize::MAX, wanted);
                    let by_row = by_definition(&rows, &rows[at].1, at, wanted);
                    assert!(by_row.len() > 2);
                    for source in both {
                        let found = search(source, RowQuery::Vector(&rows[at].1), wanted).unwrap();
                        assert_eq!(found, by_vector, "{tier:?}, {wanted:?}, {at}");
                        let found = search(source, RowQuery::Row(at as u64), wanted).unwrap();
                        assert_eq!(found, by_row, "{tier:?}, {wanted:?}, {at}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_first_row_with_an_id_is_searched_by() {
    let rows = rows(200, true);
    let fixture = Fixture::with(&rows);
    let (corpus, index) = (fixture.corpus(), fixture.build(TierChoice::Scan));
    let wanted = wanted()[0];
    for at in [0, 1, 150, 199] {
        let id = rows[at].0.as_deref().unwrap();
        let first = rows.iter().position(|(other, _)| other.as_deref() == Some(id)).unwrap();
        let right = by_definition(&rows, &rows[first].1, first, wanted);
        for source in [SearchedRows::Index(&index), SearchedRows::Corpus(&corpus)] {
            assert_eq!(search(source, RowQuery::Id(id), wanted).unwrap(), right, "{id}");
        }
    }
    let again: Vec<_> = rows.iter().filter(|(id, _)| *id == rows[0].0).collect();
    assert_eq!(again.len(), 2, "an id stands twice");
}

#[test]
fn many_queries_are_answered_like_one() {
    let rows = rows(200, false);
    let fixture = Fixture::with(&rows);
    let (corpus, index) = (fixture.corpus(), fixture.build(TierChoice::Graph));
    let flat: Vec<f32> = rows[5..].iter().flat_map(|(_, vector)| vector.clone()).collect();
    let queries = VectorMatrix::from_slice(&flat, DIM).unwrap();
    let (pool, wanted) = (Pool::new(std::num::NonZero::new(3)).unwrap(), wanted()[0]);
    for source in [SearchedRows::Index(&index), SearchedRows::Corpus(&corpus)] {
        let kernels = Kernels::active();
        let found = search_rows_all(source, &queries, wanted, &pool, kernels, &NoProgress).unwrap();
        assert_eq!(found.len(), 195);
        for (row, found) in queries.rows().zip(found) {
            let query = RowQuery::Vector(queries.vector(row));
            assert_eq!(found, search(source, query, wanted).unwrap());
        }
        let mut wrong = flat.clone();
        wrong[70 * DIM..71 * DIM].fill(0.0);
        let wrong = VectorMatrix::from_slice(&wrong, DIM).unwrap();
        let found = search_rows_all(source, &wrong, wanted, &pool, kernels, &NoProgress);
        let expected = VectorError::InvalidQuery { query: 70 };
        assert!(matches!(found, Err(SearchError::Query(error)) if error == expected));
    }
}

#[test]
fn what_is_not_there_is_said() {
    let wanted = wanted()[0];
    for has_ids in [false, true] {
        let fixture = Fixture::with(&rows(60, has_ids));
        let (corpus, index) = (fixture.corpus(), fixture.build(TierChoice::Scan));
        for source in [SearchedRows::Index(&index), SearchedRows::Corpus(&corpus)] {
            let said = |query| search(source, query, wanted).unwrap_err().to_string();
            assert_eq!(said(RowQuery::Row(60)), "no row 60: there are 60, counted from 0");
            assert_eq!(said(RowQuery::Row(u64::MAX)).split(':').count(), 2);
            assert_eq!(said(RowQuery::Row(4)), "row 4 has no usable vector");
            assert_eq!(said(RowQuery::Vector(&[1.0])), "query of dimension 1, expected 6");
            assert!(said(RowQuery::Vector(&[0.0; DIM])).contains("no direction"));
            for id in ["nobody", ""] {
                let expected = match has_ids {
                    true => format!("no row with a vector has the id {id:?}"),
                    false => "the rows have no ids".to_owned(),
                };
                assert_eq!(said(RowQuery::Id(id)), expected);
            }
        }
    }
}

#[test]
fn a_file_without_vectors_is_neither_indexed_nor_searched() {
    let fixture = Fixture::with(&[(None, vec![0.0; DIM])]);
    let error = fixture.try_build(TierChoice::Auto).unwrap_err();
    assert!(matches!(error, IndexError::NoVectors { rows: 1, .. }), "{error}");
    assert!(!fixture.folder().exists());
    let corpus = fixture.corpus();
    let query = RowQuery::Vector(&[1.0; DIM]);
    let found = search(SearchedRows::Corpus(&corpus), query, wanted()[0]);
    assert!(matches!(found, Err(SearchError::NoRowVectors { rows: 1 })));
    std::fs::remove_file(&fixture.file).unwrap();
    let error = fixture.try_build(TierChoice::Auto).unwrap_err();
    assert!(matches!(error, IndexError::Look { .. }), "{error}");
}

#[test]
fn a_changed_file_no_longer_fits_and_a_renamed_one_does() {
    let mut rows = rows(100, false);
    let fixture = Fixture::with(&rows);
    let index = fixture.build(TierChoice::Scan);
    let renamed = fixture.place.path().join("other.npy");
    std::fs::rename(&fixture.file, &renamed).unwrap();
    assert!(index.fits(&renamed).unwrap());
    let modified = std::fs::metadata(&renamed).unwrap().modified().unwrap();
    // Another vector in a file of the same length and time.
    rows[99].1[0] += 1.0;
    write(&fixture.file, &rows);
    let file = std::fs::File::options().append(true).open(&fixture.file).unwrap();
    file.set_modified(modified).unwrap();
    assert!(!index.fits(&fixture.file).unwrap());
    // The same bytes, written later.
    std::fs::copy(&renamed, &fixture.file).unwrap();
    file.set_modified(modified + Duration::from_nanos(1)).unwrap();
    assert!(!index.fits(&fixture.file).unwrap());
    file.set_modified(modified).unwrap();
    assert!(index.fits(&fixture.file).unwrap());
    assert!(index.fits(&fixture.place.path().join("nothing.npy")).is_err());
}

fn verified(index: &CorpusIndex, corpus: Option<&Corpus>) -> Result<VerifiedIndex, IndexError> {
    let pool = Pool::new(None).unwrap();
    verify_corpus_index(index, corpus, &pool, Kernels::active(), &NoProgress)
}

#[test]
fn an_index_is_compared_with_its_file() {
    for has_ids in [false, true] {
        let mut rows = rows(100, has_ids);
        let fixture = Fixture::with(&rows);
        let index = fixture.build(TierChoice::Graph);
        let found = verified(&index, Some(&fixture.corpus())).unwrap();
        let same = IndexDifference { same: 99, ..IndexDifference::default() };
        assert_eq!(found.difference, Some(same));
        let graph = found.graph.unwrap();
        assert!(graph.found > 50 && graph.found == graph.nodes, "{graph:?}");
        rows[7].1[0] += 1.0;
        rows[8].1.fill(0.0);
        rows.push(rows[9].clone());
        write(&fixture.file, &rows);
        let found = verified(&index, Some(&fixture.corpus())).unwrap().difference;
        assert_eq!(found, Some(IndexDifference { same: 97, changed: 1, gone: 1, fresh: 1 }));
        assert_eq!(verified(&index, None).unwrap().difference, None);
    }
}

#[test]
fn damage_is_found_and_the_index_of_a_store_refused() {
    let fixture = Fixture::with(&rows(100, true));
    let index = fixture.build(TierChoice::Scan);
    let vector = index.files().columns().vectors().vector(Row(50)).to_vec();
    let pattern: Vec<u8> = vector.iter().flat_map(|component| component.to_le_bytes()).collect();
    let path = index.files().generation().folder().join(COLUMNS_FILE);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(pattern.len()).position(|window| window == pattern).unwrap();
    bytes[at + 3] ^= 1;
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    let damaged = CorpusIndex::open(&fixture.folder()).unwrap().unwrap();
    assert!(matches!(verified(&damaged, None), Err(IndexError::File(_))));
    let store = crate::lookup::StoreIndex::open(&fixture.folder()).unwrap_err();
    assert!(matches!(&store, IndexError::Origin { reason, .. }
        if reason == "this is the index of a file of vectors, not of a store"));
    let other = Fixture::with(&rows(100, true));
    assert!(CorpusIndex::open(&other.folder()).unwrap().is_none());
}

#[test]
fn a_file_that_is_no_file_of_vectors_is_refused() {
    let fixture = Fixture::with(&rows(10, false));
    std::fs::write(&fixture.file, "no numbers").unwrap();
    let error = fixture.try_build(TierChoice::Scan).unwrap_err();
    assert!(matches!(error, IndexError::Corpus(_)), "{error}");
}
