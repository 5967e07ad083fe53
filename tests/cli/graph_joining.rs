//! Near pairs by a graph: `--method graph` of `dedup` and `consolidate`, with the recall that each run measures.

use memfold_datasets::npy::{Component, NpyWriter};
use memfold_tests::generated_rows;
use serde_json::{Value, json};

use crate::support::TestFolder;

const DIM: usize = 24;

/// More than are audited, more than a graph scans.
const ROWS: u32 = 14_000;

const BY_GRAPH: [&str; 2] = ["--method", "graph"];

/// A corpus of generated rows, a sixth of which come near another or equal it.
fn place_of(rows: u32) -> TestFolder {
    let dir = TestFolder::new();
    let mut writer = NpyWriter::create(&dir.path("a.npy"), DIM, Component::F32).unwrap();
    writer.push(&generated_rows(rows, DIM, 5)).unwrap();
    writer.finish().unwrap();
    dir
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
    let dir = place_of(ROWS);
    let exact = dir.json(&dedup(&["--json"]));
    let found = dir.json(&dedup(&[&BY_GRAPH[..], &["--json"]].concat()));
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
fn hnsw_rs_can_be_chosen() {
    let dir = place_of(4_000);
    let exact = dir.json(&dedup(&["--json"]));
    let found = dir.json(&dedup(&["--method", "hnsw_rs", "--json"]));
    assert_eq!((&found["method"], &found["index"]), (&json!("graph"), &json!("hnsw_rs")));
    check_recall(&found, &exact);
    let screen = dir.succeed(&dedup(&["--method", "hnsw_rs"]));
    assert!(screen.contains("--method hnsw_rs"), "{screen}");
}

#[test]
fn what_too_few_pairs_cannot_tell_is_said() {
    let dir = place_of(ROWS);
    let answer = dir.run("dedup a.npy --threshold 0.9999 --method graph");
    assert_eq!(answer.code, Some(0));
    assert!(answer.err.contains("use --method exact"), "{answer:?}");
    let exact = dir.run("dedup a.npy --threshold 0.9999");
    assert!(!exact.err.contains("--method"), "{exact:?}");
}
