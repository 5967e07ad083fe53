//! Help, documents and plots of every command.

use std::collections::BTreeSet;

use serde_json::{Deserializer, Value, json};

use crate::schemas::{assert_fits, assert_right, index};
use crate::support::{TestFolder, listed_commands};
use crate::{SERVER, memfold};

/// Waits longer than any test takes, because other tests take the processors meanwhile.
const PATIENT: &str = "quick_check.time_limit_ms=60000";

/// Commands, and the published documents that they print.
const COMMANDS: [(&str, &[&str]); 10] = [
    ("ann", &["bench-ann"]),
    ("check", &["bench-check"]),
    ("guard", &["bench-guard"]),
    ("judge", &[]),
    ("generate", &[]),
    ("export", &[]),
    ("likeness", &[]),
    ("recall", &[]),
    ("years", &[]),
    ("plot", &[]),
];

/// Sixteen pairs, six of them contradictions.
const PAIRS: &str = include_str!("../data/guard/pairs.jsonl");

#[test]
fn every_help_is_as_published() {
    let dir = TestFolder::new();
    let help = dir.succeed("--help");
    assert_eq!(listed_commands(&help), COMMANDS.map(|(name, _)| name));
    insta::assert_snapshot!("memfold-bench", help);
    for (command, _) in COMMANDS {
        let help = dir.succeed(&[command, "--help"]);
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
        insta::assert_snapshot!(command, help);
    }
    let version = format!("memfold-bench {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(dir.succeed("--version"), version);
}

#[test]
fn the_index_of_schemas_names_the_published_documents() {
    let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let published = COMMANDS.iter().filter(|(_, documents)| !documents.is_empty());
    let expected = published.map(|(command, documents)| ((*command).to_owned(), names(documents)));
    assert_eq!(index("memfold-bench"), expected.collect());
}

#[test]
fn documents_fit_their_schemas_exactly() {
    let dir = TestFolder::with_pair();
    dir.succeed("generate -o rows.npy --rows 600 --dim 16");
    dir.succeed("generate -o like.npy --like rows.npy --rows 600");
    for (name, count, words) in [
        ("", 1, &["export", "brain.db", "--runs", "1"][..]),
        ("bench-check", 1, &["check", "brain.db", "--checks", "3", "--set", PATIENT]),
        (
            "bench-ann",
            2,
            &["ann", "--base", "rows.npy", "--method", "graph", "--ef-search", "16,32"],
        ),
        ("bench-ann", 1, &["ann", "--base", "rows.npy", "--method", "exact"]),
        ("", 1, &["likeness", "rows.npy", "like.npy"]),
    ] {
        let said = dir.succeed(&[words, &["--json"]].concat());
        let documents: Result<Vec<Value>, _> = Deserializer::from_str(&said).into_iter().collect();
        let documents = documents.unwrap();
        assert_eq!(documents.len(), count, "{words:?}: {said}");
        let published = documents.iter().filter(|_| !name.is_empty());
        published.for_each(|document| assert_right(name, document));
    }
}

#[test]
fn checks_and_saves_through_a_server_are_measured() {
    let dir = TestFolder::with_sample();
    memfold(&dir, &["index", "build", "brain.db"]);
    let live = || dir.one::<i64>("SELECT count(*) FROM stm");
    let before = live();
    let server = SERVER.to_str().unwrap();
    let words = ["check", "brain.db", "--checks", "6", "--set", PATIENT, "--server", server];
    let found = dir.json(&[&words[..], &["--json"]].concat());
    assert_fits("bench-check", &found);
    for mode in ["in_process", "http", "mcp", "in_process_save", "http_save"] {
        let settings = found["settings"].as_array().unwrap().iter();
        let of_mode: Vec<_> = settings.filter(|setting| setting["mode"] == mode).collect();
        assert_eq!(of_mode.len(), 1, "{found:#}");
        assert_eq!((&of_mode[0]["count"], &of_mode[0]["checked"]), (&json!(6), &json!(6)));
        assert!(of_mode[0]["p50_us"].as_f64().unwrap() > 0.0, "{found:#}");
    }
    // A copy was written into.
    assert_eq!(live(), before);
    dir.run("check brain.db --server nowhere").fails(
        1,
        "there is no nowhere",
        "build it with cargo build --release -p memfold-server",
    );
}

#[test]
fn the_curve_is_drawn_where_there_is_one() {
    let dir = TestFolder::new();
    let words = ["guard", "--pairs", "pairs.jsonl", "--curve", "c.svg"];
    dir.write("pairs.jsonl", PAIRS);
    dir.succeed(&words);
    let svg = dir.read("c.svg");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for part in ["precision", "recall", "F1", "in use: 0.5", "16 pairs, 6 of them labelled"] {
        assert!(svg.contains(part), "{part}");
    }
    dir.write("pairs.jsonl", PAIRS.replace("\"contradiction\"", "\"neutral\""));
    let before = dir.files();
    dir.run("guard --pairs pairs.jsonl --curve new.svg").fails(
        1,
        "no pair is labelled contradiction: there is no curve to draw",
        "give pairs with that label",
    );
    dir.run(&words).fails_with(2, &["c.svg exists"]);
    assert!(before == dir.files());
}

#[test]
fn described_plots_are_drawn() {
    let dir = TestFolder::new();
    std::fs::create_dir(dir.path("plots")).unwrap();
    let plots = json!([
        {"name": "growth", "title": "Growth", "details": "of two", "kind": "lines",
         "x": {"name": "rows"}, "y": {"name": "seconds", "range": [0, 3]},
         "lines": [{"name": "memfold", "points": [[10, 1], [1000, 2]]}]},
        {"name": "bars", "title": "Bars", "details": "of one", "kind": "bars",
         "bars": [{"label": "memfold", "value": 2.5, "note": "2.5 s", "marked": true}]},
    ]);
    dir.write("plots.json", plots.to_string());
    dir.succeed("plot plots.json -o plots");
    for (name, words) in [("growth", ["Growth", "1k"]), ("bars", ["Bars", "2.5 s"])] {
        let svg = std::fs::read_to_string(dir.path(&format!("plots/{name}.svg"))).unwrap();
        assert!(svg.starts_with("<svg ") && words.iter().all(|word| svg.contains(word)), "{svg}");
    }
    dir.write("plots.json", "[{\"name\": \"x\", \"kind\": \"pie\"}]");
    dir.run("plot plots.json -o plots").fails_with(1, &["failed to read plots.json"]);
}
