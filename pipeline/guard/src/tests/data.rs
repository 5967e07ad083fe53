//! Measures on development sets, where they are at hand.

use std::path::PathBuf;

use super::super::{Guard, Verdict};
use super::{guard, judge};

struct Pair {
    a: String,
    b: String,
    label: serde_json::Value,
}

fn pairs(name: &str) -> Option<Vec<Pair>> {
    let Some(folder) = std::env::var_os("MEMFOLD_DATA") else {
        report("skipped: MEMFOLD_DATA is not set");
        return None;
    };
    let path = PathBuf::from(folder).join("text").join(name);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let pair = |line: &str| {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| value[key].as_str().unwrap().to_owned();
        Pair { a: text("a"), b: text("b"), label: value["label"].clone() }
    };
    Some(text.lines().map(pair).collect())
}

#[expect(clippy::print_stdout, reason = "measurements are for whoever runs the test")]
fn report(line: &str) {
    println!("{line}");
}

/// Precision, recall and F1 of the verdict *contradictory*.
fn contradiction(guard: &Guard, pairs: &[Pair], name: &str) -> f64 {
    let (mut hits, mut flagged, mut wanted) = (0.0, 0.0, 0.0);
    let show = std::env::var("MEMFOLD_SHOW").unwrap_or_default();
    for pair in pairs {
        let judgement = judge(guard, &pair.a, &pair.b);
        let is_flagged = judgement.verdict == Verdict::Contradictory;
        let is_wanted = pair.label == "contradiction";
        flagged += f64::from(u8::from(is_flagged));
        wanted += f64::from(u8::from(is_wanted));
        hits += f64::from(u8::from(is_flagged && is_wanted));
        if (show == "missed" && is_wanted && !is_flagged)
            || (show == "false" && is_flagged && !is_wanted)
        {
            report(&format!(
                "{} {:.2} | {} | {} | {:?}",
                pair.label, judgement.contradiction_score, pair.a, pair.b, judgement.signals
            ));
        }
    }
    let (precision, recall) = (hits / flagged, hits / wanted);
    let f1 = 2.0 * precision * recall / (precision + recall);
    report(&format!(
        "{name}: contradiction precision {precision:.3} recall {recall:.3} F1 {f1:.3}"
    ));
    f1
}

fn share(pairs: &[&Pair], holds: impl Fn(&Pair) -> bool) -> f64 {
    pairs.iter().filter(|pair| holds(pair)).count() as f64 / pairs.len().max(1) as f64
}

#[test]
fn sick_contradictions_are_found() {
    let Some(pairs) = pairs("sick_dev.jsonl") else { return };
    let guard = guard();
    let f1 = contradiction(&guard, &pairs, "SICK");
    let entailed: Vec<&Pair> = pairs.iter().filter(|pair| pair.label == "entailment").collect();
    let calm =
        share(&entailed, |pair| judge(&guard, &pair.a, &pair.b).verdict != Verdict::Contradictory);
    let contradictions: Vec<&Pair> =
        pairs.iter().filter(|pair| pair.label == "contradiction").collect();
    let linked = share(&contradictions, |pair| judge(&guard, &pair.a, &pair.b).verdict.is_proven());
    report(&format!(
        "SICK: entailments not contradictory {calm:.3}; contradictions linked {linked:.4}"
    ));
    assert!(f1 >= 0.75, "F1 {f1}");
    assert!(calm >= 0.97, "calm {calm}");
    assert!(linked == 0.0, "linked {linked}");
}

#[test]
fn paraphrases_are_left_in_peace() {
    let Some(pairs) = pairs("stsb_dev.jsonl") else { return };
    let guard = guard();
    let same: Vec<&Pair> =
        pairs.iter().filter(|pair| pair.label.as_f64().unwrap() >= 4.5).collect();
    let calm =
        share(&same, |pair| judge(&guard, &pair.a, &pair.b).verdict != Verdict::Contradictory);
    let mergeable = share(&same, |pair| judge(&guard, &pair.a, &pair.b).verdict.is_proven());
    report(&format!("STS-B >= 4.5: not contradictory {calm:.3}; mergeable {mergeable:.3}"));
    assert!(calm >= 0.97, "calm {calm}");
}

#[test]
fn conjunctions_are_reported() {
    let Some(pairs) = pairs("conjnli_dev.jsonl") else { return };
    contradiction(&guard(), &pairs, "ConjNLI");
}
