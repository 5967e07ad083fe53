//! [`Nearest`]: what every index that answers single queries has in common.

use memfold_simd::Similarity;

use crate::flat::FlatScan;
use crate::graph::Searcher;
use crate::{Neighbor, Scan, VectorError};

/// Answers queries one by one; neighbours come best first, with canonical similarities, and of rows equally similar
/// the smaller ones come first.
///
/// [`Scan`] and [`FlatScan`] find every row they should; others say what they miss.
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
    use memfold_simd::Kernels;

    use super::*;
    use crate::graph::{Graph, GraphOptions};
    use crate::join::tests::{Shape, rows};
    use crate::{FlatIndex, NoProgress, Pool, Row, VectorMatrix};

    #[test]
    fn all_kinds_answer_alike() {
        let values = rows(Shape::Random, 5_000, 16, 21);
        let vectors = VectorMatrix::from_slice(&values, 16).unwrap();
        let (pool, kernels) = (Pool::new(None).unwrap(), Kernels::active());
        let graph =
            Graph::build(&vectors, GraphOptions::default(), &pool, kernels, &NoProgress).unwrap();
        let view = graph.view();
        let searcher = Searcher::new(&view, &vectors, kernels).unwrap();
        let flat = FlatIndex::build(&vectors, &pool, kernels).unwrap();
        let scan = Scan::new(&vectors, &pool, kernels).unwrap();
        let mut all: [Box<dyn Nearest>; 3] = [
            Box::new(&scan),
            Box::new(FlatScan::new(flat.view(), &vectors, kernels).unwrap()),
            Box::new(GraphSearcher { searcher, ef_search: 256 }),
        ];
        let threshold = Similarity::new(0.8).unwrap();
        let (mut hits, mut count) = (0, 0);
        for row in (0..5_000).step_by(250).map(Row) {
            let query = vectors.vector(row);
            let nearest = all.each_mut().map(|one| one.k_nearest(query, 3).unwrap());
            let within = all.each_mut().map(|one| one.range(query, threshold).unwrap());
            assert_eq!((nearest[0].len(), nearest[0][0].row), (3, row));
            for [plain, flat, graph] in [nearest, within] {
                assert_eq!(plain, flat);
                hits += plain.iter().filter(|one| graph.contains(one)).count();
                count += plain.len();
            }
        }
        assert!(hits * 100 >= count * 98, "{hits} of {count}");
    }
}
