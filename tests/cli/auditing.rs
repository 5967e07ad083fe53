//! `audit`: the share of wrong merges and of wrongly refused pairs, by labels that were written before anything ran.

use std::collections::BTreeMap;

use memfold_tests::{LabelledLine, NOW, labelled_lines};
use serde_json::Value;

use crate::support::{TestFolder, consolidate};

const STORE: &str = include_str!("../data/agent_store.txt");
/// Of both texts of a line.
const COSINE: f32 = 0.97;

/// The labelled store; the label of each memory with a partner, by id.
fn dir() -> (TestFolder, BTreeMap<String, &'static str>) {
    let lines = labelled_lines(STORE, COSINE);
    let rows: Vec<_> = lines.iter().flat_map(|line| line.rows.clone()).collect();
    let label = |line: &LabelledLine| {
        let label = line.label;
        line.rows.iter().map(|row| (row.id.clone(), label)).collect::<Vec<_>>()
    };
    (TestFolder::with(&rows), lines.iter().flat_map(label).collect())
}

/// Answers a whole audit by the labels; returns its document.
fn audited(dir: &TestFolder, labels: &BTreeMap<String, &'static str>, further: &[&str]) -> Value {
    let audit = [&["audit", "brain.db", "--json", "--now", NOW], further].concat();
    let unsure = dir.run_with(&audit, &"s\n".repeat(500));
    assert_eq!(unsure.code, Some(0), "{unsure:?}");
    let screens = format!("{}{}", unsure.err, unsure.out);
    // The line under a question's head names its first memory: "stays m000001 · …" or "older m000001 · …".
    let (mut answers, mut kind) = (String::new(), "");
    for line in screens.lines() {
        if line.contains(" of ") && line.contains(" merge ") {
            kind = "stays ";
        } else if line.contains("refused pair") {
            kind = "older ";
        } else if let Some(rest) = line.strip_prefix(kind).filter(|_| !kind.is_empty()) {
            let id = rest.split(' ').next().unwrap();
            let is_same = labels[id] == "same";
            answers.push_str(if is_same == (kind == "stays ") { "y\n" } else { "n\n" });
            kind = "";
        }
    }
    let answered = dir.run_with(&audit, &answers);
    assert_eq!(answered.code, Some(0), "{answered:?}");
    serde_json::from_str(&answered.out).unwrap()
}

#[test]
fn an_audit_finds_the_wrong_merges_of_a_run_without_the_guard() {
    let (dir, labels) = dir();
    let unguarded =
        ["--set", "guard.enabled=false", "--allow-unguarded", "--set", "threshold=0.95"];
    dir.succeed(&consolidate(
        &[&["--execute", "--max-change-share", "1"], &unguarded[..]].concat(),
    ));
    let found = audited(&dir, &labels, &[]);
    let count = |of: &Value, name: &str| of[name].as_u64().unwrap();
    let lines = |label: &str| labels.values().filter(|own| **own == label).count() as u64 / 2;
    let wrong = lines("alike") + lines("update") + lines("deed");
    assert_eq!((count(&found, "right"), count(&found, "wrong")), (lines("same"), wrong), "{found}");
    let (low, high) = (found["interval"]["low"].as_f64(), found["interval"]["high"].as_f64());
    assert!(low > Some(0.3) && high < Some(0.8), "{found}");
    let shown = dir.succeed(&["runs", "brain.db", found["run_id"].as_str().unwrap()]);
    assert!(shown.contains(&format!("{wrong} wrong")), "{shown}");
}

#[test]
fn an_audit_screens_refused_pairs_too() {
    let (dir, labels) = dir();
    dir.succeed(&consolidate(&["--execute", "--max-change-share", "1"]));
    let found = audited(&dir, &labels, &[]);
    let refused = &found["refused"];
    assert_eq!(found["wrong"], 0, "{found}");
    let of = |name: &str| refused[name].as_u64().unwrap();
    // Flagged updates and different facts are refused; that a duplicate is among them is rare.
    assert!(of("drawn") >= 20 && of("right") + of("wrong") == of("drawn"), "{found}");
    assert!(of("wrong") * 10 <= of("drawn"), "{found}");
    let audits =
        [&found["audit_run_id"], &refused["audit_run_id"]].map(|run| run.as_str().unwrap());
    let shown = dir.succeed(&["runs", "brain.db", found["run_id"].as_str().unwrap()]);
    assert!(shown.contains("audit: ") && shown.contains("audit of refused pairs: "), "{shown}");
    let listed = dir.json(&["runs", "brain.db", "--json"]);
    let kind = |id: &str| {
        let mut runs = listed["runs"].as_array().unwrap().iter();
        runs.find(|run| run["run_id"] == id).map(|run| run["kind"].clone())
    };
    assert_eq!(audits.map(kind), [Some("audit".into()), Some("audit_refused".into())]);
    assert_eq!(listed["audit_chain"]["holds"], true);
    // A smaller sample is a part of the larger one.
    let some = audited(&dir, &labels, &["--sample", "5"]);
    assert_eq!(some["refused"]["drawn"], 5);
}

#[test]
fn decisions_are_counted_for_a_calibration() {
    let (dir, _) = dir();
    let calibrated = |dir: &TestFolder| dir.json(&["audit", "brain.db", "--calibrate", "--json"]);
    let none = calibrated(&dir);
    assert_eq!(none["calibrations"][0]["decisions_needed"], 146, "{none}");
    dir.succeed(&consolidate(&["--save-plan", "--set", "propose.min_similarity=0.8"]));
    let review = |words: &[&str]| {
        dir.succeed(&[&["review", "brain.db", "latest", "--execute"], words].concat())
    };
    review(&["--only", "propose_merge", "--approve"]);
    let all = calibrated(&dir)["calibrations"][0].clone();
    let count = |of: &Value, name: &str| of[name].as_u64().unwrap();
    assert!(count(&all, "decisions") > 10, "{all}");
    assert_eq!((&all["judge"], &all["is_supported"]), (&Value::Null, &false.into()));
    assert_eq!(count(&all, "approved"), count(&all, "decisions"));
    // Of the half that tests, decisions below the threshold count for nothing.
    let needed = 146 - count(&all, "decisions");
    assert!((needed..146).contains(&count(&all, "decisions_needed")), "{all}");
    // A second thought counts instead of the first.
    review(&["--only", "propose_merge", "--reject"]);
    let rejected = calibrated(&dir)["calibrations"][0].clone();
    assert_eq!(count(&rejected, "decisions"), count(&all, "decisions"));
    assert_eq!((count(&rejected, "approved"), &rejected["is_supported"]), (0, &false.into()));
    let screen = dir.succeed(&["audit", "brain.db", "--calibrate"]);
    assert!(screen.contains("built-in estimate: ") && screen.contains("not supported"), "{screen}");
    dir.run(&["audit", "brain.db", "latest", "--calibrate"]).fails_with(2, &["--calibrate"]);
}
