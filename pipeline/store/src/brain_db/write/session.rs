//! [`Session`]: the right to write to a store that belongs to somebody else.
//!
//! Every write is one short `BEGIN IMMEDIATE` transaction. The journal mode stays as the owner set it, foreign
//! keys are enforced, commits reach the disk. One run at a time: a lock file beside the store says who.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Params, Transaction, TransactionBehavior};

use crate::LoadRequest;
use crate::LoadStoreError;
use crate::brain_db::read::access::Columns;
use crate::brain_db::read::access::Stamp;
use crate::brain_db::read::load::Pass;
use crate::brain_db::read::lookup::StoreReader;
use crate::brain_db::read::open::{BrainDb, OpenOptions, OpenStoreError, Shortage};
use crate::brain_db::write::beside::StoreLock;
use crate::brain_db::write::beside::running;
use crate::brain_db::write::layout::Layout;
use memfold_core::journal::RowImage;
use memfold_core::merge::Words;

/// How long to wait before the next try to begin.
const BETWEEN_TRIES: Duration = Duration::from_micros(500);

fn is_busy(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
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
    others: Others,
    /// Held while a run writes; `None` for writes to our own tables only.
    _lock: Option<StoreLock>,
}

/// Signs of other writers that a session notices.
#[derive(Default)]
struct Others {
    /// A transaction could not begin at once.
    made_us_wait: Cell<bool>,
    /// SQLite's count of the commits of others, as it was last seen.
    data_version: Cell<Option<i64>>,
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
    pub fn open(path: &Path, options: &SessionOptions) -> Result<Self, SessionError> {
        let mut session = Self::open_beside_runs(path, options)?;
        session._lock = Some(StoreLock::take(&session.path, &options.holder, || {
            running(&session.connection).ok().flatten()
        })?);
        Ok(session)
    }

    /// Opens a store for writes to memfold's own tables only: saving or reviewing a plan.
    ///
    /// # Errors
    /// When it is not a store or cannot be written.
    pub fn open_beside_runs(path: &Path, options: &SessionOptions) -> Result<Self, SessionError> {
        BrainDb::open(path, OpenOptions::default().busy_timeout(options.busy_timeout))?;
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let connection = for_writing(&path, options.busy_timeout)?;
        let busy_timeout = options.busy_timeout;
        Ok(Self { path, connection, busy_timeout, others: Others::default(), _lock: None })
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
    pub fn prepare(&self, at: &str) -> Result<(), SessionError> {
        self.write(|writes| writes.prepare(at))
    }

    /// Runs `work` in one write transaction: all of it or nothing.
    ///
    /// # Errors
    /// Errors of `work`, and of SQLite when it begins or commits.
    pub fn write<T, E: From<SessionError>>(
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
    pub fn write_back<T, E: From<SessionError>>(
        &self,
        work: impl FnOnce(&Writes<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.enforce_references(false)?;
        let done = self.write(work);
        self.enforce_references(true)?;
        done
    }

    fn enforce_references(&self, enforce: bool) -> Result<(), SessionError> {
        let set = self.connection.pragma_update(None, "foreign_keys", enforce);
        set.map_err(|error| self.explain("set up the connection", &error))
    }

    /// Runs `look` in one read transaction.
    ///
    /// # Errors
    /// Errors of `look`, and of SQLite when it begins.
    pub fn read<T, E: From<SessionError>>(
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
    pub fn met_others(&self) -> Result<bool, SessionError> {
        let version: i64 = self
            .connection
            .query_row("PRAGMA data_version", [], |row| row.get(0))
            .map_err(|error| self.explain("look for other writers", &error))?;
        let before = self.others.data_version.replace(Some(version));
        let wrote = before.is_some_and(|before| before != version);
        Ok(self.others.made_us_wait.take() || wrote)
    }

    /// Moves all of the write-ahead log into the store and truncates it. `false`: after waiting as
    /// long as for any lock, somebody still reads or writes the log. Writers wait meanwhile.
    ///
    /// SQLite begins its log anew only where no reader needs it. If reads follow each other without
    /// a gap, that never happens on its own, and the log grows without bound.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn empty_log(&self) -> Result<bool, SessionError> {
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
    fn begin(&self) -> Result<Transaction<'_>, SessionError> {
        let wait = |timeout| self.connection.busy_timeout(timeout);
        let begun = wait(Duration::ZERO).and_then(|()| self.begin_between_others());
        wait(self.busy_timeout).and(begun).map_err(|error| self.explain("begin to write", &error))
    }

    fn begin_between_others(&self) -> rusqlite::Result<Transaction<'_>> {
        let mut tries = self.busy_timeout.as_micros() / BETWEEN_TRIES.as_micros();
        loop {
            match Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate) {
                Err(error) if is_busy(&error) && tries > 0 => {
                    tries -= 1;
                    self.others.made_us_wait.set(true);
                    std::thread::sleep(BETWEEN_TRIES);
                }
                begun_or_not => return begun_or_not,
            }
        }
    }

    fn commit(&self, transaction: Transaction<'_>) -> Result<(), SessionError> {
        transaction.commit().map_err(|error| self.explain("commit", &error))
    }

    pub(crate) fn explain(&self, what: &'static str, error: &rusqlite::Error) -> SessionError {
        SessionError::of_sqlite(&self.path, what, error, Some(self.busy_timeout))
    }
}

impl BrainDb {
    /// Runs `look` over the store as it is at one instant, without leaving a trace.
    ///
    /// # Errors
    /// Errors of `look`, and of reading the store.
    pub fn look_on<T, E: From<SessionError>>(
        &self,
        look: impl Fn(&Writes<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let found = self.traceless(|_, connection| {
            Ok::<_, SessionError>(look(&Writes::new(connection, self.path())))
        });
        found?
    }

    /// Returns why memories are not moved out of the owner's tables, if anything forbids it: a foreign key or a trigger
    /// of the owner would change other tables along with them.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn move_refusal(&self) -> Result<Option<String>, SessionError> {
        self.look_on(|reads| Ok(reads.layout()?.move_refusal().map(str::to_owned)))
    }
}

/// Opens an existing store; never makes one, never changes its journal mode.
pub(crate) fn for_writing(path: &Path, busy_timeout: Duration) -> Result<Connection, SessionError> {
    let explain = |error: rusqlite::Error| {
        SessionError::of_sqlite(path, "open the store for writing", &error, Some(busy_timeout))
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
        return Err(SessionError::ReadOnly { path: path.to_owned(), reason });
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
    pub fn nested<T>(
        &self,
        work: impl FnOnce() -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
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
    pub fn layout(&self) -> Result<Layout, SessionError> {
        Layout::of(self.connection).map_err(self.explain("read the tables' columns"))
    }

    /// Runs a statement that writes; returns the number of rows.
    pub(crate) fn execute(
        &self,
        what: &'static str,
        sql: &str,
        params: impl Params,
    ) -> Result<usize, SessionError> {
        let run = || self.connection.prepare_cached(sql)?.execute(params);
        run().map_err(self.explain(what))
    }

    /// Runs statements as one step.
    pub(crate) fn query<T>(
        &self,
        what: &'static str,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, SessionError> {
        run(self.connection).map_err(self.explain(what))
    }

    fn explain(&self, what: &'static str) -> impl Fn(rusqlite::Error) -> SessionError + '_ {
        move |error| SessionError::of_sqlite(self.path, what, &error, None)
    }
}

/// Why a store cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// It cannot even be read.
    #[error(transparent)]
    Open(#[from] OpenStoreError),
    /// The file or its folder may not be written.
    #[error("{} cannot be written: {reason}", path.display())]
    ReadOnly {
        /// The store.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// Another run of memfold is at work.
    #[error("{} is locked by another run of memfold{}", path.display(), holder.as_ref().map_or_else(String::new, |by| format!(": {by}")))]
    LockedByRun {
        /// The store.
        path: PathBuf,
        /// The run, its start and its holder, if known.
        holder: Option<String>,
    },
    /// Another process holds SQLite's write lock.
    #[error("{} was locked by another process for {} ms; nothing is half done", path.display(), waited.as_millis())]
    Busy {
        /// The store.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// There is no room for the new rows.
    #[error("{} cannot grow: {shortage}; nothing is half done", path.display())]
    Full {
        /// The store.
        path: PathBuf,
        /// The resource that ran out.
        shortage: Shortage,
    },
    /// The disk fails, or the file is damaged.
    #[error("failed to {what} in {}: {reason}", path.display())]
    Broken {
        /// The store.
        path: PathBuf,
        /// The step that failed.
        what: &'static str,
        /// The SQLite error.
        reason: String,
    },
    /// One statement was refused: a trigger, a constraint, an altered table.
    #[error("failed to {what}: {reason}")]
    Refused {
        /// The step that failed.
        what: &'static str,
        /// The SQLite error.
        reason: String,
    },
    /// memfold's tables in the store are of a later version.
    #[error("the memfold tables of {} have version {found}, this program knows up to {known}", path.display())]
    NewerTables {
        /// The store.
        path: PathBuf,
        /// Their version.
        found: i64,
        /// The latest version that this program knows.
        known: i64,
    },
    /// Content that memfold wrote there cannot be understood.
    #[error("{what} in {} cannot be understood", path.display())]
    Unreadable {
        /// The store.
        path: PathBuf,
        /// The content.
        what: String,
    },
    /// No plan has that name.
    #[error("no saved plan is named \"{}\"", wanted.escape_debug())]
    UnknownPlan {
        /// The wanted name.
        wanted: String,
        /// Some of the existing plans, last saved first.
        candidates: Vec<String>,
    },
    /// Several names begin that way.
    #[error("several saved plans begin with \"{}\"", wanted.escape_debug())]
    AmbiguousPlan {
        /// The wanted name.
        wanted: String,
        /// Some of them, last saved first.
        candidates: Vec<String>,
    },
    /// The stored plan differs from the one that was written.
    #[error("saved plan {plan_id} is damaged: {column}: {}", reason.escape_debug())]
    DamagedPlan {
        /// The plan.
        plan_id: String,
        /// The column.
        column: &'static str,
        /// The defect.
        reason: String,
    },
    /// SQLite refuses.
    #[error("read the saved plans: {0}")]
    Plans(#[from] rusqlite::Error),
}

impl SessionError {
    /// Translates an SQLite error into the reason it has here.
    pub(crate) fn of_sqlite(
        path: &Path,
        what: &'static str,
        error: &rusqlite::Error,
        waited: Option<Duration>,
    ) -> Self {
        let reason = error.to_string();
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Busy { path, waited: waited.unwrap_or_default() }
            }
            Some(ErrorCode::DiskFull) => {
                let shortage = Shortage::find(&path).unwrap_or_else(|| Shortage::of_disk(&path));
                Self::Full { path, shortage }
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                Self::ReadOnly { path, reason }
            }
            Some(
                ErrorCode::SystemIoFailure
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::OutOfMemory
                | ErrorCode::FileLockingProtocolFailed,
            ) => match Shortage::find(&path) {
                Some(shortage) => Self::Full { path, shortage },
                None => Self::Broken { path, what, reason },
            },
            _ => Self::Refused { what, reason },
        }
    }

    /// Tells whether every later write would fail as well, so that a run should stop.
    #[must_use]
    pub const fn stops_the_run(&self) -> bool {
        !matches!(self, Self::Refused { .. } | Self::Unreadable { .. })
    }

    /// Tells whether another run holds the store.
    #[must_use]
    pub const fn is_locked_by_run(&self) -> bool {
        matches!(self, Self::LockedByRun { .. })
    }

    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Open(error) => error.hint(),
            Self::ReadOnly { .. } => Some(
                "memfold writes to the store, its log and a lock file beside it: check the \
                 permissions of the file and its folder"
                    .to_owned(),
            ),
            Self::LockedByRun { .. } => {
                Some("wait until it has finished; `memfold runs DB` shows it".to_owned())
            }
            Self::Busy { .. } => Some(
                "end what holds the store, or wait longer: --set busy_timeout_ms=60000; \
                 what was applied stays applied, running again continues"
                    .to_owned(),
            ),
            Self::Full { shortage: Shortage::FileSize, .. } => Some(
                "raise the limit (`ulimit -f unlimited`); what was applied stays applied, running again continues"
                    .to_owned(),
            ),
            Self::Full { .. } => Some(
                "make room; what was applied stays applied, running again continues".to_owned(),
            ),
            Self::Broken { .. } => Some(
                "run `PRAGMA integrity_check` on the store and look at the disk; what was \
                 applied can be undone"
                    .to_owned(),
            ),
            Self::NewerTables { .. } => {
                Some("use the version of memfold that wrote them, or a later one".to_owned())
            }
            Self::Unreadable { .. } => Some(
                "something else wrote to memfold's tables; docs/recovery.md says how to go on"
                    .to_owned(),
            ),
            Self::UnknownPlan { candidates, .. } if candidates.is_empty() => {
                Some("save one first: memfold consolidate DB --save-plan".to_owned())
            }
            Self::UnknownPlan { candidates, .. } | Self::AmbiguousPlan { candidates, .. } => {
                Some(format!("name one of {}, or latest", candidates.join(", ")))
            }
            Self::DamagedPlan { .. } => {
                Some("save it again: memfold consolidate DB --save-plan".to_owned())
            }
            Self::Refused { .. } | Self::Plans(_) => None,
        }
    }
}

impl Writes<'_> {
    /// Reads single memories as they are in this transaction.
    pub fn look_up<T, E: From<SessionError> + From<LoadStoreError>>(
        &self,
        request: &LoadRequest<'_>,
        read: impl FnOnce(&StoreReader<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let store = BrainDb::at(self.path(), OpenOptions::default());
        let denied = |error: std::io::Error| {
            let (path, reason) = (self.path().to_owned(), error.to_string());
            SessionError::from(OpenStoreError::Denied { path, reason })
        };
        let stamp = Stamp::take(self.path()).map_err(denied)?;
        let columns = Columns::of(self.connection(), "stm");
        let memory_columns = &columns.map_err(|error| store.failed(&stamp, "stm", &error))?;
        let (connection, stamp) = (self.connection(), &stamp);
        let pass = Pass { store: &store, stamp, memory_columns, connection, request };
        read(&StoreReader::over(pass)?)
    }
}
