//! Vectors generated like real ones have their covariance, their neighbours and their duplicates.

use memfold_bench::synthetic::{DUPLICATE_THRESHOLDS, Likeness, NEIGHBOR_RANKS};
use memfold_bench::synthetic::{VectorGenerator, VectorRecipe};
use memfold_index::{JoinOptions, Pool, VectorMatrix};
use memfold_tests::{real_vectors, report_skipped};

const SEED: u64 = 41;

/// By how much a share of the variance, or the length of the mean, may be off.
const VARIANCE_OFF_MAX: f64 = 0.04;
/// By how much a quantile of similarities to the nearest and the tenth neighbour may be off, from 0.05 to 0.95;
/// seeds differ by 0.02.
const NEIGHBOR_OFF_MAX: f64 = 0.06;
/// By how much a quantile of the similarities of random rows may be off.
const STRANGERS_OFF_MAX: f64 = 0.04;
/// Which part of the rows in groups may be too many or too few. Neighbours just below 0.85 spill over it.
const DUPLICATES_OFF_MAX: [f64; DUPLICATE_THRESHOLDS.len()] = [0.15, 0.1, 0.1];

/// Rows, and what they look like.
struct Measured {
    values: Vec<f32>,
    likeness: Likeness,
}

fn options(pool: &Pool) -> JoinOptions<'_> {
    JoinOptions::new(pool)
}

impl Measured {
    fn of(values: Vec<f32>, dim: usize, pool: &Pool) -> Self {
        let matrix = VectorMatrix::from_slice(&values, dim).unwrap();
        let likeness = Likeness::measure(&matrix, &options(pool)).unwrap();
        Self { values, likeness }
    }

    /// Generates so many rows like these.
    fn like(&self, rows: usize, pool: &Pool) -> Self {
        let dim = self.likeness.dim;
        let matrix = VectorMatrix::from_slice(&self.values, dim).unwrap();
        let recipe = VectorRecipe::like(&matrix, rows as u32, SEED, &options(pool)).unwrap();
        let generator = VectorGenerator::new(recipe.build().unwrap());
        let mut values = vec![0.0; rows * dim];
        for (row, vector) in (0..).zip(values.chunks_exact_mut(dim)) {
            generator.row(row, vector);
        }
        Self::of(values, dim, pool)
    }
}

fn assert_like(real: &Likeness, synthetic: &Likeness, hundredth_off_max: f64) {
    let within = |what: &str, real: f64, synthetic: f64, off_max: f64| {
        assert!(
            (real - synthetic).abs() <= off_max,
            "{what}: {real} really, {synthetic} generated"
        );
    };
    within("length of the mean", real.mean_norm, synthetic.mean_norm, VARIANCE_OFF_MAX);
    for directions in [1, 4, 16, 64] {
        let [real, synthetic] = [real, synthetic].map(|of| of.explained(directions));
        within("variance along leading directions", real, synthetic, VARIANCE_OFF_MAX);
    }
    let off_max = [NEIGHBOR_OFF_MAX, NEIGHBOR_OFF_MAX, hundredth_off_max];
    for (at, off_max) in off_max.into_iter().enumerate() {
        let off = real.neighbors[at].largest_difference(&synthetic.neighbors[at]);
        assert!(off <= off_max, "neighbour {}: off by {off}", NEIGHBOR_RANKS[at]);
    }
    let off = real.strangers.largest_difference(&synthetic.strangers);
    assert!(off <= STRANGERS_OFF_MAX, "random rows: off by {off}");
    for (at, off_max) in DUPLICATES_OFF_MAX.into_iter().enumerate() {
        let [real, synthetic] = [real, synthetic].map(|of| of.duplicates[at].share);
        assert!(real > 0.0, "no duplicates at {}", DUPLICATE_THRESHOLDS[at]);
        let what = format!("rows in groups at {}", DUPLICATE_THRESHOLDS[at]);
        within(&what, real, synthetic, off_max * real);
    }
}

#[test]
fn rows_like_real_ones_are_like_them() {
    let Some((values, dim)) = real_vectors(36_000) else { return report_skipped() };
    let pool = Pool::new(None).unwrap();
    let real = Measured::of(values, dim, &pool);
    assert_like(&real.likeness, &real.like(36_000, &pool).likeness, NEIGHBOR_OFF_MAX);
}

#[test]
fn more_rows_than_there_are_are_like_them() {
    let Some((values, dim)) = real_vectors(24_000) else { return report_skipped() };
    let pool = Pool::new(None).unwrap();
    // Two sets that have no row in common. Among so few rows groups hold 64 at most: the hundredth neighbour
    // stands in another one.
    for values in values.chunks_exact(12_000 * dim) {
        let real = Measured::of(values.to_vec(), dim, &pool);
        assert_like(&real.likeness, &real.like(24_000, &pool).likeness, 0.12);
    }
}
