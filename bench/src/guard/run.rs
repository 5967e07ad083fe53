//! [`GuardBench`]: judges and counts.

use std::collections::BTreeMap;
use std::fmt;

use memfold_guard::{Difference, DifferenceKind, Guard, Side, Step, Verdict};
use serde::Serialize;

use super::{GuardBenchError, Label, LabelledPair};

/// A conflict scores at least this, and nothing else scores.
const CONFLICT_SCORE_MIN: f64 = 0.5;

/// Labels name kinds of pairs: more are a mistake, and each takes a line.
const LABELS_MAX: usize = 64;

/// The guard's verdict on one pair: a line of `memfold-bench guard --verdicts`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PairOutcome {
    /// The pair's position among all, from 0.
    pub(crate) index: u64,
    /// The verdict.
    pub(crate) verdict: Verdict,
    /// How contradictory, in \[0, 1\].
    pub(crate) contradiction_score: f64,
    /// Whether *b*, the newer text, could replace *a*, at any cosine.
    pub(crate) mergeable: bool,
    /// The alignment, step by step.
    pub(crate) steps: Vec<Step>,
    /// The kind of the conflict, where there is one.
    pub(crate) signals: Vec<DifferenceKind>,
    /// All differences, in the order of *a*.
    pub(crate) differences: Vec<Difference>,
}

/// Judges labelled pairs one after the other and keeps count.
pub(crate) struct GuardBench<'a> {
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
    pub(crate) fn new(guard: &'a Guard, clock: &'a dyn Fn() -> f64) -> Self {
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
    pub(crate) fn judge(&mut self, pair: &LabelledPair) -> Result<PairOutcome, GuardBenchError> {
        let begin = (self.clock)();
        let (older, newer) = (self.guard.read(&pair.a), self.guard.read(&pair.b));
        let judgement = self.guard.judge(&older, &newer);
        self.microseconds.push((((self.clock)() - begin) * 1e6) as f32);
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
    pub(crate) fn report(self) -> GuardBenchReport {
        let contradiction_threshold = CONFLICT_SCORE_MIN;
        GuardBenchReport {
            schema_version: 1,
            pairs: self.microseconds.len() as u64,
            contradiction_threshold,
            labels: self.labels.into_iter().map(|(label, counts)| figures(label, counts)).collect(),
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

fn figures(label: Label, counts: Counts) -> LabelFigures {
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

/// What `memfold-bench guard --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct GuardBenchReport {
    /// Version of this format.
    pub(crate) schema_version: u32,
    /// Pairs judged.
    pub(crate) pairs: u64,
    /// The least score of a conflict.
    pub(crate) contradiction_threshold: f64,
    /// By label: bands of similarity in ascending order, then words in the order of their bytes.
    pub(crate) labels: Vec<LabelFigures>,
    /// How well contradictions are found; null where no pair is labelled `contradiction`.
    pub(crate) contradiction: Option<ContradictionFigures>,
    /// What reading both texts and judging them took; null without pairs.
    pub(crate) microseconds_per_pair: Option<MicrosecondsPerPair>,
    /// The largest resident size, with mapped files; null where the system does not tell.
    pub(crate) peak_rss_bytes: Option<u64>,
    /// The largest anonymous size; null where the system does not tell.
    pub(crate) peak_anon_bytes: Option<u64>,
}

/// Pairs of one label.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct LabelFigures {
    /// The label; numbers as a band such as `4.5-5`, which holds its lower bound.
    pub(crate) label: String,
    /// Pairs with this label.
    pub(crate) pairs: u64,
    /// What the guard calls them.
    pub(crate) verdicts: VerdictCounts,
    /// Pairs whose `b` could absorb `a`, whatever their cosine.
    pub(crate) mergeable: u64,
    /// `mergeable` as a share of `pairs`, in [0, 1].
    pub(crate) mergeable_share: f64,
}

/// Pairs by verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct VerdictCounts {
    /// They are proven to say the same.
    pub(crate) same: u64,
    /// They are proven to say the same, and one says more.
    pub(crate) extends: u64,
    /// Nothing is proven.
    pub(crate) undecided: u64,
    /// A named specific, a role or an event differs.
    pub(crate) different: u64,
    /// They say opposite things of the same.
    pub(crate) conflict: u64,
}

/// How well contradictions are found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ContradictionFigures {
    /// Pairs labelled `contradiction`.
    pub(crate) labelled: u64,
    /// At the threshold in use.
    pub(crate) in_use: CurvePoint,
    /// At the threshold of the highest F1; null where no such pair has any sign.
    pub(crate) best: Option<CurvePoint>,
    /// At the thresholds 0.01, 0.02 … 1.
    pub(crate) curve: Vec<CurvePoint>,
}

/// Wall time of reading both texts and judging them, on one thread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct MicrosecondsPerPair {
    /// Half of the pairs take less.
    pub(crate) median: f64,
    /// All time over all pairs.
    pub(crate) mean: f64,
}

impl VerdictCounts {
    pub(crate) const fn count(&mut self, verdict: Verdict) {
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
pub(crate) struct ContradictionCurve {
    /// Scores of pairs labelled `contradiction`.
    wanted: Vec<f64>,
    /// Scores of the others.
    others: Vec<f64>,
    wanted_count: u64,
}

/// What a threshold finds. Shares are in \[0, 1\].
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CurvePoint {
    /// Pairs with at least this score are called contradictory.
    pub(crate) threshold: f64,
    /// Pairs called contradictory.
    pub(crate) found: u64,
    /// Those of them that are labelled so.
    pub(crate) right: u64,
    /// `right` as a share of `found`; null where nothing is found.
    pub(crate) precision: Option<f64>,
    /// `right` as a share of all pairs labelled `contradiction`.
    pub(crate) recall: f64,
    /// The harmonic mean of precision and recall; null where nothing is found.
    pub(crate) f1: Option<f64>,
}

impl ContradictionCurve {
    /// Adds a pair's score, in \[0, 1\].
    pub(crate) fn push(&mut self, score: f64, is_contradiction: bool) {
        self.wanted_count += u64::from(is_contradiction);
        if score > 0.0 {
            let scores = if is_contradiction { &mut self.wanted } else { &mut self.others };
            scores.push(score);
        }
    }

    /// Returns how many pairs are labelled `contradiction`.
    #[must_use]
    pub(crate) const fn wanted_count(&self) -> u64 {
        self.wanted_count
    }

    /// Sorts the scores, so that thresholds can be tried. Takes n log n.
    #[must_use]
    pub(crate) fn sorted(mut self) -> SortedCurve {
        self.wanted.sort_unstable_by(f64::total_cmp);
        self.others.sort_unstable_by(f64::total_cmp);
        SortedCurve(self)
    }
}

/// A curve to read from: a threshold takes log n.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SortedCurve(ContradictionCurve);

impl SortedCurve {
    /// Returns the precision and recall of a threshold above 0.
    #[must_use]
    pub(crate) fn at(&self, threshold: f64) -> CurvePoint {
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
    pub(crate) fn best(&self) -> Option<CurvePoint> {
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
    pub(crate) fn points(&self) -> Vec<CurvePoint> {
        (1..=STEPS).map(|step| self.at(f64::from(step) / f64::from(STEPS))).collect()
    }
}
