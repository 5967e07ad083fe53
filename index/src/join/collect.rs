//! Runs the comparisons in waves, in task order, within the pair budget.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cascade::{Cascade, Workspace};
use super::stream::PairRecord;
use super::{JoinCounters, JoinError, JoinOptions, Pair};
use crate::distinct::DistinctRows;
use crate::{Sorted, Spool};

/// Tasks whose results are held apart before they are put together.
const WAVE_TASKS: usize = 4_096;

/// Blocks on both sides of a task: the left ones stay in the second-level cache. There are fewer where there are
/// few blocks, so that every worker has some.
const TASK_LEFTS_MAX: usize = 4;
const TASK_RIGHTS_MAX: usize = 32;

/// Pairs that are kept in memory when there is a folder for more: 64 MiB.
const PAIRS_IN_MEMORY: usize = 1 << 22;

/// What became of a collection.
pub(super) enum Collected {
    /// All pairs, sorted by (left, right).
    Pairs(Sorted<PairRecord>, JoinCounters),
    /// There are more pairs than the budget.
    OverBudget,
}

/// Compares every two blocks and collects the pairs, or learns that they exceed `budget`.
///
/// Which of both happens depends on the number of pairs alone, not on the order of work.
pub(super) fn collect(
    cascade: &Cascade<'_>,
    budget: u64,
    options: &JoinOptions<'_>,
) -> Result<Collected, JoinError> {
    let found = AtomicU64::new(0);
    let mut tasks = tasks(cascade.block_count());
    let mut counters = JoinCounters::default();
    let mut pairs = Spool::new(options.scratch_dir, PAIRS_IN_MEMORY);
    loop {
        let wave: Vec<_> = tasks.by_ref().take(WAVE_TASKS).collect();
        if wave.is_empty() {
            break;
        }
        let results = options.pool.map(wave.len(), |task| {
            let mut work = Workspace::default();
            for (left, right) in wave[task].block_pairs() {
                if options.progress.cancelled() {
                    return Err(JoinError::Cancelled);
                }
                // What follows a spent budget is not worth its time: the answer is known.
                if found.load(Ordering::Relaxed) > budget {
                    break;
                }
                let before = work.pairs.len();
                cascade.compare(left, right, &mut work);
                found.fetch_add((work.pairs.len() - before) as u64, Ordering::Relaxed);
                options.progress.advance(cascade.pair_count(left, right));
            }
            Ok((work.pairs, work.counters))
        });
        let results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
        if found.load(Ordering::Relaxed) > budget {
            return Ok(Collected::OverBudget);
        }
        for (found, did) in results {
            counters.add(&did);
            for pair in found {
                pairs.push(pair.into()).map_err(|error| scratch_error(&error, options))?;
            }
        }
    }
    let sorted = pairs.finish().map_err(|error| scratch_error(&error, options))?;
    Ok(Collected::Pairs(sorted, counters))
}

/// Blocks that are compared with each other by one worker.
#[derive(Debug, Clone)]
struct Task {
    lefts: Range<usize>,
    rights: Range<usize>,
}

impl Task {
    /// Returns the pairs `(left, right)` with `left ≤ right`: a right block meets all left ones while it
    /// is in the cache.
    fn block_pairs(&self) -> impl Iterator<Item = (usize, usize)> {
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

pub(super) fn scratch_error(error: &io::Error, options: &JoinOptions<'_>) -> JoinError {
    let dir = options.scratch_dir.unwrap_or_else(|| Path::new("memory"));
    JoinError::Scratch { dir: dir.to_owned(), reason: error.to_string() }
}

/// Counts the pairs of rows that stand behind groups and pairs of distinct rows.
///
/// Fewer than 2⁶³: a matrix has fewer than 2³² rows.
pub(super) fn logical_pairs(
    distinct: &DistinctRows,
    pairs: impl ExactSizeIterator<Item = Pair>,
) -> u64 {
    let within = |count: u64| count * (count - 1) / 2;
    let inside: u64 = distinct.multiplicities.iter().map(|&count| within(count.into())).sum();
    let multiplicity = |row| {
        let position = distinct.rows.binary_search(&row);
        position.map_or(1, |at| u64::from(distinct.multiplicities[at]))
    };
    if distinct.groups.is_empty() {
        return pairs.len() as u64;
    }
    let between: u64 = pairs.map(|pair| multiplicity(pair.left) * multiplicity(pair.right)).sum();
    inside + between
}

#[cfg(test)]
mod tests {
    use super::tasks;

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
}
