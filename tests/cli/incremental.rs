//! `consolidate --incremental`.

use memfold_tests::{PlainMemory, memory, unit_vector};
use serde_json::Value;

use crate::support::{TestFolder, consolidate};

/// Forty memories that say different things, and two that say the same.
fn dir() -> TestFolder {
    let mut rows: Vec<PlainMemory> = (0..40)
        .map(|n| memory(n, format!("Rack {n} stands in hall {}.", n + 40), &unit_vector(64, n)))
        .collect();
    rows.push(memory(40, "The kiln is in the shed.", &unit_vector(64, 50)));
    rows.push(memory(41, "The kiln is in the shed.", &unit_vector(64, 50)));
    TestFolder::with(&rows)
}

fn run(dir: &TestFolder, words: &[&str]) -> (Value, String) {
    let answer = dir.run(&consolidate(&[&["--json"], words].concat()));
    assert_eq!(answer.code, Some(0), "{words:?}: {answer:?}");
    (serde_json::from_str(&answer.out).unwrap(), answer.err)
}

fn add(dir: &TestFolder, id: &str, like: &str) {
    dir.sql(&format!(
            "INSERT INTO stm (id, content, categories, importance, created_at, access_count, source)
             SELECT '{id}', content, categories, importance, '2026-06-01T00:00:00', 0, 'agent'
             FROM stm WHERE id = '{like}';
             INSERT INTO embeddings (id, source_type, source_id, content, embedding, model, created_at)
             SELECT 'e-{id}', 'stm', '{id}', content, embedding, model, created_at
             FROM embeddings WHERE source_id = '{like}'"
    ));
}

#[test]
fn incremental_run_searches_new_memories_only() {
    let dir = dir();
    let (_, stderr) = run(&dir, &["--incremental"]);
    assert!(stderr.contains("note: searched everything: there is no index"), "{stderr}");
    let _ = dir.succeed("index build brain.db --quiet");
    let (_, stderr) = run(&dir, &["--incremental"]);
    assert!(stderr.contains("no run with --execute"), "{stderr}");

    let (whole, _) = run(&dir, &["--execute", "--max-change-share", "1"]);
    assert_eq!(whole["planned"]["merge"], 1);
    assert!(dir.path("brain.db.memfold/searched.mfi").exists());
    let (_, stderr) = run(&dir, &["--incremental", "--execute"]);
    assert!(!stderr.contains("searched everything"), "{stderr}");
    let (nothing, _) = run(&dir, &["--incremental"]);
    assert_eq!(nothing["incremental"]["changed"], 0);
    assert_eq!(nothing["loaded"]["live"], 41);

    add(&dir, "new", "m000007");
    let (part, _) = run(&dir, &["--incremental"]);
    assert_eq!(part["incremental"]["changed"], 1, "{part}");
    assert_eq!(part["incremental"]["compared"], 2);
    assert_eq!(part["planned"]["merge"], 1);
    let (whole, _) = run(&dir, &[]);
    assert_eq!(part["plan_digest"], whole["plan_digest"]);

    // A plan that is not applied whole is searched again.
    add(&dir, "another", "m000008");
    let (_, _) =
        run(&dir, &["--incremental", "--execute", "--limit", "1", "--max-change-share", "1"]);
    let (rest, _) = run(&dir, &["--incremental", "--execute", "--max-change-share", "1"]);
    assert_eq!(rest["planned"]["merge"], 1, "{rest}");
    let (last, _) = run(&dir, &["--incremental"]);
    assert_eq!(last["planned"]["merge"], 0, "{last}");
}

#[test]
fn undo_and_forget_reset_incremental_marks() {
    let dir = dir();
    let _ = dir.succeed("index build brain.db --quiet");
    let _ = run(&dir, &["--execute", "--max-change-share", "1"]);
    let _ = dir.succeed("undo brain.db latest --execute --quiet");
    let (part, stderr) = run(&dir, &["--incremental", "--execute"]);
    assert!(stderr.contains("searched everything"), "{stderr}");
    // Both are back, and kept apart because a person took the merge back.
    assert_eq!(part["planned"]["merge"], 0, "{part}");
    assert!(dir.path("brain.db.memfold/searched.mfi").exists());

    let _ = dir.succeed("forget brain.db m000003 --execute --quiet");
    assert!(!dir.path("brain.db.memfold/searched.mfi").exists());
    let (_, stderr) = run(&dir, &["--incremental"]);
    assert!(stderr.contains("searched everything"), "{stderr}");
}
