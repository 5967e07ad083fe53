//! Generated families with known answers: proven, flagged, or left open.

use super::generate::families;
use super::probes::verdicts;
use super::{Pair, judge, verdict_name};

/// Pairs of a family.
const PAIRS: usize = 100;
/// Share of a family's pairs that have the answer.
const SHARE_MIN: f64 = 0.9;
/// Pairs printed of a family that fails.
const SHOWN: usize = 8;

#[test]
fn generated_families_have_their_answers() {
    let mut failures = String::new();
    for family in families(include_str!("../../tests_data/answers.txt"), PAIRS) {
        let (answer, _) = family.name.split_once(" | ").expect("an answer");
        let allowed = verdicts(answer);
        let found = |pair: &Pair| verdict_name(judge(&pair.older, &pair.newer).verdict);
        let wrong: Vec<&Pair> =
            family.pairs.iter().filter(|pair| !allowed.contains(&&*found(pair))).collect();
        let right = family.pairs.len() - wrong.len();
        if right as f64 >= SHARE_MIN * family.pairs.len() as f64 {
            continue;
        }
        failures += &format!("{}: {right} of {}\n", family.name, family.pairs.len());
        for pair in wrong.iter().take(SHOWN) {
            let Pair { older, newer } = pair;
            failures += &format!("    {}: {:?} | {:?}\n", found(pair), older.text, newer.text);
        }
    }
    assert!(failures.is_empty(), "families with too few right answers\n{failures}");
}
