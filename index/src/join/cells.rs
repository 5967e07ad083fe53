//! [`Cells`]: a partition of code space, so that most rows of two far cells need not be compared.
//!
//! [`Side`]: which rows of two cells can be near at all.
//!
//! Two cells have a direction, from one centroid to the other. Near rows lie near each other in this
//! direction too, so with keys as in (5) of [`crate::transform`] only pairs with `key + key ≥ 0` remain. Rows
//! and columns sorted by falling keys make them a staircase: each run of rows meets a first part of the
//! columns.

use memfold_simd::Kernels;
use memfold_simd::panel::{PACKED_COLUMNS, RUN_ROWS};

use super::blocks::Block;
use crate::Pool;

/// Rounds of Lloyd's algorithm; cells that are not quite settled separate nearly as well.
const ROUNDS: usize = 5;

/// Rows of a task.
const BATCH_ROWS: usize = 512;

/// Centroids in code space; every row belongs to the nearest one.
///
/// All arithmetic is of integers: equal codes have equal cells on every machine.
#[derive(Debug)]
pub(super) struct Cells {
    /// `dim` codes for each centroid.
    centroids: Vec<i8>,
    squared_norms: Vec<i32>,
    dim: usize,
}

/// The cell of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Assigned {
    pub(super) cell: u32,
    /// The product of the row's codes and the centroid's.
    pub(super) dot: i32,
}

impl Cells {
    /// Learns up to `count` cells from rows of `dim` codes, in an order that is as good as random.
    ///
    /// Costs `ROUNDS · rows · count · dim` multiplications of bytes.
    pub(super) fn learn(
        codes: &[i8],
        dim: usize,
        count: usize,
        pool: &Pool,
        kernels: &Kernels,
    ) -> Self {
        let count = count.min(codes.len() / dim);
        if count < 2 {
            return Self::one(dim);
        }
        let mut cells = Self::new(codes[..count * dim].to_vec(), dim, kernels);
        for _ in 0..ROUNDS {
            let assigned = cells.assign(codes, pool, kernels);
            cells = Self::new(cells.means(codes, &assigned), dim, kernels);
        }
        cells
    }

    /// One cell, which is no partition: its centroid is zero.
    pub(super) fn one(dim: usize) -> Self {
        Self { centroids: vec![0; dim], squared_norms: vec![0], dim }
    }

    /// Takes centroids of `dim` codes each, at least one.
    pub(super) fn new(centroids: Vec<i8>, dim: usize, kernels: &Kernels) -> Self {
        let rows = centroids.chunks_exact(dim);
        let squared_norms = rows.map(|centroid| kernels.dot_i8(centroid, centroid)).collect();
        Self { centroids, squared_norms, dim }
    }

    /// Returns the number of cells.
    pub(super) const fn len(&self) -> usize {
        self.squared_norms.len()
    }

    /// Returns the codes of all centroids.
    pub(super) fn centroids(&self) -> &[i8] {
        &self.centroids
    }

    /// Returns a cell's centroid.
    pub(super) fn centroid(&self, cell: u32) -> &[i8] {
        let start = cell as usize * self.dim;
        &self.centroids[start..start + self.dim]
    }

    /// Returns the distance of two centroids, in steps of the codes.
    pub(super) fn distance(&self, a: u32, b: u32, kernels: &Kernels) -> f64 {
        let dot = kernels.dot_i8(self.centroid(a), self.centroid(b));
        let norms = self.squared_norms[a as usize] + self.squared_norms[b as usize];
        f64::from(norms - 2 * dot).sqrt()
    }

    /// Finds the nearest cell of a row, the first of several; `dots` receives the products with all
    /// centroids.
    pub(super) fn nearest(&self, codes: &[i8], kernels: &Kernels, dots: &mut Vec<i32>) -> Assigned {
        dots.clear();
        if self.len() == 1 {
            dots.push(0);
            return Assigned { cell: 0, dot: 0 };
        }
        kernels.dots_i8(codes, &self.centroids, dots);
        // |c|² − 2⟨c, q⟩ is the squared distance without what all cells share.
        let distances = dots.iter().zip(&self.squared_norms).map(|(dot, norm)| norm - 2 * dot);
        let mut best = (i32::MAX, 0);
        for (cell, distance) in distances.enumerate() {
            if distance < best.0 {
                best = (distance, cell);
            }
        }
        Assigned { cell: best.1 as u32, dot: dots[best.1] }
    }

    fn assign(&self, codes: &[i8], pool: &Pool, kernels: &Kernels) -> Vec<u32> {
        let row_count = codes.len() / self.dim;
        let batches = pool.map(row_count.div_ceil(BATCH_ROWS), |batch| {
            let rows = codes.chunks_exact(self.dim).skip(batch * BATCH_ROWS).take(BATCH_ROWS);
            let mut dots = Vec::new();
            rows.map(|codes| self.nearest(codes, kernels, &mut dots).cell).collect::<Vec<_>>()
        });
        batches.concat()
    }

    /// Returns the rounded means of the rows of each cell; a cell without rows keeps its centroid.
    fn means(&self, codes: &[i8], assigned: &[u32]) -> Vec<i8> {
        let mut sums = vec![0_i32; self.centroids.len()];
        let mut counts = vec![0_i32; self.len()];
        for (codes, &cell) in codes.chunks_exact(self.dim).zip(assigned) {
            let start = cell as usize * self.dim;
            counts[cell as usize] += 1;
            for (sum, &code) in sums[start..start + self.dim].iter_mut().zip(codes) {
                *sum += i32::from(code);
            }
        }
        let rounded =
            |sum: i32, count: i32| (2 * sum + count).div_euclid(2 * count).clamp(-127, 127) as i8;
        let cells = sums.chunks_exact(self.dim).zip(self.centroids.chunks_exact(self.dim));
        let means = cells.zip(counts).flat_map(|((sums, centroid), count)| {
            sums.iter().zip(centroid).map(move |(&sum, &code)| match count {
                0 => code,
                _ => rounded(sum, count),
            })
        });
        means.collect()
    }
}

/// Buckets by which keys are sorted.
const BUCKETS: usize = 1_024;

/// A key that lets every pair pass and does not overflow.
pub(super) const KEY_MAX: f32 = 1e9;

/// Returns the key of a row: its place in the direction towards another cell, and its allowance.
pub(super) fn key(towards: i32, distance: f32, allowance: f32) -> i32 {
    // Two more than the product, which is rounded, and cut off by the cast.
    towards + (distance * allowance).min(KEY_MAX) as i32 + 2
}

/// The rows of a block in the order of falling keys towards a cell.
///
/// Blocks of one cell see the same order, so it is found once for all of them.
#[derive(Debug, Default)]
pub(super) struct Side {
    /// The block and the cell.
    of: Option<(usize, u32)>,
    /// The rows' places in the block, bucket by bucket.
    pub(super) order: Vec<u32>,
    keys: Vec<i32>,
    dots: Vec<i32>,
    /// The largest key.
    largest: i32,
    /// How much larger than a bucket's number a key's distance from the largest is, in bits.
    shift: u32,
    /// Where buckets end in the order.
    ends: Vec<u32>,
    /// The largest key of each group of columns and those behind it.
    group_keys: Vec<i32>,
}

impl Side {
    /// Turns a block towards a cell; returns whether it was not turned so before.
    pub(super) fn face(
        &mut self,
        number: usize,
        block: &Block,
        cell: u32,
        cells: &Cells,
        kernels: &Kernels,
    ) -> bool {
        let of = Some((number, cell));
        if self.of == of {
            return false;
        }
        self.of = of;
        if block.cell == cell {
            // Every pair of one cell remains.
            self.keys.clear();
            self.keys.resize(block.len(), 0);
        } else {
            let distance = cells.distance(block.cell, cell, kernels);
            self.measure(block, cells.centroid(cell), distance, kernels);
        }
        self.sort();
        true
    }

    /// Returns how many of the first rows, and of the first columns, remain beside each other.
    pub(super) fn remaining(&self, columns: &Self) -> (usize, usize) {
        match self.largest.saturating_add(columns.largest) {
            ..0 => (0, 0),
            _ => (self.count_from(-columns.largest), columns.count_from(-self.largest)),
        }
    }

    /// Appends with how many groups of the first columns each run of the first rows must be compared.
    pub(super) fn count_groups(&self, row_count: usize, columns: &Self, counts: &mut Vec<u32>) {
        counts.extend(self.order[..row_count].chunks(RUN_ROWS).map(|run| {
            let largest = run.iter().map(|&at| self.keys[at as usize]).max().unwrap_or(i32::MIN);
            columns.group_keys.partition_point(|key| key.saturating_add(largest) >= 0) as u32
        }));
    }

    /// Computes the keys of a block's rows towards another cell.
    pub(super) fn measure(
        &mut self,
        block: &Block,
        other: &[i8],
        distance: f64,
        kernels: &Kernels,
    ) {
        self.dots.clear();
        kernels.dots_i8(other, &block.codes, &mut self.dots);
        let distance = (distance * (1.0 + 1e-6)) as f32;
        let products = self.dots.iter().zip(&block.centroid_dots).zip(&block.allowances);
        self.keys.clear();
        self.keys
            .extend(products.map(|((dot, own), allowance)| key(dot - own, distance, *allowance)));
    }

    /// Returns the largest key.
    pub(super) fn largest_key(&self) -> i32 {
        self.keys.iter().copied().max().unwrap_or(i32::MIN)
    }

    /// Puts rows into buckets of falling keys.
    fn sort(&mut self) {
        self.largest = self.largest_key();
        let least = self.keys.iter().copied().min().unwrap_or(i32::MIN);
        let span = self.largest.abs_diff(least);
        self.shift = (span / BUCKETS as u32).checked_ilog2().map_or(0, |log| log + 1);
        let bucket = |key: i32| (self.largest.abs_diff(key) >> self.shift) as usize;
        self.ends.clear();
        self.ends.resize(BUCKETS, 0);
        for &key in &self.keys {
            self.ends[bucket(key)] += 1;
        }
        let mut end = 0;
        for count in &mut self.ends {
            end += std::mem::replace(count, end);
        }
        self.order.clear();
        self.order.resize(self.keys.len(), 0);
        for (at, &key) in (0..).zip(&self.keys) {
            let place = &mut self.ends[bucket(key)];
            self.order[*place as usize] = at;
            *place += 1;
        }
        self.group_keys.clear();
        let groups = self.order.chunks(PACKED_COLUMNS);
        let largest = |group: &[u32]| group.iter().map(|&at| self.keys[at as usize]).max();
        self.group_keys.extend(groups.filter_map(largest));
        for at in (1..self.group_keys.len()).rev() {
            self.group_keys[at - 1] = self.group_keys[at - 1].max(self.group_keys[at]);
        }
    }

    /// Returns how many of the first rows hold all with keys of at least `least`, which is not above the largest.
    fn count_from(&self, least: i32) -> usize {
        let bucket = (self.largest.abs_diff(least) >> self.shift) as usize;
        self.ends.get(bucket).map_or(self.order.len(), |&end| end as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clumps_become_cells() {
        let kernels = Kernels::active();
        let centers = [[90_i8, 0, 0, 0], [-90, 0, 0, 0], [0, 90, 0, 0], [0, 0, -90, 10]];
        let codes: Vec<i8> = (0..4_000_usize)
            .flat_map(|row| centers[row % 4].map(|code| code + (row / 4 % 7) as i8 - 3))
            .collect();
        let cells = Cells::learn(&codes, 4, 4, &Pool::new(None).unwrap(), kernels);
        assert_eq!(cells.len(), 4);
        let mut dots = Vec::new();
        let assigned: Vec<_> =
            centers.iter().map(|code| cells.nearest(code, kernels, &mut dots)).collect();
        for (at, one) in assigned.iter().enumerate() {
            assert_eq!(one.cell as usize, at);
            assert_eq!(one.dot, kernels.dot_i8(&centers[at], cells.centroid(one.cell)));
            assert!((cells.distance(one.cell, assigned[0].cell, kernels) > 100.0) == (at > 0));
        }
    }

    #[test]
    fn one_cell_is_no_partition() {
        let cells = Cells::learn(&[5; 12], 4, 1, &Pool::new(None).unwrap(), Kernels::active());
        assert_eq!((cells.len(), cells.centroid(0)), (1, &[0_i8; 4][..]));
        let mut dots = Vec::new();
        let found = cells.nearest(&[9; 4], Kernels::active(), &mut dots);
        assert_eq!(found, Assigned { cell: 0, dot: 0 });
    }
}

#[cfg(test)]
mod staircase_tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_pair_that_remains_is_on_a_step(
            row_keys in prop::collection::vec(-4_000_i32..4_000, 1..200),
            column_keys in prop::collection::vec(-4_000_i32..4_000, 1..200),
        ) {
            let sorted = |keys: &Vec<i32>| {
                let mut side = Side { keys: keys.clone(), ..Side::default() };
                side.sort();
                side
            };
            let (rows, columns) = (sorted(&row_keys), sorted(&column_keys));
            let mut covered = std::collections::BTreeSet::new();
            let (row_count, column_count) = rows.remaining(&columns);
            let mut counts = Vec::new();
            rows.count_groups(row_count, &columns, &mut counts);
            for (run, count) in rows.order[..row_count].chunks(RUN_ROWS).zip(&counts) {
                for &row in run {
                    for &column in columns.order.iter().take(PACKED_COLUMNS * *count as usize) {
                        prop_assert!(covered.insert((row, column)), "met twice");
                    }
                }
                prop_assert!(*count as usize <= column_count.div_ceil(PACKED_COLUMNS));
            }
            for (row, key) in row_keys.iter().enumerate() {
                for (column, other) in column_keys.iter().enumerate() {
                    if key + other >= 0 {
                        prop_assert!(covered.contains(&(row as u32, column as u32)));
                    }
                }
            }
            if rows.largest + columns.largest < 0 {
                prop_assert!(counts.is_empty());
            }
        }
    }
}
