//! `status` with its tiers and whether a run is due, and the edges of `explain`.

use memfold_tests::{NOW, PlainMemory, diff, memory, unit_vector};
use serde_json::{Value, json};

use crate::support::{TestFolder, consolidate};

/// A month after the run, and ten years.
const MONTH: &str = "2026-07-30T12:00:00Z";
const DECADE: &str = "2036-06-30T12:00:00Z";

/// Fresh, a month old, half a year old, pinned by importance, and with times that are none.
fn dir() -> TestFolder {
    let row = |number: usize, text: &str, created_at: &str| PlainMemory {
        created_at: created_at.to_owned(),
        ..memory(number, text, &unit_vector(8, number))
    };
    let rows = [
        PlainMemory {
            importance: 2.0,
            ..row(0, "The kiln was moved today.", "2026-06-30T11:00:00")
        },
        row(1, "Tea comes from the harbour shop.", "2026-05-30T12:00:00"),
        row(2, "See m000001 about tea, not m0000011.", "2025-12-01T12:00:00"),
        PlainMemory {
            importance: 3.0,
            ..row(3, "The safe needs two keys.", "2020-01-01T00:00:00")
        },
        row(4, "Nobody knows when this was.", "last autumn"),
    ];
    TestFolder::with(&rows)
}

fn tiers(dir: &TestFolder, further: &[&str]) -> Value {
    dir.json(&[&["status", "brain.db", "--now", NOW, "--json"], further].concat())
}

fn listed(document: &Value) -> Vec<&str> {
    document["list"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect()
}

#[test]
fn tiers_are_those_of_the_time() {
    let dir = dir();
    let files = dir.files();
    let document = tiers(&dir, &["--list", "warm"]);
    assert_eq!(document["at"], NOW);
    assert_eq!(document["tiers"], json!({ "hot": 1, "warm": 3, "cold": 1, "archived": 0 }));
    assert_eq!(listed(&document), ["m000003", "m000004", "m000001"], "most alive first");
    assert_eq!(document["list"][1]["retention"]["recency"], 0.5, "an unreadable time is unknown");
    let later = tiers(&dir, &["--now", DECADE, "--list", "cold"]);
    assert_eq!(later["at"], DECADE);
    assert_eq!(later["tiers"], json!({ "hot": 0, "warm": 3, "cold": 2, "archived": 0 }));
    assert_eq!(later["list"][0]["reasons"], json!(["retention"]));
    let text = dir.succeed(&["status", "brain.db", "--now", NOW, "-v"]);
    assert!(text.contains(" warm") && text.contains("60.0 %") && text.contains('█'), "{text}");
    let changes =
        "5 changes since tiers were last stored: new to cold 1, new to warm 3, new to hot 1";
    assert!(text.ends_with(&format!("{changes}\n")), "{text}");
    let listed = dir.succeed(&["status", "brain.db", "--now", NOW, "--list", "hot"]);
    assert!(listed.contains("retention") && listed.contains("m000000"), "{listed}");
    assert!(files == dir.files(), "a dry run leaves no trace");
}

#[test]
fn each_transition_is_stored_and_told_once() {
    let dir = dir();
    let before = dir.image();
    let arguments = ["status", "brain.db", "--store-tiers", "-v", "--now"];
    let first = dir.run(&[&arguments[..], &[NOW]].concat());
    assert_eq!(first.code, Some(0), "{first:?}");
    let told = "CONSOLIDATE/TIER id=m000000 from=none to=hot retention=";
    assert!(first.err.contains(told), "{first:?}");
    assert_eq!(diff(&before, &dir.image()), [""; 0]);
    let again = dir.run(&[&arguments[..], &[NOW]].concat());
    let told = |err: &str| -> Vec<String> {
        let lines = err.lines().filter(|line| line.starts_with("CONSOLIDATE/"));
        lines.map(str::to_owned).collect()
    };
    assert!(told(&again.err).is_empty(), "{again:?}");
    assert!(again.out.ends_with("no tier has changed since tiers were last stored\n"));
    let later = dir.run(&[&arguments[..], &[MONTH]].concat());
    let told = told(&later.err);
    assert!(told[0].starts_with("CONSOLIDATE/TIER id=m000000 from=hot to=warm retention="));
    assert!(told[1].starts_with("CONSOLIDATE/TIER id=m000001 from=warm to=cold retention="));
    assert_eq!(told.len(), 2, "{later:?}");
    dir.sql("DELETE FROM stm WHERE id = 'm000002'");
    dir.succeed(&["status", "brain.db", "--now", MONTH, "--store-tiers"]);
    let tiers = "SELECT memory_id || ' ' || tier || ' ' || reasons FROM memfold_tiers ORDER BY 1";
    let stored: Vec<String> = dir.all(tiers);
    assert_eq!(stored.len(), 4, "{stored:?}");
    assert_eq!(stored[0], r#"m000000 warm ["retention"]"#);
    assert_eq!(stored[2], r#"m000003 warm ["retention"]"#);
    // The same tier for other reasons is no change; the tier before a change stays known.
    let earlier = |id: &str| -> Option<String> {
        dir.one(&format!("SELECT earlier FROM memfold_tiers WHERE memory_id = '{id}'"))
    };
    let hot: Vec<(String, String)> = serde_json::from_str(&earlier("m000000").unwrap()).unwrap();
    assert_eq!(hot.len(), 1, "{hot:?}");
    assert_eq!(hot[0].0, "hot");
    assert_eq!(earlier("m000003"), None);
    let files = dir.files();
    for key in ["read_only=true", "enabled=false"] {
        let answer = dir.run(&[&arguments[..], &[DECADE, "--set", key]].concat());
        assert!(answer.err.contains("nothing will be written"), "{answer:?}");
        assert!(answer.code == Some(0) && files == dir.files(), "{answer:?}");
    }
}

#[test]
fn forgetting_takes_the_tier_along() {
    let dir = dir();
    dir.succeed(&["status", "brain.db", "--now", NOW, "--store-tiers"]);
    dir.succeed(&["forget", "brain.db", "m000001", "--now", NOW, "--execute"]);
    let sql = "SELECT count(*) FROM memfold_tiers WHERE memory_id = 'm000001'";
    assert_eq!(dir.one::<i64>(sql), 0);
}

#[test]
fn status_lists_pending_work() {
    let dir = TestFolder::with_sample();
    let status = |further: &[&str]| {
        dir.json(&[&["status", "brain.db", "--now", NOW, "--json"], further].concat())
    };
    let first = status(&[]);
    assert_eq!([&first["last_run"], &first["index"]], [&Value::Null; 2]);
    assert_eq!(first["plans"], json!([]));
    assert_eq!(first["reason"]["kind"], "new_memories");
    let files = dir.files();
    let text = dir.succeed(&["status", "brain.db", "--now", NOW, "-v"]);
    let pending = "plans     none waits\nlast run  none\nindex     none\nnext run  due: ";
    assert!(text.contains(pending), "{text}");
    assert!(files == dir.files());
    dir.succeed(&consolidate(&["--save-plan"]));
    dir.succeed(&consolidate(&["--execute", "--max-change-share", "1"]));
    dir.succeed("index build brain.db");
    let then = status(&[]);
    assert_eq!(then["last_run"]["state"], "done");
    assert_eq!((&then["new_memories"], &then["is_due"]), (&json!(0), &json!(false)));
    assert_eq!(then["index"]["newer"], 0);
    assert!(then["index"]["rows"].as_u64().unwrap() > 100, "{then}");
    assert!(then["open_flags"].as_u64().unwrap() > 0, "{then}");
    assert!(!then["plans"].as_array().unwrap().is_empty(), "{then}");
    let text = dir.succeed(&["status", "brain.db", "--now", NOW, "-v"]);
    assert!(text.contains(" execute done, ") && text.contains("not due: 0 new memories"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn edges_are_a_tree() {
    let text = "The kiln is fired on Mondays.";
    let rows = [
        memory(0, text, &unit_vector(8, 0)),
        memory(1, text, &unit_vector(8, 0)),
        memory(2, "m000001 holds the plan \u{1b}[31m of the kiln; ".repeat(4), &unit_vector(8, 1)),
        memory(3, "Unrelated.", &unit_vector(8, 2)),
    ];
    let dir = TestFolder::with(&rows);
    dir.succeed(&consolidate(&["--execute", "--max-change-share", "1"]));
    let tree = |words: &[&str]| -> Vec<String> {
        let text = dir.succeed(&[&["explain", "brain.db"], words].concat());
        let tree = text.split("\nedges\n").nth(1).unwrap_or_default();
        tree.lines().map(str::to_owned).collect()
    };
    let lines = tree(&["m000001"]);
    assert_eq!(lines[0], "m000001  The kiln is fired on Mondays.");
    assert_eq!(lines[1], "├─ consolidates m000000  (not live) The kiln is fired on Mondays.");
    let last = "└─ referenced by m000002  m000001 holds the plan \\u{1b}[31m";
    assert!(lines[2].starts_with(last), "{lines:?}");
    assert!(lines.len() == 3 && lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
    let from_afar = tree(&["m000000", "--depth", "1"]).join("\n");
    assert!(from_afar.contains("└─ consolidated into m000001 (1 more)  The kiln"), "{from_afar}");
    let document = dir.json("explain brain.db m000000 --json")["edges"].clone();
    assert_eq!(document["edges"].as_array().unwrap().len(), 2);
    assert_eq!(document["edges"][0]["type"], "consolidates");
    assert_eq!(document["edges"][0]["reason"], "merged by R1-exact-duplicate-merge");
    assert_eq!(document["memories"][0], json!({ "id": "m000000", "is_live": false, "text": text }));
    assert_eq!(tree(&["m000003"]), [""; 0]);
    assert_eq!(tree(&["m000001", "--depth", "0"]), [""; 0]);
    dir.run("explain brain.db m000003 --depth 65").fails_with(2, &["65"]);
}

#[test]
fn run_becomes_due_by_time_idleness_and_counts() {
    let dir = TestFolder::with_sample();
    dir.succeed(&consolidate(&["--execute", "--max-change-share", "1"]));
    let due = |at: &str, further: &[&str]| {
        dir.run(&[&["status", "brain.db", "--exit-code", "--now", at], further].concat())
    };
    let soon = "2026-06-30T13:00:00Z";
    let not = due(soon, &[]);
    assert_eq!((not.code, &*not.out), (Some(1), ""), "{not:?}");
    assert_eq!(not.err, "no run is due: 0 new memories since the last run\n");
    let not = due(soon, &["--json"]);
    let document: Value = serde_json::from_str(&not.out).unwrap();
    assert_eq!((not.code, &document["is_due"]), (Some(1), &json!(false)));
    assert_eq!(due("2026-07-01T12:00:00Z", &[]).out, "the last run was 24 hours ago\n");
    dir.sql(
        "INSERT INTO stm(id, content, created_at)
         VALUES ('new', 'The loom has a new belt.', '2026-06-30T12:30:00')",
    );
    assert_eq!(due("2026-06-30T13:10:00Z", &[]).out, "no write for 40 minutes, 1 new memory\n");
    for (further, said) in [
        (&["--session-end"][..], "a session ended with 1 new memory\n"),
        (
            &["--set", "lifecycle.due.new_memories_min=1"],
            "1 new memory since the last run (from 1 on)\n",
        ),
    ] {
        assert_eq!(due("2026-06-30T12:40:00Z", further).out, said);
    }
}
