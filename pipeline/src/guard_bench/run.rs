//! [`GuardBench`]: judges and counts.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::curve::ContradictionCurve;
use super::report::{
    ContradictionFigures, GuardBenchReport, LabelFigures, MicrosecondsPerPair, VerdictCounts,
};
use super::{GuardBenchError, Label, LabelledPair};
use memfold_guard::{Difference, Guard, Signal, Verdict};

/// Labels name kinds of pairs: more are a mistake, and each takes a line.
const LABELS_MAX: usize = 64;

/// What the guard says of one pair: a line of `memfold bench guard --verdicts`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairOutcome {
    /// The pair's position among all, from 0.
    pub index: u64,
    /// The verdict.
    pub verdict: Verdict,
    /// How contradictory, in \[0, 1\].
    pub contradiction_score: f64,
    /// Whether *b*, the newer text, could absorb *a*, whatever the cosine.
    pub mergeable: bool,
    /// The signs of contradiction, heaviest first.
    pub signals: Vec<Signal>,
    /// All differences, in the order of *a*.
    pub differences: Vec<Difference>,
}

/// Judges labelled pairs one after the other and keeps count.
pub struct GuardBench<'a> {
    guard: &'a Guard,
    clock: &'a dyn Fn() -> f64,
    labels: BTreeMap<Label, Counts>,
    curve: ContradictionCurve,
    /// Of every pair.
    microseconds: Vec<f32>,
}

#[derive(Debug, Default)]
struct Counts {
    verdicts: VerdictCounts,
    pairs: u64,
    mergeable: u64,
}

impl<'a> GuardBench<'a> {
    /// Begins with no pair. `clock` gives seconds since any fixed instant.
    #[must_use]
    pub fn new(guard: &'a Guard, clock: &'a dyn Fn() -> f64) -> Self {
        Self {
            guard,
            clock,
            labels: BTreeMap::new(),
            curve: ContradictionCurve::default(),
            microseconds: Vec::new(),
        }
    }

    /// Judges a pair, *a* as the older text, and counts it.
    ///
    /// # Errors
    /// [`GuardBenchError::ManyLabels`] where the pair has one label too many.
    pub fn judge(&mut self, pair: &LabelledPair) -> Result<PairOutcome, GuardBenchError> {
        let begin = (self.clock)();
        let (older, newer) = (self.guard.read(&pair.a), self.guard.read(&pair.b));
        let judgement = self.guard.judge(&older, &newer);
        self.microseconds.push((((self.clock)() - begin) * 1e6) as f32);
        let outcome = PairOutcome {
            index: self.microseconds.len() as u64 - 1,
            verdict: judgement.verdict,
            contradiction_score: judgement.contradiction_score,
            mergeable: judgement.verdict.links() && self.guard.absorbs(&newer, &older).absorbable,
            signals: judgement.signals,
            differences: judgement.differences,
        };
        self.count(pair, &outcome)?;
        Ok(outcome)
    }

    fn count(&mut self, pair: &LabelledPair, outcome: &PairOutcome) -> Result<(), GuardBenchError> {
        let LabelledPair { line, ref label, .. } = *pair;
        if self.labels.len() == LABELS_MAX && !self.labels.contains_key(label) {
            return Err(GuardBenchError::ManyLabels { line, labels_max: LABELS_MAX });
        }
        let counts = self.labels.entry(label.clone()).or_default();
        counts.pairs += 1;
        counts.verdicts.count(outcome.verdict);
        counts.mergeable += u64::from(outcome.mergeable);
        self.curve.push(outcome.contradiction_score, label.is_contradiction());
        Ok(())
    }

    /// Returns the figures of all pairs so far; peaks of memory are the caller's to know.
    #[must_use]
    pub fn report(self) -> GuardBenchReport {
        let contradiction_threshold = self.guard.contradiction_threshold();
        GuardBenchReport {
            schema_version: 1,
            pairs: self.microseconds.len() as u64,
            contradiction_threshold,
            labels: self.labels.into_iter().map(figures).collect(),
            contradiction: contradiction(self.curve, contradiction_threshold),
            microseconds_per_pair: per_pair(self.microseconds),
            peak_rss_bytes: None,
            peak_anon_bytes: None,
        }
    }
}

impl fmt::Debug for GuardBench<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GuardBench").field("labels", &self.labels).finish_non_exhaustive()
    }
}

fn figures((label, counts): (Label, Counts)) -> LabelFigures {
    LabelFigures {
        label: label.to_string(),
        pairs: counts.pairs,
        verdicts: counts.verdicts,
        mergeable: counts.mergeable,
        // A label is there because a pair has it.
        mergeable_share: counts.mergeable as f64 / counts.pairs as f64,
    }
}

fn contradiction(curve: ContradictionCurve, in_use: f64) -> Option<ContradictionFigures> {
    let labelled = curve.wanted_count();
    let curve = curve.sorted();
    (labelled > 0).then(|| ContradictionFigures {
        labelled,
        in_use: curve.at(in_use),
        best: curve.best(),
        curve: curve.points(),
    })
}

fn per_pair(mut microseconds: Vec<f32>) -> Option<MicrosecondsPerPair> {
    let count = microseconds.len();
    let total: f64 = microseconds.iter().copied().map(f64::from).sum();
    (count > 0).then(|| {
        let (_, median, _) = microseconds.select_nth_unstable_by(count / 2, f32::total_cmp);
        MicrosecondsPerPair { median: f64::from(*median), mean: total / count as f64 }
    })
}
