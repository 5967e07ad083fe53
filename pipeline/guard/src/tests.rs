//! What the guard promises, pair by pair.

mod attacks;
mod counted;
mod data;
mod glued;
mod graveyard;
mod minimal_edits;
mod opposites;
mod properties;
mod tuning;
mod updates;

use super::*;
use crate::GuardPolicy;

/// The shipped thresholds, without a user's lexicon.
fn guard() -> Guard {
    guard_with(None)
}

fn guard_with(lexicon: Option<&str>) -> Guard {
    let policy = GuardPolicy { lexicon: lexicon.map(str::to_owned), ..GuardPolicy::default() };
    Guard::new(&policy).unwrap()
}

fn judge(guard: &Guard, left: &str, right: &str) -> Judgement {
    guard.judge(&guard.read(left), &guard.read(right))
}

fn check(cases: &[(Verdict, &str, &str)]) {
    let guard = guard();
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|(expected, left, right)| {
            let judgement = judge(&guard, left, right);
            (judgement.verdict != *expected)
                .then(|| format!("{left} | {right}\n  expected {expected:?}, found {judgement:?}"))
        })
        .collect();
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}
