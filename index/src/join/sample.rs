//! [`Sample`]: rows that stand for all.

use super::JoinOptions;
use super::verdict::Verdict;
use crate::transform::normalize_into;

/// Rows whose pairs the cost model and the histogram look at.
const COMPARED_ROWS: usize = 512;

/// Similarities tabulated for a person who must choose a threshold.
const TABULATED: [f64; 14] =
    [-0.5, 0.0, 0.25, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99, 0.999];

/// The distinct rows with the smallest hashes: a sample that the order of rows does not change.
#[derive(Debug)]
pub(super) struct Sample {
    /// Positions among the distinct rows, by hash.
    positions: Vec<usize>,
}

impl Sample {
    /// Draws up to `count` rows.
    pub(super) fn draw(verdict: &Verdict<'_>, count: usize) -> Self {
        let hashes = &verdict.distinct.hashes;
        let mut positions: Vec<usize> = (0..hashes.len()).collect();
        if positions.len() > count {
            positions.select_nth_unstable_by_key(count, |&at| (hashes[at], at));
            positions.truncate(count);
        }
        positions.sort_unstable_by_key(|&at| (hashes[at], at));
        Self { positions }
    }

    /// Returns the positions of all sampled rows among the distinct rows, by hash.
    pub(super) fn positions(&self) -> &[usize] {
        &self.positions
    }

    /// Returns the unit vectors of all sampled rows.
    pub(super) fn units(&self, verdict: &Verdict<'_>, options: &JoinOptions<'_>) -> Vec<f32> {
        let units = options.pool.map(self.positions.len(), |at| {
            let mut unit = Vec::with_capacity(verdict.matrix.dim());
            let position = self.positions[at];
            let squared_norm = verdict.distinct.squared_norms[position];
            normalize_into(verdict.vector(position), squared_norm, &mut unit);
            unit
        });
        units.concat()
    }

    /// Returns how many rows come first whose pairs are looked at. Directions are learned from the others: rows
    /// differ more in directions that were learned from them than rows in general do.
    pub(super) fn compared_count(&self) -> usize {
        self.positions.len().min(COMPARED_ROWS)
    }

    /// Returns the rows whose pairs are looked at.
    pub(super) fn compared(&self) -> &[usize] {
        &self.positions[..self.compared_count()]
    }

    /// Returns how many pairs are looked at.
    pub(super) fn pair_count(&self) -> u64 {
        let rows = self.compared().len() as u64;
        rows * rows.saturating_sub(1) / 2
    }

    /// Counts the sampled pairs at or above the threshold.
    pub(super) fn near_pairs(&self, verdict: &Verdict<'_>, options: &JoinOptions<'_>) -> u64 {
        let rows = self.compared();
        let near = |i: usize| {
            rows[..i].iter().filter(|&&other| verdict.decide(other, rows[i]).is_some()).count()
        };
        options.pool.map(rows.len(), near).iter().sum::<usize>() as u64
    }

    /// Returns the share of sampled pairs at or above each tabulated similarity, ascending.
    pub(super) fn histogram(
        &self,
        verdict: &Verdict<'_>,
        options: &JoinOptions<'_>,
    ) -> Vec<(f64, f64)> {
        let rows = self.compared();
        let found = options.pool.map(rows.len(), |i| {
            let similarities = rows[..i].iter().filter_map(|&at| verdict.similarity(at, rows[i]));
            similarities.map(|found| found.get()).collect::<Vec<_>>()
        });
        let found = found.concat();
        let count = |least: f64| found.iter().filter(|&&similarity| similarity >= least).count();
        let share = |least: f64| count(least) as f64 / found.len().max(1) as f64;
        TABULATED.iter().map(|&least| (least, share(least))).collect()
    }
}
