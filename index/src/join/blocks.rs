//! [`Block`]: codes of rows that lie in one cell.

use memfold_simd::{Kernels, Level};

use super::cascade::Encoder;
use super::cascade::Sample;
use super::cascade::Verdict;
use super::cascade::{Encoded, FirstTest};
use super::cells::{Assigned, Cells, KEY_MAX, Side, key};
use super::{JoinError, JoinOptions};
use crate::transform::{Covariance, Projection, Quantizer, RowBounds};

/// Rows and codes of a block: gathered as rows and as columns, they fit the second-level cache.
const BLOCK_ROWS_MAX: usize = 1_024;
const BLOCK_CODES_MAX: usize = 196_608;

/// Rows of a block of few rows, so that every worker has some.
const BLOCK_ROWS_MIN: usize = 64;

/// Rows that are encoded together.
const BATCH_ROWS: usize = 1_024;

/// Rows of one cell with all that tests need.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) cell: u32,
    /// Where each row stands among the distinct rows.
    pub(super) positions: Vec<u32>,
    /// The codes of all directions, row after row.
    pub(super) codes: Vec<i8>,
    /// Those of the first test, where these are others.
    pub(super) i7_codes: Vec<i8>,
    /// The biases of the first test.
    pub(super) first_biases: Vec<i32>,
    /// The sums of the codes of the first test.
    pub(super) first_sums: Vec<i32>,
    /// The biases of the second test.
    pub(super) second_biases: Vec<i32>,
    /// Not less than each row's allowance.
    pub(super) allowances: Vec<f32>,
    /// The products with the cell's centroid.
    pub(super) centroid_dots: Vec<i32>,
}

/// What is known of consecutive distinct rows before they are put into blocks.
struct Batch {
    codes: Vec<i8>,
    i7_codes: Vec<i8>,
    rows: Vec<(RowBounds, Assigned)>,
}

impl Block {
    /// Encodes all distinct rows and puts them into blocks, cell by cell.
    pub(super) fn of_all(
        verdict: &Verdict<'_>,
        stages: &Stages,
        options: &JoinOptions<'_>,
    ) -> Result<Vec<Self>, JoinError> {
        let batches = encode_all(verdict, stages, options)?;
        let assigned =
            |position: usize| &batches[position / BATCH_ROWS].rows[position % BATCH_ROWS];
        let row_count = verdict.distinct.len();
        let mut order: Vec<u32> = (0..row_count as u32).collect();
        options.pool.sort_by_key(&mut order, |&at| (assigned(at as usize).1.cell, at));
        let block_rows = stages.tests().block_rows(row_count);
        let cells =
            order.chunk_by(|&a, &b| assigned(a as usize).1.cell == assigned(b as usize).1.cell);
        let parts: Vec<&[u32]> = cells.flat_map(|cell| cell.chunks(block_rows)).collect();
        Ok(options.pool.map(parts.len(), |part| Self::gather(&batches, parts[part], stages)))
    }

    /// Encodes rows that lie in order of their cells: a block for each run of rows of one cell.
    pub(super) fn of_cells(verdict: &Verdict<'_>, stages: &Stages, cells: &[u32]) -> Vec<Self> {
        let kernels = verdict.kernels;
        let assigned = |position: usize, codes: &[i8]| {
            let cell = cells[position];
            Assigned { cell, dot: kernels.dot_i8(codes, stages.cells.centroid(cell)) }
        };
        let batch = |start: usize| {
            let positions = start..cells.len().min(start + BATCH_ROWS);
            Batch::encode(verdict, stages, positions, assigned)
        };
        let batches: Vec<Batch> = (0..cells.len()).step_by(BATCH_ROWS).map(batch).collect();
        let positions: Vec<u32> = (0..cells.len() as u32).collect();
        let runs = positions.chunk_by(|&a, &b| cells[a as usize] == cells[b as usize]);
        runs.map(|run| Self::gather(&batches, run, stages)).collect()
    }

    /// Returns the largest key of these rows towards each of the cells; for their own cell one with which every pair
    /// remains.
    pub(super) fn largest_keys(&self, cells: &Cells, kernels: &Kernels) -> Vec<i32> {
        let mut side = Side::default();
        let towards = |cell| match cell == self.cell {
            true => KEY_MAX as i32,
            false => {
                let distance = cells.distance(self.cell, cell, kernels);
                side.measure(self, cells.centroid(cell), distance, kernels);
                side.largest_key()
            }
        };
        (0..cells.len() as u32).map(towards).collect()
    }

    fn gather(batches: &[Batch], positions: &[u32], stages: &Stages) -> Self {
        let (dim, first_dim) = (stages.quantizer.dim(), stages.first_dim());
        let mut block = Self { positions: positions.to_vec(), ..Self::default() };
        block.codes.reserve_exact(positions.len() * dim);
        for &position in positions {
            let batch = &batches[position as usize / BATCH_ROWS];
            let at = position as usize % BATCH_ROWS;
            let (bounds, assigned) = batch.rows[at];
            block.cell = assigned.cell;
            let codes = &batch.codes[at * dim..(at + 1) * dim];
            block.codes.extend_from_slice(codes);
            let first = match stages.i7 {
                Some(_) => &batch.i7_codes[at * first_dim..][..first_dim],
                None => &codes[..first_dim],
            };
            block.first_sums.push(first.iter().map(|&code| i32::from(code)).sum());
            if stages.i7.is_some() {
                block.i7_codes.extend_from_slice(first);
            }
            block.first_biases.push(bounds.prefix_bias);
            block.second_biases.push(bounds.bias);
            block.allowances.push((bounds.allowance * (1.0 + 1e-6)) as f32);
            block.centroid_dots.push(assigned.dot);
        }
        block
    }

    /// Returns the number of rows.
    pub(super) const fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns a row's codes.
    pub(super) fn row(&self, row: usize, dim: usize) -> &[i8] {
        &self.codes[row * dim..(row + 1) * dim]
    }
}

fn encode_all(
    verdict: &Verdict<'_>,
    stages: &Stages,
    options: &JoinOptions<'_>,
) -> Result<Vec<Batch>, JoinError> {
    let row_count = verdict.distinct.len();
    options.progress.begin("encode vectors", Some(row_count as u64));
    let batches = options.pool.map(row_count.div_ceil(BATCH_ROWS), |batch| {
        if options.progress.cancelled() {
            return Err(JoinError::Cancelled);
        }
        let positions = batch * BATCH_ROWS..row_count.min((batch + 1) * BATCH_ROWS);
        options.progress.advance(positions.len() as u64);
        let mut dots = Vec::with_capacity(stages.cells.len());
        let nearest = |_, codes: &[i8]| stages.cells.nearest(codes, verdict.kernels, &mut dots);
        Ok(Batch::encode(verdict, stages, positions, nearest))
    });
    options.progress.end();
    batches.into_iter().collect()
}

/// Returns the cells of consecutive distinct rows.
pub(super) fn cells_of(
    verdict: &Verdict<'_>,
    stages: &Stages,
    positions: std::ops::Range<usize>,
) -> Vec<u32> {
    let mut dots = Vec::with_capacity(stages.cells.len());
    let nearest = |_, codes: &[i8]| stages.cells.nearest(codes, verdict.kernels, &mut dots);
    let batch = Batch::encode(verdict, stages, positions, nearest);
    batch.rows.iter().map(|(_, assigned)| assigned.cell).collect()
}

impl Batch {
    /// `assign` tells the cell of a row by its position and codes.
    fn encode(
        verdict: &Verdict<'_>,
        stages: &Stages,
        positions: std::ops::Range<usize>,
        mut assign: impl FnMut(usize, &[i8]) -> Assigned,
    ) -> Self {
        let dim = stages.quantizer.dim();
        let positions: Vec<usize> = positions.collect();
        let mut encoded = Encoded::default();
        let mut encoder = Encoder::new(verdict, &stages.projection);
        encoder.encode(&positions, &stages.quantizer, stages.first_test(), &mut encoded);
        let Encoded { codes, i7_codes, bounds } = encoded;
        let places = positions.into_iter().zip(codes.chunks_exact(dim));
        let assigned = places.map(|(position, codes)| assign(position, codes));
        let rows = bounds.into_iter().zip(assigned).collect();
        Self { codes, i7_codes, rows }
    }
}

/// Below this many distinct rows, comparing all pairs is faster than learning a projection.
const DIRECT_ROWS_MAX: usize = 1_024;

/// Rows whose pairs are looked at, and rows whose covariance is learned.
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

/// More directions are tried when they may save this many times what trying costs.
const GAIN_MIN: f64 = 4.0;

/// Multiplications in f32 that take as long as the unit of the costs below.
const UNIT_PRODUCTS: f64 = 16.0;

/// Cost of a survivor of the first test, and of a product of codes in the second, in units of a pair's 64 directions
/// in the first test (0.3 ns on a Zen 4 core, as are the other costs).
const SURVIVOR_COST: f64 = 25.0;
const SURVIVOR_COST_PER_CODE: f64 = 0.05;

/// Cost of products of 7-bit codes where these are preferred.
const I7_COST: f64 = 1.3;

/// Cost of a pair where the processor multiplies tiles, and of each 64 directions: most of it is what follows.
const AMX_PAIR_COST: f64 = 0.24;
const AMX_PART_COST: f64 = 0.14;

/// Pairs that a kernel tests together, and the cost of finding those that passed among them.
const TILE_PAIRS: i32 = 384;
const AMX_TILE_PAIRS: i32 = 1_024;
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
    Cascade(Box<Stages>),
}

/// The tests of a cascade.
#[derive(Debug)]
pub(super) struct Stages {
    pub(super) projection: Projection,
    pub(super) quantizer: Quantizer,
    pub(super) cells: Cells,
    /// Directions of the first test.
    pub(super) first_width: usize,
    /// Makes the codes of the first test, where the processor compares those of 7 bits faster.
    pub(super) i7: Option<Quantizer>,
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
            if projection.width() == 0 {
                // All rows point the same way.
                return plan;
            }
            let is_all = width >= dim || projection.width() < width;
            let (stages, cost) = Stages::fit(verdict, projection, sample, &units, options);
            if cost < cheapest {
                (cheapest, plan) = (cost, Self::Cascade(Box::new(stages)));
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

/// Returns what the first test costs for a pair, and how many pairs it tests together.
fn first_test_cost(kernels: &Kernels, width: usize) -> (f64, i32) {
    let products = width as f64 / 64.0;
    match kernels.level() {
        Level::Amx => (AMX_PAIR_COST + AMX_PART_COST * width.div_ceil(64) as f64, AMX_TILE_PAIRS),
        _ if kernels.prefers_i7() => (I7_COST * products, TILE_PAIRS),
        _ => (products, TILE_PAIRS),
    }
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
        let batches: Vec<&[&[f32]]> = units.chunks(SAMPLED_BATCH_ROWS).collect();
        let coordinates = pool.map(batches.len(), |batch| {
            let mut coordinates = Vec::new();
            projection.apply(batches[batch], width, kernels, &mut coordinates);
            coordinates
        });
        let mut coordinates = coordinates.concat();
        let threshold = verdict.threshold.get();
        let quantizer = Quantizer::fit(&projection, width, &coordinates, threshold);
        let cells = learn_cells(verdict, &projection, &quantizer, options);
        let mut stages = Self { first_width: width, projection, quantizer, cells, i7: None };
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
        let costs = firsts.map(|first| {
            (stages.first_width, stages.i7) = (first, survivors.i7(&stages, first, verdict));
            let cost = survivors.expected_cost(&stages, judged, options);
            (cost, first, stages.i7.take())
        });
        let (cost, first, i7) = costs.min_by(|(a, ..), (b, ..)| a.total_cmp(b)).expect("one width");
        (stages.first_width, stages.i7) = (first, i7);
        (stages, cost)
    }

    /// Returns what comparing codes needs to know.
    pub(super) fn tests(&self) -> CodeTests<'_> {
        CodeTests {
            cells: &self.cells,
            dim: self.quantizer.dim(),
            first_width: self.first_width,
            has_i7: self.i7.is_some(),
        }
    }

    fn first_test(&self) -> FirstTest<'_> {
        self.i7.as_ref().map_or(FirstTest::Prefix(self.first_width), FirstTest::I7)
    }

    /// Returns the codes of the first test: a multiple of 4.
    fn first_dim(&self) -> usize {
        self.tests().first_dim()
    }
}

/// What comparing codes needs to know of the tests that made them.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodeTests<'a> {
    pub(super) cells: &'a Cells,
    /// Codes of a row in the second test.
    pub(super) dim: usize,
    /// Directions of the first test.
    pub(super) first_width: usize,
    /// The first test has codes of 7 bits of its own.
    pub(super) has_i7: bool,
}

impl CodeTests<'_> {
    /// Returns the codes of the first test: a multiple of 4.
    pub(super) fn first_dim(&self) -> usize {
        self.first_width.next_multiple_of(4).max(4)
    }

    /// Returns the most rows of a block of a join of so many rows.
    pub(super) fn block_rows(&self, row_count: usize) -> usize {
        let rows_max = (BLOCK_CODES_MAX / self.first_dim()) & !(BLOCK_ROWS_MIN - 1);
        let rows_max = rows_max.clamp(BLOCK_ROWS_MIN, BLOCK_ROWS_MAX);
        (row_count / 32).next_multiple_of(64).clamp(BLOCK_ROWS_MIN, rows_max)
    }
}

/// Cells among n rows are √n divided by this, or by the other where codes of 7 bits are compared, which takes longer:
/// with more of them, finding the rows that can be near costs more than comparing them.
const CELLS_DIVISOR: usize = 4;
const I7_CELLS_DIVISOR: usize = 2;

fn learn_cells(
    verdict: &Verdict<'_>,
    projection: &Projection,
    quantizer: &Quantizer,
    options: &JoinOptions<'_>,
) -> Cells {
    let row_count = verdict.distinct.len();
    let divisor = if options.kernels.prefers_i7() { I7_CELLS_DIVISOR } else { CELLS_DIVISOR };
    let count = if row_count < CELLS_ROWS_MIN { 1 } else { row_count.isqrt() / divisor };
    let sample = if count > 1 { count * ROWS_PER_CENTROID } else { 0 };
    let sample = Sample::draw(verdict, sample);
    let batches: Vec<&[usize]> = sample.positions().chunks(SAMPLED_BATCH_ROWS).collect();
    let codes = options.pool.map(batches.len(), |batch| {
        let mut encoded = Encoded::default();
        let mut encoder = Encoder::new(verdict, projection);
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

    /// Fits codes of 7 bits to the first directions, where the processor compares them faster.
    fn i7(&self, stages: &Stages, first: usize, verdict: &Verdict<'_>) -> Option<Quantizer> {
        let fit = || {
            let threshold = verdict.threshold.get();
            Quantizer::fit_i7(&stages.projection, first, &self.coordinates, threshold)
        };
        verdict.kernels.prefers_i7().then(fit)
    }

    /// Returns the mean cost of a pair when a verdict costs `judged`.
    fn expected_cost(&self, stages: &Stages, judged: f64, options: &JoinOptions<'_>) -> f64 {
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
        let survivor = SURVIVOR_COST + SURVIVOR_COST_PER_CODE * dim as f64;
        (tested * test + passing_first * survivor + passing_all * judged) / self.pair_count()
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
