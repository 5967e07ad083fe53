//! [`TestStore`]: a store on disk, with one-line operations for tests.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{PlainMemory, StoreStyle};
use jiff::tz::TimeZone;
use memfold::consolidate::Outcome;
use memfold::embed::fill::NewVectors;
use memfold::execute::{
    ExecuteError, ExecuteRequest, Execution, Review, Selection, Undo, UndoOutcome, UndoRequest,
    UndoTarget, WriteRules, execute, preview_undo, undo,
};
use memfold::quick_check::{QuickCheck, QuickCheckOptions};
use memfold::settle::{SettleRules, Settled, Settlement, settle};
use memfold_core::policy::{ConfigLoader, QuickCheckPolicy};
use memfold_core::report::run_id;
use memfold_core::runs::RunState;
use memfold_core::time::Instant;
use memfold_guard::Guard;
use memfold_index::NoProgress;
use memfold_simd::Kernels;
use memfold_store::brain_db::{BrainDb, OpenOptions, Session, SessionOptions};
use memfold_store::journal::RevertOptions;
use memfold_store::upkeep::UpkeepRun;
use rusqlite::types::{FromSql, Value};
use rusqlite::{Connection, ToSql};
use tempfile::TempDir;

use crate::run::CONFIG_HASH;
use crate::wild_store::{Fact, wild_store};
use crate::{Run, StoreImage, brain_db, integrity};

const UTC: &TimeZone = &TimeZone::UTC;

const MICROSECONDS_A_DAY: i64 = 86_400_000_000;

/// A store in a folder of its own, with the time and the configuration of its next run.
#[derive(Debug)]
pub struct TestStore {
    _folder: TempDir,
    path: PathBuf,
    run: Run,
    options: RevertOptions,
}

/// A plan, and its execution.
#[derive(Debug)]
pub struct AppliedRun {
    /// The plan and its report.
    pub outcome: Outcome,
    /// The execution; `None` where nothing was planned.
    pub execution: Option<Execution>,
}

impl AppliedRun {
    /// Returns the run's id.
    ///
    /// # Panics
    /// When nothing was planned.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.execution.as_ref().expect("something was planned").run_id
    }
}

impl TestStore {
    /// Takes a store that `make` writes at its path argument.
    ///
    /// # Panics
    /// When the folder of temporary files cannot be written.
    #[must_use]
    pub fn made<T>(make: impl FnOnce(&Path) -> T) -> (Self, T) {
        let folder = tempfile::tempdir().expect("the folder of temporary files is writable");
        let path = folder.path().join("brain.db");
        let made = make(&path);
        let options = RevertOptions::default();
        let run = Run::builtin();
        (Self { _folder: folder, path, run, options }, made)
    }

    /// Writes a store of these rows.
    #[must_use]
    pub fn of(rows: &[PlainMemory], style: StoreStyle) -> Self {
        Self::made(|path| brain_db(path, rows, style)).0
    }

    /// Writes a store of planted facts and every habit of stores in use.
    #[must_use]
    pub fn wild(rows: u32, seed: u64) -> (Self, Vec<Fact>) {
        Self::made(|path| wild_store(path, rows, seed))
    }

    /// Sets a configuration key.
    #[must_use]
    pub fn set(self, text: impl Into<String>) -> Self {
        Self { run: self.run.set(text), ..self }
    }

    /// Sets how undo handles conflicts.
    pub const fn revert_with(&mut self, options: RevertOptions) {
        self.options = options;
    }

    /// Lets days go by.
    pub fn later(&mut self, days: i64) {
        let now = Instant(self.run.now().0 + days * MICROSECONDS_A_DAY);
        self.run = self.run.clone().at(now);
    }

    /// Returns the time of the next run.
    #[must_use]
    pub const fn now(&self) -> Instant {
        self.run.now()
    }

    /// Returns the time of the next run as the owner writes times.
    #[must_use]
    pub fn at(&self) -> String {
        self.now().to_naive_local(&TimeZone::UTC)
    }

    /// Returns the store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns everything that the owner can see.
    #[must_use]
    pub fn image(&self) -> StoreImage {
        StoreImage::of(&self.path)
    }

    /// Opens the store to look.
    ///
    /// # Panics
    /// When it cannot be opened.
    #[must_use]
    pub fn store(&self) -> BrainDb {
        BrainDb::open(&self.path, OpenOptions::default()).expect("it is a store")
    }

    /// Connects as the owner does.
    ///
    /// # Panics
    /// When the file cannot be opened.
    #[must_use]
    pub fn owner(&self) -> Connection {
        Connection::open(&self.path).expect("the store can be opened")
    }

    /// Does something as the owner.
    ///
    /// # Panics
    /// When SQLite refuses.
    pub fn sql(&self, sql: &str) {
        self.owner().execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Saves a memory as its owner does: row, search entry and embedding.
    ///
    /// # Panics
    /// When SQLite refuses.
    pub fn save(&self, row: &PlainMemory) {
        let owner = self.owner();
        let insert = |sql: &str, cells: &[&dyn ToSql]| {
            owner.execute(sql, cells).unwrap_or_else(|error| panic!("{sql}: {error}"));
        };
        let categories = serde_json::to_string(&row.categories).expect("texts are JSON");
        insert(
            "INSERT INTO stm (id, content, categories, importance, access_count, created_at, expires_at, source)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            &[
                &row.id, &row.content, &categories, &row.importance, &row.access_count, &row.created_at,
                &row.expires_at, &row.source,
            ],
        );
        let rowid = owner.last_insert_rowid();
        insert("INSERT INTO stm_fts (rowid, content) VALUES (?1, ?2)", &[&rowid, &row.content]);
        let Some(embedding) = &row.embedding else { return };
        let bytes: Vec<u8> = embedding.vector.iter().flat_map(|v| v.to_le_bytes()).collect();
        insert(
            "INSERT INTO embeddings (id, source_type, source_id, embedding, model, created_at)
             VALUES ('emb_' || ?1, 'stm', ?1, ?2, ?3, ?4)",
            &[&row.id, &bytes, &embedding.model, &row.created_at],
        );
    }

    /// Returns the first column of a query's rows.
    ///
    /// # Panics
    /// When SQLite refuses.
    #[must_use]
    pub fn ask<T: FromSql>(&self, sql: &str) -> Vec<T> {
        let owner = self.owner();
        let mut statement = owner.prepare(sql).expect("the query is right");
        let rows = statement.query_map([], |row| row.get(0)).expect("the query runs");
        rows.map(|row| row.unwrap_or_else(|error| panic!("{sql}: {error}"))).collect()
    }

    /// Returns a memory's value with its storage class.
    ///
    /// # Panics
    /// When the memory does not exist.
    #[must_use]
    pub fn cell(&self, id: &str, column: &str) -> Value {
        let sql = format!("SELECT {column} FROM stm WHERE id = ?1");
        let found = self.owner().query_row(&sql, [id], |row| row.get(0));
        found.unwrap_or_else(|error| panic!("{column} of {id}: {error}"))
    }

    /// Plans.
    #[must_use]
    pub fn plan(&self) -> Outcome {
        self.run.plan(&self.store())
    }

    /// Returns how this store is run.
    #[must_use]
    pub const fn run(&self) -> &Run {
        &self.run
    }

    /// Carries a plan out.
    ///
    /// # Errors
    /// When the run fails.
    pub fn try_apply(&self, outcome: &Outcome) -> Result<Execution, ExecuteError> {
        self.try_apply_some(outcome, &Selection::default(), None)
    }

    /// Carries a part of a plan out.
    ///
    /// # Errors
    /// When the run fails.
    pub fn try_apply_some(
        &self,
        outcome: &Outcome,
        selection: &Selection,
        limit: Option<u64>,
    ) -> Result<Execution, ExecuteError> {
        let plan = &outcome.plan;
        let (session, configuration) = (self.session(), self.run.configuration());
        let rules = WriteRules {
            settings: &configuration.settings,
            allow_unguarded: true,
            review: Review::Saved,
        };
        execute(
            &session,
            &ExecuteRequest {
                plan,
                vectors: &NewVectors::default(),
                access_counts: &outcome.access_counts,
                selection,
                limit,
                run_id: &run_id(&plan.store_id, self.now(), CONFIG_HASH),
                now: self.now(),
                time_zone: &TimeZone::UTC,
                policy: &configuration.policy,
                config_hash: CONFIG_HASH,
                rules,
                holder: "test 1",
                progress: &NoProgress,
                clock: &|| 0.0,
            },
        )
    }

    /// Plans and applies the plan.
    ///
    /// # Panics
    /// When the run fails.
    #[must_use]
    pub fn nightly_run(&self) -> AppliedRun {
        let outcome = self.plan();
        let is_busy = outcome.plan.changes() > 0;
        let execution = is_busy.then(|| self.try_apply(&outcome).expect("the run succeeds"));
        AppliedRun { outcome, execution }
    }

    /// As [`Self::nightly_run`], with all units applied.
    ///
    /// # Panics
    /// When a unit is stale or fails, or nothing is planned.
    #[must_use]
    pub fn complete_run(&self) -> AppliedRun {
        let applied = self.nightly_run();
        let execution = applied.execution.as_ref().expect("something is planned");
        assert_eq!(execution.state, RunState::Done, "{:?}", execution.outcomes);
        assert_eq!(execution.remaining, 0);
        applied
    }

    /// Takes back.
    ///
    /// # Errors
    /// When there is nothing to undo, or the store fails.
    pub fn try_undo(&self, target: &UndoTarget) -> Result<Undo, ExecuteError> {
        undo(
            &self.session(),
            &UndoRequest {
                target,
                options: self.options,
                remerge_ok: false,
                run_id: &format!("undo-{}", run_id("undo", self.now(), CONFIG_HASH)),
                now: self.now(),
                time_zone: &TimeZone::UTC,
                holder: "test 1",
                progress: &NoProgress,
                clock: &|| 0.0,
            },
        )
    }

    /// Returns the expected results of an undo.
    ///
    /// # Panics
    /// When there is nothing to undo.
    #[must_use]
    pub fn preview_undo(&self, target: &UndoTarget) -> Vec<UndoOutcome> {
        preview_undo(&self.store(), target, self.options).expect("there is something to undo")
    }

    /// Takes a run back as far as that goes.
    ///
    /// # Panics
    /// When there is nothing to undo.
    #[must_use]
    pub fn undo_run(&self, run: &str) -> Undo {
        self.try_undo(&UndoTarget::Run(run.to_owned())).expect("there is something to undo")
    }

    /// Takes all of a run back and returns the undo's own run.
    ///
    /// # Panics
    /// When a unit stays.
    #[must_use]
    pub fn undo_all(&self, run: &str) -> String {
        let undo = self.undo_run(run);
        assert_eq!(undo.state, RunState::Done, "{:#?}", undo.outcomes);
        undo.run_id
    }

    /// Opens the store for checks and saves.
    #[must_use]
    pub fn quick_check(&self) -> QuickCheck {
        self.quick_check_with(|options| options)
    }

    /// As [`Self::quick_check`], with other options.
    ///
    /// # Panics
    /// When the configuration is wrong.
    #[must_use]
    pub fn quick_check_with(
        &self,
        change: impl FnOnce(QuickCheckOptions) -> QuickCheckOptions,
    ) -> QuickCheck {
        let mut index_folder = self.path.as_os_str().to_owned();
        index_folder.push(".memfold");
        let configured = ConfigLoader::new().load().expect("the built-in configuration is valid");
        let check = QuickCheckPolicy {
            // Other tests take the processors meanwhile.
            time_limit: Duration::from_secs(20),
            ..configured.settings.quick_check
        };
        let options = change(QuickCheckOptions {
            policy: self.run.policy(),
            check,
            time_zone: TimeZone::UTC,
            busy_timeout: Duration::from_secs(20),
            holder: format!("test {}", std::process::id()),
            index_folder: index_folder.into(),
            read_only: false,
            kernels: Kernels::active(),
            clock: || 0.0,
        });
        QuickCheck::open(&self.path, options).expect("there is no lexicon of the user's")
    }

    /// Returns a run of upkeep at this time.
    #[must_use]
    pub const fn upkeep<'a>(&self, run_id: &'a str) -> UpkeepRun<'a> {
        UpkeepRun { run_id, now: self.now(), time_zone: UTC, holder: "test 1" }
    }

    /// Settles a flag as a person does; returns the run and the settled pair.
    ///
    /// # Panics
    /// When the flag does not exist.
    #[must_use]
    pub fn settle(&self, key: &str, settlement: Settlement) -> (String, Settled) {
        let policy = self.run.policy();
        let guard = Guard::new(&policy.guard).expect("the built-in lexicon is valid");
        let rules = SettleRules { policy: &policy, guard: &guard };
        settle(&self.session(), key, settlement, rules, &self.upkeep("settled"))
            .expect("the flag is open")
    }

    /// Asserts that SQLite and the search index find nothing wrong.
    ///
    /// # Panics
    /// When they do.
    #[track_caller]
    pub fn assert_sound(&self) {
        assert_eq!(integrity(&self.path), Vec::<String>::new());
    }

    /// Opens the store to write.
    ///
    /// # Panics
    /// When another run has it.
    #[must_use]
    pub fn session(&self) -> Session {
        let options =
            SessionOptions { busy_timeout: Duration::from_secs(5), holder: "test 1".to_owned() };
        Session::open(&self.path, &options).expect("the store can be written")
    }
}
