//! Plans: files, and rows of a store.

use std::cell::RefCell;
use std::time::Duration;

use memfold::execute::{Selection, preview};
use memfold_core::plan::{Plan, SavedPlan, plan_digest, plan_id};
use memfold_core::report::read_plan;
use memfold_store::BrainDb;
use memfold_store::brain_db::{OpenOptions, Session, SessionOptions};
use rusqlite::Connection;
use tempfile::TempDir;

use super::Changes;
use super::files::{folder, with_file};
use crate::{NOW, Run, StoreStyle, brain_db, memory, unit_vector};

const WORDS: &str = "\
    schema_version store_id config_hash engine_version now overrides actions base_digests type \
    merge promote archive flag_contradiction noop targetIds canonicalId newContent \
    newCategories newImportance risk identical trivial reworded rationale ruleId reasons \
    evidence similarity score null true {} [] \"\" , : m000000 m000001 m000002 m999999 1e999 \
    \\ud800 \\u0000 proposed applied";

/// A store and its plan, saved.
struct Fixture {
    _place: TempDir,
    store: BrainDb,
    owner: Connection,
    plan: Vec<u8>,
    /// The cells of a saved plan: table, column and value.
    cells: Vec<(&'static str, &'static str, Option<String>)>,
}

/// Cells that hold JSON or names.
const CELLS: [(&str, &str); 8] = [
    ("memfold_plans", "overrides"),
    ("memfold_plans", "now"),
    ("memfold_plans", "schema_version"),
    ("memfold_actions", "body"),
    ("memfold_actions", "amended"),
    ("memfold_actions", "base_digests"),
    ("memfold_actions", "state"),
    ("memfold_actions", "access_count"),
];

impl Fixture {
    fn new() -> Self {
        let dir = folder();
        let path = dir.path().join("brain.db");
        let kiln = "The kiln is fired on Mondays.";
        let rows = [(kiln, 0), (kiln, 0), ("Tea comes on Friday.", 1), (kiln, 0)];
        let row = |(number, (text, axis)): (usize, (&str, usize))| {
            memory(number, text, &unit_vector(16, axis))
        };
        let rows: Vec<_> = rows.into_iter().enumerate().map(row).collect();
        brain_db(&path, &rows, StoreStyle::Plain);
        let store = BrainDb::open(&path, OpenOptions::default()).expect("it is a store");
        let outcome = Run::builtin().plan(&store);
        assert!(outcome.plan.changes() > 0);
        let options =
            SessionOptions { busy_timeout: Duration::from_secs(5), holder: "fuzz 1".to_owned() };
        let session = Session::open(&path, &options).expect("the store can be written");
        session
            .save_plan(&outcome.plan, &outcome.access_counts, NOW)
            .expect("the store can be written");
        drop(session);
        let owner = Connection::open(&path).expect("it is a store");
        owner.execute_batch("PRAGMA synchronous = off").expect("it is a store");
        let cell = |(table, column)| {
            let sql = format!("SELECT CAST({column} AS TEXT) FROM {table} LIMIT 1");
            let value = owner.query_row(&sql, [], |row| row.get(0)).expect("the plan was saved");
            (table, column, value)
        };
        let cells = CELLS.map(cell).to_vec();
        let plan = serde_json::to_vec_pretty(&outcome.plan).expect("a plan is JSON");
        Self { _place: dir, store, owner, plan, cells }
    }

    /// Previews the plan as a dry run does.
    fn look_at(&self, saved: &SavedPlan) {
        let _ = preview(&self.store, saved, &Selection::default());
        for action in &saved.actions {
            assert!(!action.label().is_empty());
        }
    }

    fn set(&self, table: &str, column: &str, value: &dyn rusqlite::ToSql) {
        let sql = format!("UPDATE {table} SET {column} = ?1");
        // A column may refuse a value.
        let _ = self.owner.prepare_cached(&sql).and_then(|mut update| update.execute([value]));
    }
}

fn with_fixture(run: impl FnOnce(&Fixture)) {
    thread_local! {
        static FIXTURE: RefCell<Option<Fixture>> = const { RefCell::new(None) };
    }
    FIXTURE.with_borrow_mut(|fixture| run(fixture.get_or_insert_with(Fixture::new)));
}

/// Takes a plan file.
pub(super) fn file(bytes: &[u8]) {
    with_fixture(|fixture| {
        let mut changes = Changes::new(bytes);
        let mut text = fixture.plan.clone();
        if changes.below(8) == 0 {
            text = changes.rest().to_vec();
        } else {
            changes.apply_to_text(&mut text, WORDS);
        }
        with_file("fuzzed.json", &text, |path| {
            let Ok(plan) = read_plan(path) else { return };
            round(&plan);
            fixture.look_at(&SavedPlan::proposed(plan));
        });
    });
}

/// A written plan is read back unchanged.
fn round(plan: &Plan) {
    let json = serde_json::to_string(plan).expect("a plan is JSON");
    let again: Plan = serde_json::from_str(&json).expect("it was a plan");
    assert_eq!((plan_id(&again), plan_digest(&again)), (plan_id(plan), plan_digest(plan)));
}

/// Takes a saved plan, of which a cell is changed.
pub(super) fn saved(bytes: &[u8]) {
    with_fixture(|fixture| {
        let mut changes = Changes::new(bytes);
        let (table, column, intact) = &fixture.cells[changes.below(CELLS.len())];
        let mut text = intact.clone().unwrap_or_else(|| "{}".to_owned()).into_bytes();
        let kind = changes.below(8);
        match kind {
            0 => text = changes.rest().to_vec(),
            _ => changes.apply_to_text(&mut text, WORDS),
        }
        let value: &dyn rusqlite::ToSql = match String::from_utf8(text) {
            Ok(text) => &text.clone(),
            Err(error) => &error.into_bytes(),
        };
        fixture.set(table, column, value);
        let _ = fixture.store.plans();
        if let Ok(saved) = fixture.store.plan("latest") {
            fixture.look_at(&saved);
        }
        fixture.set(table, column, intact);
    });
}
