//! The join by a graph: each distinct row asks an index for the rows near it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use memfold_simd::Similarity;

use super::blocks::SAMPLED_ROWS;
use super::cascade::Sample;
use super::cascade::Verdict;
use super::recall::PairAudit;
use super::stream::Budget;
use super::stream::PairRecord;
use super::stream::scratch_error;
use super::{JoinCounters, JoinError, JoinOptions, Pair, PairStream};
use crate::distinct::DistinctRows;
use crate::graph::{Graph, GraphOptions, Searcher};
use crate::{Neighbor, Row, Sorted, Spool, VectorMatrix};

/// Rows of a task, and tasks whose results are held apart before they are put together.
const TASK_ROWS: usize = 64;
const WAVE_TASKS: usize = 1_024;

/// Pairs that are kept in memory when there is a folder for more: 64 MiB.
const PAIRS_IN_MEMORY: usize = 1 << 22;

/// The index that rows ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinIndex {
    /// The graph of [`crate::graph`].
    Memfold(GraphOptions),
    /// The crate `hnsw_rs` with its defaults; see `crate::hnsw_rs`. Built on one thread.
    HnswRs,
}

/// How a join by a graph goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphJoin {
    /// The index.
    pub index: JoinIndex,
    /// Nodes that a search keeps while it comes near (efSearch); from there, all within the range are followed.
    pub ef_search: usize,
    /// Distinct rows whose pairs are looked for exactly, to measure recall; all of them where there are no more.
    pub audited_rows: usize,
}

impl Default for GraphJoin {
    fn default() -> Self {
        Self {
            index: JoinIndex::Memfold(GraphOptions::default()),
            ef_search: 64,
            audited_rows: 8_192,
        }
    }
}

/// Finds nearly every pair of rows whose canonical similarity is at least `threshold`, and measures how many.
///
/// Pairs are as [`join_pairs`](super::join_pairs) gives them, in the same order and with the same similarities; some may be missing.
/// How many is what [`PairStream::measured_recall`] estimates from an exact audit of sampled rows in the same run. Pairs of
/// bit-equal rows are never missing.
///
/// # Errors
/// On an invalid vector, when the index cannot be built, when the pair budget is exceeded, or when cancelled.
///
/// # Examples
/// ```
/// use memfold_index::join::{GraphJoin, join_pairs_by_graph};
/// use memfold_index::{JoinOptions, Pool, VectorMatrix};
/// use memfold_simd::Similarity;
///
/// let values = [1.0, 0.0, 0.0, 1.0, 0.9, 0.1, 1.0, 0.0];
/// let matrix = VectorMatrix::from_slice(&values, 2)?;
/// let pool = Pool::new(None)?;
/// let options = JoinOptions::new(&pool);
/// let threshold = Similarity::new(0.95).ok_or("not a cosine")?;
/// let joined = join_pairs_by_graph(&matrix, threshold, &options, &GraphJoin::default())?;
/// assert_eq!(joined.pair_count(), 1);
/// let recall = joined.measured_recall(threshold).ok_or("not audited")?;
/// assert_eq!((recall.value, recall.low), (1.0, 1.0)); // every row was audited
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn join_pairs_by_graph(
    matrix: &VectorMatrix<'_>,
    threshold: Similarity,
    options: &JoinOptions<'_>,
    by: &GraphJoin,
) -> Result<PairStream, JoinError> {
    let JoinOptions { kernels, pool, progress, .. } = *options;
    let distinct = DistinctRows::of(matrix, kernels, pool, progress)?;
    let verdict = Verdict { matrix, distinct: &distinct, kernels, threshold };
    let sample = Sample::draw(&verdict, SAMPLED_ROWS);
    let budget = Budget { verdict, sample: &sample, options };
    budget.check_sample()?;
    let mut counters =
        JoinCounters { pairs_total: budget.pairs_total(), ..JoinCounters::default() };
    let pairs = once(&found(by, budget)?, &mut counters, budget)?;
    let audit = PairAudit::of(&verdict, &pairs, by.audited_rows, options)?;
    let distinct_rows = distinct.len() as u64;
    Ok(PairStream::new(pairs, distinct.groups, distinct_rows, counters, Some(audit)))
}

/// Returns the pairs that each distinct row finds, sorted: those that both rows find twice.
fn found(by: &GraphJoin, budget: Budget<'_>) -> Result<Sorted<PairRecord>, JoinError> {
    let order = order(&budget.verdict);
    let rows = order.iter().map(|&at| budget.verdict.vector(at as usize)).collect();
    let vectors = VectorMatrix::from_chunks(rows, budget.verdict.matrix.dim())
        .expect("chunks of one row each");
    let search = Search { vectors: &vectors, order: &order, budget };
    match by.index {
        JoinIndex::Memfold(options) => search.found_by_graph(options, by.ef_search),
        JoinIndex::HnswRs => search.found_by_hnsw_rs(by.ef_search),
    }
}

/// Returns the positions of distinct rows by hash, then by bits: what an index makes of them does not depend on the order of
/// rows.
fn order(verdict: &Verdict<'_>) -> Vec<u32> {
    let hashes = &verdict.distinct.hashes;
    // `+ 0.0` turns −0 into +0, which it equals.
    let bits = |at: u32| verdict.vector(at as usize).iter().map(|value| (value + 0.0).to_bits());
    let mut order: Vec<u32> = (0..hashes.len() as u32).collect();
    order.sort_unstable_by(|&a, &b| {
        hashes[a as usize].cmp(&hashes[b as usize]).then_with(|| bits(a).cmp(bits(b)))
    });
    order
}

/// The searches of all distinct rows.
struct Search<'a> {
    /// The distinct rows alone, in `order`.
    vectors: &'a VectorMatrix<'a>,
    /// Their positions among the distinct rows.
    order: &'a [u32],
    budget: Budget<'a>,
}

impl Search<'_> {
    fn found_by_graph(
        &self,
        graph_options: GraphOptions,
        width: usize,
    ) -> Result<Sorted<PairRecord>, JoinError> {
        let JoinOptions { pool, kernels, progress, .. } = *self.budget.options;
        let graph = Graph::build(self.vectors, graph_options, pool, kernels, progress)?;
        let view = graph.view();
        let threshold = self.budget.verdict.threshold;
        let unsearched = |error: String| JoinError::Index { reason: error };
        self.search(
            // Near rows follow each other in the graph, and so do what their searches read.
            &view.rows_by_node().collect::<Vec<_>>(),
            || {
                Searcher::new(&view, self.vectors, kernels)
                    .map_err(|error| unsearched(error.to_string()))
            },
            |searcher, row, records| {
                let query = self.vectors.vector(row);
                let found = searcher
                    .range(query, threshold, width)
                    .map_err(|error| unsearched(error.to_string()))?;
                self.record(row, found, records);
                Ok(())
            },
        )
    }

    #[cfg(feature = "hnsw_rs")]
    fn found_by_hnsw_rs(&self, width: usize) -> Result<Sorted<PairRecord>, JoinError> {
        use crate::hnsw_rs::{HnswRsIndex, HnswRsOptions};

        let JoinOptions { pool, kernels, progress, .. } = *self.budget.options;
        let options = HnswRsOptions { ef_search: width, ..HnswRsOptions::default() };
        let index = HnswRsIndex::build(self.vectors, &options, pool, kernels, progress)?;
        let threshold = self.budget.verdict.threshold;
        self.search(
            &self.vectors.rows().collect::<Vec<_>>(),
            || Ok(()),
            |(), row, records| {
                let found = index
                    .range(self.vectors.vector(row), threshold)
                    .map_err(|error| JoinError::Index { reason: error.to_string() })?;
                self.record(row, &found, records);
                Ok(())
            },
        )
    }

    #[cfg(not(feature = "hnsw_rs"))]
    fn found_by_hnsw_rs(&self, _width: usize) -> Result<Sorted<PairRecord>, JoinError> {
        Err(JoinError::NotBuilt { feature: "hnsw_rs" })
    }

    /// Adds the pairs that a row found.
    fn record(&self, row: Row, found: &[Neighbor], records: &mut Vec<PairRecord>) {
        let rows = &self.budget.verdict.distinct.rows;
        let outside = |row: Row| rows[self.order[row.index()] as usize];
        let others = found.iter().filter(|other| other.row != row);
        records.extend(others.map(|other| {
            let (a, b) = (outside(row), outside(other.row));
            let (left, right) = (a.min(b), a.max(b));
            PairRecord::from(Pair { left, right, similarity: other.similarity })
        }));
    }

    /// Lets every row search, on all workers; searchers are used again.
    fn search<S: Send>(
        &self,
        rows: &[Row],
        searcher: impl Fn() -> Result<S, JoinError> + Sync,
        search: impl Fn(&mut S, Row, &mut Vec<PairRecord>) -> Result<(), JoinError> + Sync,
    ) -> Result<Sorted<PairRecord>, JoinError> {
        let progress = self.budget.options.progress;
        let idle = Mutex::new(Vec::new());
        progress.begin("search near rows", Some(rows.len() as u64));
        let found = self.waves(rows, |rows| {
            let taken = idle.lock().ok().and_then(|mut idle| idle.pop());
            let mut searching = taken.map_or_else(&searcher, Ok)?;
            let mut records = Vec::new();
            for &row in rows {
                search(&mut searching, row, &mut records)?;
            }
            if let Ok(mut idle) = idle.lock() {
                idle.push(searching);
            }
            progress.advance(rows.len() as u64);
            Ok(records)
        });
        progress.end();
        found
    }

    /// Runs a task for every few rows and sorts what all of them record.
    fn waves(
        &self,
        rows: &[Row],
        task: impl Fn(&[Row]) -> Result<Vec<PairRecord>, JoinError> + Sync,
    ) -> Result<Sorted<PairRecord>, JoinError> {
        let options = self.budget.options;
        // Each pair is found twice at most.
        let found_max = self.budget.pairs_max().saturating_mul(2);
        let found = AtomicU64::new(0);
        let mut spool = Spool::new(options.scratch_dir, PAIRS_IN_MEMORY);
        for wave in rows.chunks(TASK_ROWS * WAVE_TASKS) {
            let results = options.pool.map(wave.len().div_ceil(TASK_ROWS), |at| {
                // What follows a spent budget is not worth its time: the answer is known.
                if found.load(Ordering::Relaxed) > found_max {
                    return Ok(Vec::new());
                }
                if options.progress.cancelled() {
                    return Err(JoinError::Cancelled);
                }
                let rows = &wave[at * TASK_ROWS..wave.len().min((at + 1) * TASK_ROWS)];
                let records = task(rows)?;
                found.fetch_add(records.len() as u64, Ordering::Relaxed);
                Ok(records)
            });
            let results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
            if found.load(Ordering::Relaxed) > found_max {
                return Err(self.budget.spent());
            }
            for record in results.into_iter().flatten() {
                spool.push(record).map_err(|error| scratch_error(&error, options))?;
            }
        }
        spool.finish().map_err(|error| scratch_error(&error, options))
    }
}

/// Keeps each pair once and counts those that one side alone has found.
fn once(
    found: &Sorted<PairRecord>,
    counters: &mut JoinCounters,
    budget: Budget<'_>,
) -> Result<Sorted<PairRecord>, JoinError> {
    let failed = |error: std::io::Error| scratch_error(&error, budget.options);
    let mut pairs = Spool::new(budget.options.scratch_dir, PAIRS_IN_MEMORY);
    let (mut last, mut count) = (None, 0);
    for record in found {
        if last != Some(record) {
            count += 1;
            if count > budget.pairs_max() {
                return Err(budget.spent());
            }
            pairs.push(record).map_err(failed)?;
            last = Some(record);
        }
    }
    counters.pairs_judged = found.len() as u64;
    // What both sides found stands there twice.
    counters.pairs_found_once = 2 * count - found.len() as u64;
    pairs.finish().map_err(failed)
}
