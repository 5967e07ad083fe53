//! The join by a graph against the exact join.

use std::num::NonZeroUsize;

use memfold_simd::{Kernels, Level, Similarity};

use super::tests::{SHAPES, Shape, Values, rows};
use super::{
    GraphJoin, JoinError, JoinIndex, JoinOptions, JoinedPairs, PairStream, join_pairs,
    join_pairs_by_graph,
};
use crate::graph::GraphOptions;
use crate::pool::StopAfter;
use crate::{NoProgress, Pool, Progress, VectorMatrix};

const DIM: usize = 24;

/// A graph too poor to find everything.
const POOR: JoinIndex = JoinIndex::Memfold(GraphOptions { degree: 2, candidates: 3, probes: 1 });

fn pool(threads: usize) -> Pool {
    Pool::new(NonZeroUsize::new(threads)).unwrap()
}

fn options<'a>(pool: &'a Pool, progress: &'a dyn Progress) -> JoinOptions<'a> {
    let kernels = Kernels::active();
    JoinOptions { kernels, progress, ..JoinOptions::new(pool) }
}

fn near(threshold: f64) -> Similarity {
    Similarity::new(threshold).unwrap()
}

/// Joins exactly and by a graph.
fn both(values: &[f32], dim: usize, threshold: f64, by: &GraphJoin) -> (JoinedPairs, PairStream) {
    let matrix = VectorMatrix::from_slice(values, dim).unwrap();
    let pool = pool(2);
    let options = JoinOptions { pair_budget: Some(4_000_000), ..options(&pool, &NoProgress) };
    let exact = join_pairs(&matrix, near(threshold), &options).unwrap().collect();
    (exact, join_pairs_by_graph(&matrix, near(threshold), &options, by).unwrap())
}

/// Checks that what a graph found is true, and returns the true recall.
fn check(exact: &JoinedPairs, found: &PairStream) -> f64 {
    assert_eq!((&exact.groups[..], exact.distinct_rows), (found.groups(), found.distinct_rows()));
    let mut expected = exact.pairs.iter();
    for pair in found.pairs() {
        assert!(expected.any(|one| *one == pair), "{pair:?} in order, once, and true");
    }
    assert!(found.counters().pairs_found_once <= found.pair_count());
    found.pair_count() as f64 / exact.pairs.len().max(1) as f64
}

/// Rows around many centres with groups of equal ones and cliques of near ones among them.
fn duplicates(row_count: usize, seed: u64) -> Vec<f32> {
    let mut noise = Values(seed);
    let centers: Vec<f32> = (0..row_count / 12 * DIM).map(|_| noise.next()).collect();
    let mut values = Vec::with_capacity(row_count * DIM);
    for _ in 0..row_count {
        let center = noise.below(row_count / 12) * DIM;
        let jitter = 0.4 * noise.next();
        values.extend(centers[center..center + DIM].iter().map(|x| x + jitter * noise.next()));
    }
    let mut row = row_count / 50;
    for (size, jitter) in [(2, 0.0), (50, 0.0), (1_062, 0.0), (5_000, 0.0), (40, 0.05), (300, 0.05)]
    {
        let first: Vec<f32> = (0..DIM).map(|_| noise.next()).collect();
        for _ in 0..size {
            let place = row * DIM % values.len();
            for (value, center) in values[place..place + DIM].iter_mut().zip(&first) {
                *value = center + jitter * noise.next();
            }
            row += 3;
        }
    }
    values
}

#[test]
fn few_rows_lose_nothing() {
    for (seed, shape) in (31..).zip(SHAPES) {
        for (row_count, threshold) in [(0, 0.9), (1, 0.9), (2, 0.9), (1_500, 0.8), (1_500, 0.97)] {
            let values = rows(shape, row_count, DIM, seed);
            let (exact, found) = both(&values, DIM, threshold, &GraphJoin::default());
            check(&exact, &found);
            let recall = found.measured_recall(near(threshold)).unwrap();
            assert_eq!((recall.low, recall.high), (1.0, 1.0), "{shape:?}");
            assert_eq!(recall.sampled_rows, exact.distinct_rows);
            assert_eq!(recall.sampled_pairs, 2 * exact.pairs.len() as u64);
            assert_eq!(found.collect(), exact, "{shape:?}");
        }
    }
}

#[test]
fn duplicates_are_found_and_recall_is_measured() {
    let values = duplicates(26_000, 5);
    for index in [JoinIndex::Memfold(GraphOptions::default()), POOR] {
        let by = GraphJoin { index, ef_search: 32, audited_rows: 3_000 };
        let (exact, found) = both(&values, DIM, 0.97, &by);
        assert!(exact.distinct_rows < 20_500 && exact.pairs.len() > 40_000);
        let recall = check(&exact, &found);
        let measured = found.measured_recall(near(0.97)).unwrap();
        assert!((measured.low..=measured.high).contains(&recall), "{recall} {measured:?}");
        assert_eq!(measured.sampled_rows, 3_000);
        if index == POOR {
            assert!(recall < 0.97 && measured.high < 1.0, "{recall} {measured:?}");
            assert!(found.counters().pairs_found_once > 0);
        } else {
            assert!(recall > 0.999, "{recall}");
        }
        // Above the join's threshold as well.
        let counted = |pairs: &[super::Pair]| {
            pairs.iter().filter(|pair| pair.similarity >= near(0.985)).count() as f64
        };
        let higher = found.measured_recall(near(0.985)).unwrap();
        let recall = counted(&found.collect().pairs) / counted(&exact.pairs);
        assert!((higher.low..=higher.high).contains(&recall), "{recall} {higher:?}");
    }
}

#[test]
fn neither_threads_nor_level_nor_folder_is_seen() {
    let values = duplicates(12_000, 11);
    let matrix = VectorMatrix::from_slice(&values, DIM).unwrap();
    let by = GraphJoin { index: POOR, ef_search: 16, audited_rows: 500 };
    let folder = tempfile::tempdir().unwrap();
    let join = |threads, kernels, scratch_dir| {
        let pool = pool(threads);
        let options = JoinOptions { kernels, scratch_dir, ..options(&pool, &NoProgress) };
        let found = join_pairs_by_graph(&matrix, near(0.95), &options, &by).unwrap();
        let recall = found.measured_recall(near(0.95));
        (*found.counters(), recall, found.collect())
    };
    let expected = join(1, Kernels::active(), None);
    assert!(expected.2.pairs.len() > 1_000);
    for threads in [2, 8] {
        assert!(join(threads, Kernels::active(), Some(folder.path())) == expected, "{threads}");
    }
    for kernels in Level::ALL.into_iter().filter_map(Kernels::at) {
        assert!(join(2, kernels, None) == expected, "{}", kernels.level().name());
    }
}

#[test]
fn the_order_of_rows_is_not_seen() {
    let values = duplicates(9_000, 13);
    let reversed: Vec<f32> = values.chunks(DIM).rev().flatten().copied().collect();
    let by = GraphJoin { index: POOR, ef_search: 16, audited_rows: 700 };
    let joined = |values: &[f32]| {
        let (exact, found) = both(values, DIM, 0.97, &by);
        let recall = found.measured_recall(near(0.97)).unwrap();
        let mut similarities: Vec<_> = found.pairs().map(|pair| pair.similarity).collect();
        similarities.sort_unstable();
        assert!(similarities.len() < exact.pairs.len(), "a rich graph shows nothing");
        (recall, *found.counters(), found.logical_pairs(), similarities)
    };
    assert!(joined(&values) == joined(&reversed));
}

#[test]
fn a_budget_is_kept() {
    let values = duplicates(9_000, 17);
    let matrix = VectorMatrix::from_slice(&values, DIM).unwrap();
    let pool = pool(2);
    let budgeted = |pair_budget| JoinOptions { pair_budget, ..options(&pool, &NoProgress) };
    let by = GraphJoin::default();
    let join = |budget| join_pairs_by_graph(&matrix, near(0.97), &budgeted(budget), &by);
    let count = join(None).unwrap().pair_count();
    assert_eq!(join(Some(count)).unwrap().pair_count(), count);
    // Just one too many, so many that searching stops, and so many that a sample tells.
    for budget in [count - 1, count / 4, 0] {
        let error = join(Some(budget)).unwrap_err();
        let JoinError::PairBudget { budget: found, histogram, .. } = error else {
            panic!("{error}")
        };
        assert!(found == budget && !histogram.is_empty());
    }
}

#[test]
fn it_can_be_stopped_at_every_look() {
    let values = duplicates(9_000, 19);
    let matrix = VectorMatrix::from_slice(&values, DIM).unwrap();
    let pool = pool(2);
    let by = GraphJoin { audited_rows: 600, ..GraphJoin::default() };
    let join = |looks| {
        let progress = StopAfter { looks_max: looks, ..StopAfter::default() };
        let joined = join_pairs_by_graph(&matrix, near(0.97), &options(&pool, &progress), &by);
        (joined.map(|found| found.pair_count()), progress.looks.into_inner())
    };
    let (found, looks) = join(u64::MAX);
    assert!(found.is_ok());
    for stop in (0..looks).step_by(7).chain([looks - 1]) {
        assert_eq!(join(stop).0, Err(JoinError::Cancelled), "{stop} of {looks}");
    }
}

#[test]
fn rows_without_a_direction_are_named() {
    let mut values = rows(Shape::Random, 50, 4, 23);
    values[4 * 33] = f32::NAN;
    let matrix = VectorMatrix::from_slice(&values, 4).unwrap();
    let pool = pool(1);
    let options = options(&pool, &NoProgress);
    let error = join_pairs_by_graph(&matrix, near(0.9), &options, &GraphJoin::default());
    assert!(matches!(error, Err(JoinError::InvalidVector { row: 33, .. })));
}

#[cfg(feature = "hnsw_rs")]
#[test]
fn hnsw_rs_is_joined_and_measured_alike() {
    let values = duplicates(7_000, 29);
    let by = GraphJoin { index: JoinIndex::HnswRs, ef_search: 32, audited_rows: 1_000 };
    let (exact, found) = both(&values, DIM, 0.97, &by);
    let recall = check(&exact, &found);
    let measured = found.measured_recall(near(0.97)).unwrap();
    assert!(recall > 0.97 && (measured.low..=measured.high).contains(&recall), "{measured:?}");
}
