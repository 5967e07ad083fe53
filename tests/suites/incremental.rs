//! A run over changed memories plans the same for them as a run over everything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use memfold::incremental::{ChangedRun, RowMarks, SearchedBy, targets};
use memfold::lookup::TierChoice;
use memfold_core::plan::{Action, ActionType, Plan};
use memfold_core::runs::RunState;
use memfold_index::file::FileMode;
use memfold_tests::{
    CONFIG_HASH, Draws, PlainEmbedding, PlainMemory, Run, StoreStyle, TestIndex, TestStore, memory,
    unit_vector,
};

use super::run_twice::{row, rows, settings, text};

/// A store with an index, and runs that leave their marks beside it.
struct Case {
    db: TestStore,
    folder: PathBuf,
    draws: Draws,
    count: usize,
    log: String,
    /// The memories that this test changed since the last run.
    touched: BTreeSet<String>,
}

/// Actions as they are compared: clusters are numbered anew in each run.
fn shown(action: &Action) -> String {
    let mut action = action.clone();
    action.rationale.evidence.cluster_id = None;
    serde_json::to_string(&action).unwrap()
}

fn names(plan: &Plan) -> BTreeSet<String> {
    plan.actions.iter().map(shown).collect()
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut draws = Draws::new(seed);
        let count = 8 + draws.below(50) as usize;
        let mut first: Vec<PlainMemory> = rows(&mut draws, count);
        // Another model, or a memory without a vector as wild stores have them, sends the run over everything.
        for row in &mut first {
            of_one_model(row);
        }
        let mut db = TestStore::of(&first, StoreStyle::Plain);
        let mut log = String::new();
        for setting in settings(&mut draws) {
            // Caps, linkages over whole components and rules about time need everything.
            let is_local =
                !["flags.", "R4-", "linkage", "write_to"].iter().any(|part| setting.contains(part));
            if is_local {
                log.push_str(&format!("--set {setting}\n"));
                db = db.set(setting);
            }
        }
        let folder = TestIndex::of(db.path()).folder().to_owned();
        Self { db, folder, draws, count, log, touched: BTreeSet::new() }
    }

    fn index(&self) {
        TestIndex::of(self.db.path()).build(TierChoice::Auto);
    }

    fn keep(&self, marks: RowMarks, run: &str, pending: &BTreeSet<memfold_core::memory::MemoryId>) {
        let run = SearchedBy::run(run, CONFIG_HASH);
        marks.keep(&self.folder, FileMode::from_bits(0o600), run, pending).unwrap();
    }

    /// A run over everything, applied whole or in part.
    fn whole_night(&mut self) {
        let marks = self.db.run().marks(&self.db.store());
        let outcome = self.db.plan();
        let limit = (self.draws.below(3) == 0).then_some(1);
        let execution =
            self.db.try_apply_some(&outcome, &memfold::execute::Selection::default(), limit);
        let execution = execution.unwrap();
        let is_whole = execution.state == RunState::Done && execution.remaining == 0;
        let pending = if is_whole { BTreeSet::new() } else { targets(&outcome.plan) };
        self.index();
        self.keep(marks, &execution.run_id, &pending);
        self.log.push_str(&format!("-- whole night, {} left\n", execution.remaining));
    }

    /// Edits of owners and people in a store.
    fn edit(&mut self) {
        self.touched.clear();
        for _ in 0..=self.draws.below(5) {
            let ids: Vec<String> =
                self.db.ask("SELECT id FROM stm WHERE id GLOB 'm[0-9]*' ORDER BY id");
            let id = ids[self.draws.below(ids.len() as u64) as usize].clone();
            let sql = match self.draws.below(8) {
                0..=3 => {
                    self.save();
                    continue;
                }
                4 => {
                    let text = text(self.draws.below(9) as usize, self.draws.below(5) as usize);
                    self.touched.insert(id.clone());
                    let text = text.replace('\'', "''");
                    format!(
                        "UPDATE stm SET content = '{text}' WHERE id = '{id}';
                         UPDATE OR REPLACE embeddings SET rowid = (SELECT max(rowid) + 1 FROM embeddings),
                             content = '{text}' WHERE source_id = '{id}'"
                    )
                }
                5 => {
                    self.touched.insert(id.clone());
                    format!(
                        "UPDATE stm SET importance = coalesce(importance, 1) + 0.01 WHERE id = '{id}'"
                    )
                }
                6 => format!("UPDATE stm SET access_count = access_count + 7 WHERE id = '{id}'"),
                _ => format!("DELETE FROM stm WHERE id = '{id}'"),
            };
            self.log.push_str(&format!("{sql}\n"));
            self.db.sql(&sql);
        }
    }

    /// Saves a new memory.
    fn save(&mut self) {
        let mut row = row(&mut self.draws, self.count, 0, 9);
        of_one_model(&mut row);
        row.source = "agent".to_owned();
        self.count += 1;
        self.log.push_str(&format!("save {row:?}\n"));
        self.db.save(&row);
        self.touched.insert(row.id);
    }

    /// Compares a run over changed memories with one over everything; returns how many actions were
    /// compared by type.
    fn compare(&mut self, done: &mut BTreeMap<&'static str, usize>) {
        let whole = self.db.plan().plan;
        let found = self.db.run().plan_changed(&self.db.store(), &self.folder);
        let ChangedRun::Done(outcome, marks) = found else {
            panic!("{}everything was searched: {found:?}", self.log);
        };
        let (all, part) = (names(&whole), names(&outcome.plan));
        let strange: Vec<_> = part.difference(&all).collect();
        assert!(strange.is_empty(), "{}not in the whole plan: {strange:#?}\n{all:#?}", self.log);
        let is_touched = |action: &&Action| {
            action.target_ids.iter().any(|id| self.touched.contains(id.as_str()))
        };
        for action in whole.actions.iter().filter(is_touched) {
            assert!(part.contains(&shown(action)), "{}missing: {action:#?}", self.log);
            *done.entry(action.action.name()).or_default() += 1;
        }
        let execution = (outcome.plan.changes() > 0).then(|| self.db.try_apply(&outcome).unwrap());
        let run = execution.map_or_else(|| outcome.report.run_id.clone(), |run| run.run_id);
        if self.draws.below(2) == 0 {
            self.index();
        }
        self.keep(marks, &run, &BTreeSet::new());
        self.log.push_str(&format!("-- {} changes over what changed\n", outcome.plan.changes()));
    }
}

fn of_one_model(row: &mut PlainMemory) {
    let own = row.embedding.take().filter(|embedding| embedding.vector.len() == 16);
    // A memory without a vector sends the run over everything, which is another test.
    let direction = row.id.bytes().map(usize::from).sum::<usize>() % 16;
    let any = || PlainEmbedding { model: None, vector: unit_vector(16, direction), content: None };
    let PlainEmbedding { vector, .. } = own.unwrap_or_else(any);
    row.embedding = Some(PlainEmbedding { model: Some("m".into()), vector, content: None });
}

#[test]
fn incremental_plan_equals_the_whole_plan() {
    let mut done = BTreeMap::new();
    for seed in 0..40 {
        let mut case = Case::new(seed);
        case.whole_night();
        for _ in 0..3 {
            case.edit();
            case.compare(&mut done);
        }
    }
    for (kind, least) in [
        ("merge", 10),
        ("flag_contradiction", 10),
        ("noop", 10),
        ("promote", 1),
        ("propose_merge", 1),
    ] {
        assert!(done.get(kind).is_some_and(|&count| count >= least), "{kind}: {done:?}");
    }
}

/// A store with an index and marks: memories that say different things, and further rows.
fn searched(further: impl FnOnce(&TestStore)) -> (TestStore, PathBuf) {
    let rows: Vec<_> = (0..8)
        .map(|n| memory(n, format!("Rack {n} stands in hall {}.", n + 40), &unit_vector(16, n)))
        .collect();
    let db = TestStore::of(&rows, StoreStyle::Plain);
    further(&db);
    let folder = TestIndex::of(db.path()).folder().to_owned();
    TestIndex::of(db.path()).build(TierChoice::Auto);
    let marks = db.run().marks(&db.store());
    let run = SearchedBy::run("first", CONFIG_HASH);
    marks.keep(&folder, FileMode::from_bits(0o600), run, &BTreeSet::new()).unwrap();
    (db, folder)
}

fn reason(run: &Run, db: &TestStore, folder: &Path) -> String {
    match run.plan_changed(&db.store(), folder) {
        ChangedRun::Whole(reason) => reason,
        ChangedRun::Done(outcome, _) => format!("done: {:?}", outcome.report.incremental),
    }
}

#[test]
fn unknown_changes_search_everything() {
    let (db, folder) = searched(|_| {});
    let run = db.run();
    assert!(reason(run, &db, &folder).contains("changed: 0, compared: 0"));
    assert!(reason(run, &db, &folder.join("none")).contains("no index"));

    let marks = folder.join(memfold_index::file::generations::SEARCHED_FILE);
    let bytes = std::fs::read(&marks).unwrap();
    for damaged in [&bytes[..bytes.len() / 2], &[][..], &[bytes.clone(), vec![0]].concat()] {
        std::fs::write(&marks, damaged).unwrap();
        assert!(!reason(run, &db, &folder).starts_with("done"), "{} bytes", damaged.len());
    }
    std::fs::remove_file(&marks).unwrap();
    assert!(reason(run, &db, &folder).contains("--execute"));
    let other = SearchedBy::run("first", "sha256:1");
    let kept = run.marks(&db.store());
    kept.keep(&folder, FileMode::from_bits(0o600), other, &BTreeSet::new()).unwrap();
    assert!(reason(run, &db, &folder).contains("configuration"));
}

#[test]
fn rows_of_another_model_and_another_store_are_searched_with_everything() {
    let (db, folder) = searched(|_| {});
    db.sql(
        "UPDATE OR REPLACE embeddings SET rowid = 900, model = 'other' WHERE source_id = 'm000001'",
    );
    assert!(reason(db.run(), &db, &folder).contains("another model"));
    let (db, folder) = searched(|_| {});
    db.sql("UPDATE stm SET rowid = rowid + 1000");
    assert!(reason(db.run(), &db, &folder).contains("no longer fits"));
}

#[test]
fn young_memory_is_searched_once_it_is_old_enough() {
    let (mut db, folder) = searched(|db| {
        let text = "Rack 1 stands in hall 41.";
        let row = memory(1, text, &unit_vector(16, 1));
        db.save(&PlainMemory { id: "new".to_owned(), created_at: db.at(), ..row });
    });
    db.later(2);
    let ChangedRun::Done(outcome, _) = db.run().plan_changed(&db.store(), &folder) else {
        panic!("everything was searched")
    };
    assert_eq!(outcome.plan.count(ActionType::Merge), 1, "{:?}", outcome.plan.actions);
    assert_eq!(outcome.report.incremental.unwrap().changed, 1);
    assert_eq!(outcome.report.loaded.live, 9);
}
