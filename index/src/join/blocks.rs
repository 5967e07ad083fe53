//! [`Block`]: codes of rows that lie in one cell.
//!
//! [`Staircase`]: which rows of two cells can be near at all.
//!
//! Two cells have a direction, from one centroid to the other. Near rows lie near each other in this
//! direction too, so with keys as in (5) of [`crate::transform`] only pairs with `key + key ≥ 0` remain. Rows
//! and columns sorted by falling keys make them a staircase: each run of rows meets a first part of the
//! columns.

use memfold_simd::Kernels;

use super::cells::{Assigned, Cells};
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

/// Rows that share a step of the staircase: a multiple of every kernel's tile.
const STEP_ROWS: usize = 24;

/// Columns of a step: a group of a panel.
const STEP_COLUMNS: usize = 32;

/// Buckets by which keys are sorted.
const BUCKETS: usize = 128;

/// A key that lets every pair pass and does not overflow.
const KEY_MAX: f32 = 1e9;

/// Returns the key of a row: its place in the direction towards another cell, and its allowance.
pub(super) fn key(towards: i32, distance: f32, allowance: f32) -> i32 {
    // Two more than the product, which is rounded, and cut off by the cast.
    towards + (distance * allowance).min(KEY_MAX) as i32 + 2
}

/// The rows and columns of two blocks that remain, and how they meet.
#[derive(Debug, Default)]
pub(super) struct Staircase {
    pub(super) rows: Side,
    pub(super) columns: Side,
    /// The largest key of each group of columns and those behind it.
    column_keys: Vec<i32>,
}

/// The rows of one block that remain.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// Their places in the block.
    pub(super) picked: Vec<u32>,
    keys: Vec<i32>,
    dots: Vec<i32>,
    ends: Vec<u32>,
}

impl Staircase {
    /// Finds what remains of two blocks.
    pub(super) fn build(
        &mut self,
        cells: &Cells,
        (rows, columns): (&Block, &Block),
        kernels: &Kernels,
    ) {
        if rows.cell == columns.cell {
            self.rows.take_all(rows.len());
            self.columns.take_all(columns.len());
        } else {
            let distance = cells.distance(rows.cell, columns.cell, kernels);
            let row_key = self.rows.measure(rows, cells.centroid(columns.cell), distance, kernels);
            let column_key =
                self.columns.measure(columns, cells.centroid(rows.cell), distance, kernels);
            self.rows.pick(row_key, -column_key);
            self.columns.pick(column_key, -row_key);
        }
        self.bound_columns();
    }

    fn bound_columns(&mut self) {
        self.column_keys.clear();
        let keys = &self.columns.keys;
        let groups = self.columns.picked.chunks(STEP_COLUMNS);
        let largest = |group: &[u32]| group.iter().map(|&at| keys[at as usize]).max();
        self.column_keys.extend(groups.filter_map(largest));
        for at in (1..self.column_keys.len()).rev() {
            self.column_keys[at - 1] = self.column_keys[at - 1].max(self.column_keys[at]);
        }
    }

    /// Tells whether no pair remains.
    pub(super) const fn is_empty(&self) -> bool {
        self.rows.picked.is_empty() || self.columns.picked.is_empty()
    }

    /// Returns runs of rows and how many of the first columns each must be compared with.
    pub(super) fn steps(&self) -> impl Iterator<Item = (std::ops::Range<usize>, usize)> {
        let starts = (0..self.rows.picked.len()).step_by(STEP_ROWS);
        starts.filter_map(|start| {
            let run = start..(start + STEP_ROWS).min(self.rows.picked.len());
            let keys = self.rows.picked[run.clone()].iter().map(|&at| self.rows.keys[at as usize]);
            let largest = keys.max()?;
            let groups = self.column_keys.partition_point(|key| key + largest >= 0);
            let columns = (groups * STEP_COLUMNS).min(self.columns.picked.len());
            (columns > 0).then_some((run, columns))
        })
    }
}

impl Side {
    fn take_all(&mut self, count: usize) {
        self.keys.clear();
        self.keys.resize(count, 0);
        self.picked.clear();
        self.picked.extend(0..count as u32);
    }

    /// Computes the keys of a block's rows towards another cell and returns the largest.
    fn measure(&mut self, block: &Block, other: &[i8], distance: f64, kernels: &Kernels) -> i32 {
        self.dots.clear();
        kernels.dots_i8(other, &block.codes, &mut self.dots);
        let distance = (distance * (1.0 + 1e-6)) as f32;
        let products = self.dots.iter().zip(&block.centroid_dots).zip(&block.allowances);
        self.keys.clear();
        self.keys
            .extend(products.map(|((dot, own), allowance)| key(dot - own, distance, *allowance)));
        self.keys.iter().copied().max().unwrap_or(i32::MIN)
    }

    /// Picks the rows with keys of at least `least`, in buckets of falling keys.
    fn pick(&mut self, largest: i32, least: i32) {
        self.picked.clear();
        if largest < least {
            return;
        }
        let span = largest.abs_diff(least);
        let shift = (span / BUCKETS as u32).checked_ilog2().map_or(0, |log| log + 1);
        let bucket = |key: i32| (largest.abs_diff(key) >> shift) as usize;
        self.ends.clear();
        self.ends.resize(BUCKETS, 0);
        for &key in self.keys.iter().filter(|&&key| key >= least) {
            self.ends[bucket(key)] += 1;
        }
        let mut end = 0;
        for count in &mut self.ends {
            end += std::mem::replace(count, end);
        }
        self.picked.resize(end as usize, 0);
        for (at, &key) in self.keys.iter().enumerate().filter(|(_, key)| **key >= least) {
            let place = &mut self.ends[bucket(key)];
            self.picked[*place as usize] = at as u32;
            *place += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_pair_that_remains_is_on_a_step(
            row_keys in prop::collection::vec(-4_000_i32..4_000, 1..200),
            column_keys in prop::collection::vec(-4_000_i32..4_000, 1..200),
        ) {
            let mut stairs = Staircase::default();
            let largest = |keys: &[i32]| keys.iter().copied().max().unwrap();
            let (row_key, column_key) = (largest(&row_keys), largest(&column_keys));
            stairs.rows.keys = row_keys.clone();
            stairs.columns.keys = column_keys.clone();
            stairs.rows.pick(row_key, -column_key);
            stairs.columns.pick(column_key, -row_key);
            stairs.bound_columns();
            let mut covered = std::collections::BTreeSet::new();
            for (run, columns) in stairs.steps() {
                for &row in &stairs.rows.picked[run] {
                    for &column in &stairs.columns.picked[..columns] {
                        prop_assert!(covered.insert((row, column)), "met twice");
                    }
                }
            }
            for (row, key) in row_keys.iter().enumerate() {
                for (column, other) in column_keys.iter().enumerate() {
                    if key + other >= 0 {
                        prop_assert!(covered.contains(&(row as u32, column as u32)));
                    }
                }
            }
            if row_key + column_key < 0 {
                prop_assert!(stairs.is_empty());
            }
        }
    }
}
