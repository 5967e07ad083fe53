//! From rows to codes: [`Stages`] say how, [`Encoder`] encodes, [`Block`] holds rows of one cell.

use std::ops::Range;

use memfold_simd::Kernels;
use memfold_simd::panel::CodeRows;

use super::prune::{Assignment, CellRows, Cells, KEY_MAX, SortedProjection};
use super::rerank::Rerank;
use super::{JoinError, JoinOptions};
use crate::transform::{Projection, Quantizer, RowBounds, push_unit};

/// Encodes rows for the tests of a cascade.
#[derive(Debug)]
pub(super) struct Stages {
    pub(super) projection: Projection,
    pub(super) quantizer: Quantizer,
    pub(super) cells: Cells,
    /// Directions of the first test.
    pub(super) first_width: usize,
    /// Makes the codes of the first test, where the processor compares 7 bits faster.
    pub(super) i7: Option<Quantizer>,
}

impl Stages {
    /// Returns the parameters of comparisons.
    pub(super) fn tests(&self) -> CodeTests<'_> {
        CodeTests {
            cells: &self.cells,
            dim: self.quantizer.dim(),
            first_width: self.first_width,
            has_i7: self.i7.is_some(),
        }
    }

    pub(super) fn first_test(&self) -> FirstTest<'_> {
        self.i7.as_ref().map_or(FirstTest::Prefix(self.first_width), FirstTest::I7)
    }

    /// Returns the codes of the first test: a multiple of 4.
    pub(super) fn first_dim(&self) -> usize {
        self.tests().first_dim()
    }
}

/// Parameters of comparisons of codes.
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

/// Rows and codes of a block: gathered as rows and as columns, they fit the second-level cache.
const BLOCK_ROWS_MAX: usize = 1_024;
const BLOCK_CODES_MAX: usize = 196_608;

/// Rows of a block of few rows, so that every worker has some.
const BLOCK_ROWS_MIN: usize = 64;

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

/// The codes of the first test.
#[derive(Debug, Clone, Copy)]
pub(super) enum FirstTest<'a> {
    /// So many of the codes of the second test.
    Prefix(usize),
    /// Codes of 7 bits of its own.
    I7(&'a Quantizer),
}

/// Codes and bounds of rows.
#[derive(Debug, Default)]
pub(super) struct Encoded {
    pub(super) codes: Vec<i8>,
    /// The codes of the first test, where these are others.
    pub(super) i7_codes: Vec<i8>,
    /// With the bias of the first test as that of the prefix.
    pub(super) bounds: Vec<RowBounds>,
    /// The cell of each row, once it is known.
    pub(super) assigned: Vec<Assignment>,
}

impl Encoded {
    /// Encodes distinct rows; `assign` returns the cell of a row by its position and codes.
    fn of(
        rerank: &Rerank<'_>,
        stages: &Stages,
        positions: Range<usize>,
        mut assign: impl FnMut(usize, &[i8]) -> Assignment,
    ) -> Self {
        let dim = stages.quantizer.dim();
        let positions: Vec<usize> = positions.collect();
        let mut encoded = Self::default();
        let mut encoder = Encoder::new(rerank, &stages.projection);
        encoder.encode(&positions, &stages.quantizer, stages.first_test(), &mut encoded);
        let rows = positions.into_iter().zip(encoded.codes.chunks_exact(dim));
        encoded.assigned = rows.map(|(position, codes)| assign(position, codes)).collect();
        encoded
    }

    /// Adds a row.
    pub(super) fn push(
        &mut self,
        coordinates: &[f32],
        quantizer: &Quantizer,
        first: FirstTest<'_>,
    ) {
        self.bounds.push(match first {
            FirstTest::Prefix(width) => quantizer.encode(coordinates, width, &mut self.codes),
            FirstTest::I7(i7) => RowBounds {
                prefix_bias: i7.encode(coordinates, 0, &mut self.i7_codes).bias,
                ..quantizer.encode(coordinates, 0, &mut self.codes)
            },
        });
    }
}

/// Rows that are projected together: a multiple of every kernel's tile.
const ROWS_TOGETHER: usize = 48;

/// Squared norms for which f32 products neither overflow nor lose terms that matter.
const SAFE_PROJECTED_NORMS: Range<f64> = 1e-12..1e12;

/// Encodes rows, a few at a time, with memory that is used again.
pub(super) struct Encoder<'a> {
    rerank: &'a Rerank<'a>,
    projection: &'a Projection,
    units: Vec<f32>,
    coordinates: Vec<f32>,
}

impl<'a> Encoder<'a> {
    pub(super) const fn new(rerank: &'a Rerank<'a>, projection: &'a Projection) -> Self {
        Self { rerank, projection, units: Vec::new(), coordinates: Vec::new() }
    }

    /// Returns all coordinates of the distinct rows at some positions, row by row.
    fn project(&mut self, positions: &[usize]) -> &[f32] {
        let squared_norms = || positions.iter().map(|&at| self.rerank.distinct.squared_norms[at]);
        let (width, kernels) = (self.projection.width(), self.rerank.kernels);
        let rows: Vec<&[f32]> = positions.iter().map(|&at| self.rerank.vector(at)).collect();
        if squared_norms().all(|norm| SAFE_PROJECTED_NORMS.contains(&norm)) {
            self.projection.apply(&rows, width, kernels, &mut self.coordinates);
            for (coordinates, norm) in
                self.coordinates.chunks_exact_mut(width.max(1)).zip(squared_norms())
            {
                let scale = 1.0 / norm.sqrt();
                for coordinate in coordinates {
                    *coordinate = (f64::from(*coordinate) * scale) as f32;
                }
            }
        } else {
            self.units.clear();
            for (row, squared_norm) in rows.iter().zip(squared_norms()) {
                push_unit(row, squared_norm, &mut self.units);
            }
            let units: Vec<&[f32]> = self.units.chunks_exact(self.rerank.matrix.dim()).collect();
            self.projection.apply(&units, width, kernels, &mut self.coordinates);
        }
        &self.coordinates
    }

    /// Appends the codes of these rows and their bounds.
    pub(super) fn encode(
        &mut self,
        positions: &[usize],
        quantizer: &Quantizer,
        first: FirstTest<'_>,
        encoded: &mut Encoded,
    ) {
        for positions in positions.chunks(ROWS_TOGETHER) {
            let width = self.projection.width();
            let coordinates = self.project(positions);
            for row in 0..positions.len() {
                let coordinates = &coordinates[row * width..(row + 1) * width];
                encoded.push(coordinates, quantizer, first);
            }
        }
    }
}

/// Rows of one cell with all that tests need.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) cell: u32,
    /// Where each row stands among the distinct rows.
    pub(super) positions: Vec<u32>,
    /// The codes of all directions, row after row.
    pub(super) codes: Vec<i8>,
    /// The codes of the first test, where it has its own.
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

/// Rows that are encoded together.
const BATCH_ROWS: usize = 1_024;

impl Block {
    /// Encodes all distinct rows and puts them into blocks, cell by cell.
    pub(super) fn of_all(
        rerank: &Rerank<'_>,
        stages: &Stages,
        options: &JoinOptions<'_>,
    ) -> Result<Vec<Self>, JoinError> {
        let batches = encode_all(rerank, stages, options, "encode vectors", |encoded| encoded)?;
        let cell_of =
            |at: u32| batches[at as usize / BATCH_ROWS].assigned[at as usize % BATCH_ROWS].cell;
        let row_count = rerank.distinct.len();
        let mut order: Vec<u32> = (0..row_count as u32).collect();
        options.pool.sort_by_key(&mut order, |&at| (cell_of(at), at));
        let block_rows = stages.tests().block_rows(row_count);
        let cells = order.chunk_by(|&a, &b| cell_of(a) == cell_of(b));
        let parts: Vec<&[u32]> = cells.flat_map(|cell| cell.chunks(block_rows)).collect();
        Ok(options.pool.map(parts.len(), |part| Self::gather(&batches, parts[part], stages)))
    }

    /// Encodes rows that lie in order of their cells: a block for each run of rows of one cell.
    pub(super) fn of_cells(rerank: &Rerank<'_>, stages: &Stages, cells: &[u32]) -> Vec<Self> {
        let kernels = rerank.kernels;
        let assigned = |position: usize, codes: &[i8]| {
            let cell = cells[position];
            Assignment { cell, dot: kernels.dot_i8(codes, stages.cells.centroid(cell)) }
        };
        let batch = |start: usize| {
            let positions = start..cells.len().min(start + BATCH_ROWS);
            Encoded::of(rerank, stages, positions, assigned)
        };
        let batches: Vec<Encoded> = (0..cells.len()).step_by(BATCH_ROWS).map(batch).collect();
        let positions: Vec<u32> = (0..cells.len() as u32).collect();
        let runs = positions.chunk_by(|&a, &b| cells[a as usize] == cells[b as usize]);
        runs.map(|run| Self::gather(&batches, run, stages)).collect()
    }

    /// Returns the largest key of these rows towards each of the cells; for their own cell one with which every pair
    /// remains.
    pub(super) fn largest_keys(&self, cells: &Cells, kernels: &Kernels) -> Vec<i32> {
        let mut projection = SortedProjection::default();
        let towards = |cell| match cell == self.cell {
            true => KEY_MAX as i32,
            false => {
                projection.measure(self.cell_rows(), cell, cells, kernels);
                projection.largest_key()
            }
        };
        (0..cells.len() as u32).map(towards).collect()
    }

    fn gather(batches: &[Encoded], positions: &[u32], stages: &Stages) -> Self {
        let (dim, first_dim) = (stages.quantizer.dim(), stages.first_dim());
        let mut block = Self { positions: positions.to_vec(), ..Self::default() };
        block.codes.reserve_exact(positions.len() * dim);
        for &position in positions {
            let batch = &batches[position as usize / BATCH_ROWS];
            let at = position as usize % BATCH_ROWS;
            let (bounds, assigned) = (batch.bounds[at], batch.assigned[at]);
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

    /// Returns the part that pruning reads.
    pub(super) fn cell_rows(&self) -> CellRows<'_> {
        let Self { cell, codes, centroid_dots, allowances, .. } = self;
        CellRows { cell: *cell, codes, centroid_dots, allowances }
    }

    /// Returns the codes of the first test.
    pub(super) fn first_codes(&self, tests: &CodeTests<'_>) -> CodeRows<'_> {
        CodeRows {
            codes: if tests.has_i7 { &self.i7_codes } else { &self.codes },
            biases: &self.first_biases,
            sums: &self.first_sums,
            stride: if tests.has_i7 { tests.first_dim() } else { tests.dim },
        }
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

/// Encodes all distinct rows, each with its nearest cell, and maps each batch.
pub(super) fn encode_all<T: Send>(
    rerank: &Rerank<'_>,
    stages: &Stages,
    options: &JoinOptions<'_>,
    stage: &'static str,
    take: impl Fn(Encoded) -> T + Sync + Send,
) -> Result<Vec<T>, JoinError> {
    let JoinOptions { pool, progress, .. } = *options;
    let row_count = rerank.distinct.len();
    progress.begin(stage, Some(row_count as u64));
    let batches = pool.map_batches(row_count, BATCH_ROWS, progress, |positions| {
        progress.advance(positions.len() as u64);
        let mut dots = Vec::with_capacity(stages.cells.len());
        let nearest = |_, codes: &[i8]| stages.cells.nearest(codes, rerank.kernels, &mut dots);
        take(Encoded::of(rerank, stages, positions, nearest))
    });
    progress.end();
    batches.ok_or(JoinError::Cancelled)
}

/// Rows and values of a block where every pair is reranked: two of them fit the second-level cache.
const DIRECT_BLOCK_ROWS: usize = 64;
const DIRECT_BLOCK_VALUES: usize = 49_152;

/// Cuts rows of which every pair is reranked into blocks.
pub(super) fn direct_blocks(positions: Range<u32>, dim: usize) -> Vec<Block> {
    let positions: Vec<u32> = positions.collect();
    let block = |positions: &[u32]| Block { positions: positions.to_vec(), ..Block::default() };
    let rows = (DIRECT_BLOCK_VALUES / dim).clamp(4, DIRECT_BLOCK_ROWS);
    positions.chunks(rows).map(block).collect()
}
