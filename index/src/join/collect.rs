//! Runs the comparisons in waves, in task order, within the pair budget.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cascade::Cascade;
use super::distinct::DistinctRows;
use super::stream::PairRecord;
use super::{JoinError, JoinOptions, Pair};
use crate::{Sorted, Spool};

/// Comparisons whose results are held apart before they are put together.
const WAVE_TASKS: usize = 4_096;

/// Pairs that are kept in memory when there is a folder for more: 64 MiB.
const PAIRS_IN_MEMORY: usize = 1 << 22;

/// What became of a collection.
pub(super) enum Collected {
    /// All pairs, sorted by (left, right).
    Pairs(Sorted<PairRecord>),
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
    let blocks = cascade.block_count();
    let mut tasks = (0..blocks).flat_map(|left| (left..blocks).map(move |right| (left, right)));
    let found = AtomicU64::new(0);
    let mut pairs = Spool::new(options.scratch_dir, PAIRS_IN_MEMORY);
    loop {
        let wave: Vec<_> = tasks.by_ref().take(WAVE_TASKS).collect();
        if wave.is_empty() {
            break;
        }
        let results = options.pool.map(wave.len(), |task| {
            if options.progress.cancelled() {
                return Err(JoinError::Cancelled);
            }
            // Later tasks of a spent budget are not worth their time: the answer is known.
            if found.load(Ordering::Relaxed) > budget {
                return Ok(Vec::new());
            }
            let (left, right) = wave[task];
            let pairs = cascade.compare(left, right);
            found.fetch_add(pairs.len() as u64, Ordering::Relaxed);
            options.progress.advance(cascade.pair_count(left, right));
            Ok(pairs)
        });
        let results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
        if found.load(Ordering::Relaxed) > budget {
            return Ok(Collected::OverBudget);
        }
        for pair in results.into_iter().flatten() {
            pairs.push(pair.into()).map_err(|error| scratch_error(&error, options))?;
        }
    }
    let sorted = pairs.finish().map_err(|error| scratch_error(&error, options))?;
    Ok(Collected::Pairs(sorted))
}

fn scratch_error(error: &io::Error, options: &JoinOptions<'_>) -> JoinError {
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
