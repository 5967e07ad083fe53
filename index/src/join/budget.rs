//! [`Budget`]: how many pairs a join may find, and what it says when there are more.

use super::sample::Sample;
use super::verdict::Verdict;
use super::{JoinError, JoinOptions};

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
