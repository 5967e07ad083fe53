//! Text of stores, files and command lines can neither steer a terminal nor hide in the output.

use memfold_tests::{memory, unit_vector};

use crate::support::{Answer, TestFolder, consolidate};

/// Clears the screen, turns the direction of text, hides a space, ends a line, and hides letters.
const EVIL: &str = "\u{1b}[2J\u{9b}31m\u{202e}\u{200b}\u{2028}\u{e0041}\u{7f}";

/// Whether a character may reach a terminal from a store.
fn is_visible(character: char) -> bool {
    let is_deceptive = matches!(character,
        '\u{0}'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e0fff}');
    !is_deceptive
}

#[track_caller]
fn assert_visible(arguments: &[&str], answer: &Answer) {
    for (name, text) in [("stdout", &answer.out), ("stderr", &answer.err)] {
        let hidden = text.chars().find(|character| !is_visible(*character));
        assert_eq!(hidden, None, "{name} of {arguments:?}:\n{}", text.escape_debug());
    }
    assert!(!answer.err.contains("panicked") && !answer.err.contains("defect"), "{answer:?}");
}

fn id(number: usize) -> String {
    format!("m{number}{EVIL}")
}

/// Pairs of equal texts, a contradiction, and names that are anything but.
fn dir() -> TestFolder {
    let texts = [
        "Tea is ordered from the shop",
        "Tea is ordered from the shop",
        "Port is 8080",
        "Port is 9090",
    ];
    let rows = texts.iter().enumerate().map(|(at, text)| {
        let mut row = memory(at, format!("{text} {EVIL}."), &unit_vector(8, at / 2));
        row.id = id(at);
        row.categories.push(format!("c{EVIL}"));
        row.source = format!("agent{EVIL}");
        if let Some(embedding) = &mut row.embedding {
            embedding.model = Some(format!("m{EVIL}"));
        }
        row
    });
    TestFolder::with(&rows.collect::<Vec<_>>())
}

/// Bidi and zero-width characters passed through `undo` and `forget`.
#[test]
fn hostile_ids_and_texts_are_escaped() {
    let dir = dir();
    let (first, second) = (id(0), id(1));
    for arguments in [
        consolidate(&["-v", "--plan", "p.json"]),
        consolidate(&["--json"]),
        consolidate(&["--category", &format!("c{EVIL}x")]),
        consolidate(&["--save-plan"]),
        vec!["runs", "brain.db", "--plans"],
        vec!["runs", "brain.db", "latest", "--plans"],
        vec!["runs", "brain.db", "latest", "--plans", "--json"],
        vec!["review", "brain.db", "latest"],
        vec!["apply", "brain.db", "latest"],
        vec!["apply", "brain.db", "latest", "--json"],
        consolidate(&["-v", "--execute", "--max-change-share", "1"]),
        vec!["runs", "brain.db"],
        vec!["runs", "brain.db", "latest"],
        vec!["runs", "brain.db", "latest", "--json"],
        vec!["review", "brain.db", "--flags"],
        vec!["review", "brain.db", "--flags", "--json"],
        vec!["review", "brain.db", EVIL, "--merge"],
        vec!["undo", "brain.db", "latest"],
        vec!["undo", "brain.db", "--memory", &first],
        vec!["undo", "brain.db", "--memory", &first, "--json"],
        vec!["undo", "brain.db", EVIL],
        vec!["explain", "brain.db", &first, "--json"],
        vec!["explain", "brain.db", EVIL],
        vec!["status", "brain.db", "--list", "hot", "-v"],
        vec!["status", "brain.db", "--list", "warm", "--json"],
        vec!["status", "brain.db", "-v"],
        vec!["status", "brain.db", "--json"],
        vec!["status", "brain.db", "--exit-code"],
        vec!["explain", "brain.db", &first],
        vec!["undo", "brain.db", "--memory", &second],
        vec!["undo", "brain.db", "--archived"],
        vec!["forget", "brain.db", &second, "--with-merged"],
        vec!["forget", "brain.db", &second, "--json"],
        vec!["forget", "brain.db", EVIL],
        vec!["search", "brain.db", "--id", &second],
        vec!["check", "brain.db", "--text", EVIL],
        vec!["save", "brain.db", "--text", "Fresh.", "--id", &format!("new{EVIL}")],
        vec!["index", "build", "brain.db"],
        vec!["index", "info", "brain.db"],
        vec!["export", "brain.db", "-o", "x.arrow"],
        vec!["doctor", "brain.db"],
        vec!["doctor", "brain.db", "--json"],
        vec!["forget", "brain.db", &second, "--with-merged", "--execute"],
    ] {
        let answer = dir.run(&arguments);
        assert_visible(&arguments, &answer);
        if arguments.contains(&"--json") && answer.code == Some(0) {
            serde_json::from_str::<serde_json::Value>(&answer.out).unwrap();
        }
    }
    let resolved = dir.run(&["explain", "brain.db", &id(3), "--json"]).out;
    let resolved: serde_json::Value = serde_json::from_str(&resolved).unwrap();
    assert_eq!(resolved["live_id"], id(3), "JSON keeps its values");
}

/// Texts of triggers, names of tables and columns, and paths passed through error messages.
#[test]
fn hostile_names_in_errors_are_escaped() {
    let dir = dir();
    let trigger = format!(
        "CREATE TRIGGER \"t{EVIL}\" BEFORE UPDATE ON stm BEGIN SELECT RAISE(ABORT, 'no {EVIL}'); END;
         CREATE TABLE \"t{EVIL}\" (\"c{EVIL}\" REFERENCES stm(id)); ALTER TABLE stm ADD COLUMN \"c{EVIL}\";"
    );
    dir.sql(&trigger);
    let missing = format!("no{EVIL}such.db");
    let setting = format!("guard.e{EVIL}=1");
    dir.write(&format!("odd{EVIL}.yaml"), "guard: {\"e\u{202e}\": 1}\n");
    dir.write(&format!("odd{EVIL}.jsonl"), format!("{{\"text\": {EVIL}"));
    let (yaml, lines) = (format!("odd{EVIL}.yaml"), format!("odd{EVIL}.jsonl"));
    let execute = ["--execute", "-v", "--max-change-share", "1"];
    for arguments in [
        consolidate(&[&execute[..], &["--set", "merge.absorbed=move"]].concat()),
        consolidate(&execute),
        vec!["runs", "brain.db", "latest"],
        vec!["doctor", "brain.db"],
        vec!["doctor", &missing],
        vec!["consolidate", &missing, "-v"],
        consolidate(&["--report", "brain.db\u{1b}/r.json", "--plan", &missing]),
        consolidate(&["--set", &setting]),
        consolidate(&["--config", &yaml]),
        consolidate(&["--threshold", EVIL]),
        consolidate(&["--trigger", EVIL]),
        consolidate(&["--since", EVIL]),
        consolidate(&["--method", EVIL]),
        consolidate(&["--now", EVIL]),
        consolidate(&[&format!("--{EVIL}")]),
        vec![EVIL],
        vec!["save", "brain.db", "--jsonl", &lines],
        vec!["search", "brain.db", "--vector", EVIL],
        vec!["dedup", &lines],
        vec!["convert", &lines, "out.npy"],
        vec!["apply", "brain.db", EVIL],
        vec!["apply", "brain.db", "latest", "--only", EVIL],
        vec!["completions", EVIL],
    ] {
        assert_visible(&arguments, &dir.run(&arguments));
    }
    let json = dir.run(&["save", "brain.db", "--jsonl", &lines]);
    assert_visible(&["save"], &json);
}
