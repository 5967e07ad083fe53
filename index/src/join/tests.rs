//! The join against all pairs reranked one by one.

use std::sync::atomic::{AtomicBool, Ordering};

use memfold_simd::{Kernels, Level, Similarity};
use proptest::prelude::*;

use super::{JoinError, JoinOptions, JoinedPairs, Pair, PairStream, join_pairs};
use crate::{Pool, Progress, Row, VectorMatrix};

/// A small stream of values; tests name its seed.
pub(crate) struct Values(pub(crate) u64);

impl Values {
    /// Returns a value in \[−1, 1).
    pub(crate) fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) >> 40) as f32 / 8_388_608.0 - 1.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        ((f64::from(self.next()) + 1.0) / 2.0 * limit as f64) as usize
    }
}

/// What rows look like.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shape {
    /// No structure.
    Random,
    /// Few centres with jitter from none to wide.
    Clustered,
    /// A common direction dominates.
    Anisotropic,
    /// Most rows repeat an earlier one.
    Duplicates,
    /// One value differs from zero.
    OneHot,
    /// Rows of very different length, down to subnormal and up to 1e30.
    Norms,
}

pub(crate) const SHAPES: [Shape; 6] = [
    Shape::Random,
    Shape::Clustered,
    Shape::Anisotropic,
    Shape::Duplicates,
    Shape::OneHot,
    Shape::Norms,
];

pub(crate) fn rows(shape: Shape, row_count: usize, dim: usize, seed: u64) -> Vec<f32> {
    let mut values = Values(seed);
    let centers: Vec<f32> = (0..dim * 7).map(|_| values.next()).collect();
    let mut all: Vec<f32> = Vec::new();
    for _ in 0..row_count {
        let center = values.below(7) * dim;
        let repeated = values.below(row_count) * dim;
        let jitter = 0.3 * values.next() * values.next();
        let scale = 10_f64.powi(values.below(70) as i32 - 39) as f32;
        let hot = values.below(dim);
        for at in 0..dim {
            let random = values.next();
            let clustered = centers[center + at] + jitter * random;
            all.push(match shape {
                Shape::Random => random,
                Shape::Clustered => clustered,
                Shape::Anisotropic => 1.0 + 0.2 * clustered,
                Shape::Duplicates => all.get(repeated + at).copied().unwrap_or(random),
                Shape::OneHot if at == hot => random.max(0.0) + 0.5,
                Shape::OneHot => 0.0,
                Shape::Norms => clustered * scale,
            });
        }
    }
    all
}

fn stream(
    values: &[f32],
    dim: usize,
    threshold: f64,
    threads: usize,
    level: Level,
) -> Result<PairStream, JoinError> {
    let pool = Pool::new(threads.try_into().ok()).unwrap();
    let options = JoinOptions { kernels: Kernels::at(level).unwrap(), ..JoinOptions::new(&pool) };
    let matrix = VectorMatrix::from_slice(values, dim).unwrap();
    join_pairs(&matrix, Similarity::new(threshold).unwrap(), &options)
}

fn join(
    values: &[f32],
    dim: usize,
    threshold: f64,
    threads: usize,
    level: Level,
) -> Result<JoinedPairs, JoinError> {
    stream(values, dim, threshold, threads, level).map(PairStream::collect)
}

/// Judges every two rows, equal or not.
fn brute_force(values: &[f32], dim: usize, threshold: f64) -> Vec<Pair> {
    let matrix = VectorMatrix::from_slice(values, dim).unwrap();
    let kernels = Kernels::active();
    let norms: Vec<f64> =
        matrix.rows().map(|row| kernels.dot(matrix.vector(row), matrix.vector(row))).collect();
    let mut pairs = Vec::new();
    for left in matrix.rows() {
        for right in matrix.rows().skip(left.index() + 1) {
            let norms = (norms[left.index()], norms[right.index()]);
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
    let joined = join(values, dim, threshold, 2, Kernels::active().level()).unwrap();
    let expected = brute_force(values, dim, threshold);
    assert_eq!(joined.logical_pairs, expected.len() as u64);
    let rows: Vec<_> = expected.iter().map(|pair| (pair.left, pair.right)).collect();
    assert_eq!(expanded(&joined), rows);
    let of_distinct = |pair: &&Pair| {
        let is_copy = |row| joined.groups.iter().any(|group| group[1..].contains(&row));
        !is_copy(pair.left) && !is_copy(pair.right) && !in_one_group(&joined, pair)
    };
    let distinct: Vec<_> = expected.iter().filter(of_distinct).copied().collect();
    assert_eq!(joined.pairs, distinct);
}

fn in_one_group(joined: &JoinedPairs, pair: &Pair) -> bool {
    joined.groups.iter().any(|group| group.contains(&pair.left) && group.contains(&pair.right))
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
    let joined = stream(&values, 32, 0.9, 2, Kernels::active().level()).unwrap();
    let counters = *joined.counters();
    assert_eq!(counters.pairs_total, joined.distinct_rows() * (joined.distinct_rows() - 1) / 2);
    assert!(counters.pairs_tested < counters.pairs_total / 2, "{counters:?}");
    assert!(counters.pairs_passed_first <= counters.pairs_tested, "{counters:?}");
    assert!(counters.pairs_judged <= counters.pairs_passed_first, "{counters:?}");
    assert!(joined.pair_count() <= counters.pairs_judged, "{counters:?}");
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
    let joined = stream(&values, dim, 0.85, 2, Kernels::active().level()).unwrap();
    let counters = joined.counters();
    assert!(counters.first_width > 96, "{counters:?}");
    assert!(counters.pairs_judged < counters.pairs_total / 100, "{counters:?}");
    let expected = row_count as u64 / 40..row_count as u64 / 10;
    assert!(expected.contains(&joined.pair_count()), "{}", joined.pair_count());
    assert_complete(&values, dim, 0.85);
}

#[test]
fn a_scratch_folder_changes_nothing() {
    let values = rows(Shape::Clustered, 1_300, 24, 43);
    let matrix = VectorMatrix::from_slice(&values, 24).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let run = |scratch_dir| {
        let pool = Pool::new(None).unwrap();
        let options = JoinOptions { scratch_dir, ..JoinOptions::new(&pool) };
        join_pairs(&matrix, Similarity::new(0.9).unwrap(), &options).unwrap().collect()
    };
    assert_eq!(run(Some(folder.path())), run(None));
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
    for row in 0..600 {
        for at in 0..dim {
            values[(row + 600) * dim + at] = values[row * dim + at] + 0.1 * noise.next();
        }
    }
    let exact = brute_force(&values, dim, 0.9);
    for pair in exact.iter().step_by(97) {
        for offset in [-1e-7, -1e-12, 0.0, 1e-12, 1e-7] {
            let threshold = pair.similarity.get() + offset;
            let joined = join(&values, dim, threshold, 2, Kernels::active().level()).unwrap();
            let expected = exact.iter().filter(|one| one.similarity.get() >= threshold);
            assert!(joined.pairs.iter().eq(expected), "{threshold}");
        }
    }
}

#[test]
fn the_answer_depends_neither_on_threads_nor_on_the_level() {
    let values = rows(Shape::Clustered, 1_500, 100, 23);
    let expected = join(&values, 100, 0.9, 1, Level::Scalar).unwrap();
    assert!(expected.pairs.len() > 1_000);
    for level in Level::ALL.into_iter().filter(|&level| Kernels::at(level).is_some()) {
        for threads in [1, 2, 8] {
            assert_eq!(join(&values, 100, 0.9, threads, level).unwrap(), expected);
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
    let level = Kernels::active().level();
    let mut expected: Vec<_> = join(&values, dim, 0.9, 2, level).unwrap().pairs;
    for pair in &mut expected {
        let rows = [pair.left, pair.right].map(|row| Row(renamed(row.index()) as u32));
        (pair.left, pair.right) = (rows[0].min(rows[1]), rows[0].max(rows[1]));
    }
    expected.sort_by_key(|pair| (pair.left, pair.right));
    assert_eq!(join(&shuffled, dim, 0.9, 2, level).unwrap().pairs, expected);
}

#[test]
fn nothing_one_row_and_equal_rows_are_joined() {
    let level = Kernels::active().level();
    assert_eq!(join(&[], 4, 0.9, 2, level).unwrap(), JoinedPairs::default());
    let one = join(&[1.0, 2.0], 2, 0.9, 2, level).unwrap();
    assert_eq!((one.distinct_rows, one.logical_pairs), (1, 0));
    let equal = join(&[0.3; 3 * 2_000], 3, 1.0, 2, level).unwrap();
    assert_eq!((equal.distinct_rows, equal.logical_pairs), (1, 1_999_000));
    assert_eq!(equal.groups, [(0..2_000).map(Row).collect::<Vec<_>>()]);
}

#[test]
fn negative_zero_equals_zero() {
    let joined = join(&[0.0, 1.0, -0.0, 1.0], 2, 1.0, 1, Level::Scalar).unwrap();
    assert_eq!(joined.groups, [[Row(0), Row(1)]]);
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
fn one_dimension_has_two_directions() {
    let signs = [1.0_f32, -1.0].into_iter().cycle();
    let values: Vec<f32> =
        (1..=1_200_u16).zip(signs).map(|(x, sign)| f32::from(x) * sign).collect();
    let joined = join(&values, 1, 0.5, 2, Kernels::active().level()).unwrap();
    assert_eq!((joined.distinct_rows, joined.logical_pairs), (1_200, 600 * 599));
}

#[test]
fn an_invalid_row_is_named() {
    let level = Kernels::active().level();
    for (bad, reason) in [
        (f32::NAN, "the vector holds NaN or an infinite value"),
        (f32::NEG_INFINITY, "the vector holds NaN or an infinite value"),
        (0.0, "the vector is all zeros"),
    ] {
        let mut values = vec![1.0; 3_000];
        values[2_500] = bad;
        values[2_700] = bad;
        let error = join(&values, 1, 0.9, 2, level).unwrap_err();
        assert_eq!(error, JoinError::InvalidVector { row: 2_500, reason });
    }
}

#[test]
fn a_spent_budget_tells_the_same_on_every_way() {
    let values = rows(Shape::Clustered, 2_500, 24, 31);
    let matrix = VectorMatrix::from_slice(&values, 24).unwrap();
    let pair_count = join(&values, 24, 0.9, 2, Level::Scalar).unwrap().pairs.len() as u64;
    let run = |budget, threads: usize, level| {
        let pool = Pool::new(threads.try_into().ok()).unwrap();
        let kernels = Kernels::at(level)?;
        let options = JoinOptions { kernels, pair_budget: Some(budget), ..JoinOptions::new(&pool) };
        Some(join_pairs(&matrix, Similarity::new(0.9).unwrap(), &options).map(PairStream::collect))
    };
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

/// Asks to stop once a stage begins.
struct StopAt(&'static str, AtomicBool);

impl Progress for StopAt {
    fn begin(&self, stage: &'static str, _total: Option<u64>) {
        self.1.fetch_or(stage == self.0, Ordering::Relaxed);
    }
    fn advance(&self, _done: u64) {}
    fn end(&self) {}
    fn cancelled(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }
}

#[test]
fn every_stage_can_be_interrupted() {
    let values = rows(Shape::Random, 1_500, 40, 37);
    let matrix = VectorMatrix::from_slice(&values, 40).unwrap();
    for stage in ["read vectors", "encode vectors", "compare pairs"] {
        let pool = Pool::new(None).unwrap();
        let options = JoinOptions {
            progress: &StopAt(stage, AtomicBool::new(false)),
            ..JoinOptions::new(&pool)
        };
        let result = join_pairs(&matrix, Similarity::new(0.9).unwrap(), &options);
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

/// Returns 36,047 real embeddings, stored as f16, and their dimension.
pub(crate) fn real_embeddings() -> Option<(Vec<f32>, usize)> {
    let Some(folder) = std::env::var_os("MEMFOLD_DATA") else {
        // Test output is captured: shown with --nocapture.
        let _ = std::io::Write::write_all(
            &mut std::io::stdout(),
            b"skipped: MEMFOLD_DATA is not set\n",
        );
        return None;
    };
    let path = std::path::Path::new(&folder).join("embeddings/vectors_f16.npy");
    let bytes = std::fs::read(path).unwrap();
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let values: Vec<f32> = bytes[header..]
        .as_chunks()
        .0
        .iter()
        .map(|&half| widened(u16::from_le_bytes(half)))
        .collect();
    Some((values, 384))
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
        let joined = join(&values, dim, threshold, 2, Kernels::active().level()).unwrap();
        assert_eq!(joined.distinct_rows, 36_018);
        assert_eq!(joined.logical_pairs, expected, "{threshold}");
    }
}

/// Returns the value of an IEEE half-precision number.
fn widened(half: u16) -> f32 {
    let sign = if half >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(half >> 10 & 31), f32::from(half & 1_023));
    match exponent {
        0 => sign * fraction * 2_f32.powi(-24),
        _ => sign * (1.0 + fraction / 1_024.0) * 2_f32.powi(exponent - 15),
    }
}
