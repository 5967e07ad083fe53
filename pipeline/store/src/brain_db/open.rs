//! [`BrainDb`]: finding out whether a file is a store, and connecting to it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::access::{Access, Stamp};
use super::columns::{self, Columns, REQUIRED};
use super::error::OpenStoreError;
use super::session::Shortage;

/// How often a store is read without locks before a writer's haste calls for them.
pub(super) const UNLOCKED_TRIES: u32 = 2;

/// Tables named in an error.
const TABLES_SHOWN: u32 = 10;

/// How to open a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    busy_timeout: Duration,
}

impl OpenOptions {
    /// The owner's own patience with locks.
    pub const BUSY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

    /// Sets how long to wait for a lock of another process (default 5 s).
    #[must_use]
    pub const fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self { busy_timeout: Self::BUSY_TIMEOUT_DEFAULT }
    }
}

/// A `brain.db` that is only read.
#[derive(Debug, Clone)]
pub struct BrainDb {
    path: PathBuf,
    options: OpenOptions,
}

/// An open connection, how it reads and what the file looked like before.
pub(super) struct Reader {
    pub(super) connection: Connection,
    pub(super) access: Access,
    pub(super) stamp: Stamp,
    pub(super) memory_columns: Columns,
}

/// A connection that is kept from one look to the next, as long as whoever holds this lives.
#[derive(Default)]
pub struct KeptReader(Mutex<Option<Reader>>);

impl KeptReader {
    /// Takes the connection out, unless the store has moved on from under it.
    fn take(&self, store: &BrainDb) -> Result<Option<Reader>, OpenStoreError> {
        let kept = self.0.lock().ok().and_then(|mut kept| kept.take());
        let Some(mut reader) = kept else { return Ok(None) };
        let Ok(now) = Stamp::take(&store.path) else { return Ok(None) };
        if !reader.stamp.still_serves(reader.access, &now, &store.path) {
            return Ok(None);
        }
        // The owner may have altered the table since.
        reader.memory_columns = store.memory_columns(&reader.connection, &now)?;
        reader.stamp = now;
        Ok(Some(reader))
    }

    fn put(&self, reader: Reader) {
        if let Ok(mut kept) = self.0.lock() {
            *kept = Some(reader);
        }
    }
}

impl BrainDb {
    /// Finds out whether `path` holds a readable store; neither creates nor changes any file.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn open(path: impl Into<PathBuf>, options: OpenOptions) -> Result<Self, OpenStoreError> {
        let store = Self::at(path, options);
        store.connect(false)?;
        Ok(store)
    }

    /// Names a store without looking at it: what is wrong with it shows when it is first read, and what is read once
    /// costs one connection.
    pub fn at(path: impl Into<PathBuf>, options: OpenOptions) -> Self {
        Self { path: path.into(), options }
    }

    /// Returns the path of the store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Connects; `shared` takes SQLite's locks even where nobody else seems to have the store open.
    pub(super) fn connect(&self, shared: bool) -> Result<Reader, OpenStoreError> {
        let stamp = self.examine()?;
        let access = if shared { Access::Shared } else { stamp.access(&self.path) };
        let connection = self.connection(access).map_err(|error| self.explain(&error, &stamp))?;
        let memory_columns = self.memory_columns(&connection, &stamp)?;
        Ok(Reader { connection, access, stamp, memory_columns })
    }

    /// Reads in one read transaction without leaving a trace; again where somebody wrote meanwhile and no
    /// lock kept them from it.
    pub(super) fn traceless<T, E: From<OpenStoreError>>(
        &self,
        mut read: impl FnMut(&Reader, &Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        for _ in 0..UNLOCKED_TRIES {
            let reader = self.connect(false)?;
            let found = self.read_once(&reader, &mut read);
            let (is_isolated, before) = (reader.access.is_isolated(), reader.stamp.clone());
            drop(reader);
            if is_isolated || Stamp::take(&self.path).is_ok_and(|after| after == before) {
                return found;
            }
        }
        self.read_once(&self.connect(true)?, &mut read)
    }

    /// As [`Self::traceless`], by the connection that the last call left in `kept` where that sees the store as it is.
    pub(super) fn traceless_again<T, E: From<OpenStoreError>>(
        &self,
        kept: &KeptReader,
        mut read: impl FnMut(&Reader, &Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        for _ in 0..UNLOCKED_TRIES {
            let reader = match kept.take(self)? {
                Some(reader) => reader,
                None => self.connect(false)?,
            };
            let found = self.read_once(&reader, &mut read);
            let is_settled = reader.access.is_isolated()
                || Stamp::take(&self.path).is_ok_and(|after| after == reader.stamp);
            if is_settled {
                kept.put(reader);
                return found;
            }
        }
        self.read_once(&self.connect(true)?, &mut read)
    }

    fn read_once<T, E: From<OpenStoreError>>(
        &self,
        reader: &Reader,
        read: &mut impl FnMut(&Reader, &Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let begun = reader.connection.unchecked_transaction();
        let transaction = begun.map_err(|error| self.explain(&error, &reader.stamp))?;
        read(reader, &transaction)
    }

    /// Turns what SQLite says into what it means here.
    pub(super) fn explain(&self, error: &rusqlite::Error, stamp: &Stamp) -> OpenStoreError {
        let path = self.path.clone();
        let mut reason = error.to_string();
        if error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
            && let Some(shortage) = Shortage::find(&path)
        {
            reason = format!("{reason}: {shortage}");
        }
        match (error.sqlite_error_code(), error.sqlite_error().map(|e| e.extended_code)) {
            (Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked), _) => {
                OpenStoreError::Locked { path, waited: self.options.busy_timeout }
            }
            (_, Some(rusqlite::ffi::SQLITE_READONLY_ROLLBACK)) => {
                OpenStoreError::HotJournal { path, reason }
            }
            (Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase), _) => {
                OpenStoreError::Damaged { path, reason }
            }
            (Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly), _) if stamp.has_log() => {
                OpenStoreError::HotWal { path, reason }
            }
            (Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied), _) => {
                OpenStoreError::Denied { path, reason }
            }
            _ => OpenStoreError::Sqlite { path, reason },
        }
    }

    /// Looks at the file itself, because SQLite's own messages say too little.
    fn examine(&self) -> Result<Stamp, OpenStoreError> {
        let path = || self.path.clone();
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => OpenStoreError::Missing { path: path() },
            _ => OpenStoreError::Denied { path: path(), reason: error.to_string() },
        };
        let metadata = fs::metadata(&self.path).map_err(refused)?;
        if !metadata.is_file() {
            let found = if metadata.is_dir() { "a folder" } else { "no regular file" };
            return Err(OpenStoreError::NotAFile { path: path(), found });
        }
        if metadata.len() == 0 {
            return Err(OpenStoreError::Empty { path: path() });
        }
        let stamp = Stamp::take(&self.path).map_err(refused)?;
        if !stamp.is_sqlite() {
            let head = &stamp.header()[..stamp.header().len().min(16)];
            let found = format!("\"{}\"", head.escape_ascii());
            return Err(OpenStoreError::NotADatabase { path: path(), found });
        }
        Ok(stamp)
    }

    fn connection(&self, access: Access) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(access.uri(&self.path), flags)?;
        connection.busy_timeout(self.options.busy_timeout)?;
        // Whatever the log holds stays there when we leave.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        if access == Access::PrivateLog {
            // Keeps the log's index in our memory instead of a file.
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        }
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }

    fn memory_columns(
        &self,
        connection: &Connection,
        stamp: &Stamp,
    ) -> Result<Columns, OpenStoreError> {
        let explain = |error| self.explain(&error, stamp);
        let columns = Columns::of(connection, "stm").map_err(explain)?;
        if columns.is_empty() {
            let tables = table_names(connection).map_err(explain)?;
            return Err(OpenStoreError::NoMemoryTable { path: self.path.clone(), tables });
        }
        let missing: Vec<_> = REQUIRED.into_iter().filter(|name| !columns.has(name)).collect();
        if !missing.is_empty() {
            return Err(OpenStoreError::MissingColumns { path: self.path.clone(), missing });
        }
        for table in ["stm", "embeddings"] {
            let path = || self.path.clone();
            if columns::is_view(connection, table).map_err(explain)? {
                return Err(OpenStoreError::IsView { path: path(), table });
            }
            if columns::hides_rowids(connection, table).map_err(explain)? {
                return Err(OpenStoreError::RowidColumn { path: path(), table });
            }
        }
        Ok(columns)
    }
}

fn table_names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
         ORDER BY name LIMIT ?1",
    )?;
    statement.query_map([TABLES_SHOWN], |row| row.get(0))?.collect()
}
