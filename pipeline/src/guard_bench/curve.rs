//! [`ContradictionCurve`]: what each threshold of the score finds.

use schemars::JsonSchema;
use serde::Serialize;

/// Thresholds of a drawn curve: 0.01, 0.02 … 1.
const STEPS: u32 = 100;

/// Scores of pairs with and without the label `contradiction`, from which any threshold can be tried.
///
/// Pairs without any sign score 0 and are never found; of the others the score is kept, 8 bytes each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContradictionCurve {
    /// Scores of pairs labelled `contradiction`.
    wanted: Vec<f64>,
    /// Scores of the others.
    others: Vec<f64>,
    wanted_count: u64,
}

/// What a threshold finds. Shares are in \[0, 1\].
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct CurvePoint {
    /// Pairs with at least this score are called contradictory.
    pub threshold: f64,
    /// Pairs called contradictory.
    pub found: u64,
    /// Those of them that are labelled so.
    pub right: u64,
    /// `right` as a share of `found`; null where nothing is found.
    pub precision: Option<f64>,
    /// `right` as a share of all pairs labelled `contradiction`.
    pub recall: f64,
    /// The harmonic mean of precision and recall; null where nothing is found.
    pub f1: Option<f64>,
}

impl ContradictionCurve {
    /// Adds a pair's score, in \[0, 1\].
    pub fn push(&mut self, score: f64, is_contradiction: bool) {
        self.wanted_count += u64::from(is_contradiction);
        if score > 0.0 {
            let scores = if is_contradiction { &mut self.wanted } else { &mut self.others };
            scores.push(score);
        }
    }

    /// Returns how many pairs are labelled `contradiction`.
    #[must_use]
    pub const fn wanted_count(&self) -> u64 {
        self.wanted_count
    }

    /// Sorts the scores, so that thresholds can be tried. Takes n log n.
    #[must_use]
    pub fn sorted(mut self) -> SortedCurve {
        self.wanted.sort_unstable_by(f64::total_cmp);
        self.others.sort_unstable_by(f64::total_cmp);
        SortedCurve(self)
    }
}

/// A curve to read from: a threshold takes log n.
#[derive(Debug, Clone, PartialEq)]
pub struct SortedCurve(ContradictionCurve);

impl SortedCurve {
    /// Returns what a threshold above 0 finds.
    #[must_use]
    pub fn at(&self, threshold: f64) -> CurvePoint {
        let from = |scores: &[f64]| {
            (scores.len() - scores.partition_point(|score| *score < threshold)) as u64
        };
        let right = from(&self.0.wanted);
        let found = right + from(&self.0.others);
        let wanted = self.0.wanted_count;
        let share = |of: u64| (of > 0).then(|| right as f64 / of as f64);
        CurvePoint {
            threshold,
            found,
            right,
            precision: share(found),
            recall: share(wanted).unwrap_or(0.0),
            f1: (found > 0).then(|| 2.0 * right as f64 / (found + wanted) as f64),
        }
    }

    /// Returns the threshold of the highest F1 among all scores, the highest of equally good ones; `None` where no
    /// pair scores.
    #[must_use]
    pub fn best(&self) -> Option<CurvePoint> {
        // F1 only rises at a score that a wanted pair has.
        let mut thresholds = self.0.wanted.clone();
        thresholds.dedup();
        let points = thresholds.into_iter().map(|threshold| self.at(threshold));
        points.max_by(|one, other| {
            let f1 = |point: &CurvePoint| point.f1.unwrap_or(0.0);
            f1(one).total_cmp(&f1(other)).then(one.threshold.total_cmp(&other.threshold))
        })
    }

    /// Returns the thresholds 0.01, 0.02 … 1.
    #[must_use]
    pub fn points(&self) -> Vec<CurvePoint> {
        (1..=STEPS).map(|step| self.at(f64::from(step) / f64::from(STEPS))).collect()
    }
}
