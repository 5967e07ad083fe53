//! 5,000 pairs with the verdicts of an earlier guard: a verdict moves towards undecided, or a reason stands in moved.txt.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::generate::{sections, text};
use super::{Pair, judge, verdict_name};

const FROZEN: &str = include_str!("../../tests_data/frozen.tsv");
const MOVED: &str = include_str!("../../tests_data/moved.txt");

/// A line of either file: both texts as written, and a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Judged {
    older: &'static str,
    newer: &'static str,
    verdict: &'static str,
}

impl Judged {
    fn new(line: &'static str) -> Self {
        let fields: Vec<&str> = line.split('\t').collect();
        let [older, newer, verdict] = fields[..] else { panic!("three fields: {line}") };
        Self { older, newer, verdict }
    }

    fn pair(self) -> Pair {
        Pair { older: text(self.older), newer: text(self.newer) }
    }
}

/// Returns how far a verdict is from undecided: below zero where texts may merge, above where they are apart.
fn position(verdict: &str) -> i32 {
    match verdict {
        "same" => -2,
        "extends" => -1,
        "undecided" => 0,
        "different" => 1,
        "conflict" => 2,
        _ => panic!("a verdict: {verdict}"),
    }
}

fn moves_towards_undecided(before: &str, now: &str) -> bool {
    let (before, now) = (position(before), position(now));
    before * now >= 0 && now.abs() <= before.abs()
}

#[test]
fn frozen_pairs_are_five_thousand_different_ones() {
    let pairs: BTreeSet<Pair> = FROZEN.lines().map(|line| Judged::new(line).pair()).collect();
    assert_eq!(pairs.len(), 5000);
}

#[test]
fn verdicts_move_towards_undecided_or_for_a_reason() {
    let moved: BTreeSet<Judged> = sections(MOVED)
        .iter()
        .flat_map(|group| &group.lines)
        .map(|line| Judged::new(line))
        .collect();
    let mut found = BTreeSet::new();
    for line in FROZEN.lines() {
        let frozen = Judged::new(line);
        let pair = frozen.pair();
        let now = verdict_name(judge(&pair.older, &pair.newer).verdict);
        if !moves_towards_undecided(frozen.verdict, &now) {
            found.insert((frozen, now));
        }
    }
    // By the kind of move, as lines for moved.txt.
    let mut unexplained: BTreeMap<String, String> = BTreeMap::new();
    for (frozen, now) in &found {
        let Judged { older, newer, verdict } = *frozen;
        if !moved.iter().any(|line| (line.older, line.newer, line.verdict) == (older, newer, now)) {
            let lines = unexplained.entry(format!("{verdict} to {now}")).or_default();
            writeln!(lines, "{older}\t{newer}\t{now}").expect("a string grows");
        }
    }
    let mut failures = String::new();
    for (kind, lines) in &unexplained {
        write!(failures, "[{kind}: {}]\n{lines}", lines.lines().count()).expect("a string grows");
    }
    let stale: Vec<&Judged> = moved
        .iter()
        .filter(|line| {
            !found.iter().any(|(frozen, now)| {
                (frozen.older, frozen.newer, &**now) == (line.older, line.newer, line.verdict)
            })
        })
        .collect();
    assert!(failures.is_empty(), "verdicts moved without a reason in moved.txt\n{failures}");
    assert!(stale.is_empty(), "lines of moved.txt that did not move so: {stale:#?}");
}
