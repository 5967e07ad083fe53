//! [`Neighbor`], its total order, the bounded list of the best, and [`Nearest`]: every index that answers single queries.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use memfold_simd::Similarity;

use crate::flat::FlatScan;
use crate::graph::Searcher;
use crate::{Row, Scan, VectorError};

/// A row and how similar it is; ordered best first: by similarity descending, then row ascending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbor {
    /// The row found.
    pub row: Row,
    /// Its canonical similarity to the query.
    pub similarity: Similarity,
}

impl Ord for Neighbor {
    fn cmp(&self, other: &Self) -> Ordering {
        other.similarity.cmp(&self.similarity).then(self.row.cmp(&other.row))
    }
}

impl PartialOrd for Neighbor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Keeps the best `limit` of the neighbours offered to it, in any order of offering.
#[derive(Debug, Clone, Default)]
pub(crate) struct BestNeighbors {
    /// The worst kept one is on top.
    kept: BinaryHeap<Neighbor>,
    limit: usize,
}

impl BestNeighbors {
    /// Makes an empty list of at most `limit` neighbours.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { kept: BinaryHeap::new(), limit }
    }

    /// Keeps `neighbor` if it is among the best so far.
    pub(crate) fn offer(&mut self, neighbor: Neighbor) {
        if self.kept.len() < self.limit {
            self.kept.push(neighbor);
        } else if let Some(mut worst) = self.kept.peek_mut()
            && neighbor < *worst
        {
            *worst = neighbor;
        }
    }

    /// Returns the similarity below which no further neighbour is kept; `None` while there is room for any.
    pub(crate) fn similarity_min(&self) -> Option<Similarity> {
        let is_full = self.kept.len() >= self.limit;
        self.kept.peek().filter(|_| is_full).map(|worst| worst.similarity)
    }

    /// Empties the list and sets how many neighbours it keeps; its memory stays.
    pub(crate) fn reset(&mut self, limit: usize) {
        self.kept.clear();
        self.limit = limit;
    }

    /// Empties the list and appends the kept neighbours, in no particular order; its memory stays.
    pub(crate) fn drain_into(&mut self, found: &mut Vec<Neighbor>) {
        found.extend(self.kept.drain());
    }

    /// Returns the kept neighbours, best first.
    pub(crate) fn into_sorted(self) -> Vec<Neighbor> {
        self.kept.into_sorted_vec()
    }
}

/// Answers queries one by one; neighbours come best first, with canonical similarities, and of rows equally similar
/// the smaller ones come first.
///
/// [`Scan`] and [`FlatScan`] find every row they should; other indexes document their recall.
pub trait Nearest {
    /// Returns the `k` rows most similar to `query`.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    fn k_nearest(&mut self, query: &[f32], k: usize) -> Result<Vec<Neighbor>, VectorError>;

    /// Returns the rows with a similarity of at least `threshold`.
    ///
    /// # Errors
    /// When the query has another dimension or no direction.
    fn range(&mut self, query: &[f32], threshold: Similarity)
    -> Result<Vec<Neighbor>, VectorError>;
}

/// A graph's searcher with one `ef_search` for all queries.
#[derive(Debug)]
pub struct GraphSearcher<'a> {
    /// Who searches.
    pub searcher: Searcher<'a>,
    /// A larger value finds more and takes longer, about in proportion.
    pub ef_search: usize,
}

impl Nearest for GraphSearcher<'_> {
    fn k_nearest(&mut self, query: &[f32], k: usize) -> Result<Vec<Neighbor>, VectorError> {
        self.searcher.k_nearest(query, k, self.ef_search).map(<[_]>::to_vec)
    }

    fn range(
        &mut self,
        query: &[f32],
        threshold: Similarity,
    ) -> Result<Vec<Neighbor>, VectorError> {
        self.searcher.range(query, threshold, self.ef_search).map(<[_]>::to_vec)
    }
}

/// Borrowed, so that threads can share one.
impl Nearest for &Scan<'_> {
    fn k_nearest(&mut self, query: &[f32], k: usize) -> Result<Vec<Neighbor>, VectorError> {
        Scan::k_nearest(self, query, k)
    }

    fn range(
        &mut self,
        query: &[f32],
        threshold: Similarity,
    ) -> Result<Vec<Neighbor>, VectorError> {
        Scan::range(self, query, threshold)
    }
}

impl Nearest for FlatScan<'_> {
    fn k_nearest(&mut self, query: &[f32], k: usize) -> Result<Vec<Neighbor>, VectorError> {
        FlatScan::k_nearest(self, query, k).map(<[_]>::to_vec)
    }

    fn range(
        &mut self,
        query: &[f32],
        threshold: Similarity,
    ) -> Result<Vec<Neighbor>, VectorError> {
        FlatScan::range(self, query, threshold).map(<[_]>::to_vec)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn neighbor(row: u32, cosine: f64) -> Neighbor {
        Neighbor { row: Row(row), similarity: Similarity::clamped(cosine).unwrap() }
    }

    #[test]
    fn ties_are_broken_by_row() {
        let mut found = vec![neighbor(2, 0.5), neighbor(1, 0.5), neighbor(3, 0.9)];
        found.sort();
        assert_eq!(found, [neighbor(3, 0.9), neighbor(1, 0.5), neighbor(2, 0.5)]);
    }

    proptest! {
        #[test]
        fn the_best_are_kept_as_by_sorting(
            steps in prop::collection::vec(-4_i32..=4, 0..40), limit in 0_usize..12,
        ) {
            let all: Vec<_> =
                (0..).zip(&steps).map(|(row, step)| neighbor(row, f64::from(*step) / 4.0)).collect();
            let mut best = BestNeighbors::new(limit);
            all.iter().rev().for_each(|&found| best.offer(found));
            let mut expected = all;
            expected.sort();
            expected.truncate(limit);
            let worst = expected.last().filter(|_| expected.len() == limit);
            prop_assert_eq!(best.similarity_min(), worst.map(|worst| worst.similarity));
            prop_assert_eq!(best.into_sorted(), expected);
        }
    }
}
