//! [`Plan`]: how many cells and directions the tests look at, chosen by samples and a model of cost.

use super::JoinOptions;
use super::cells::{Assigned, Cells};
use super::encode::Encoder;
use super::sample::Sample;
use super::staircase::key;
use super::verdict::Verdict;
use crate::transform::{Projection, Quantizer, RowBounds};

/// Below this many distinct rows, comparing all pairs is faster than learning a projection.
const DIRECT_ROWS_MAX: usize = 1_024;

/// Rows whose covariance is learned.
pub(super) const LEARNED_ROWS: usize = 2_048;

/// Below this many distinct rows, cells leave out less than they cost; tests have few rows, and cells too.
const CELLS_ROWS_MIN: usize = if cfg!(test) { 1_200 } else { 16_384 };

/// Rows by which each centroid is learned.
const ROWS_PER_CENTROID: usize = 24;

/// Sampled rows of a task.
const BATCH_ROWS: usize = 48;

/// Directions of the first test that the model may choose.
const FIRST_WIDTHS: [usize; 6] = [32, 48, 64, 80, 96, 128];

/// Directions of the second test, and of cells: their codes are read for survivors of the first only.
const WIDTH_MAX: usize = 96;

/// Cost of a survivor of the first test, in units of a pair's 64 directions in the first test
/// (0.3 ns on a Zen 4 core, as are the other costs).
const SURVIVOR_COST: f64 = 30.0;

/// Pairs that a kernel tests together, and the cost of finding those that passed among them.
const TILE_PAIRS: i32 = 384;
const TILE_COST: f64 = 250.0;

/// Cost of a pair that is compared in f32, in the same units.
const DIRECT_COST: f64 = 85.0;

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
        if verdict.distinct.len() <= DIRECT_ROWS_MAX {
            return Self::Direct;
        }
        let (mut stages, mut coordinates) = Stages::learn(verdict, sample, options);
        coordinates.truncate(sample.compared().len() * stages.projection.width());
        let survivors = Survivors::of(sample.compared().len(), coordinates, &stages, options);
        let width = stages.projection.width();
        let candidates = FIRST_WIDTHS.into_iter().filter(|&first| first < width).chain([width]);
        let cheapest = candidates
            .map(|first| (survivors.expected_cost(&stages, first, options), first))
            .min_by(|(a, _), (b, _)| a.total_cmp(b));
        match cheapest {
            Some((cost, first)) if cost < DIRECT_COST => {
                stages.first_width = first;
                Self::Cascade(stages)
            }
            _ => Self::Direct,
        }
    }
}

impl Stages {
    /// Learns everything but the width of the first test, and returns the sample's coordinates as well.
    fn learn(
        verdict: &Verdict<'_>,
        sample: &Sample,
        options: &JoinOptions<'_>,
    ) -> (Self, Vec<f32>) {
        let (pool, kernels) = (options.pool, options.kernels);
        let dim = verdict.matrix.dim();
        let units = sample.units(verdict, options);
        let projection = Projection::learn(&units, dim, WIDTH_MAX, pool, kernels);
        let width = projection.width();
        let units: Vec<&[f32]> = units.chunks_exact(dim).collect();
        let batches: Vec<&[&[f32]]> = units.chunks(BATCH_ROWS).collect();
        let coordinates = pool.map(batches.len(), |batch| {
            let mut coordinates = Vec::new();
            projection.apply(batches[batch], width, kernels, &mut coordinates);
            coordinates
        });
        let coordinates = coordinates.concat();
        let threshold = verdict.threshold.get();
        let quantizer = Quantizer::fit(&projection, width, &coordinates, threshold);
        let cells = learn_cells(verdict, (&projection, &quantizer), options);
        (Self { first_width: width, projection, quantizer, cells }, coordinates)
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

    /// Returns the mean cost of a pair when the first test has `first` directions.
    fn expected_cost(&self, stages: &Stages, first: usize, options: &JoinOptions<'_>) -> f64 {
        let (_, bounds) = self.encode(stages, first);
        let dim = stages.quantizer.dim();
        let codes = |row: usize| &self.codes[row * dim..][..first.next_multiple_of(4).min(dim)];
        let passing = options.pool.map(self.remaining.len(), |i| {
            let passes = |&&j: &&usize| {
                let bias = bounds[i].prefix_bias + bounds[j].prefix_bias;
                options.kernels.dot_i8(codes(i), codes(j)) + bias >= 0
            };
            self.remaining[i].iter().filter(passes).count()
        });
        let passing = passing.iter().sum::<usize>() as f64;
        let tested = self.remaining.iter().map(Vec::len).sum::<usize>() as f64;
        let passing_tiles = 1.0 - (1.0 - passing / tested.max(1.0)).powi(TILE_PAIRS);
        let test = first as f64 / 64.0 + passing_tiles * TILE_COST / f64::from(TILE_PAIRS);
        let pair_count = self.row_count * self.row_count.saturating_sub(1) / 2;
        (tested * test + passing * SURVIVOR_COST) / pair_count.max(1) as f64
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
