//! `memfold-bench guard`: labelled pairs in; a table, JSON and verdicts out.

use serde_json::{Value, json};

use crate::memfold;
use crate::schemas::assert_right;
use crate::support::TestFolder;

/// Sixteen pairs, six of them contradictions.
const PAIRS: &str = include_str!("../data/guard/pairs.jsonl");

fn with_pairs() -> TestFolder {
    let dir = TestFolder::new();
    dir.write("pairs.jsonl", PAIRS);
    dir
}

fn bench<'a>(further: &[&'a str]) -> Vec<&'a str> {
    [&["guard", "--pairs", "pairs.jsonl"], further].concat()
}

#[test]
fn the_screen_is_as_published() {
    let screen = with_pairs().succeed(&bench(&[]));
    assert!(!screen.contains('\u{1b}'));
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    let (timed, others): (Vec<&str>, Vec<&str>) =
        screen.lines().partition(|line| line.contains("µs per pair (median), "));
    assert_eq!(timed.len(), 1, "{screen}");
    insta::assert_snapshot!("bench-guard-screen", others.join("\n"));
}

#[test]
fn documents_fit_their_schemas_exactly() {
    let dir = with_pairs();
    dir.write("neutral.jsonl", "{\"a\": \"x\", \"b\": \"x\", \"label\": 4.5}\n");
    for (name, command, pairs) in
        [("bench-guard", "guard", "pairs.jsonl"), ("bench-guard", "guard", "neutral.jsonl")]
    {
        assert_right(name, &dir.json(&[command, "--pairs", pairs, "--json"]));
    }
}

#[test]
fn verdicts_say_what_explain_says() {
    let dir = with_pairs();
    let answer = dir.run(&bench(&["--verdicts", "v.jsonl"]));
    assert_eq!((answer.code, answer.err.as_str()), (Some(0), "wrote v.jsonl\n"));
    let text = std::fs::read_to_string(dir.path("v.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pairs: Vec<Value> = PAIRS.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), pairs.len());
    for (index, (line, pair)) in lines.into_iter().zip(&pairs).enumerate() {
        let texts = [&pair["a"], &pair["b"]].map(|text| text.as_str().unwrap());
        let words = ["explain", "--texts", texts[0], texts[1], "--json"];
        let explained: Value = serde_json::from_str(&memfold(&dir, &words)).unwrap();
        let mut expected = json!({ "index": index });
        for name in ["verdict", "contradiction_score", "mergeable", "steps", "differences"] {
            expected[name] = explained[name].clone();
        }
        let mut line = line;
        let signals = line.as_object_mut().unwrap().remove("signals").unwrap();
        let is_conflict = explained["verdict"] == "conflict";
        assert_eq!(signals.as_array().unwrap().len(), usize::from(is_conflict));
        assert_eq!(line, expected);
    }
}

#[test]
fn unreadable_pairs_name_their_line() {
    let dir = with_pairs();
    dir.run("guard").fails_with(2, &["--pairs"]);
    let answer = dir.run("guard --pairs nowhere.jsonl");
    answer.fails_with(1, &["failed to open nowhere.jsonl", "hint: name a file of JSON Lines"]);
    dir.run("guard --pairs .").fails_with(1, &["failed to read the pairs of ."]);
    dir.write("pairs.jsonl", format!("{PAIRS}{{\"a\": \"x\", \"label\": \"l\"}}\n"));
    let before = dir.files();
    let said = "failed to read the pairs of pairs.jsonl: line 17: missing field `b`";
    dir.run(&bench(&["--verdicts", "v.jsonl"])).fails_with(1, &[said, "hint: "]);
    assert!(before == dir.files());
}
