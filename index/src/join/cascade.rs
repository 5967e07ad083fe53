//! [`Cascade`]: compares blocks of rows by sign tests, then judges what passed.

use memfold_simd::panel::{ColumnPanel, RowBlock};

use super::plan::{Plan, Stages};
use super::verdict::Verdict;
use super::{JoinError, JoinOptions, Pair};
use crate::transform::normalize_into;

/// Rows of a block: its codes, as rows and as columns, fit the second-level cache.
const BLOCK_ROWS_MAX: usize = 1_024;

/// Rows of a block of few rows, so that every worker has some.
const BLOCK_ROWS_MIN: usize = 64;

/// The rows of a join in blocks, ready to be compared.
pub(super) struct Cascade<'a> {
    verdict: Verdict<'a>,
    block_rows: usize,
    /// Empty for a direct plan.
    blocks: Vec<Block>,
    codes_per_row: usize,
}

/// The codes of consecutive distinct rows.
#[derive(Debug, Default)]
struct Block {
    /// First test, as rows.
    shifted_codes: Vec<u8>,
    biases: Vec<i32>,
    /// First test, as columns.
    panel: ColumnPanel,
    second: Option<SecondTest>,
}

/// The codes of a block for the second test.
#[derive(Debug, Default)]
struct SecondTest {
    codes: Vec<i8>,
    biases: Vec<i32>,
    dim: usize,
}

impl<'a> Cascade<'a> {
    /// Encodes all distinct rows as planned.
    pub(super) fn prepare(
        verdict: Verdict<'a>,
        plan: &Plan,
        options: &JoinOptions<'_>,
    ) -> Result<Self, JoinError> {
        let row_count = verdict.distinct.len();
        let block_rows =
            (row_count / 32).next_multiple_of(64).clamp(BLOCK_ROWS_MIN, BLOCK_ROWS_MAX);
        let mut cascade = Self { verdict, block_rows, blocks: Vec::new(), codes_per_row: 0 };
        let Plan::Cascade(stages) = plan else { return Ok(cascade) };
        options.progress.begin("encode vectors", Some(row_count as u64));
        let blocks = options.pool.map(cascade.block_count(), |block| {
            if options.progress.cancelled() {
                return Err(JoinError::Cancelled);
            }
            let positions = cascade.positions(block);
            options.progress.advance(positions.len() as u64);
            Ok(Block::encode(&verdict, stages, positions))
        });
        options.progress.end();
        cascade.blocks = blocks.into_iter().collect::<Result<_, _>>()?;
        cascade.codes_per_row = stages.first.dim();
        Ok(cascade)
    }

    /// Returns the number of blocks.
    pub(super) const fn block_count(&self) -> usize {
        self.verdict.distinct.rows.len().div_ceil(self.block_rows)
    }

    /// Returns how many pairs a comparison of two blocks covers.
    pub(super) fn pair_count(&self, left: usize, right: usize) -> u64 {
        let rows = self.positions(left).len() as u64;
        if left == right {
            rows * (rows - 1) / 2
        } else {
            rows * self.positions(right).len() as u64
        }
    }

    /// Finds the near pairs with their left row in block `left` and their right row in block `right`,
    /// in no particular order; `left ≤ right`.
    pub(super) fn compare(&self, left: usize, right: usize) -> Vec<Pair> {
        if self.blocks.is_empty() {
            self.compare_all(left, right)
        } else {
            self.compare_codes(left, right)
        }
    }

    fn compare_all(&self, left: usize, right: usize) -> Vec<Pair> {
        let pairs = self.positions(left).flat_map(|row| {
            {
                let columns = self.positions(right);
                columns.start.max(row + 1)..columns.end
            }
            .map(move |column| (row, column))
        });
        pairs.filter_map(|(row, column)| self.verdict.decide(row, column)).collect()
    }

    fn compare_codes(&self, left: usize, right: usize) -> Vec<Pair> {
        let (rows, columns) = (&self.blocks[left], &self.blocks[right]);
        let row_block = RowBlock {
            shifted_codes: &rows.shifted_codes,
            biases: &rows.biases,
            dim: self.codes_per_row,
        };
        let mut hits = Vec::new();
        self.verdict.kernels.hits(&row_block, &columns.panel, &mut hits);
        let first = (self.positions(left).start, self.positions(right).start);
        let mut pairs = Vec::new();
        for hit in hits {
            let (row, column) = (hit.row as usize, hit.column as usize);
            if left == right && row >= column {
                continue;
            }
            if self.passes_second(rows, row, columns, column) {
                pairs.extend(self.verdict.decide(first.0 + row, first.1 + column));
            }
        }
        pairs
    }

    fn passes_second(&self, rows: &Block, row: usize, columns: &Block, column: usize) -> bool {
        let (Some(left), Some(right)) = (&rows.second, &columns.second) else { return true };
        let dot = self.verdict.kernels.dot_i8(left.row(row), right.row(column));
        dot + left.biases[row] + right.biases[column] >= 0
    }

    fn positions(&self, block: usize) -> std::ops::Range<usize> {
        let start = block * self.block_rows;
        start..(start + self.block_rows).min(self.verdict.distinct.len())
    }
}

impl Block {
    fn encode(verdict: &Verdict<'_>, stages: &Stages, positions: std::ops::Range<usize>) -> Self {
        let (mut unit, mut coordinates, mut codes) = (Vec::new(), Vec::new(), Vec::new());
        let mut block = Self::default();
        let mut second = SecondTest::default();
        for position in positions {
            let squared_norm = verdict.distinct.squared_norms[position];
            normalize_into(verdict.vector(position), squared_norm, &mut unit);
            let width = stages.projection.width();
            stages.projection.apply(&unit, width, verdict.kernels, &mut coordinates);
            block.biases.push(stages.first.encode(&coordinates, &mut codes));
            if let Some(quantizer) = &stages.second {
                second.biases.push(quantizer.encode(&coordinates, &mut second.codes));
            }
        }
        block.panel.pack(&codes, &block.biases, stages.first.dim());
        block.shifted_codes = codes.iter().map(|&code| code.cast_unsigned() ^ 0x80).collect();
        block.second = stages.second.as_ref().map(|quantizer| {
            second.dim = quantizer.dim();
            second
        });
        block
    }
}

impl SecondTest {
    fn row(&self, row: usize) -> &[i8] {
        &self.codes[row * self.dim..(row + 1) * self.dim]
    }
}
