//! Verifies a graph before it is published: every node is reachable and sampled rows find themselves.

use memfold_simd::{Kernels, Similarity};

use super::{GraphView, Searcher};
use crate::sample::smallest;
use crate::{Damaged, Pool, Progress, VectorMatrix};

/// Rows that are looked up before publication.
pub const SAMPLED_LOOKUPS: usize = 10_000;

/// `ef_search` of a lookup, as in searches.
const LOOKUP_WIDTH: usize = 128;

/// Lookups of a task.
const BATCH_LOOKUPS: usize = 256;

/// Results of the verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphReport {
    /// Nodes of the graph.
    pub nodes: usize,
    /// Nodes that its entry reaches.
    pub reachable: usize,
    /// Rows that were looked up.
    pub looked_up: usize,
    /// Rows of which the lookup found them or an equal one.
    pub found: usize,
}

/// Why a graph is not published.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyGraphError {
    /// Some nodes cannot be found by any search.
    #[error("{} of {} nodes cannot be reached", .0.nodes - .0.reachable, .0.nodes)]
    Unreachable(GraphReport),
    /// Some rows do not find themselves.
    #[error("{} of {} rows looked up do not find themselves", .0.looked_up - .0.found, .0.looked_up)]
    Lost(GraphReport),
    /// Graph and vectors do not fit each other.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

/// Checks that every node is reachable, and that `lookups` nodes, chosen by the smallest hashes, find themselves:
/// the nearest row of their vector has a similarity of exactly 1.
///
/// # Errors
/// When that is not so, with the figures; when the vectors have another dimension; when the caller asked to stop.
pub fn check(
    graph: &GraphView<'_>,
    vectors: &VectorMatrix<'_>,
    lookups: usize,
    pool: &Pool,
    kernels: &'static Kernels,
    progress: &dyn Progress,
) -> Result<GraphReport, VerifyGraphError> {
    let nodes = 0..graph.node_count() as u32;
    let hashes: Vec<u64> = nodes.map(|node| graph.codes.lead_hash(node)).collect();
    let sampled: Vec<u32> = smallest(&hashes, lookups).into_iter().map(|at| at as u32).collect();
    let mut report = GraphReport {
        nodes: graph.node_count(),
        reachable: reachable(graph),
        looked_up: sampled.len(),
        found: 0,
    };
    // Each row stands behind one node; where a damaged file says otherwise, lookups would hardly end.
    let rows: usize = sampled.iter().map(|&node| graph.members.rows(node).len()).sum();
    if rows > vectors.len() {
        return Err(VerifyGraphError::Lost(report));
    }
    progress.begin("look up rows", Some(sampled.len() as u64));
    let make = || Ok(Searcher::new(graph, vectors, kernels)?);
    let batch_count = sampled.len().div_ceil(BATCH_LOOKUPS);
    let found = pool.map_reusing(batch_count, make, |searcher, batch| {
        if progress.cancelled() {
            return Err(VerifyGraphError::Cancelled);
        }
        let nodes = sampled[batch * BATCH_LOOKUPS..].iter().take(BATCH_LOOKUPS);
        let found = nodes.filter(|&&node| finds_itself(searcher, graph, vectors, node)).count();
        progress.advance(BATCH_LOOKUPS as u64);
        Ok(found)
    });
    progress.end();
    report.found = found?.iter().sum();
    match report {
        _ if report.reachable < report.nodes => Err(VerifyGraphError::Unreachable(report)),
        _ if report.found < report.looked_up => Err(VerifyGraphError::Lost(report)),
        _ => Ok(report),
    }
}

fn reachable(graph: &GraphView<'_>) -> usize {
    let mut seen = vec![false; graph.node_count()];
    let mut waiting = Vec::new();
    let mut count = 0;
    let mut come_to = |node: u32, waiting: &mut Vec<u32>| {
        if let Some(seen) = seen.get_mut(node as usize).filter(|seen| !**seen) {
            *seen = true;
            count += 1;
            waiting.push(node);
        }
    };
    come_to(graph.entry, &mut waiting);
    while let Some(node) = waiting.pop() {
        graph.base.links.of(node).for_each(|link| come_to(link, &mut waiting));
    }
    count
}

fn finds_itself(
    searcher: &mut Searcher<'_>,
    graph: &GraphView<'_>,
    vectors: &VectorMatrix<'_>,
    node: u32,
) -> bool {
    graph.members.rows(node).all(|(row, repeats)| {
        repeats
            || (row.index() < vectors.len()
                && searcher.k_nearest(vectors.vector(row), 1, LOOKUP_WIDTH).is_ok_and(|found| {
                    found.first().is_some_and(|best| best.similarity == Similarity::ONE)
                }))
    })
}
