//! Generated pairs: attacks that must never merge, and pairs that a step of the closed list proves.

use std::collections::{BTreeMap, BTreeSet};

use super::{guard, judge};
use crate::Verdict;

/// Pairs of a category.
const PAIRS: usize = 200;

/// The lists of `words.txt` by name.
type Words = BTreeMap<&'static str, Vec<&'static str>>;

fn words() -> Words {
    let lines = include_str!("pairs/words.txt").lines();
    let lists = lines.filter_map(|line| line.split_once(": "));
    lists.map(|(name, list)| (name, list.split(", ").collect())).collect()
}

/// A generator of numbers, equal everywhere.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Fills the slots of both texts with the same words; `{x}` and `{x2}` get different ones.
fn fill(template: &str, words: &Words, draws: &mut Draws) -> (String, String) {
    let mut filled = template.to_owned();
    let mut used: Vec<(&str, &str)> = Vec::new();
    while let Some(start) = filled.find('{') {
        let end = start + filled[start..].find('}').expect("a closed slot");
        let slot = filled[start..=end].to_owned();
        let list = slot.trim_matches(['{', '}', '2']);
        let (&list, choices) =
            words.get_key_value(list).unwrap_or_else(|| panic!("no list {list}"));
        let free: Vec<&str> =
            choices.iter().copied().filter(|word| !used.contains(&(list, word))).collect();
        let word = free[draws.below(free.len())];
        used.push((list, word));
        filled = filled.replace(&slot, word);
    }
    let (first, second) = filled.split_once(" | ").expect("two texts");
    (first.to_owned(), second.to_owned())
}

/// Returns up to [`PAIRS`] different pairs of each category.
fn categories(text: &'static str) -> Vec<(&'static str, Vec<(String, String)>)> {
    let words = words();
    let mut templates: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(name) => templates.push((name, vec![])),
            None => templates.last_mut().expect("a category").1.push(line),
        }
    }
    let mut draws = Draws(20);
    let pairs = |templates: &[&str], draws: &mut Draws| {
        let mut found = BTreeSet::new();
        for round in 0..PAIRS * 20 {
            let pair = fill(templates[round % templates.len()], &words, draws);
            if pair.0 != pair.1 {
                found.insert(pair);
            }
            if found.len() == PAIRS {
                break;
            }
        }
        found.into_iter().collect()
    };
    templates.iter().map(|(name, lines)| (*name, pairs(lines, &mut draws))).collect()
}

#[expect(clippy::print_stdout, reason = "the table is for whoever runs the test")]
fn row(name: &str, found: usize, pairs: usize, examples: &[&(String, String)]) {
    println!("{name:40} {found:4} of {pairs}");
    for (first, second) in examples.iter().take(6) {
        println!("    {first} | {second}");
    }
}

#[test]
fn attacks_never_merge() {
    let guard = guard();
    let mut merged = 0;
    let categories = categories(include_str!("pairs/attacks.txt"));
    assert!(categories.len() >= 40);
    for (name, pairs) in &categories {
        assert_eq!(pairs.len(), PAIRS, "{name}");
        let found: Vec<_> = pairs
            .iter()
            .filter(|(first, second)| {
                judge(&guard, first, second).verdict.is_proven()
                    || judge(&guard, second, first).verdict.is_proven()
            })
            .collect();
        row(name, found.len(), pairs.len(), &found);
        merged += found.len();
    }
    assert_eq!(merged, 0);
}

#[test]
fn what_says_the_same_is_proven() {
    let guard = guard();
    let (mut proven, mut all) = (0, 0);
    for (name, pairs) in categories(include_str!("pairs/sames.txt")) {
        let open: Vec<_> = pairs
            .iter()
            .filter(|(first, second)| judge(&guard, first, second).verdict != Verdict::Same)
            .collect();
        row(name, open.len(), pairs.len(), &open);
        proven += pairs.len() - open.len();
        all += pairs.len();
    }
    assert!(proven * 100 >= all * 95, "{proven} of {all}");
}

#[test]
fn what_says_more_extends() {
    let guard = guard();
    let (mut proven, mut all) = (0, 0);
    for (name, pairs) in categories(include_str!("pairs/extends.txt")) {
        let open: Vec<_> = pairs
            .iter()
            .filter(|(first, second)| judge(&guard, first, second).verdict != Verdict::Extends)
            .collect();
        row(name, open.len(), pairs.len(), &open);
        proven += pairs.len() - open.len();
        all += pairs.len();
    }
    assert!(proven * 100 >= all * 60, "{proven} of {all}");
}
