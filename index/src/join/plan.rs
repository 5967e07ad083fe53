//! [`Sample`] and the choice of the tests: a model of cost over sampled pairs decides how many directions the first test
//! takes, and whether cells are worth it.

use memfold_simd::{Kernels, Level};

use super::JoinOptions;
use super::encode::{Encoded, Encoder, FirstTest, Stages};
use super::prune::{Assignment, Cells, key, may_be_near};
use super::rerank::Rerank;
use crate::sample::smallest;
use crate::transform::{CodeSize, Covariance, Products, Projection, Quantizer, push_unit};

/// Rows compared for the cost model and the histogram.
const COMPARED_ROWS: usize = 512;

/// Similarities tabulated for a person who must choose a threshold.
const TABULATED: [f64; 14] =
    [-0.5, 0.0, 0.25, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.999];

/// The distinct rows with the smallest hashes: a sample that the order of rows does not change.
#[derive(Debug)]
pub(super) struct Sample {
    /// Positions among the distinct rows, by hash.
    positions: Vec<usize>,
}

impl Sample {
    /// Draws up to `count` rows.
    pub(super) fn draw(rerank: &Rerank<'_>, count: usize) -> Self {
        Self { positions: smallest(&rerank.distinct.hashes, count) }
    }

    /// Returns the positions of all sampled rows among the distinct rows, by hash.
    pub(super) fn positions(&self) -> &[usize] {
        &self.positions
    }

    /// Returns the unit vectors of all sampled rows.
    pub(super) fn units(&self, rerank: &Rerank<'_>, options: &JoinOptions<'_>) -> Vec<f32> {
        let units = options.pool.map(self.positions.len(), |at| {
            let mut unit = Vec::with_capacity(rerank.matrix.dim());
            let position = self.positions[at];
            let squared_norm = rerank.distinct.squared_norms[position];
            push_unit(rerank.vector(position), squared_norm, &mut unit);
            unit
        });
        units.concat()
    }

    /// Returns how many of the first rows are compared. Directions are learned from the others: rows
    /// differ more in directions that were learned from them than rows in general do.
    pub(super) fn compared_count(&self) -> usize {
        self.positions.len().min(COMPARED_ROWS)
    }

    /// Returns the compared rows.
    pub(super) fn compared(&self) -> &[usize] {
        &self.positions[..self.compared_count()]
    }

    /// Returns how many pairs are looked at.
    pub(super) fn pair_count(&self) -> u64 {
        let rows = self.compared().len() as u64;
        rows * rows.saturating_sub(1) / 2
    }

    /// Counts the sampled pairs at or above the threshold.
    pub(super) fn near_pairs(&self, rerank: &Rerank<'_>, options: &JoinOptions<'_>) -> u64 {
        let rows = self.compared();
        let near = |i: usize| {
            rows[..i].iter().filter(|&&other| rerank.pair(other, rows[i]).is_some()).count()
        };
        options.pool.map(rows.len(), near).iter().sum::<usize>() as u64
    }

    /// Returns the share of sampled pairs at or above each tabulated similarity, ascending.
    pub(super) fn histogram(
        &self,
        rerank: &Rerank<'_>,
        options: &JoinOptions<'_>,
    ) -> Vec<(f64, f64)> {
        let rows = self.compared();
        let found = options.pool.map(rows.len(), |i| {
            let similarities = rows[..i].iter().filter_map(|&at| rerank.similarity(at, rows[i]));
            similarities.map(|found| found.get()).collect::<Vec<_>>()
        });
        let found = found.concat();
        let count = |least: f64| found.iter().filter(|&&similarity| similarity >= least).count();
        let share = |least: f64| count(least) as f64 / found.len().max(1) as f64;
        TABULATED.iter().map(|&least| (least, share(least))).collect()
    }
}

/// Below this many distinct rows, comparing all pairs is faster than learning a projection.
const DIRECT_ROWS_MAX: usize = 1_024;

/// Compared rows, and rows from which the covariance is learned.
pub(super) const SAMPLED_ROWS: usize = 2_560;

/// Below this many distinct rows, cells leave out less than they cost; tests have few rows, and cells too.
const CELLS_ROWS_MIN: usize = if cfg!(test) { 1_200 } else { 16_384 };

/// Rows by which each centroid is learned.
const ROWS_PER_CENTROID: usize = 24;

/// Sampled rows of a task.
const SAMPLED_BATCH_ROWS: usize = 48;

/// Directions of the first test that the model may choose.
const FIRST_WIDTHS: [usize; 13] = [32, 48, 64, 80, 96, 128, 192, 256, 384, 512, 768, 1_024, 2_048];

/// Directions of the second test, and of cells: their codes are read for survivors of the first only. Where the
/// vectors differ in many more directions than these, twice as many are tried, and so on.
const WIDTH_MIN: usize = 96;

/// More directions than these are not learned: coordinates that vary most take their place.
const LEARNED_WIDTH_MAX: usize = 384;

/// More directions are tried when they may save four times the cost of trying: so many multiplications in f32 for each
/// unit of cost, which takes as long as 16.
const PRODUCTS_PER_UNIT_SAVED: f64 = 4.0;

/// Costs, in units of a pair's 64 directions in the first test: 0.3 ns on a Zen 4 core.
///
/// Of 64 directions where the processor multiplies tiles; a pair's later work takes as long as two of these.
const AMX_PART_COST: f64 = 0.14;
/// Of finding the hits among pairs that a kernel tests together.
const TILE_COST: f64 = 250.0;
/// Of a pair's row that is read from memory, for the second test or to be reranked.
const ROW_COST: f64 = 30.0;
/// Of each dimension of a pair that is reranked.
const RERANK_COST_PER_DIM: f64 = 0.3;

/// Pairs that a kernel tests together.
const TILE_PAIRS: i32 = 384;
const AMX_TILE_PAIRS: i32 = 1_024;

/// Where cells leave more than this share of pairs, there is one cell: finding out would cost more.
const REMAINING_MAX: f64 = 0.9;

impl Stages {
    /// Chooses the tests that the model expects to be fastest; `None`: rerank every pair. The answer is the same.
    pub(super) fn choose(
        rerank: &Rerank<'_>,
        sample: &Sample,
        options: &JoinOptions<'_>,
    ) -> Option<Self> {
        let dim = rerank.matrix.dim();
        let mut cheapest = rerank_cost(rerank);
        let mut width = WIDTH_MIN.min(dim);
        if rerank.distinct.len() <= DIRECT_ROWS_MAX || !may_gain(rerank, cheapest, width) {
            return None;
        }
        let units = sample.units(rerank, options);
        let learned = &units[sample.compared_count() * dim..];
        let covariance =
            Covariance::of(Products::Fast, learned, dim, options.pool, options.kernels);
        let mut plan = None;
        loop {
            let projection = match width {
                ..=LEARNED_WIDTH_MAX => covariance.leading(width, options.pool, options.kernels),
                _ => covariance.axes(width),
            };
            if projection.width() == 0 {
                // All rows point the same way.
                return plan;
            }
            let is_all = width >= dim || projection.width() < width;
            let (stages, cost) = Self::fit(rerank, projection, sample, &units, options);
            if cost < cheapest {
                (cheapest, plan) = (cost, Some(stages));
            }
            width = (2 * width).min(dim);
            if is_all || !may_gain(rerank, cheapest, width) {
                return plan;
            }
        }
    }

    /// Fits the tests to a projection, and returns the cost of a pair with them.
    fn fit(
        rerank: &Rerank<'_>,
        projection: Projection,
        sample: &Sample,
        units: &[f32],
        options: &JoinOptions<'_>,
    ) -> (Self, f64) {
        let (pool, kernels) = (options.pool, options.kernels);
        let width = projection.width();
        let units: Vec<&[f32]> = units.chunks_exact(rerank.matrix.dim()).collect();
        let batches: Vec<&[&[f32]]> = units.chunks(SAMPLED_BATCH_ROWS).collect();
        let coordinates = pool.map(batches.len(), |batch| {
            let mut coordinates = Vec::new();
            projection.apply(batches[batch], width, kernels, &mut coordinates);
            coordinates
        });
        let mut coordinates = coordinates.concat();
        let threshold = rerank.threshold.get();
        let quantizer = Quantizer::fit(&projection, width, CodeSize::I8, &coordinates, threshold);
        let cells = learn_cells(rerank, &projection, &quantizer, options);
        let mut stages = Self { first_width: width, projection, quantizer, cells, i7: None };
        coordinates.truncate(sample.compared_count() * width);
        let mut survivors = Survivors::of(sample.compared_count(), coordinates, &stages, options);
        if stages.cells.len() > 1
            && survivors.remaining_count() > REMAINING_MAX * survivors.pair_count()
        {
            stages.cells = Cells::one(stages.quantizer.dim());
            survivors.take_all();
        }
        let reranked = rerank_cost(rerank);
        let firsts = FIRST_WIDTHS.into_iter().filter(|&first| first < width).chain([width]);
        let costs = firsts.map(|first| {
            (stages.first_width, stages.i7) = (first, survivors.i7(&stages, first, rerank));
            let cost = survivors.expected_cost(&stages, reranked, options);
            (cost, first, stages.i7.take())
        });
        let (cost, first, i7) = costs.min_by(|(a, ..), (b, ..)| a.total_cmp(b)).expect("one width");
        (stages.first_width, stages.i7) = (first, i7);
        (stages, cost)
    }
}

/// Returns the cost of a rerank.
fn rerank_cost(rerank: &Rerank<'_>) -> f64 {
    ROW_COST + RERANK_COST_PER_DIM * rerank.matrix.dim() as f64
}

/// Returns the cost of the first test for a pair, and how many pairs it tests together.
fn first_test_cost(kernels: &Kernels, width: usize) -> (f64, i32) {
    match kernels.level() {
        Level::Amx => (AMX_PART_COST * (width.div_ceil(64) + 2) as f64, AMX_TILE_PAIRS),
        _ => (width as f64 / 64.0, TILE_PAIRS),
    }
}

/// Tells whether `width` directions may save more than finding out costs, when a pair costs `cost` without.
fn may_gain(rerank: &Rerank<'_>, cost: f64, width: usize) -> bool {
    let (rows, dim) = (rerank.distinct.len() as f64, rerank.matrix.dim() as f64);
    let learned = width.min(LEARNED_WIDTH_MAX) as f64;
    let covariance = if width <= WIDTH_MIN { SAMPLED_ROWS as f64 * dim * dim / 2.0 } else { 0.0 };
    let products = covariance + learned * dim * (dim + learned) * 6.0 + rows * width as f64 * dim;
    // Fewer directions than before were too few: the first test needs about as many as there were.
    let saved = rows * rows / 2.0 * (cost - width as f64 / 128.0);
    saved * PRODUCTS_PER_UNIT_SAVED > products
}

/// Cells among n rows are √n divided by this, or by the other where codes of 7 bits are compared, which takes longer:
/// with more of them, finding the rows that can be near costs more than comparing them.
const CELLS_DIVISOR: usize = 4;
const I7_CELLS_DIVISOR: usize = 2;

fn learn_cells(
    rerank: &Rerank<'_>,
    projection: &Projection,
    quantizer: &Quantizer,
    options: &JoinOptions<'_>,
) -> Cells {
    let row_count = rerank.distinct.len();
    let divisor = if options.kernels.prefers_i7() { I7_CELLS_DIVISOR } else { CELLS_DIVISOR };
    let count = if row_count < CELLS_ROWS_MIN { 1 } else { row_count.isqrt() / divisor };
    let sample = if count > 1 { count * ROWS_PER_CENTROID } else { 0 };
    let sample = Sample::draw(rerank, sample);
    let batches: Vec<&[usize]> = sample.positions().chunks(SAMPLED_BATCH_ROWS).collect();
    let codes = options.pool.map(batches.len(), |batch| {
        let mut encoded = Encoded::default();
        let mut encoder = Encoder::new(rerank, projection);
        encoder.encode(batches[batch], quantizer, FirstTest::Prefix(0), &mut encoded);
        encoded.codes
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
        let Encoded { codes, bounds, .. } = survivors.encode(stages);
        let mut rows: Vec<(Assignment, Vec<i32>)> = Vec::with_capacity(row_count);
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
                may_be_near(key_towards(i, j, distance as f32), key_towards(j, i, distance as f32))
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

    /// Fits codes of 7 bits to the first directions, where the processor compares them faster.
    fn i7(&self, stages: &Stages, first: usize, rerank: &Rerank<'_>) -> Option<Quantizer> {
        let fit = || {
            let threshold = rerank.threshold.get();
            Quantizer::fit(&stages.projection, first, CodeSize::I7, &self.coordinates, threshold)
        };
        rerank.kernels.prefers_i7().then(fit)
    }

    /// Returns the mean cost of a pair when a rerank costs `reranked`.
    fn expected_cost(&self, stages: &Stages, reranked: f64, options: &JoinOptions<'_>) -> f64 {
        let Encoded { i7_codes, bounds, .. } = self.encode(stages);
        let dim = stages.quantizer.dim();
        let codes = |row: usize, count: usize| &self.codes[row * dim..][..count];
        let first_dim = stages.first_dim().min(dim);
        let first_codes = |row: usize| match stages.i7 {
            Some(_) => &i7_codes[row * first_dim..][..first_dim],
            None => codes(row, first_dim),
        };
        let kernels = options.kernels;
        let passing = options.pool.map(self.remaining.len(), |i| {
            let passes = |&&j: &&usize| {
                let bias = bounds[i].prefix_bias + bounds[j].prefix_bias;
                kernels.dot_i8(first_codes(i), first_codes(j)) + bias >= 0
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
        let (test, tile_pairs) = first_test_cost(kernels, stages.first_width);
        let passing_tiles = 1.0 - (1.0 - passing_first / tested.max(1.0)).powi(tile_pairs);
        let test = test + passing_tiles * TILE_COST / f64::from(tile_pairs);
        (tested * test + passing_first * ROW_COST + passing_all * reranked) / self.pair_count()
    }

    fn encode(&self, stages: &Stages) -> Encoded {
        let width = stages.projection.width();
        let mut encoded = Encoded::default();
        for coordinates in self.coordinates.chunks_exact(width).take(self.row_count) {
            encoded.push(coordinates, &stages.quantizer, stages.first_test());
        }
        encoded
    }
}
