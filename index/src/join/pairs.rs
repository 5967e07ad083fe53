//! [`join_pairs`]: plans, compares within a pair budget, and sorts. [`PairStream`]: the answer, larger than memory should
//! hold.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use bytemuck::{Pod, Zeroable};
use memfold_simd::Similarity;

use super::by_graph::{MeasuredRecall, PairAudit};
use super::compare::{Cascade, TASK_LEFTS_MAX, Workspace};
use super::encode::Stages;
use super::plan::{SAMPLED_ROWS, Sample};
use super::rerank::Rerank;
use super::{JoinCounters, JoinError, JoinOptions, JoinedPairs, Pair};
use crate::distinct::DistinctRows;
use crate::{ExternalSort, Row, Sorted, VectorMatrix};

/// All pairs at or above a threshold in order, with bit-equal vectors collapsed.
///
/// A *distinct* row is the smallest row of a group of bit-equal vectors. [`pairs`](Self::pairs) joins
/// distinct rows only; the pairs inside and between groups follow from [`groups`](Self::groups). Memory is
/// bounded where [`super::JoinOptions::scratch_dir`] names a folder.
#[derive(Debug)]
pub struct PairStream {
    sorted: Sorted<PairRecord>,
    groups: Vec<Vec<Row>>,
    distinct_rows: u64,
    logical_pairs: u64,
    counters: JoinCounters,
    /// `None`: the join was exact.
    audit: Option<PairAudit>,
}

/// A pair as it is sorted and stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
pub(super) struct PairRecord {
    left: u32,
    right: u32,
    similarity_bits: u64,
}

impl PairStream {
    /// Puts the results of a join together; pairs join distinct rows.
    pub(super) fn new(
        sorted: Sorted<PairRecord>,
        groups: Vec<Vec<Row>>,
        distinct_rows: u64,
        counters: JoinCounters,
        audit: Option<PairAudit>,
    ) -> Self {
        let logical_pairs = logical_pairs(&groups, sorted.iter().map(Pair::from));
        Self { sorted, groups, distinct_rows, logical_pairs, counters, audit }
    }

    /// Returns the pairs of distinct rows, sorted by (left, right); can be called again.
    pub fn pairs(&self) -> impl ExactSizeIterator<Item = Pair> {
        self.sorted.iter().map(Pair::from)
    }

    /// Returns the groups of two or more bit-equal rows: members ascending, groups by their smallest row.
    #[must_use]
    pub fn groups(&self) -> &[Vec<Row>] {
        &self.groups
    }

    /// Returns how many distinct rows there are.
    #[must_use]
    pub const fn distinct_rows(&self) -> u64 {
        self.distinct_rows
    }

    /// Returns how many pairs of distinct rows there are.
    #[must_use]
    pub fn pair_count(&self) -> u64 {
        self.sorted.len() as u64
    }

    /// Returns the number of all logical pairs (inside groups, between groups, between distinct rows).
    #[must_use]
    pub const fn logical_pairs(&self) -> u64 {
        self.logical_pairs
    }

    /// Returns the counters of the join.
    #[must_use]
    pub const fn counters(&self) -> &JoinCounters {
        &self.counters
    }

    /// Returns how many of the distinct pairs at or above `threshold` were found, as the audit measured it; `None` where
    /// the join was exact. Not below the join's own threshold.
    #[must_use]
    pub fn measured_recall(&self, threshold: Similarity) -> Option<MeasuredRecall> {
        Some(self.audit.as_ref()?.recall(self.pairs(), threshold))
    }

    /// Takes all pairs into memory, 16 bytes each.
    #[must_use]
    pub fn collect(self) -> JoinedPairs {
        JoinedPairs {
            pairs: self.pairs().collect(),
            groups: self.groups,
            distinct_rows: self.distinct_rows,
            logical_pairs: self.logical_pairs,
        }
    }
}

impl PairRecord {
    /// Returns the same pair with other row numbers.
    pub(super) fn renamed(self, name: impl Fn(u32) -> u32) -> Self {
        let (a, b) = (name(self.left), name(self.right));
        Self { left: a.min(b), right: a.max(b), ..self }
    }

    /// Tells whether both rows are below this number, in order.
    pub(super) const fn is_of(&self, row_count: u32) -> bool {
        self.left < self.right && self.right < row_count
    }
}

impl From<Pair> for PairRecord {
    fn from(pair: Pair) -> Self {
        Self {
            left: pair.left.0,
            right: pair.right.0,
            similarity_bits: pair.similarity.get().to_bits(),
        }
    }
}

impl From<PairRecord> for Pair {
    fn from(record: PairRecord) -> Self {
        Self {
            left: Row(record.left),
            right: Row(record.right),
            // A similarity's own bits: nothing is changed by the clamp.
            similarity: Similarity::clamped(f64::from_bits(record.similarity_bits))
                .unwrap_or_default(),
        }
    }
}

/// Tasks that are made at a time.
const WAVE_TASKS: usize = 4_096;

/// Blocks on the right of a task. There are fewer on both sides where there are few blocks, so that every worker has some.
const TASK_RIGHTS_MAX: usize = 32;

/// Pairs that are kept in memory when there is a folder for more: 64 MiB.
pub(super) const PAIRS_IN_MEMORY: usize = 1 << 22;

/// Takes the pairs of all workers as they are found, counts them against a limit and sorts them.
///
/// Pairs leave a worker block by block, so that each worker holds the pairs of two blocks beside the pairs kept in memory.
/// The order in which they come leaves no trace.
pub(super) struct PairSink {
    spool: Mutex<ExternalSort<PairRecord>>,
    pairs_max: u64,
    found: AtomicU64,
    /// The most pairs that came at once.
    batch_max: AtomicU64,
}

impl PairSink {
    /// Keeps up to [`PAIRS_IN_MEMORY`] pairs in memory where there is a scratch folder for more.
    pub(super) fn new(scratch_dir: Option<&Path>, pairs_max: u64) -> Self {
        Self {
            spool: Mutex::new(ExternalSort::new(scratch_dir, PAIRS_IN_MEMORY)),
            pairs_max,
            found: AtomicU64::new(0),
            batch_max: AtomicU64::new(0),
        }
    }

    /// Tells whether more pairs came than the limit: further work cannot change the answer.
    pub(super) fn is_over(&self) -> bool {
        self.found.load(Ordering::Relaxed) > self.pairs_max
    }

    /// Takes pairs; beyond the limit they are only counted.
    pub(super) fn take(&self, pairs: impl ExactSizeIterator<Item = PairRecord>) -> io::Result<()> {
        let count = pairs.len() as u64;
        self.found.fetch_add(count, Ordering::Relaxed);
        self.batch_max.fetch_max(count, Ordering::Relaxed);
        if count == 0 || self.is_over() {
            return Ok(());
        }
        let mut spool = self.spool.lock().unwrap_or_else(PoisonError::into_inner);
        pairs.into_iter().try_for_each(|pair| spool.push(pair))
    }

    /// Sorts all pairs by (left, right); `None` where there are more than the limit.
    pub(super) fn finish(self) -> io::Result<Option<Sorted<PairRecord>>> {
        if self.is_over() {
            return Ok(None);
        }
        self.spool.into_inner().unwrap_or_else(PoisonError::into_inner).finish().map(Some)
    }
}

/// Compares every two blocks.
fn compare_all(
    cascade: &Cascade<'_>,
    sink: &PairSink,
    options: &JoinOptions<'_>,
) -> Result<JoinCounters, JoinError> {
    let mut tasks = tasks(cascade.block_count());
    let mut counters = JoinCounters::default();
    loop {
        let wave: Vec<_> = tasks.by_ref().take(WAVE_TASKS).collect();
        if wave.is_empty() {
            return Ok(counters);
        }
        let compared = options.pool.map(wave.len(), |task| {
            let mut work = Workspace::default();
            for (left, right) in wave[task].block_pairs() {
                options.check_cancelled()?;
                if sink.is_over() {
                    break;
                }
                cascade.compare(left, right, &mut work);
                let pairs = work.pairs.drain(..).map(PairRecord::from);
                sink.take(pairs).map_err(JoinError::scratch(options.scratch_dir))?;
                options.progress.advance(cascade.pair_count(left, right));
            }
            Ok::<_, JoinError>(work.counters)
        });
        for did in compared {
            let did = did?;
            counters.pairs_tested += did.pairs_tested;
            counters.pairs_passed_first += did.pairs_passed_first;
            counters.pairs_judged += did.pairs_judged;
        }
    }
}

/// Blocks that are compared with each other by one worker.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) lefts: Range<usize>,
    pub(super) rights: Range<usize>,
}

impl Task {
    /// Returns the pairs `(left, right)` with `left ≤ right`: a right block meets all left ones while it
    /// is in the cache.
    pub(super) fn block_pairs(&self) -> impl Iterator<Item = (usize, usize)> {
        self.rights.clone().flat_map(|right| {
            self.lefts.clone().filter(move |&left| left <= right).map(move |left| (left, right))
        })
    }
}

/// Returns tasks that cover every two blocks once.
fn tasks(blocks: usize) -> impl Iterator<Item = Task> {
    let few = (blocks / 16).max(1);
    let (left_step, right_step) = (few.min(TASK_LEFTS_MAX), few.min(TASK_RIGHTS_MAX));
    let part = move |start: usize, step: usize| start..(start + step).min(blocks);
    (0..blocks).step_by(left_step).flat_map(move |left| {
        let rights = (left..blocks).step_by(right_step);
        rights.map(move |right| Task {
            lefts: part(left, left_step),
            rights: part(right, right_step),
        })
    })
}

/// Counts the pairs of rows that stand behind groups and pairs of distinct rows.
///
/// Fewer than 2⁶³: a matrix has fewer than 2³² rows.
fn logical_pairs(groups: &[Vec<Row>], pairs: impl ExactSizeIterator<Item = Pair>) -> u64 {
    if groups.is_empty() {
        return pairs.len() as u64;
    }
    let within = |count: u64| count * (count - 1) / 2;
    let inside: u64 = groups.iter().map(|group| within(group.len() as u64)).sum();
    let multiplicity = |row| {
        let group = groups.binary_search_by_key(&row, |group| group[0]);
        group.map_or(1, |at| groups[at].len() as u64)
    };
    let between: u64 = pairs.map(|pair| multiplicity(pair.left) * multiplicity(pair.right)).sum();
    inside + between
}

/// Finds every pair of rows with a canonical similarity of at least `threshold`.
///
/// Time grows with the square of the distinct rows (36,000 × 384 in a fraction of a second, 1,000,000
/// in minutes); memory with the rows (about 300 bytes each), and with the pairs found (16 bytes each) up to
/// 64 MiB where there is a scratch folder, without bound where there is none.
///
/// # Errors
/// On an invalid vector, when the pair budget is exceeded, or when cancelled.
///
/// # Examples
/// ```
/// use memfold_index::{JoinOptions, Pool, VectorMatrix, join_pairs};
/// use memfold_simd::Similarity;
///
/// let values = [1.0, 0.0, 0.0, 1.0, 0.9, 0.1, 1.0, 0.0];
/// let matrix = VectorMatrix::from_slice(&values, 2)?;
/// let pool = Pool::new(None)?;
/// let options = JoinOptions::new(&pool);
/// let threshold = Similarity::new(0.95).ok_or("not a cosine")?;
/// let joined = join_pairs(&matrix, threshold, &options)?;
/// assert_eq!(joined.distinct_rows(), 3);
/// for pair in joined.pairs() {
///     assert_eq!((pair.left.0, pair.right.0), (0, 2));
/// }
/// assert_eq!(joined.groups().len(), 1); // rows 0 and 3 are equal
/// assert_eq!(joined.logical_pairs(), 3); // also 0 and 3, 2 and 3
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn join_pairs(
    matrix: &VectorMatrix<'_>,
    threshold: Similarity,
    options: &JoinOptions<'_>,
) -> Result<PairStream, JoinError> {
    let JoinOptions { kernels, pool, progress, .. } = *options;
    let distinct = DistinctRows::of(matrix, kernels, pool, None, progress)?;
    let rerank = Rerank { matrix, distinct: &distinct, kernels, threshold };
    let sample = Sample::draw(&rerank, SAMPLED_ROWS);
    let budget = Budget { rerank, sample: &sample, options };
    budget.check_sample()?;
    let stages = Stages::choose(&rerank, &sample, options);
    let cascade = Cascade::prepare(rerank, stages.as_ref(), options)?;
    let sink = PairSink::new(options.scratch_dir, budget.pairs_max());
    options.progress.begin("compare pairs", Some(budget.pairs_total()));
    let did = compare_all(&cascade, &sink, options);
    options.progress.end();
    let (did, sorted) = (did?, sink.finish().map_err(JoinError::scratch(options.scratch_dir))?);
    let pairs = sorted.ok_or_else(|| budget.spent())?;
    let pairs_total = budget.pairs_total();
    let counters = JoinCounters { first_width: cascade.first_width(), pairs_total, ..did };
    let distinct_rows = distinct.len() as u64;
    Ok(PairStream::new(pairs, distinct.groups, distinct_rows, counters, None))
}

/// Distinct pairs that are always allowed.
const BUDGET_MIN: u64 = 1_000_000;

/// Distinct pairs allowed for each distinct row: a threshold that gives more does not discriminate.
const BUDGET_PER_ROW: u64 = 64;

/// A join is refused without being run when its sample has this many near pairs and they promise this many times the
/// budget.
const EARLY_PAIRS_MIN: u64 = 64;
const EARLY_EXCESS: u64 = 8;

/// Returns how many distinct pairs a join may find where its options do not say.
#[must_use]
pub const fn default_pair_budget(distinct_rows: u64) -> u64 {
    let budget = BUDGET_PER_ROW * distinct_rows;
    if budget > BUDGET_MIN { budget } else { BUDGET_MIN }
}

/// The budget of one join.
#[derive(Clone, Copy)]
pub(super) struct Budget<'a> {
    pub(super) rerank: Rerank<'a>,
    pub(super) sample: &'a Sample,
    pub(super) options: &'a JoinOptions<'a>,
}

impl Budget<'_> {
    /// Returns how many distinct pairs may be found.
    pub(super) fn pairs_max(&self) -> u64 {
        let row_count = self.rerank.distinct.len() as u64;
        self.options.pair_budget.unwrap_or_else(|| default_pair_budget(row_count))
    }

    /// Returns how many pairs of distinct rows there are.
    pub(super) fn pairs_total(&self) -> u64 {
        let row_count = self.rerank.distinct.len() as u64;
        row_count * row_count.saturating_sub(1) / 2
    }

    /// Refuses a join if its sample leaves no doubt that there are more pairs than the budget.
    pub(super) fn check_sample(&self) -> Result<(), JoinError> {
        let (pairs_max, pairs_total) = (self.pairs_max(), u128::from(self.pairs_total()));
        if pairs_total <= u128::from(pairs_max) {
            return Ok(());
        }
        let near = self.sample.near_pairs(&self.rerank, self.options);
        let sampled = u128::from(self.sample.pair_count());
        // near / sampled · all pairs > excess · budget, without division.
        let excess = sampled * u128::from(EARLY_EXCESS) * u128::from(pairs_max);
        if near >= EARLY_PAIRS_MIN && u128::from(near) * pairs_total > excess {
            return Err(self.spent());
        }
        Ok(())
    }

    /// Says that the budget is spent, and how similar sampled pairs are.
    pub(super) fn spent(&self) -> JoinError {
        JoinError::PairBudget {
            budget: self.pairs_max(),
            threshold: self.rerank.threshold.get(),
            histogram: self.sample.histogram(&self.rerank, self.options),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Shape, matrix, near, pool, rows};

    #[test]
    fn tasks_cover_every_two_blocks_once() {
        for blocks in [0, 1, 2, 17, 64, 130, 600] {
            let mut covered: Vec<_> =
                tasks(blocks).flat_map(|task| task.block_pairs().collect::<Vec<_>>()).collect();
            covered.sort_unstable();
            let all = (0..blocks).flat_map(|left| (left..blocks).map(move |right| (left, right)));
            assert!(covered.into_iter().eq(all), "{blocks}");
        }
    }

    /// The pairs of up to 4,096 tasks were held in memory before the first of them went to the scratch folder.
    #[test]
    fn pairs_leave_a_worker_block_by_block() {
        let values = rows(Shape::Anisotropic, 3_000, 16, 7);
        let (matrix, pool, folder) = (matrix(&values, 16), pool(2), tempfile::tempdir().unwrap());
        let options = JoinOptions { scratch_dir: Some(folder.path()), ..JoinOptions::new(&pool) };
        let (kernels, threshold) = (options.kernels, near(0.9));
        let distinct = &DistinctRows::of(&matrix, kernels, &pool, None, options.progress).unwrap();
        let rerank = Rerank { matrix: &matrix, distinct, kernels, threshold };
        let sample = Sample::draw(&rerank, SAMPLED_ROWS);
        let stages = Stages::choose(&rerank, &sample, &options);
        let cascade = Cascade::prepare(rerank, stages.as_ref(), &options).unwrap();
        let sink = PairSink::new(options.scratch_dir, u64::MAX);
        compare_all(&cascade, &sink, &options).unwrap();
        let blocks = 0..cascade.block_count();
        let largest = blocks.map(|block| cascade.pair_count(block, 0)).max().unwrap();
        let (held, found) = (sink.batch_max.load(Ordering::Relaxed), sink.found.into_inner());
        assert!(found > 1_000_000 && held <= largest && held * 50 < found, "{held} of {found}");
    }
}
