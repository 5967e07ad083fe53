//! Which rows of two cells can be near at all.
//!
//! [`Cells`] partition code space. Two cells have a direction, from one centroid to the other. Near rows lie near each
//! other in this direction too, so with keys as in (5) of [`crate::transform`] only pairs with `key + key ≥ 0` remain.
//! [`SortedProjection`]: with rows and columns sorted by falling keys, each run of rows is compared with a leading part
//! of the columns.

use memfold_simd::Kernels;
use memfold_simd::panel::{PACKED_COLUMNS, RUN_ROWS};

use crate::Pool;
use crate::sample::k_means;

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
pub(super) struct Assignment {
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
        let first = codes[..count * dim].to_vec();
        let nearest = |centroids: &[i8]| {
            Self::new(centroids.to_vec(), dim, kernels).assign(codes, pool, kernels)
        };
        Self::new(k_means(first, dim, ROUNDS, || codes.chunks_exact(dim), nearest), dim, kernels)
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
    pub(super) fn nearest(
        &self,
        codes: &[i8],
        kernels: &Kernels,
        dots: &mut Vec<i32>,
    ) -> Assignment {
        dots.clear();
        if self.len() == 1 {
            dots.push(0);
            return Assignment { cell: 0, dot: 0 };
        }
        kernels.dots_i8(codes, &self.centroids, dots);
        // |c|² − 2⟨c, q⟩ is the squared distance without the common term |q|².
        let distances = dots.iter().zip(&self.squared_norms).map(|(dot, norm)| norm - 2 * dot);
        let mut best = (i32::MAX, 0);
        for (cell, distance) in distances.enumerate() {
            if distance < best.0 {
                best = (distance, cell);
            }
        }
        Assignment { cell: best.1 as u32, dot: dots[best.1] }
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

/// Tells whether rows with these keys towards each other's cells can be near: (5) of [`crate::transform`].
pub(super) const fn may_be_near(key: i32, other: i32) -> bool {
    key.saturating_add(other) >= 0
}

/// Rows of one cell, as pruning reads them.
#[derive(Clone, Copy)]
pub(super) struct CellRows<'a> {
    pub(super) cell: u32,
    /// The codes of all directions, row after row.
    pub(super) codes: &'a [i8],
    /// The products with the cell's centroid.
    pub(super) centroid_dots: &'a [i32],
    /// Not less than each row's allowance.
    pub(super) allowances: &'a [f32],
}

/// The rows of a block in the order of falling keys towards another cell.
///
/// All blocks of that cell share the order.
#[derive(Debug, Default)]
pub(super) struct SortedProjection {
    /// The block and the other cell.
    of: Option<(usize, u32)>,
    /// The rows' places in the block, bucket by bucket.
    pub(super) order: Vec<u32>,
    keys: Vec<i32>,
    dots: Vec<i32>,
    /// The largest key.
    largest: i32,
    /// log₂ of the width of a bucket.
    shift: u32,
    /// Where buckets end in the order.
    ends: Vec<u32>,
    /// The largest key of each group of columns and all behind it.
    group_keys: Vec<i32>,
}

impl SortedProjection {
    /// Sorts the rows of a block towards a cell, unless they are; returns whether the order is new.
    pub(super) fn project(
        &mut self,
        block: usize,
        rows: CellRows<'_>,
        cell: u32,
        cells: &Cells,
        kernels: &Kernels,
    ) -> bool {
        let of = Some((block, cell));
        if self.of == of {
            return false;
        }
        self.of = of;
        if rows.cell == cell {
            // Every pair of one cell remains.
            self.keys.clear();
            self.keys.resize(rows.allowances.len(), 0);
        } else {
            self.measure(rows, cell, cells, kernels);
        }
        self.sort();
        true
    }

    /// Returns how many of the first rows, and of the first columns, remain beside each other.
    pub(super) fn remaining(&self, columns: &Self) -> (usize, usize) {
        match may_be_near(self.largest, columns.largest) {
            true => (self.count_from(-columns.largest), columns.count_from(-self.largest)),
            false => (0, 0),
        }
    }

    /// Appends with how many groups of the first columns each run of the first rows must be compared.
    pub(super) fn count_groups(&self, row_count: usize, columns: &Self, counts: &mut Vec<u32>) {
        counts.extend(self.order[..row_count].chunks(RUN_ROWS).map(|run| {
            let largest = run.iter().map(|&at| self.keys[at as usize]).max().unwrap_or(i32::MIN);
            columns.group_keys.partition_point(|&key| may_be_near(key, largest)) as u32
        }));
    }

    /// Computes the keys of rows towards another cell.
    pub(super) fn measure(
        &mut self,
        rows: CellRows<'_>,
        cell: u32,
        cells: &Cells,
        kernels: &Kernels,
    ) {
        self.dots.clear();
        kernels.dots_i8(cells.centroid(cell), rows.codes, &mut self.dots);
        let distance = (cells.distance(rows.cell, cell, kernels) * (1.0 + 1e-6)) as f32;
        let products = self.dots.iter().zip(rows.centroid_dots).zip(rows.allowances);
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
    use proptest::prelude::*;

    use super::*;
    use crate::testing::pool;

    #[test]
    fn clumps_become_cells() {
        let kernels = Kernels::active();
        let centers = [[90_i8, 0, 0, 0], [-90, 0, 0, 0], [0, 90, 0, 0], [0, 0, -90, 10]];
        let codes: Vec<i8> = (0..4_000_usize)
            .flat_map(|row| centers[row % 4].map(|code| code + (row / 4 % 7) as i8 - 3))
            .collect();
        let cells = Cells::learn(&codes, 4, 4, &pool(2), kernels);
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
        let cells = Cells::learn(&[5; 12], 4, 1, &pool(2), Kernels::active());
        assert_eq!((cells.len(), cells.centroid(0)), (1, &[0_i8; 4][..]));
        let mut dots = Vec::new();
        let found = cells.nearest(&[9; 4], Kernels::active(), &mut dots);
        assert_eq!(found, Assignment { cell: 0, dot: 0 });
    }

    /// The sum of two keys of 1e9 and products of long rows overflowed in the estimate of a plan.
    #[test]
    fn keys_do_not_overflow() {
        let largest = key(127 * 127 * 8_192, 1e9, 1e9);
        assert!(may_be_near(largest, largest));
        assert!(!may_be_near(i32::MIN, -1) && may_be_near(5, -5) && !may_be_near(4, -5));
    }

    proptest! {
        #[test]
        fn every_pair_that_remains_is_on_a_step(
            row_keys in prop::collection::vec(-4_000_i32..4_000, 1..200),
            column_keys in prop::collection::vec(-4_000_i32..4_000, 1..200),
        ) {
            let sorted = |keys: &Vec<i32>| {
                let mut sorted = SortedProjection { keys: keys.clone(), ..SortedProjection::default() };
                sorted.sort();
                sorted
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
