//! Files of texts: consolidated as they are, without a model, a provider or a network, and given back in their form.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::TestFolder;

/// The same 300 memories in every form: 51 exact copies, 20 in other capitals, 12 in other words, 10 conflicts.
const FORMS: [&str; 11] = [
    "memories.jsonl",
    "memories.json",
    "strings.json",
    "memories.csv",
    "memories.tsv",
    "memories.txt",
    "memories.parquet",
    "memories.arrow",
    "chroma.json",
    "mem0.json",
    "qdrant.json",
];
/// Forms without users.
const WITHOUT_USERS: [&str; 2] = ["strings.json", "memories.txt"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/texts").join(name)
}

fn copied(name: &str) -> TestFolder {
    let dir = TestFolder::new();
    std::fs::copy(fixture(name), dir.path(name)).unwrap();
    dir
}

/// The results of a run, as far as they do not depend on the form.
fn counts(document: &Value) -> Value {
    let stats = &document["stats"];
    json!({
        "live": document["loaded"]["live"],
        "after": stats["live_after"],
        "merged": stats["merged"],
        "flags": document["planned"]["flag_contradiction"],
        "proposals": document["planned"]["propose_merge"],
    })
}

#[test]
fn every_form_gives_the_same_answer_and_comes_back_as_it_was() {
    let mut answers: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for name in FORMS {
        let dir = copied(name);
        let before = std::fs::read(dir.path(name)).unwrap();
        let found = counts(&dir.json(&["consolidate", name, "--json"]));
        assert_eq!(found["live"], 300, "{name}");
        assert_eq!(found["merged"]["identical"], 51, "{name}");
        let kept = found["after"].as_u64().unwrap();
        answers.entry(found.to_string()).or_default().push(name);
        let output = format!("clean-{name}");
        dir.succeed(&["consolidate", name, "--execute", "--output", &output]);
        assert_eq!(std::fs::read(dir.path(name)).unwrap(), before, "{name} was changed");
        let again = dir.json(&["consolidate", &output, "--json"]);
        assert_eq!(counts(&again)["live"], kept, "{name}");
        assert_eq!(again["planned"]["merge"], 0, "{name}");
        let removed = std::fs::read_to_string(dir.path(&format!("{output}.removed.jsonl")));
        let removed = removed.unwrap();
        assert_eq!(removed.lines().count() as u64, 300 - kept, "{name}");
        for line in removed.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            assert!(
                record["survivor"].is_string() && !record["record"].is_null(),
                "{name}: {line}"
            );
        }
    }
    // Without users two more memories may be near each other, and nothing else differs.
    let with_users = FORMS.len() - WITHOUT_USERS.len();
    assert!(answers.values().any(|names| names.len() >= with_users), "{answers:#?}");
    assert!(answers.len() <= 2, "{answers:#?}");
}

#[test]
fn the_readme_shows_what_the_first_command_prints() {
    let dir = TestFolder::new();
    std::fs::copy(fixture("memories.csv"), dir.path("notes.csv")).unwrap();
    let screen = dir.succeed("consolidate notes.csv");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(manifest.join("../../README.md")).unwrap();
    let shown = readme.split("```\n").nth(3).unwrap();
    assert!(shown.starts_with("300 live"), "{shown}");
    assert!(screen.starts_with(shown), "{shown}\n{screen}");
}

const REVIEWED: &str = "\
Deploys happen every Friday at 5 pm
Alice prefers dark mode in the editor
Alice likes dark mode in her editor
The staging database runs Postgres 16
Staging runs Postgres 16 as its database
";

/// A file with answers about its proposals: one approved, one rejected.
fn reviewed() -> TestFolder {
    let dir = TestFolder::new();
    dir.write("notes.txt", REVIEWED);
    let before = dir.json("consolidate notes.txt --json");
    assert_eq!(before["planned"]["propose_merge"], 2);
    let screen = dir.run_with(&["review", "notes.txt"], "y\nn\n").out;
    assert!(screen.contains("1 approved · 1 rejected"), "{screen}");
    assert!(screen.contains("next: memfold consolidate notes.txt --execute --output"), "{screen}");
    dir
}

#[test]
fn review_answers_about_a_file_are_kept() {
    let dir = reviewed();
    assert_eq!(dir.read("notes.txt"), REVIEWED);
    let planned = dir.json("consolidate notes.txt --json");
    assert_eq!(planned["planned"]["propose_merge"], 0);
    dir.succeed("consolidate notes.txt --execute --output clean.txt");
    assert_eq!(dir.read("clean.txt").lines().count(), 4);
    let removed = dir.read("clean.txt.removed.jsonl");
    assert!(removed.contains("\"rule\":\"review\""), "{removed}");
    let again = dir.run_with(&["review", "notes.txt"], "").out;
    assert!(again.contains("0 undecided"), "{again}");
}

#[test]
fn changed_texts_are_reviewed_again() {
    let dir = reviewed();
    dir.write("notes.txt", REVIEWED.replace("editor", "terminal").replace("Postgres", "MySQL"));
    let planned = dir.json("consolidate notes.txt --json");
    assert_eq!(planned["planned"]["propose_merge"], 2);
}

#[test]
fn a_file_is_checked_against_and_recalled_from_without_a_change() {
    let dir = TestFolder::new();
    dir.write("notes.txt", REVIEWED);
    let text = "Deploys happen every Friday at 5 pm";
    let check = dir.json(&["check", "notes.txt", "--text", text, "--json"]);
    assert_eq!(check["decision"], "touch");
    let found = dir.succeed(&["recall", "notes.txt", "dark mode"]);
    assert!(found.contains("dark mode"), "{found}");
    assert_eq!(dir.read("notes.txt"), REVIEWED);
}

/// Runs only where `MEMFOLD_EXPORTS_PYTHON` names a Python with the packages of `tests/extras/exports.txt`.
#[test]
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn exports_of_the_packages_themselves_are_read_and_applied_back() {
    const VARIABLE: &str = "MEMFOLD_EXPORTS_PYTHON";
    let Some(python) = std::env::var_os(VARIABLE) else {
        return eprintln!("skipped: {VARIABLE} names no Python with tests/extras/exports.txt");
    };
    let dir = TestFolder::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/extras/exports.py");
    let mut command = std::process::Command::new(python);
    command.arg(script).arg(env!("CARGO_BIN_EXE_memfold")).arg(dir.folder());
    let answer = dir.answer(command.output().unwrap());
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let systems: Vec<Value> =
        answer.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(systems.len(), 6, "{systems:?}");
    for counts in systems {
        assert_eq!([&counts["before"], &counts["gone"], &counts["after"]], [9, 3, 6], "{counts}");
    }
}

#[test]
fn stores_of_other_systems_are_named_with_the_command_that_reads_them() {
    let dir = TestFolder::new();
    for (folder, entry, name) in [
        ("chroma", "chroma.sqlite3", "a Chroma store"),
        ("lance", "notes.lance", "a LanceDB store"),
        ("qdrant", "meta.json", "a local Qdrant store"),
    ] {
        std::fs::create_dir_all(dir.path(&format!("{folder}/collection"))).unwrap();
        dir.write(&format!("{folder}/{entry}"), "{}");
        let refused = dir.run(&["consolidate", folder]);
        refused.fails_with(1, &[name, "memfold consolidate notes.json"]);
    }
}

#[test]
fn stdin_is_a_file_of_texts() {
    let dir = TestFolder::new();
    let texts = "Bob owns billing\nBob owns billing.\n\nTea at four\n";
    let answer = dir.run_with(&["consolidate", "-", "--execute", "--output", "out.txt"], texts);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let written = dir.read("out.txt");
    assert_eq!(written.matches("Bob owns billing").count(), 1, "{written:?}");
    assert!(written.contains("Tea at four"));
}

#[test]
fn a_file_of_texts_is_never_changed() {
    let dir = TestFolder::new();
    dir.write("notes.txt", "Bob owns billing\nBob owns billing.\n");
    dir.write("old.txt", "old");
    let refused = |words: &[&str], expected: &str| {
        let answer = dir.run(&[&["consolidate", "notes.txt"][..], words].concat());
        assert_ne!(answer.code, Some(0), "{words:?}");
        assert!(answer.err.contains(expected), "{words:?}: {answer:?}");
    };
    refused(&["--execute"], "--output notes.clean.txt");
    refused(&["--execute", "--output", "notes.txt"], "is an input");
    refused(&["--execute", "--output", "old.txt"], "old.txt exists");
    refused(&["--save-plan"], "memfold import notes.txt --into brain.db");
    refused(&["--execute", "--output", "new.txt", "--expect", "beef"], "expected beef");
    let written = dir.read("notes.txt");
    assert_eq!(written, "Bob owns billing\nBob owns billing.\n");
    assert!(!dir.path("new.txt").exists());
    let sample = TestFolder::with_pair();
    let answer = sample.run("consolidate brain.db --execute --output x.db");
    assert!(answer.err.contains("leave --output out"), "{answer:?}");
}

#[test]
fn a_wrong_input_is_named_with_advice() {
    let dir = TestFolder::new();
    dir.write("paper.pdf", b"%PDF-1.7\n1 0 obj");
    dir.run("consolidate paper.pdf").fails_with(1, &["a PDF", "hint: "]);
    // Control characters in a text are none of its business.
    dir.write("nul.txt", b"abc\0def\n");
    assert!(!dir.run("consolidate nul.txt").err.contains("panicked"));
}

/// Two users' memories were merged; a field of any spelling keeps them apart, a run or a session does not.
#[test]
fn users_are_kept_apart() {
    let dir = TestFolder::new();
    for (field, kept) in
        [("user_id", 2), ("owner", 2), ("agent_id", 2), ("app_id", 2), ("run_id", 1)]
    {
        let line = |value| format!("{{\"text\":\"Prefers green tea\",\"{field}\":\"{value}\"}}\n");
        dir.write("notes.jsonl", line("a") + &line("b"));
        let found = dir.json("consolidate notes.jsonl --json");
        assert_eq!(found["stats"]["live_after"], kept, "{field}");
    }
}

/// Memories without a time were as young as their import, and so protected.
#[test]
fn unknown_age_is_not_young() {
    let dir = TestFolder::new();
    dir.write("notes.txt", "Bob owns billing\nBob owns billing\n");
    let found = dir.json("consolidate notes.txt --json");
    assert_eq!(found["stats"]["live_after"], 1);
    dir.write(
        "young.jsonl",
        "{\"text\":\"a b c\",\"created_at\":\"2026-01-01T00:00:00Z\",\"id\":1}\n\
         {\"text\":\"a b c\",\"created_at\":\"2026-01-01T00:00:01Z\",\"id\":2}\n",
    );
    let words = ["consolidate", "young.jsonl", "--json", "--now", "2026-01-01T01:00:00Z"];
    let found = dir.json(&words);
    assert_eq!(found["protected"], Value::Null);
    assert_eq!(found["stats"]["noops_by_cause"]["protection"], 2, "{found:#}");
}

#[test]
fn bad_lines_are_left_out_and_named_once() {
    let dir = TestFolder::new();
    dir.write(
        "notes.jsonl",
        "{\"text\":\"Bob owns billing\"}\n{oops\n{\"text\":\"Tea at four\"}\n",
    );
    let answer = dir.run("consolidate notes.jsonl");
    assert_eq!(answer.code, Some(0));
    assert!(answer.err.contains("1 of 3 lines is not JSON: 2"), "{answer:?}");
    let strict = dir.run("consolidate notes.jsonl --strict");
    assert_ne!(strict.code, Some(0));
    assert!(strict.err.contains("1 of 3 lines"), "{strict:?}");
}
