//! How contradictory what was found is.

use super::compare::{Finding, Frame, Weight};
use super::verdict::{DifferenceKind, Signal, Verdict};
use crate::SignalWeights;

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
