//! [`Block`]: codes of rows that lie in one cell.

use super::cells::Assigned;
use super::encode::Encoder;
use super::plan::Stages;
use super::verdict::Verdict;
use super::{JoinError, JoinOptions};
use crate::transform::RowBounds;

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
        let rows_max = (BLOCK_CODES_MAX / stages.first_dim()) & !(BLOCK_ROWS_MIN - 1);
        let rows_max = rows_max.clamp(BLOCK_ROWS_MIN, BLOCK_ROWS_MAX);
        let block_rows = (row_count / 32).next_multiple_of(64).clamp(BLOCK_ROWS_MIN, rows_max);
        let cells =
            order.chunk_by(|&a, &b| assigned(a as usize).1.cell == assigned(b as usize).1.cell);
        let parts: Vec<&[u32]> = cells.flat_map(|cell| cell.chunks(block_rows)).collect();
        Ok(options.pool.map(parts.len(), |part| Self::gather(&batches, parts[part], stages)))
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
            block.first_sums.push(codes[..first_dim].iter().map(|&code| i32::from(code)).sum());
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
        Ok(Batch::encode(verdict, stages, positions))
    });
    options.progress.end();
    batches.into_iter().collect()
}

impl Batch {
    fn encode(verdict: &Verdict<'_>, stages: &Stages, positions: std::ops::Range<usize>) -> Self {
        let kernels = verdict.kernels;
        let dim = stages.quantizer.dim();
        let positions: Vec<usize> = positions.collect();
        let mut codes = Vec::with_capacity(positions.len() * dim);
        let mut bounds = Vec::with_capacity(positions.len());
        let mut encoder = Encoder::new(verdict, &stages.projection);
        encoder.encode(
            &positions,
            (&stages.quantizer, stages.first_width),
            &mut codes,
            &mut bounds,
        );
        let mut dots = Vec::with_capacity(stages.cells.len());
        let nearest = |codes| stages.cells.nearest(codes, kernels, &mut dots);
        let rows = bounds.into_iter().zip(codes.chunks_exact(dim).map(nearest)).collect();
        Self { codes, rows }
    }
}
