//! The verdict interface: what the guard says of two texts, and why.

use std::ops::Range;

use super::SignalWeights;
use super::compare::{Finding, Frame, Weight};
use super::proof::{Side, Step, StepKind, TextShape};

/// What two texts are to each other, from safe to unsafe to merge.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// They are proven to say the same.
    Same,
    /// They are proven to say the same, and one says more.
    Extends,
    /// Nothing is proven.
    Undecided,
    /// A named specific, a role or an event differs.
    Different,
    /// They say opposite things of the same.
    Contradictory,
}

impl Verdict {
    /// Returns the name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Extends => "extends",
            Self::Undecided => "undecided",
            Self::Different => "different",
            Self::Contradictory => "contradictory",
        }
    }

    /// Tells whether texts of this verdict may be merged.
    #[must_use]
    pub const fn is_proven(self) -> bool {
        matches!(self, Self::Same | Self::Extends)
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

impl DifferenceKind {
    /// Tells whether it is a value that a series of events has one of each: a number, version, date, time or amount.
    #[must_use]
    pub const fn is_value(self) -> bool {
        matches!(self, Self::Number | Self::Version | Self::Date | Self::Time | Self::Currency)
    }
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
    /// The side that says more, where one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longer: Option<Side>,
    /// The proof of what is the same, in the order of the texts; empty where nothing is proven.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proof: Vec<Step>,
    /// How contradictory, in \[0, 1\].
    pub contradiction_score: f64,
    /// Whether they differ in one value only, of which the newer is the present one.
    pub update: bool,
    /// Whether they may say the same for all that is known: they are proven to, or nothing but words that only one of them
    /// has and names that stand in another place speaks against it.
    pub could_be_same: bool,
    /// The signs of contradiction, heaviest first.
    pub signals: Vec<Signal>,
    /// All differences, in the order of the first text; none where the texts say the same.
    pub differences: Vec<Difference>,
}

impl Judgement {
    /// Tells whether the text of a side is proven to say all that the other says.
    #[must_use]
    pub fn says_all(&self, side: Side) -> bool {
        match self.verdict {
            Verdict::Same => true,
            Verdict::Extends => self.longer == Some(side),
            _ => false,
        }
    }

    /// Returns the bytes of what only the longer side says.
    pub fn additions(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let added = self.proof.iter().filter(|step| step.kind == StepKind::Extension);
        added.map(|step| match self.longer {
            Some(Side::Right) => step.right.clone(),
            _ => step.left.clone(),
        })
    }
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
/// The same for descriptions that are equal but for one word.
const EQUAL_COMMON: f64 = 1.4;
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
    let apart = if frame.equal { EQUAL_COMMON } else { INDEFINITE_COMMON };
    common / (common + apart + INDEFINITE_UNSHARED * unshared)
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

/// Returns the verdict on two texts of which no sameness is proven; from `threshold` on they contradict.
pub(super) fn unproven(findings: &[Finding], score: f64, threshold: f64) -> Verdict {
    let named = |finding: &Finding| {
        finding.weight != Weight::Extra && finding.kind != DifferenceKind::UnknownWord
    };
    match () {
        () if score >= threshold => Verdict::Contradictory,
        () if findings.iter().any(named) => Verdict::Different,
        () => Verdict::Undecided,
    }
}

/// Words that depend on how a sentence is built: where more differs, these say little.
const FRAME_WORDS: [&str; 19] = [
    "about", "are", "as", "at", "by", "for", "from", "had", "has", "in", "is", "of", "on",
    "through", "to", "via", "was", "were", "with",
];

/// Tells whether texts of which nothing is proven may say the same.
pub(super) fn could_be_same(judgement: &Judgement, shape: TextShape) -> bool {
    let differences = &judgement.differences;
    let built_otherwise = differences.len() > 1 || shape.other_length;
    let frames = |text: &str| FRAME_WORDS.contains(&&*text.to_lowercase());
    let leaves_open = |difference: &Difference| match difference.kind {
        DifferenceKind::Role | DifferenceKind::UnknownWord => true,
        DifferenceKind::Exclusive
            if frames(&difference.left_text) && frames(&difference.right_text) =>
        {
            built_otherwise
        }
        DifferenceKind::Negation => shape.both_deny,
        DifferenceKind::Modality => false,
        _ => difference.left.is_none() || difference.right.is_none(),
    };
    match judgement.verdict {
        Verdict::Same | Verdict::Extends => true,
        Verdict::Contradictory => false,
        _ => !judgement.update && differences.iter().all(leaves_open),
    }
}
