//! Pulls and publications against an origin in memory that can fail at any write.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use jiff::tz::TimeZone;
use memfold_core::policy::ConfigLoader;
use memfold_core::time::Instant;
use memfold_index::NoProgress;
use memfold_store::brain_db::{Session, SessionOptions};
use memfold_store::journal::RevertOptions;
use memfold_store::origin::{
    Origin, OriginChange, OriginConflict, OriginContents, OriginError, OriginRecord, OriginStatus,
    OriginUnit, Published,
};
use proptest::prelude::*;

use super::{Mirror, MirrorError, MirrorOptions, Publication, Pulled};
use crate::execute::{UndoRequest, UndoTarget, undo};
use crate::{ApplyOptions, Memfold, Options};

const AT: &str = "2026-05-01T12:00:00Z";

fn session() -> SessionOptions {
    SessionOptions { busy_timeout: Duration::from_millis(500), holder: "test 1".to_owned() }
}

fn record(id: &str, text: &str) -> OriginRecord {
    let mut record = OriginRecord {
        id: id.to_owned(),
        text: text.to_owned(),
        tags: vec!["notes".to_owned()],
        attributes: vec![("type".to_owned(), "fact".to_owned())],
        importance: 1.0,
        created_at: Some("2026-01-02T03:04:05Z".to_owned()),
        source: "agent".to_owned(),
        ..OriginRecord::default()
    };
    write_raw(&mut record);
    record
}

/// The raw content in the origin: everything but status and place.
fn write_raw(record: &mut OriginRecord) {
    let OriginRecord { text, tags, attributes, importance, access_count, links, .. } = &*record;
    record.raw =
        serde_json::json!([text, tags, attributes, importance, access_count, links]).to_string();
}

#[derive(Default)]
struct State {
    records: Vec<OriginRecord>,
    /// Writes until one fails.
    writes_left: Option<u32>,
    writes: u32,
}

#[derive(Default)]
struct InMemory(Mutex<State>);

impl InMemory {
    fn with(records: &[(&str, &str)]) -> Self {
        let records = records.iter().map(|(id, text)| record(id, text)).collect();
        Self(Mutex::new(State { records, ..State::default() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn records(&self) -> Vec<OriginRecord> {
        self.state().records.clone()
    }

    fn edit(&self, id: &str, text: &str) {
        let mut state = self.state();
        let record = state.records.iter_mut().find(|record| record.id == id).unwrap();
        text.clone_into(&mut record.text);
        write_raw(record);
    }

    fn live(&self) -> Vec<String> {
        let live = self.records().into_iter().filter(|r| r.status == OriginStatus::Live);
        live.map(|record| record.id).collect()
    }
}

impl State {
    fn write(&mut self) -> Result<(), OriginError> {
        match &mut self.writes_left {
            Some(0) => Err(OriginError::Io {
                action: "write",
                path: "the origin".into(),
                source: std::io::Error::other("it fails"),
            }),
            left => {
                *left = left.map(|left| left - 1);
                self.writes += 1;
                Ok(())
            }
        }
    }

    fn position(&self, id: &str) -> Option<usize> {
        self.records.iter().position(|record| record.id == id)
    }

    fn check(&self, change: &OriginChange) -> Result<(), (String, String)> {
        let (before, id, is_written) = match change {
            OriginChange::Update { before, record, .. } => {
                let mut told = (**record).clone();
                write_raw(&mut told);
                let found = self.position(&record.id).map(|at| &self.records[at]);
                (before, &record.id, found.is_some_and(|found| found.raw == told.raw))
            }
            OriginChange::Retire { before, id, .. } => {
                let found = self.position(id).map(|at| &self.records[at]);
                let is_written = found.is_some_and(|r| r.status != OriginStatus::Live);
                (before, id, is_written)
            }
            OriginChange::Restore { before: Some(before), record } => {
                let found = self.position(&record.id).map(|at| &self.records[at]);
                let is_back = found.is_none_or(|found| {
                    found.status == OriginStatus::Live && found.raw == record.raw
                });
                (before, &record.id, is_back)
            }
            OriginChange::Remove { before: Some(before), id } => {
                (before, id, self.position(id).is_none())
            }
            _ => return Ok(()),
        };
        let found = self.position(id).map(|at| self.records[at].digest());
        match is_written || found.as_ref() == Some(before) {
            true => Ok(()),
            false => Err((id.clone(), "it was changed".to_owned())),
        }
    }

    fn carry_out(&mut self, change: &OriginChange) -> Result<(), OriginError> {
        self.write()?;
        match change {
            OriginChange::Create { record, .. } | OriginChange::Update { record, .. } => {
                let mut record = (**record).clone();
                write_raw(&mut record);
                match self.position(&record.id) {
                    Some(at) => self.records[at] = record,
                    None => self.records.push(record),
                }
            }
            OriginChange::Retire { id, into, .. } => {
                let at = self.position(id).unwrap();
                self.records[at].status = match into {
                    Some(into) => OriginStatus::Merged { into: into.clone() },
                    None => OriginStatus::Archived,
                };
            }
            OriginChange::Restore { record, .. } => {
                let restored =
                    OriginRecord { status: OriginStatus::Live, vector: None, ..(**record).clone() };
                match self.position(&record.id) {
                    Some(at) => self.records[at] = restored,
                    // Others removed the retired record.
                    None => self.records.push(restored),
                }
            }
            OriginChange::Remove { id, .. } => self.records.retain(|record| record.id != *id),
        }
        Ok(())
    }
}

impl Origin for InMemory {
    fn kind(&self) -> &'static str {
        "in_memory"
    }

    fn read(&self) -> Result<OriginContents, OriginError> {
        Ok(OriginContents { records: self.records(), skipped: Vec::new() })
    }

    fn write(&self, units: &[OriginUnit]) -> Result<Published, OriginError> {
        let mut state = self.state();
        let mut published = Published::default();
        for (at, unit) in units.iter().enumerate() {
            match unit.changes.iter().try_for_each(|change| state.check(change)) {
                Ok(()) => {
                    for change in &unit.changes {
                        state.carry_out(change)?;
                    }
                    published.units.push(at);
                }
                Err((id, reason)) => {
                    published.conflicts.push(OriginConflict { unit: at, id, reason });
                }
            }
        }
        Ok(published)
    }
}

/// An origin with the folder of its mirror.
struct Fixture {
    origin: InMemory,
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new(origin: InMemory) -> Self {
        Self { origin, folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("mirror.db")
    }

    fn with<T>(&self, work: impl FnOnce(&Mirror<'_>) -> T) -> T {
        let now = Instant::parse(AT, &TimeZone::UTC).unwrap();
        let path = self.path();
        let options = MirrorOptions {
            path: &path,
            place: self.folder.path(),
            session: session(),
            now,
            time_zone: &TimeZone::UTC,
        };
        work(&Mirror::open(&self.origin, options).unwrap())
    }

    fn pull(&self) -> Pulled {
        self.with(|mirror| mirror.pull().unwrap())
    }

    fn publish(&self) -> Publication {
        self.with(|mirror| mirror.publish().unwrap())
    }

    fn sync(&self) -> Publication {
        self.with(|mirror| {
            let finished = mirror.finish_publication()?;
            mirror.pull()?;
            let mut published = mirror.publish()?;
            published.units.extend(finished.units);
            Ok::<_, MirrorError>(published)
        })
        .unwrap()
    }

    /// Plans and executes; returns the number of changes and the run.
    fn run(&self) -> (u64, String) {
        let configuration = ConfigLoader::new().load().unwrap();
        let options = Options {
            configuration: Some(configuration),
            now: Instant::parse(AT, &TimeZone::UTC),
            ..Options::default()
        };
        let memfold = Memfold::open_with(self.path(), options).unwrap();
        let planned = memfold.plan().unwrap();
        let changes = planned.plan().changes();
        if changes == 0 {
            return (0, String::new());
        }
        let options = ApplyOptions { change_share_max: 1.0, ..ApplyOptions::default() };
        (changes, planned.apply_with(&options).unwrap().run_id)
    }

    fn undo(&self, run: &str) -> bool {
        let session = Session::open(&self.path(), &session()).unwrap();
        let request = UndoRequest {
            target: &UndoTarget::Run(run.to_owned()),
            options: RevertOptions::default(),
            remerge_ok: false,
            run_id: "undo-1",
            now: Instant::parse(AT, &TimeZone::UTC).unwrap(),
            time_zone: &TimeZone::UTC,
            holder: "test 1",
            progress: &NoProgress,
            clock: &|| 0.0,
        };
        undo(&session, &request).is_ok()
    }
}

const PAIRS: [(&str, &str); 5] = [
    ("a1", "The kiln is fired on Mondays."),
    ("a2", "The kiln is fired on Mondays."),
    ("b1", "Tea is ordered from the harbour shop."),
    ("b2", "Tea is ordered from the harbour shop."),
    ("c", "The gate code is written in the blue book."),
];

fn pairs() -> Fixture {
    Fixture::new(InMemory::with(&PAIRS))
}

#[test]
fn a_pull_takes_in_what_changed_and_nothing_else() {
    let fixture = pairs();
    let pulled = fixture.pull();
    assert_eq!((pulled.records, pulled.live, pulled.added), (5, 5, 5));
    let pulled = fixture.pull();
    assert_eq!((pulled.added, pulled.changed, pulled.removed), (0, 0, 0));
    fixture.origin.edit("c", "The gate code is written in the red book.");
    fixture.origin.state().records.remove(0);
    fixture.origin.state().records.push(record("d", "A new one."));
    let pulled = fixture.pull();
    assert_eq!((pulled.added, pulled.changed, pulled.removed), (1, 1, 1));
    assert!(fixture.publish().units.is_empty());
}

#[test]
fn what_is_merged_is_published_once_and_undone_as_a_whole() {
    let fixture = pairs();
    let before = fixture.origin.records();
    fixture.pull();
    let (changes, run) = fixture.run();
    assert_eq!(changes, 2);
    let published = fixture.publish();
    assert_eq!((published.units.len(), published.conflicts.len()), (2, 0));
    assert_eq!(published.units[0].run_id, run);
    assert_eq!(fixture.origin.live().len(), 3);
    assert!(fixture.sync().units.is_empty());
    assert_eq!(fixture.run().0, 0);
    assert!(fixture.undo(&run));
    assert_eq!(fixture.publish().units.len(), 2);
    assert_eq!(fixture.origin.records(), before);
    assert!(fixture.sync().units.is_empty());
    assert_eq!(fixture.run().0, 0, "what was undone stays undone");
}

#[test]
fn a_mirror_that_was_deleted_is_made_again() {
    let fixture = pairs();
    fixture.pull();
    fixture.run();
    fixture.publish();
    let published = fixture.origin.records();
    for ending in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(fixture.folder.path().join(format!("mirror.db{ending}")));
    }
    assert_eq!(fixture.pull().live, 3);
    assert_eq!(fixture.run().0, 0);
    assert!(fixture.sync().units.is_empty());
    assert_eq!(fixture.origin.records(), published);
}

#[test]
fn a_publication_that_fails_at_any_write_is_finished_by_the_next() {
    let undisturbed = pairs();
    undisturbed.pull();
    undisturbed.run();
    undisturbed.publish();
    let (expected, writes) = (undisturbed.origin.records(), undisturbed.origin.state().writes);
    assert!(writes >= 4);
    for failing in 0..writes {
        let fixture = pairs();
        fixture.pull();
        fixture.run();
        fixture.origin.state().writes_left = Some(failing);
        assert!(fixture.with(|mirror| mirror.publish()).is_err());
        fixture.origin.state().writes_left = None;
        let pulled = fixture.pull();
        assert!(pulled.is_unfinished && pulled.undone.is_empty(), "{failing}");
        fixture.sync();
        assert_eq!(fixture.origin.records(), expected, "write {failing}");
        assert!(fixture.sync().units.is_empty());
        assert_eq!(fixture.run().0, 0);
    }
}

#[test]
fn an_undo_that_fails_at_any_write_is_finished_by_the_next() {
    let before = pairs().origin.records();
    for failing in 0..4 {
        let fixture = pairs();
        fixture.pull();
        let (_, run) = fixture.run();
        fixture.publish();
        assert!(fixture.undo(&run));
        fixture.origin.state().writes_left = Some(failing);
        assert!(fixture.with(|mirror| mirror.publish()).is_err());
        fixture.origin.state().writes_left = None;
        fixture.sync();
        assert_eq!(fixture.origin.records(), before, "write {failing}");
    }
}

#[test]
fn a_record_that_was_changed_meanwhile_keeps_its_unit_from_being_written() {
    let fixture = pairs();
    fixture.pull();
    fixture.run();
    fixture.origin.edit("a1", "The kiln is fired on Tuesdays.");
    let published = fixture.publish();
    assert_eq!((published.units.len(), published.conflicts.len()), (1, 1));
    assert_eq!(published.conflicts[0].1.id, "a1");
    assert_eq!(fixture.origin.live().len(), 4);
    // The mirror took the unit back and has the new text.
    assert!(fixture.sync().units.is_empty());
    fixture.origin.edit("a1", "The kiln is fired on Mondays.");
    fixture.pull();
    assert_eq!(fixture.run().0, 1, "it is planned anew");
    assert_eq!(fixture.publish().units.len(), 1);
    assert_eq!(fixture.origin.live().len(), 3);
}

#[test]
fn a_change_that_is_pulled_takes_unpublished_work_back() {
    let fixture = pairs();
    fixture.pull();
    fixture.run();
    fixture.origin.edit("b2", "Tea is ordered from the market hall.");
    let pulled = fixture.pull();
    assert_eq!(pulled.changed, 1);
    let published = fixture.publish();
    assert_eq!((published.units.len(), published.conflicts.len()), (1, 0));
    assert_eq!(fixture.origin.live().len(), 4);
    assert!(fixture.sync().units.is_empty());
}

/// A person changes a memory after the run and before its undo is published.
#[test]
fn an_undo_leaves_what_others_changed_since() {
    for edited in ["a1", "a2"] {
        let fixture = pairs();
        fixture.pull();
        let (_, run) = fixture.run();
        fixture.publish();
        assert!(fixture.undo(&run));
        fixture.origin.edit(edited, "The kiln is fired on Tuesdays.");
        let published = fixture.publish();
        assert_eq!((published.units.len(), published.conflicts.len()), (1, 1), "{edited}");
        assert_eq!(published.conflicts[0].1.id, edited);
        // The changes that the undo restored beside it follow; then both sides agree.
        fixture.sync();
        assert!(fixture.sync().units.is_empty(), "{edited}");
        let records = fixture.origin.records();
        let found = records.iter().find(|record| record.id == edited).unwrap();
        assert_eq!(found.text, "The kiln is fired on Tuesdays.");
        assert_eq!(records.len(), PAIRS.len());
    }
}

#[test]
fn the_mirror_of_another_origin_is_refused() {
    let fixture = pairs();
    fixture.pull();
    let other = tempfile::tempdir().unwrap();
    let path = fixture.path();
    let options = MirrorOptions {
        path: &path,
        place: other.path(),
        session: session(),
        now: Instant::parse(AT, &TimeZone::UTC).unwrap(),
        time_zone: &TimeZone::UTC,
    };
    let refused = Mirror::open(&fixture.origin, options).err().unwrap();
    assert!(matches!(refused, MirrorError::AnotherStore { .. }), "{refused}");
}

#[test]
fn a_second_process_waits_and_is_then_refused() {
    let fixture = pairs();
    fixture.with(|_held| {
        let path = fixture.path();
        let options = MirrorOptions {
            path: &path,
            place: fixture.folder.path(),
            session: SessionOptions { busy_timeout: Duration::from_millis(30), ..session() },
            now: Instant::parse(AT, &TimeZone::UTC).unwrap(),
            time_zone: &TimeZone::UTC,
        };
        assert!(Mirror::open(&fixture.origin, options).err().unwrap().is_locked());
    });
}

/// Opening a store of another kind as a brain.db failed with the message that the file is no
/// SQLite.
#[test]
fn a_store_that_needs_a_mirror_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.jsonl");
    std::fs::write(&path, "{\"type\":\"entity\",\"name\":\"A\",\"observations\":[\"a\"]}\n")
        .unwrap();
    let refused = Memfold::open(&path).err().unwrap();
    assert!(refused.to_string().contains("is a store of kind mcp_memory"), "{refused}");
    assert!(refused.hint().unwrap().contains("memory.jsonl.mirror.db"));
}

/// An event in a store between two syncs.
#[derive(Debug, Clone)]
enum Event {
    Add(usize),
    Edit(usize, usize),
    Delete(usize),
    Run,
    UndoLast,
    Sync,
    /// A publication that fails at its n-th write.
    Fail(u32),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        (0..6_usize).prop_map(Event::Add),
        (0..12_usize, 0..6_usize).prop_map(|(at, text)| Event::Edit(at, text)),
        (0..12_usize).prop_map(Event::Delete),
        Just(Event::Run),
        Just(Event::Run),
        Just(Event::UndoLast),
        Just(Event::Sync),
        (0..4_u32).prop_map(Event::Fail),
    ];
    proptest::collection::vec(event, 1..14)
}

const TEXTS: [&str; 6] = [
    "The kiln is fired on Mondays.",
    "Tea is ordered from the harbour shop.",
    "The gate code is written in the blue book.",
    "Invoices are sent to the office in Bern.",
    "The cellar pump was replaced in March.",
    "Birds nest under the northern roof.",
];

fn happen(fixture: &Fixture, event: &Event, added: &mut usize, runs: &mut Vec<String>) {
    match *event {
        Event::Add(text) => {
            *added += 1;
            fixture.origin.state().records.push(record(&format!("r{added}"), TEXTS[text]));
        }
        Event::Edit(at, text) => {
            let live = fixture.origin.live();
            if let Some(id) = live.get(at % live.len().max(1)) {
                fixture.origin.edit(id, TEXTS[text]);
            }
        }
        Event::Delete(at) => {
            let mut state = fixture.origin.state();
            let count = state.records.len();
            if count > 0 {
                state.records.remove(at % count);
            }
        }
        Event::Run => {
            fixture.pull();
            let (changes, run) = fixture.run();
            runs.extend((changes > 0).then_some(run));
        }
        Event::UndoLast => {
            if let Some(run) = runs.pop() {
                fixture.undo(&run);
            }
        }
        Event::Sync => {
            fixture.sync();
        }
        Event::Fail(writes) => {
            fixture.origin.state().writes_left = Some(writes);
            let _ = fixture.with(|mirror| mirror.publish());
            fixture.origin.state().writes_left = None;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    /// After any events on both sides: after a sync both have the same live memories, and a second
    /// one finds nothing to do.
    #[test]
    fn both_sides_agree_after_a_sync(events in events()) {
        let fixture = Fixture::new(InMemory::with(&PAIRS));
        fixture.pull();
        let (mut added, mut runs) = (0, Vec::new());
        for event in &events {
            happen(&fixture, event, &mut added, &mut runs);
        }
        fixture.sync();
        prop_assert!(fixture.sync().units.is_empty());
        let mut live: Vec<(String, String)> = fixture.origin.records().into_iter()
            .filter(|record| record.status == OriginStatus::Live)
            .map(|record| (record.id, record.text)).collect();
        live.sort();
        let session = Session::open_beside_runs(&fixture.path(), &session()).unwrap();
        let memories = session.read(|reads| reads.mirror_memories()).unwrap();
        let mirrored: Vec<(String, String)> = memories.into_iter()
            .filter(|(_, memory)| memory.state.status == OriginStatus::Live)
            .map(|(id, memory)| (id, memory.content)).collect();
        prop_assert_eq!(mirrored, live);
    }
}
