//! Calibration: from which probability on a person's answers support merges without a question.
//!
//! Decisions fall into two halves by a hash of the memories they are about. The threshold is chosen on one half and tested
//! once on the other: a threshold that was chosen and tested on the same decisions looks better than it is.

use std::collections::{BTreeMap, BTreeSet};

use memfold_core::plan::{ActionState, ActionType, SavedPlan};
use memfold_store::{BrainDb, StoreError};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::audit::Interval;

/// The precision that both halves must show, as the lower bound of a 95 % Wilson interval: 73 right of 73.
pub(crate) const PRECISION_MIN: f64 = 0.95;

/// A person's answer to a proposal.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Names the texts that it is about.
    pub subject: String,
    /// How probable it was that they say the same.
    pub probability: f64,
    /// Whether the person let them merge.
    pub same: bool,
}

/// What the decisions about one source of probabilities support.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Calibration {
    /// Decisions in both halves, and those of them that let memories merge.
    pub decisions: u64,
    /// Decisions that let memories merge.
    pub approved: u64,
    /// The threshold that was chosen on one half; `None` without decisions in it.
    pub threshold: Option<f64>,
    /// Decisions at the threshold or above in the half that chose it.
    pub chosen: Precision,
    /// The same in the other half.
    pub tested: Precision,
    /// Whether both lower bounds reach 0.95: memories may merge from the threshold on.
    pub is_supported: bool,
    /// About how many more decisions are needed, if all that are at the threshold or above turn out right.
    pub decisions_needed: u64,
}

/// Decisions at a threshold or above.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, JsonSchema)]
pub struct Precision {
    /// Those that let memories merge.
    pub right: u64,
    /// The others.
    pub wrong: u64,
    /// The lower bound of the 95 % interval of the share of right ones; 0 without decisions.
    pub lower_bound: f64,
}

impl Precision {
    fn of(right: u64, wrong: u64) -> Self {
        let lower_bound = Interval::of(right, wrong).map_or(0.0, |interval| interval.low);
        Self { right, wrong, lower_bound }
    }

    fn at(threshold: f64, half: &[&Decision]) -> Self {
        let above = half.iter().filter(|decision| decision.probability >= threshold);
        let (mut right, mut wrong) = (0, 0);
        above.for_each(|decision| *if decision.same { &mut right } else { &mut wrong } += 1);
        Self::of(right, wrong)
    }

    const fn is_enough(self) -> bool {
        self.lower_bound >= PRECISION_MIN
    }

    /// How many further right decisions make the lower bound high enough.
    fn missing(self) -> u64 {
        let enough = |more: &u64| Self::of(self.right + more, self.wrong).is_enough();
        // The bound rises with each right decision; 100 right ones make up for one wrong one.
        let all = 100 * (self.wrong + 1);
        (0..=all).find(enough).unwrap_or(all)
    }
}

impl Calibration {
    /// Calibrates by decisions; their order does not matter.
    #[must_use]
    pub fn of(decisions: &[Decision]) -> Self {
        let (choosing, testing): (Vec<_>, Vec<_>) = decisions
            .iter()
            .partition(|decision| Sha256::digest(&decision.subject)[0].is_multiple_of(2));
        let threshold = chosen(&choosing);
        let at = |half: &[&Decision]| {
            threshold.map_or_else(Precision::default, |t| Precision::at(t, half))
        };
        let (chosen, tested) = (at(&choosing), at(&testing));
        let is_supported = chosen.is_enough() && tested.is_enough();
        let missing = chosen.missing() + tested.missing();
        let above = chosen.right + chosen.wrong + tested.right + tested.wrong;
        // As many as are above the threshold now: one of `decisions / above`.
        let per_missing = if above == 0 { 1.0 } else { decisions.len() as f64 / above as f64 };
        let approved = decisions.iter().filter(|decision| decision.same).count() as u64;
        Self {
            decisions: decisions.len() as u64,
            approved,
            threshold,
            chosen,
            tested,
            is_supported,
            decisions_needed: if is_supported {
                0
            } else {
                (missing as f64 * per_missing).ceil() as u64
            },
        }
    }
}

/// The lowest threshold with a high enough bound; where there is none, that with the highest bound.
fn chosen(half: &[&Decision]) -> Option<f64> {
    let mut thresholds: Vec<f64> = half.iter().map(|decision| decision.probability).collect();
    thresholds.sort_by(f64::total_cmp);
    thresholds.dedup();
    let bound = |threshold: f64| Precision::at(threshold, half).lower_bound.min(PRECISION_MIN);
    // The first of equals.
    thresholds.into_iter().rev().max_by(|a, b| bound(*a).total_cmp(&bound(*b)))
}

/// Reads every decision about a proposal with a probability, by the judge that gave the
/// probability; `None` is the built-in estimate. Of decisions about the same texts the latest
/// counts. A merge that was undone counts as rejected.
///
/// # Errors
/// When the saved plans cannot be read.
pub fn decisions(store: &BrainDb) -> Result<BTreeMap<Option<String>, Vec<Decision>>, StoreError> {
    let mut found: BTreeMap<Option<String>, Vec<Decision>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    // The last saved plan comes first.
    for summary in store.plans()? {
        let plan = store.plan(&summary.plan_id)?;
        for (source, decision) in decisions_of(&plan) {
            if seen.insert((source.clone(), decision.subject.clone())) {
                found.entry(source).or_default().push(decision);
            }
        }
    }
    Ok(found)
}

fn decisions_of(plan: &SavedPlan) -> impl Iterator<Item = (Option<String>, Decision)> {
    plan.actions.iter().filter_map(|saved| {
        let same = match saved.state {
            ActionState::Approved | ActionState::Applied => true,
            ActionState::Rejected | ActionState::Undone => false,
            ActionState::Proposed | ActionState::Stale => return None,
        };
        let is_proposal = saved.action.action == ActionType::ProposeMerge;
        let evidence = &saved.action.rationale.evidence;
        let probability = evidence.probability.filter(|_| is_proposal)?;
        let digest = |id| plan.plan.base_digests.get(id).map_or("", String::as_str);
        let mut texts: Vec<String> =
            saved.action.target_ids.iter().map(|id| format!("{id} {}", digest(id))).collect();
        texts.sort_unstable();
        let decision = Decision { subject: texts.join("\n"), probability, same };
        Some((evidence.probability_by.clone(), decision))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fixed sequence of numbers from 0 to 1.
    struct Draws(u64);

    impl Draws {
        fn next(&mut self) -> f64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        }
    }

    /// Decisions about a judge that is right with the probability that `precision` gives for its own.
    fn simulated(draws: &mut Draws, count: usize, precision: impl Fn(f64) -> f64) -> Vec<Decision> {
        let decision = |at: usize| {
            let probability = (draws.next() * 100.0).round() / 100.0;
            let subject = format!("{at} {}", draws.next());
            Decision { subject, probability, same: draws.next() < precision(probability) }
        };
        (0..count).map(decision).collect()
    }

    fn supported(count: usize, precision: impl Fn(f64) -> f64 + Copy) -> usize {
        let mut draws = Draws(count as u64);
        let runs = (0..RUNS).map(|_| Calibration::of(&simulated(&mut draws, count, precision)));
        runs.filter(|calibration| calibration.is_supported).count()
    }

    const RUNS: usize = 200;

    #[test]
    fn judges_below_the_target_are_rarely_supported() {
        for count in [150, 400, 1_000] {
            // Right in 80 to 95 of 100 cases, independent of their stated certainty.
            for precision in [0.8, 0.9, 0.93, 0.949] {
                let accepted = supported(count, |_| precision);
                assert!(accepted * 20 <= RUNS, "{precision} {count}: {accepted} of {RUNS}");
            }
            // Better the more certain they are, but never good enough.
            let accepted = supported(count, |probability| 0.6 + 0.345 * probability);
            assert!(accepted * 20 <= RUNS, "rising {count}: {accepted} of {RUNS}");
        }
    }

    #[test]
    fn good_judges_are_supported_once_there_are_enough_decisions() {
        assert_eq!(supported(100, |_| 1.0), 0, "too few");
        assert!(supported(400, |_| 1.0) * 10 >= RUNS * 9);
        // Right from 0.7 on, else a coin: the threshold is found.
        let mut draws = Draws(1);
        let precision = |probability| if probability >= 0.7 { 1.0 } else { 0.5 };
        let found = Calibration::of(&simulated(&mut draws, 1_500, precision));
        assert!(found.is_supported && found.decisions_needed == 0, "{found:?}");
        assert!((0.6..0.8).contains(&found.threshold.unwrap()), "{found:?}");
        assert!(found.tested.lower_bound >= PRECISION_MIN && found.chosen.is_enough());
    }

    #[test]
    fn it_says_how_many_decisions_are_missing() {
        let none = Calibration::of(&[]);
        assert_eq!((none.threshold, none.is_supported, none.decisions_needed), (None, false, 146));
        let right = |at: usize| Decision { subject: at.to_string(), probability: 0.9, same: true };
        let mut decisions: Vec<Decision> = (0..60).map(right).collect();
        let found = Calibration::of(&decisions);
        assert_eq!((found.decisions, found.approved, found.decisions_needed), (60, 60, 86));
        decisions.extend((60..200).map(right));
        let found = Calibration::of(&decisions);
        assert_eq!((found.is_supported, found.threshold), (true, Some(0.9)));
        // The order of decisions does not matter.
        decisions.reverse();
        assert_eq!(Calibration::of(&decisions), found);
    }
}
