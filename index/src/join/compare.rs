//! [`Cascade`]: compares blocks of rows by the sign tests, then reranks the rest.

use std::ops::Range;

use memfold_simd::panel::{CodeRows, ColumnPanel, Hit, PACKED_COLUMNS, RUN_ROWS, RowBlock};

use super::encode::{Block, CodeTests, Stages, direct_blocks};
use super::prune::SortedProjection;
use super::rerank::Rerank;
use super::{JoinCounters, JoinError, JoinOptions, Pair};

/// The rows of a join in blocks, ready to be compared.
pub(super) struct Cascade<'a> {
    rerank: Rerank<'a>,
    /// `None`: every pair is reranked.
    tests: Option<CodeTests<'a>>,
    blocks: Vec<Block>,
}

/// Memory of one cascade's comparisons, their pairs and counters.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    pub(super) pairs: Vec<Pair>,
    pub(super) counters: JoinCounters,
    /// Blocks of rows, each in a place of its own while it is in a task.
    lefts: [ProjectedRows; TASK_LEFTS_MAX],
    right: ProjectedColumns,
    group_counts: Vec<u32>,
    hits: Vec<Hit>,
}

/// The rows of a block, sorted towards a cell, and the first codes of some of them as kernels take them.
#[derive(Debug, Default)]
struct ProjectedRows {
    projection: SortedProjection,
    shifted_codes: Vec<u8>,
    biases: Vec<i32>,
}

/// The columns of a block, sorted towards a cell, and the first codes of some of them as kernels take them.
#[derive(Debug, Default)]
struct ProjectedColumns {
    projection: SortedProjection,
    panel: ColumnPanel,
    laid_out: usize,
}

/// Runs of rows that are tested in one call, which bounds the hits of a call.
const TESTED_RUNS: usize = 32;

/// Blocks on the left of a task: they stay in the second-level cache.
pub(super) const TASK_LEFTS_MAX: usize = 4;

impl<'a> Cascade<'a> {
    /// Encodes all distinct rows as planned.
    pub(super) fn prepare(
        rerank: Rerank<'a>,
        stages: Option<&'a Stages>,
        options: &JoinOptions<'_>,
    ) -> Result<Self, JoinError> {
        let Some(stages) = stages else {
            let blocks = direct_blocks(0..rerank.distinct.len() as u32, rerank.matrix.dim());
            return Ok(Self::new(rerank, None, blocks));
        };
        let blocks = Block::of_all(&rerank, stages, options)?;
        Ok(Self::new(rerank, Some(stages.tests()), blocks))
    }

    /// Takes rows in blocks; `None`: every pair of them is reranked.
    pub(super) const fn new(
        rerank: Rerank<'a>,
        tests: Option<CodeTests<'a>>,
        blocks: Vec<Block>,
    ) -> Self {
        Self { rerank, tests, blocks }
    }

    /// Returns the number of blocks.
    pub(super) const fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the number of directions of the first test; 0 where there is none.
    pub(super) fn first_width(&self) -> u32 {
        self.tests.map_or(0, |tests| tests.first_width as u32)
    }

    /// Returns how many pairs a comparison of two blocks covers.
    pub(super) fn pair_count(&self, left: usize, right: usize) -> u64 {
        let rows = self.blocks[left].len() as u64;
        if left == right { rows * (rows - 1) / 2 } else { rows * self.blocks[right].len() as u64 }
    }

    /// Adds the near pairs between two blocks, or within one, in no particular order.
    pub(super) fn compare(&self, left: usize, right: usize, work: &mut Workspace) {
        match &self.tests {
            Some(tests) => self.compare_codes(tests, left, right, work),
            None => self.compare_all(left, right, work),
        }
    }

    fn compare_all(&self, left: usize, right: usize, work: &mut Workspace) {
        let columns = &self.blocks[right].positions;
        for &row in &self.blocks[left].positions {
            let columns = columns.iter().filter(|&&column| left != right || row < column);
            for &column in columns {
                work.counters.pairs_judged += 1;
                work.pairs.extend(self.rerank.pair(row as usize, column as usize));
            }
        }
    }

    fn compare_codes(
        &self,
        tests: &CodeTests<'_>,
        left: usize,
        right: usize,
        work: &mut Workspace,
    ) {
        let (rows, columns) = (&self.blocks[left], &self.blocks[right]);
        let (width, kernels) = (tests.first_dim(), self.rerank.kernels);
        let Workspace { pairs, counters, lefts, right: right_columns, group_counts, hits } = work;
        let left_rows = &mut lefts[left % TASK_LEFTS_MAX];
        let projection = &mut left_rows.projection;
        if projection.project(left, rows.cell_rows(), columns.cell, tests.cells, kernels) {
            left_rows.shifted_codes.clear();
            left_rows.biases.clear();
        }
        let projection = &mut right_columns.projection;
        if projection.project(right, columns.cell_rows(), rows.cell, tests.cells, kernels) {
            right_columns.laid_out = 0;
        }
        let (row_count, column_count) = left_rows.projection.remaining(&right_columns.projection);
        left_rows.lay_out(row_count, &rows.first_codes(tests), width);
        right_columns.lay_out(column_count, &columns.first_codes(tests), width);
        let laid_out = right_columns.panel.first_columns(column_count);
        group_counts.clear();
        left_rows.projection.count_groups(row_count, &right_columns.projection, group_counts);
        for (at, counts) in group_counts.chunks(TESTED_RUNS).enumerate() {
            let first_row = at * TESTED_RUNS * RUN_ROWS;
            let tested = first_row..row_count.min(first_row + TESTED_RUNS * RUN_ROWS);
            for (start, &count) in tested.clone().step_by(RUN_ROWS).zip(counts) {
                let rows = RUN_ROWS.min(row_count - start);
                let columns = column_count.min(count as usize * PACKED_COLUMNS);
                counters.pairs_tested += (rows * columns) as u64;
            }
            let block = left_rows.block(tested, width, counts);
            hits.clear();
            if tests.has_i7 {
                kernels.hits_i7(&block, laid_out, hits);
            } else {
                kernels.hits(&block, laid_out, hits);
            }
            for hit in &*hits {
                let row = left_rows.projection.order[first_row + hit.row as usize] as usize;
                let column = right_columns.projection.order[hit.column as usize] as usize;
                if left != right || row < column {
                    pairs.extend(self.test(tests.dim, rows, row, columns, column, counters));
                }
            }
        }
    }

    /// Tests a pair that passed the first test by all codes, then by its vectors.
    fn test(
        &self,
        dim: usize,
        rows: &Block,
        row: usize,
        columns: &Block,
        column: usize,
        counters: &mut JoinCounters,
    ) -> Option<Pair> {
        counters.pairs_passed_first += 1;
        let dot = self.rerank.kernels.dot_i8(rows.row(row, dim), columns.row(column, dim));
        if dot + rows.second_biases[row] + columns.second_biases[column] < 0 {
            return None;
        }
        counters.pairs_judged += 1;
        let (a, b) = (rows.positions[row] as usize, columns.positions[column] as usize);
        self.rerank.pair(a.min(b), a.max(b))
    }
}

impl ProjectedRows {
    /// Lays out at least the first `count` rows.
    fn lay_out(&mut self, count: usize, rows: &CodeRows<'_>, width: usize) {
        for &row in self.projection.order[..count].iter().skip(self.biases.len()) {
            let start = row as usize * rows.stride;
            let codes = &rows.codes[start..start + width];
            self.shifted_codes.extend(codes.iter().map(|&code| code.cast_unsigned() ^ 0x80));
            self.biases.push(rows.biases[row as usize]);
        }
    }

    fn block<'a>(&'a self, rows: Range<usize>, width: usize, counts: &'a [u32]) -> RowBlock<'a> {
        RowBlock {
            shifted_codes: &self.shifted_codes[rows.start * width..rows.end * width],
            biases: &self.biases[rows],
            dim: width,
            group_counts: counts,
        }
    }
}

impl ProjectedColumns {
    /// Lays out at least the first `count` columns.
    fn lay_out(&mut self, count: usize, columns: &CodeRows<'_>, width: usize) {
        if self.laid_out < count {
            self.panel.pack_picked(columns, &self.projection.order[..count], width);
            self.laid_out = count;
        }
    }
}
