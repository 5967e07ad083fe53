//! [`Plan`]: how many directions each stage looks at, chosen by a sample and a model of cost.

use super::JoinOptions;
use super::verdict::Verdict;
use crate::transform::{Projection, Quantizer, normalize_into};

/// Below this many distinct rows, comparing all pairs is faster than learning a projection.
const DIRECT_ROWS_MAX: usize = 1_024;

/// Rows whose covariance is learned.
const LEARNED_ROWS: usize = 2_048;

/// Rows whose pairs the cost model and the histogram look at.
const SAMPLED_ROWS: usize = 512;

/// Directions of the first stage that the model may choose.
const FIRST_WIDTHS: [usize; 6] = [32, 48, 64, 80, 96, 128];

/// Directions of the second stage: its codes are read for survivors of the first only.
const SECOND_WIDTH: usize = 128;

/// Cost of a survivor of the first stage, in units of a pair's 64 directions in the first stage
/// (0.3 ns on a Zen 4 core, as are the other costs).
const SURVIVOR_COST: f64 = 30.0;

/// Pairs that a kernel tests together, and the cost of finding those that passed among them.
const TILE_PAIRS: i32 = 384;
const TILE_COST: f64 = 250.0;

/// Cost of a pair that is compared in f32, in the same units.
const DIRECT_COST: f64 = 85.0;

/// Similarities tabulated for a person who must choose a threshold.
const TABULATED: [f64; 14] =
    [-0.5, 0.0, 0.25, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.999];

/// Distinct rows with the smallest hashes: a sample that the order of rows does not change.
#[derive(Debug)]
pub(super) struct Sample {
    /// Positions among the distinct rows, by hash.
    positions: Vec<usize>,
}

/// What the join does with a pair before the verdict.
#[derive(Debug)]
pub(super) enum Plan {
    /// Nothing: every pair is judged.
    Direct,
    /// Sign tests of int8 codes.
    Cascade(Stages),
}

/// The tests of a cascade.
#[derive(Debug)]
pub(super) struct Stages {
    pub(super) projection: Projection,
    pub(super) first: Quantizer,
    /// `None` when the first test uses every direction already.
    pub(super) second: Option<Quantizer>,
}

impl Sample {
    /// Draws the sample.
    pub(super) fn draw(verdict: &Verdict<'_>) -> Self {
        let hashes = &verdict.distinct.hashes;
        let mut positions: Vec<usize> = (0..hashes.len()).collect();
        if positions.len() > LEARNED_ROWS {
            positions.select_nth_unstable_by_key(LEARNED_ROWS, |&at| (hashes[at], at));
            positions.truncate(LEARNED_ROWS);
        }
        positions.sort_unstable_by_key(|&at| (hashes[at], at));
        Self { positions }
    }

    /// Returns the rows whose pairs are looked at.
    fn compared(&self) -> &[usize] {
        &self.positions[..self.positions.len().min(SAMPLED_ROWS)]
    }

    /// Returns how many pairs are looked at.
    pub(super) fn pair_count(&self) -> u64 {
        let rows = self.compared().len() as u64;
        rows * rows.saturating_sub(1) / 2
    }

    /// Counts the sampled pairs at or above the threshold.
    pub(super) fn near_pairs(&self, verdict: &Verdict<'_>, options: &JoinOptions<'_>) -> u64 {
        let rows = self.compared();
        let near = |i: usize| {
            rows[..i].iter().filter(|&&other| verdict.decide(other, rows[i]).is_some()).count()
        };
        options.pool.map(rows.len(), near).iter().sum::<usize>() as u64
    }

    /// Returns the share of sampled pairs at or above each tabulated similarity, ascending.
    pub(super) fn histogram(
        &self,
        verdict: &Verdict<'_>,
        options: &JoinOptions<'_>,
    ) -> Vec<(f64, f64)> {
        let rows = self.compared();
        let found = options.pool.map(rows.len(), |i| {
            let similarities = rows[..i].iter().filter_map(|&at| verdict.similarity(at, rows[i]));
            similarities.map(|found| found.get()).collect::<Vec<_>>()
        });
        let found = found.concat();
        let count = |least: f64| found.iter().filter(|&&similarity| similarity >= least).count();
        let share = |least: f64| count(least) as f64 / found.len().max(1) as f64;
        TABULATED.iter().map(|&least| (least, share(least))).collect()
    }
}

impl Plan {
    /// Chooses the plan that the model expects to be fastest; every plan gives the same answer.
    pub(super) fn choose(
        verdict: &Verdict<'_>,
        sample: &Sample,
        options: &JoinOptions<'_>,
    ) -> Self {
        if verdict.distinct.len() <= DIRECT_ROWS_MAX {
            return Self::Direct;
        }
        let kernels = options.kernels;
        let dim = verdict.matrix.dim();
        let units = sampled_units(verdict, &sample.positions, options);
        let projection = Projection::learn(&units, dim, SECOND_WIDTH, options.pool, kernels);
        let width = projection.width();
        let coordinates = options.pool.map(sample.positions.len(), |at| {
            let mut coordinates = Vec::with_capacity(width);
            let unit = &units[at * dim..(at + 1) * dim];
            projection.apply(unit, width, kernels, &mut coordinates);
            coordinates
        });
        let coordinates = coordinates.concat();
        let fit = |width| Quantizer::fit(&projection, width, &coordinates, verdict.threshold.get());
        let compared = &coordinates[..sample.compared().len() * width];
        let candidates = FIRST_WIDTHS.into_iter().filter(|&first| first < width).chain([width]);
        let cheapest = candidates
            .map(|first| {
                let passing = passing_share(&fit(first), compared, width, options);
                (expected_cost(first, passing), first)
            })
            .min_by(|(a, _), (b, _)| a.total_cmp(b));
        match cheapest {
            Some((cost, first)) if cost < DIRECT_COST => {
                let second = (first < width).then(|| fit(width));
                Self::Cascade(Stages { first: fit(first), second, projection })
            }
            _ => Self::Direct,
        }
    }
}

/// Returns the cost of a pair whose first stage has `first` directions and lets a share pass.
fn expected_cost(first: usize, passing: f64) -> f64 {
    let passing_tiles = 1.0 - (1.0 - passing).powi(TILE_PAIRS);
    let tile_share = TILE_COST / f64::from(TILE_PAIRS);
    first as f64 / 64.0 + passing_tiles * tile_share + passing * SURVIVOR_COST
}

fn sampled_units(
    verdict: &Verdict<'_>,
    positions: &[usize],
    options: &JoinOptions<'_>,
) -> Vec<f32> {
    let units = options.pool.map(positions.len(), |at| {
        let mut unit = Vec::with_capacity(verdict.matrix.dim());
        let position = positions[at];
        normalize_into(
            verdict.vector(position),
            verdict.distinct.squared_norms[position],
            &mut unit,
        );
        unit
    });
    units.concat()
}

/// Returns the share of pairs of rows (of `width` coordinates each) that pass the test.
fn passing_share(
    quantizer: &Quantizer,
    coordinates: &[f32],
    width: usize,
    options: &JoinOptions<'_>,
) -> f64 {
    let mut codes = Vec::new();
    let biases: Vec<i32> = coordinates
        .chunks_exact(width.max(1))
        .map(|row| quantizer.encode(row, &mut codes))
        .collect();
    let row_codes: Vec<&[i8]> = codes.chunks_exact(quantizer.dim()).collect();
    let passing = options.pool.map(biases.len(), |i| {
        let pass = |&j: &usize| {
            options.kernels.dot_i8(row_codes[i], row_codes[j]) + biases[i] + biases[j] >= 0
        };
        (0..i).filter(pass).count()
    });
    let pair_count = biases.len() * biases.len().saturating_sub(1) / 2;
    passing.iter().sum::<usize>() as f64 / pair_count.max(1) as f64
}
