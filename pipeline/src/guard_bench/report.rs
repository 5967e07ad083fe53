//! [`GuardBenchReport`]: the figures, for programs.

use schemars::JsonSchema;
use serde::Serialize;

use super::CurvePoint;
use memfold_guard::Verdict;

/// What `memfold bench guard --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct GuardBenchReport {
    /// Version of this format.
    pub schema_version: u32,
    /// Pairs judged.
    pub pairs: u64,
    /// From this score on a pair is contradictory: `detect.contradiction_threshold`.
    pub contradiction_threshold: f64,
    /// By label: bands of similarity in ascending order, then words in the order of their bytes.
    pub labels: Vec<LabelFigures>,
    /// How well contradictions are found; null where no pair is labelled `contradiction`.
    pub contradiction: Option<ContradictionFigures>,
    /// What reading both texts and judging them took; null without pairs.
    pub microseconds_per_pair: Option<MicrosecondsPerPair>,
    /// The largest resident size, with mapped files; null where the system does not tell.
    pub peak_rss_bytes: Option<u64>,
    /// The largest anonymous size; null where the system does not tell.
    pub peak_anon_bytes: Option<u64>,
}

/// Pairs of one label.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LabelFigures {
    /// The label; numbers as a band such as `4.5-5`, which holds its lower bound.
    pub label: String,
    /// Pairs with this label.
    pub pairs: u64,
    /// What the guard calls them.
    pub verdicts: VerdictCounts,
    /// Pairs whose `b` could absorb `a`, whatever their cosine.
    pub mergeable: u64,
    /// `mergeable` as a share of `pairs`, in [0, 1].
    pub mergeable_share: f64,
}

/// Pairs by verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct VerdictCounts {
    /// They say the same.
    pub compatible: u64,
    /// One says what the other lacks, without conflict.
    pub complementary: u64,
    /// They speak of different things or events.
    pub different: u64,
    /// They say opposite things of the same.
    pub contradictory: u64,
}

/// How well contradictions are found.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ContradictionFigures {
    /// Pairs labelled `contradiction`.
    pub labelled: u64,
    /// At the threshold in use.
    pub in_use: CurvePoint,
    /// At the threshold of the highest F1; null where no such pair has any sign.
    pub best: Option<CurvePoint>,
    /// At the thresholds 0.01, 0.02 … 1.
    pub curve: Vec<CurvePoint>,
}

/// Wall time of reading both texts and judging them, on one thread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct MicrosecondsPerPair {
    /// Half of the pairs take less.
    pub median: f64,
    /// All time over all pairs.
    pub mean: f64,
}

impl VerdictCounts {
    pub(super) const fn count(&mut self, verdict: Verdict) {
        let count = match verdict {
            Verdict::Compatible => &mut self.compatible,
            Verdict::Complementary => &mut self.complementary,
            Verdict::Different => &mut self.different,
            Verdict::Contradictory => &mut self.contradictory,
        };
        *count += 1;
    }
}
