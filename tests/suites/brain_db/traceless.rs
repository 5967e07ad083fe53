//! Reading leaves every file and its folder as they were, also while others have the store open.

use std::fs;
use std::io;
use std::path::PathBuf;

use memfold_index::Row;
use rusqlite::Connection;

use super::{NOW, folder_state, load, plain_store, rollback, write};
use memfold_core::memory::{SpaceIndex, VectorSpace};
use memfold_store::{
    BrainDb, LoadRequest, MemoryStore as _, OpenOptions, StoreError, VecSink, VectorSink,
};

const ADD_ROW: &str = "INSERT INTO stm (id, content, categories, created_at)
    VALUES ('new', 'a new memory', '[]', '2026-02-02T02:02:02')";

#[test]
fn a_closed_wal_store_stays_as_it_is() {
    let (folder, path) = plain_store(20);
    let before = folder_state(folder.path());
    assert_eq!(before.len(), 1);
    assert_eq!(load(&path).0.live_count(), 20);
    assert_eq!(folder_state(folder.path()), before);
}

#[test]
fn what_a_writer_has_committed_is_read_from_its_log() {
    let (folder, path) = plain_store(20);
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch(ADD_ROW).unwrap();
    writer.execute_batch("BEGIN; DELETE FROM stm WHERE id = 'new'").unwrap();
    let before = folder_state(folder.path());
    assert_eq!(before.len(), 3);
    assert!(!before["brain.db-wal"].is_empty());
    assert_eq!(load(&path).0.live_count(), 21);
    assert_eq!(folder_state(folder.path()), before);
    writer.execute_batch("COMMIT").unwrap();
    assert_eq!(load(&path).0.live_count(), 20);
}

#[test]
fn a_log_without_its_index_is_read_without_making_one() {
    let (folder, path) = plain_store(20);
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch(ADD_ROW).unwrap();
    let copied = tempfile::tempdir().unwrap();
    for name in ["brain.db", "brain.db-wal"] {
        fs::copy(folder.path().join(name), copied.path().join(name)).unwrap();
    }
    let before = folder_state(copied.path());
    assert_eq!(load(&copied.path().join("brain.db")).0.live_count(), 21);
    assert_eq!(folder_state(copied.path()), before);
}

#[test]
fn a_store_that_just_turned_to_wal_mode_is_read_from_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("brain.db");
    write(&path, 5, rollback());
    let header = fs::read(&path).unwrap();
    let writer = Connection::open(&path).unwrap();
    writer.execute_batch(&format!("PRAGMA journal_mode = WAL; {ADD_ROW}")).unwrap();
    let copied = tempfile::tempdir().unwrap();
    fs::copy(folder.path().join("brain.db-wal"), copied.path().join("brain.db-wal")).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[18..20].copy_from_slice(&header[18..20]);
    fs::write(copied.path().join("brain.db"), bytes).unwrap();
    let before = folder_state(copied.path());
    assert_eq!(load(&copied.path().join("brain.db")).0.live_count(), 6);
    assert_eq!(folder_state(copied.path()), before);
}

/// Another process opens, writes and closes the store while its first vector is taken.
struct Disturbed {
    path: PathBuf,
    sink: VecSink,
    restarts: Option<u32>,
    disturbances: u32,
}

impl VectorSink for Disturbed {
    fn open_space(&mut self, space: &VectorSpace) -> io::Result<SpaceIndex> {
        self.sink.open_space(space)
    }

    fn push(&mut self, space: SpaceIndex, vector: &[f32]) -> io::Result<Row> {
        let row = self.sink.push(space, vector)?;
        if self.disturbances > 0 && row == Row(3) {
            self.disturbances -= 1;
            let touch = "UPDATE stm SET access_count = access_count + 1";
            let other = Connection::open(&self.path).unwrap();
            other.execute_batch(if self.disturbances == 0 { ADD_ROW } else { touch }).unwrap();
        }
        Ok(row)
    }

    fn restart(&mut self) -> io::Result<()> {
        let restarts = self.restarts.as_mut().ok_or(io::ErrorKind::Unsupported)?;
        *restarts += 1;
        self.sink.restart()
    }
}

fn load_disturbed(
    restarts: Option<u32>,
    disturbances: u32,
) -> (Result<u64, StoreError>, Disturbed, Vec<String>) {
    let (folder, path) = plain_store(20);
    let store = BrainDb::open(&path, OpenOptions::default()).unwrap();
    let mut sink = Disturbed { path, sink: VecSink::default(), restarts, disturbances };
    let request = LoadRequest {
        time_zone: &jiff::tz::TimeZone::UTC,
        now: NOW,
        progress: &memfold_index::NoProgress,
    };
    let loaded = store.load(&request, &mut sink).map(|snapshot| snapshot.live_count());
    (loaded, sink, folder_state(folder.path()).into_keys().collect())
}

#[test]
fn a_write_in_the_middle_starts_the_reading_again() {
    let (loaded, sink, files) = load_disturbed(Some(0), 1);
    assert_eq!(loaded.unwrap(), 21);
    assert_eq!(sink.restarts, Some(1));
    assert_eq!(sink.sink.spaces()[0].1.len(), 19 * super::DIM);
    assert_eq!(files, ["brain.db"]);
}

#[test]
fn a_store_that_is_written_all_the_time_is_read_with_locks() {
    let (loaded, sink, _) = load_disturbed(Some(0), 3);
    // The third write comes while the third reading has its snapshot.
    assert_eq!(loaded.unwrap(), 20);
    assert_eq!((sink.restarts, sink.disturbances), (Some(2), 0));
}
