//! `memfold check`, `memfold save` and flagged pairs.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Stdio};

use memfold_store::brain_db::{BrainDb, OpenOptions};
use memfold_tests::{PATIENT, integrity, memory};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{TestFolder, wait_until};

const DIM: usize = 64;
const OLD: &str = "The release meeting is in the large room.";

fn near(cosine: f32, axis: usize) -> Vec<f32> {
    let mut vector = vec![0.0; DIM];
    vector[0] = cosine;
    vector[axis] = (1.0 - cosine * cosine).sqrt();
    vector
}

/// With one memory as `brain.db`.
fn dir() -> TestFolder {
    TestFolder::with(&[memory(0, OLD, &near(1.0, 1))])
}

fn live(store: &Path) -> Vec<String> {
    let connection = Connection::open(store).unwrap();
    let sql = "SELECT content FROM stm WHERE source NOT LIKE 'archived:%' ORDER BY content";
    let mut statement = connection.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Saves lines in a process; its stdout holds the answers.
fn spawn(dir: &TestFolder, lines: &[Value]) -> Child {
    let mut child = dir
        .command(&["save", "brain.db", "--jsonl", "-", "--set", PATIENT])
        .args(["--set", "busy_timeout_ms=120000"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    // A killed process reads no more.
    std::thread::spawn(move || input.write_all(text.as_bytes()).ok());
    child
}

#[test]
fn lines_are_answered_one_by_one() {
    let dir = dir();
    let lines = "{\"text\":\"First.\",\"id\":\"a\"}\nnonsense\n\n{\"text\":\"Second.\",\"categories\":[\"x\"]}\n\
                 {\"text\":\"Other.\",\"id\":\"a\"}\n{\"text\":\"first.\",\"vector\":[1,2]}\n";
    dir.write("lines.jsonl", lines);
    let answer = dir.run(&["save", "brain.db", "--jsonl", "lines.jsonl", "--set", PATIENT]);
    assert_eq!(answer.code, Some(4), "{answer:?}");
    let answers: Vec<Value> =
        answer.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<(u64, bool)> = answers
        .iter()
        .map(|line| (line["line"].as_u64().unwrap(), line["stored"].as_bool().unwrap()))
        .collect();
    assert_eq!(told, [(1, true), (2, false), (4, true), (5, false), (6, true)]);
    assert_eq!(answers[0]["id"], "a");
    assert!(answers[3]["error"].as_str().unwrap().contains("another memory"), "{}", answers[3]);
    assert_eq!(live(&dir.path("brain.db")).len(), 4);
    dir.run("save brain.db --jsonl none.jsonl").fails_with(1, &["none.jsonl"]);
}

/// Saves every text from each of eight processes at once; some are killed and begin again.
fn flood(texts: usize, has_vectors: bool) {
    const PROCESSES: usize = 8;
    let dir = TestFolder::with(&[]);
    let line = |number: usize, process: usize| {
        // Each process writes some texts in a spelling of its own.
        let gap = if (number + process).is_multiple_of(11) { "  " } else { " " };
        let text = format!("Sensor{gap}{number} stands in hall {} of the works.", number * 7 % 97);
        let mut state = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        let vector: Option<Vec<f32>> = has_vectors.then(|| (0..DIM).map(|_| draw()).collect());
        json!({ "text": text, "vector": vector, "source": format!("process {process}") })
    };
    let lines = |process: usize| -> Vec<Value> {
        (0..texts)
            .map(|at| line((at * (2 * process + 1) + process * 31) % texts, process))
            .collect()
    };
    let mut children: Vec<Child> = (0..PROCESSES).map(|p| spawn(&dir, &lines(p))).collect();
    for (process, child) in children.iter_mut().enumerate().filter(|(p, _)| p % 3 == 0) {
        wait_until(|| {
            child.try_wait().unwrap().is_some()
                || live(&dir.path("brain.db")).len() > process.min(texts - 1)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        *child = spawn(&dir, &lines(process));
    }
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let refused: Vec<&str> =
            said.lines().filter(|line| !line.contains("\"stored\":true")).collect();
        assert!(output.status.success() && refused.is_empty(), "{refused:?} {output:?}");
    }
    let found = live(&dir.path("brain.db"));
    let said: BTreeSet<String> =
        found.iter().map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!((found.len(), said.len()), (texts, texts));
    assert!(integrity(&dir.path("brain.db")).is_empty());
    assert!(dir.succeed("runs brain.db").contains("audit chain: holds"));
}

fn flooded_texts() -> usize {
    std::env::var("MEMFOLD_TEST_FLOOD").map_or(97, |texts| texts.parse().unwrap())
}

#[test]
fn a_flood_of_vectors_ends_with_one_row_each() {
    flood(flooded_texts(), true);
}

#[test]
fn a_store_that_stays_busy_is_left_as_it_was() {
    let dir = dir();
    let owner = dir.connect();
    owner.execute_batch("BEGIN IMMEDIATE").unwrap();
    let words = ["save", "brain.db", "--text", "New.", "--json", "--set", "busy_timeout_ms=50"];
    let answer = dir.run(&words);
    let found: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!((answer.code, &found["stored"]), (Some(1), &false.into()), "{answer:?}");
    owner.execute_batch("ROLLBACK").unwrap();
    assert_eq!(live(&dir.path("brain.db")), [OLD]);
    assert_eq!(dir.json(&words)["stored"], true);
}

#[test]
fn reading_keeps_the_locks_of_the_process() {
    let dir = dir();
    let owner = dir.connect();
    owner.pragma_update(None, "journal_mode", "DELETE").unwrap();
    owner.execute_batch("BEGIN IMMEDIATE; UPDATE stm SET access_count = 7").unwrap();
    // Closing a descriptor of the file would drop the lock that the connection holds.
    let store = BrainDb::open(dir.path("brain.db"), OpenOptions::default()).unwrap();
    assert!(store.open_flags().unwrap().is_empty());
    let words = ["save", "brain.db", "--text", "New.", "--set", "busy_timeout_ms=50"];
    assert_eq!(dir.run(&words).code, Some(1));
    owner.execute_batch("COMMIT").unwrap();
    assert_eq!(dir.run(&words).code, Some(0));
}

/// Contradictions are settled in the same way: see the reviews.
#[test]
fn near_pairs_are_listed_and_settled() {
    let dir = dir();
    for (text, cosine) in [
        ("The release meeting is in the large room upstairs.", 0.9),
        ("The release meeting is in the small room.", 0.93),
    ] {
        let vector = serde_json::to_string(&near(cosine, 1)).unwrap();
        let words = ["save", "brain.db", "--text", text, "--vector", &vector, "--json"];
        let saved = dir.json(&[&words[..], &["--set", PATIENT]].concat());
        assert_eq!(saved["decision"], "insert_and_flag", "{saved:#}");
    }
    let flags = || dir.json("review brain.db --flags --json")["flags"].clone();
    let listed = flags();
    assert_eq!([0_usize, 1].map(|at| &listed[at]["kind"]), ["contradiction", "near"], "{listed:#}");
    let screen = dir.succeed("review brain.db --flags");
    assert!(screen.contains("contradiction") && screen.contains("alike"), "{screen}");
    let key = listed[1]["key"].as_str().unwrap();
    let before = dir.files();
    let dry = dir.succeed(&["review", "brain.db", key, "--merge"]);
    assert!(dry.contains("would be merged into"), "{dry}");
    assert!(dir.files() == before);
    dir.run("review brain.db none --merge").fails_with(1, &["no pair none waits"]);
    let settle = |how: &str, key: &Value| {
        let key = key.as_str().unwrap();
        dir.json(&["review", "brain.db", key, how, "--execute", "--json"])["run_id"].clone()
    };
    let count = || live(&dir.path("brain.db")).len();
    let run = settle("--merge", &listed[1]["key"]);
    assert_eq!(count(), 2);
    dir.succeed(&["undo", "brain.db", run.as_str().unwrap(), "--execute"]);
    assert_eq!(count(), 3);
    settle("--both", &listed[0]["key"]);
    let left = flags();
    assert_eq!((count(), &left[0]["key"], &left[1]), (3, &listed[1]["key"], &Value::Null));
}
