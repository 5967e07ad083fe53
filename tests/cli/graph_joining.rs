//! Near pairs by a graph: `--method graph` of `dedup` and `consolidate`, with the recall that each run measures.

use std::path::Path;

use memfold_datasets::npy::{Component, NpyWriter};
use memfold_simd::Level;
use memfold_tests::{generated_rows, real_vectors, report_skipped};
use serde_json::{Value, json};

use crate::support::{Place, consolidate};

const DIM: usize = 24;

/// More than are audited, more than a graph scans.
const ROWS: u32 = 14_000;

const BY_GRAPH: [&str; 2] = ["--method", "graph"];

/// A corpus of generated rows, a sixth of which come near another or equal it.
fn place_of(rows: u32) -> Place {
    let place = Place::new();
    let mut writer = NpyWriter::create(&place.path("a.npy"), DIM, Component::F32).unwrap();
    writer.push(&generated_rows(rows, DIM, 5)).unwrap();
    writer.finish().unwrap();
    place
}

fn dedup<'a>(further: &[&'a str]) -> Vec<&'a str> {
    [&["dedup", "a.npy", "--threshold", "0.9"], further].concat()
}

fn number(document: &Value, pointer: &str) -> f64 {
    let found = document.pointer(pointer).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no {pointer} in {document}"))
}

/// Checks that an interval holds the share of `exact` pairs that were found.
#[track_caller]
fn check_recall(found: &Value, exact: &Value) {
    let (pairs, all) = (number(found, "/distinct_pairs"), number(exact, "/distinct_pairs"));
    let recall = &found["pair_recall"];
    assert_eq!(recall["kind"], "sampled");
    let (low, high) = (number(recall, "/low"), number(recall, "/high"));
    assert!((low..=high).contains(&(pairs / all)), "{pairs} of {all}: {recall}");
    assert!(number(recall, "/sampled_rows") > 0.0 && number(recall, "/sampled_pairs") > 0.0);
}

#[test]
fn dedup_finds_nearly_all_pairs_and_measures_how_many() {
    let place = place_of(ROWS);
    let exact = place.json(&dedup(&["--json"]));
    let found = place.json(&dedup(&[&BY_GRAPH[..], &["--json"]].concat()));
    assert_eq!((&found["method"], &found["index"]), (&json!("graph"), &json!("memfold")));
    assert_eq!(found["distinct_rows"], exact["distinct_rows"]);
    check_recall(&found, &exact);
    assert_eq!(found["pair_recall"]["sampled_rows"], 8_192);
    let share = number(&found, "/distinct_pairs") / number(&exact, "/distinct_pairs");
    assert!(share > 0.995, "{share}");
    for stage in ["prepare", "join", "audit", "cluster"] {
        assert!(number(&found["seconds"], &format!("/{stage}")) > 0.0, "{stage}");
    }
    assert!(exact["index"].is_null() && exact["seconds"]["audit"] == 0.0);
}

#[test]
fn neither_threads_nor_level_are_seen() {
    let place = place_of(ROWS);
    let words = dedup(&[&BY_GRAPH[..], &["--json"]].concat());
    let findings = |further: &[&str], level: Option<Level>| {
        let mut command = place.command(&[&words[..], further].concat());
        level.inspect(|level| {
            command.env("MEMFOLD_ISA", level.name());
        });
        let answer = place.answer(command.output().unwrap());
        assert_eq!(answer.code, Some(0), "{answer:?}");
        let mut found: Value = serde_json::from_str(&answer.out).unwrap();
        for name in ["seconds", "peak_rss_bytes", "peak_anon_bytes", "threads", "isa"] {
            found.as_object_mut().unwrap().remove(name).unwrap();
        }
        found
    };
    let expected = findings(&["--threads", "1"], None);
    assert_eq!(findings(&["--threads", "2"], None), expected);
    assert_eq!(findings(&["--threads", "8"], None), expected);
    for level in Level::available() {
        assert_eq!(findings(&[], Some(level)), expected, "{}", level.name());
    }
}

#[test]
fn several_thresholds_have_a_recall_each() {
    let place = place_of(ROWS);
    let several = ["--threshold", "0.8,0.9,0.97"];
    let words = |further: &'static [&'static str]| {
        [&["dedup", "a.npy"], &several[..], &["--json"], further].concat()
    };
    let (exact, found) = (place.json(&words(&[])), place.json(&words(&BY_GRAPH)));
    for at in 0..3 {
        check_recall(&found["results"][at], &exact["results"][at]);
    }
    let screen = place.succeed(&[&["dedup", "a.npy"], &several[..], &BY_GRAPH].concat());
    assert!(screen.contains("pairs are found by a graph"), "{screen}");
    // A row of a table stays on one line in a pipe, and so does a command.
    let is_whole = |line: &&str| line.starts_with("next: ") || line.starts_with(' ');
    let mut remarks = screen.lines().filter(|line| !is_whole(line));
    assert!(remarks.all(|line| line.chars().count() <= 80), "{screen}");
}

#[test]
fn hnsw_rs_can_be_chosen() {
    let place = place_of(4_000);
    let exact = place.json(&dedup(&["--json"]));
    let found = place.json(&dedup(&["--method", "hnsw_rs", "--json"]));
    assert_eq!((&found["method"], &found["index"]), (&json!("graph"), &json!("hnsw_rs")));
    check_recall(&found, &exact);
    let screen = place.succeed(&dedup(&["--method", "hnsw_rs"]));
    assert!(screen.contains("--method hnsw_rs"), "{screen}");
}

#[test]
fn the_screen_tells_the_recall_in_80_columns() {
    let place = place_of(ROWS);
    let screen = place.succeed(&dedup(&BY_GRAPH));
    assert!(screen.contains(" at or above 0.9, found by a graph\nrecall of different vectors "));
    assert!(screen.contains("audited with 8,192 rows"), "{screen}");
    assert!(screen.contains("--method graph"), "the next command does the same: {screen}");
    assert!(!screen.contains("exact join"), "{screen}");
    assert!(
        screen
            .lines()
            .filter(|line| !line.starts_with("next: "))
            .all(|line| line.chars().count() <= 80),
        "{screen}"
    );
}

#[test]
fn what_too_few_pairs_cannot_tell_is_said() {
    let place = place_of(ROWS);
    let answer = place.run(&["dedup", "a.npy", "--threshold", "0.9999", "--method", "graph"]);
    assert_eq!(answer.code, Some(0));
    assert!(answer.err.contains("use --method exact"), "{answer:?}");
    let exact = place.run(&["dedup", "a.npy", "--threshold", "0.9999"]);
    assert!(!exact.err.contains("--method"), "{exact:?}");
}

/// The actions of a plan.
fn actions(place: &Place, words: &[&str]) -> Value {
    place.succeed(&[words, &["--plan", "plan.json", "--json"]].concat());
    let plan = std::fs::read_to_string(place.path("plan.json")).unwrap();
    std::fs::remove_file(place.path("plan.json")).unwrap();
    serde_json::from_str::<Value>(&plan).unwrap()["actions"].take()
}

#[test]
fn consolidating_by_a_graph_plans_the_same_for_the_sample() {
    let place = Place::with_sample();
    let exact = actions(&place, &consolidate(&[]));
    assert!(exact.as_array().unwrap().len() > 10);
    for method in ["graph", "hnsw_rs"] {
        let words = consolidate(&["--method", method]);
        assert_eq!(actions(&place, &words), exact, "{method}");
    }
    let report = place.json(&consolidate(&["--method", "graph", "--json"]));
    let recall = &report["detected"]["pair_recall"];
    assert_eq!((&recall["kind"], &recall["low"]), (&json!("sampled"), &json!(1.0)));
    let screen = place.succeed(&consolidate(&BY_GRAPH));
    assert!(screen.contains("recall 1.000 (1.000 to 1.000) by an audited sample"), "{screen}");
    assert!(screen.contains(" --method graph"), "the next command does the same: {screen}");
    assert!(
        screen
            .lines()
            .filter(|line| !line.starts_with("next: "))
            .all(|line| line.chars().count() <= 80),
        "{screen}"
    );
}

/// The whole path on real memories: what the graph finds, and what becomes of the plan.
#[test]
fn real_memories_are_planned_alike() {
    if real_vectors(0).is_none() {
        return report_skipped();
    }
    let data = std::env::var("MEMFOLD_DATA").unwrap();
    let file = |name: &str| Path::new(&data).join("embeddings").join(name).display().to_string();
    let (vectors, texts) = (file("vectors_f16.npy"), file("texts.parquet"));
    let place = Place::new();
    place.bench(&["generate", "--brain", "--from", &vectors, "--texts", &texts, "-o", "brain.db"]);
    for threshold in ["0.85", "0.95"] {
        let words = ["dedup", &vectors, "--threshold", threshold, "--json"];
        let exact = place.json(&words);
        let found = place.json(&[&words[..], &BY_GRAPH].concat());
        check_recall(&found, &exact);
        assert!(number(&found, "/pair_recall/value") >= 0.99, "{threshold}: {found}");
        assert!(
            number(&found, "/distinct_pairs") >= 0.99 * number(&exact, "/distinct_pairs"),
            "{threshold}: {found}"
        );
    }
    let exact = actions(&place, &consolidate(&[]));
    let found = actions(&place, &consolidate(&BY_GRAPH));
    let (exact, found) = (ids_by_action(&exact), ids_by_action(&found));
    let missing = exact.iter().filter(|action| !found.contains(action)).count();
    let surplus = found.iter().filter(|action| !exact.contains(action)).count();
    let differing = missing.max(surplus);
    assert!(
        differing * 100 <= exact.len(),
        "of {} actions {missing} are missing, {surplus} are others",
        exact.len()
    );
}

/// Each action without its label, which counts on.
fn ids_by_action(actions: &Value) -> Vec<Value> {
    let mut actions = actions.as_array().unwrap().clone();
    for action in &mut actions {
        action.as_object_mut().unwrap().remove("label");
    }
    actions
}
