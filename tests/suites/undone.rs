//! A run can be undone: exactly, unit by unit, or not at all and with the reason.

use std::collections::{BTreeMap, BTreeSet};

use memfold::execute::{ExecuteError, UndoTarget};
use memfold_core::plan::{ActionType, action_label};
use memfold_core::runs::RunState;
use memfold_store::journal::RevertOptions;
use memfold_tests::{
    Draws, StoreStyle, TestStore, assert_same, created_at, daemon_memory, diff, merges,
    sample_rows, wild_store_with_journal,
};
use rusqlite::types::Value;

/// Stores of all habits, small enough to be run on many times.
fn stores() -> Vec<TestStore> {
    vec![
        TestStore::of(&sample_rows(), StoreStyle::Plain),
        TestStore::of(&sample_rows(), StoreStyle::Wild),
        TestStore::wild(120, 9).0,
        TestStore::made(|path| wild_store_with_journal(path, 80, 4)).0,
    ]
}

const WAYS: [&str; 4] =
    ["merge.absorbed=archive", "merge.absorbed=move", "flags.write_to=table", "flags.write_to=stm"];

#[test]
fn undo_restores_every_bit() {
    for (merged, flags) in [(0, 2), (1, 3)] {
        for db in stores() {
            let db = db.set(WAYS[merged]).set(WAYS[flags]);
            let before = db.image();
            let run = db.complete_run().run_id().to_owned();
            let executed = db.image();
            assert_ne!(diff(&before, &executed), Vec::<String>::new());
            let undo = db.undo_all(&run);
            assert_same(&before, &db.image());
            let _ = db.undo_all(&undo);
            assert_same(&executed, &db.image());
            db.assert_sound();
        }
    }
}

/// Stores that earlier versions merged: one with an archive in JSON, and one with a journal entry
/// for each lineage.
#[test]
fn a_store_merged_by_an_earlier_version_is_undone_to_the_bit() {
    let made = |sql: &'static str| {
        TestStore::made(|path| {
            let connection = rusqlite::Connection::open(path).unwrap();
            connection.execute_batch(sql).unwrap();
        })
        .0
    };
    let before = made(include_str!("../data/before_version_10.sql")).image();
    for merged in [
        include_str!("../data/merged_by_version_10.sql"),
        include_str!("../data/merged_by_version_11.sql"),
    ] {
        let db = made(merged);
        let executed = db.image();
        let run =
            db.ask::<String>("SELECT run_id FROM memfold_runs WHERE kind = 'execute'").remove(0);
        let undo = db.undo_all(&run);
        assert_same(&before, &db.image());
        let _ = db.undo_all(&undo);
        assert_same(&executed, &db.image());
        let forms: Vec<i64> = db.ask("SELECT DISTINCT shape IS NULL FROM memfold_archive");
        assert_eq!(forms, [0], "what moves again is kept as columns");
    }
}

/// After an undo the next plan was empty, without an explanation.
#[test]
fn the_next_plan_says_what_an_undo_keeps_apart() {
    let db = two_pairs();
    let _ = db.undo_all(db.complete_run().run_id());
    let planned = db.plan();
    assert_eq!(merges(&planned.plan), Vec::<Vec<&str>>::new());
    let notes = planned.report.notes.join("\n");
    assert!(notes.contains("4 memories are kept apart because their merge was undone"), "{notes}");
}

#[test]
fn action_by_action_leads_back_as_well() {
    let db = TestStore::of(&sample_rows(), StoreStyle::Wild);
    let before = db.image();
    let applied = db.complete_run();
    let actions = &applied.outcome.plan.actions;
    for (position, action) in actions.iter().enumerate() {
        let run_id = Some(applied.run_id().to_owned());
        let target = UndoTarget::Action { run_id, label: action_label(position) };
        match db.try_undo(&target) {
            Ok(undo) => assert_eq!(undo.state, RunState::Done, "{:?}", undo.outcomes),
            Err(ExecuteError::Undone { .. }) => assert_ne!(action.action, ActionType::Merge),
            Err(ExecuteError::Unknown { .. }) => assert!(!action.action.is_change()),
            Err(error) => panic!("{error}"),
        }
    }
    assert_same(&before, &db.image());
}

/// Counts a read of every memory.
fn bump(db: &TestStore) {
    db.sql("UPDATE stm SET access_count = coalesce(access_count, 0) + 1, updated_at = '2026-07-01T00:00:00'");
    if db.image().has_column("last_accessed") {
        db.sql("UPDATE stm SET last_accessed = 1790000000");
    }
}

#[test]
fn accesses_do_not_conflict_with_undo() {
    for style in [StoreStyle::Plain, StoreStyle::Wild] {
        let db = TestStore::of(&sample_rows(), style).set(WAYS[0]);
        let counts = |db: &TestStore| {
            db.ask::<i64>("SELECT coalesce(access_count, 0) FROM stm ORDER BY rowid")
        };
        let before = counts(&db);
        let outcome = db.plan();
        bump(&db);
        let execution = db.try_apply(&outcome).unwrap();
        assert_eq!(execution.state, RunState::Done, "{:?}", execution.executed);
        bump(&db);
        let _ = db.undo_all(&execution.run_id);
        let expected: Vec<i64> = before.iter().map(|count| count + 2).collect();
        assert_eq!(counts(&db), expected);
        let untouched = TestStore::of(&sample_rows(), style);
        for db in [&db, &untouched] {
            bump(db);
            db.sql("UPDATE stm SET access_count = 0");
        }
        assert_same(&untouched.image(), &db.image());
    }
}

const KILN: &str = "The kiln is fired on Mondays.";
const TEA: &str = "Tea is ordered from the harbour shop.";

/// Two memories that say one thing and two that say another.
fn two_pairs() -> TestStore {
    let rows = [
        daemon_memory(0, KILN, 0),
        daemon_memory(1, KILN, 0),
        daemon_memory(2, TEA, 1),
        daemon_memory(3, TEA, 1),
    ];
    TestStore::of(&rows, StoreStyle::Plain).set(WAYS[0])
}

/// Changes a text as its owner does, who embeds it again.
fn edit(db: &TestStore, id: &str, text: &str) {
    let owner = db.owner();
    for sql in [
        "INSERT INTO stm_fts (stm_fts, rowid, content) SELECT 'delete', rowid, content FROM stm WHERE id = ?1 AND ?2 <> ''",
        "UPDATE stm SET content = ?2 WHERE id = ?1",
        "INSERT INTO stm_fts (rowid, content) SELECT rowid, content FROM stm WHERE id = ?1 AND ?2 <> ''",
        "UPDATE embeddings SET content = ?2 WHERE source_id = ?1",
    ] {
        owner.execute(sql, [id, text]).unwrap();
    }
}

#[test]
fn undo_refuses_units_a_later_run_built_on() {
    for merged in &WAYS[..2] {
        let (mut db, plain) = (two_pairs().set(*merged), two_pairs());
        let first = db.complete_run().run_id().to_owned();
        db.later(1);
        for db in [&db, &plain] {
            db.save(&daemon_memory(9, KILN, 0));
        }
        let second = db.complete_run().run_id().to_owned();
        let both = db.image();
        db.later(1);
        let refused = db.undo_run(&first);
        // The other pair goes back; rows that the second run built on stay.
        assert_eq!(
            (refused.state, refused.executed.applied, refused.executed.stale),
            (RunState::Partial, 1, 1)
        );
        let told: Vec<_> = refused.outcomes.iter().flat_map(|outcome| &outcome.conflicts).collect();
        assert_eq!(told, [&format!("a later run built on it: undo {second} first")]);
        let _ = db.undo_all(&refused.run_id);
        assert_same(&both, &db.image());
        let _ = db.undo_all(&second);
        let _ = db.undo_all(&first);
        assert_same(&plain.image(), &db.image());
    }
}

#[test]
fn an_edited_column_is_a_conflict_unless_forced() {
    let (mut db, plain) = (two_pairs(), two_pairs());
    let run = db.complete_run().run_id().to_owned();
    db.sql("UPDATE stm SET categories = '[\"mine\"]' WHERE id = 'm000000'");
    let left = db.undo_run(&run);
    let conflicts: Vec<_> = left.outcomes.iter().filter(|o| !o.conflicts.is_empty()).collect();
    assert_eq!(conflicts.len(), 1);
    assert_eq!(conflicts[0].conflicts, ["categories of m000000 was changed since"]);
    assert_eq!(conflicts[0].remedies, ["--force"]);
    // The whole unit stays: the survivor's source still names the memories merged into it.
    let Value::Text(source) = db.cell("m000001", "source") else { panic!() };
    assert!(source.starts_with("consolidation:"), "{source}");
    db.revert_with(RevertOptions { force: true, recreate: false });
    let _ = db.undo_all(&run);
    assert_same(&plain.image(), &db.image());
}

#[test]
fn a_deleted_row_is_a_conflict_unless_recreated() {
    let (mut db, plain) = (two_pairs(), two_pairs());
    let run = db.complete_run().run_id().to_owned();
    let delete =
        "INSERT INTO stm_fts (stm_fts, rowid, content) SELECT 'delete', rowid, content FROM stm
                      WHERE id = 'm000000' AND rowid IN (SELECT id FROM stm_fts_docsize);
                  DELETE FROM stm WHERE id = 'm000000';";
    db.sql(delete);
    let left = db.undo_run(&run);
    assert_eq!((left.executed.applied, left.executed.stale), (1, 1));
    assert!(left.outcomes.iter().any(|o| o.remedies == ["--recreate"]), "{:?}", left.outcomes);
    db.revert_with(RevertOptions { force: false, recreate: true });
    let _ = db.undo_all(&run);
    assert_same(&plain.image(), &db.image());
}

/// The values that a run may change, by memory.
fn values(db: &TestStore) -> BTreeMap<String, String> {
    let ids = db.ask::<String>("SELECT id FROM stm ORDER BY id");
    let sql = "SELECT quote(categories) || quote(importance) || quote(source) || quote(expires_at) FROM stm ORDER BY id";
    ids.into_iter().zip(db.ask::<String>(sql)).collect()
}

/// An agent's day: repeats known statements, edits, deletes, reads.
fn day(db: &TestStore, number: usize, draws: &mut Draws) {
    let live =
        db.ask::<String>("SELECT id FROM stm WHERE source NOT LIKE 'archived:%' ORDER BY id");
    for copy in 0..4 {
        let id = draws.pick(&live.iter().map(String::as_str).collect::<Vec<_>>()).to_owned();
        let sql = format!(
            "INSERT INTO stm (id, content, categories, created_at, source)
               SELECT 'day-{number}-{copy}', content, '[\"general\"]', '{}', 'daemon' FROM stm WHERE id = '{id}';
             INSERT INTO stm_fts (rowid, content) SELECT rowid, content FROM stm WHERE id = 'day-{number}-{copy}';
             INSERT INTO embeddings (id, source_type, source_id, embedding, model, created_at)
               SELECT 'emb-{number}-{copy}', 'stm', 'day-{number}-{copy}', embedding, model, created_at
               FROM embeddings WHERE source_id = '{id}';",
            created_at(176 * 86_400 + number * 86_400 + copy)
        );
        db.sql(&sql);
    }
    let all = db.ask::<String>("SELECT id FROM stm WHERE id NOT LIKE 'day-%' ORDER BY id");
    let pick = |draws: &mut Draws| all[draws.below(all.len() as u64) as usize].clone();
    edit(db, &pick(draws), &format!("On day {number} something else was written here."));
    db.sql(&format!("UPDATE stm SET access_count = access_count + 1 WHERE id = '{}'", pick(draws)));
}

#[test]
fn late_undo_takes_units_back_whole_or_not_at_all() {
    for (seed, merged) in [(1, 0), (2, 1)] {
        let mut db = TestStore::of(&sample_rows(), StoreStyle::Plain).set(WAYS[merged]);
        let mut draws = Draws::new(seed);
        let before = values(&db);
        let first = db.complete_run().run_id().to_owned();
        let ids_before: BTreeSet<String> = before.keys().cloned().collect();
        for number in 0..14 {
            db.later(1);
            day(&db, number, &mut draws);
            if number % 4 != 3 {
                let _ = db.nightly_run();
            }
        }
        let later = values(&db);
        let expected = db.preview_undo(&UndoTarget::Run(first.clone()));
        let undo = db.undo_run(&first);
        assert_eq!(undo.outcomes, expected);
        let now = values(&db);
        assert!(undo.executed.applied > 0 && undo.executed.failed == 0, "{:?}", undo.executed);
        // Flags change no memory.
        for outcome in undo.outcomes.iter().filter(|outcome| !outcome.what.contains("flag")) {
            let is_back = outcome.conflicts.is_empty();
            for id in outcome.ids.iter().map(|id| id.as_str()).filter(|id| ids_before.contains(*id))
            {
                let expected = if is_back { before.get(id) } else { later.get(id) };
                assert_eq!(now.get(id), expected, "{id}: {outcome:?}");
            }
        }
        db.assert_sound();
        let _ = db.undo_all(&undo.run_id);
        assert_eq!(values(&db), later);
    }
}

#[test]
fn a_place_that_was_taken_and_a_row_that_was_lost_are_conflicts() {
    let db = two_pairs().set(WAYS[1]);
    let run = db.complete_run().run_id().to_owned();
    db.save(&daemon_memory(0, "Somebody else took this name.", 4));
    db.sql("DELETE FROM memfold_archive WHERE memory_id = 'm000002'");
    let before = db.image();
    let undo = db.undo_run(&run);
    let told: Vec<&str> =
        undo.outcomes.iter().flat_map(|outcome| &outcome.conflicts).map(String::as_str).collect();
    let expected = [
        "another memory has taken the id m000000 since",
        "m000002 is no longer in memfold_archive",
    ];
    assert_eq!(told, expected);
    assert_same(&before, &db.image());
}

/// Owners that do not enforce foreign keys delete messages that memories came from.
#[test]
fn a_moved_row_comes_back_though_what_it_refers_to_is_gone() {
    let db = two_pairs().set(WAYS[1]);
    db.sql("PRAGMA foreign_keys = OFF; UPDATE stm SET source_message_id = 'gone'");
    let before = db.image();
    let run = db.complete_run().run_id().to_owned();
    let _ = db.undo_all(&run);
    assert_same(&before, &db.image());
}
