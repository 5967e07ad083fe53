//! Audit of a run: a person reviews a random sample of its merges and of near pairs that are
//! refused; the shares of wrong ones are kept with their intervals.

use memfold_core::plan::{ActionState, SavedAction};
use memfold_core::runs::{Executed, RunKind, RunState, RunSummary};
use memfold_store::StoreError;
use memfold_store::brain_db::{RunStart, Session};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// Standard deviations of a normal distribution that hold 95 %.
const Z_95: f64 = 1.959_963_985;

/// The population that a sample is drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The merges of a run.
    Merges,
    /// Near pairs that are neither merged nor proposed.
    RefusedPairs,
}

impl Subject {
    const fn kind(self) -> RunKind {
        match self {
            Self::Merges => RunKind::Audit,
            Self::RefusedPairs => RunKind::AuditRefused,
        }
    }

    /// Returns the subject of an audit run; `None` for other runs.
    #[must_use]
    pub fn of_run(run: &RunSummary) -> Option<Self> {
        [Self::Merges, Self::RefusedPairs].into_iter().find(|it| run.kind == it.kind().name())
    }
}

/// What a person found in a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
pub struct Findings {
    /// Merges whose survivor says all that was merged into it; refused pairs that differ.
    pub right: u64,
    /// Merges that lost or mixed up a fact; refused pairs that say the same.
    pub wrong: u64,
    /// Those that the person could not judge; no part of the share.
    pub unsure: u64,
}

impl Findings {
    /// Returns the share of wrong ones among the judged; `None` without one.
    #[must_use]
    pub fn wrong_share(&self) -> Option<f64> {
        let judged = self.right + self.wrong;
        (judged > 0).then(|| self.wrong as f64 / judged as f64)
    }

    /// Returns the 95 % interval of the share of wrong ones among all that the sample was drawn from (Wilson's); `None`
    /// where none was judged.
    #[must_use]
    pub fn interval(&self) -> Option<Interval> {
        Interval::of(self.wrong, self.right)
    }

    /// Reads the findings of an audit out of its run; `None` where the run is none.
    #[must_use]
    pub fn of_run(run: &RunSummary) -> Option<Self> {
        let Executed { applied, stale, failed } = run.executed;
        Subject::of_run(run).map(|_| Self { right: applied, wrong: failed, unsure: stale })
    }
}

/// A share lies within it with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Interval {
    /// The smallest share.
    pub low: f64,
    /// The largest share.
    pub high: f64,
}

impl Interval {
    /// Returns Wilson's 95 % interval of a share that was counted in a sample; `None` of an empty sample.
    #[must_use]
    pub fn of(counted: u64, others: u64) -> Option<Self> {
        let n = (counted + others) as f64;
        if counted + others == 0 {
            return None;
        }
        let (share, z2) = (counted as f64 / n, Z_95 * Z_95);
        let center = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
        let half = Z_95 * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt() / (1.0 + z2 / n);
        let low = if counted == 0 { 0.0 } else { (center - half).max(0.0) };
        let high = if others == 0 { 1.0 } else { (center + half).min(1.0) };
        Some(Self { low, high })
    }
}

/// Returns the merges of a run, including the ones undone since.
pub fn merges<'a>(
    actions: &'a [SavedAction],
    run_id: &str,
) -> impl Iterator<Item = &'a SavedAction> {
    let done = |action: &SavedAction| {
        matches!(action.state, ActionState::Applied | ActionState::Undone)
            && action.run_id.as_deref() == Some(run_id)
    };
    actions.iter().filter(move |action| action.effective().action.merges() && done(action))
}

/// Draws `count` merges of a run at random, the same ones each time. The first ones of a sample are a smaller sample.
#[must_use]
pub fn sample<'a>(actions: &'a [SavedAction], run_id: &str, count: usize) -> Vec<&'a SavedAction> {
    let mut drawn: Vec<&SavedAction> = merges(actions, run_id).collect();
    drawn.sort_by_cached_key(|action| {
        let digest = Sha256::digest(format!("{run_id} {}", action.position));
        (digest, action.position)
    });
    drawn.truncate(count);
    drawn
}

/// Records the findings as a run of its own, in the audit chain. Returns its id.
///
/// # Errors
/// When the store cannot be written.
pub fn record(
    session: &Session,
    start: &RunStart<'_>,
    subject: Subject,
    findings: Findings,
) -> Result<String, StoreError> {
    let run_id = session.begin_run(&RunStart { kind: subject.kind(), ..*start })?;
    let Findings { right, wrong, unsure } = findings;
    let executed = Executed { applied: right, stale: unsure, failed: wrong };
    session.finish_run(&run_id, RunState::Done, start.at, executed)?;
    Ok(run_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_interval(right: u64, wrong: u64, expected: [f64; 2]) {
        let Interval { low, high } = Findings { right, wrong, unsure: 3 }.interval().unwrap();
        let near = |one: f64, other: f64| (one - other).abs() < 1e-4;
        assert!(near(low, expected[0]) && near(high, expected[1]), "{low} {high}");
    }

    #[test]
    fn intervals_are_wilsons() {
        // Of 75 right ones of 75 the lower bound of precision is 0.951.
        assert_interval(75, 0, [0.0, 0.0487]);
        assert_interval(90, 10, [0.0552, 0.1744]);
        assert_interval(0, 4, [0.5101, 1.0]);
        assert_eq!(Findings { unsure: 9, ..Findings::default() }.interval(), None);
    }

    /// Of 100 merges some are wrong; the interval of a random sample holds their share in about 95 of 100 cases.
    #[test]
    fn intervals_hold_the_share_as_often_as_they_say() {
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for percent in [2, 10, 40] {
            let trials = 2_000;
            let held = (0..trials).filter(|_| {
                let wrong = (0..60).filter(|_| draw(100) < percent).count() as u64;
                let found = Findings { right: 60 - wrong, wrong, unsure: 0 }.interval().unwrap();
                (found.low..=found.high).contains(&(percent as f64 / 100.0))
            });
            let held = held.count();
            assert!(held * 100 >= trials * 92, "{percent} %: {held} of {trials}");
        }
    }
}
