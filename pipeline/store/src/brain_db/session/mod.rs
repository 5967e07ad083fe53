//! [`Session`]: the right to write to a store that belongs to somebody else.
//!
//! Every write is one short `BEGIN IMMEDIATE` transaction. The journal mode stays as the owner set it, foreign
//! keys are enforced, commits reach the disk. One run at a time: a lock file beside the store says who.

mod error;
mod room;
mod connect;
mod lock;
mod writes;
mod layout;
mod reactions;
mod rows;
mod insert;
mod import;
mod fts;
mod embeddings;
mod apply;
mod archive;
mod erase;
mod backup;
mod review;
mod runs;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

pub use backup::BackupOutcome;
pub use error::SessionError;
pub use room::Shortage;
pub use writes::Writes;

pub use apply::{Mark, apply};
pub use archive::archived_image;
pub use embeddings::NewEmbedding;
pub use fts::Words;
pub use import::ImportedMemory;
pub use insert::NewRow;
pub use layout::Layout;
pub(in crate::brain_db) use lock::lock_path;
pub(in crate::brain_db) use reactions::of as reactions;
pub use rows::{NowRows, Reference, UnitRow};

use self::lock::StoreLock;
use super::own;
use super::{BrainDb, OpenOptions};

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
    /// Who writes: shown to whoever finds the store locked.
    pub holder: String,
}

/// A store that is open for writing.
pub struct Session {
    path: PathBuf,
    connection: Connection,
    busy_timeout: Duration,
    /// Held while a run writes; `None` for writes to our own tables only.
    _lock: Option<StoreLock>,
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
    /// When it is no store, cannot be written, or another run holds it.
    pub fn open(path: &Path, options: &SessionOptions) -> Result<Self, SessionError> {
        let mut session = Self::open_beside_runs(path, options)?;
        session._lock = Some(StoreLock::take(&session.path, &options.holder, || {
            own::running(&session.connection).ok().flatten()
        })?);
        Ok(session)
    }

    /// Opens a store for writes to memfold's own tables only, such as saving or reviewing a plan.
    ///
    /// # Errors
    /// When it is no store or cannot be written.
    pub fn open_beside_runs(path: &Path, options: &SessionOptions) -> Result<Self, SessionError> {
        BrainDb::open(path, OpenOptions::default().busy_timeout(options.busy_timeout))?;
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let connection = connect::for_writing(&path, options.busy_timeout)?;
        Ok(Self { path, connection, busy_timeout: options.busy_timeout, _lock: None })
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
    /// Those of `work`, and what keeps SQLite from beginning or committing.
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

    /// As [`Self::write`], for rows that come back as they were: what they refer to may be gone, as it may have
    /// been before, where the owner enforces no foreign keys.
    ///
    /// # Errors
    /// Those of `work`, and what keeps SQLite from beginning or committing.
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
    /// Those of `look`, and what keeps SQLite from beginning.
    pub fn read<T, E: From<SessionError>>(
        &self,
        look: impl FnOnce(&Writes<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let begin = self.connection.unchecked_transaction();
        let transaction = begin.map_err(|error| self.explain("read the store", &error))?;
        look(&Writes::new(&transaction, &self.path))
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
                    std::thread::sleep(BETWEEN_TRIES);
                }
                begun_or_not => return begun_or_not,
            }
        }
    }

    fn commit(&self, transaction: Transaction<'_>) -> Result<(), SessionError> {
        transaction.commit().map_err(|error| self.explain("commit", &error))
    }

    fn explain(&self, what: &'static str, error: &rusqlite::Error) -> SessionError {
        SessionError::of_sqlite(&self.path, what, error, Some(self.busy_timeout))
    }
}

impl BrainDb {
    /// Runs `look` over the store as it is at one instant, without leaving a trace.
    ///
    /// # Errors
    /// Those of `look`, and what keeps the store from being read.
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
