//! [`Plan`]: how many cells and directions the tests look at, chosen by samples and a model of cost.

use super::JoinOptions;
use super::blocks::key;
use super::cells::{Assigned, Cells};
use super::encode::Encoder;
use super::sample::Sample;
use super::verdict::Verdict;
use crate::transform::{Covariance, Projection, Quantizer, RowBounds};

/// Below this many distinct rows, comparing all pairs is faster than learning a projection.
const DIRECT_ROWS_MAX: usize = 1_024;

/// Rows whose pairs are looked at, and rows whose covariance is learned.
pub(super) const SAMPLED_ROWS: usize = 2_560;

/// Below this many distinct rows, cells leave out less than they cost; tests have few rows, and cells too.
const CELLS_ROWS_MIN: usize = if cfg!(test) { 1_200 } else { 16_384 };

/// Rows by which each centroid is learned.
const ROWS_PER_CENTROID: usize = 24;

/// Sampled rows of a task.
const BATCH_ROWS: usize = 48;

/// Directions of the first test that the model may choose.
const FIRST_WIDTHS: [usize; 13] = [32, 48, 64, 80, 96, 128, 192, 256, 384, 512, 768, 1_024, 2_048];

/// Directions of the second test, and of cells: their codes are read for survivors of the first only. Where the
/// vectors differ in many more directions than these, twice as many are tried, and so on.
const WIDTH_MIN: usize = 96;

/// More directions than these are not learned: coordinates that vary most take their place.
const LEARNED_WIDTH_MAX: usize = 384;

/// More directions are tried when they may save this many times what trying costs.
const GAIN_MIN: f64 = 4.0;

/// Multiplications in f32 that take as long as the unit of the costs below.
const UNIT_PRODUCTS: f64 = 16.0;

/// Cost of a survivor of the first test, and of a product of codes in the second, in units of a pair's 64 directions
/// in the first test (0.3 ns on a Zen 4 core, as are the other costs).
const SURVIVOR_COST: f64 = 25.0;
const SURVIVOR_COST_PER_CODE: f64 = 0.05;

/// Pairs that a kernel tests together, and the cost of finding those that passed among them.
const TILE_PAIRS: i32 = 384;
const TILE_COST: f64 = 250.0;

/// Cost of a pair that is judged, and of each of its dimensions, in the same units.
const JUDGED_COST: f64 = 30.0;
const JUDGED_COST_PER_DIM: f64 = 0.3;

/// Where cells leave more than this share of pairs, there is one cell: finding out would cost more.
const REMAINING_MAX: f64 = 0.9;

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
    pub(super) quantizer: Quantizer,
    pub(super) cells: Cells,
    /// Directions of the first test.
    pub(super) first_width: usize,
}

impl Plan {
    /// Chooses the plan that the model expects to be fastest; every plan gives the same answer.
    pub(super) fn choose(
        verdict: &Verdict<'_>,
        sample: &Sample,
        options: &JoinOptions<'_>,
    ) -> Self {
        let dim = verdict.matrix.dim();
        let mut cheapest = judged_cost(verdict);
        let mut width = WIDTH_MIN.min(dim);
        if verdict.distinct.len() <= DIRECT_ROWS_MAX || !may_gain(verdict, cheapest, width) {
            return Self::Direct;
        }
        let units = sample.units(verdict, options);
        let learned = &units[sample.compared_count() * dim..];
        let covariance = Covariance::of(learned, dim, options.pool, options.kernels);
        let mut plan = Self::Direct;
        loop {
            let projection = match width {
                ..=LEARNED_WIDTH_MAX => covariance.leading(width, options.pool, options.kernels),
                _ => covariance.axes(width),
            };
            let is_all = width >= dim || projection.width() < width;
            let (stages, cost) = Stages::fit(verdict, projection, sample, &units, options);
            if cost < cheapest {
                (cheapest, plan) = (cost, Self::Cascade(stages));
            }
            width = (2 * width).min(dim);
            if is_all || !may_gain(verdict, cheapest, width) {
                return plan;
            }
        }
    }
}

/// Returns what a verdict costs.
fn judged_cost(verdict: &Verdict<'_>) -> f64 {
    JUDGED_COST + JUDGED_COST_PER_DIM * verdict.matrix.dim() as f64
}

/// Tells whether `width` directions may save more than finding out costs, when a pair costs `cost` without.
fn may_gain(verdict: &Verdict<'_>, cost: f64, width: usize) -> bool {
    let (rows, dim) = (verdict.distinct.len() as f64, verdict.matrix.dim() as f64);
    let learned = width.min(LEARNED_WIDTH_MAX) as f64;
    let covariance = if width <= WIDTH_MIN { SAMPLED_ROWS as f64 * dim * dim / 2.0 } else { 0.0 };
    let products = covariance + learned * dim * (dim + learned) * 6.0 + rows * width as f64 * dim;
    // Fewer directions than before were too few: the first test needs about as many as there were.
    let saved = rows * rows / 2.0 * (cost - width as f64 / 128.0);
    saved * UNIT_PRODUCTS > GAIN_MIN * products
}

impl Stages {
    /// Fits the tests to a projection, and returns what a pair costs with them.
    fn fit(
        verdict: &Verdict<'_>,
        projection: Projection,
        sample: &Sample,
        units: &[f32],
        options: &JoinOptions<'_>,
    ) -> (Self, f64) {
        let (pool, kernels) = (options.pool, options.kernels);
        let width = projection.width();
        let units: Vec<&[f32]> = units.chunks_exact(verdict.matrix.dim()).collect();
        let batches: Vec<&[&[f32]]> = units.chunks(BATCH_ROWS).collect();
        let coordinates = pool.map(batches.len(), |batch| {
            let mut coordinates = Vec::new();
            projection.apply(batches[batch], width, kernels, &mut coordinates);
            coordinates
        });
        let mut coordinates = coordinates.concat();
        let threshold = verdict.threshold.get();
        let quantizer = Quantizer::fit(&projection, width, &coordinates, threshold);
        let cells = learn_cells(verdict, (&projection, &quantizer), options);
        let mut stages = Self { first_width: width, projection, quantizer, cells };
        coordinates.truncate(sample.compared_count() * width);
        let mut survivors = Survivors::of(sample.compared_count(), coordinates, &stages, options);
        if stages.cells.len() > 1
            && survivors.remaining_count() > REMAINING_MAX * survivors.pair_count()
        {
            stages.cells = Cells::one(stages.quantizer.dim());
            survivors.take_all();
        }
        let judged = judged_cost(verdict);
        let firsts = FIRST_WIDTHS.into_iter().filter(|&first| first < width).chain([width]);
        let costs =
            firsts.map(|first| (survivors.expected_cost(&stages, (first, judged), options), first));
        let (cost, first) = costs.min_by(|(a, _), (b, _)| a.total_cmp(b)).expect("one width");
        stages.first_width = first;
        (stages, cost)
    }

    /// Returns the codes of the first test: a multiple of 4.
    pub(super) fn first_dim(&self) -> usize {
        self.first_width.next_multiple_of(4).max(4)
    }
}

/// √n / 2 cells: with more of them, finding the rows that can be near costs more than comparing them.
fn learn_cells(
    verdict: &Verdict<'_>,
    (projection, quantizer): (&Projection, &Quantizer),
    options: &JoinOptions<'_>,
) -> Cells {
    let row_count = verdict.distinct.len();
    let count = if row_count < CELLS_ROWS_MIN { 1 } else { row_count.isqrt() / 2 };
    let sample = if count > 1 { count * ROWS_PER_CENTROID } else { 0 };
    let sample = Sample::draw(verdict, sample);
    let batches: Vec<&[usize]> = sample.positions().chunks(BATCH_ROWS).collect();
    let codes = options.pool.map(batches.len(), |batch| {
        let mut codes = Vec::with_capacity(batches[batch].len() * quantizer.dim());
        let mut encoder = Encoder::new(verdict, projection);
        encoder.encode(batches[batch], (quantizer, 0), &mut codes, &mut Vec::new());
        codes
    });
    Cells::learn(&codes.concat(), quantizer.dim(), count, options.pool, options.kernels)
}

/// Pairs of sampled rows that the cells leave.
struct Survivors {
    row_count: usize,
    coordinates: Vec<f32>,
    codes: Vec<i8>,
    /// Which earlier rows remain for each row.
    remaining: Vec<Vec<usize>>,
}

impl Survivors {
    /// Takes the coordinates of `row_count` rows.
    fn of(
        row_count: usize,
        coordinates: Vec<f32>,
        stages: &Stages,
        options: &JoinOptions<'_>,
    ) -> Self {
        let kernels = options.kernels;
        let mut survivors =
            Self { row_count, coordinates, codes: Vec::new(), remaining: Vec::new() };
        let (codes, bounds) = survivors.encode(stages, stages.first_width);
        let mut rows: Vec<(Assigned, Vec<i32>)> = Vec::with_capacity(row_count);
        for codes in codes.chunks_exact(stages.quantizer.dim()) {
            let mut dots = Vec::new();
            rows.push((stages.cells.nearest(codes, kernels, &mut dots), dots));
        }
        let key_towards = |i: usize, j: usize, distance: f32| {
            let (own, dots) = &rows[i];
            let other = rows[j].0.cell;
            key(dots[other as usize] - own.dot, distance, bounds[i].allowance as f32)
        };
        survivors.remaining = options.pool.map(rows.len(), |i| {
            let remains = |&j: &usize| {
                let distance = stages.cells.distance(rows[i].0.cell, rows[j].0.cell, kernels);
                key_towards(i, j, distance as f32) + key_towards(j, i, distance as f32) >= 0
            };
            (0..i).filter(remains).collect::<Vec<_>>()
        });
        survivors.codes = codes;
        survivors
    }

    fn pair_count(&self) -> f64 {
        (self.row_count * self.row_count.saturating_sub(1) / 2).max(1) as f64
    }

    /// Returns how many pairs the cells leave.
    fn remaining_count(&self) -> f64 {
        self.remaining.iter().map(Vec::len).sum::<usize>() as f64
    }

    /// Leaves every pair, as one cell does.
    fn take_all(&mut self) {
        for (i, remaining) in self.remaining.iter_mut().enumerate() {
            *remaining = (0..i).collect();
        }
    }

    /// Returns the mean cost of a pair when the first test has `first` directions and a verdict costs `judged`.
    fn expected_cost(
        &self,
        stages: &Stages,
        (first, judged): (usize, f64),
        options: &JoinOptions<'_>,
    ) -> f64 {
        let (_, bounds) = self.encode(stages, first);
        let dim = stages.quantizer.dim();
        let codes = |row: usize, count: usize| &self.codes[row * dim..][..count];
        let first_dim = first.next_multiple_of(4).min(dim);
        let kernels = options.kernels;
        let passing = options.pool.map(self.remaining.len(), |i| {
            let passes = |&&j: &&usize| {
                let bias = bounds[i].prefix_bias + bounds[j].prefix_bias;
                kernels.dot_i8(codes(i, first_dim), codes(j, first_dim)) + bias >= 0
            };
            let passes_all = |&&j: &&usize| {
                let bias = bounds[i].bias + bounds[j].bias;
                kernels.dot_i8(codes(i, dim), codes(j, dim)) + bias >= 0
            };
            let passing: Vec<&usize> = self.remaining[i].iter().filter(passes).collect();
            [passing.len(), passing.into_iter().filter(passes_all).count()]
        });
        let count = |test: usize| passing.iter().map(|counts| counts[test]).sum::<usize>() as f64;
        let (passing_first, passing_all) = (count(0), count(1));
        let tested = self.remaining_count();
        let passing_tiles = 1.0 - (1.0 - passing_first / tested.max(1.0)).powi(TILE_PAIRS);
        let test = first as f64 / 64.0 + passing_tiles * TILE_COST / f64::from(TILE_PAIRS);
        let survivor = SURVIVOR_COST + SURVIVOR_COST_PER_CODE * dim as f64;
        (tested * test + passing_first * survivor + passing_all * judged) / self.pair_count()
    }

    fn encode(&self, stages: &Stages, first_width: usize) -> (Vec<i8>, Vec<RowBounds>) {
        let width = stages.projection.width();
        let mut codes = Vec::new();
        let bounds = (0..self.row_count).map(|row| {
            let coordinates = &self.coordinates[row * width..(row + 1) * width];
            stages.quantizer.encode(coordinates, first_width, &mut codes)
        });
        let bounds = bounds.collect();
        (codes, bounds)
    }
}
