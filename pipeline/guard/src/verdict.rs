//! The verdict interface: what the guard says of two texts, and why.

use std::ops::Range;

use super::SignalWeights;
use super::compare::{Finding, Frame, Weight};

/// What two texts are to each other, from safe to unsafe to merge.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// They say the same.
    Compatible,
    /// One says what the other lacks, without conflict.
    Complementary,
    /// They speak of different things or events.
    Different,
    /// They say opposite things of the same.
    Contradictory,
}

impl Verdict {
    /// Returns the name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Compatible => "compatible",
            Self::Complementary => "complementary",
            Self::Different => "different",
            Self::Contradictory => "contradictory",
        }
    }

    /// Tells whether texts of this verdict may be linked.
    #[must_use]
    pub const fn links(self) -> bool {
        matches!(self, Self::Compatible | Self::Complementary)
    }
}

/// What kind of thing differs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DifferenceKind {
    /// A number, with its unit.
    Number,
    /// A calendar date.
    Date,
    /// A time of day.
    Time,
    /// A version.
    Version,
    /// An id, hash, `#n`, port or other enumerator.
    Identifier,
    /// A URL, e-mail address or path.
    Locator,
    /// A code identifier.
    Code,
    /// A quoted string.
    Quote,
    /// A name.
    Name,
    /// An amount of money.
    Currency,
    /// One is negated.
    Negation,
    /// A modal flips (must / must not, always / never).
    Modality,
    /// Two words with opposite meaning.
    Antonym,
    /// Two members of a class that exclude each other.
    Exclusive,
    /// The same names or numbers in other places.
    Role,
    /// A word on each side that is not known to mean the same.
    UnknownWord,
}

/// One difference, with the bytes of each text that show it (`None`: nothing there).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Difference {
    /// What kind.
    pub kind: DifferenceKind,
    /// Byte range in the first text.
    pub left: Option<Range<usize>>,
    /// Byte range in the second text.
    pub right: Option<Range<usize>>,
    /// What stands there in the first text.
    pub left_text: String,
    /// What stands there in the second text.
    pub right_text: String,
}

/// A typed sign of contradiction and its weight in the score.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Signal {
    /// What kind of difference gave the sign.
    pub kind: DifferenceKind,
    /// Its share of the score, in (0, 1].
    pub weight: f64,
}

/// What the guard says of two texts.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// How contradictory, in \[0, 1\].
    pub contradiction_score: f64,
    /// The signs of contradiction, heaviest first.
    pub signals: Vec<Signal>,
    /// All differences, in the order of the first text.
    pub differences: Vec<Difference>,
}

/// Whether a survivor's text carries everything that a row's text says.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Absorption {
    /// Whether the row may be merged into the survivor.
    pub absorbable: bool,
    /// Specifics of the row (numbers, dates, names …) that the survivor lacks.
    pub lacking_specifics: Vec<String>,
    /// Content words of the row that the survivor lacks.
    pub lacking_words: Vec<String>,
    /// Share of the row's content words that the survivor lacks, in \[0, 1\].
    pub lacking_share: f64,
    /// Shingle containment of the row's full text in the survivor's, where either is longer than the embedder's window.
    pub containment: Option<f64>,
}

/// A word that neither side shares counts this much against the frame, per side that has one.
const UNSHARED_BOTH: f64 = 2.0;
/// A word that only one side has counts this much.
const UNSHARED_ONE: f64 = 0.35;
/// Words that only the negated text has: it denies something narrower than what the other says.
const UNSHARED_NEGATED: f64 = 1.5;
/// Words that only the affirmed text has: what it says includes what is denied.
const UNSHARED_AFFIRMED: f64 = 0.35;
/// Descriptions of something indefinite speak of one thing when they have much in common: with so many words, half.
const INDEFINITE_COMMON: f64 = 5.0;
/// A word that only one of them has speaks against it.
const INDEFINITE_UNSHARED: f64 = 2.0;
/// Where ids, dates or names differ, the texts speak of different things; where one text denies, the other's value for it
/// is no contradiction.
const OTHER_THING: f64 = 0.3;

/// Returns the weight of a sign before the frame is looked at.
const fn weight(kind: DifferenceKind, weights: &SignalWeights) -> f64 {
    match kind {
        DifferenceKind::Negation => weights.negation,
        DifferenceKind::Antonym => weights.antonym,
        DifferenceKind::Number | DifferenceKind::Currency => weights.number,
        DifferenceKind::Exclusive => weights.exclusive,
        DifferenceKind::Modality => weights.modality,
        DifferenceKind::Time => weights.time,
        _ => 0.0,
    }
}

/// Returns the signs of contradiction, heaviest first, each weighed by how much of its frame is shared.
pub(super) fn signals(findings: &[Finding], frame: Frame, weights: &SignalWeights) -> Vec<Signal> {
    let other_thing = findings.iter().any(|finding| finding.weight == Weight::Identity);
    let factor = if other_thing { OTHER_THING } else { 1.0 };
    let mut signals: Vec<Signal> = findings
        .iter()
        .filter(|finding| matches!(finding.weight, Weight::Excludes | Weight::Describes))
        .map(|finding| {
            let denied = finding.kind != DifferenceKind::Negation && frame.left_negated.is_some();
            let factor = if denied { factor * OTHER_THING } else { factor };
            let factor = match finding.weight {
                Weight::Describes => factor * one_thing(frame),
                _ => factor,
            };
            Signal {
                kind: finding.kind,
                weight: weight(finding.kind, weights) * factor * gate(finding.kind, frame),
            }
        })
        .filter(|signal| signal.weight > 0.0)
        .collect();
    signals.sort_by(|left, right| {
        right.weight.total_cmp(&left.weight).then(left.kind.cmp(&right.kind))
    });
    signals
}

/// Returns how far two descriptions of something indefinite speak of one thing.
fn one_thing(frame: Frame) -> f64 {
    let common = frame.common as f64;
    let unshared = (frame.left_rest + frame.right_rest) as f64;
    common / (common + INDEFINITE_COMMON + INDEFINITE_UNSHARED * unshared)
}

/// Returns the share of the frame that both texts have.
fn gate(kind: DifferenceKind, frame: Frame) -> f64 {
    let common = frame.common as f64;
    let (left, right) = (frame.left_rest as f64, frame.right_rest as f64);
    let unshared = match (kind, frame.left_negated) {
        (DifferenceKind::Negation, Some(left_negated)) => {
            let (negated, affirmed) = if left_negated { (left, right) } else { (right, left) };
            let swapped = frame.conflicts as f64;
            UNSHARED_NEGATED * negated + UNSHARED_AFFIRMED * affirmed + UNSHARED_BOTH * swapped
        }
        _ => UNSHARED_BOTH * left.min(right) + UNSHARED_ONE * (left - right).abs(),
    };
    if frame.common == 0 { 0.0 } else { common / (common + unshared) }
}

/// Returns the score: one minus the chance that every sign misleads.
pub(super) fn score(signals: &[Signal]) -> f64 {
    1.0 - signals.iter().map(|signal| 1.0 - signal.weight).product::<f64>()
}

/// Returns the verdict on what was found; from `threshold` on it is a contradiction.
///
/// What only differs and what contradicts are both kept apart, so no threshold makes a pair mergeable.
pub(super) fn verdict(findings: &[Finding], score: f64, threshold: f64) -> Verdict {
    if score >= threshold {
        return Verdict::Contradictory;
    }
    if findings.iter().any(|finding| finding.weight != Weight::Extra) {
        return Verdict::Different;
    }
    if findings.is_empty() { Verdict::Compatible } else { Verdict::Complementary }
}
