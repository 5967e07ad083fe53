//! [`Codes`]: vectors rounded to int8, whose similarities are exact integers on every machine.

use std::ops::Range;

use memfold_index::Pool;
use memfold_simd::Kernels;

use super::linear::{dot, normalize};
use super::strides::positions;

/// The largest code.
const CODE_MAX: f64 = 127.0;
/// Rows that are compared with a tile of others while it is in the cache: reading each tile once for all of them
/// is what takes the time.
const BATCH_QUERIES: usize = 16;
/// Codes of a tile: an eighth of a small second-level cache.
const TILE_CODES: usize = 32 << 10;

/// Unit vectors in steps of one size.
///
/// The similarity of two rows is off by about 0.001 at random, more below 64 dimensions.
#[derive(Debug)]
pub(crate) struct Codes {
    codes: Vec<i8>,
    dim: usize,
    /// What the product of two codes counts.
    unit: f64,
}

impl Codes {
    /// Rounds the directions of `values`, whole rows of `dim` components.
    pub(crate) fn of(values: &[f32], dim: usize, pool: &Pool) -> Self {
        const BATCH_ROWS: usize = 1024;
        let batches: Vec<&[f32]> = values.chunks(BATCH_ROWS * dim).collect();
        let largest = |values: &[f32]| {
            directions(values, dim).flatten().fold(0.0_f64, |most, value| most.max(value.abs()))
        };
        let largest = pool.map(batches.len(), |batch| largest(batches[batch]));
        let step = largest.into_iter().fold(f64::MIN_POSITIVE, f64::max) / CODE_MAX;
        let codes = pool.map(batches.len(), |batch| {
            let values = directions(batches[batch], dim).flatten();
            values.map(|value| (value / step).round_ties_even() as i8).collect::<Vec<i8>>()
        });
        Self { codes: codes.concat(), dim, unit: step * step }
    }

    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.codes.len() / self.dim
    }

    /// Returns, for up to `queries_max` evenly strided rows, the mean similarity to their neighbours of each range
    /// of ranks; rank 0 is the nearest other row. A range beyond the last neighbour takes the last one.
    pub(crate) fn neighbors(
        &self,
        queries_max: usize,
        ranks: &[Range<usize>],
        pool: &Pool,
        kernels: &Kernels,
    ) -> Vec<Vec<f64>> {
        let deepest = ranks.iter().map(|range| range.end).max().unwrap_or(0).min(self.len() - 1);
        self.each_query(queries_max, pool, kernels, |query, mut dots| {
            dots.swap_remove(query);
            if deepest < dots.len() {
                dots.select_nth_unstable_by(deepest, |a, b| b.cmp(a));
            }
            let nearest = &mut dots[..deepest];
            nearest.sort_unstable_by(|a, b| b.cmp(a));
            ranks.iter().map(|range| self.mean(nearest, range)).collect()
        })
    }

    /// Returns the similarities of up to `queries_max` evenly strided rows to `others` strided others, ascending.
    pub(crate) fn strangers(
        &self,
        queries_max: usize,
        others: usize,
        pool: &Pool,
        kernels: &Kernels,
    ) -> Vec<f64> {
        let found = self.each_query(queries_max, pool, kernels, |query, dots| {
            let others = positions(self.len(), others).filter(|&other| other != query);
            others.map(|other| f64::from(dots[other]) * self.unit).collect::<Vec<f64>>()
        });
        let mut found = found.concat();
        found.sort_unstable_by(f64::total_cmp);
        found
    }

    /// Calls `look` with up to `queries_max` evenly strided rows and the products of each with all rows; returns what
    /// it finds, in row order.
    fn each_query<T: Send>(
        &self,
        queries_max: usize,
        pool: &Pool,
        kernels: &Kernels,
        look: impl Fn(usize, Vec<i32>) -> T + Sync + Send,
    ) -> Vec<T> {
        let queries: Vec<usize> = positions(self.len(), queries_max).collect();
        let batches: Vec<&[usize]> = queries.chunks(BATCH_QUERIES).collect();
        let found = pool.map(batches.len(), |batch| {
            let queries = batches[batch];
            let dots = self.dots(queries, kernels);
            queries.iter().zip(dots).map(|(&query, dots)| look(query, dots)).collect::<Vec<T>>()
        });
        found.into_iter().flatten().collect()
    }

    fn dots(&self, queries: &[usize], kernels: &Kernels) -> Vec<Vec<i32>> {
        let mut dots: Vec<Vec<i32>> =
            queries.iter().map(|_| Vec::with_capacity(self.len())).collect();
        let tile_rows = (TILE_CODES / self.dim).max(1);
        for tile in self.codes.chunks(tile_rows * self.dim) {
            for (&query, dots) in queries.iter().zip(&mut dots) {
                kernels.dots_i8(&self.codes[query * self.dim..][..self.dim], tile, dots);
            }
        }
        dots
    }

    fn mean(&self, nearest: &[i32], range: &Range<usize>) -> f64 {
        let end = range.end.min(nearest.len());
        let picked = &nearest[range.start.min(end.saturating_sub(1))..end];
        let sum: i64 = picked.iter().map(|&dot| i64::from(dot)).sum();
        sum as f64 / picked.len().max(1) as f64 * self.unit
    }
}

fn directions(values: &[f32], dim: usize) -> impl Iterator<Item = Vec<f64>> {
    values.chunks_exact(dim).map(|row| {
        let mut direction: Vec<f64> = row.iter().map(|&value| value.into()).collect();
        debug_assert!(dot(&direction, &direction) > 0.0, "a row without a direction");
        normalize(&mut direction);
        direction
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbors_come_by_rank() {
        // Angles of 0°, 36.9° and 90°, each at another length.
        let codes = Codes::of(&[1.0, 0.0, 1.6, 1.2, 0.0, 3.0], 2, &Pool::new(None).unwrap());
        let pool = Pool::new(None).unwrap();
        let found = codes.neighbors(2, &[0..1, 1..2, 0..2, 5..9], &pool, Kernels::active());
        for (found, expected) in found[0].iter().zip([0.8, 0.0, 0.4, 0.0]) {
            assert!((found - expected).abs() < 0.01, "{found} for {expected}");
        }
        assert_eq!(found.len(), 2);
        let strangers = codes.strangers(3, 3, &pool, Kernels::active());
        assert_eq!(strangers.len(), 6);
        assert!((strangers[5] - 0.8).abs() < 0.01, "{strangers:?}");
    }
}
