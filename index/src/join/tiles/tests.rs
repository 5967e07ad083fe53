//! Tiles against the join of one piece.

use std::fs;
use std::path::{Path, PathBuf};

use memfold_simd::{Kernels, Level};
use proptest::prelude::*;
use tempfile::TempDir;

use super::task::join_tiles;
use super::{TileError, TilePlan, TileRequest, TileSummary, TileTask};
use crate::join::{JoinError, JoinOptions, JoinedPairs, PairStream, join_pairs};
use crate::testing::{SHAPES, Shape, StopIn, matrix, near, pool, real_embeddings, rows};
use crate::{Row, VectorMatrix};

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn request<'a>(
    matrix: &'a VectorMatrix<'a>,
    threshold: f64,
    dir: &'a Path,
    tile_rows_max: usize,
) -> TileRequest<'a> {
    TileRequest { matrix, threshold: near(threshold), dir, tile_rows_max }
}

fn by_tiles(values: &[f32], dim: usize, threshold: f64, tile_rows_max: usize) -> JoinedPairs {
    let (matrix, folder, pool) = (matrix(values, dim), folder(), pool(2));
    let request = request(&matrix, threshold, folder.path(), tile_rows_max);
    join_tiles(&request, &JoinOptions::new(&pool)).unwrap().0.collect()
}

fn in_one_piece(values: &[f32], dim: usize, threshold: f64) -> JoinedPairs {
    let (matrix, pool) = (matrix(values, dim), pool(2));
    join_pairs(&matrix, near(threshold), &JoinOptions::new(&pool)).unwrap().collect()
}

/// Nothing can be learned from rows that all point one way, and the join of one piece panicked.
#[test]
fn rows_that_point_one_way_are_joined() {
    for dim in [1, 3, 40] {
        let values: Vec<f32> = (0..1_100 * dim).map(|at| (at / dim + 1) as f32).collect();
        let expected = in_one_piece(&values, dim, 0.9);
        assert!(by_tiles(&values, dim, 0.9, 300) == expected, "{dim}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_rows_cut_in_any_way_give_the_same_pairs(
        shape in prop::sample::select(SHAPES.to_vec()),
        row_count in 1_usize..2_400,
        dim in 1_usize..150,
        threshold in 0.3_f64..=1.0,
        rows_max in 1_usize..3_000,
        seed: u64,
    ) {
        // Few tiles, so that a case takes milliseconds.
        let rows_max = rows_max.max(row_count / 24);
        let values = rows(shape, row_count, dim, seed);
        let (matrix, pool) = (matrix(&values, dim), pool(2));
        match join_pairs(&matrix, near(threshold), &JoinOptions::new(&pool)) {
            Ok(expected) => {
                let found = by_tiles(&values, dim, threshold, rows_max);
                prop_assert_eq!(found, expected.collect());
            }
            Err(error) => {
                let by_budget = matches!(error, JoinError::PairBudget { .. });
                prop_assert!(by_budget, "{error}");
            }
        }
    }
}

#[test]
fn real_embeddings_have_the_pairs_of_the_join_of_one_piece() {
    let Some((values, dim)) = real_embeddings() else { return };
    for threshold in [0.8, 0.95] {
        let expected = in_one_piece(&values, dim, threshold);
        assert!(by_tiles(&values, dim, threshold, 4_096) == expected, "{threshold}");
    }
}

const DIM: usize = 32;

/// Rows of many narrow clusters, for which bounds exclude tasks.
fn clusters() -> Vec<f32> {
    rows(Shape::Clustered, 3_000, DIM, 41)
}

/// Joins [`clusters`] in a folder, by tiles of up to 200 rows.
fn join_in(
    folder: &TempDir,
    values: &[f32],
    threshold: f64,
    options: &JoinOptions<'_>,
) -> Result<(PairStream, TileSummary), TileError> {
    join_tiles(&request(&matrix(values, DIM), threshold, folder.path(), 200), options)
}

#[test]
fn bounds_exclude_tasks_and_no_pair() {
    let (values, pool) = (clusters(), pool(2));
    let (pairs, summary) = join_in(&folder(), &values, 0.95, &JoinOptions::new(&pool)).unwrap();
    assert!(summary.tiles >= 15, "{summary:?}");
    assert!(summary.tasks < summary.tasks_total * 3 / 4, "{summary:?}");
    assert!(summary.pairs_in_tasks < summary.pairs_total * 3 / 4, "{summary:?}");
    let counters = *pairs.counters();
    assert!(counters.pairs_tested <= summary.pairs_in_tasks * 2, "{counters:?} {summary:?}");
    assert_eq!(pairs.collect(), in_one_piece(&values, DIM, 0.95));
}

/// Every file under a folder by its path, but the lock.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let folders = ["tiles", "pairs", "partial", ""];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(dir.join(folder)).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let mut files: Vec<_> = paths
        .map(|path| (path.strip_prefix(dir).unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

fn empty(folder: &TempDir, names: &[&str]) {
    for path in names.iter().map(|name| folder.path().join(name)) {
        fs::remove_dir_all(&path).unwrap();
        fs::create_dir(&path).unwrap();
    }
}

#[test]
fn neither_shards_nor_order_nor_threads_nor_a_second_run_change_a_byte() {
    let values = clusters();
    let mut expected = None;
    for (shards, threads, seed) in [(1, 1, 0), (2, 2, 7), (5, 4, 11)] {
        // Rows cut into files, as several inputs are.
        let shard = 3_000_usize.div_ceil(shards) * DIM;
        let matrix = VectorMatrix::from_chunks(values.chunks(shard).collect(), DIM).unwrap();
        let (folder, pool) = (folder(), pool(threads));
        let options = JoinOptions::new(&pool);
        let request = request(&matrix, 0.9, folder.path(), 300);
        let plan = TilePlan::make(&request, &options).unwrap();
        let mut tasks: Vec<TileTask> = plan.tasks().unwrap().collect();
        tasks.sort_by_key(|task| (task.left * 7 + task.right * 5 + seed) % 13);
        for &task in &tasks {
            let receipt = plan.run(task, &options).unwrap();
            assert_eq!(plan.run(task, &options).unwrap(), receipt);
        }
        // Run again as if their files were lost: the same ones.
        let before = contents(folder.path());
        empty(&folder, &["pairs"]);
        assert_eq!(plan.run_all(&options).unwrap(), 0);
        assert!(contents(folder.path()) == before);
        assert_eq!(plan.merge(&options).unwrap().collect(), in_one_piece(&values, DIM, 0.9));
        assert!(expected.get_or_insert_with(|| before.clone()) == &before, "{shards} {threads}");
    }
}

#[test]
fn a_plan_runs_at_every_level() {
    let (values, pool) = (clusters(), pool(2));
    let expected = in_one_piece(&values, DIM, 0.9);
    let matrix = matrix(&values, DIM);
    let at = |level| Some(JoinOptions { kernels: Kernels::at(level)?, ..JoinOptions::new(&pool) });
    for made in Level::ALL.into_iter().filter_map(at) {
        let folder = folder();
        let plan = TilePlan::make(&request(&matrix, 0.9, folder.path(), 500), &made).unwrap();
        let mut receipts = None;
        for run in Level::ALL.into_iter().filter_map(at) {
            empty(&folder, &["pairs"]);
            plan.run_all(&run).unwrap();
            assert_eq!(plan.merge(&run).unwrap().collect(), expected);
            let found = contents(folder.path());
            assert!(receipts.get_or_insert_with(|| found.clone()) == &found);
        }
    }
}

#[test]
fn an_interrupted_run_goes_on_where_it_ended() {
    let (values, folder, pool) = (clusters(), folder(), pool(2));
    let options = JoinOptions::new(&pool);
    let stop = StopIn::new("compare pairs", 20);
    let stopping = JoinOptions { progress: &stop, ..options };
    assert!(join_in(&folder, &values, 0.9, &stopping).unwrap_err().is_cancelled());
    // As a process leaves it that is killed while it writes.
    fs::write(folder.path().join("partial/.tmpXXXX"), b"half").unwrap();
    let (pairs, summary) = join_in(&folder, &values, 0.9, &options).unwrap();
    assert!((19..summary.tasks).contains(&summary.tasks_resumed), "{summary:?}");
    assert_eq!(pairs.collect(), in_one_piece(&values, DIM, 0.9));
    assert_eq!(fs::read_dir(folder.path().join("partial")).unwrap().count(), 0);
    // One that ended while tiles were written begins again.
    let before = contents(folder.path());
    fs::remove_file(folder.path().join("plan.mfi")).unwrap();
    fs::write(folder.path().join("tiles/000003.mfi"), b"half").unwrap();
    let (_, summary) = join_in(&folder, &values, 0.9, &options).unwrap();
    assert_eq!(summary.tasks_resumed, 0);
    assert!(contents(folder.path()) == before);
}

#[test]
fn ten_thousand_equal_rows_are_one() {
    let values = [0.3_f32, 0.1, 0.2].repeat(10_000);
    let found = by_tiles(&values, 3, 1.0, 16_384);
    assert_eq!((found.distinct_rows, found.logical_pairs), (1, 49_995_000));
    assert_eq!(found.groups, [(0..10_000).map(Row).collect::<Vec<_>>()]);
    assert_eq!(by_tiles(&[], 4, 0.9, 16_384), JoinedPairs::default());
}

#[test]
fn an_invalid_row_is_named_and_nothing_is_left() {
    let (mut values, pool) = (clusters(), pool(2));
    for bad in [f32::NAN, f32::INFINITY, 0.0] {
        values[DIM * 2_500..DIM * 2_501].fill(bad);
        let folder = folder();
        let error = join_in(&folder, &values, 0.9, &JoinOptions::new(&pool)).unwrap_err();
        let invalid = matches!(error, TileError::Join(JoinError::InvalidVector { row: 2_500, .. }));
        assert!(invalid && !folder.path().join("plan.mfi").exists(), "{error}");
    }
}

#[test]
fn a_spent_budget_is_told_as_by_the_join() {
    let (values, pool) = (clusters(), pool(2));
    let pairs = in_one_piece(&values, DIM, 0.9).pairs.len() as u64;
    for budget in [100, pairs - 1, pairs] {
        let options = JoinOptions { pair_budget: Some(budget), ..JoinOptions::new(&pool) };
        let expected = join_pairs(&matrix(&values, DIM), near(0.9), &options);
        match (join_in(&folder(), &values, 0.9, &options), expected) {
            (Ok(_), Ok(_)) => assert_eq!(budget, pairs),
            (Err(TileError::Join(found)), Err(expected)) => assert_eq!(found, expected),
            (found, _) => panic!("{budget}: {:?}", found.map(|(_, summary)| summary)),
        }
    }
}

/// A folder of a finished run; tests damage its files one by one.
struct Finished {
    values: Vec<f32>,
    folder: TempDir,
}

impl Finished {
    fn new() -> Self {
        let finished = Self { values: clusters(), folder: folder() };
        finished.run(0.9).unwrap();
        finished
    }

    fn run(&self, threshold: f64) -> Result<JoinedPairs, TileError> {
        let pool = pool(2);
        let joined = join_in(&self.folder, &self.values, threshold, &JoinOptions::new(&pool));
        joined.map(|(pairs, _)| pairs.collect())
    }

    fn first(&self, folder: &str) -> PathBuf {
        let entries = fs::read_dir(self.folder.path().join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().path()).min().unwrap()
    }
}

#[test]
fn damaged_files_are_named_with_what_to_do() {
    let damages: [fn(&Path); 4] = [
        |path| fs::remove_file(path).unwrap(),
        |path| fs::write(path, &fs::read(path).unwrap()[1..]).unwrap(),
        |path| {
            let mut bytes = fs::read(path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
        },
        |path| fs::write(path, b"").unwrap(),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        for folder in ["tiles", "pairs", "plan.mfi"] {
            let finished = Finished::new();
            let path = match folder {
                "plan.mfi" => finished.folder.path().join(folder),
                folder => finished.first(folder),
            };
            if folder == "tiles" {
                // Finished tasks need no tile.
                fs::remove_file(finished.first("pairs")).unwrap();
            }
            damage(&path);
            let is_missing = number == 0;
            if is_missing && matches!(folder, "pairs" | "plan.mfi") {
                finished.run(0.9).unwrap();
                continue;
            }
            let error = finished.run(0.9).unwrap_err();
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(error.to_string().contains(name), "{folder} {number}: {error}");
            let hint = error.hint().unwrap();
            assert!(hint.contains("remove") && hint.contains("run again"), "{folder}: {hint}");
            if folder == "pairs" {
                fs::remove_file(&path).unwrap();
                let repaired = finished.run(0.9).unwrap();
                assert_eq!(repaired, in_one_piece(&finished.values, DIM, 0.9));
            }
        }
    }
}

#[test]
fn a_folder_of_something_else_is_refused() {
    let mut finished = Finished::new();
    let refused = |finished: &Finished, threshold, expected: &str| {
        let error = finished.run(threshold).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        error
    };
    refused(&finished, 0.95, "the threshold 0.9, not of the threshold 0.95");
    finished.values[7] += 0.5;
    refused(&finished, 0.9, "the input has changed");
    finished.values.truncate(DIM * 2_000);
    let error = refused(&finished, 0.9, "2000 vectors of dimension 32");
    assert!(matches!(error, TileError::OtherFolder { .. }) && error.hint().is_some());
    fs::write(finished.folder.path().join("letter.txt"), b"dear").unwrap();
    refused(&finished, 0.9, "holds \"letter.txt\", which is no part of a plan of tiles");
    // Folders that are called like ours but were made by somebody else.
    finished.folder = folder();
    fs::create_dir(finished.folder.path().join("pairs")).unwrap();
    refused(&finished, 0.9, "holds \"pairs\", which is no part of a plan of tiles");
}

#[test]
fn two_runs_in_one_folder_and_a_task_that_has_not_run_are_named() {
    let (finished, pool) = (Finished::new(), pool(2));
    let lock = TilePlan::lock(finished.folder.path()).unwrap();
    assert!(matches!(finished.run(0.9), Err(TileError::InUse { .. })));
    drop(lock);
    finished.run(0.9).unwrap();
    let plan = TilePlan::open(finished.folder.path()).unwrap();
    let options = JoinOptions::new(&pool);
    fs::remove_file(finished.first("pairs")).unwrap();
    assert!(matches!(plan.merge(&options), Err(TileError::NotRun { .. })));
    let error = plan.run(TileTask { left: 3, right: 999 }, &options).unwrap_err();
    assert!(error.to_string().contains("no task of the tiles 3 and 999"), "{error}");
    assert!(TilePlan::open(Path::new("/nonexistent/tiles")).is_err());
}
