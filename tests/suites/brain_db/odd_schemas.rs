//! Stores with tables that differ from the owner's.

use rusqlite::Connection;

use super::{load, sql_store};
use memfold_core::memory::{Embedding, MemoryId};
use memfold_core::{SkipReason, Snapshot};

const BARE_STM: &str =
    "CREATE TABLE stm (id, content, categories, importance, access_count, created_at, source);";
const BARE_EMBEDDINGS: &str =
    "CREATE TABLE embeddings (source_type, source_id, content, embedding, model);";

fn loaded(sql: &str) -> Snapshot {
    let (_folder, path) = sql_store(sql);
    load(&path).0
}

#[test]
fn without_embeddings_there_are_still_texts() {
    let snapshot = loaded(&format!(
        "{BARE_STM} INSERT INTO stm (id, content, created_at) VALUES ('a', 'x', '2026-01-01')"
    ));
    assert_eq!(snapshot.live_count(), 1);
    assert_eq!(snapshot.skipped_count(SkipReason::EmbeddingMissing), 1);
    assert_eq!(snapshot.notes, ["no table embeddings: only equal texts can be found"]);
    let memory = &snapshot.memories[0];
    assert_eq!((memory.importance, memory.access_count, &*memory.source), (1.0, 0, "agent"));
}

#[test]
fn an_empty_store_loads() {
    let snapshot = loaded(&format!("{BARE_STM} {BARE_EMBEDDINGS}"));
    assert_eq!((snapshot.rows_total, snapshot.memories.len(), snapshot.spaces.len()), (0, 0, 0));
    assert!(snapshot.store_id.starts_with("store_"));
}

#[test]
fn ids_keep_their_number_and_repeats_are_counted() {
    let snapshot = loaded(&format!(
        "{BARE_STM} {BARE_EMBEDDINGS}
         INSERT INTO stm (id, content, importance, access_count, created_at) VALUES
           (7, 'seven', '2.5', '3', 1771672322), ('7', 'again', 1, 1, '2026-01-01'),
           ('b', 'other', X'00', 4.7, 1771672322.5);
         INSERT INTO embeddings VALUES ('stm', 7, NULL, '[1, 0]', NULL);"
    ));
    assert_eq!(snapshot.skipped_count(SkipReason::IdRepeated), 1);
    let memory = &snapshot.memories[0];
    assert_eq!((memory.id.as_str(), &*memory.content), ("7", "seven"));
    assert_eq!((memory.importance, memory.access_count), (2.5, 3));
    assert_eq!(memory.created_at.instant().unwrap().to_rfc3339(), "2026-02-21T11:12:02Z");
    assert!(memory.embedding.vector().is_some());
    assert_eq!((snapshot.memories[1].importance, snapshot.memories[1].access_count), (1.0, 4));
}

#[test]
fn last_of_repeated_embeddings_wins() {
    let (_folder, path) = sql_store(&format!(
        "{BARE_STM} {BARE_EMBEDDINGS}
         INSERT INTO stm (id, content, created_at) VALUES ('a', 'x', '2026-01-01'), ('b', 'y', '2026-01-02');
         INSERT INTO embeddings VALUES ('stm', 'a', NULL, '[1, 0]', 'm'), ('stm', 'b', NULL, '[3, 0]', 'm'),
           ('stm', 'a', NULL, '[2, 0]', 'm'), ('message', 'a', NULL, '[9, 0]', 'm');"
    ));
    let (snapshot, sink) = load(&path);
    assert_eq!(snapshot.skipped_count(SkipReason::EmbeddingRepeated), 1);
    let (space, row) = snapshot.memories[0].embedding.vector().unwrap();
    assert_eq!(sink.vector(space, row), [2.0, 0.0]);
    assert_eq!(sink.spaces()[0].1.len(), 4);
}

#[test]
fn rowids_are_not_needed_and_names_may_be_shouted() {
    let snapshot = loaded(
        "CREATE TABLE STM (ID TEXT PRIMARY KEY, CONTENT, CATEGORIES, IMPORTANCE, ACCESS_COUNT,
                           CREATED_AT, SOURCE) WITHOUT ROWID;
         INSERT INTO STM (ID, CONTENT, CREATED_AT) VALUES ('b', 'x', '2026-01-01'), ('a', 'y', '2026-01-01');
         CREATE TABLE embeddings (source_type, source_id, embedding, PRIMARY KEY (source_type, source_id)) WITHOUT ROWID;
         INSERT INTO embeddings VALUES ('stm', 'a', X'0000803F');",
    );
    assert_eq!(snapshot.live_count(), 2);
    assert_eq!(snapshot.with_vector_count(), 1);
    assert_eq!(&*snapshot.spaces[0].model, "unnamed");
}

#[test]
fn a_store_of_doubles_is_read_as_doubles() {
    let (_folder, path) = sql_store(&format!("{BARE_STM} {BARE_EMBEDDINGS}"));
    let connection = Connection::open(&path).unwrap();
    for id in 1..=3 {
        let blob: Vec<u8> =
            (0..64).flat_map(|i| (f64::from(i * id) / 100.0 + 0.11).to_le_bytes()).collect();
        connection
            .execute(
                "INSERT INTO stm (id, content, created_at) VALUES (?1, 'x', '2026-01-01')",
                [id],
            )
            .unwrap();
        connection
            .execute("INSERT INTO embeddings VALUES ('stm', ?1, NULL, ?2, 'm')", (id, blob))
            .unwrap();
    }
    drop(connection);
    let (snapshot, sink) = load(&path);
    assert_eq!(snapshot.spaces[0].dim, 64);
    assert_eq!(sink.spaces()[0].1[..2], [0.11, 0.12]);
}

#[test]
fn lineage_and_the_store_uuid_are_honoured() {
    let snapshot = loaded(&format!(
        "{BARE_STM}
         INSERT INTO stm (id, content, categories, created_at) VALUES
           ('a', 'x', '[\"archived\"]', '2026-01-01'), ('b', 'y', '[]', '2026-01-01'),
           ('c', 'z', '[]', '2026-01-01');
         CREATE TABLE memfold_lineage (absorbed_id TEXT, survivor_id TEXT);
         INSERT INTO memfold_lineage VALUES ('a', 'old'), ('c', 'b'), ('a', 'b');
         CREATE TABLE memfold_schema (version INTEGER, store_uuid TEXT);
         INSERT INTO memfold_schema VALUES (1, '0a0b');"
    ));
    assert_eq!(&*snapshot.store_id, "0a0b");
    assert_eq!(snapshot.skipped_count(SkipReason::Merged), 1);
    // c bears no archive mark: somebody brought it back.
    assert_eq!(snapshot.live_count(), 2);
    let merged = snapshot.decisions.merged_into;
    assert_eq!(merged.into_iter().collect::<Vec<_>>(), [(MemoryId::new("a"), MemoryId::new("b"))]);
}

#[test]
fn the_derived_name_survives_edits_and_renumbering() {
    let (_folder, path) = sql_store(&format!(
        "{BARE_STM} INSERT INTO stm (id, content, created_at) VALUES
           ('b', 'y', '2026-01-02'), ('a', 'x', '2026-01-01'), ('c', 'z', '2026-01-03')"
    ));
    let before = load(&path).0.store_id;
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "DELETE FROM stm WHERE id = 'b'; UPDATE stm SET content = 'new', access_count = 9;
             ALTER TABLE stm ADD COLUMN confidence; VACUUM;",
        )
        .unwrap();
    let (snapshot, _) = load(&path);
    assert_eq!(snapshot.store_id, before);
    assert_eq!(snapshot.memories[0].embedding, Embedding::Missing);
}
