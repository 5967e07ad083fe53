//! `brain.db` on real files: opening, reading, creating and examining them.

mod doctor;
mod habits;
mod model;
mod odd_schemas;
mod open_errors;
mod row_by_row;
mod traceless;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZoneDatabase;
use memfold_bench::synthetic::templated;
use memfold_bench::wild::{WildStore, make_wild};
use memfold_index::NoProgress;
use rusqlite::Connection;
use tempfile::TempDir;

use memfold_core::Snapshot;
use memfold_core::memory::Memory;
use memfold_core::time::Instant;
use memfold_store::brain_db::{BrainDb, CreateOptions, OpenOptions};
use memfold_store::{LoadRequest, MemoryStore, StoreError, VecSink};
use memfold_tests::{PlainEmbedding, PlainMemory, brain_db_with};

/// 2026-06-01T00:00:00Z.
const NOW: Instant = Instant(1_780_272_000_000_000);

const DIM: usize = 8;

fn load_with(store: &dyn MemoryStore, sink: &mut VecSink) -> Result<Snapshot, StoreError> {
    let zone = TimeZoneDatabase::bundled().get("Europe/Berlin").unwrap();
    store.load(&LoadRequest { time_zone: &zone, now: NOW, progress: &NoProgress }, sink)
}

pub(super) fn load(path: &Path) -> (Snapshot, VecSink) {
    let mut sink = VecSink::default();
    let store = BrainDb::open(path, OpenOptions::default()).unwrap();
    let snapshot = load_with(&store, &mut sink).unwrap();
    assert_eq!(snapshot.rows_total, snapshot.live_count() + snapshot.left_out_count());
    (snapshot, sink)
}

/// The memories of a snapshot by id.
pub(super) fn by_id(snapshot: &Snapshot) -> BTreeMap<&str, &Memory> {
    snapshot.memories.iter().map(|memory| (memory.id.as_str(), memory)).collect()
}

fn vector(seed: usize) -> Vec<f32> {
    (0..DIM).map(|i| ((seed * 31 + i * 7 + 1) as f32 * 0.11).sin()).collect()
}

/// Writes `count` templated memories, the last one without a vector.
fn write(path: &Path, count: u64, options: CreateOptions) {
    let model = || Some("all-MiniLM-L6-v2".to_owned());
    let row = |row: u64| {
        let vector = (row + 1 < count).then(|| vector(row as usize));
        let created_at = format!("2026-01-{:02}T10:{:02}:07", 1 + row % 28, row % 60);
        let categories: &[&str] =
            if row.is_multiple_of(2) { &["coding"] } else { &["sop", "größe"] };
        PlainMemory {
            categories: categories.iter().map(ToString::to_string).collect(),
            importance: 1.0 + (row % 3) as f64 * 0.5,
            access_count: (row % 4) as i64,
            source: if row.is_multiple_of(5) { "manual" } else { "agent" }.to_owned(),
            embedding: vector.map(|vector| PlainEmbedding {
                model: model(),
                vector,
                content: None,
            }),
            ..PlainMemory::new(format!("stm_{row:012x}"), templated(row, 0, 1), created_at)
        }
    };
    brain_db_with(path, &(0..count).map(row).collect::<Vec<_>>(), options);
}

fn plain_store(count: u64) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("brain.db");
    write(&path, count, CreateOptions::default());
    (folder, path)
}

fn rollback() -> CreateOptions {
    CreateOptions { wal: false, ..CreateOptions::default() }
}

/// Writes memories as [`write`], with the habits of stores in use.
fn write_wild(path: &Path, count: u64) -> WildStore {
    write(path, count, CreateOptions::default());
    make_wild(path).unwrap()
}

/// Makes a store from SQL.
fn sql_store(sql: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("brain.db");
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    (folder, path)
}

/// Every file of a folder with its bytes; `-shm` without, for it is the processes' shared memory.
fn folder_state(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let bytes = if name.ends_with("-shm") { Vec::new() } else { fs::read(&path).unwrap() };
            (name, bytes)
        })
        .collect()
}
