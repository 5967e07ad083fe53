//! The join by a graph: each distinct row asks an index for the rows near it; then an exact scan for the pairs of sampled
//! rows measures how many were missed.
//!
//! # The estimate
//!
//! The pairs of one row are found or missed together more often than not, so rows are sampled, not pairs. With *T* true
//! pairs of a sampled row of which *M* were missed, recall is 1 − ΣM / ΣT, the ratio estimator of a sample of clusters.
//!
//! Its interval counts *events* of some size: the mean number of pairs lost at once, weighted by itself, ΣM² / ΣM. One more
//! event, of all pairs of a row, is added first, since pairs may be missed unseen. ΣT and ΣM in units of
//! this size are the numbers of a binomial share; its 95 % interval is Wilson's, with one event fewer at its far end: at
//! least as wide as that of Clopper and Pearson. It does not shrink where a sample holds much of all rows; where it holds
//! all, recall is known. Rows with many pairs are all audited, apart from the others (see [`PairAudit`]); the two are put
//! together by the pairs that each is expected to have.

use std::cmp::Reverse;

use memfold_simd::Similarity;

use super::pairs::{Budget, PAIRS_IN_MEMORY, PairRecord, PairSink};
use super::plan::{SAMPLED_ROWS, Sample};
use super::rerank::Rerank;
use super::{JoinCounters, JoinError, JoinOptions, Pair, PairStream};
use crate::distinct::DistinctRows;
use crate::flat::{FlatIndex, FlatScan};
use crate::graph::{Graph, GraphOptions, Searcher};
use crate::{ExternalSort, Neighbor, Row, Sorted, VectorMatrix};

/// Rows of a task.
const TASK_ROWS: usize = 64;

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
    /// Distinct rows that are audited exactly, to measure recall; all of them where there are no more.
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

/// Finds nearly every pair of rows with a canonical similarity of at least `threshold`, and measures how many.
///
/// Pairs are as [`join_pairs`](super::join_pairs) gives them, in the same order and with the same similarities; some may be missing.
/// [`PairStream::measured_recall`] estimates how many, from an exact audit of sampled rows in the same run. Pairs of
/// bit-equal rows are never missing.
///
/// # Errors
/// On an invalid vector, when the index cannot be built, when the pair budget is exceeded, or when cancelled.
///
/// # Examples
/// ```
/// use memfold_index::{GraphJoin, join_pairs_by_graph};
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
    let distinct = DistinctRows::of(matrix, kernels, pool, None, progress)?;
    let rerank = Rerank { matrix, distinct: &distinct, kernels, threshold };
    let sample = Sample::draw(&rerank, SAMPLED_ROWS);
    let budget = Budget { rerank, sample: &sample, options };
    budget.check_sample()?;
    // Each pair is found twice at most: once from each of its rows.
    let sink = PairSink::new(options.scratch_dir, budget.pairs_max().saturating_mul(2));
    search_all(by, budget, &sink)?;
    let failed = JoinError::scratch(options.scratch_dir);
    let found = sink.finish().map_err(&failed)?.ok_or_else(|| budget.spent())?;
    let mut pairs = ExternalSort::new(options.scratch_dir, PAIRS_IN_MEMORY);
    let (mut last, mut count) = (None, 0);
    for record in found.iter().filter(|record| last.replace(*record) != Some(*record)) {
        count += 1;
        if count > budget.pairs_max() {
            return Err(budget.spent());
        }
        pairs.push(record).map_err(&failed)?;
    }
    let pairs = pairs.finish().map_err(&failed)?;
    let counters = JoinCounters {
        pairs_total: budget.pairs_total(),
        pairs_judged: found.len() as u64,
        // A pair that both rows found is there twice.
        pairs_found_once: 2 * count - found.len() as u64,
        ..JoinCounters::default()
    };
    let audit = PairAudit::of(&rerank, &pairs, by.audited_rows, options)?;
    let distinct_rows = distinct.len() as u64;
    Ok(PairStream::new(pairs, distinct.groups, distinct_rows, counters, Some(audit)))
}

/// Lets each distinct row ask the index for its near rows.
fn search_all(by: &GraphJoin, budget: Budget<'_>, sink: &PairSink) -> Result<(), JoinError> {
    let JoinOptions { pool, kernels, progress, .. } = *budget.options;
    // By hash: the index must not depend on the order of rows.
    let order = Sample::draw(&budget.rerank, usize::MAX);
    let vectors = budget.rerank.vectors(order.positions().iter().copied());
    let search = Search { order: order.positions(), budget, sink };
    let threshold = budget.rerank.threshold;
    match by.index {
        JoinIndex::Memfold(options) => {
            let graph = Graph::build(&vectors, options, pool, kernels, progress)?;
            let view = graph.view();
            // Near rows follow each other in the graph, and their searches read the same memory.
            let rows: Vec<Row> = view.rows_by_node().collect();
            let searcher = || Searcher::new(&view, &vectors, kernels).map_err(JoinError::index);
            search.run(&rows, searcher, |searcher, row| {
                let found = searcher.range(vectors.vector(row), threshold, by.ef_search);
                Ok(found.map_err(JoinError::index)?.to_vec())
            })
        }
        #[cfg(feature = "hnsw_rs")]
        JoinIndex::HnswRs => {
            use crate::hnsw_rs::{HnswRsIndex, HnswRsOptions};

            let options = HnswRsOptions { ef_search: by.ef_search, ..HnswRsOptions::default() };
            let index = HnswRsIndex::build(&vectors, &options, pool, kernels, progress)?;
            let rows: Vec<Row> = vectors.rows().collect();
            search.run(
                &rows,
                || Ok(()),
                |(), row| index.range(vectors.vector(row), threshold).map_err(JoinError::index),
            )
        }
        #[cfg(not(feature = "hnsw_rs"))]
        JoinIndex::HnswRs => Err(JoinError::NotBuilt { feature: "hnsw_rs" }),
    }
}

/// The searches of all distinct rows.
struct Search<'a> {
    /// The positions of the searched rows among the distinct rows.
    order: &'a [usize],
    budget: Budget<'a>,
    sink: &'a PairSink,
}

impl Search<'_> {
    /// Runs a search for each of `rows`, on all workers; searchers are used again.
    fn run<S: Send>(
        &self,
        rows: &[Row],
        searcher: impl Fn() -> Result<S, JoinError> + Sync + Send,
        search: impl Fn(&mut S, Row) -> Result<Vec<Neighbor>, JoinError> + Sync + Send,
    ) -> Result<(), JoinError> {
        let options = self.budget.options;
        options.progress.begin("search near rows", Some(rows.len() as u64));
        let task_count = rows.len().div_ceil(TASK_ROWS);
        let searched = options.pool.map_reusing(task_count, searcher, |searcher, task| {
            if self.sink.is_over() {
                return Ok(());
            }
            options.check_cancelled()?;
            let mut records = Vec::new();
            let rows = &rows[task * TASK_ROWS..rows.len().min((task + 1) * TASK_ROWS)];
            for &row in rows {
                let found = search(searcher, row)?;
                let others = found.iter().filter(|other| other.row != row);
                records.extend(others.map(|other| self.record(row, other)));
            }
            options.progress.advance(rows.len() as u64);
            let taken = self.sink.take(records.into_iter());
            taken.map_err(JoinError::scratch(options.scratch_dir))
        });
        options.progress.end();
        searched.map(drop)
    }

    fn record(&self, row: Row, other: &Neighbor) -> PairRecord {
        let outside = |row: Row| self.budget.rerank.distinct.rows[self.order[row.index()]];
        let (a, b) = (outside(row), outside(other.row));
        PairRecord::from(Pair { left: a.min(b), right: a.max(b), similarity: other.similarity })
    }
}

/// The two-sided 95 % quantile of a normal distribution.
const QUANTILE: f64 = 1.96;

/// Recall of a join, as an audit measured it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredRecall {
    /// The estimate: found pairs over true pairs of the sampled rows; 1 where there are none.
    pub value: f64,
    /// Lower end of the 95 % interval; 0 where a sample tells nothing.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
    /// Audited distinct rows.
    pub sampled_rows: u64,
    /// How many pairs they have.
    pub sampled_pairs: u64,
    /// About how many distinct pairs there are in all.
    pub pairs_expected: f64,
}

/// Totals of a sample of rows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct RowTotals {
    rows: u64,
    /// Whether these are all rows.
    is_all: bool,
    /// ΣT and ΣT².
    pairs: [f64; 2],
    /// ΣM and ΣM².
    missed: [f64; 2],
}

impl RowTotals {
    /// Adds a sampled row of which `found` out of `pairs` pairs were found.
    fn add(&mut self, pairs: u64, found: u64) {
        let (pairs, missed) = (pairs as f64, pairs.saturating_sub(found) as f64);
        self.rows += 1;
        self.pairs = [self.pairs[0] + pairs, self.pairs[1] + pairs * pairs];
        self.missed = [self.missed[0] + missed, self.missed[1] + missed * missed];
    }

    /// Estimates recall; `row_pairs_mean` is the mean number of pairs of a row among the found pairs, weighted by itself.
    fn recall(&self, row_pairs_mean: f64, pairs_expected: f64) -> MeasuredRecall {
        let ([pairs, pairs_squared], [missed, missed_squared]) = (self.pairs, self.missed);
        let mut recall = MeasuredRecall {
            value: if pairs > 0.0 { 1.0 - missed / pairs } else { 1.0 },
            low: 0.0,
            high: 1.0,
            sampled_rows: self.rows,
            sampled_pairs: pairs as u64,
            pairs_expected,
        };
        if self.is_all {
            (recall.low, recall.high) = (recall.value, recall.value);
        } else if pairs > 0.0 {
            let whole_row = row_pairs_mean.max(pairs_squared / pairs);
            let size = (missed_squared + whole_row * whole_row) / (missed + whole_row);
            let (events, trials) = (missed / size, pairs / size);
            recall.low = 1.0 - wilson(events, trials, 1.0);
            recall.high = 1.0 - wilson((events - 1.0).max(0.0), trials, -1.0);
        }
        recall
    }
}

/// Returns Wilson's bound of a share, of which `events` out of `trials` were seen: the upper one with a `side` of 1, the
/// lower one with −1.
fn wilson(events: f64, trials: f64, side: f64) -> f64 {
    let share = (events / trials).min(1.0);
    let square = QUANTILE * QUANTILE / trials;
    let spread = (share * (1.0 - share) * square + square * square / 4.0).sqrt();
    ((share + square / 2.0 + side * spread) / (1.0 + square)).clamp(0.0, 1.0)
}

impl MeasuredRecall {
    /// Puts the recalls of separate joins together, weighted by the pairs that each is expected to have. `None`: there
    /// are none.
    ///
    /// The ends combine the ends of all intervals: the true recall is farther out less often than for each alone.
    #[must_use]
    pub fn combined(recalls: &[Self]) -> Option<Self> {
        let least = *recalls.iter().min_by(|a, b| a.low.total_cmp(&b.low))?;
        let expected: f64 = recalls.iter().map(|recall| recall.pairs_expected).sum();
        let sampled_rows = recalls.iter().map(|recall| recall.sampled_rows).sum();
        let sampled_pairs = recalls.iter().map(|recall| recall.sampled_pairs).sum();
        if recalls.len() == 1 || expected <= 0.0 {
            return Some(Self { sampled_rows, sampled_pairs, ..least });
        }
        let mean = |of: fn(&Self) -> f64| {
            recalls.iter().map(|recall| of(recall) * recall.pairs_expected).sum::<f64>() / expected
        };
        Some(Self {
            value: mean(|recall| recall.value),
            low: mean(|recall| recall.low),
            high: mean(|recall| recall.high),
            sampled_rows,
            sampled_pairs,
            pairs_expected: expected,
        })
    }
}

/// Rows that each worker scans for between two looks at the wish to stop: whole blocks of the scan.
const ROWS_PER_WORKER: usize = 96;

/// Sampled rows without a pair do not prove that there is none: pairs that may be seen of so many at least are expected.
const UNSEEN_PAIRS: f64 = 3.84;

/// All pairs of some distinct rows, found exactly.
///
/// Half of them are the rows of which the join has found most pairs, where these are more than one: a few rows often hold most
/// pairs. The others have the smallest hashes of their vectors. Neither depends on the order of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PairAudit {
    /// All rows with many pairs, and a sample of the others.
    strata: [Stratum; 2],
}

/// Rows that stand for some more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Stratum {
    rows: Vec<Row>,
    /// The similarities of each one's pairs, best first.
    similarities: Vec<Vec<Similarity>>,
    /// How many rows they stand for.
    population: u64,
}

impl PairAudit {
    /// Finds all pairs of up to `row_count` distinct rows; `found` are the pairs to be audited.
    ///
    /// Cost: an exact scan of all distinct rows for each sampled one.
    pub(super) fn of(
        rerank: &Rerank<'_>,
        found: &Sorted<PairRecord>,
        row_count: usize,
        options: &JoinOptions<'_>,
    ) -> Result<Self, JoinError> {
        let rows = &rerank.distinct.rows;
        let by_hash = Sample::draw(rerank, rows.len());
        let [many, few] = sampled(by_hash.positions(), row_count, {
            let counts = pairs_by_row(found.iter().map(Pair::from));
            move |at| counts.get(rows[at].index()).copied().unwrap_or(0)
        });
        options.progress.begin("audit pairs", Some((many.len() + few.len()) as u64));
        let similarities = scan(rerank, &[&many[..], &few].concat(), options);
        options.progress.end();
        let mut of_many = similarities?;
        let of_few = of_many.split_off(many.len());
        let stratum = |positions: &[usize], similarities, population: usize| Stratum {
            rows: positions.iter().map(|&at| rows[at]).collect(),
            similarities,
            population: population as u64,
        };
        let others = rows.len() - many.len();
        Ok(Self { strata: [stratum(&many, of_many, many.len()), stratum(&few, of_few, others)] })
    }

    /// Estimates how many of all distinct pairs at or above `threshold` are among `pairs`, which were found.
    ///
    /// `threshold` is not below that of the audited join.
    pub(crate) fn recall(
        &self,
        pairs: impl Iterator<Item = Pair>,
        threshold: Similarity,
    ) -> MeasuredRecall {
        let mut found = pairs_by_row(pairs.filter(|pair| pair.similarity >= threshold));
        let [many, few] = &self.strata;
        let of_many = many.recall(&found, threshold);
        for row in &many.rows {
            if let Some(count) = found.get_mut(row.index()) {
                *count = 0;
            }
        }
        let of_few = few.recall(&found, threshold);
        match (many.population, few.population) {
            (_, 0) => of_many,
            (0, _) => of_few,
            _ => MeasuredRecall::combined(&[of_few, of_many]).unwrap_or(of_few),
        }
    }
}

impl Stratum {
    /// Estimates the recall of the pairs of its rows; `found` counts the pairs of all rows that it stands for.
    fn recall(&self, found: &[u32], threshold: Similarity) -> MeasuredRecall {
        let is_all = self.rows.len() as u64 == self.population;
        let mut totals = RowTotals { is_all, ..RowTotals::default() };
        for (row, similarities) in self.rows.iter().zip(&self.similarities) {
            let pairs = similarities.partition_point(|&similarity| similarity >= threshold) as u64;
            totals.add(pairs, found.get(row.index()).copied().unwrap_or(0).into());
        }
        let rows_each = self.population as f64 / self.rows.len().max(1) as f64;
        let mut expected = totals.pairs[0] * rows_each;
        if !is_all {
            let found: u64 = found.iter().map(|&count| u64::from(count)).sum();
            expected = expected.max(found as f64).max(UNSEEN_PAIRS * rows_each);
        }
        // Each pair has two rows.
        totals.recall(mean_weighted_by_itself(found), expected / 2.0)
    }
}

/// Returns the positions of rows with many found pairs, and a sample of the others; both by hash or by count and hash.
fn sampled(by_hash: &[usize], row_count: usize, found: impl Fn(usize) -> u32) -> [Vec<usize>; 2] {
    if by_hash.len() <= row_count {
        return [by_hash.to_vec(), Vec::new()];
    }
    let mut order: Vec<usize> = (0..by_hash.len()).collect();
    order.sort_unstable_by_key(|&place| (Reverse(found(by_hash[place])), place));
    let has_many = |&&place: &&usize| found(by_hash[place]) > 1;
    let many_count = order.iter().take(row_count / 2).take_while(has_many).count();
    let (many, others) = order.split_at_mut(many_count);
    others.sort_unstable();
    let positions = |places: &[usize]| places.iter().map(|&place| by_hash[place]).collect();
    [positions(many), positions(&others[..row_count - many_count])]
}

/// Counts the pairs of each row.
fn pairs_by_row(pairs: impl Iterator<Item = Pair>) -> Vec<u32> {
    let mut counts: Vec<u32> = Vec::new();
    for row in pairs.flat_map(|pair| [pair.left, pair.right]) {
        if counts.len() <= row.index() {
            counts.resize(row.index() + 1, 0);
        }
        counts[row.index()] += 1;
    }
    counts
}

/// Returns the similarities of all pairs of the distinct rows at some positions, best first.
fn scan(
    rerank: &Rerank<'_>,
    positions: &[usize],
    options: &JoinOptions<'_>,
) -> Result<Vec<Vec<Similarity>>, JoinError> {
    let mut similarities = Vec::with_capacity(positions.len());
    let distinct = &rerank.vectors(0..rerank.distinct.len());
    let flat =
        FlatIndex::build(distinct, options.pool, options.kernels).map_err(JoinError::index)?;
    let scan = FlatScan::new(flat.view(), distinct, options.kernels)
        .expect("the flat index was built of these rows");
    for positions in positions.chunks(ROWS_PER_WORKER * options.pool.threads()) {
        options.check_cancelled()?;
        let queries = rerank.vectors(positions.iter().copied());
        let found =
            scan.range_batch(&queries, rerank.threshold, options.pool).map_err(JoinError::index)?;
        similarities.extend(positions.iter().zip(found).map(|(&position, found)| {
            let others = found.iter().filter(|other| other.row.index() != position);
            others.map(|other| other.similarity).collect::<Vec<_>>()
        }));
        options.progress.advance(positions.len() as u64);
    }
    Ok(similarities)
}

fn mean_weighted_by_itself(counts: &[u32]) -> f64 {
    let sum: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    let squares: f64 = counts.iter().map(|&count| f64::from(count) * f64::from(count)).sum();
    squares / sum.max(1) as f64
}

#[cfg(test)]
mod tests {
    use memfold_simd::{Kernels, Level};

    use super::*;
    use crate::join::{JoinedPairs, join_pairs};
    use crate::testing::{SHAPES, Shape, StopAfter, Values, matrix, near, pool, rows};

    /// Pairs of a row, and how many of them are missed.
    type Population = Vec<(u64, u64)>;

    const ROWS: usize = 20_000;
    const SAMPLES: usize = 400;

    /// How pairs are missed.
    #[derive(Debug, Clone, Copy)]
    enum Missed {
        /// Each for itself: 1 in 100.
        Singly,
        /// All pairs of 1 row in 100.
        ByRow,
        /// In groups of more rows more often.
        InLargeGroups,
        /// None.
        Never,
    }

    /// Half of the rows are in groups of 2 to 200 near ones: the more the fewer.
    fn population(missed: Missed, values: &mut Values) -> Population {
        let mut rows: Population = Vec::new();
        while rows.len() < ROWS / 2 {
            let size = (2.0 / (f64::from(values.next()).abs() + 0.01)) as usize;
            let first = rows.len();
            rows.resize(first + size, (size as u64 - 1, 0));
            let lost: Vec<bool> = (0..size).map(|_| values.below(200) == 0).collect();
            for a in 0..size {
                for b in 0..a {
                    let is_missed = match missed {
                        Missed::Singly => values.below(100) == 0,
                        Missed::ByRow => lost[a] || lost[b],
                        Missed::InLargeGroups => values.below(1_000) < size,
                        Missed::Never => false,
                    };
                    rows[first + a].1 += u64::from(is_missed);
                    rows[first + b].1 += u64::from(is_missed);
                }
            }
        }
        rows.resize(ROWS, (0, 0));
        rows
    }

    /// Draws rows at random and estimates.
    fn sampled(rows: &Population, count: usize, values: &mut Values) -> MeasuredRecall {
        let (mut sum, mut squares) = (0.0, 0.0);
        for found in rows.iter().map(|&(pairs, missed)| (pairs - missed) as f64) {
            (sum, squares) = (sum + found, squares + found * found);
        }
        let mut order: Vec<usize> = (0..rows.len()).collect();
        let mut totals = RowTotals::default();
        for at in 0..count {
            let drawn = at + values.below(rows.len() - at);
            order.swap(at, drawn);
            let (pairs, missed) = rows[order[at]];
            totals.add(pairs, pairs - missed);
        }
        totals.recall(squares / sum, sum / 2.0)
    }

    #[test]
    fn intervals_hold_the_true_recall_as_often_as_they_say() {
        let mut values = Values(71);
        for missed in [Missed::Singly, Missed::ByRow, Missed::InLargeGroups, Missed::Never] {
            let rows = population(missed, &mut values);
            let sums = rows.iter().fold((0, 0), |sums, row| (sums.0 + row.0, sums.1 + row.1));
            let recall = 1.0 - sums.1 as f64 / sums.0 as f64;
            for count in [300, 2_000] {
                let (mut held, mut floors) = (0, 0);
                for _ in 0..SAMPLES {
                    let measured = sampled(&rows, count, &mut values);
                    assert!(measured.low <= measured.value && measured.value <= measured.high);
                    held += usize::from((measured.low..=measured.high).contains(&recall));
                    floors += usize::from(measured.low <= recall);
                }
                assert!(held * 100 >= SAMPLES * 95, "{missed:?} {count}: {held} of {SAMPLES}");
                assert!(floors * 1_000 >= SAMPLES * 975, "{missed:?} {count}: {floors}");
            }
        }
    }

    #[test]
    fn more_rows_tell_more() {
        let mut values = Values(73);
        let rows = population(Missed::Singly, &mut values);
        let width = |count, values: &mut Values| {
            let measured = sampled(&rows, count, values);
            measured.high - measured.low
        };
        let (few, many) = (width(300, &mut values), width(5_000, &mut values));
        assert!(many < few / 3.0 && many > 0.0 && many < 0.02, "{few} {many}");
    }

    #[test]
    fn nothing_missed_is_no_proof() {
        let mut totals = RowTotals::default();
        (0..1_000).for_each(|_| totals.add(1, 1));
        let measured = totals.recall(1.0, 1e6);
        assert_eq!((measured.value, measured.high), (1.0, 1.0));
        // The rule of three, with two sides: 3.7 of 1,000 could have been missed unseen.
        assert!((0.995..0.9965).contains(&measured.low), "{}", measured.low);
    }

    #[test]
    fn rows_without_pairs_tell_nothing_unless_they_are_all() {
        let mut totals = RowTotals { is_all: true, ..RowTotals::default() };
        (0..50).for_each(|_| totals.add(0, 0));
        let ends = |recall: MeasuredRecall| (recall.value, recall.low, recall.high);
        assert_eq!(ends(totals.recall(0.0, 0.0)), (1.0, 1.0, 1.0));
        totals.is_all = false;
        assert_eq!(ends(totals.recall(0.0, 0.0)), (1.0, 0.0, 1.0));
        totals.is_all = true;
        totals.add(4, 3);
        assert_eq!(ends(totals.recall(1.0, 2.0)), (0.75, 0.75, 0.75));
    }

    #[test]
    fn joins_count_by_their_pairs() {
        let of = |[value, low, high, pairs_expected]: [f64; 4], sampled_rows, sampled_pairs| {
            MeasuredRecall { value, low, high, sampled_rows, sampled_pairs, pairs_expected }
        };
        let (one, other) = (of([1.0, 1.0, 1.0, 30.0], 10, 4), of([0.5, 0.2, 0.6, 10.0], 10, 4));
        assert_eq!(MeasuredRecall::combined(&[]), None);
        assert_eq!(MeasuredRecall::combined(&[other]), Some(other));
        let both = MeasuredRecall::combined(&[one, other]);
        assert_eq!(both, Some(of([0.875, 0.8, 0.9, 40.0], 20, 8)));
    }

    const DIM: usize = 24;

    /// A graph too poor to find everything.
    const POOR: JoinIndex =
        JoinIndex::Memfold(GraphOptions { degree: 2, candidates: 3, probes: 1 });

    /// Joins exactly and by a graph.
    fn both(values: &[f32], threshold: f64, by: &GraphJoin) -> (JoinedPairs, PairStream) {
        let (matrix, threshold, pool) = (matrix(values, DIM), near(threshold), pool(2));
        let options = JoinOptions { pair_budget: Some(4_000_000), ..JoinOptions::new(&pool) };
        let exact = join_pairs(&matrix, threshold, &options).unwrap().collect();
        (exact, join_pairs_by_graph(&matrix, threshold, &options, by).unwrap())
    }

    /// Checks that the pairs found by a graph are true, and returns the true recall.
    fn check(exact: &JoinedPairs, found: &PairStream) -> f64 {
        let distinct = (found.groups(), found.distinct_rows());
        assert_eq!((&exact.groups[..], exact.distinct_rows), distinct);
        let mut expected = exact.pairs.iter();
        for pair in found.pairs() {
            assert!(expected.any(|one| *one == pair), "{pair:?} in order, once, and true");
        }
        assert!(found.counters().pairs_found_once <= found.pair_count());
        found.pair_count() as f64 / exact.pairs.len().max(1) as f64
    }

    /// Rows around many centres with groups of equal ones and cliques of near ones among them.
    fn duplicates(row_count: usize, seed: u64) -> Vec<f32> {
        let mut noise = Values(seed);
        let centers: Vec<f32> = (0..row_count / 12 * DIM).map(|_| noise.next()).collect();
        let mut values = Vec::with_capacity(row_count * DIM);
        for _ in 0..row_count {
            let center = noise.below(row_count / 12) * DIM;
            let jitter = 0.4 * noise.next();
            values.extend(centers[center..center + DIM].iter().map(|x| x + jitter * noise.next()));
        }
        let mut row = row_count / 50;
        for (size, jitter) in
            [(2, 0.0), (50, 0.0), (1_062, 0.0), (5_000, 0.0), (40, 0.05), (300, 0.05)]
        {
            let first: Vec<f32> = (0..DIM).map(|_| noise.next()).collect();
            for _ in 0..size {
                let place = row * DIM % values.len();
                for (value, center) in values[place..place + DIM].iter_mut().zip(&first) {
                    *value = center + jitter * noise.next();
                }
                row += 3;
            }
        }
        values
    }

    #[test]
    fn few_rows_lose_nothing() {
        for (seed, shape) in (31..).zip(SHAPES) {
            for (row_count, threshold) in
                [(0, 0.9), (1, 0.9), (2, 0.9), (1_500, 0.8), (1_500, 0.97)]
            {
                let values = rows(shape, row_count, DIM, seed);
                let (exact, found) = both(&values, threshold, &GraphJoin::default());
                check(&exact, &found);
                let recall = found.measured_recall(near(threshold)).unwrap();
                assert_eq!((recall.low, recall.high), (1.0, 1.0), "{shape:?}");
                assert_eq!(recall.sampled_rows, exact.distinct_rows);
                assert_eq!(recall.sampled_pairs, 2 * exact.pairs.len() as u64);
                assert_eq!(found.collect(), exact, "{shape:?}");
            }
        }
    }

    #[test]
    fn duplicates_are_found_and_recall_is_measured() {
        let values = duplicates(26_000, 5);
        for index in [JoinIndex::Memfold(GraphOptions::default()), POOR] {
            let by = GraphJoin { index, ef_search: 32, audited_rows: 3_000 };
            let (exact, found) = both(&values, 0.97, &by);
            assert!(exact.distinct_rows < 20_500 && exact.pairs.len() > 40_000);
            let recall = check(&exact, &found);
            let measured = found.measured_recall(near(0.97)).unwrap();
            assert!((measured.low..=measured.high).contains(&recall), "{recall} {measured:?}");
            assert_eq!(measured.sampled_rows, 3_000);
            if index == POOR {
                assert!(recall < 0.97 && measured.high < 1.0, "{recall} {measured:?}");
                assert!(found.counters().pairs_found_once > 0);
            } else {
                assert!(recall > 0.999, "{recall}");
            }
            // Above the join's threshold as well.
            let counted = |pairs: &[Pair]| {
                pairs.iter().filter(|pair| pair.similarity >= near(0.985)).count() as f64
            };
            let higher = found.measured_recall(near(0.985)).unwrap();
            let recall = counted(&found.collect().pairs) / counted(&exact.pairs);
            assert!((higher.low..=higher.high).contains(&recall), "{recall} {higher:?}");
        }
    }

    #[test]
    fn neither_threads_nor_level_nor_folder_is_seen() {
        let values = duplicates(12_000, 11);
        let by = GraphJoin { index: POOR, ef_search: 16, audited_rows: 500 };
        let folder = tempfile::tempdir().unwrap();
        let join = |threads, kernels, scratch_dir| {
            let pool = pool(threads);
            let options = JoinOptions { kernels, scratch_dir, ..JoinOptions::new(&pool) };
            let matrix = matrix(&values, DIM);
            let found = join_pairs_by_graph(&matrix, near(0.95), &options, &by).unwrap();
            (*found.counters(), found.measured_recall(near(0.95)), found.collect())
        };
        let expected = join(1, Kernels::active(), None);
        assert!(expected.2.pairs.len() > 1_000);
        for threads in [2, 8] {
            let found = join(threads, Kernels::active(), Some(folder.path()));
            assert!(found == expected, "{threads}");
        }
        for kernels in Level::ALL.into_iter().filter_map(Kernels::at) {
            assert!(join(2, kernels, None) == expected, "{}", kernels.level().name());
        }
    }

    #[test]
    fn the_order_of_rows_is_not_seen() {
        let values = duplicates(9_000, 13);
        let reversed: Vec<f32> = values.chunks(DIM).rev().flatten().copied().collect();
        let by = GraphJoin { index: POOR, ef_search: 16, audited_rows: 700 };
        let joined = |values: &[f32]| {
            let (exact, found) = both(values, 0.97, &by);
            let recall = found.measured_recall(near(0.97)).unwrap();
            let mut similarities: Vec<_> = found.pairs().map(|pair| pair.similarity).collect();
            similarities.sort_unstable();
            assert!(similarities.len() < exact.pairs.len(), "a rich graph shows nothing");
            (recall, *found.counters(), found.logical_pairs(), similarities)
        };
        assert!(joined(&values) == joined(&reversed));
    }

    #[test]
    fn a_budget_is_kept() {
        let (values, pool) = (duplicates(9_000, 17), pool(2));
        let join = |pair_budget| {
            let options = JoinOptions { pair_budget, ..JoinOptions::new(&pool) };
            let by = GraphJoin::default();
            join_pairs_by_graph(&matrix(&values, DIM), near(0.97), &options, &by)
        };
        let count = join(None).unwrap().pair_count();
        assert_eq!(join(Some(count)).unwrap().pair_count(), count);
        // Just one too many, so many that searching stops, and so many that a sample tells.
        for expected in [count - 1, count / 4, 0] {
            let error = join(Some(expected)).unwrap_err();
            let is_spent = matches!(&error, JoinError::PairBudget { budget, histogram, .. }
                if *budget == expected && !histogram.is_empty());
            assert!(is_spent, "{error}");
        }
    }

    #[test]
    fn it_can_be_stopped_at_every_look() {
        let (values, pool) = (duplicates(9_000, 19), pool(2));
        let by = GraphJoin { audited_rows: 600, ..GraphJoin::default() };
        let join = |looks_max| {
            let progress = StopAfter { looks_max, ..StopAfter::default() };
            let options = JoinOptions { progress: &progress, ..JoinOptions::new(&pool) };
            let joined = join_pairs_by_graph(&matrix(&values, DIM), near(0.97), &options, &by);
            (joined.map(|found| found.pair_count()), progress.looks.into_inner())
        };
        let (found, looks) = join(u64::MAX);
        assert!(found.is_ok());
        for stop in (0..looks).step_by(7).chain([looks - 1]) {
            assert_eq!(join(stop).0, Err(JoinError::Cancelled), "{stop} of {looks}");
        }
    }

    #[test]
    fn rows_without_a_direction_are_named() {
        let (mut values, pool) = (rows(Shape::Random, 50, 4, 23), pool(1));
        values[4 * 33] = f32::NAN;
        let (matrix, options) = (matrix(&values, 4), JoinOptions::new(&pool));
        let error = join_pairs_by_graph(&matrix, near(0.9), &options, &GraphJoin::default());
        assert!(matches!(error, Err(JoinError::InvalidVector { row: 33, .. })));
    }

    #[cfg(feature = "hnsw_rs")]
    #[test]
    fn hnsw_rs_is_joined_and_measured_alike() {
        let values = duplicates(7_000, 29);
        let by = GraphJoin { index: JoinIndex::HnswRs, ef_search: 32, audited_rows: 1_000 };
        let (exact, found) = both(&values, 0.97, &by);
        let recall = check(&exact, &found);
        let measured = found.measured_recall(near(0.97)).unwrap();
        assert!(recall > 0.97 && (measured.low..=measured.high).contains(&recall), "{measured:?}");
    }
}
