//! What the configuration changes in a verdict, and what it must not.

use super::*;
use crate::SignalWeights;

/// Pairs with one sign each, of every kind that has a weight.
const SIGNS: [(DifferenceKind, &str, &str); 6] = [
    (DifferenceKind::Negation, "The cache is enabled", "The cache is not enabled"),
    (DifferenceKind::Antonym, "The kiln is hot", "The kiln is cold"),
    (DifferenceKind::Number, "The timeout is 30 seconds", "The timeout is 45 seconds"),
    (DifferenceKind::Exclusive, "The door is purple", "The door is cyan"),
    (DifferenceKind::Modality, "Builds must be signed", "Builds may be signed"),
    (DifferenceKind::Time, "The backup starts at 14:00", "The backup starts at 15:30"),
];

fn tuned(contradiction_threshold: f64, weight: f64) -> Guard {
    let weights = SignalWeights {
        negation: weight,
        antonym: weight,
        number: weight,
        exclusive: weight,
        modality: weight,
        time: weight,
    };
    let builtin = GuardPolicy::default();
    Guard::new(&GuardPolicy { contradiction_threshold, weights, ..builtin }).unwrap()
}

#[test]
fn a_weight_is_what_a_sign_in_the_same_frame_scores() {
    let guard = tuned(0.6, 0.6);
    for (kind, left, right) in SIGNS {
        let judgement = judge(&guard, left, right);
        assert_eq!(judgement.signals, [Signal { kind, weight: 0.6 }], "{left} | {right}");
        assert_eq!(judgement.verdict, Verdict::Contradictory, "{left} | {right}");
    }
}

#[test]
fn no_threshold_and_no_weight_makes_a_difference_mergeable() {
    for guard in [tuned(0.7, 0.6), tuned(0.01, 0.0), tuned(1.0, 0.0)] {
        for (_, left, right) in SIGNS {
            assert_eq!(judge(&guard, left, right).verdict, Verdict::Different, "{left} | {right}");
        }
    }
}
