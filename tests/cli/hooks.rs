//! `memfold hook`: the context of a session, byte for byte, for any content of the store.

use std::io::Write as _;
use std::process::Stdio;

use memfold_tests::{PlainMemory, memory, unit_vector};
use rusqlite::TransactionBehavior;
use serde_json::Value;

use crate::support::{Answer, TestFolder};

const OPEN: &str = "<memory_consolidated_summaries";
const CLOSE: &str = "</memory_consolidated_summaries>";
const EMPTY: &str =
    "{\"hookSpecificOutput\":{\"hookEventName\":\"SessionStart\",\"additionalContext\":\"\"}}\n";

/// With important memories as `brain.db`.
fn with_texts(texts: &[&str]) -> TestFolder {
    let row = |(number, text): (usize, &&str)| PlainMemory {
        importance: 2.5,
        categories: vec!["decisions".to_owned()],
        ..memory(number, *text, &unit_vector(8, number % 8))
    };
    let rows: Vec<PlainMemory> = texts.iter().enumerate().map(row).collect();
    TestFolder::with(&rows)
}

fn with_kiln() -> TestFolder {
    with_texts(&["The kiln burns at 1200 degrees.", "Tea comes from the harbour shop."])
}

fn hook(dir: &TestFolder, words: &[&str], stdin: &[u8]) -> Answer {
    let mut command = dir.command(&[&["hook"], words].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that fails early does not read it.
    let _unread = child.stdin.take().unwrap().write_all(stdin);
    dir.answer(child.wait_with_output().unwrap())
}

fn context(answer: &Answer) -> String {
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let output: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(output["hookSpecificOutput"]["hookEventName"], "SessionStart");
    output["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned()
}

#[test]
fn starts_of_one_state_give_one_text() {
    let dir = with_kiln();
    let before = dir.files();
    let first = hook(&dir, &["session-start"], b"{\"session_id\":\"1\",\"source\":\"startup\"}");
    let text = context(&first);
    assert!(text.starts_with(OPEN) && text.ends_with(CLOSE), "{text}");
    assert!(text.contains("1200 degrees") && text.contains("harbour shop"), "{text}");
    assert_eq!((&*first.err, first.out.lines().count()), ("", 1), "one line of JSON");
    for session in 0..3 {
        let input = format!("{{\"session_id\":\"{session}\"}}");
        assert_eq!(hook(&dir, &["session-start"], input.as_bytes()).out, first.out);
    }
    assert!(before == dir.files(), "nothing is written");
}

#[test]
fn topics_of_the_last_session_come_first() {
    let texts: Vec<String> = (0..14).map(|number| format!("Shelf {number} holds jars.")).collect();
    let mut texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    texts.extend(["The cobalt glaze cracks above 1200 degrees.", "Tried a thinner cobalt glaze."]);
    let dir = with_texts(&texts);
    let store = dir.connect();
    let made = |texts: &str, at: &str| {
        let sql = format!(
            "UPDATE stm SET created_at = '{at}', updated_at = '{at}' WHERE content {texts}"
        );
        assert!(store.execute(&sql, ()).unwrap() > 0);
    };
    made("LIKE '%'", "2026-06-01T12:00:00");
    made("LIKE 'Shelf 3 %'", "2026-06-01T12:40:00");
    let before = context(&hook(&dir, &["session-start"], b"{}"));
    assert!(!before.contains("cobalt"), "ten shelves come first: {before}");
    made("LIKE 'Tried%'", "2026-06-01T13:20:00");
    let after = context(&hook(&dir, &["session-start"], b"{}"));
    assert!(after.contains("glaze cracks"), "{after}");
}

#[test]
fn broken_input_is_one_line_and_no_failure() {
    let dir = with_kiln();
    let whole = context(&hook(&dir, &["session-start"], b""));
    for stdin in [&b"{\"cwd\":"[..], b"[1]", b"\xff\xfe", &[b'{'; 3 << 20], b"null"] {
        let answer = hook(&dir, &["session-start"], stdin);
        assert_eq!(context(&answer), whole, "{answer:?}");
        assert_eq!(answer.err.lines().count(), 1, "{answer:?}");
        assert!(answer.err.starts_with("memfold hook: "), "{answer:?}");
    }
    for stdin in ["{\"cwd\": 7}", "{\"cwd\": \"/no/such/folder\"}", "\u{feff}{}"] {
        let answer = hook(&dir, &["session-start"], stdin.as_bytes());
        assert_eq!((context(&answer), &*answer.err), (whole.clone(), ""));
    }
}

#[test]
fn the_store_is_found_above_the_directory_or_by_its_name() {
    let dir = with_kiln();
    let deep = dir.path("src/deep");
    std::fs::create_dir_all(&deep).unwrap();
    let input = serde_json::json!({ "cwd": deep }).to_string();
    let whole = context(&hook(&dir, &["session-start"], b"{}"));
    assert!(whole.contains("kiln"));
    let other = TestFolder::new();
    assert!(context(&hook(&other, &["session-start"], input.as_bytes())).contains("kiln"));
    let db = dir.path("brain.db");
    let words = ["session-start", "--db", db.to_str().unwrap()];
    assert!(context(&hook(&other, &words, b"{}")).contains("kiln"));
    // A folder of that name is not a store.
    std::fs::create_dir(dir.path("src/brain.db")).unwrap();
    assert!(context(&hook(&other, &["session-start"], input.as_bytes())).contains("kiln"));
}

#[test]
fn without_a_store_the_context_is_empty() {
    let dir = TestFolder::new();
    dir.write("text.db", "no store");
    for words in [&["session-start", "--db", "none.db"][..], &["session-start", "--db", "text.db"]]
    {
        let answer = hook(&dir, words, b"{}");
        assert_eq!((answer.code, &*answer.out), (Some(0), EMPTY), "{answer:?}");
        assert_eq!(answer.err.lines().count(), 1, "{answer:?}");
    }
    let kiln = with_kiln();
    for set in ["enabled=false", "nonsense.key=1"] {
        let answer = hook(&kiln, &["session-start", "--set", set], b"{}");
        assert_eq!((answer.code, &*answer.out), (Some(0), EMPTY), "{answer:?}");
    }
}

#[test]
fn session_starts_beside_a_writer() {
    let dir = with_kiln();
    let whole = context(&hook(&dir, &["session-start"], b"{}"));
    let mut writer = dir.connect();
    writer.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    let held = writer.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    held.execute_batch("UPDATE stm SET content = 'half done'").unwrap();
    assert_eq!(context(&hook(&dir, &["session-start"], b"{}")), whole);
    drop(held);
    // With a rollback journal a writer that commits keeps everybody out.
    writer.execute_batch("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE").unwrap();
    let answer = hook(&dir, &["session-start"], b"{}");
    assert_eq!((answer.code, &*answer.out), (Some(0), EMPTY), "{answer:?}");
    assert!(answer.err.contains("locked"), "{answer:?}");
}

/// Cursor names the event otherwise, and reads another field.
#[test]
fn cursor_gets_its_own_format() {
    let dir = with_kiln();
    let input = serde_json::json!({ "hook_event_name": "sessionStart", "session_id": "1",
                                    "workspace_roots": [dir.path("")] });
    let other = TestFolder::new();
    let answer = hook(&other, &["session-start"], input.to_string().as_bytes());
    let output: Value = serde_json::from_str(&answer.out).unwrap();
    assert!(output["additional_context"].as_str().unwrap().contains("kiln"), "{answer:?}");
    assert_eq!(output.as_object().unwrap().len(), 1);
}

/// Equal memories filled the block, and a contradiction stood in it as two facts.
#[test]
fn a_context_has_no_duplicates_and_marks_conflicts() {
    let dir = with_texts(&[
        "The kiln burns at 1200 degrees.",
        "The kiln burns at  1200 degrees",
        "the kiln burns at 1200 degrees.",
        "Tea comes from the harbour shop.",
    ]);
    let before = context(&hook(&dir, &["session-start"], b"{}"));
    assert_eq!(before.to_lowercase().matches("- the kiln burns").count(), 1, "{before}");
    let contradicting = "Tea does not come from the harbour shop.";
    let save = ["save", "brain.db", "--category", "decisions", "--text", contradicting];
    let saved = dir.succeed(&save);
    let text = context(&hook(&dir, &["session-start"], b"{}"));
    let marked = format!(
        "- {contradicting} (conflict, unresolved)\n  Contradicted by:\n  - Tea comes from the harbour shop.\n"
    );
    assert!(text.contains(&marked), "{text}\n{saved}");
}

#[test]
fn hook_settings_are_only_printed() {
    let dir = TestFolder::new();
    let shown = dir.succeed("hook print");
    for host in ["Claude Code", "Codex", "Cursor"] {
        assert!(shown.contains(&format!("== {host} ==")), "{shown}");
    }
    assert!(shown.starts_with("No brain.db") && shown.contains("/PATH/TO/brain.db"), "{shown}");
    let named = dir.succeed("hook print --db brain.db");
    assert!(named.contains("\"mcp\", \"DIR/brain.db\", \"--allow-writes\""), "{named}");
    assert!(named.contains("--db DIR/brain.db") || named.contains("brain.db'"), "{named}");
    assert!(dir.files().is_empty());
}
