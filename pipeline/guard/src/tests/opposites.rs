//! Minimal edits over all categories: pairs made from templates and the half of the lexicon that the guard has
//! not read. What it does not know it must keep apart.

mod edits;

use std::collections::BTreeMap;

use super::super::Verdict;
use super::super::lexicon::FILES;
use super::super::stem::KeyHasher;
use super::*;

/// Share of pairs that may link.
const LINKED_SHARE_MAX: f64 = 0.001;
/// Pairs taken from one class.
const CLASS_PAIRS_MAX: usize = 12;

/// Sentences with a hole that almost any word fits.
const TEMPLATES: [&str; 6] = [
    "The user said {} in the survey",
    "Our default for the gadget is {}",
    "Robert chose {} for the new team",
    "{}: noted in the profile of Maria",
    "Remember that the office prefers {} over everything else at the moment",
    "For the record and for everybody on call: the answer was {}. Ask in the channel when in doubt.",
];

/// Tells whether an entry is held back.
fn is_held_back(entry: &str) -> bool {
    KeyHasher::new(7).bytes(entry.as_bytes()).finish() >> 32 & 1 == 1
}

/// The lexicon without its held-back half, and the held-back pairs by category.
///
/// Small words and irregular forms are the grammar: they are never held back.
fn halves() -> (String, BTreeMap<String, Vec<(String, String)>>) {
    let mut kept = String::new();
    let mut held: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    let mut pairs: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for (file, text) in FILES {
        let open = file.starts_with("classes/") || file.starts_with("opposites/");
        let mut section = String::new();
        for line in text.lines() {
            let entry = line.split('#').next().unwrap().trim();
            if entry.starts_with('[') {
                entry.trim_matches(['[', ']']).clone_into(&mut section);
            }
            if !open || entry.is_empty() || entry.starts_with('[') || !is_held_back(entry) {
                kept.push_str(line);
                kept.push('\n');
            } else if let Some((left, right)) = entry.split_once('|') {
                let opposed = pairs.entry(format!("opposites in {file}")).or_default();
                for (left, right) in words(left).into_iter().zip(words(right)) {
                    opposed.push((left, right));
                }
            } else {
                held.entry(section.clone()).or_default().push(words(entry));
            }
        }
    }
    for (class, members) in held {
        let first = members.iter().map(|names| names[0].clone());
        let next = members.iter().skip(1).map(|names| names[0].clone());
        pairs.entry(class).or_default().extend(first.zip(next).take(CLASS_PAIRS_MAX));
    }
    for pairs in pairs.values_mut() {
        pairs.retain(|(left, right)| !says_more(left, right) && !says_more(right, left));
    }
    (kept, pairs)
}

/// Tells whether the words of one name are some of the other's: `employed` and `self employed`. Without a lexicon
/// that is an addition, not an opposite.
fn says_more(long: &str, short: &str) -> bool {
    short.split(' ').all(|word| long.split(' ').any(|other| other.trim_end_matches('s') == word))
}

fn words(names: &str) -> Vec<String> {
    names.split(',').map(|name| name.trim().to_owned()).collect()
}

/// How a category fared.
#[derive(Default)]
struct Tally {
    pairs: usize,
    linked: Vec<String>,
    contradictory: usize,
}

impl Tally {
    fn add(&mut self, guard: &Guard, left: &str, right: &str) {
        let verdict = judge(guard, left, right).verdict;
        self.pairs += 1;
        self.contradictory += usize::from(verdict == Verdict::Contradictory);
        if verdict.is_proven() {
            self.linked.push(format!("{left} | {right}"));
        }
    }
}

/// Prints each category's shares; returns how many pairs there were and which link.
fn summary(name: &str, tallies: &BTreeMap<String, Tally>) -> (usize, Vec<String>) {
    let (mut pairs, mut contradictory, mut linked) = (0, 0, Vec::new());
    for (category, tally) in tallies {
        pairs += tally.pairs;
        contradictory += tally.contradictory;
        linked.extend(tally.linked.iter().map(|pair| format!("{category}: {pair}")));
        report(&format!(
            "{name} | {category}: {} pairs, {} linked, {:.3} contradictory",
            tally.pairs,
            tally.linked.len(),
            tally.contradictory as f64 / tally.pairs as f64
        ));
    }
    report(&format!(
        "opposites: {name}: {pairs} pairs, {} linked, {:.3} contradictory",
        linked.len(),
        contradictory as f64 / pairs as f64
    ));
    (pairs, linked)
}

#[expect(clippy::print_stdout, reason = "measurements are for whoever runs the test")]
fn report(line: &str) {
    println!("{line}");
}

fn assert_apart(name: &str, tallies: &BTreeMap<String, Tally>, pairs_min: usize) {
    let (pairs, linked) = summary(name, tallies);
    assert!(pairs >= pairs_min, "{pairs}");
    let share = linked.len() as f64 / pairs as f64;
    assert!(share <= LINKED_SHARE_MAX, "{} of {pairs}:\n{}", linked.len(), linked.join("\n"));
}

fn policy() -> GuardPolicy {
    GuardPolicy::default()
}

/// Fills templates with each pair of words.
fn swaps(
    guard: &Guard,
    pairs: &BTreeMap<String, Vec<(String, String)>>,
) -> BTreeMap<String, Tally> {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for (category, pairs) in pairs {
        let tally = tallies.entry(category.clone()).or_default();
        for (at, (first, second)) in pairs.iter().enumerate() {
            for template in [TEMPLATES[at % TEMPLATES.len()], TEMPLATES[(at + 1) % TEMPLATES.len()]]
            {
                tally.add(guard, &template.replace("{}", first), &template.replace("{}", second));
            }
        }
    }
    tallies.retain(|_, tally| tally.pairs > 0);
    tallies
}

#[test]
fn words_that_the_lexicon_lacks_never_link() {
    let (kept, pairs) = halves();
    let lacking = Guard::with_lexicon(&policy(), &kept).unwrap();
    assert_apart("held back", &swaps(&lacking, &pairs), 2_000);
    assert_apart("whole lexicon", &swaps(&guard(), &pairs), 2_000);
}

/// Things that fill the holes `{x}` and `{y}` of an edit.
const THINGS: [(&str, &str); 8] = [
    ("tea", "coffee"),
    ("Dora", "Emil"),
    ("Postgres", "SQLite"),
    ("the cluster", "the laptop"),
    ("zorbex", "plimto"),
    ("tabs", "spaces"),
    ("Lisbon", "Porto"),
    ("reports", "invoices"),
];

/// Fills the edits with each pair of things, alone and in a longer note.
fn edited(edits: &[edits::Edit], things: &[(&str, &str)]) -> BTreeMap<String, Tally> {
    let guard = guard();
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for edit in edits {
        let tally = tallies.entry(edit.category.to_owned()).or_default();
        for (x, y) in things {
            let fill = |text: &str| text.replace("{x}", x).replace("{y}", y);
            let (left, right) = (fill(edit.left), fill(edit.right));
            tally.add(&guard, &left, &right);
            let note = |text: &str| format!("Note from the sync with the platform team: {text}.");
            tally.add(&guard, &note(&left), &note(&right));
        }
    }
    tallies
}

#[test]
fn one_small_edit_never_links() {
    assert_apart("edits", &edited(&edits::EDITS, &THINGS), 2_000);
}

/// Phrases that fill the holes of the edits which are not all told apart.
const PHRASES: [(&str, &str); 4] = [
    ("old cluster", "new cluster"),
    ("nightly job", "weekly report"),
    ("red team", "blue team"),
    ("first draft", "second draft"),
];

#[test]
fn phrases_that_change_places_never_link() {
    assert_apart("phrases", &edited(&edits::BLIND_EDITS, &PHRASES), 72);
}
