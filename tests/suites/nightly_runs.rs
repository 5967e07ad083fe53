//! Runs of many nights: finished work stays finished, and only age and use bring new work.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use memfold_core::memory::MemoryId;
use memfold_core::plan::{Action, ActionType};
use memfold_core::time::Instant;
use memfold_tests::{
    PlainMemory, StoreStyle, TestStore, created_at, memory, sample_rows, unit_vector,
};
use serde_json::Value;

const DAY: i64 = 86_400_000_000;

/// Ages at which rules and protection reconsider a memory.
const TURNING_POINTS: [i64; 2] = [DAY, 30 * DAY];

/// The sample in both styles, with every way to write.
fn stores() -> Vec<TestStore> {
    vec![
        TestStore::of(&sample_rows(), StoreStyle::Plain).set("merge.absorbed=archive"),
        TestStore::of(&sample_rows(), StoreStyle::Plain).set("merge.absorbed=move"),
        TestStore::of(&sample_rows(), StoreStyle::Wild).set("flags.write_to=stm"),
    ]
}

fn changes(actions: &[Action]) -> Vec<&Action> {
    actions.iter().filter(|action| action.action.is_change()).collect()
}

/// When each memory of a store was made, as far as it can be read.
fn births(db: &TestStore) -> BTreeMap<String, i64> {
    let readable = "FROM stm WHERE id GLOB '[a-z]*' AND typeof(created_at) = 'text' ORDER BY rowid";
    let ids: Vec<Vec<u8>> = db.ask(&format!("SELECT CAST(id AS BLOB) {readable}"));
    let times: Vec<String> = db.ask(&format!("SELECT created_at {readable}"));
    let born = |(id, time): (Vec<u8>, String)| {
        Some((String::from_utf8(id).ok()?, Instant::parse(&time, &TimeZone::UTC)?.0))
    };
    ids.into_iter().zip(times).filter_map(born).collect()
}

#[test]
fn in_thirty_nights_only_age_brings_new_work() {
    for mut db in stores() {
        let births = births(&db);
        let mut done: BTreeSet<(ActionType, MemoryId)> = BTreeSet::new();
        let mut late = 0;
        for number in 0..30 {
            let applied = db.nightly_run();
            let executed =
                applied.execution.map(|execution| execution.executed).unwrap_or_default();
            assert_eq!((executed.stale, executed.failed), (0, 0), "night {number}");
            for action in changes(&applied.outcome.plan.actions) {
                let ids = &action.target_ids;
                let came_of_age = |id: &MemoryId| {
                    births.get(id.as_str()).is_some_and(|born| {
                        let age = db.now().0 - born;
                        TURNING_POINTS.iter().any(|point| (*point..point + DAY).contains(&age))
                    })
                };
                late += i32::from(number > 0);
                assert!(number == 0 || ids.iter().any(came_of_age), "night {number}: {action:?}");
                let changed = match action.action {
                    ActionType::Merge => action.merged_ids(),
                    _ => &ids[..1],
                };
                for id in
                    changed.iter().filter(|_| ids.len() != 2 || action.action == ActionType::Merge)
                {
                    let is_new = done.insert((action.action, id.clone()));
                    assert!(is_new, "night {number}: {id} again: {action:?}");
                }
            }
            db.later(1);
        }
        assert!(late > 0, "nothing came of age");
        db.assert_sound();
    }
}

fn procedure(access_count: i64, importance: f64) -> PlainMemory {
    PlainMemory {
        categories: vec!["sop".to_owned()],
        importance,
        access_count,
        source: "daemon".to_owned(),
        ..memory(1, "Restart the relay before the new firmware is loaded.", &unit_vector(8, 0))
    }
}

#[test]
fn importance_rises_again_only_after_five_more_accesses() {
    let mut db = TestStore::of(&[procedure(6, 1.0)], StoreStyle::Plain);
    db.sql("UPDATE stm SET importance = 2.0");
    let mut seen = Vec::new();
    for bump in [0, 0, 0, 4, 0, 1, 0, 50, 0] {
        db.sql(&format!("UPDATE stm SET access_count = access_count + {bump}"));
        let _ = db.nightly_run();
        seen.extend(db.ask::<f64>("SELECT importance FROM stm"));
        db.later(1);
    }
    assert_eq!(seen, [2.5, 2.5, 2.5, 2.5, 2.5, 3.0, 3.0, 3.0, 3.0]);
}

/// A survivor's counter is the sum of the merged counters: that alone makes nothing more important.
#[test]
fn summed_accesses_promote_nothing() {
    let copy = |number: usize| PlainMemory {
        id: format!("copy-{number}"),
        created_at: created_at(number),
        ..procedure(3, 2.0)
    };
    let rows: Vec<PlainMemory> = (0..6).map(copy).collect();
    let mut db = TestStore::of(&rows, StoreStyle::Plain);
    for _ in 0..5 {
        let _ = db.nightly_run();
        db.later(1);
    }
    let live = "FROM stm WHERE source NOT LIKE 'archived:%'";
    assert_eq!(db.ask::<i64>(&format!("SELECT access_count {live}")), [18]);
    assert_eq!(db.ask::<f64>(&format!("SELECT importance {live}")), [2.0]);
}

const GENERATIONS: usize = 30;

/// Each night the same statement is saved once more, in a row into which the survivor of the night
/// before is merged.
#[test]
fn many_generations_leave_one_memory_with_its_lineage() {
    for merged in ["archive", "move"] {
        let text = "The harbour crane is greased every second Friday.";
        let first =
            PlainMemory { source: "root-0".to_owned(), ..memory(0, text, &unit_vector(8, 0)) };
        let mut db =
            TestStore::of(&[first], StoreStyle::Plain).set(format!("merge.absorbed={merged}"));
        for number in 1..=GENERATIONS {
            db.later(1);
            let born = Instant(db.now().0 - 2 * DAY).to_naive_local(&TimeZone::UTC);
            db.save(&PlainMemory {
                id: format!("copy-{number:03}"),
                created_at: born,
                access_count: 1,
                source: format!("root-{number}"),
                ..memory(0, text, &unit_vector(8, 0))
            });
            let _ = db.complete_run();
        }
        let live: Vec<String> = db.ask("SELECT id FROM stm WHERE source NOT LIKE 'archived:%'");
        assert_eq!(live, [format!("copy-{GENERATIONS:03}")]);
        let rusqlite::types::Value::Text(source) = db.cell(&live[0], "source") else { panic!() };
        let fields: Value = serde_json::from_str(&source["consolidation:".len()..]).unwrap();
        assert!(source.len() <= 4096, "{}", source.len());
        assert_eq!(fields["merged_count"], GENERATIONS);
        assert_eq!(fields["previous_source"], format!("root-{GENERATIONS}"));
        let (ids, access) =
            ("SELECT absorbed_id FROM memfold_lineage", db.cell(&live[0], "access_count"));
        assert_eq!(access, rusqlite::types::Value::Integer(GENERATIONS as i64));
        for id in db.ask::<String>(ids) {
            let resolved = db.store().resolve(&MemoryId::new(id), &TimeZone::UTC, db.now());
            assert_eq!(resolved.unwrap().live_id().map(MemoryId::as_str), Some(&*live[0]));
        }
        let explained =
            db.store().explain_memory(&MemoryId::new(&*live[0]), &TimeZone::UTC, db.now());
        // It shows twenty generations, and that there are more.
        assert_eq!(known(&explained.unwrap().merged), 21);
        db.assert_sound();
    }
}

/// How many memories a tree shows or counts.
fn known(branches: &memfold_core::lineage::Few<memfold_core::lineage::Branch>) -> u64 {
    let shown = branches.shown.iter().map(|branch| 1 + known(&branch.branches));
    branches.more + shown.sum::<u64>()
}
