//! The steps of a join.
//!
//! [`Budget`]: how many pairs a join may find, and what it says when there are more.

use memfold_simd::Similarity;

use super::cascade::Cascade;
use super::plan::{Plan, SAMPLED_ROWS};
use super::sample::Sample;
use super::stream::{Collected, collect};
use super::verdict::Verdict;
use super::{JoinCounters, JoinError, JoinOptions, PairStream};
use crate::VectorMatrix;
use crate::distinct::DistinctRows;

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
    let distinct = DistinctRows::of(matrix, kernels, pool, progress)?;
    let verdict = Verdict { matrix, distinct: &distinct, kernels, threshold };
    let sample = Sample::draw(&verdict, SAMPLED_ROWS);
    let budget = Budget { verdict, sample: &sample, options };
    budget.check_sample()?;
    let plan = Plan::choose(&verdict, &sample, options);
    let cascade = Cascade::prepare(verdict, &plan, options)?;
    options.progress.begin("compare pairs", Some(budget.pairs_total()));
    let collected = collect(&cascade, budget.pairs_max(), options);
    options.progress.end();
    let Collected::Pairs(pairs, did) = collected? else { return Err(budget.spent()) };
    let pairs_total = budget.pairs_total();
    let counters = JoinCounters { first_width: cascade.first_width(), pairs_total, ..did };
    Ok(PairStream::new(pairs, distinct, counters, None))
}

/// Distinct pairs that are always allowed.
const BUDGET_MIN: u64 = 1_000_000;

/// Distinct pairs allowed for each distinct row: a threshold that gives more does not discriminate.
const BUDGET_PER_ROW: u64 = 64;

/// A sample must see this many times the budget, …
const EARLY_EXCESS: u64 = 8;

/// … in at least this many near pairs, before the join is refused without being run.
const EARLY_PAIRS_MIN: u64 = 64;

/// Returns how many distinct pairs a join may find where its options do not say.
#[must_use]
pub const fn default_pair_budget(distinct_rows: u64) -> u64 {
    let budget = BUDGET_PER_ROW * distinct_rows;
    if budget > BUDGET_MIN { budget } else { BUDGET_MIN }
}

/// The budget of one join.
#[derive(Clone, Copy)]
pub(super) struct Budget<'a> {
    pub(super) verdict: Verdict<'a>,
    pub(super) sample: &'a Sample,
    pub(super) options: &'a JoinOptions<'a>,
}

impl Budget<'_> {
    /// Returns how many distinct pairs may be found.
    pub(super) fn pairs_max(&self) -> u64 {
        let row_count = self.verdict.distinct.len() as u64;
        self.options.pair_budget.unwrap_or_else(|| default_pair_budget(row_count))
    }

    /// Returns how many pairs of distinct rows there are.
    pub(super) fn pairs_total(&self) -> u64 {
        let row_count = self.verdict.distinct.len() as u64;
        row_count * row_count.saturating_sub(1) / 2
    }

    /// Refuses a join whose sample leaves no doubt that there are more pairs than the budget.
    pub(super) fn check_sample(&self) -> Result<(), JoinError> {
        let (pairs_max, pairs_total) = (self.pairs_max(), u128::from(self.pairs_total()));
        if pairs_total <= u128::from(pairs_max) {
            return Ok(());
        }
        let near = self.sample.near_pairs(&self.verdict, self.options);
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
            threshold: self.verdict.threshold.get(),
            histogram: self.sample.histogram(&self.verdict, self.options),
        }
    }
}
