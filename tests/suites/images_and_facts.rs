//! Comparisons of stores notice every difference, and searches for facts notice each lost one.

use std::path::PathBuf;

use memfold_tests::torture::Waits;
use memfold_tests::{Fact, StoreImage, assert_same, diff, facts_findable, wild_store};
use rusqlite::Connection;
use tempfile::TempDir;

struct Wild {
    _folder: TempDir,
    path: PathBuf,
    facts: Vec<Fact>,
}

impl Wild {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("brain.db");
        let facts = wild_store(&path, 120, 5);
        Self { _folder: folder, path, facts }
    }

    fn run(&self, sql: &str) {
        Connection::open(&self.path).unwrap().execute_batch(sql).unwrap();
    }

    /// Two indexed members with vectors of one group.
    fn twins(&self) -> (&Fact, &Fact) {
        let good = |fact: &&Fact| fact.is_indexed && fact.vector.is_some();
        let twins = self.facts.iter().filter(good).find_map(|fact| {
            let twin = |other: &&Fact| fact.group == other.group && fact.id != other.id;
            Some((fact, self.facts.iter().filter(good).find(twin)?))
        });
        twins.unwrap()
    }
}

#[test]
fn every_difference_shows() {
    for sql in [
        "UPDATE stm SET importance = 1 WHERE typeof(importance) = 'null' AND rowid = 2",
        "UPDATE stm SET last_accessed = CAST(last_accessed AS TEXT) || 'x' WHERE rowid = 1",
        "UPDATE stm SET rowid = 99999 WHERE rowid = 3",
        "DELETE FROM stm WHERE rowid = 3",
        "UPDATE embeddings SET embedding = zeroblob(256) WHERE rowid = 1",
        "INSERT INTO categories (name) VALUES ('new')",
        "INSERT INTO stm_fts (rowid, content) VALUES (9, 'something')",
        "INSERT INTO stm_fts (rowid, content) VALUES (1, 'the')",
        "CREATE TRIGGER t AFTER INSERT ON stm BEGIN SELECT 1; END",
        "CREATE INDEX i ON stm (content)",
    ] {
        let wild = Wild::new();
        let before = StoreImage::of(&wild.path);
        wild.run(sql);
        let after = StoreImage::of(&wild.path);
        assert!(!diff(&before, &after).is_empty(), "{sql}");
        assert!(!diff(&after, &before).is_empty(), "{sql}");
    }
}

#[test]
fn runs_differ_in_their_name_only() {
    let wild = Wild::new();
    let source = |run: &str, into: &str| {
        let fields =
            serde_json::json!({ "merged_into": into, "run_id": run, "previous_source": "agent" });
        wild.run(&format!(
            "UPDATE stm SET source = 'archived:{fields}', updated_at = '{run}' WHERE rowid = 1"
        ));
        StoreImage::of(&wild.path)
    };
    let [one, two, three] = [("r1", "a"), ("r2", "a"), ("r2", "b")].map(|(r, i)| source(r, i));
    assert!(!diff(&one, &two).is_empty());
    let [one, two, three] = [one, two, three].map(StoreImage::without_run);
    assert_same(&one, &two);
    assert!(!diff(&two, &three).is_empty());
}

#[test]
fn lost_texts_and_rows_are_noticed() {
    for (sql, is_loss) in [
        ("UPDATE stm SET importance = 2.5, categories = '[\"archived\"]' WHERE rowid = 1", false),
        ("INSERT INTO stm (id, content, created_at) VALUES ('new', 'new', '2026')", false),
        ("UPDATE stm SET content = content || ' ' WHERE rowid = 1", true),
        ("DELETE FROM stm WHERE rowid = 1", true),
        ("DELETE FROM embeddings WHERE rowid = 1", true),
        ("DROP TABLE working_memory", true),
    ] {
        let wild = Wild::new();
        let before = StoreImage::of(&wild.path);
        wild.run(sql);
        assert_eq!(!before.lost_in(&StoreImage::of(&wild.path)).is_empty(), is_loss, "{sql}");
    }
}

/// Archives a memory as a merge into another does.
fn fold(wild: &Wild, absorbed: &str, survivor: &str) {
    let source =
        serde_json::json!({ "merged_into": survivor, "run_id": "r", "previous_source": "agent" });
    wild.run(&format!(
        "UPDATE stm SET source = 'archived:{source}', categories = '[\"archived\"]' WHERE id = '{absorbed}'"
    ));
}

#[test]
fn harder_to_find_facts_are_noticed() {
    let wild = || {
        let wild = Wild::new();
        let (survivor, absorbed) = wild.twins();
        let ids = (survivor.id.clone(), absorbed.id.clone());
        fold(&wild, &ids.1, &ids.0);
        (wild, ids)
    };
    let (first, (survivor, absorbed)) = wild();
    let missing = facts_findable(&first.path, &first.facts);
    assert_eq!(missing, Vec::<String>::new());
    let complaints = |sql: &str| {
        let (wild, _) = wild();
        wild.run(sql);
        let missing = facts_findable(&wild.path, &wild.facts);
        missing.into_iter().filter(|line| line.starts_with(&absorbed)).collect::<Vec<_>>()
    };
    let unindexed = format!(
        "INSERT INTO stm_fts (stm_fts, rowid, content) SELECT 'delete', rowid, content FROM stm WHERE id = '{survivor}'"
    );
    assert!(complaints(&unindexed)[0].contains("the words"));
    let gone = format!("DELETE FROM embeddings WHERE source_id = '{survivor}'");
    assert!(complaints(&gone)[0].contains("vector"));
    assert!(complaints(&format!("DELETE FROM stm WHERE id = '{survivor}'"))[0].contains("is gone"));
    assert!(complaints(&format!("DELETE FROM stm WHERE id = '{absorbed}'"))[0].contains("is gone"));
    let other = first.facts.iter().find(|fact| !fact.group.contains(&survivor)).unwrap();
    let stray = format!(
        "UPDATE stm SET source = replace(source, '{survivor}', '{}') WHERE id = '{absorbed}'",
        other.id
    );
    assert!(complaints(&stray)[0].contains("something else"));
    let circle = format!(
        "UPDATE stm SET source = replace(source, '{survivor}', '{absorbed}') WHERE id = '{absorbed}'"
    );
    assert!(complaints(&circle)[0].contains("circle"));
}

#[test]
fn percentiles_are_nearest_ranks() {
    assert_eq!(Waits::of(Vec::new()), Waits::default());
    let waits = Waits::of((1..=200).rev().map(|ms| f64::from(ms) / 1e3).collect());
    let rounded = [waits.p50_ms, waits.p99_ms, waits.max_ms].map(f64::round);
    assert_eq!((waits.count, rounded), (200, [100.0, 198.0, 200.0]));
}
