//! Comparisons of stores notice every difference, and searches for facts notice each lost one.

use memfold_tests::{Fact, StoreImage, TestStore, assert_same, diff, facts_findable};

fn wild() -> (TestStore, Vec<Fact>) {
    TestStore::wild(120, 5)
}

/// Two indexed members with vectors of one group.
fn twins(facts: &[Fact]) -> (&Fact, &Fact) {
    let good = |fact: &&Fact| fact.is_indexed && fact.vector.is_some();
    let twins = facts.iter().filter(good).find_map(|fact| {
        let twin = |other: &&Fact| fact.group == other.group && fact.id != other.id;
        Some((fact, facts.iter().filter(good).find(twin)?))
    });
    twins.unwrap()
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
        let (db, _) = wild();
        let before = db.image();
        db.sql(sql);
        let after = db.image();
        assert!(!diff(&before, &after).is_empty(), "{sql}");
        assert!(!diff(&after, &before).is_empty(), "{sql}");
    }
}

#[test]
fn runs_differ_in_their_name_only() {
    let (db, _) = wild();
    let source = |run: &str, into: &str| {
        let source = archived(into, run);
        db.sql(&format!(
            "UPDATE stm SET source = '{source}', updated_at = '{run}' WHERE rowid = 1"
        ));
        db.image()
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
        let (db, _) = wild();
        let before = db.image();
        db.sql(sql);
        assert_eq!(!before.lost_in(&db.image()).is_empty(), is_loss, "{sql}");
    }
}

/// The source of a memory that a run merged into another one.
fn archived(survivor: &str, run: &str) -> String {
    let fields =
        serde_json::json!({ "merged_into": survivor, "run_id": run, "previous_source": "agent" });
    format!("archived:{fields}")
}

#[test]
fn harder_to_find_facts_are_noticed() {
    let merged_store = || {
        let (db, facts) = wild();
        let (survivor, merged) = twins(&facts);
        let (survivor, merged) = (survivor.id.clone(), merged.id.clone());
        let source = archived(&survivor, "r");
        db.sql(&format!(
            "UPDATE stm SET source = '{source}', categories = '[\"archived\"]' WHERE id = '{merged}'"
        ));
        (db, facts, survivor, merged)
    };
    let (db, facts, survivor, merged) = merged_store();
    assert_eq!(facts_findable(db.path(), &facts), Vec::<String>::new());
    let complaints = |sql: &str| {
        let (db, facts, ..) = merged_store();
        db.sql(sql);
        let missing = facts_findable(db.path(), &facts);
        missing.into_iter().filter(|line| line.starts_with(&merged)).collect::<Vec<_>>()
    };
    let unindexed = format!(
        "INSERT INTO stm_fts (stm_fts, rowid, content) SELECT 'delete', rowid, content FROM stm WHERE id = '{survivor}'"
    );
    assert!(complaints(&unindexed)[0].contains("the words"));
    let gone = format!("DELETE FROM embeddings WHERE source_id = '{survivor}'");
    assert!(complaints(&gone)[0].contains("vector"));
    assert!(complaints(&format!("DELETE FROM stm WHERE id = '{survivor}'"))[0].contains("is gone"));
    assert!(complaints(&format!("DELETE FROM stm WHERE id = '{merged}'"))[0].contains("is gone"));
    let other = facts.iter().find(|fact| !fact.group.contains(&survivor)).unwrap();
    let stray = format!(
        "UPDATE stm SET source = replace(source, '{survivor}', '{}') WHERE id = '{merged}'",
        other.id
    );
    assert!(complaints(&stray)[0].contains("something else"));
    let circle = format!(
        "UPDATE stm SET source = replace(source, '{survivor}', '{merged}') WHERE id = '{merged}'"
    );
    assert!(complaints(&circle)[0].contains("circle"));
}
