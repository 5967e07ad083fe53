//! One word changed in a template: never linked, however near the vectors.

use super::{guard, judge};

/// Alternatives that exclude each other, by category.
const SWAPS: [(&str, &[&str]); 16] = [
    ("cardinal", &["two", "three", "7", "12", "40", "1000"]),
    ("weekday", &["Monday", "Tuesday", "Wednesday", "Friday", "Sunday"]),
    ("month", &["January", "March", "June", "October"]),
    ("colour", &["red", "blue", "green", "purple", "cyan", "black"]),
    ("state", &["enabled", "disabled"]),
    ("stability", &["stable", "unstable"]),
    ("door", &["open", "closed"]),
    ("country", &["Germany", "France", "Japan", "Brazil"]),
    ("polarity", &["", "not ", "never "]),
    ("modal", &["must", "must not", "may", "should"]),
    ("share", &["all", "some", "no"]),
    ("version", &["v1.2.3", "v1.2.4", "v2.2.3"]),
    ("id", &["#12", "#21", "#120"]),
    ("date", &["Oct 15", "Oct 16", "Nov 15"]),
    ("money", &["$5", "$50", "€5"]),
    ("unknown", &["zorbex", "plimto", "quenda"]),
];

/// Sentences with a hole that any of a category's words fits.
const TEMPLATES: [(&str, &[&str]); 16] = [
    ("cardinal", &["The pool has {} workers", "Retry {} times before giving in"]),
    ("weekday", &["The standup moved to {}", "Backups run on {} at night"]),
    ("month", &["The contract ends in {}", "Interns arrive in {}"]),
    ("colour", &["The team's mug is {}", "Paint the shed {} in spring"]),
    ("state", &["Telemetry is {} for guests", "The feature stays {}"]),
    ("stability", &["The nightly build is {}"]),
    ("door", &["The issue stays {} for now", "The gate is {}"]),
    ("country", &["Her parents live in {}", "The server stands in {}"]),
    ("polarity", &["The proxy does {}cache images", "Guests are {}asked for a password"]),
    ("modal", &["Reviewers {} sign every change", "You {} rebase first"]),
    ("share", &["{} tests pass on arm", "The vendor ships {} drivers"]),
    ("version", &["The image pins {} of the agent"]),
    ("id", &["The crash is tracked in {}"]),
    ("date", &["The audit is due {}"]),
    ("money", &["A seat costs {} a month"]),
    ("unknown", &["The parser calls {} twice", "Maria asked about {}"]),
];

/// Frames around a template: more shared text makes vectors nearer and must not make the guard kinder.
const FRAMES: [&str; 4] = [
    "{}",
    "Note to self: {}.",
    "{}, as agreed with the platform team last week",
    "For the record and for everybody on call: {}. Ask in the channel when in doubt.",
];

#[test]
fn one_changed_word_never_links() {
    let guard = guard();
    let (mut pairs, mut linked) = (0, Vec::new());
    for ((category, words), (same, templates)) in SWAPS.iter().zip(&TEMPLATES) {
        assert_eq!(category, same);
        for template in *templates {
            for frame in FRAMES {
                let fill = |word: &str| frame.replace("{}", &template.replace("{}", word));
                for (at, first) in words.iter().enumerate() {
                    for second in &words[at + 1..] {
                        pairs += 1;
                        let (left, right) = (fill(first), fill(second));
                        if judge(&guard, &left, &right).verdict.is_proven() {
                            linked.push(format!("{category}: {left} | {right}"));
                        }
                    }
                }
            }
        }
    }
    linked.retain(|pair| {
        !(pair.starts_with("polarity") && pair.contains("not ") && pair.contains("never "))
    });
    assert!(pairs > 400, "{pairs}");
    assert!(linked.is_empty(), "{} of {pairs}:\n{}", linked.len(), linked.join("\n"));
}

/// Every two words that the lexicon sets against each other.
fn opposed_words() -> Vec<(String, String)> {
    let words = |side: &str| -> Vec<String> {
        side.split(',').map(|word| word.trim().to_owned()).collect()
    };
    let mut pairs = Vec::new();
    let mut class: Vec<Vec<String>> = Vec::new();
    let mut section = "";
    for line in super::super::lexicon::BUILT_IN.lines() {
        let line = line.split('#').next().unwrap().trim();
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']).split(' ').next().unwrap();
            class.clear();
        } else if section == "opposites" && !line.is_empty() {
            let (left, right) = line.split_once('|').unwrap();
            for first in words(left) {
                pairs.extend(words(right).into_iter().map(|second| (first.clone(), second)));
            }
        } else if matches!(section, "exclusive" | "distinct" | "modality") && !line.is_empty() {
            for other in class.iter().flatten() {
                pairs.push((other.clone(), words(line)[0].clone()));
            }
            class.push(words(line));
        }
    }
    pairs
}

#[test]
fn what_the_lexicon_opposes_never_links() {
    let guard = guard();
    let pairs = opposed_words();
    let mut linked = Vec::new();
    for (first, second) in &pairs {
        for frame in ["The gadget in our office stays {} for now", "Robert said {} yesterday"] {
            let (left, right) = (frame.replace("{}", first), frame.replace("{}", second));
            if judge(&guard, &left, &right).verdict.is_proven() {
                linked.push(format!("{left} | {right}"));
            }
        }
    }
    assert!(pairs.len() > 2_000, "{}", pairs.len());
    assert!(linked.is_empty(), "{}:\n{}", linked.len(), linked.join("\n"));
}

/// Every word that the lexicon says turns a statement.
fn turning_words() -> Vec<String> {
    let mut words = Vec::new();
    let mut turns = false;
    for line in super::super::lexicon::BUILT_IN.lines() {
        let line = line.split('#').next().unwrap().trim();
        if line.starts_with('[') {
            turns =
                ["negators", "negative-verbs", "denials"].iter().any(|name| line.contains(name));
        } else if turns && !line.is_empty() {
            words.extend(line.split(',').map(|word| word.trim().to_owned()));
        }
    }
    words
}

#[test]
fn one_turning_word_never_links() {
    let guard = guard();
    let words = turning_words();
    let mut linked = Vec::new();
    for word in &words {
        for (frame, plain) in [
            ("The proxy {} caches images", "The proxy caches images"),
            ("{} cache the images of guests", "Cache the images of guests"),
            ("The proxy in Oslo caches images {}", "The proxy in Oslo caches images"),
        ] {
            let turned = frame.replace("{}", word);
            if judge(&guard, &turned, plain).verdict.is_proven() {
                linked.push(turned);
            }
        }
    }
    assert!(words.len() > 150, "{}", words.len());
    assert!(linked.is_empty(), "{}:\n{}", linked.len(), linked.join("\n"));
}
