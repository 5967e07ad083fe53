//! Labelled sets of our own: opposites and paraphrases, sentences with one other word, exchanged roles.

use serde_json::Value;

use super::{Pair, Text, judge, merges, verdict_name};

struct Labelled {
    pair: Pair,
    label: Value,
}

fn set(lines: &str) -> Vec<Labelled> {
    let labelled = |line: &str| {
        let fields: Value = serde_json::from_str(line).expect("a line of JSON");
        let text =
            |key: &str| Text { text: fields[key].as_str().expect("a text").to_owned(), date: None };
        Labelled {
            pair: Pair { older: text("a"), newer: text("b") },
            label: fields["label"].clone(),
        }
    };
    let set: Vec<Labelled> = lines.lines().map(labelled).collect();
    assert_eq!(set.len(), 300);
    set
}

/// How well pairs of a label are flagged.
struct Flags {
    precision: f64,
    recall: f64,
    f1: f64,
    wrong: Vec<Pair>,
}

fn flags(set: &[Labelled], label: &str) -> Flags {
    let (mut right, mut wanted) = (0.0, 0.0);
    let mut wrong = Vec::new();
    for Labelled { pair, label: found } in set {
        let flagged = verdict_name(judge(&pair.older, &pair.newer).verdict) == "conflict";
        if found == label {
            wanted += 1.0;
            right += f64::from(u8::from(flagged));
        } else if flagged {
            wrong.push(pair.clone());
        }
    }
    let flagged = right + wrong.len() as f64;
    Flags {
        precision: right / flagged,
        recall: right / wanted,
        f1: 2.0 * right / (flagged + wanted),
        wrong,
    }
}

fn merged(set: &[Labelled], labels: &[Value]) -> Vec<Pair> {
    let apart = set.iter().filter(|labelled| labels.contains(&labelled.label));
    apart.map(|labelled| &labelled.pair).filter(|pair| merges(pair)).cloned().collect()
}

#[test]
fn opposites_are_flagged_and_paraphrases_are_not() {
    let set = set(include_str!("../../tests_data/opposites.jsonl"));
    let Flags { f1, wrong, .. } = flags(&set, "opposite");
    assert!(f1 >= 0.93, "F1 {f1}, wrong {wrong:#?}");
    assert_eq!(merged(&set, &["opposite".into()]), []);
}

#[test]
fn one_other_word_is_flagged_where_it_contradicts() {
    let set = set(include_str!("../../tests_data/swaps.jsonl"));
    let Flags { precision, recall, wrong, .. } = flags(&set, "contradiction");
    assert!(precision >= 0.98, "precision {precision}, wrong {wrong:#?}");
    assert!(recall >= 0.6, "recall {recall}");
    assert_eq!(merged(&set, &["contradiction".into(), "neutral".into()]), []);
}

#[test]
fn exchanged_roles_do_not_merge() {
    let set = set(include_str!("../../tests_data/roles.jsonl"));
    assert_eq!(merged(&set, &[false.into()]), []);
}
