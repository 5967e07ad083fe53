//! Which pairs are updates, written down before the rule was run on them.

use super::{guard, judge};

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
