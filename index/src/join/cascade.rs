//! [`Cascade`]: compares blocks of rows by sign tests, then judges what passed.

use memfold_simd::panel::{CodeRows, ColumnPanel, Hit, RowBlock};

use super::blocks::Block;
use super::blocks::Staircase;
use super::plan::{Plan, Stages};
use super::verdict::Verdict;
use super::{JoinCounters, JoinError, JoinOptions, Pair};

/// Rows and values of a block where every pair is judged: two of them fit the second-level cache.
const DIRECT_BLOCK_ROWS: usize = 64;
const DIRECT_BLOCK_VALUES: usize = 49_152;

/// The rows of a join in blocks, ready to be compared.
pub(super) struct Cascade<'a> {
    verdict: Verdict<'a>,
    /// `None`: every pair is judged.
    stages: Option<&'a Stages>,
    blocks: Vec<Block>,
}

/// Memory of comparisons, and what they found and did.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    pub(super) pairs: Vec<Pair>,
    pub(super) counters: JoinCounters,
    stairs: Staircase,
    panel: ColumnPanel,
    shifted_codes: Vec<u8>,
    biases: Vec<i32>,
    hits: Vec<Hit>,
}

impl<'a> Cascade<'a> {
    /// Encodes all distinct rows as planned.
    pub(super) fn prepare(
        verdict: Verdict<'a>,
        plan: &'a Plan,
        options: &JoinOptions<'_>,
    ) -> Result<Self, JoinError> {
        let Plan::Cascade(stages) = plan else {
            let positions: Vec<u32> = (0..verdict.distinct.len() as u32).collect();
            let block =
                |positions: &[u32]| Block { positions: positions.to_vec(), ..Block::default() };
            let rows = (DIRECT_BLOCK_VALUES / verdict.matrix.dim()).clamp(4, DIRECT_BLOCK_ROWS);
            let blocks = positions.chunks(rows).map(block).collect();
            return Ok(Self { verdict, stages: None, blocks });
        };
        let blocks = Block::of_all(&verdict, stages, options)?;
        Ok(Self { verdict, stages: Some(stages), blocks })
    }

    /// Returns the number of blocks.
    pub(super) const fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the number of directions of the first test; 0 where there is none.
    pub(super) fn first_width(&self) -> u32 {
        self.stages.map_or(0, |stages| stages.first_width as u32)
    }

    /// Returns how many pairs a comparison of two blocks covers.
    pub(super) fn pair_count(&self, left: usize, right: usize) -> u64 {
        let rows = self.blocks[left].len() as u64;
        if left == right { rows * (rows - 1) / 2 } else { rows * self.blocks[right].len() as u64 }
    }

    /// Adds the near pairs between two blocks, or within one, in no particular order.
    pub(super) fn compare(&self, left: usize, right: usize, work: &mut Workspace) {
        match self.stages {
            Some(stages) => self.compare_codes(stages, (left, right), work),
            None => self.compare_all((left, right), work),
        }
    }

    fn compare_all(&self, (left, right): (usize, usize), work: &mut Workspace) {
        let columns = &self.blocks[right].positions;
        for &row in &self.blocks[left].positions {
            let columns = columns.iter().filter(|&&column| left != right || row < column);
            for &column in columns {
                work.counters.pairs_judged += 1;
                work.pairs.extend(self.verdict.decide(row as usize, column as usize));
            }
        }
    }

    fn compare_codes(&self, stages: &Stages, (left, right): (usize, usize), work: &mut Workspace) {
        let (rows, columns) = (&self.blocks[left], &self.blocks[right]);
        let width = stages.first_dim();
        work.stairs.build(&stages.cells, (rows, columns), self.verdict.kernels);
        if work.stairs.is_empty() {
            return;
        }
        let column_codes = columns.first_codes(stages);
        work.panel.pack_picked(&column_codes, &work.stairs.columns.picked, width);
        let stairs = std::mem::take(&mut work.stairs);
        for (run, column_count) in stairs.steps() {
            let picked = &stairs.rows.picked[run];
            work.gather_rows(&rows.first_codes(stages), picked, width);
            let row_block =
                RowBlock { shifted_codes: &work.shifted_codes, biases: &work.biases, dim: width };
            work.hits.clear();
            let first_columns = work.panel.first_columns(column_count);
            self.verdict.kernels.hits(&row_block, first_columns, &mut work.hits);
            work.counters.pairs_tested += (picked.len() * column_count) as u64;
            for hit in std::mem::take(&mut work.hits) {
                let row = picked[hit.row as usize] as usize;
                let column = stairs.columns.picked[hit.column as usize] as usize;
                if left != right || row < column {
                    self.judge(stages, (rows, row), (columns, column), work);
                }
            }
        }
        work.stairs = stairs;
    }

    fn judge(
        &self,
        stages: &Stages,
        (rows, row): (&Block, usize),
        (columns, column): (&Block, usize),
        work: &mut Workspace,
    ) {
        work.counters.pairs_passed_first += 1;
        let dim = stages.quantizer.dim();
        let dot = self.verdict.kernels.dot_i8(rows.row(row, dim), columns.row(column, dim));
        if dot + rows.second_biases[row] + columns.second_biases[column] < 0 {
            return;
        }
        work.counters.pairs_judged += 1;
        let (a, b) = (rows.positions[row] as usize, columns.positions[column] as usize);
        work.pairs.extend(self.verdict.decide(a.min(b), a.max(b)));
    }
}

impl Block {
    fn first_codes(&self, stages: &Stages) -> CodeRows<'_> {
        CodeRows {
            codes: &self.codes,
            biases: &self.first_biases,
            sums: &self.first_sums,
            stride: stages.quantizer.dim(),
        }
    }
}

impl Workspace {
    /// Lays out the first codes of some rows as a block of rows.
    fn gather_rows(&mut self, rows: &CodeRows<'_>, picked: &[u32], width: usize) {
        self.shifted_codes.clear();
        self.biases.clear();
        for &row in picked {
            let start = row as usize * rows.stride;
            let codes = &rows.codes[start..start + width];
            self.shifted_codes.extend(codes.iter().map(|&code| code.cast_unsigned() ^ 0x80));
            self.biases.push(rows.biases[row as usize]);
        }
    }
}
