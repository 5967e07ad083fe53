//! [`Fixture`]: a store, its copies, and their undisturbed states.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rusqlite::{Connection, OptionalExtension as _, Row};
use tempfile::TempDir;

use super::memfold::{self, Ended, Memfold};
use crate::{
    Fact, StoreImage, diff, facts_findable, integrity, wild_store, wild_store_with_journal,
};
use ::memfold::machine::Stopwatch;

/// Which store.
#[derive(Debug, Clone, Copy)]
pub struct FixtureOptions {
    /// Memories beside the odd ones.
    pub rows: u32,
    /// Of everything random.
    pub seed: u64,
    /// Whether the store is in WAL mode or keeps a rollback journal.
    pub wal: bool,
    /// Where it and its copies are.
    pub location: Location,
}

/// Where stores are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Location {
    /// The folder of temporary files.
    Disk,
    /// A file system in memory, where the machine has one at `/dev/shm`: a signal's instant matters there as well,
    /// and nobody waits for a disk.
    Memory,
}

impl Location {
    fn folder(self) -> TempDir {
        let memory = Path::new("/dev/shm");
        let folder = match self {
            Self::Memory if memory.is_dir() => tempfile::tempdir_in(memory),
            Self::Disk | Self::Memory => tempfile::tempdir(),
        };
        folder.expect("the temporary folder is writable")
    }
}

/// A wild store, the same one executed, and the images of both.
#[derive(Debug)]
pub struct Fixture<'m> {
    /// The binary.
    pub memfold: &'m Memfold,
    /// Which store.
    pub options: FixtureOptions,
    /// Its facts.
    pub facts: Vec<Fact>,
    /// Its image.
    pub before: StoreImage,
    /// Its image after an undisturbed run, without that run's name.
    pub after: StoreImage,
    /// That run.
    pub run_id: String,
    /// Seconds from the first write of an undisturbed command to its end: execute, undo.
    pub writing_seconds: [f64; 2],
    /// Seconds of the whole commands.
    pub whole_seconds: [f64; 2],
    /// How often facts were searched.
    turn: AtomicUsize,
    folder: TempDir,
}

/// A copy in a folder of its own.
#[derive(Debug)]
pub struct Trial {
    /// The store.
    pub path: PathBuf,
    _folder: TempDir,
}

impl<'m> Fixture<'m> {
    /// Makes a store, executes a copy and undoes a copy of that, undisturbed.
    ///
    /// # Errors
    /// When one of these steps breaks a promise.
    ///
    /// # Panics
    /// When the temporary folder cannot be written.
    pub fn new(memfold: &'m Memfold, options: FixtureOptions) -> Result<Self, String> {
        let folder = options.location.folder();
        let original = folder.path().join("original.db");
        let make = if options.wal { wild_store } else { wild_store_with_journal };
        let facts = make(&original, options.rows, options.seed);
        let before = StoreImage::of(&original);
        expect_none("of a new store is not found", facts_findable(&original, &facts))?;
        let mut fixture = Self {
            memfold,
            options,
            facts,
            after: before.clone(),
            before,
            run_id: String::new(),
            writing_seconds: [0.0; 2],
            whole_seconds: [0.0; 2],
            turn: AtomicUsize::new(0),
            folder,
        };
        fixture.execute_undisturbed()?;
        fixture.undo_undisturbed()?;
        Ok(fixture)
    }

    fn execute_undisturbed(&mut self) -> Result<(), String> {
        let trial = self.fresh();
        self.time(0, &trial.path, &memfold::execute(&trial.path))?;
        let image = StoreImage::of(&trial.path);
        if image.clone().without_run() == self.before.clone().without_run() {
            return Err("an undisturbed run changes nothing: a store without work".to_owned());
        }
        self.check_all(&trial.path)?;
        self.after = image.without_run();
        let run = latest_run(&trial.path, "execute").map_err(|error| error.to_string())?;
        self.run_id = run.ok_or("an undisturbed run left no row in memfold_runs")?;
        settle(&trial.path)?;
        std::fs::copy(&trial.path, self.folder.path().join("executed.db"))
            .map_err(|error| error.to_string())?;
        Ok(())
    }

    fn undo_undisturbed(&mut self) -> Result<(), String> {
        let trial = self.executed();
        let run = self.run_id.clone();
        self.time(1, &trial.path, &memfold::undo(&trial.path, &run))?;
        self.check_all(&trial.path)?;
        expect_none("after an undisturbed undo", diff(&self.before, &StoreImage::of(&trial.path)))
    }

    /// Runs a command that must succeed and notes how long it wrote.
    fn time(&mut self, which: usize, store: &Path, arguments: &[String]) -> Result<(), String> {
        let clock = Stopwatch::start();
        let mut child = self.memfold.spawn(arguments);
        let mut first_write = None;
        while child.try_wait().map_err(|error| error.to_string())?.is_none() {
            if first_write.is_none() && has_begun_to_write(store) {
                first_write = Some(clock.seconds());
            }
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
        let whole = clock.seconds();
        let ended = Ended::from(child.wait_with_output().map_err(|error| error.to_string())?);
        if ended.code != Some(0) {
            return Err(format!("undisturbed {arguments:?}: {}", ended.summary()));
        }
        self.whole_seconds[which] = whole;
        self.writing_seconds[which] = whole - first_write.unwrap_or(0.0);
        Ok(())
    }

    /// Copies the store as it was.
    #[must_use]
    pub fn fresh(&self) -> Trial {
        Trial::of(&self.folder.path().join("original.db"), self.options.location)
    }

    /// Copies the store after an undisturbed run.
    #[must_use]
    pub fn executed(&self) -> Trial {
        Trial::of(&self.folder.path().join("executed.db"), self.options.location)
    }

    /// Checks the invariants of a store: sound, nothing lost, nothing harder to find.
    ///
    /// # Errors
    /// When one of it does not.
    pub fn check(&self, store: &Path) -> Result<(), String> {
        expect_none("integrity", integrity(store))?;
        expect_none("lost", self.before.lost_in(&StoreImage::of(store)))?;
        expect_none("not found", facts_findable(store, &self.some_facts()))
    }

    /// As [`Self::check`], with every fact.
    fn check_all(&self, store: &Path) -> Result<(), String> {
        self.check(store)?;
        expect_none("not found", facts_findable(store, &self.facts))
    }

    /// The facts to search this time: of many a part, another one each time.
    fn some_facts(&self) -> Vec<Fact> {
        let step = self.facts.len().div_ceil(FACTS_AT_ONCE).max(1);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % step;
        self.facts.iter().skip(turn).step_by(step).cloned().collect()
    }
}

/// Looking for a fact takes a millisecond in a store of thousands.
const FACTS_AT_ONCE: usize = 300;

/// Fails where something was found.
pub(super) fn expect_none(what: &str, found: Vec<String>) -> Result<(), String> {
    if found.is_empty() { Ok(()) } else { Err(format!("{what}: {}", found.join("\n  "))) }
}

/// Tells whether somebody has begun to write to a store that nobody wrote to.
pub(super) fn has_begun_to_write(store: &Path) -> bool {
    let beside = |ending: &str| {
        let mut name = store.as_os_str().to_owned();
        name.push(ending);
        std::fs::metadata(name).is_ok_and(|file| file.len() > 0)
    };
    beside("-wal") || beside("-journal")
}

/// Writes the log back into the file, so that the file alone is the store.
fn settle(store: &Path) -> Result<(), String> {
    let connection = Connection::open(store).map_err(|error| error.to_string())?;
    let busy: i64 = connection
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))
        .map_err(|error| error.to_string())?;
    if busy == 0 { Ok(()) } else { Err("somebody still holds the store".to_owned()) }
}

/// The newest run of a kind; `None` for a store without one.
pub(super) fn latest_run(store: &Path, kind: &str) -> rusqlite::Result<Option<String>> {
    one(
        store,
        "memfold_runs",
        "SELECT run_id FROM memfold_runs WHERE kind = ?1 ORDER BY seq DESC",
        kind,
    )
}

/// The newest plan that a run stored.
pub(super) fn latest_plan(store: &Path) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT plan_id FROM memfold_runs WHERE kind = ?1 AND plan_id IS NOT NULL ORDER BY seq DESC";
    one(store, "memfold_runs", sql, "execute")
}

/// A run that claims to be running although another one came after it.
pub(super) fn left_running(store: &Path) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT run_id FROM memfold_runs
               WHERE state = ?1 AND seq < (SELECT max(seq) FROM memfold_runs)";
    one(store, "memfold_runs", sql, "running")
}

fn one(store: &Path, table: &str, sql: &str, value: &str) -> rusqlite::Result<Option<String>> {
    let connection = Connection::open(store)?;
    let exists = "SELECT count(*) FROM sqlite_master WHERE name = ?1";
    if connection.query_row(exists, [table], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(None);
    }
    connection.query_row(sql, [value], |row: &Row<'_>| row.get(0)).optional()
}

impl Trial {
    fn of(store: &Path, location: Location) -> Self {
        let folder = location.folder();
        let path = folder.path().join("brain.db");
        std::fs::copy(store, &path).expect("the temporary folder is writable");
        Self { path, _folder: folder }
    }
}
