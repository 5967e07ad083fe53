//! `memfold-bench guard`: labelled pairs in; a table, JSON and verdicts out.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::memfold;
use crate::schemas::{assert_fits, assert_right};
use crate::support::Place;

/// Sixteen pairs, six of them contradictions.
const PAIRS: &str = include_str!("../data/guard/pairs.jsonl");

fn with_pairs() -> Place {
    let place = Place::new();
    place.write("pairs.jsonl", PAIRS);
    place
}

fn bench<'a>(further: &[&'a str]) -> Vec<&'a str> {
    [&["guard", "--pairs", "pairs.jsonl"], further].concat()
}

/// What does not depend on the clock and on memory.
fn findings(mut document: Value) -> Value {
    for name in ["microseconds_per_pair", "peak_rss_bytes", "peak_anon_bytes"] {
        assert!(document.as_object_mut().unwrap().remove(name).is_some(), "no {name}");
    }
    document
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
fn figures_fit_the_published_schema() {
    let place = with_pairs();
    let found = place.json(&bench(&["--json"]));
    assert_fits("bench-guard", &found);
    assert_eq!((&found["pairs"], &found["contradiction"]["labelled"]), (&json!(16), &json!(6)));
    assert!(found["microseconds_per_pair"]["median"].as_f64().unwrap() > 0.0);
    let labels = found["labels"].as_array().unwrap();
    let total: u64 = labels.iter().map(|label| label["pairs"].as_u64().unwrap()).sum();
    assert_eq!(total, 16);
    for label in labels {
        let verdicts = label["verdicts"].as_object().unwrap().values();
        let sum: u64 = verdicts.map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(label["pairs"], json!(sum), "{label}");
    }
    place.write("pairs.jsonl", "");
    let empty = place.json(&bench(&["--json"]));
    assert_fits("bench-guard", &empty);
    assert_eq!((&empty["pairs"], &empty["contradiction"]), (&json!(0), &Value::Null));
    assert_eq!(place.succeed(&bench(&[])), "0 pairs from pairs.jsonl\n");
}

#[test]
fn documents_fit_their_schemas_and_nothing_else_does() {
    let place = with_pairs();
    place.write("neutral.jsonl", "{\"a\": \"x\", \"b\": \"x\", \"label\": 4.5}\n");
    for (name, command, pairs) in
        [("bench-guard", "guard", "pairs.jsonl"), ("bench-guard", "guard", "neutral.jsonl")]
    {
        assert_right(name, &place.json(&[command, "--pairs", pairs, "--json"]));
    }
}

#[test]
fn similarities_are_shown_in_bands() {
    let place = Place::new();
    let line = |label| format!("{{\"a\": \"x\", \"b\": \"x\", \"label\": {label}}}\n");
    place.write("pairs.jsonl", ["4.5", "0", "5.0", "4.25", "\"a word\""].map(line).concat());
    let found = place.json(&bench(&["--json"]));
    let labels = found["labels"].as_array().unwrap().iter();
    let counts: Vec<_> = labels.map(|one| (one["label"].as_str(), one["pairs"].as_u64())).collect();
    let count = |label, pairs| (Some(label), Some(pairs));
    assert_eq!(counts, [count("0-1", 1), count("4-4.5", 1), count("4.5-5", 2), count("a word", 1)]);
    assert!(found["contradiction"].is_null());
}

#[test]
fn stdin_is_as_good_as_a_file() {
    let place = with_pairs();
    let expected = findings(place.json(&bench(&["--json"])));
    let mut command = place.command(&["guard", "--pairs", "-", "--json"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(PAIRS.as_bytes()).unwrap();
    let answer = place.answer(child.wait_with_output().unwrap());
    assert_eq!((answer.code, answer.err.as_str()), (Some(0), ""));
    assert_eq!(findings(serde_json::from_str(&answer.out).unwrap()), expected);
}

#[test]
fn verdicts_say_what_explain_says() {
    let place = with_pairs();
    let answer = place.run(&bench(&["--verdicts", "v.jsonl"]));
    assert_eq!((answer.code, answer.err.as_str()), (Some(0), "wrote v.jsonl\n"));
    let text = std::fs::read_to_string(place.path("v.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let pairs: Vec<Value> = PAIRS.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), pairs.len());
    for (index, (line, pair)) in lines.into_iter().zip(&pairs).enumerate() {
        let texts = [&pair["a"], &pair["b"]].map(|text| text.as_str().unwrap());
        let words = ["explain", "--texts", texts[0], texts[1], "--json"];
        let explained: Value = serde_json::from_str(&memfold(&place, &words)).unwrap();
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
fn the_configuration_counts() {
    let place = with_pairs();
    let found = |key: &str| {
        let found = place.json(&bench(&["--json", "--set", key]));
        found["contradiction"]["in_use"]["found"].as_u64().unwrap()
    };
    place.write("words.txt", "[opposites]\nteal deploy | navy deploy\n");
    assert!(found("guard.lexicon=words.txt") >= 4);
    let answer = place.run(&bench(&["--set", "detect.contradiction_threshold=0.6"]));
    answer.fails_with(2, &["detect.contradiction_threshold", "no successor"]);
}

#[test]
fn what_cannot_be_read_is_told_with_its_line_and_leaves_nothing() {
    let place = with_pairs();
    place.run(&["guard"]).fails_with(2, &["--pairs"]);
    let answer = place.run(&["guard", "--pairs", "nowhere.jsonl"]);
    answer.fails_with(1, &["failed to open nowhere.jsonl", "hint: name a file of JSON Lines"]);
    place.run(&["guard", "--pairs", "."]).fails_with(1, &["failed to read the pairs of ."]);
    for (bad, expected) in [
        ("{\"a\": \"x\"", "line 17 is no JSON: "),
        ("{\"a\": \"x\", \"label\": \"l\"}", "line 17 has no field \"b\""),
        ("{\"a\": \"x\", \"b\": 7, \"label\": \"l\"}", "line 17: \"b\" is a number, not a text"),
        ("{\"a\": \"x\", \"b\": \"y\", \"label\": 7}", "line 17: the label 7 is outside 0 to 5"),
    ] {
        place.write("pairs.jsonl", format!("{PAIRS}{bad}\n"));
        let before = place.files();
        let answer = place.run(&bench(&["--verdicts", "v.jsonl"]));
        let expected = format!("failed to read the pairs of pairs.jsonl: {expected}");
        answer.fails_with(1, &[&expected, "hint: "]);
        assert!(before == place.files(), "{bad}");
    }
}

#[test]
fn outputs_are_looked_at_before_work() {
    let place = with_pairs();
    place.write("there", "mine");
    let before = place.files();
    let run = |further: &[&str]| place.run(&bench(further));
    run(&["--verdicts", "there"]).fails(
        2,
        "there exists",
        "name another file, or replace it with --force",
    );
    run(&["--verdicts", "./pairs.jsonl", "--force"]).fails(
        2,
        "--verdicts ./pairs.jsonl is an input",
        "name another file: inputs are never changed",
    );
    run(&["--verdicts", "nowhere/f"]).fails_with(1, &["nowhere/f", "hint: make the folder first"]);
    assert!(before == place.files());
    assert_eq!(run(&["--verdicts", "there", "--force"]).code, Some(0));
    assert!(before != place.files());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = with_pairs();
    for arguments in [bench(&[]), bench(&["--json"])] {
        let mut command = place.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let answer = place.answer(child.wait_with_output().unwrap());
        assert_eq!((answer.code, answer.err.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn what_labels_hold_cannot_steer_a_terminal() {
    let place = Place::new();
    let line = json!({ "a": "x", "b": "x", "label": "\u{1b}[2J and a very long label \u{202e}" });
    place.write("pairs.jsonl", line.to_string());
    let screen = place.succeed(&bench(&[]));
    assert!(!screen.contains(['\u{1b}', '\u{202e}']), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
}

/// Of a pair 12 bytes stay, in vectors that double; a judgement that kept a hundred more would be seen.
#[cfg(target_os = "linux")]
#[test]
fn judging_again_and_again_takes_no_more_memory() {
    let place = with_pairs();
    let peak = |times: usize| {
        place.write("pairs.jsonl", PAIRS.repeat(times));
        place.json(&bench(&["--json"]))["peak_anon_bytes"].as_u64().unwrap()
    };
    let (few, many) = (peak(20), peak(2_020));
    assert!(many < few + 2_500_000, "{few} bytes for 320 pairs, {many} for 32,320");
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    let place = with_pairs();
    // More than can be judged before the signal comes.
    place.write("pairs.jsonl", PAIRS.repeat(40_000));
    let before = place.files();
    let mut command = place.command(&bench(&["--verdicts", "v.jsonl"]));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    crate::support::interrupt(&child);
    let answer = place.answer(child.wait_with_output().unwrap());
    assert_eq!(answer.code, Some(130), "{answer:?}");
    assert_eq!(
        (answer.out.as_str(), answer.err.as_str()),
        ("", "error: interrupted; nothing was written\n")
    );
    assert!(before == place.files());
}
