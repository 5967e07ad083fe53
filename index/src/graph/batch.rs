//! Many queries at once.

use std::sync::Mutex;

use memfold_simd::{Kernels, Similarity};

use super::view::GraphView;
use super::{BatchError, Searcher};
use crate::{Neighbor, Pool, Row, ScanError, VectorMatrix};

/// Queries of a task.
const BATCH_QUERIES: usize = 64;

/// A graph with its vectors, for many queries on all workers.
#[derive(Debug, Clone, Copy)]
pub struct BatchSearch<'a> {
    /// The graph.
    pub graph: &'a GraphView<'a>,
    /// The vectors that it was built from.
    pub vectors: &'a VectorMatrix<'a>,
    /// The workers.
    pub pool: &'a Pool,
    /// The kernels, normally [`Kernels::active`].
    pub kernels: &'static Kernels,
}

impl BatchSearch<'_> {
    /// Answers [`Searcher::k_nearest`] for every row of `queries`, in their order.
    ///
    /// # Errors
    /// When vectors or queries have another dimension than the graph, or a query has no direction.
    pub fn k_nearest(
        &self,
        queries: &VectorMatrix<'_>,
        k: usize,
        width: usize,
    ) -> Result<Vec<Vec<Neighbor>>, BatchError> {
        self.map(queries, |searcher, query| Ok(searcher.k_nearest(query, k, width)?.to_vec()))
    }

    /// Answers [`Searcher::range`] for every row of `queries`, in their order.
    ///
    /// # Errors
    /// When vectors or queries have another dimension than the graph, or a query has no direction.
    pub fn range(
        &self,
        queries: &VectorMatrix<'_>,
        threshold: Similarity,
        width: usize,
    ) -> Result<Vec<Vec<Neighbor>>, BatchError> {
        self.map(queries, |searcher, query| Ok(searcher.range(query, threshold, width)?.to_vec()))
    }

    fn map<T: Send>(
        &self,
        queries: &VectorMatrix<'_>,
        answer: impl Fn(&mut Searcher<'_>, &[f32]) -> Result<T, ScanError> + Sync + Send,
    ) -> Result<Vec<T>, BatchError> {
        let idle = Mutex::new(Vec::new());
        let take = || idle.lock().ok().and_then(|mut idle| idle.pop());
        let answers = self.pool.map(queries.len().div_ceil(BATCH_QUERIES), |batch| {
            let mut searcher = match take() {
                Some(searcher) => searcher,
                None => Searcher::new(self.graph, self.vectors, self.kernels)?,
            };
            let rows = batch * BATCH_QUERIES..queries.len().min((batch + 1) * BATCH_QUERIES);
            let answers = rows.map(|row| {
                let answered = answer(&mut searcher, queries.vector(Row(row as u32)));
                answered.map_err(|error| BatchError::Query(error.at(row as u32)))
            });
            let answers = answers.collect::<Result<Vec<_>, BatchError>>()?;
            if let Ok(mut idle) = idle.lock() {
                idle.push(searcher);
            }
            Ok::<_, BatchError>(answers)
        });
        let mut all = Vec::with_capacity(queries.len());
        for answers in answers {
            all.extend(answers?);
        }
        Ok(all)
    }
}
