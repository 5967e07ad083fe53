//! Ten years of nights: memories fade, what a person pinned does not, and no tier flaps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::tz::TimeZone;
use memfold::lifecycle::Tiers;
use memfold_core::lifecycle::{RetentionPolicy, Tier, TierReason};
use memfold_core::memory::MemoryId;
use memfold_core::policy::Policy;
use memfold_core::time::Instant;
use memfold_index::NoProgress;
use memfold_store::LoadRequest;
use memfold_store::brain_db::{AssignedTier, Session, SessionOptions};
use memfold_tests::Desk;

const DAY: i64 = 86_400_000_000;
const NIGHTS: i64 = 3_653;
/// The night after which memories are read or superseded.
const READ_AFTER: i64 = 400;
/// Each so manieth memory is read or superseded.
const EVERY: i64 = 20;

/// The tiers at the desk's time after some nights.
fn tiers(desk: &Desk, nights: i64, retention: &RetentionPolicy) -> Tiers {
    let now = Instant(desk.now().0 + nights * DAY);
    let load = LoadRequest { time_zone: &TimeZone::UTC, now, progress: &NoProgress };
    Tiers::of(&desk.store(), &load, &Policy::builtin(), retention).unwrap()
}

fn session(desk: &Desk) -> Session {
    let options = SessionOptions { busy_timeout: Duration::from_secs(5), holder: "desk 1".into() };
    Session::open_beside_runs(desk.path(), &options).unwrap()
}

fn keep(desk: &Desk, tiers: &Tiers) {
    tiers.keep(&session(desk), &desk.at()).unwrap();
}

/// Reads some memories and supersedes others, as the owner and a run of ours would.
fn read_some(desk: &Desk) -> BTreeSet<MemoryId> {
    let read = format!("rowid % {EVERY} = 1");
    desk.sql(&format!("UPDATE stm SET access_count = access_count + 15 WHERE {read}"));
    desk.sql(&format!(
        "INSERT INTO memfold_edges(source_id, target_id, type, weight, confidence, run_id, unit, at, active)
         SELECT 'newer', id, 'supersedes', 1.0, 'high', 'r', 0, '2027-07-01T00:00:00', 1
         FROM stm WHERE typeof(id) = 'text' AND rowid % {EVERY} = 2"
    ));
    let ids =
        desk.ask::<String>(&format!("SELECT id FROM stm WHERE typeof(id) = 'text' AND {read}"));
    ids.into_iter().map(MemoryId::new).collect()
}

#[test]
fn memories_fade_once_and_pins_stay() {
    let (desk, _) = Desk::wild(300, 11);
    let owners = desk.image();
    let retention = RetentionPolicy::default();
    let mut last: BTreeMap<MemoryId, Tier> = BTreeMap::new();
    let mut read = BTreeSet::new();
    let mut first = None;
    let mut changes: BTreeMap<MemoryId, usize> = BTreeMap::new();
    for night in 0..NIGHTS {
        let found = tiers(&desk, night, &retention);
        let _ = first.get_or_insert(found.counts());
        for change in &found.transitions {
            assert_eq!(change.from, last.get(&change.id).copied(), "night {night}: {change}");
            let may_rise = night == READ_AFTER + 1 && read.contains(&change.id);
            assert!(
                may_rise || change.from.is_none_or(|from| change.to.tier < from),
                "night {night}: {change}"
            );
            *changes.entry(change.id.clone()).or_default() += 1;
            last.insert(change.id.clone(), change.to.tier);
        }
        for (id, assigned) in &found.assignments {
            let is_pinned = assigned.reasons.contains(&TierReason::Pinned);
            assert!(!is_pinned || assigned.tier == Tier::Warm, "night {night}: {}", id.as_str());
        }
        if !(found.transitions.is_empty() && found.gone.is_empty()) {
            keep(&desk, &found);
        }
        if night == 0 {
            assert_eq!(diff_of(&desk, &owners), [""; 0], "no row of the owner changes");
        }
        if night == READ_AFTER {
            read = read_some(&desk);
        }
    }
    assert!(read.len() > 5 && last.len() > 200, "{} {}", read.len(), last.len());
    // First seen, then at most HOT, WARM, COLD, ARCHIVED one after the other, and one rise.
    assert!(changes.values().all(|count| *count <= 6), "{changes:?}");
    let important =
        desk.ask::<String>("SELECT id FROM stm WHERE typeof(id) = 'text' AND importance >= 3.0");
    let important = important.into_iter().map(MemoryId::new);
    let low: Vec<_> =
        important.filter(|id| last.get(id).is_some_and(|tier| *tier < Tier::Warm)).collect();
    assert_eq!(low, []);
    // HOT stays what is important and often read, or what has no readable age.
    let (first, counts) = (first.unwrap(), tiers(&desk, NIGHTS, &retention).counts());
    assert!(counts.hot < first.hot && counts.cold > first.cold, "{first:?} {counts:?}");
    assert!(first.archived == 0 && counts.archived > 0, "{first:?} {counts:?}");
}

fn diff_of(desk: &Desk, before: &memfold_tests::StoreImage) -> Vec<String> {
    memfold_tests::diff(before, &desk.image())
}

#[test]
fn earlier_tiers_stay_known() {
    let (desk, _) = Desk::wild(20, 3);
    let (session, id) = (session(&desk), MemoryId::new("m1"));
    let stored = || desk.store().stored_tier(&id).unwrap();
    let assign = |day: usize, tier| {
        let assigned =
            AssignedTier { memory_id: id.clone(), tier, retention: 0.5, reasons: "[]".to_owned() };
        session.keep_tiers(&[assigned], &[], &format!("day {day}")).unwrap();
    };
    assert_eq!(stored(), None);
    for day in 0..40 {
        assign(day, if day % 2 == 0 { "hot" } else { "warm" });
    }
    let found = stored().unwrap();
    assert_eq!((&*found.tier, &*found.at), ("warm", "day 39"));
    let expected: Vec<(String, String)> = (7..39)
        .map(|day| (if day % 2 == 0 { "hot" } else { "warm" }.to_owned(), format!("day {day}")))
        .collect();
    assert_eq!(found.earlier, expected);
    assign(40, "warm");
    let again = stored().unwrap();
    assert_eq!((again.earlier, &*again.at), (expected, "day 39"), "the same tier is no change");
}
