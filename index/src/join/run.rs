//! The steps of a join.

use memfold_simd::Similarity;

use super::cascade::Cascade;
use super::collect::{Collected, collect, logical_pairs};
use super::plan::{Plan, SAMPLED_ROWS};
use super::sample::Sample;
use super::verdict::Verdict;
use super::{JoinCounters, JoinError, JoinOptions, Pair, PairStream};
use crate::VectorMatrix;
use crate::distinct::DistinctRows;

/// Distinct pairs that are always allowed.
const BUDGET_MIN: u64 = 1_000_000;

/// Distinct pairs allowed for each distinct row: a threshold that gives more does not discriminate.
const BUDGET_PER_ROW: u64 = 64;

/// A sample must see this many times the budget, …
const EARLY_EXCESS: u64 = 8;

/// … in at least this many near pairs, before the join is refused without being run.
const EARLY_PAIRS_MIN: u64 = 64;

/// Finds every pair of rows whose canonical similarity is at least `threshold`.
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
/// use memfold_index::{JoinOptions, NoProgress, Pool, VectorMatrix, join_pairs};
/// use memfold_simd::{Kernels, Similarity};
///
/// let values = [1.0, 0.0, 0.0, 1.0, 0.9, 0.1, 1.0, 0.0];
/// let matrix = VectorMatrix::from_slice(&values, 2)?;
/// let options = JoinOptions {
///     pool: &Pool::new(None)?,
///     kernels: Kernels::active(),
///     pair_budget: None,
///     scratch_dir: None,
///     progress: &NoProgress,
/// };
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
    let distinct = DistinctRows::of(matrix, kernels, pool, progress)?;
    let row_count = distinct.len() as u64;
    let budget = options.pair_budget.unwrap_or_else(|| default_pair_budget(row_count));
    let verdict = Verdict { matrix, distinct: &distinct, kernels, threshold };
    let sample = Sample::draw(&verdict, SAMPLED_ROWS);
    let over_budget = || JoinError::PairBudget {
        budget,
        threshold: threshold.get(),
        histogram: sample.histogram(&verdict, options),
    };
    if expects_excess(&verdict, &sample, budget, options) {
        return Err(over_budget());
    }
    let plan = Plan::choose(&verdict, &sample, options);
    let cascade = Cascade::prepare(verdict, &plan, options)?;
    let pair_count = row_count * row_count.saturating_sub(1) / 2;
    options.progress.begin("compare pairs", Some(pair_count));
    let collected = collect(&cascade, budget, options);
    options.progress.end();
    let Collected::Pairs(pairs, did) = collected? else { return Err(over_budget()) };
    let counters =
        JoinCounters { first_width: cascade.first_width(), pairs_total: pair_count, ..did };
    let logical_pairs = logical_pairs(&distinct, pairs.iter().map(Pair::from));
    Ok(PairStream {
        sorted: pairs,
        groups: distinct.groups,
        distinct_rows: row_count,
        logical_pairs,
        counters,
    })
}

/// Returns how many distinct pairs a join may find where its options do not say.
#[must_use]
pub const fn default_pair_budget(distinct_rows: u64) -> u64 {
    let budget = BUDGET_PER_ROW * distinct_rows;
    if budget > BUDGET_MIN { budget } else { BUDGET_MIN }
}

/// Tells whether the sample leaves no doubt that there are more pairs than the budget.
fn expects_excess(
    verdict: &Verdict<'_>,
    sample: &Sample,
    budget: u64,
    options: &JoinOptions<'_>,
) -> bool {
    let row_count = verdict.distinct.len() as u128;
    let pair_count = row_count * row_count.saturating_sub(1) / 2;
    if pair_count <= u128::from(budget) {
        return false;
    }
    let near = sample.near_pairs(verdict, options);
    let sampled = u128::from(sample.pair_count());
    // near / sampled · all pairs > excess · budget, without division.
    near >= EARLY_PAIRS_MIN
        && u128::from(near) * pair_count > sampled * u128::from(EARLY_EXCESS) * u128::from(budget)
}
