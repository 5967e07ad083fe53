//! Hand-written pairs, each with the answer that was right before anything ran on it.

use super::generate::{sections, text};
use super::{Pair, judge, merges, verdict_name};

/// Pairs of a family.
const PAIRS: usize = 20;

struct Probe {
    answer: &'static str,
    pair: Pair,
}

pub(crate) fn pairs() -> Vec<Pair> {
    probes().into_iter().flat_map(|(_, probes)| probes).map(|probe| probe.pair).collect()
}

fn probes() -> Vec<(&'static str, Vec<Probe>)> {
    let probe = |line: &'static str| {
        let (answer, texts) = line.split_once(" | ").expect("an answer");
        let (older, newer) = texts.split_once(" || ").expect("two texts");
        Probe { answer, pair: Pair { older: text(older), newer: text(newer) } }
    };
    let sections = sections(include_str!("../../tests_data/probes.txt"));
    sections
        .into_iter()
        .map(|section| (section.name, section.lines.into_iter().map(probe).collect()))
        .collect()
}

/// Returns the verdicts that an answer allows.
pub(crate) fn verdicts(answer: &str) -> Vec<&str> {
    match answer {
        "apart" => vec!["undecided", "different", "conflict"],
        "quiet" => vec!["undecided", "different"],
        "calm" => vec!["same", "extends", "undecided"],
        _ => answer.split('/').collect(),
    }
}

#[test]
fn every_family_has_its_probes() {
    let known = ["same", "extends", "undecided", "different", "conflict"];
    for (family, probes) in probes() {
        assert_eq!(probes.len(), PAIRS, "{family}");
        for probe in probes {
            let right = verdicts(probe.answer).iter().all(|verdict| known.contains(verdict));
            assert!(right, "{family}: {}", probe.answer);
        }
    }
}

#[test]
fn probes_have_their_answers() {
    let mut failures = String::new();
    let (mut wrong_count, mut count) = (0, 0);
    for (family, probes) in probes() {
        for Probe { answer, pair } in probes {
            count += 1;
            let found = verdict_name(judge(&pair.older, &pair.newer).verdict);
            let allowed = verdicts(answer);
            let merges =
                merges(&pair) && !allowed.contains(&"same") && !allowed.contains(&"extends");
            if allowed.contains(&&*found) && !merges {
                continue;
            }
            wrong_count += 1;
            let Pair { older, newer } = &pair;
            failures += &format!(
                "{family}: {answer}, found {found}: {:?} | {:?}\n",
                older.text, newer.text
            );
        }
    }
    assert!(failures.is_empty(), "{wrong_count} of {count} probes\n{failures}");
}
