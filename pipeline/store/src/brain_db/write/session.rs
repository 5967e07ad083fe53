//! [`Session`]: the right to write to a store that belongs to somebody else.
//!
//! Every write is one short `BEGIN IMMEDIATE` transaction. The journal mode stays as the owner set it, foreign
//! keys are enforced, commits reach the disk.
//!
//! One run per store: a lock of the operating system on a file beside it. The lock is not on the store itself: closing
//! any descriptor of that file would drop SQLite's own locks. It goes with the process, however that ends; the empty file
//! stays, because removing it would let two runs lock two files of one name.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::config::DbConfig;
use rusqlite::types::ToSql;
use rusqlite::{
    Connection, ErrorCode, OpenFlags, Params, Row, Transaction, TransactionBehavior, ffi, params,
    params_from_iter,
};

use crate::brain_db::read::access::{Columns, StoreVersion, all, beside, exists, first, quoted};
use crate::brain_db::read::load::Pass;
use crate::brain_db::read::lookup::StoreReader;
use crate::brain_db::read::open::{BrainDb, OpenOptions, free_bytes};
use crate::brain_db::write::rows::Layout;
use crate::error::StoreError;
use crate::memory_store::LoadRequest;
use crate::whole_file::OsLock;
use memfold_core::journal::RowImage;
use memfold_core::memory::MemoryId;
use memfold_core::merge::Words;
use memfold_core::runs::RunningRun;
use memfold_index::file::FileMode;

/// How long to wait before the next try to begin.
const BETWEEN_TRIES: Duration = Duration::from_micros(500);

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Begins to write, and tries again so many times while somebody else does.
fn begin_between_others(
    connection: &Connection,
    mut tries: u128,
    wait: impl Fn(),
) -> rusqlite::Result<Transaction<'_>> {
    loop {
        match Transaction::new_unchecked(connection, TransactionBehavior::Immediate) {
            Err(error) if is_busy(&error) && tries > 0 => {
                tries -= 1;
                wait();
                std::thread::sleep(BETWEEN_TRIES);
            }
            begun_or_not => return begun_or_not,
        }
    }
}

/// How to open a store for writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionOptions {
    /// How long to wait for a lock of another process.
    pub busy_timeout: Duration,
    /// Who writes: reported to processes that find the store locked.
    pub holder: String,
}

/// A store that is open for writing.
pub struct Session {
    pub(crate) path: PathBuf,
    pub(crate) connection: Connection,
    pub(crate) busy_timeout: Duration,
    /// Whether a transaction could not begin at once.
    made_us_wait: Cell<bool>,
    /// SQLite's count of the commits of others, as it was last seen.
    data_version: Cell<Option<i64>>,
    /// Held while a run writes; `None` for writes to our own tables only.
    _lock: Option<OsLock>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Session {
    /// Opens a store for a run: nobody else's run writes meanwhile. Changes nothing yet.
    ///
    /// # Errors
    /// When it is not a store, cannot be written, or another run holds it.
    pub fn open(path: &Path, options: &SessionOptions) -> Result<Self, StoreError> {
        let mut session = Self::open_beside_runs(path, options)?;
        session._lock = Some(take_lock(&session.path, &options.holder, || {
            running(&session.connection).ok().flatten()
        })?);
        Ok(session)
    }

    /// Opens a store for writes to memfold's own tables only: saving or reviewing a plan.
    ///
    /// # Errors
    /// When it is not a store or cannot be written.
    pub fn open_beside_runs(path: &Path, options: &SessionOptions) -> Result<Self, StoreError> {
        BrainDb::open(path, OpenOptions::default().busy_timeout(options.busy_timeout))?;
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let connection = for_writing(&path, options.busy_timeout)?;
        let busy_timeout = options.busy_timeout;
        Ok(Self {
            path,
            connection,
            busy_timeout,
            made_us_wait: Cell::default(),
            data_version: Cell::default(),
            _lock: None,
        })
    }

    /// Returns the store's file, links resolved.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes or renews memfold's tables where needed.
    ///
    /// # Errors
    /// When they are of a later version, or cannot be written.
    pub fn prepare(&self, at: &str) -> Result<(), StoreError> {
        self.write(|writes| writes.prepare(at))
    }

    /// Runs `work` in one write transaction: all of it or nothing.
    ///
    /// # Errors
    /// Errors of `work`, and of SQLite when it begins or commits.
    pub fn write<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&Writes<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let transaction = self.begin()?;
        let writes = Writes::new(&transaction, &self.path);
        // An early return drops the transaction, which rolls it back.
        let done = work(&writes)?;
        self.commit(transaction)?;
        Ok(done)
    }

    /// As [`Self::write`], for rows that come back unchanged: the rows that they refer to may be
    /// gone, as they may have been before, where the owner enforces no foreign keys.
    ///
    /// # Errors
    /// Errors of `work`, and of SQLite when it begins or commits.
    pub fn write_back<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&Writes<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.enforce_references(false)?;
        let done = self.write(work);
        self.enforce_references(true)?;
        done
    }

    fn enforce_references(&self, enforce: bool) -> Result<(), StoreError> {
        let set = self.connection.pragma_update(None, "foreign_keys", enforce);
        set.map_err(|error| self.explain("set up the connection", &error))
    }

    /// Runs `look` in one read transaction.
    ///
    /// # Errors
    /// Errors of `look`, and of SQLite when it begins.
    pub fn read<T, E: From<StoreError>>(
        &self,
        look: impl FnOnce(&Writes<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let begin = self.connection.unchecked_transaction();
        let transaction = begin.map_err(|error| self.explain("read the store", &error))?;
        look(&Writes::new(&transaction, &self.path))
    }

    /// Tells whether another process wrote since the last call, or made a transaction wait. A process that waits for this
    /// one leaves no trace.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn met_others(&self) -> Result<bool, StoreError> {
        let version: i64 = self
            .connection
            .query_row("PRAGMA data_version", [], |row| row.get(0))
            .map_err(|error| self.explain("look for other writers", &error))?;
        let before = self.data_version.replace(Some(version));
        let wrote = before.is_some_and(|before| before != version);
        Ok(self.made_us_wait.take() || wrote)
    }

    /// Moves all of the write-ahead log into the store and truncates it. `false`: after waiting as
    /// long as for any lock, somebody still reads or writes the log. Writers wait meanwhile.
    ///
    /// SQLite begins its log anew only where no reader needs it. If reads follow each other without
    /// a gap, that never happens on its own, and the log grows without bound.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn empty_log(&self) -> Result<bool, StoreError> {
        let sql = "PRAGMA wal_checkpoint(TRUNCATE)";
        let is_busy: i64 = self
            .connection
            .query_row(sql, [], |row| row.get(0))
            .map_err(|error| self.explain("empty the write-ahead log", &error))?;
        Ok(is_busy == 0)
    }

    /// Begins to write as soon as nobody else does.
    ///
    /// SQLite waits up to 100 ms between two tries, which hardly ever meet the gaps of a writer that goes from one
    /// transaction to the next.
    fn begin(&self) -> Result<Transaction<'_>, StoreError> {
        let wait = |timeout| self.connection.busy_timeout(timeout);
        let tries = self.busy_timeout.as_micros() / BETWEEN_TRIES.as_micros();
        let wait_for_others = || self.made_us_wait.set(true);
        let begun = wait(Duration::ZERO)
            .and_then(|()| begin_between_others(&self.connection, tries, wait_for_others));
        wait(self.busy_timeout).and(begun).map_err(|error| self.explain("begin to write", &error))
    }

    fn commit(&self, transaction: Transaction<'_>) -> Result<(), StoreError> {
        transaction.commit().map_err(|error| self.explain("commit", &error))
    }

    pub(crate) fn explain(&self, what: &'static str, error: &rusqlite::Error) -> StoreError {
        StoreError::of_sqlite(&self.path, what, error, Some(self.busy_timeout))
    }
}

impl BrainDb {
    /// Runs `look` over the store as it is at one instant, without leaving a trace.
    ///
    /// # Errors
    /// Errors of `look`, and of reading the store.
    pub fn look_on<T, E: From<StoreError>>(
        &self,
        look: impl Fn(&Writes<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.traceless(|_, connection| look(&Writes::new(connection, self.path())))
    }

    /// Returns why memories are not moved out of the owner's tables, if anything forbids it: a foreign key or a trigger
    /// of the owner would change other tables along with them.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn move_refusal(&self) -> Result<Option<String>, StoreError> {
        self.look_on(|reads| Ok(reads.layout()?.move_refusal().map(str::to_owned)))
    }
}

/// Opens an existing store; never makes one, never changes its journal mode.
pub(crate) fn for_writing(path: &Path, busy_timeout: Duration) -> Result<Connection, StoreError> {
    let explain = |error: rusqlite::Error| {
        StoreError::of_sqlite(path, "open the store for writing", &error, Some(busy_timeout))
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(explain)?;
    connection.busy_timeout(busy_timeout).map_err(explain)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(explain)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(explain)?;
    // Overwritten cells leave no old bytes in their page, so that forgetting erases them.
    connection.pragma_update(None, "secure_delete", "FAST").map_err(explain)?;
    // Temporary tables need no file.
    connection.pragma_update(None, "temp_store", "MEMORY").map_err(explain)?;
    // Else FTS5 parses its own statement anew for each word that it looks up.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(explain)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    if connection.is_readonly("main").map_err(explain)? {
        let reason = "the file is read-only".to_owned();
        return Err(StoreError::ReadOnly { path: path.to_owned(), reason });
    }
    Ok(connection)
}

const STATEMENTS_CACHED: usize = 64;

/// One transaction: its holder may read and write until it ends.
pub struct Writes<'a> {
    connection: &'a Connection,
    path: &'a Path,
    /// Words that were looked up and not changed since: a row and its words, by the row's number.
    known_words: RefCell<HashMap<i64, (RowImage, Words)>>,
}

impl std::fmt::Debug for Writes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writes").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<'a> Writes<'a> {
    pub(crate) fn new(connection: &'a Connection, path: &'a Path) -> Self {
        Self { connection, path, known_words: RefCell::default() }
    }

    /// Remembers which words of a row are searchable: finding that out is the dearest part of a merge.
    pub(crate) fn remember_words(&self, image: &RowImage, words: &Words) {
        if let Some(rowid) = image.rowid {
            self.known_words.borrow_mut().insert(rowid, (image.clone(), words.clone()));
        }
    }

    /// Returns the remembered words of a row that has not changed since.
    pub(crate) fn known_words(&self, image: &RowImage) -> Option<Words> {
        let known = self.known_words.borrow();
        let (of, words) = known.get(&image.rowid?)?;
        (of == image).then(|| words.clone())
    }

    /// Forgets the words of a row, because they change.
    pub(crate) fn forget_words(&self, rowid: i64) {
        self.known_words.borrow_mut().remove(&rowid);
    }

    /// The connection, inside the transaction.
    pub(crate) fn connection(&self) -> &'a Connection {
        self.connection
    }

    /// The store's file.
    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// Runs `work` as a part of the transaction: all of it or nothing, and earlier changes stay.
    ///
    /// # Errors
    /// Errors of `work`. Where [`Self::has_ended`], the whole transaction was rolled back.
    pub fn nested<T>(&self, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.execute("begin a unit", "SAVEPOINT memfold_unit", [])?;
        let done = work();
        if done.is_err() {
            self.known_words.borrow_mut().clear();
        }
        if done.is_err() && !self.has_ended() {
            self.execute("roll back a unit", "ROLLBACK TO memfold_unit", [])?;
        }
        if !self.has_ended() {
            self.execute("end a unit", "RELEASE memfold_unit", [])?;
        }
        done
    }

    /// Tells whether SQLite rolled the transaction back, because of an error or a trigger of the owner.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.connection.is_autocommit()
    }

    /// Reads the layout of the tables in this transaction.
    pub fn layout(&self) -> Result<Layout, StoreError> {
        Layout::of(self.connection).map_err(self.explain("read the tables' columns"))
    }

    /// Runs a statement that writes; returns the number of rows.
    pub(crate) fn execute(
        &self,
        what: &'static str,
        sql: &str,
        params: impl Params,
    ) -> Result<usize, StoreError> {
        let run = || self.connection.prepare_cached(sql)?.execute(params);
        run().map_err(self.explain(what))
    }

    /// Runs a statement that changes one row, which must exist.
    pub(crate) fn change_one(
        &self,
        what: &'static str,
        sql: &str,
        params: impl Params,
    ) -> Result<(), StoreError> {
        self.query(what, |c| match c.prepare_cached(sql)?.execute(params)? {
            1 => Ok(()),
            changed => Err(rusqlite::Error::StatementChangedRows(changed)),
        })
    }

    /// Runs statements as one step.
    pub(crate) fn query<T>(
        &self,
        what: &'static str,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        run(self.connection).map_err(self.explain(what))
    }

    /// Runs a query and returns its rows as `read` has them.
    pub(crate) fn all<T, C: FromIterator<T>>(
        &self,
        what: &'static str,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<C, StoreError> {
        self.query(what, |connection| all(connection, sql, params, read))
    }

    /// As [`Self::all`], of the first row; `None` where there is none.
    pub(crate) fn first<T>(
        &self,
        what: &'static str,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        self.query(what, |connection| first(connection, sql, params, read))
    }

    /// Tells whether a query finds any row.
    pub(crate) fn exists(
        &self,
        what: &'static str,
        sql: &str,
        params: impl Params,
    ) -> Result<bool, StoreError> {
        self.query(what, |connection| exists(connection, sql, params))
    }

    /// Inserts a row and returns its number.
    pub(crate) fn insert(
        &self,
        what: &'static str,
        table: &str,
        cells: &[(&str, &dyn ToSql)],
    ) -> Result<i64, StoreError> {
        let names: Vec<String> = cells.iter().map(|(name, _)| quoted(name)).collect();
        let marks: Vec<String> = (1..=cells.len()).map(|n| format!("?{n}")).collect();
        let (names, marks) = (names.join(", "), marks.join(", "));
        let sql = format!("INSERT INTO {table}({names}) VALUES ({marks})");
        self.execute(what, &sql, params_from_iter(cells.iter().map(|(_, value)| value)))?;
        Ok(self.connection.last_insert_rowid())
    }

    /// Sets cells of the rows for which `condition` holds of the parameter behind the cells' own, `key`; returns
    /// the number of rows.
    pub(crate) fn update(
        &self,
        what: &'static str,
        table: &str,
        cells: &[(&str, &dyn ToSql)],
        condition: &str,
        key: &dyn ToSql,
    ) -> Result<usize, StoreError> {
        let set =
            (1..).zip(cells).map(|(n, (name, _)): (u32, _)| format!("{} = ?{n}", quoted(name)));
        let set = set.collect::<Vec<_>>().join(", ");
        let sql = format!("UPDATE {table} SET {set} WHERE {condition} = ?{}", cells.len() + 1);
        let values = cells.iter().map(|(_, value)| *value).chain([key]);
        self.execute(what, &sql, params_from_iter(values))
    }

    /// The error where something that memfold wrote cannot be understood.
    pub(crate) fn unreadable(&self, what: String) -> StoreError {
        StoreError::Unreadable { path: self.path.to_owned(), what }
    }

    fn explain(&self, what: &'static str) -> impl Fn(rusqlite::Error) -> StoreError + '_ {
        move |error| StoreError::of_sqlite(self.path, what, &error, None)
    }
}

impl Writes<'_> {
    /// Reads single memories as they are in this transaction.
    pub fn look_up<T, E: From<StoreError>>(
        &self,
        request: &LoadRequest<'_>,
        read: impl FnOnce(&StoreReader<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let store = BrainDb::at(self.path(), OpenOptions::default());
        let denied = |error: std::io::Error| {
            let (path, reason) = (self.path().to_owned(), error.to_string());
            StoreError::Denied { path, reason }
        };
        let version = StoreVersion::take(self.path()).map_err(denied)?;
        let columns = Columns::of(self.connection(), "stm");
        let memory_columns = &columns.map_err(|error| store.failed(&version, "stm", &error))?;
        let (connection, version) = (self.connection(), &version);
        let pass = Pass { store: &store, version, memory_columns, connection, request };
        read(&StoreReader::over(pass)?)
    }
}

/// A living run shows itself at least so often.
const HEARTBEAT_WATCHED: Duration = Duration::from_secs(5);

/// Takes the lock of a run, or tells who has it.
fn take_lock(
    store: &Path,
    holder: &str,
    running: impl Fn() -> Option<RunningRun>,
) -> Result<OsLock, StoreError> {
    let path = lock_path(store);
    let refused = |error: std::io::Error| StoreError::ReadOnly {
        path: path.clone(),
        reason: error.to_string(),
    };
    let known = running();
    let locked = |known: Option<RunningRun>| StoreError::LockedByRun {
        path: store.to_owned(),
        holder: known
            .map(|run| format!("{} of {}, last seen {}", run.run_id, run.holder, run.heartbeat_at)),
    };
    let lock = match OsLock::take(&path, store, Duration::ZERO).map_err(refused)? {
        None => return Err(locked(known)),
        // The run's own row is then all there is.
        Some(lock) if !lock.is_effective() && known.is_some() => return Err(locked(known)),
        Some(lock) => lock,
    };
    // This process has the lock, so a run of this machine is dead; a run of another machine may
    // be alive behind a file system with locks that do not reach this far.
    let is_foreign = |run: &RunningRun| machine(&run.holder) != machine(holder);
    if let Some(run) = known.filter(is_foreign) {
        std::thread::sleep(HEARTBEAT_WATCHED);
        let later = running();
        if later.as_ref().is_some_and(|later| later.heartbeat_at != run.heartbeat_at) {
            return Err(locked(later));
        }
    }
    Ok(lock)
}

/// The lock file of a store.
pub(crate) fn lock_path(store: &Path) -> PathBuf {
    beside(store, ".memfold-lock")
}

/// Holders read `<machine> <process>`.
fn machine(holder: &str) -> &str {
    holder.split(' ').next().unwrap_or(holder)
}

/// The outcome of the copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackupOutcome {
    /// It was made.
    Made {
        /// Where it is.
        path: PathBuf,
    },
    /// It could not be made; undo uses the journal anyway.
    Skipped {
        /// Why.
        reason: String,
    },
}

impl Session {
    /// Copies the store to `<store>.memfold-backup-<run_id>` as it is at one instant, rowids included, while
    /// others go on. A copy that cannot be made leaves nothing behind.
    #[must_use]
    pub fn back_up(&self, run_id: &str) -> BackupOutcome {
        let path = beside(&self.path, &format!(".memfold-backup-{run_id}"));
        let partial = beside(&self.path, ".memfold-backup-partial");
        if let Some(reason) = self.lacks_room() {
            return BackupOutcome::Skipped { reason };
        }
        let made = self.copy_to(&partial).and_then(|()| {
            fs::rename(&partial, &path).map_err(|error| StoreError::ReadOnly {
                path: path.clone(),
                reason: error.to_string(),
            })
        });
        match made {
            Ok(()) => BackupOutcome::Made { path },
            Err(error) => {
                // A partial copy is of no use; failing to remove it is not a second failure.
                let _ = fs::remove_file(&partial);
                let _ = fs::remove_file(beside(&partial, "-journal"));
                BackupOutcome::Skipped { reason: error.to_string() }
            }
        }
    }

    /// A copy must leave the disk at least as much room as it takes.
    fn lacks_room(&self) -> Option<String> {
        let bytes = [self.path.clone(), beside(&self.path, "-wal")];
        let bytes: u64 =
            bytes.iter().filter_map(|path| fs::metadata(path).ok()).map(|m| m.len()).sum();
        let free = free_bytes(&self.path)?;
        (free < bytes.saturating_mul(2))
            .then(|| format!("it takes {bytes} bytes and the disk has only {free} left"))
    }

    fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        let explain = |error: rusqlite::Error| {
            StoreError::of_sqlite(path, "copy the store", &error, Some(self.busy_timeout))
        };
        make_empty(&self.path, path).map_err(|error| StoreError::ReadOnly {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        let is_done = copy(&self.connection, path).map_err(explain)?;
        match is_done {
            true => Ok(()),
            false => Err(StoreError::Busy { path: self.path.clone(), waited: self.busy_timeout }),
        }
    }
}

impl BrainDb {
    /// Copies the store into a new file as it is at one instant, rowids included, while others go on.
    ///
    /// # Errors
    /// When it cannot be read, or the file cannot be written.
    pub fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        self.consult("stm", |connection| {
            // A read transaction is under way, so the copy uses a connection of its own.
            let place = connection.path().unwrap_or_default().to_owned();
            let own = Connection::open_with_flags(place, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            match copy(&own, path)? {
                true => Ok(()),
                false => {
                    Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY), None))
                }
            }
        })
    }
}

/// Makes an empty file for a copy, from the start with the read permissions of the store.
///
/// An existing file of this name is replaced; a link is removed and not followed.
fn make_empty(store: &Path, path: &Path) -> io::Result<()> {
    let mode = FileMode::like(&fs::metadata(store)?);
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode.file_bits());
    #[cfg(not(unix))]
    let _ = mode;
    options.open(path).map(drop)
}

/// Copies in one step under one read lock, because a copy in pieces would start over whenever somebody writes; `false`
/// where somebody holds the store.
fn copy(from: &Connection, path: &Path) -> rusqlite::Result<bool> {
    let mut copy = Connection::open(path)?;
    let step = Backup::new(from, &mut copy)?.step(-1)?;
    copy.close().map_err(|(_, error)| error)?;
    Ok(matches!(step, StepResult::Done))
}

/// Returns the latest run that has not ended.
pub(crate) fn running(connection: &Connection) -> rusqlite::Result<Option<RunningRun>> {
    let sql = "SELECT run_id, holder, heartbeat_at FROM memfold_runs
               WHERE state = 'running' ORDER BY seq DESC LIMIT 1";
    first(connection, sql, [], |row| {
        Ok(RunningRun { run_id: row.get(0)?, holder: row.get(1)?, heartbeat_at: row.get(2)? })
    })
}

/// The waits together stay below 20 ms. Further tries to begin, and the wait before each: about 11 ms.
const TRIES: u128 = 19;
/// How long a commit may wait for readers: only a store with a rollback journal makes it wait.
const COMMIT_WAIT: Duration = Duration::from_millis(6);
/// How long each of the two reads of a newly opened store may wait.
const OPEN_WAIT: Duration = Duration::from_millis(1);

/// A connection that counts recalls and writes nothing else.
#[derive(Debug)]
pub struct RecallCounter {
    connection: Connection,
    sql: String,
}

impl RecallCounter {
    /// Connects to an existing store; changes nothing yet.
    ///
    /// # Errors
    /// When it cannot be opened for writing.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let explain = |error: rusqlite::Error| failed(path, "open the store for writing", &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(explain)?;
        connection.busy_timeout(OPEN_WAIT).map_err(explain)?;
        if connection.is_readonly("main").map_err(explain)? {
            let reason = "the file is read-only".to_owned();
            return Err(StoreError::ReadOnly { path: path.to_owned(), reason });
        }
        let columns = Columns::of(&connection, "stm").map_err(explain)?;
        let mode: String =
            connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(explain)?;
        // In WAL mode a lost power can take the last counts, and nothing else, with it.
        let synchronous = if mode.eq_ignore_ascii_case("wal") { "NORMAL" } else { "FULL" };
        connection.pragma_update(None, "synchronous", synchronous).map_err(explain)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(explain)?;
        let accessed = if columns.has("last_accessed") { ", last_accessed = ?2" } else { "" };
        let sql = format!(
            "UPDATE stm SET access_count = coalesce(CAST(access_count AS INTEGER), 0) + 1{accessed}
             WHERE id = ?1 AND ?2 IS NOT NULL"
        );
        Ok(Self { connection, sql })
    }

    /// Raises the access count of memories by one and sets their last access, all in one transaction; `false` where
    /// somebody else was writing for too long (20 ms), and nothing was counted.
    ///
    /// The count is raised in the store, not from an earlier read: no count of another writer is
    /// lost.
    ///
    /// # Errors
    /// When the owner's tables refuse it, or the disk fails.
    pub fn count(&self, ids: &[&MemoryId], at: &str) -> Result<bool, StoreError> {
        let path = self.connection.path().map(Path::new).unwrap_or(Path::new(""));
        match self.try_count(ids, at) {
            Ok(()) => Ok(true),
            Err(error) if is_busy(&error) => Ok(false),
            Err(error) => Err(failed(path, "count a recall", &error)),
        }
    }

    fn try_count(&self, ids: &[&MemoryId], at: &str) -> rusqlite::Result<()> {
        self.connection.busy_timeout(Duration::ZERO)?;
        let transaction = begin_between_others(&self.connection, TRIES, || {})?;
        self.connection.busy_timeout(COMMIT_WAIT)?;
        let mut statement = self.connection.prepare_cached(&self.sql)?;
        for id in ids {
            statement.execute(params![id.as_str(), at])?;
        }
        drop(statement);
        // Dropped on failure, which rolls back.
        transaction.commit()
    }
}

fn failed(path: &Path, what: &'static str, error: &rusqlite::Error) -> StoreError {
    StoreError::of_sqlite(path, what, error, Some(COMMIT_WAIT))
}
