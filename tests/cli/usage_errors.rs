//! Wrong command lines and wrong configuration: exit code 2, and the words.

use crate::support::{TestFolder, consolidate};

/// Command lines that name no file, and texts of the answer.
const WRONG: &[(&str, &[&str])] = &[
    ("", &["Usage: memfold"]),
    ("consolidat", &["consolidate"]),
    ("consolidate", &["<STORE>"]),
    ("consolidate brain.db --treshold 0.9", &["'--treshold'", "'--threshold'"]),
    ("consolidate brain.db --threshold 1.5", &["'1.5'", "expected a number from 0 to 1"]),
    ("consolidate brain.db --threshold nan", &["expected a number from 0 to 1"]),
    ("consolidate brain.db --limit 0", &["expected a whole number, 1 or more"]),
    ("consolidate brain.db --execute --max-change-share 2", &["from 0 to 1"]),
    ("consolidate brain.db --since yesterday", &["--since", "yesterday"]),
    ("consolidate brain.db --now yesterday", &["--now \"yesterday\"", "such as 2026-06-30T12:00"]),
    ("consolidate brain.db --config nowhere.yaml", &["read the configuration", "nowhere.yaml"]),
    ("consolidate brain.db --set gaurd.enabled=false", &["unknown key `gaurd`", "did you mean"]),
    ("consolidate brain.db --trigger wekly", &["daily, weekly, session_end", "mean weekly?"]),
    ("consolidate brain.db --store-kind mcp", &["\"mcp\"", "mcp_memory"]),
    ("config schema --threads 0", &["expected a whole number, 1 or more"]),
    ("config schema --threads -2", &["expected a whole number, 1 or more"]),
    ("config schema --threads 99999999999999999999999", &["expected a whole number, 1 or more"]),
    ("apply brain.db latest --limit 1.5", &["expected a whole number, 1 or more"]),
    ("search brain.db", &["--vector"]),
    ("search brain.db --id a -k 0", &["from 1 to 4294967295"]),
    ("search brain.db --row x", &["expected a whole number, 0 or more"]),
    ("search brain.db --vector nothing", &["\"nothing\""]),
    ("search brain.db --vector=[1,0] --threshold nan", &["from -1 to 1"]),
    ("search brain.db --queries words.txt", &["--output"]),
    ("dedup", &["<INPUT>"]),
    ("dedup x.npy --threshold 0.9,high", &["'high'", "expected a number"]),
    ("dedup x.npy --keep oldest", &["first, newest, most_central or column:NAME"]),
    ("dedup x.npy --linkage average", &["greedy_complete", "single"]),
    ("dedup x.npy --pairs-form distinct", &["--pairs"]),
    ("dedup x.npy --tiles-for 1.5", &["100e6"]),
    ("index build brain.db --wait x", &["from 0 to 4294967295"]),
    ("save brain.db", &["--text"]),
    ("save brain.db --text a --importance inf", &["expected a number"]),
    ("save brain.db --text a --jsonl -", &["--jsonl"]),
    ("review brain.db a --merge --both", &["--both"]),
    ("explain brain.db", &["<ID>"]),
    ("explain brain.db x --texts a b", &["cannot be used with"]),
    ("explain --texts alone", &["2 values required"]),
    ("convert in.npy a.npy --to csv", &["invalid value 'csv'", "safetensors"]),
    ("export brain.db -o x.dat", &["x.dat", "--format"]),
    ("runs brain.db --execute", &["--prune-older-than"]),
    ("runs brain.db --prune-older-than soon", &["expected hours, days or weeks"]),
    ("completions", &["--man"]),
    // Words and keys of earlier versions.
    ("plans brain.db", &["`memfold plans` any more", "hint: use memfold runs STORE --plans"]),
    ("consolidate brain.db --set schedule=daily", &["unknown key", "memfold-server --schedule"]),
];

/// "number would be zero for non-zero type", "invalid float literal" and "99 is not in 2..=64" are
/// not messages for people.
#[test]
fn wrong_command_lines_are_usage_errors() {
    let dir = TestFolder::with_pair();
    for (line, parts) in WRONG {
        let answer = dir.run(*line);
        answer.fails_with(2, parts);
        for word in ["literal", "non-zero", "..=", "digit", "parse", "target type"] {
            assert!(!answer.err.contains(word), "{line}: {}", answer.err);
        }
    }
}

#[test]
fn wrong_configuration_names_file_and_line() {
    let dir = TestFolder::with_pair();
    for (text, parts) in [
        ("detect:\n  exact_txet: no\n", ["memfold.yaml, line 2", "exact_text"]),
        ("rules:\n  - id: R9\n    trigger: hourly\n", ["memfold.yaml, line 3", "session_end"]),
        ("detect: [1, 2\n", ["failed to read the configuration", "memfold.yaml"]),
    ] {
        dir.write("memfold.yaml", text);
        dir.run("consolidate brain.db").fails_with(2, &parts);
    }
    std::fs::remove_file(dir.path("memfold.yaml")).unwrap();
    let output = dir.command(&consolidate(&[])).env("MEMFOLD_ISA", "bogus").output().unwrap();
    dir.answer(output).fails_with(2, &["level \"bogus\" of MEMFOLD_ISA", "hint: set MEMFOLD_ISA"]);
}

/// The first line of a file that is not a lexicon was displayed: a path that is mistyped, or
/// planted, may lead to a private key.
#[test]
fn contents_of_a_wrong_lexicon_are_not_shown() {
    let dir = TestFolder::with_pair();
    dir.write("id_rsa", "hunter2-BEGIN-PRIVATE\nKEY\n");
    for command in [&consolidate(&[])[..], &["explain", "--texts", "one", "two"]] {
        let answer = dir.run(&[command, &["--set", "guard.lexicon=id_rsa"]].concat());
        assert!(!answer.err.contains("hunter2"), "{}", answer.err);
        let message = "read the lexicon: id_rsa, line 1: expected a section before the first entry";
        answer.fails_with(2, &[message, "hint: a lexicon has sections"]);
    }
}

/// Run ids and keys of the configuration were broken at 80 columns, also in a pipe.
#[test]
fn ids_digests_and_keys_stay_whole_in_a_pipe() {
    let dir = TestFolder::with_pair();
    let dry = dir.succeed(&consolidate(&["--set", "time_zone=UTC", "--threshold", "0.96"]));
    let next = dry.lines().find(|line| line.starts_with("next: ")).unwrap();
    let report = dir.json(&consolidate(&["--json", "--threshold", "0.96"]));
    assert!(next.contains(report["plan_digest"].as_str().unwrap()), "{dry}");
    assert!(next.ends_with("--set time_zone=UTC") && !dry.contains('\\'), "{dry}");
    dir.succeed(&consolidate(&["--execute"]));
    let run = dir.json("runs brain.db --json")["runs"][0].clone();
    let listed = dir.succeed("runs brain.db");
    for id in ["run_id", "plan_id"] {
        assert!(listed.contains(run[id].as_str().unwrap()), "{listed}");
    }
    let shown = dir.succeed("config show");
    for entry in dir.json("config show --json")["entries"].as_array().unwrap() {
        let key = entry["key"].as_str().unwrap();
        let is_key = |line: &str| line.split_whitespace().next() == Some(key);
        assert!(shown.lines().any(is_key), "{key}: {shown}");
    }
}

/// A category without memories gave "0 near pairs" and no warning; "3 live" described memories
/// outside the scope.
#[test]
fn unmatched_category_is_a_warning() {
    let dir = TestFolder::with_pair();
    let answer = dir.run(&consolidate(&["--category", "genral"]));
    let warning = "warning: no live memory has the category \"genral\"; did you mean \"general\"?";
    assert!(answer.err.contains(warning), "{answer:?}");
    assert!(answer.out.starts_with("3 live (0 in scope) → 3 · "), "{answer:?}");
}
