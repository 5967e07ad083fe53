//! [`Tier`]: the flat index or graph that is asked.

use memfold_index::graph::{DamagedGraph, Searcher};
use memfold_index::index_file::IndexView;
use memfold_index::{DamagedFlatIndex, FlatScan, Nearest, Neighbor, ScanError, VectorMatrix};
use memfold_simd::{Kernels, Similarity};

/// `ef_search` of a lookup in the graph: at least this, and wider where more is asked for.
const EF_SEARCH: usize = 128;

/// What answers lookups.
pub(super) enum Tier<'a> {
    Scan(FlatScan<'a>),
    Graph(Searcher<'a>),
}

impl<'a> Tier<'a> {
    /// Takes the graph where there is one.
    pub(super) fn new<E: From<DamagedFlatIndex> + From<DamagedGraph>>(
        tiers: &'a IndexView<'a>,
        matrix: &'a VectorMatrix<'a>,
        kernels: &'static Kernels,
    ) -> Result<Self, E> {
        Ok(match &tiers.graph {
            Some(graph) => Self::Graph(Searcher::new(graph, matrix, kernels)?),
            None => Self::Scan(FlatScan::new(tiers.flat, matrix, kernels)?),
        })
    }
}

impl Nearest for Tier<'_> {
    fn k_nearest(&mut self, query: &[f32], k: usize) -> Result<Vec<Neighbor>, ScanError> {
        let found = match self {
            Self::Scan(scan) => scan.k_nearest(query, k)?,
            Self::Graph(graph) => graph.k_nearest(query, k, EF_SEARCH.max(k.saturating_mul(2)))?,
        };
        Ok(found.to_vec())
    }

    fn range(&mut self, query: &[f32], threshold: Similarity) -> Result<Vec<Neighbor>, ScanError> {
        let found = match self {
            Self::Scan(scan) => scan.range(query, threshold)?,
            Self::Graph(graph) => graph.range(query, threshold, EF_SEARCH)?,
        };
        Ok(found.to_vec())
    }
}
