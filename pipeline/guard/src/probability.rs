//! How probable it is that two texts say the same, where nothing is proven: a logistic model over
//! features of both texts.
//!
//! It orders questions to a person or a judge and never decides. [`WEIGHTS`] are fitted by `bench/guard/probability.py`
//! on labelled pairs; `docs/quality.md` has its reliability.

use crate::align::StepKind;
use crate::guard::Guard;
use crate::reading::Reading;
use crate::verdict::{Judgement, Verdict};

/// The number of features.
pub const FEATURES: usize = 8;

/// Weights of the features, in their order.
const WEIGHTS: [f64; FEATURES] = [0.759, 2.079, 1.189, -0.342, -0.849, 0.690, -0.438, -0.568];
const BIAS: f64 = -1.169;

/// A similarity in the middle of the range of proposals.
const SIMILARITY_CENTER: f64 = 0.85;

impl Guard {
    /// Returns the probability that two texts of a similarity (a cosine in \[-1, 1\]) say the same or that one contains the
    /// other, in \[0, 1\] and hundredths; 0 where they cannot. Does not depend on their order. Near linear in the lengths.
    #[must_use]
    pub fn probability(
        &self,
        older: &Reading,
        newer: &Reading,
        judgement: &Judgement,
        similarity: f64,
    ) -> f64 {
        if !judgement.could_be_same {
            return 0.0;
        }
        if judgement.verdict == Verdict::Same {
            return 1.0;
        }
        let features = self.features(older, newer, judgement, similarity);
        let sum: f64 = features.iter().zip(WEIGHTS).map(|(value, weight)| value * weight).sum();
        // In hundredths: `exp` may differ in its last place from one platform to the next.
        (100.0 / (1.0 + (-(sum + BIAS)).exp())).round() / 100.0
    }

    /// Returns the features of the model: the similarity; the share of words of one text that the
    /// other has, too; words that both lack of each other, and specifics, the fewer and the more;
    /// whether one has all words; replaced stretches; whether one denies and the other does not.
    #[must_use]
    pub fn features(
        &self,
        older: &Reading,
        newer: &Reading,
        judgement: &Judgement,
        similarity: f64,
    ) -> [f64; FEATURES] {
        let (one, other) = (self.coverage(older, newer), self.coverage(newer, older));
        let share = |lacking: usize, words: usize| 1.0 - lacking as f64 / words.max(1) as f64;
        let shared =
            share(one.words_lacking, one.words).max(share(other.words_lacking, other.words));
        let lacking = one.words_lacking.min(other.words_lacking);
        let specifics = (one.specifics_lacking.len(), other.specifics_lacking.len());
        let open = judgement.steps.iter().filter(|step| step.kind == StepKind::Substitution);
        [
            (similarity - SIMILARITY_CENTER) * 10.0,
            shared,
            saturating(lacking),
            saturating(specifics.0.min(specifics.1)),
            saturating(specifics.0.max(specifics.1)),
            f64::from(lacking == 0),
            saturating(open.count()),
            f64::from(older.negations % 2 != newer.negations % 2),
        ]
    }
}

/// Counts between 0 and 1: the first ones count most.
fn saturating(count: usize) -> f64 {
    count as f64 / (count + 2) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GuardPolicy;

    fn probability(a: &str, b: &str, similarity: f64) -> f64 {
        let guard = Guard::new(&GuardPolicy::default()).unwrap();
        let (a, b) = (guard.read(a), guard.read(b));
        let there = guard.probability(&a, &b, &guard.judge(&a, &b), similarity);
        let back = guard.probability(&b, &a, &guard.judge(&b, &a), similarity);
        assert!((there - back).abs() < f64::EPSILON, "{there} {back}");
        there
    }

    #[test]
    fn one_that_only_says_more_is_more_probable_than_other_words() {
        let more = probability(
            "Use pnpm for the frontend",
            "Use pnpm for the frontend, with the workspace protocol",
            0.85,
        );
        let other =
            probability("Use pnpm for the frontend", "Use Postgres for billing and reports", 0.85);
        assert!(more > 0.8 && other < 0.6, "{more} {other}");
    }

    #[test]
    fn probabilities_end_where_the_guard_decides() {
        assert!(probability("The port is 80", "The port is 80.", 0.99) >= 1.0);
        assert!(probability("The port is 80", "The port is 81", 0.99) <= 0.0);
    }

    #[test]
    fn nearer_texts_are_more_probable() {
        let (a, b) = ("Ana runs the sales team", "Ana manages everything about sales");
        assert!(probability(a, b, 0.95) > probability(a, b, 0.8));
        assert!((0.0..=1.0).contains(&probability("", "a", -1.0)));
    }
}
