//! [`Cascade`]: compares blocks of rows by sign tests, then judges what passed.

use std::ops::Range;

use memfold_simd::panel::{CodeRows, ColumnPanel, Hit, PACKED_COLUMNS, RUN_ROWS, RowBlock};
use memfold_simd::{Kernels, Similarity};

use super::blocks::{Block, CodeTests, Plan};
use super::cells::{Cells, Side};
use super::{JoinCounters, JoinError, JoinOptions, Pair};
use crate::VectorMatrix;
use crate::distinct::DistinctRows;
use crate::transform::{Projection, Quantizer, RowBounds, f32_dot_error, normalize_into};

/// Rows and values of a block where every pair is judged: two of them fit the second-level cache.
const DIRECT_BLOCK_ROWS: usize = 64;
const DIRECT_BLOCK_VALUES: usize = 49_152;

/// The rows of a join in blocks, ready to be compared.
pub(super) struct Cascade<'a> {
    verdict: Verdict<'a>,
    /// `None`: every pair is judged.
    tests: Option<CodeTests<'a>>,
    blocks: Vec<Block>,
}

/// Cuts rows of which every pair is judged into blocks.
pub(super) fn direct_blocks(positions: Range<u32>, dim: usize) -> Vec<Block> {
    let positions: Vec<u32> = positions.collect();
    let block = |positions: &[u32]| Block { positions: positions.to_vec(), ..Block::default() };
    let rows = (DIRECT_BLOCK_VALUES / dim).clamp(4, DIRECT_BLOCK_ROWS);
    positions.chunks(rows).map(block).collect()
}

/// Memory of one cascade's comparisons, and what they found and did.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    pub(super) pairs: Vec<Pair>,
    pub(super) counters: JoinCounters,
    /// Blocks of rows, each in a place of its own while it is in a task.
    lefts: [FacingRows; TASK_LEFTS_MAX],
    right: FacingColumns,
    group_counts: Vec<u32>,
    hits: Vec<Hit>,
}

/// The rows of a block that faces a cell, and the first codes of some of them as kernels take them.
#[derive(Debug, Default)]
struct FacingRows {
    side: Side,
    shifted_codes: Vec<u8>,
    biases: Vec<i32>,
}

/// The columns of a block that faces a cell, and the first codes of some of them as kernels take them.
#[derive(Debug, Default)]
struct FacingColumns {
    side: Side,
    panel: ColumnPanel,
    laid_out: usize,
}

/// Runs of rows that are tested in one call, which bounds what may pass at once.
const TESTED_RUNS: usize = 32;

/// Blocks on the left of a task: they stay in the second-level cache.
pub(super) const TASK_LEFTS_MAX: usize = 4;

impl<'a> Cascade<'a> {
    /// Encodes all distinct rows as planned.
    pub(super) fn prepare(
        verdict: Verdict<'a>,
        plan: &'a Plan,
        options: &JoinOptions<'_>,
    ) -> Result<Self, JoinError> {
        let Plan::Cascade(stages) = plan else {
            let blocks = direct_blocks(0..verdict.distinct.len() as u32, verdict.matrix.dim());
            return Ok(Self::new(verdict, None, blocks));
        };
        let blocks = Block::of_all(&verdict, stages, options)?;
        Ok(Self::new(verdict, Some(stages.tests()), blocks))
    }

    /// Takes rows in blocks; `None`: every pair of them is judged.
    pub(super) const fn new(
        verdict: Verdict<'a>,
        tests: Option<CodeTests<'a>>,
        blocks: Vec<Block>,
    ) -> Self {
        Self { verdict, tests, blocks }
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
                work.pairs.extend(self.verdict.decide(row as usize, column as usize));
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
        let (width, kernels) = (tests.first_dim(), self.verdict.kernels);
        let Workspace { pairs, counters, lefts, right: facing_columns, group_counts, hits } = work;
        let facing_rows = &mut lefts[left % TASK_LEFTS_MAX];
        facing_rows.face(left, rows, columns.cell, tests.cells, kernels);
        facing_columns.face(right, columns, rows.cell, tests.cells, kernels);
        let (row_count, column_count) = facing_rows.side.remaining(&facing_columns.side);
        facing_rows.lay_out(row_count, &rows.first_codes(tests), width);
        facing_columns.lay_out(column_count, &columns.first_codes(tests), width);
        let laid_out = facing_columns.panel.first_columns(column_count);
        group_counts.clear();
        facing_rows.side.count_groups(row_count, &facing_columns.side, group_counts);
        for (at, counts) in group_counts.chunks(TESTED_RUNS).enumerate() {
            let first_row = at * TESTED_RUNS * RUN_ROWS;
            let tested = first_row..row_count.min(first_row + TESTED_RUNS * RUN_ROWS);
            for (start, &count) in tested.clone().step_by(RUN_ROWS).zip(counts) {
                let rows = RUN_ROWS.min(row_count - start);
                let columns = column_count.min(count as usize * PACKED_COLUMNS);
                counters.pairs_tested += (rows * columns) as u64;
            }
            let block = facing_rows.block(tested, width, counts);
            hits.clear();
            if tests.has_i7 {
                kernels.hits_i7(&block, laid_out, hits);
            } else {
                kernels.hits(&block, laid_out, hits);
            }
            for hit in &*hits {
                let row = facing_rows.side.order[first_row + hit.row as usize] as usize;
                let column = facing_columns.side.order[hit.column as usize] as usize;
                if left != right || row < column {
                    pairs.extend(self.judge(tests.dim, rows, row, columns, column, counters));
                }
            }
        }
    }

    fn judge(
        &self,
        dim: usize,
        rows: &Block,
        row: usize,
        columns: &Block,
        column: usize,
        counters: &mut JoinCounters,
    ) -> Option<Pair> {
        counters.pairs_passed_first += 1;
        let dot = self.verdict.kernels.dot_i8(rows.row(row, dim), columns.row(column, dim));
        if dot + rows.second_biases[row] + columns.second_biases[column] < 0 {
            return None;
        }
        counters.pairs_judged += 1;
        let (a, b) = (rows.positions[row] as usize, columns.positions[column] as usize);
        self.verdict.decide(a.min(b), a.max(b))
    }
}

impl Block {
    fn first_codes(&self, tests: &CodeTests<'_>) -> CodeRows<'_> {
        CodeRows {
            codes: if tests.has_i7 { &self.i7_codes } else { &self.codes },
            biases: &self.first_biases,
            sums: &self.first_sums,
            stride: if tests.has_i7 { tests.first_dim() } else { tests.dim },
        }
    }
}

impl FacingRows {
    fn face(&mut self, number: usize, block: &Block, cell: u32, cells: &Cells, kernels: &Kernels) {
        if self.side.face(number, block, cell, cells, kernels) {
            self.shifted_codes.clear();
            self.biases.clear();
        }
    }

    /// Lays out at least the first `count` rows.
    fn lay_out(&mut self, count: usize, rows: &CodeRows<'_>, width: usize) {
        for &row in self.side.order[..count].iter().skip(self.biases.len()) {
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

impl FacingColumns {
    fn face(&mut self, number: usize, block: &Block, cell: u32, cells: &Cells, kernels: &Kernels) {
        if self.side.face(number, block, cell, cells, kernels) {
            self.laid_out = 0;
        }
    }

    /// Lays out at least the first `count` columns.
    fn lay_out(&mut self, count: usize, columns: &CodeRows<'_>, width: usize) {
        if self.laid_out < count {
            self.panel.pack_picked(columns, &self.side.order[..count], width);
            self.laid_out = count;
        }
    }
}

/// Squared norms for which an f32 dot product neither overflows nor loses terms that matter.
const SAFE_SQUARED_NORMS: std::ops::Range<f64> = 1e-20..1e30;

/// Decides pairs of distinct rows, named by their position among the distinct ones.
#[derive(Clone, Copy)]
pub(super) struct Verdict<'a> {
    pub(super) matrix: &'a VectorMatrix<'a>,
    pub(super) distinct: &'a DistinctRows,
    pub(super) kernels: &'static Kernels,
    pub(super) threshold: Similarity,
}

impl<'a> Verdict<'a> {
    /// Returns the vector of a distinct row.
    pub(super) fn vector(&self, position: usize) -> &'a [f32] {
        self.matrix.vector(self.distinct.rows[position])
    }

    /// Returns the canonical similarity; distinct rows have norms above zero, so there is one.
    pub(super) fn similarity(&self, left: usize, right: usize) -> Option<Similarity> {
        let norms = (self.distinct.squared_norms[left], self.distinct.squared_norms[right]);
        self.kernels.similarity(self.vector(left), self.vector(right), norms)
    }

    /// Returns the pair if its canonical similarity is at or above the threshold.
    pub(super) fn decide(&self, left: usize, right: usize) -> Option<Pair> {
        if self.is_far(left, right) {
            return None;
        }
        let similarity = self.similarity(left, right).filter(|found| *found >= self.threshold)?;
        Some(Pair { left: self.distinct.rows[left], right: self.distinct.rows[right], similarity })
    }

    /// Tells by a fast product whether the pair is certainly below the threshold.
    fn is_far(&self, left: usize, right: usize) -> bool {
        let norms = [self.distinct.squared_norms[left], self.distinct.squared_norms[right]];
        if !norms.iter().all(|norm| SAFE_SQUARED_NORMS.contains(norm)) {
            return false;
        }
        let fast = f64::from(self.kernels.dot_f32(self.vector(left), self.vector(right)));
        // 1e-6 covers underflow of terms beside norms of at least 1e-10, and all f64 rounding.
        let slack = f32_dot_error(self.matrix.dim()) + 1e-6;
        fast < (self.threshold.get() - slack) * (norms[0] * norms[1]).sqrt()
    }
}

/// Rows that are projected together: a multiple of every kernel's tile.
const ROWS_TOGETHER: usize = 48;

/// Squared norms for which f32 products neither overflow nor lose terms that matter.
const SAFE_PROJECTED_NORMS: std::ops::Range<f64> = 1e-12..1e12;

/// What the first test compares.
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
}

impl Encoded {
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

/// Encodes rows, a few at a time, with memory that is used again.
pub(super) struct Encoder<'a> {
    verdict: &'a Verdict<'a>,
    projection: &'a Projection,
    units: Vec<f32>,
    unit: Vec<f32>,
    coordinates: Vec<f32>,
}

impl<'a> Encoder<'a> {
    pub(super) const fn new(verdict: &'a Verdict<'a>, projection: &'a Projection) -> Self {
        Self { verdict, projection, units: Vec::new(), unit: Vec::new(), coordinates: Vec::new() }
    }

    /// Returns all coordinates of the distinct rows at some positions, row by row.
    fn project(&mut self, positions: &[usize]) -> &[f32] {
        let squared_norms = || positions.iter().map(|&at| self.verdict.distinct.squared_norms[at]);
        let (width, kernels) = (self.projection.width(), self.verdict.kernels);
        let rows: Vec<&[f32]> = positions.iter().map(|&at| self.verdict.vector(at)).collect();
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
                normalize_into(row, squared_norm, &mut self.unit);
                self.units.extend_from_slice(&self.unit);
            }
            let units: Vec<&[f32]> = self.units.chunks_exact(self.verdict.matrix.dim()).collect();
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

/// Rows whose pairs the cost model and the histogram look at.
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
    pub(super) fn draw(verdict: &Verdict<'_>, count: usize) -> Self {
        let hashes = &verdict.distinct.hashes;
        let mut positions: Vec<usize> = (0..hashes.len()).collect();
        if positions.len() > count {
            positions.select_nth_unstable_by_key(count, |&at| (hashes[at], at));
            positions.truncate(count);
        }
        positions.sort_unstable_by_key(|&at| (hashes[at], at));
        Self { positions }
    }

    /// Returns the positions of all sampled rows among the distinct rows, by hash.
    pub(super) fn positions(&self) -> &[usize] {
        &self.positions
    }

    /// Returns the unit vectors of all sampled rows.
    pub(super) fn units(&self, verdict: &Verdict<'_>, options: &JoinOptions<'_>) -> Vec<f32> {
        let units = options.pool.map(self.positions.len(), |at| {
            let mut unit = Vec::with_capacity(verdict.matrix.dim());
            let position = self.positions[at];
            let squared_norm = verdict.distinct.squared_norms[position];
            normalize_into(verdict.vector(position), squared_norm, &mut unit);
            unit
        });
        units.concat()
    }

    /// Returns how many rows come first whose pairs are looked at. Directions are learned from the others: rows
    /// differ more in directions that were learned from them than rows in general do.
    pub(super) fn compared_count(&self) -> usize {
        self.positions.len().min(COMPARED_ROWS)
    }

    /// Returns the rows whose pairs are looked at.
    pub(super) fn compared(&self) -> &[usize] {
        &self.positions[..self.compared_count()]
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
