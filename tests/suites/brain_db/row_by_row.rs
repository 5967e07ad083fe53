//! A visit row by row shows the same as a load.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZoneDatabase;
use memfold_index::NoProgress;
use rusqlite::Connection;

use super::{NOW, load, plain_store, sql_store};
use memfold_core::memory::Status;
use memfold_store::{BrainDb, LiveRow, LiveVisitor, LoadRequest, MemoryStore, OpenOptions};

/// Records the visited memories.
#[derive(Default)]
pub(super) struct Shown {
    store_ids: Vec<String>,
    rows: Vec<String>,
    /// The store, which is written to at the third row, and how many times.
    disturbs: Option<(PathBuf, u32)>,
}

fn line(row: &LiveRow<'_>, vector: Option<(&str, &[f32])>) -> String {
    let mut line = format!("{row:?}");
    if let Some((model, vector)) = vector {
        let bits: Vec<u32> = vector.iter().map(|component| component.to_bits()).collect();
        write!(line, " {model} {bits:x?}").unwrap();
    }
    line
}

impl LiveVisitor for Shown {
    fn begin(&mut self, store_id: &str) -> io::Result<()> {
        self.store_ids.push(store_id.to_owned());
        self.rows.clear();
        Ok(())
    }

    fn visit(&mut self, row: &LiveRow<'_>, vector: Option<(&str, &[f32])>) -> io::Result<()> {
        self.rows.push(line(row, vector));
        if let Some((path, times)) = &mut self.disturbs
            && self.rows.len() == 3
            && *times > 0
        {
            *times -= 1;
            let other = Connection::open(path).unwrap();
            other.execute("UPDATE stm SET access_count = access_count + 1", []).unwrap();
        }
        Ok(())
    }
}

fn visit(path: &Path, client: &mut Shown) -> bool {
    let store = BrainDb::open(path, OpenOptions::default()).unwrap();
    let zone = TimeZoneDatabase::bundled().get("Europe/Berlin").unwrap();
    let request = LoadRequest { time_zone: &zone, now: NOW, progress: &NoProgress };
    store.visit_live(&request, client).unwrap()
}

/// Compares both ways of reading; returns how often the row-by-row one began.
#[track_caller]
pub(super) fn assert_agree(path: &Path) -> usize {
    let (snapshot, sink) = load(path);
    let live = snapshot.memories.iter().filter(|memory| memory.status == Status::Live);
    let expected: Vec<String> = live
        .map(|memory| {
            let vector = memory.embedding.vector().map(|(space, row)| {
                (&*snapshot.spaces[space.0 as usize].model, sink.vector(space, row))
            });
            line(&memory.into(), vector)
        })
        .collect();
    let mut shown = Shown::default();
    assert!(visit(path, &mut shown), "the store has keys");
    assert_eq!(shown.rows, expected);
    assert!(shown.store_ids.iter().all(|id| **id == *snapshot.store_id));
    shown.store_ids.len()
}

fn changed(count: u64, sql: &str) -> usize {
    let (_folder, path) = plain_store(count);
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    assert_agree(&path)
}

#[test]
fn embeddings_may_stand_in_any_order_and_number() {
    for sql in [
        "",
        "UPDATE embeddings SET rowid = -rowid",
        "UPDATE embeddings SET rowid = 1000 + (rowid * 7919) % 1000",
        "DELETE FROM embeddings WHERE rowid % 3 = 0",
        "DELETE FROM embeddings",
        "DELETE FROM stm WHERE rowid % 5 < 2",
        "DELETE FROM stm",
        // Embedded anew, so that it stands at the end.
        "UPDATE embeddings SET rowid = 5000 + rowid WHERE rowid % 40 = 3",
        "UPDATE stm SET rowid = 5000 - rowid",
        "UPDATE stm SET id = NULL WHERE rowid = 4;
         UPDATE stm SET id = CAST(x'ff41' AS TEXT) WHERE rowid = 5;
         UPDATE stm SET id = x'0102' WHERE rowid = 6;
         UPDATE embeddings SET source_id = x'0102' WHERE rowid = 6",
        "UPDATE embeddings SET embedding = x'00' WHERE rowid % 9 = 0;
         UPDATE embeddings SET embedding = '[0.5, 1]', model = NULL WHERE rowid % 9 = 1;
         UPDATE stm SET content = 'edited' WHERE rowid % 9 = 2;
         UPDATE stm SET source = 'archived:stale' WHERE rowid % 9 = 3",
    ] {
        assert_eq!(changed(200, sql), 1, "{sql}");
    }
}

#[test]
fn late_model_change_reads_again() {
    // The model of nameless vectors is the one that most of all have.
    assert_eq!(changed(2500, "UPDATE embeddings SET model = 'a' WHERE rowid > 1400"), 1);
    let nameless = "UPDATE embeddings SET model = NULL WHERE rowid < 1100";
    assert_eq!(changed(2500, nameless), 2);
    // Orphans are not visited, and yet they count.
    let orphans = format!("{nameless}; DELETE FROM stm WHERE rowid >= 1100");
    assert_eq!(changed(2500, &orphans), 2);
}

#[test]
fn stores_without_keys_are_not_shown() {
    let (_folder, path) = plain_store(5);
    let schema = |table: &str| -> String {
        let sql = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?1";
        Connection::open(&path).unwrap().query_row(sql, [table], |row| row.get(0)).unwrap()
    };
    let (stm, embeddings) = (schema("stm"), schema("embeddings"));
    let keyed = [stm.as_str(), embeddings.as_str()];
    let is_shown = |[stm, embeddings]: [&str; 2]| {
        let (_folder, path) = sql_store(&format!("{stm}; {embeddings};"));
        let mut shown = Shown::default();
        let is_shown = visit(&path, &mut shown);
        assert_eq!(shown.store_ids.len(), usize::from(is_shown));
        is_shown
    };
    assert!(is_shown(keyed));
    let changes = [
        ("id TEXT PRIMARY KEY", "id TEXT"),
        ("id TEXT PRIMARY KEY", "id TEXT COLLATE NOCASE PRIMARY KEY"),
        ("id TEXT PRIMARY KEY", "id INTEGER PRIMARY KEY"),
        ("UNIQUE(source_type, source_id)", "UNIQUE(source_type, source_id, model)"),
        ("source_id TEXT", "source_id"),
        ("embedding BLOB", "other BLOB"),
    ];
    for (from, to) in changes {
        let changed = keyed.map(|sql| sql.replace(from, to));
        assert_ne!(keyed, [&*changed[0], &*changed[1]], "{from}");
        assert!(!is_shown([&changed[0], &changed[1]]), "{to}");
    }
}
