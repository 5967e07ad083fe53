//! The join against all pairs reranked one by one.

use memfold_simd::{Kernels, Level};
use proptest::prelude::*;

use super::{JoinCounters, JoinError, JoinOptions, JoinedPairs, Pair, PairStream, join_pairs};
use crate::Row;
use crate::testing::{SHAPES, Shape, StopIn, Values, matrix, near, pool, real_embeddings, rows};

fn joined(values: &[f32], dim: usize, threshold: f64) -> (JoinCounters, JoinedPairs) {
    let pool = pool(2);
    let options = JoinOptions::new(&pool);
    let found = join_pairs(&matrix(values, dim), near(threshold), &options).unwrap();
    (*found.counters(), found.collect())
}

/// Joins at a threshold of 0.9 within a budget; `None`: this processor lacks the level.
fn join_at(
    values: &[f32],
    dim: usize,
    pair_budget: Option<u64>,
    threads: usize,
    level: Level,
) -> Option<Result<JoinedPairs, JoinError>> {
    let pool = pool(threads);
    let options =
        JoinOptions { kernels: Kernels::at(level)?, pair_budget, ..JoinOptions::new(&pool) };
    Some(join_pairs(&matrix(values, dim), near(0.9), &options).map(PairStream::collect))
}

/// Judges every two rows, equal or not.
fn brute_force(values: &[f32], dim: usize, threshold: f64) -> Vec<Pair> {
    let (matrix, kernels) = (matrix(values, dim), Kernels::active());
    let norms: Vec<f64> =
        matrix.rows().map(|row| kernels.dot(matrix.vector(row), matrix.vector(row))).collect();
    let mut pairs = Vec::new();
    for left in matrix.rows() {
        for right in matrix.rows().skip(left.index() + 1) {
            let norms = [norms[left.index()], norms[right.index()]];
            let similarity =
                kernels.similarity(matrix.vector(left), matrix.vector(right), norms).unwrap();
            if similarity.get() >= threshold {
                pairs.push(Pair { left, right, similarity });
            }
        }
    }
    pairs
}

/// Expands groups into all logical pairs, without their similarity.
fn expanded(joined: &JoinedPairs) -> Vec<(Row, Row)> {
    let members = |row: Row| {
        joined.groups.iter().find(|group| group[0] == row).cloned().unwrap_or_else(|| vec![row])
    };
    let mut pairs = Vec::new();
    for group in &joined.groups {
        for (at, &left) in group.iter().enumerate() {
            pairs.extend(group[at + 1..].iter().map(|&right| (left, right)));
        }
    }
    for pair in &joined.pairs {
        for left in members(pair.left) {
            pairs.extend(members(pair.right).iter().map(|&r| (left.min(r), left.max(r))));
        }
    }
    pairs.sort_unstable();
    pairs
}

fn assert_complete(values: &[f32], dim: usize, threshold: f64) {
    let (_, joined) = joined(values, dim, threshold);
    let expected = brute_force(values, dim, threshold);
    assert_eq!(joined.logical_pairs, expected.len() as u64);
    let rows: Vec<_> = expected.iter().map(|pair| (pair.left, pair.right)).collect();
    assert_eq!(expanded(&joined), rows);
    // A pair of one group has a copy too.
    let is_copy = |row| joined.groups.iter().any(|group| group[1..].contains(&row));
    let of_distinct = |pair: &&Pair| !is_copy(pair.left) && !is_copy(pair.right);
    assert!(joined.pairs.iter().eq(expected.iter().filter(of_distinct)));
}

#[test]
fn the_cascade_finds_every_pair_of_every_shape() {
    for (seed, shape) in (0..).zip(SHAPES) {
        for dim in [3, 30, 150] {
            // Above the size below which every pair is reranked.
            let values = rows(shape, 1_300, dim, seed);
            for threshold in [0.6, 0.95] {
                assert_complete(&values, dim, threshold);
            }
        }
    }
}

#[test]
fn cells_leave_pairs_out_and_miss_none() {
    let values = rows(Shape::Clustered, 3_000, 32, 41);
    let (counters, joined) = joined(&values, 32, 0.9);
    assert_eq!(counters.pairs_total, joined.distinct_rows * (joined.distinct_rows - 1) / 2);
    assert!(counters.pairs_tested < counters.pairs_total / 2, "{counters:?}");
    assert!(counters.pairs_passed_first <= counters.pairs_tested, "{counters:?}");
    assert!(counters.pairs_judged <= counters.pairs_passed_first, "{counters:?}");
    assert!(joined.pairs.len() as u64 <= counters.pairs_judged, "{counters:?}");
    assert_complete(&values, 32, 0.9);
}

#[test]
fn more_directions_are_taken_where_vectors_differ_in_many() {
    let (row_count, dim) = (3_000, 800);
    let mut values = rows(Shape::Random, row_count, dim, 47);
    let mut noise = Values(48);
    // Every tenth row comes near the one before: on both sides of the threshold.
    for row in (9..row_count).step_by(10) {
        let jitter = 0.3 + 0.4 * row as f32 / row_count as f32;
        for at in row * dim..(row + 1) * dim {
            values[at] = values[at - dim] + jitter * noise.next();
        }
    }
    let (counters, joined) = joined(&values, dim, 0.85);
    assert!(counters.first_width > 96, "{counters:?}");
    assert!(counters.pairs_judged < counters.pairs_total / 100, "{counters:?}");
    assert!((row_count / 40..row_count / 10).contains(&joined.pairs.len()));
    assert_complete(&values, dim, 0.85);
}

#[test]
fn a_scratch_folder_changes_nothing() {
    let values = rows(Shape::Clustered, 1_300, 24, 43);
    let (pool, folder) = (pool(2), tempfile::tempdir().unwrap());
    let options = JoinOptions { scratch_dir: Some(folder.path()), ..JoinOptions::new(&pool) };
    let found = join_pairs(&matrix(&values, 24), near(0.9), &options).unwrap();
    assert_eq!(found.collect(), joined(&values, 24, 0.9).1);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_threshold_that_most_pairs_reach_is_answered_within_the_budget() {
    let values = rows(Shape::Random, 1_100, 12, 5);
    for threshold in [-1.0, -0.3, 0.0, 0.3] {
        assert_complete(&values, 12, threshold);
    }
}

#[test]
fn pairs_beside_the_threshold_are_judged_by_the_canonical_similarity() {
    let dim = 96;
    let mut values = rows(Shape::Random, 1_200, dim, 17);
    let mut noise = Values(3);
    for at in 0..600 * dim {
        values[600 * dim + at] = values[at] + 0.1 * noise.next();
    }
    let exact = brute_force(&values, dim, 0.9);
    for pair in exact.iter().step_by(97) {
        for offset in [-1e-7, -1e-12, 0.0, 1e-12, 1e-7] {
            let threshold = pair.similarity.get() + offset;
            let expected = exact.iter().filter(|one| one.similarity.get() >= threshold);
            assert!(joined(&values, dim, threshold).1.pairs.iter().eq(expected), "{threshold}");
        }
    }
}

#[test]
fn the_answer_depends_neither_on_threads_nor_on_the_level() {
    let values = rows(Shape::Clustered, 1_500, 100, 23);
    let (_, expected) = joined(&values, 100, 0.9);
    assert!(expected.pairs.len() > 1_000);
    for level in Level::ALL {
        for threads in [1, 2, 8] {
            let Some(found) = join_at(&values, 100, None, threads, level) else { continue };
            assert_eq!(found.unwrap(), expected);
        }
    }
}

#[test]
fn the_order_of_rows_only_renames_them() {
    let (row_count, dim) = (1_200, 40);
    let values = rows(Shape::Clustered, row_count, dim, 29);
    // 7 and 1,200 have no common divisor: a permutation.
    let renamed = |row: usize| (row * 7 + 5) % row_count;
    let mut shuffled = vec![0.0; values.len()];
    for (row, vector) in values.chunks_exact(dim).enumerate() {
        shuffled[renamed(row) * dim..][..dim].copy_from_slice(vector);
    }
    let (_, JoinedPairs { pairs: mut expected, .. }) = joined(&values, dim, 0.9);
    for pair in &mut expected {
        let rows = [pair.left, pair.right].map(|row| Row(renamed(row.index()) as u32));
        (pair.left, pair.right) = (rows[0].min(rows[1]), rows[0].max(rows[1]));
    }
    expected.sort_by_key(|pair| (pair.left, pair.right));
    assert_eq!(joined(&shuffled, dim, 0.9).1.pairs, expected);
}

#[test]
fn few_rows_equal_rows_and_one_dimension_are_joined() {
    let join = |values: &[f32], dim, threshold| joined(values, dim, threshold).1;
    assert_eq!(join(&[], 4, 0.9), JoinedPairs::default());
    let one = join(&[1.0, 2.0], 2, 0.9);
    assert_eq!((one.distinct_rows, one.logical_pairs), (1, 0));
    let equal = join(&[0.3; 3 * 2_000], 3, 1.0);
    assert_eq!((equal.distinct_rows, equal.logical_pairs), (1, 1_999_000));
    assert_eq!(equal.groups, [(0..2_000).map(Row).collect::<Vec<_>>()]);
    // Negative zero equals zero.
    assert_eq!(join(&[0.0, 1.0, -0.0, 1.0], 2, 1.0).groups, [[Row(0), Row(1)]]);
    // One dimension has two directions.
    let signs = [1.0_f32, -1.0].into_iter().cycle();
    let values: Vec<f32> =
        (1..=1_200_u16).zip(signs).map(|(x, sign)| f32::from(x) * sign).collect();
    let two = join(&values, 1, 0.5);
    assert_eq!((two.distinct_rows, two.logical_pairs), (1_200, 600 * 599));
}

#[test]
fn nearly_equal_rows_pass_a_projection_without_a_range() {
    let mut values = vec![0.25_f32; 4 * 1_100];
    for (row, vector) in values.chunks_exact_mut(4).enumerate() {
        vector[3] += row as f32 * f32::EPSILON / 4.0;
    }
    for threshold in [1.0 - 1e-9, 0.9] {
        assert_complete(&values, 4, threshold);
    }
}

#[test]
fn an_invalid_row_is_named() {
    for (bad, reason) in [
        (f32::NAN, "the vector holds NaN or an infinite value"),
        (f32::NEG_INFINITY, "the vector holds NaN or an infinite value"),
        (0.0, "the vector is all zeros"),
    ] {
        let mut values = vec![1.0; 3_000];
        values[2_500] = bad;
        values[2_700] = bad;
        let error = join_at(&values, 1, None, 2, Level::Scalar).unwrap().unwrap_err();
        assert_eq!(error, JoinError::InvalidVector { row: 2_500, reason });
    }
}

#[test]
fn a_spent_budget_tells_the_same_on_every_way() {
    let values = rows(Shape::Clustered, 2_500, 24, 31);
    let pair_count = joined(&values, 24, 0.9).1.pairs.len() as u64;
    let run = |budget, threads, level| join_at(&values, 24, Some(budget), threads, level);
    // Excess that only counting finds, and excess that the sample is sure of.
    for budget in [pair_count - 1, 100] {
        let expected = run(budget, 1, Level::Scalar).unwrap().unwrap_err();
        assert!(matches!(&expected, JoinError::PairBudget { histogram, .. }
            if histogram.is_sorted() && histogram.iter().any(|&(_, share)| share > 0.0)));
        for level in Level::ALL {
            for threads in [1, 8] {
                let Some(result) = run(budget, threads, level) else { continue };
                assert_eq!(result.unwrap_err(), expected);
            }
        }
    }
    assert!(run(pair_count, 2, Level::Scalar).unwrap().is_ok());
}

#[test]
fn a_spent_budget_advises_a_threshold_or_suspects_the_model() {
    let spent = |histogram| JoinError::PairBudget { budget: 10, threshold: 0.8, histogram };
    let error = spent(vec![(0.8, 0.5), (0.85, 0.2), (0.9, 0.0005)]);
    assert_eq!(error.to_string(), "more than 10 distinct pairs are at or above 0.8");
    let hint = error.hint().unwrap();
    assert_eq!(hint, "raise the threshold: 0.050 % of sampled pairs are at or above 0.9");
    let hint = spent(vec![(0.8, 1.0), (0.9, 1.0)]).hint().unwrap();
    assert!(hint.contains("embedding model"));
}

#[test]
fn every_stage_can_be_interrupted() {
    let values = rows(Shape::Random, 1_500, 40, 37);
    for stage in ["read vectors", "encode vectors", "compare pairs"] {
        let (pool, progress) = (pool(2), &StopIn::new(stage, 0));
        let options = JoinOptions { progress, ..JoinOptions::new(&pool) };
        let result = join_pairs(&matrix(&values, 40), near(0.9), &options);
        assert_eq!(result.unwrap_err(), JoinError::Cancelled, "{stage}");
    }
}

proptest! {
    #[test]
    fn few_rows_of_any_values_are_joined_completely(
        values in prop::collection::vec(
            prop_oneof![
                4 => -1.0_f32..1.0,
                2 => Just(0.5),
                1 => Just(0.0),
                1 => Just(f32::MIN_POSITIVE / 16.0),
                1 => Just(f32::MAX),
            ],
            3 * 24,
        ),
        threshold in -1.0_f64..=1.0,
    ) {
        let valid = values.chunks_exact(3).filter(|row| row.iter().any(|value| value.abs() > 0.0));
        let values: Vec<f32> = valid.flatten().copied().collect();
        assert_complete(&values, 3, threshold);
    }
}

#[test]
fn real_embeddings_have_the_known_pairs() {
    let Some((values, dim)) = real_embeddings() else { return };
    for (threshold, expected) in [
        (0.75, 63_328),
        (0.8, 41_920),
        (0.85, 30_244),
        (0.9, 22_649),
        (0.95, 12_192),
        (0.98, 4_355),
    ] {
        let (_, joined) = joined(&values, dim, threshold);
        assert_eq!(joined.distinct_rows, 36_018);
        assert_eq!(joined.logical_pairs, expected, "{threshold}");
    }
}
