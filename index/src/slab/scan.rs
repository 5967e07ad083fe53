//! [`SlabScan`]: exact k-nearest and range search over a slab.

use std::ops::Range;

use memfold_simd::{Kernels, Similarity};

use super::query::{Rows, Searches};
use super::{DamagedSlab, SlabView};
use crate::{Neighbor, Pool, Row, ScanError, VectorMatrix};

/// Queries that are scanned together: whole tiles of every kernel.
const QUERIES_TOGETHER: usize = 24;

/// Groups of the smallest part into which a slab is cut: shorter ones, of 65,536 rows, are scanned before another
/// thread has woken up. Tests have few rows, and parts too.
const PART_GROUPS_MIN: usize = if cfg!(test) { 4 } else { 2_048 };

/// Answers queries over a slab and the vectors that it was built from, with memory that is used again: after some
/// queries, one allocates nothing.
///
/// Answers are exact: those of [`Scan`](crate::Scan). Cost: 64 multiplications of int8 for each row, and a canonical
/// similarity for each row that passes.
///
/// # Examples
/// ```
/// use memfold_index::slab::{PrefixSlab, SlabScan};
/// use memfold_index::{Pool, Row, VectorMatrix};
/// use memfold_simd::Kernels;
///
/// let (pool, kernels) = (Pool::new(None)?, Kernels::active());
/// let vectors = VectorMatrix::from_slice(&[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], 2)?;
/// let slab = PrefixSlab::build(&vectors, &pool, kernels)?;
/// let mut scan = SlabScan::new(slab.view(), &vectors, kernels)?;
/// let nearest = scan.k_nearest(&[2.0, 1.0], 2)?;
/// assert_eq!([nearest[0].row, nearest[1].row], [Row(2), Row(0)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SlabScan<'a> {
    rows: Rows<'a>,
    searches: Searches,
}

impl<'a> SlabScan<'a> {
    /// Takes a slab and the vectors that it was built from, in constant time.
    ///
    /// # Errors
    /// When they have different numbers of rows or dimensions.
    pub fn new(
        slab: SlabView<'a>,
        vectors: &'a VectorMatrix<'a>,
        kernels: &'static Kernels,
    ) -> Result<Self, DamagedSlab> {
        if (slab.len(), slab.dim()) != (vectors.len(), vectors.dim()) {
            return Err(DamagedSlab::Vectors {
                slab_rows: slab.len(),
                slab_dim: slab.dim(),
                rows: vectors.len(),
                dim: vectors.dim(),
            });
        }
        Ok(Self { rows: Rows { slab, vectors, kernels }, searches: Searches::default() })
    }

    /// Returns the `k` rows most similar to `query`, best first; of rows equally similar the smaller ones. Fewer when
    /// there are fewer rows.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    pub fn k_nearest(&mut self, query: &[f32], k: usize) -> Result<&[Neighbor], ScanError> {
        self.k_nearest_where(query, k, |_| true)
    }

    /// Returns the `k` most similar of the rows that `keep` holds for.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    pub fn k_nearest_where(
        &mut self,
        query: &[f32],
        k: usize,
        keep: impl Fn(Row) -> bool,
    ) -> Result<&[Neighbor], ScanError> {
        self.searches.prepare(&self.rows, &[query], 0)?;
        self.searches.k_nearest(&self.rows, &[query], self.rows.all_groups(), (k, keep));
        Ok(self.searches.found(0))
    }

    /// Returns every row with a similarity of at least `threshold`, best first.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    pub fn range(
        &mut self,
        query: &[f32],
        threshold: Similarity,
    ) -> Result<&[Neighbor], ScanError> {
        self.range_where(query, threshold, |_| true)
    }

    /// Returns those of the rows with a similarity of at least `threshold` that `keep` holds for.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    pub fn range_where(
        &mut self,
        query: &[f32],
        threshold: Similarity,
        keep: impl Fn(Row) -> bool,
    ) -> Result<&[Neighbor], ScanError> {
        self.searches.prepare(&self.rows, &[query], 0)?;
        self.searches.range(&self.rows, &[query], self.rows.all_groups(), (threshold, keep));
        Ok(self.searches.found(0))
    }

    /// Answers [`k_nearest`](Self::k_nearest) for every row of `queries`, in their order, on all threads: several queries
    /// share a pass over the slab, and where there are fewer blocks of 24 than threads, a large slab is cut into parts.
    ///
    /// # Errors
    /// When the queries have another dimension or one has no direction.
    pub fn k_nearest_batch(
        &self,
        queries: &VectorMatrix<'_>,
        k: usize,
        pool: &Pool,
    ) -> Result<Vec<Vec<Neighbor>>, ScanError> {
        let mut found = self.batch(queries, pool, |searches, queries, groups| {
            searches.k_nearest(&self.rows, queries, groups, (k, |_| true));
        })?;
        found.iter_mut().for_each(|found| found.truncate(k));
        Ok(found)
    }

    /// Answers [`range`](Self::range) for every row of `queries` in the same way.
    ///
    /// # Errors
    /// When the queries have another dimension or one has no direction.
    pub fn range_batch(
        &self,
        queries: &VectorMatrix<'_>,
        threshold: Similarity,
        pool: &Pool,
    ) -> Result<Vec<Vec<Neighbor>>, ScanError> {
        self.batch(queries, pool, |searches, queries, groups| {
            searches.range(&self.rows, queries, groups, (threshold, |_| true));
        })
    }

    /// Searches blocks of queries in parts of the slab and joins what the parts found.
    fn batch(
        &self,
        queries: &VectorMatrix<'_>,
        pool: &Pool,
        search: impl Fn(&mut Searches, &[&[f32]], Range<usize>) + Sync + Send,
    ) -> Result<Vec<Vec<Neighbor>>, ScanError> {
        let block_count = queries.len().div_ceil(QUERIES_TOGETHER);
        let group_count = self.rows.all_groups().len();
        let part_count =
            pool.threads().div_ceil(block_count.max(1)).min(group_count / PART_GROUPS_MIN).max(1);
        let part_groups = group_count.div_ceil(part_count);
        let found = pool.map(block_count * part_count, |task| {
            let (block, part) = (task / part_count, task % part_count);
            let first = block * QUERIES_TOGETHER;
            let end = queries.len().min(first + QUERIES_TOGETHER);
            // A matrix has fewer than 2³² rows.
            let block: Vec<&[f32]> =
                (first as u32..end as u32).map(|at| queries.vector(Row(at))).collect();
            let mut searches = Searches::default();
            searches.prepare(&self.rows, &block, first as u32)?;
            let groups = part * part_groups..group_count.min((part + 1) * part_groups);
            search(&mut searches, &block, groups);
            Ok(searches.into_found(block.len()).collect::<Vec<_>>())
        });
        let mut joined: Vec<Vec<Neighbor>> = Vec::with_capacity(queries.len());
        for (task, found) in found.into_iter().enumerate() {
            let found = found?;
            if task % part_count == 0 {
                joined.extend(found);
                continue;
            }
            let start = joined.len() - found.len();
            joined[start..].iter_mut().zip(found).for_each(|(joined, found)| joined.extend(found));
        }
        if part_count > 1 {
            joined.iter_mut().for_each(|found| found.sort_unstable());
        }
        Ok(joined)
    }
}
