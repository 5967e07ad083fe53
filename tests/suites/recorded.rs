//! Records in memfold's own tables are honoured by a load and by the plan that follows.

use memfold_core::decisions::{SingleAction, content_hash};
use memfold_core::journal::RowImage;
use memfold_core::memory::{Embedding, Memory, MemoryId, Status};
use memfold_core::plan::Action;
use memfold_core::value::Value;
use memfold_core::{SkipReason, Snapshot};
use memfold_store::VecSink;
use memfold_tests::{PlainMemory, StoreStyle, TestStore, memory};
use rusqlite::types::Value as Sql;
use rusqlite::{Connection, params};

use super::brain_db::{by_id, load};

/// A store with memfold's tables.
struct Store(TestStore);

/// A row to write: id, text and the direction of its vector in degrees.
type Row<'a> = (&'a str, &'a str, Option<f32>);

impl Store {
    fn new(rows: &[Row<'_>]) -> Self {
        let row = |(at, &(id, content, degrees)): (usize, &Row<'_>)| PlainMemory {
            id: id.to_owned(),
            categories: vec!["sop".to_owned()],
            access_count: 1,
            created_at: format!("2026-03-{:02}T10:00:00", at % 28 + 1),
            embedding: degrees.and_then(|degrees| memory(0, "", &direction(degrees)).embedding),
            ..memory(0, content, &[])
        };
        let rows: Vec<PlainMemory> = rows.iter().enumerate().map(row).collect();
        let db = TestStore::of(&rows, StoreStyle::Plain);
        db.session().prepare("t").unwrap();
        Self(db)
    }

    fn sql(&self, sql: &str) {
        self.0.sql(sql);
    }

    /// Records a decision about texts as they are.
    fn decide(&self, kind: &str, group: Option<&str>, action: Option<&str>, ids: &[&str]) {
        for id in ids {
            let Sql::Text(content) = self.0.cell(id, "content") else { panic!("{id}") };
            self.0
                .owner()
                .execute(
                    "INSERT INTO memfold_decisions
                         (kind, group_id, memory_id, content_hash, action, run_id, unit, at, active)
                     VALUES (?1, ?2, ?3, ?4, ?5, 'r', 1, 't', 1)",
                    params![kind, group, id, content_hash(&content), action],
                )
                .unwrap();
        }
    }

    /// Moves a memory and its embedding to the archive, as an earlier version did.
    fn archive(&self, id: &str, survivor: Option<&str>) {
        let owner = self.0.owner();
        for (table, key) in [("stm", "id"), ("embeddings", "source_id")] {
            for image in images(&owner, table, key, id) {
                owner
                    .execute(
                        "INSERT INTO memfold_archive
                             (memory_id, table_name, row_rowid, row, indexed, survivor_id, run_id, at)
                         VALUES (?1, ?2, ?3, ?4, 1, ?5, 'r', 't')",
                        params![id, table, image.rowid, image.to_json().to_string(), survivor],
                    )
                    .unwrap();
            }
            owner.execute(&format!("DELETE FROM {table} WHERE {key} = ?1"), [id]).unwrap();
        }
    }

    fn load(&self) -> (Snapshot, VecSink) {
        load(self.0.path())
    }

    /// The actions of a dry run in short.
    fn plan(&self) -> Vec<String> {
        let short = |action: &Action| {
            let ids: Vec<&str> = action.target_ids.iter().map(MemoryId::as_str).collect();
            format!("{} {}", action.action.name(), ids.join(" "))
        };
        self.0.plan().plan.actions.iter().map(short).collect()
    }
}

fn images(owner: &Connection, table: &str, key: &str, id: &str) -> Vec<RowImage> {
    let sql = format!("SELECT rowid AS place, * FROM {table} WHERE {key} = ?1");
    let mut statement = owner.prepare(&sql).unwrap();
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let rows = statement.query_map([id], |row| {
        let cell = |at| match row.get(at).unwrap() {
            Sql::Null => Value::Null,
            Sql::Integer(value) => Value::Integer(value),
            Sql::Real(value) => Value::Real(value),
            Sql::Text(text) => Value::from(text),
            Sql::Blob(bytes) => Value::Blob(bytes),
        };
        let cells = (1..names.len()).map(|at| (names[at].clone(), cell(at))).collect();
        Ok(RowImage { rowid: row.get(0)?, cells })
    });
    rows.unwrap().collect::<Result<_, _>>().unwrap()
}

fn direction(degrees: f32) -> Vec<f32> {
    let (sine, cosine) = degrees.to_radians().sin_cos();
    vec![cosine, sine, 0.0, 0.0]
}

const TEXT: &str = "The backup of the store runs at night";

#[test]
fn a_kept_group_stays_apart_until_a_text_changes() {
    let store =
        Store::new(&[("a", TEXT, Some(0.0)), ("b", TEXT, Some(0.0)), ("c", TEXT, Some(0.0))]);
    assert_eq!(store.plan(), ["merge c b a"]);
    store.decide("keep_both", Some("g"), None, &["a", "b", "c"]);
    store.decide("keep_both", None, None, &["a", "b"]);
    let kept = store.load().0.decisions.keep_both;
    assert!(kept.are_apart(&MemoryId::new("a"), &MemoryId::new("c")));
    assert!(store.plan().is_empty());
    // Another wording of the same: b leaves the group.
    store.sql("UPDATE stm SET content = content || '.' WHERE id = 'b'; DELETE FROM embeddings WHERE source_id = 'b'");
    let kept = store.load().0.decisions.keep_both;
    assert!(!kept.are_apart(&MemoryId::new("a"), &MemoryId::new("b")));
    assert!(kept.are_apart(&MemoryId::new("a"), &MemoryId::new("c")));
    store.sql("UPDATE memfold_decisions SET active = 0");
    assert!(store.load().0.decisions.keep_both.is_empty());
}

#[test]
fn declined_actions_hold_while_the_text_does() {
    let store = Store::new(&[("a", TEXT, None), ("b", "Other words altogether", None)]);
    store.sql("UPDATE stm SET importance = 2.0, access_count = 9");
    assert_eq!(store.plan(), ["promote b", "promote a"]);
    store.decide("declined", None, Some("promote"), &["a"]);
    store.decide("declined", None, Some("archive"), &["b"]);
    store.decide("declined", None, Some("merge"), &["b"]);
    let declined = store.load().0.decisions.declined;
    let expected = [("a", SingleAction::Promote), ("b", SingleAction::Archive)];
    assert_eq!(declined, expected.map(|(id, action)| (MemoryId::new(id), action)).into());
    assert_eq!(store.plan(), ["promote b", "noop a"]);
    store.sql("UPDATE stm SET content = content || ' and day' WHERE id = 'a'");
    assert_eq!(store.plan(), ["promote b", "promote a"]);
}

#[test]
fn rows_moved_to_the_archive_are_read_as_they_were() {
    let rows: [Row<'_>; 3] = [("a", TEXT, Some(3.0)), ("b", TEXT, Some(4.0)), ("c", "old", None)];
    let store = Store::new(&rows);
    let (before, before_sink) = store.load();
    store.archive("a", Some("b"));
    store.archive("c", None);
    let (after, after_sink) = store.load();
    assert_eq!((after.rows_total, after.live_count(), after.left_out_count()), (1, 1, 0));
    assert_eq!(after.skipped_count(SkipReason::EmbeddingOrphan), 0);
    let (before, memories) = (by_id(&before), by_id(&after));
    let survivor = MemoryId::new("b");
    assert_eq!(memories["a"].merged_into, Some(survivor.clone()));
    assert_eq!(memories["c"].status, Status::Archived);
    assert_eq!(after.decisions.merged_into[&MemoryId::new("a")], survivor);
    for id in ["a", "b", "c"] {
        let Memory { rowid, status, merged_into, embedding, .. } = before[id].clone();
        let found = Memory { rowid, status, merged_into, embedding, ..memories[id].clone() };
        assert_eq!(found, *before[id]);
        let vector = |memory: &Memory, sink: &VecSink| {
            memory.embedding.vector().map(|(space, row)| sink.vector(space, row).to_vec())
        };
        assert_eq!(vector(memories[id], &after_sink), vector(before[id], &before_sink));
    }
}

#[test]
fn archived_row_still_keeps_texts_apart() {
    let store = |merged_row: Row<'_>| {
        let rows = [merged_row, ("b", TEXT, Some(0.0)), ("c", TEXT, Some(1.0))];
        let store = Store::new(&rows);
        store.archive("a", Some("b"));
        store.plan()
    };
    assert_eq!(store(("a", "The backup of the store runs at night.", Some(0.5))), ["merge c b"]);
    // The same in other spelling, near b, but too far from c.
    let other_spelling = |degrees| ("a", "The backup of the store runs at night!", Some(degrees));
    let rows = |merged_row| {
        let of_b = ("b", "The backup of the store runs at night.", Some(0.0));
        let rows: [Row<'_>; 3] = [merged_row, of_b, ("c", TEXT, Some(10.0))];
        let store = Store::new(&rows);
        store.archive("a", Some("b"));
        store.plan()
    };
    assert_eq!(rows(other_spelling(-2.0)), ["merge c b"]);
    assert!(rows(other_spelling(-30.0)).is_empty());
    // A text that the guard keeps apart.
    let port = |number| format!("The gateway listens on port {number}");
    let (old, new) = (port(8080), port(9090));
    let other =
        Store::new(&[("a", &old, Some(0.0)), ("b", &new, Some(0.0)), ("c", &new, Some(0.5))]);
    other.archive("a", Some("b"));
    let (snapshot, _) = other.load();
    assert!(by_id(&snapshot)["a"].embedding.vector().is_some());
    assert!(other.plan().is_empty(), "{:?}", other.plan());
    other.sql("DELETE FROM memfold_archive");
    assert_eq!(other.plan(), ["merge c b"]);
}

#[test]
fn live_rows_go_before_the_archive() {
    let store = Store::new(&[("a", TEXT, Some(0.0)), ("b", TEXT, Some(0.0))]);
    store.archive("a", Some("b"));
    store.sql("INSERT INTO stm (id, content, created_at) VALUES ('a', 'new text', '2026-01-01')");
    let (snapshot, sink) = store.load();
    let memories = by_id(&snapshot);
    assert_eq!((&*memories["a"].content, &memories["a"].status), ("new text", &Status::Live));
    assert_eq!(memories["a"].embedding, Embedding::Missing);
    assert_eq!((snapshot.memories.len(), sink.spaces()[0].1.len()), (2, 4));
    // An unreadable row is there, too.
    store.sql("UPDATE stm SET content = '' WHERE id = 'a'");
    assert_eq!(store.load().0.memories.len(), 1);
}

#[test]
fn unreadable_archive_is_a_note() {
    let store = Store::new(&[("a", TEXT, Some(0.0)), ("b", TEXT, Some(0.0))]);
    store.sql(
        "INSERT INTO memfold_archive (memory_id, table_name, row, indexed, run_id, at) VALUES
             ('x', 'stm', '{', 0, 'r', 't'), ('y', 'stm', '{\"id\": \"y\"}', 0, 'r', 't'),
             ('x', 'embeddings', x'00', 0, 'r', 't')",
    );
    assert_eq!(
        store.load().0.notes,
        [
            "2 memories in memfold_archive cannot be read: they were compared with nothing",
            "1 embeddings in memfold_archive cannot be read: only their texts were compared",
        ]
    );
}
