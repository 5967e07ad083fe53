//! [`Cells`]: a partition of code space, so that most rows of two far cells need not be compared.

use memfold_simd::Kernels;

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

    fn new(centroids: Vec<i8>, dim: usize, kernels: &Kernels) -> Self {
        let rows = centroids.chunks_exact(dim);
        let squared_norms = rows.map(|centroid| kernels.dot_i8(centroid, centroid)).collect();
        Self { centroids, squared_norms, dim }
    }

    /// Returns the number of cells.
    pub(super) const fn len(&self) -> usize {
        self.squared_norms.len()
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
