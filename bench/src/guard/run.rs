//! [`GuardBench`]: judges and counts.

use std::collections::BTreeMap;

use memfold_bench::percentile;
use memfold_guard::{Difference, DifferenceKind, Guard, Side, Step, Verdict};
use serde::Serialize;

use super::pairs::{Label, LabelledPair, PairError};

/// A conflict scores at least this, and nothing else scores.
const CONFLICT_SCORE_MIN: f64 = 0.5;

/// Labels name kinds of pairs: more are a mistake, and each takes a line.
const LABELS_MAX: usize = 64;

/// The guard's verdict on one pair: a line of `memfold-bench guard --verdicts`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct PairOutcome {
    /// The pair's position among all, from 0.
    pub(super) index: u64,
    /// The verdict.
    pub(super) verdict: Verdict,
    /// How contradictory, in \[0, 1\].
    pub(super) contradiction_score: f64,
    /// Whether *b*, the newer text, could replace *a*, at any cosine.
    pub(super) mergeable: bool,
    /// The alignment, step by step.
    pub(super) steps: Vec<Step>,
    /// The kind of the conflict, where there is one.
    pub(super) signals: Vec<DifferenceKind>,
    /// All differences, in the order of *a*.
    pub(super) differences: Vec<Difference>,
}

/// Judges labelled pairs one after the other and keeps count.
pub(super) struct GuardBench<'a> {
    guard: &'a Guard,
    clock: &'a dyn Fn() -> f64,
    labels: BTreeMap<Label, LabelFigures>,
    curve: ContradictionCurve,
    /// Of every pair.
    microseconds: Vec<f64>,
}

impl<'a> GuardBench<'a> {
    /// Begins with no pair. `clock` gives seconds since any fixed instant.
    pub(super) fn new(guard: &'a Guard, clock: &'a dyn Fn() -> f64) -> Self {
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
    /// Where the pair has one label too many.
    pub(super) fn judge(&mut self, pair: &LabelledPair) -> Result<PairOutcome, PairError> {
        let begin = (self.clock)();
        let (older, newer) = (self.guard.read(&pair.a), self.guard.read(&pair.b));
        let judgement = self.guard.judge(&older, &newer);
        self.microseconds.push(((self.clock)() - begin) * 1e6);
        let outcome = PairOutcome {
            index: self.microseconds.len() as u64 - 1,
            verdict: judgement.verdict,
            contradiction_score: judgement.contradiction_score,
            mergeable: judgement.says_all(Side::Right),
            signals: judgement.conflict().into_iter().collect(),
            steps: judgement.steps,
            differences: judgement.differences,
        };
        self.count(pair, &outcome)?;
        Ok(outcome)
    }

    fn count(&mut self, pair: &LabelledPair, outcome: &PairOutcome) -> Result<(), PairError> {
        let LabelledPair { line, ref label, .. } = *pair;
        if self.labels.len() == LABELS_MAX && !self.labels.contains_key(label) {
            let reason = format!("yet another label, after {LABELS_MAX}");
            let hint = "labels name a few kinds of pairs, such as paraphrase";
            return Err(PairError::new(line, reason, Some(hint)));
        }
        let counts = self.labels.entry(label.clone()).or_default();
        counts.pairs += 1;
        counts.verdicts.count(outcome.verdict);
        counts.mergeable += u64::from(outcome.mergeable);
        self.curve.push(outcome.contradiction_score, label.is_contradiction());
        Ok(())
    }

    /// Returns the figures of all pairs so far; peaks of memory are the caller's to know.
    pub(super) fn report(self) -> GuardBenchReport {
        let (count, curve) = (self.microseconds.len(), self.curve.sorted());
        let figures = |(label, figures): (Label, LabelFigures)| LabelFigures {
            label: label.to_string(),
            // A label is there because a pair has it.
            mergeable_share: figures.mergeable as f64 / figures.pairs as f64,
            ..figures
        };
        GuardBenchReport {
            schema_version: 1,
            pairs: count as u64,
            contradiction_threshold: CONFLICT_SCORE_MIN,
            labels: self.labels.into_iter().map(figures).collect(),
            contradiction: (curve.wanted_count > 0).then(|| ContradictionFigures {
                labelled: curve.wanted_count,
                in_use: curve.at(CONFLICT_SCORE_MIN),
                best: curve.best(),
                curve: curve.points(),
            }),
            microseconds_per_pair: (count > 0).then(|| MicrosecondsPerPair {
                median: percentile(&self.microseconds, 0.5),
                mean: self.microseconds.iter().sum::<f64>() / count as f64,
            }),
            peak_rss_bytes: None,
            peak_anon_bytes: None,
        }
    }
}

/// What `memfold-bench guard --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct GuardBenchReport {
    /// Version of this format.
    pub(super) schema_version: u32,
    /// Pairs judged.
    pub(super) pairs: u64,
    /// The least score of a conflict.
    pub(super) contradiction_threshold: f64,
    /// By label: bands of similarity in ascending order, then words in the order of their bytes.
    pub(super) labels: Vec<LabelFigures>,
    /// How well contradictions are found; null where no pair is labelled `contradiction`.
    pub(super) contradiction: Option<ContradictionFigures>,
    /// What reading both texts and judging them took; null without pairs.
    pub(super) microseconds_per_pair: Option<MicrosecondsPerPair>,
    /// The largest resident size, with mapped files; null where the system does not tell.
    pub(super) peak_rss_bytes: Option<u64>,
    /// The largest anonymous size; null where the system does not tell.
    pub(super) peak_anon_bytes: Option<u64>,
}

/// Pairs of one label.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct LabelFigures {
    /// The label; numbers as a band such as `4.5-5`, which holds its lower bound.
    pub(super) label: String,
    /// Pairs with this label.
    pub(super) pairs: u64,
    /// What the guard calls them.
    pub(super) verdicts: VerdictCounts,
    /// Pairs whose `b` could merge `a`, whatever their cosine.
    pub(super) mergeable: u64,
    /// `mergeable` as a share of `pairs`, in [0, 1].
    pub(super) mergeable_share: f64,
}

/// Pairs by verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct VerdictCounts {
    /// They are proven to say the same.
    pub(super) same: u64,
    /// They are proven to say the same, and one says more.
    pub(super) extends: u64,
    /// Nothing is proven.
    pub(super) undecided: u64,
    /// A named specific, a role or an event differs.
    pub(super) different: u64,
    /// They say opposite things of the same.
    pub(super) conflict: u64,
}

/// How well contradictions are found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ContradictionFigures {
    /// Pairs labelled `contradiction`.
    pub(super) labelled: u64,
    /// At the threshold in use.
    pub(super) in_use: CurvePoint,
    /// At the threshold of the highest F1; null where no such pair has any sign.
    pub(super) best: Option<CurvePoint>,
    /// At the thresholds 0.01, 0.02 … 1.
    pub(super) curve: Vec<CurvePoint>,
}

/// Wall time of reading both texts and judging them, on one thread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct MicrosecondsPerPair {
    /// Half of the pairs take less.
    pub(super) median: f64,
    /// All time over all pairs.
    pub(super) mean: f64,
}

impl VerdictCounts {
    pub(super) const fn count(&mut self, verdict: Verdict) {
        let count = match verdict {
            Verdict::Same => &mut self.same,
            Verdict::Extends => &mut self.extends,
            Verdict::Undecided => &mut self.undecided,
            Verdict::Different => &mut self.different,
            Verdict::Conflict => &mut self.conflict,
        };
        *count += 1;
    }
}

/// Thresholds of a drawn curve: 0.01, 0.02 … 1.
const STEPS: u32 = 100;

/// Scores of pairs with and without the label `contradiction`, from which any threshold can be tried.
///
/// Pairs without any sign score 0 and are never found; of the others the score is kept, 8 bytes each.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ContradictionCurve {
    /// Scores of pairs labelled `contradiction`.
    wanted: Vec<f64>,
    /// Scores of the others.
    others: Vec<f64>,
    wanted_count: u64,
}

/// What a threshold finds. Shares are in \[0, 1\].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CurvePoint {
    /// Pairs with at least this score are called contradictory.
    pub(super) threshold: f64,
    /// Pairs called contradictory.
    pub(super) found: u64,
    /// Those of them that are labelled so.
    pub(super) right: u64,
    /// `right` as a share of `found`; null where nothing is found.
    pub(super) precision: Option<f64>,
    /// `right` as a share of all pairs labelled `contradiction`.
    pub(super) recall: f64,
    /// The harmonic mean of precision and recall; null where nothing is found.
    pub(super) f1: Option<f64>,
}

impl ContradictionCurve {
    /// Adds a pair's score, in \[0, 1\].
    pub(super) fn push(&mut self, score: f64, is_contradiction: bool) {
        self.wanted_count += u64::from(is_contradiction);
        if score > 0.0 {
            let scores = if is_contradiction { &mut self.wanted } else { &mut self.others };
            scores.push(score);
        }
    }

    /// Sorts the scores, so that thresholds can be tried. Takes n log n.
    pub(super) fn sorted(mut self) -> Self {
        self.wanted.sort_unstable_by(f64::total_cmp);
        self.others.sort_unstable_by(f64::total_cmp);
        self
    }

    /// Returns the precision and recall of a threshold above 0, of sorted scores. Takes log n.
    pub(super) fn at(&self, threshold: f64) -> CurvePoint {
        let from = |scores: &[f64]| {
            (scores.len() - scores.partition_point(|score| *score < threshold)) as u64
        };
        let right = from(&self.wanted);
        let found = right + from(&self.others);
        let wanted = self.wanted_count;
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
    pub(super) fn best(&self) -> Option<CurvePoint> {
        // F1 only rises at a score that a wanted pair has.
        let mut thresholds = self.wanted.clone();
        thresholds.dedup();
        let points = thresholds.into_iter().map(|threshold| self.at(threshold));
        points.max_by(|one, other| {
            let f1 = |point: &CurvePoint| point.f1.unwrap_or(0.0);
            f1(one).total_cmp(&f1(other)).then(one.threshold.total_cmp(&other.threshold))
        })
    }

    /// Returns the thresholds 0.01, 0.02 … 1.
    pub(super) fn points(&self) -> Vec<CurvePoint> {
        (1..=STEPS).map(|step| self.at(f64::from(step) / f64::from(STEPS))).collect()
    }
}
