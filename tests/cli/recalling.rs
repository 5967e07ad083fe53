//! `memfold recall`: tiers, words and vectors, counts, and times worked out.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use memfold::lookup::KeptIndex;
use memfold::recall::{RecallMode, RecallOptions, RecallQuery, Recaller};
use memfold_core::lifecycle::RetentionPolicy;
use memfold_core::policy::Policy;
use memfold_store::brain_db::{BrainDb, OpenOptions, Session, SessionOptions};
use memfold_tests::{NOW, PlainMemory, memory, store_now, unit_vector};
use rusqlite::{Connection, TransactionBehavior};
use serde_json::Value;

use crate::schemas::assert_fits;
use crate::support::TestFolder;

const NEAR_FIRST: &str = "[1,0,0,0,0,0,0,0]";

fn row(number: usize, text: &str, created_at: &str, importance: f64) -> PlainMemory {
    let row = memory(number, text, &unit_vector(8, number % 8));
    PlainMemory { created_at: created_at.to_owned(), importance, ..row }
}

/// A memory of each tier but the last at [`NOW`].
fn tiers() -> TestFolder {
    let rows = [
        row(0, "The kiln burns at 1200 degrees.", "2026-06-29T10:00:00", 2.0),
        row(1, "The kiln is fired on Mondays.", "2026-06-29T10:00:00", 1.0),
        row(2, "The old kiln stood in the yard.", "2025-03-01T10:00:00", 1.0),
        row(3, "Tea comes from the harbour shop.", "2026-06-29T10:00:00", 1.0),
    ];
    TestFolder::with(&rows)
}

fn recall(dir: &TestFolder, words: &[&str]) -> Value {
    let found = dir.json(&[&["recall", "brain.db", "--now", NOW, "--json"], words].concat());
    assert_fits("recall", &found);
    found
}

fn ids(found: &Value) -> Vec<&str> {
    let matches = found["matches"].as_array().unwrap();
    matches.iter().map(|found| found["id"].as_str().unwrap()).collect()
}

fn sorted(found: &Value) -> Vec<&str> {
    let mut ids = ids(found);
    ids.sort_unstable();
    ids
}

fn count(connection: &Connection, id: &str) -> i64 {
    let sql = "SELECT access_count FROM stm WHERE id = ?1";
    connection.query_row(sql, [id], |row| row.get(0)).unwrap()
}

/// Makes memfold's tables without any change of its own.
fn with_own_tables(dir: &TestFolder) -> Connection {
    let options =
        SessionOptions { busy_timeout: Duration::from_secs(60), holder: "test".to_owned() };
    let session = Session::open_beside_runs(&dir.path("brain.db"), &options).unwrap();
    session.prepare("2026-06-29T12:00:00").unwrap();
    dir.connect()
}

fn add_edge(store: &Connection, newer: &str, older: &str, confidence: &str) {
    let sql = "INSERT INTO memfold_edges
               (source_id, target_id, type, weight, confidence, run_id, unit, at, active)
               VALUES (?1, ?2, 'supersedes', 1.0, ?3, 'r', 1, '2026-06-29T12:00:00', 1)";
    store.execute(sql, [newer, older, confidence]).unwrap();
}

#[test]
fn modes_reach_down_the_tiers() {
    let dir = tiers();
    for (mode, expected) in [
        ("reflexive", &["m000000"][..]),
        ("standard", &["m000000", "m000001"]),
        ("deep", &["m000000", "m000001", "m000002"]),
        ("exhaustive", &["m000000", "m000001", "m000002"]),
    ] {
        let found = recall(&dir, &["kiln", "--mode", mode, "--no-count"]);
        assert_eq!(sorted(&found), expected, "{mode}");
        assert_eq!((&found["words"], &found["vectors"]), (&true.into(), &"none".into()));
        assert!(found["notes"][0].as_str().unwrap().starts_with("found by words alone"));
    }
    let found = recall(&dir, &["kiln", "-k", "1", "--mode", "deep", "--no-count"]);
    assert_eq!(ids(&found).len(), 1);
}

/// `recall` reported that no memory was found for a text that existed word for word, but was cold.
#[test]
fn lower_tiers_answer_where_others_have_nothing() {
    let dir = tiers();
    for mode in ["reflexive", "standard"] {
        let found = recall(&dir, &["yard", "--mode", mode, "--no-count"]);
        assert_eq!(ids(&found), ["m000002"], "{mode}");
        let notes = found["notes"].to_string();
        assert!(notes.contains("these are COLD memories (mode deep)"), "{notes}");
    }
    assert!(ids(&recall(&dir, &["volcano", "--no-count"])).is_empty());
}

/// After a merge the words that only the merged memory had found nothing in any mode but `exhaustive`.
#[test]
fn the_words_of_merged_memories_lead_to_their_survivor() {
    let rows = [
        row(0, "The user owns an automobile.", "2026-06-28T10:00:00", 1.0),
        PlainMemory {
            created_at: "2026-06-29T10:00:00".to_owned(),
            ..memory(1, "The user owns a car.", &unit_vector(8, 0))
        },
    ];
    let dir = TestFolder::with(&rows);
    // Independent of the guard's verdict on the two.
    let guard = ["--set", "guard.enabled=false", "--allow-unguarded"];
    let merge = ["--set", "protection.min_age_hours=0", "--max-change-share", "1", "--execute"];
    let run =
        dir.succeed(&[&["consolidate", "brain.db", "--now", NOW][..], &guard, &merge].concat());
    let words = |connection: &Connection| -> i64 {
        let sql = "SELECT count(*) FROM stm_fts WHERE stm_fts MATCH 'automobile'";
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(words(&dir.connect()), 0, "nothing is added to the owner's index");
    for mode in ["reflexive", "standard", "deep", "exhaustive"] {
        let found = recall(&dir, &["automobile", "--mode", mode, "--no-count"]);
        assert_eq!(ids(&found), ["m000001"], "{mode} {run:?}");
        assert_eq!(found["matches"][0]["found_as"], serde_json::json!(["m000000"]));
    }
    dir.succeed("forget brain.db m000001 --with-merged --execute");
    assert!(!std::fs::read(dir.path("brain.db")).unwrap().windows(10).any(|w| w == b"automobile"));
}

#[test]
fn vectors_and_words_are_joined_by_rank() {
    let dir = tiers();
    let words = ["harbour kiln", "--vector", NEAR_FIRST, "--no-count"];
    let found = recall(&dir, &words);
    assert_eq!(found["vectors"], "store");
    let first = &found["matches"][0];
    assert_eq!((&first["id"], &first["vector_rank"]), (&"m000000".into(), &1.into()));
    let ranks = |found: &Value| {
        let ranks = ["vector_rank", "word_rank"].map(|name| found[name].as_f64());
        ranks.into_iter().flatten().map(|rank| 1.0 / (60.0 + rank)).sum::<f64>()
    };
    for found in found["matches"].as_array().unwrap() {
        assert!((found["score"].as_f64().unwrap() - ranks(found)).abs() < 1e-12, "{found}");
    }
    dir.succeed("index build brain.db");
    let indexed = recall(&dir, &words);
    assert_eq!((&indexed["vectors"], &indexed["matches"]), (&"index".into(), &found["matches"]));
    let answer = dir.run("recall brain.db kiln --vector [1,2]");
    answer.fails_with(1, &["error: failed to recall from brain.db: ", "hint: "]);
}

#[test]
fn only_returned_memories_are_counted() {
    let dir = tiers();
    let store = dir.connect();
    let found = recall(&dir, &["kiln"]);
    assert_eq!(found["counted"], true);
    assert_eq!(["m000000", "m000001", "m000002"].map(|id| count(&store, id)), [1, 1, 0]);
    drop(store);
    let before = dir.files();
    for words in [&["--no-count"][..], &["--set", "read_only=true"], &["--set", "enabled=false"]] {
        let found = recall(&dir, &[&["kiln"], words].concat());
        assert_eq!((ids(&found).len(), &found["counted"]), (2, &false.into()), "{words:?}");
        assert!(before == dir.files(), "{words:?}");
    }
}

#[test]
fn count_is_dropped_beside_a_writer() {
    let dir = tiers();
    let mut holder = dir.connect();
    let held = holder.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    let found = recall(&dir, &["kiln"]);
    drop(held);
    assert_eq!((ids(&found).len(), &found["counted"]), (2, &false.into()));
    assert!(found["notes"].to_string().contains("was not counted"), "{found}");
    assert_eq!(count(&holder, "m000000"), 0);
}

#[test]
fn no_count_is_lost_beside_four_writers() {
    const WRITES: i64 = 150;
    let dir = tiers();
    dir.connect().execute_batch("PRAGMA journal_mode = WAL").unwrap();
    let path = dir.path("brain.db");
    let query = RecallQuery {
        text: "degrees",
        vector: None,
        mode: RecallMode::Standard,
        limit: 10,
        include_summaries: false,
        counts: true,
        now: store_now(),
    };
    let writer = || {
        let store = Connection::open(&path).unwrap();
        store.busy_timeout(Duration::from_secs(60)).unwrap();
        let sql = "UPDATE stm SET access_count = access_count + 1 WHERE id = 'm000000'";
        for _ in 0..WRITES {
            store.execute(sql, []).unwrap();
        }
    };
    let reader = || {
        let options = RecallOptions {
            policy: Policy::builtin(),
            retention: RetentionPolicy::default(),
            time_zone: TimeZone::UTC,
            read_only: false,
        };
        let store = BrainDb::at(&path, OpenOptions::default());
        let index = KeptIndex::new(path.with_extension("none"));
        let recaller = Recaller::new(store, Arc::new(index), options);
        let recalls = (0..WRITES).map(|_| recaller.recall(&query).unwrap());
        recalls.filter(|found| found.is_counted && found.memories.len() == 1).count() as i64
    };
    let counted = std::thread::scope(|scope| {
        let writers = [(); 4].map(|()| scope.spawn(writer));
        let readers = [(); 2].map(|()| scope.spawn(reader));
        for writer in writers {
            writer.join().unwrap();
        }
        readers.map(|reader| reader.join().unwrap()).iter().sum::<i64>()
    });
    assert!(counted > 0, "every count was dropped");
    assert_eq!(count(&dir.connect(), "m000000"), 4 * WRITES + counted);
}

#[test]
fn a_superseded_memory_says_by_what() {
    let dir = tiers();
    let store = with_own_tables(&dir);
    add_edge(&store, "m000000", "m000001", "low");
    let found = recall(&dir, &["Mondays", "--no-count"]);
    assert_eq!(
        (ids(&found), &found["matches"][0]["superseded_by"]),
        (vec!["m000001"], &Value::Null)
    );
    store.execute_batch("UPDATE memfold_edges SET confidence = 'high'").unwrap();
    let found = recall(&dir, &["Mondays", "--no-count"]);
    assert_eq!(ids(&found), ["m000001"], "it is COLD now, and nothing warmer answers");
    let found = recall(&dir, &["Mondays", "--no-count", "--mode", "deep"]);
    assert_eq!(found["matches"][0]["superseded_by"], "m000000");
    let words = ["recall", "brain.db", "Mondays", "--mode", "deep", "--now", NOW, "--no-count"];
    assert!(dir.succeed(&words).contains("superseded by m000000"));
    add_edge(&store, "m000001", "m000000", "high");
    let found = recall(&dir, &["Mondays", "--no-count"]);
    assert_eq!(found["matches"][0]["superseded_by"], Value::Null, "each supersedes the other");
}

#[test]
fn summaries_are_found_where_they_are_asked_for() {
    let dir = tiers();
    let store = with_own_tables(&dir);
    let sql = "INSERT INTO memfold_summaries (memory_id, sources, body, run_id, unit, at, active)
               VALUES ('m000000', '[]', '{}', 'r', 1, '2026-06-29T12:00:00', 1)";
    store.execute_batch(sql).unwrap();
    assert_eq!(ids(&recall(&dir, &["kiln", "--no-count"])), ["m000001"]);
    let found = recall(&dir, &["kiln", "--no-count", "--include-summaries"]);
    assert_eq!(sorted(&found), ["m000000", "m000001"]);
    let summary = found["matches"].as_array().unwrap().iter().find(|m| m["id"] == "m000000");
    assert_eq!(
        (&summary.unwrap()["summary"], &summary.unwrap()["tier"]),
        (&true.into(), &"warm".into())
    );
}

#[test]
fn temporal_question_is_answered() {
    let rows = [row(0, "We repaired the kiln yesterday.", "2026-06-28T10:00:00", 1.0)];
    let dir = TestFolder::with(&rows);
    let found = recall(&dir, &["When did we repair the kiln?", "--no-count"]);
    assert_eq!(found["answer"]["answer"], "2026-06-27", "{found}");
    assert_eq!(found["answer"]["sources"][0], "m000000");
    assert_eq!(found["answer"]["resolved"][0]["start"], "2026-06-27T00:00:00Z");
    assert_eq!(recall(&dir, &["kiln", "--no-count"])["answer"], Value::Null);
    let asked = recall(&dir, &["kiln", "--no-count", "--reason"]);
    assert_eq!(asked["answer"]["answer"], "2026-06-27");
    let screen = dir.succeed(&["recall", "brain.db", "when kiln", "--now", NOW, "--no-count"]);
    assert!(
        screen.starts_with("answer: 2026-06-27 (confidence 0.90)\n  - memory m000000"),
        "{screen}"
    );
    let none = recall(&dir, &["When did harbours freeze?", "--no-count"]);
    assert_eq!(
        (&none["answer"]["answer"], &none["answer"]["confidence"]),
        (&Value::Null, &0.0.into())
    );
}

#[test]
fn a_store_without_words_is_searched_by_vectors_alone() {
    let dir = tiers();
    dir.connect().execute_batch("DROP TABLE stm_fts").unwrap();
    let found = recall(&dir, &["kiln", "--vector", NEAR_FIRST]);
    assert_eq!((&found["words"], ids(&found)[0]), (&false.into(), "m000000"));
    assert!(found["notes"].to_string().contains("by vectors alone"), "{found}");
    let nothing = recall(&dir, &["kiln"]);
    assert_eq!(ids(&nothing).len(), 0);
    assert_eq!(nothing["notes"].as_array().unwrap().len(), 2);
}

#[test]
fn any_question_is_a_question_for_words() {
    let dir = tiers();
    for query in ["\"", "kiln\"", "NEAR(kiln)", "kiln AND", "content:kiln*", "", " ", "a-b", "'--"]
    {
        let found = recall(&dir, &[query, "--no-count"]);
        assert_eq!(found["words"], true, "{query:?}");
    }
    assert_eq!(ids(&recall(&dir, &["KILN\"?", "--no-count"])).len(), 2);
    let much = "kiln word ".repeat(4_000);
    assert_eq!(ids(&recall(&dir, &[&much, "--no-count"])).len(), 2);
}
