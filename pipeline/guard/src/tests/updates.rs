//! Which pairs are updates and which contradict, written down before the rules were run on them.

use super::{Verdict, guard, judge};

/// Pairs that are answered wrongly, either way round.
fn wrong(lines: &str, expected: bool) -> Vec<&str> {
    let guard = guard();
    let is_wrong = |line: &&str| {
        let Some((older, newer)) = line.split_once(" | ") else { return false };
        let found = |a: &str, b: &str| judge(&guard, a, b).update;
        assert_eq!(found(older, newer), found(newer, older), "{line}");
        found(older, newer) != expected
    };
    lines.lines().filter(|line| !line.starts_with('#')).filter(is_wrong).collect()
}

#[test]
fn another_value_in_the_same_place_is_an_update() {
    let missed = wrong(include_str!("pairs/updates.txt"), true);
    assert!(missed.len() <= 2, "{missed:#?}");
}

#[test]
fn two_events_and_two_things_are_no_update() {
    let found = wrong(include_str!("pairs/no_updates.txt"), false);
    assert!(found.len() <= 1, "{found:#?}");
}

/// Pairs of a list whose contradiction is judged otherwise.
fn misjudged(lines: &str, expected: bool) -> Vec<&str> {
    let guard = guard();
    let is_wrong = |line: &&str| {
        let Some((older, newer)) = line.split_once(" | ") else { return false };
        (judge(&guard, older, newer).verdict == Verdict::Contradictory) != expected
    };
    lines.lines().filter(|line| !line.starts_with('#')).filter(is_wrong).collect()
}

#[test]
fn what_cannot_both_hold_contradicts() {
    let missed = misjudged(include_str!("pairs/contradictions.txt"), true);
    assert!(missed.is_empty(), "{missed:#?}");
    let found = misjudged(include_str!("pairs/no_contradictions.txt"), false);
    assert!(found.is_empty(), "{found:#?}");
}
