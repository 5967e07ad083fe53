//! [`BrainDb`]: finding out whether a file is a store, and connecting to it.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use std::{fmt, fs, io};

use rusqlite::{Connection, ErrorCode};

use crate::brain_db::read::access::{
    Access, Columns, REQUIRED, StoreVersion, all, beside, cell0, hides_rowids, is_view,
};
use crate::error::StoreError;

/// How often a store is read without locks before a writer's haste calls for them.
const UNLOCKED_TRIES: u32 = 2;

/// Tables named in an error.
const TABLES_SHOWN: u32 = 10;

/// How to open a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    busy_timeout: Duration,
}

impl OpenOptions {
    /// The owner's own patience with locks.
    pub(crate) const BUSY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

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

/// An open connection, its way of reading and the version of the file before.
pub(crate) struct Reader {
    pub(crate) connection: Connection,
    pub(crate) access: Access,
    pub(crate) version: StoreVersion,
    pub(crate) memory_columns: Columns,
}

/// A connection that is kept between reads, as long as its owner lives.
#[derive(Default)]
pub struct KeptReader(Mutex<Option<Reader>>);

impl KeptReader {
    /// Takes the connection out, unless the store has moved on from under it.
    fn take(&self, store: &BrainDb) -> Result<Option<Reader>, StoreError> {
        let kept = self.0.lock().ok().and_then(|mut kept| kept.take());
        let Some(mut reader) = kept else { return Ok(None) };
        let Ok(now) = StoreVersion::take(&store.path) else { return Ok(None) };
        if !reader.version.still_serves(reader.access, &now, &store.path) {
            return Ok(None);
        }
        // The owner may have altered the table since.
        reader.memory_columns = store.memory_columns(&reader.connection, &now)?;
        reader.version = now;
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
    pub fn open(path: impl Into<PathBuf>, options: OpenOptions) -> Result<Self, StoreError> {
        let store = Self::at(path, options);
        store.connect(false)?;
        Ok(store)
    }

    /// Names a store without opening it: errors show when it is first read, and a single read costs
    /// one connection.
    pub fn at(path: impl Into<PathBuf>, options: OpenOptions) -> Self {
        Self { path: path.into(), options }
    }

    /// Returns the path of the store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Connects; `shared` takes SQLite's locks even where nobody else seems to have the store open.
    pub(crate) fn connect(&self, shared: bool) -> Result<Reader, StoreError> {
        let version = self.examine()?;
        let access = if shared { Access::Shared } else { version.access(&self.path) };
        let connection = access.open(&self.path, self.options.busy_timeout);
        let connection = connection.map_err(|error| self.explain(&error, &version))?;
        let memory_columns = self.memory_columns(&connection, &version)?;
        Ok(Reader { connection, access, version, memory_columns })
    }

    /// Reads in one read transaction without leaving a trace; again where somebody wrote meanwhile and no
    /// lock kept them from it.
    pub(crate) fn traceless<T, E: From<StoreError>>(
        &self,
        read: impl FnMut(&Reader, &Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        self.traceless_again(&KeptReader::default(), read)
    }

    /// As [`Self::traceless`], by the connection that the last call left in `kept` where that sees the store as it is.
    pub(crate) fn traceless_again<T, E: From<StoreError>>(
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
                || StoreVersion::take(&self.path).is_ok_and(|after| after == reader.version);
            if is_settled {
                kept.put(reader);
                return found;
            }
        }
        self.read_once(&self.connect(true)?, &mut read)
    }

    fn read_once<T, E: From<StoreError>>(
        &self,
        reader: &Reader,
        read: &mut impl FnMut(&Reader, &Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let begun = reader.connection.unchecked_transaction();
        let transaction = begun.map_err(|error| self.explain(&error, &reader.version))?;
        read(reader, &transaction)
    }

    /// Translates an SQLite error into the reason it has here.
    pub(crate) fn explain(&self, error: &rusqlite::Error, version: &StoreVersion) -> StoreError {
        let path = self.path.clone();
        let mut reason = error.to_string();
        if error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure)
            && let Some(shortage) = Shortage::find(&path)
        {
            reason = format!("{reason}: {shortage}");
        }
        match (error.sqlite_error_code(), error.sqlite_error().map(|e| e.extended_code)) {
            (Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked), _) => {
                StoreError::Locked { path, waited: self.options.busy_timeout }
            }
            (_, Some(rusqlite::ffi::SQLITE_READONLY_ROLLBACK)) => {
                StoreError::HotJournal { path, reason }
            }
            (Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase), _) => {
                StoreError::Damaged { path, reason }
            }
            (Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly), _) if version.has_log() => {
                StoreError::HotWal { path, reason }
            }
            (Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied), _) => {
                StoreError::Denied { path, reason }
            }
            _ => StoreError::Sqlite { path, reason },
        }
    }

    /// Examines the file itself, because SQLite's own messages say too little.
    fn examine(&self) -> Result<StoreVersion, StoreError> {
        let path = || self.path.clone();
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::Missing { path: path() },
            _ => StoreError::Denied { path: path(), reason: error.to_string() },
        };
        let metadata = fs::metadata(&self.path).map_err(refused)?;
        if !metadata.is_file() {
            let found = match metadata.is_dir() {
                true => folder_of_what(&self.path),
                false => "no regular file",
            };
            return Err(StoreError::NotAFile { path: path(), found });
        }
        if metadata.len() == 0 {
            return Err(StoreError::Empty { path: path() });
        }
        let version = StoreVersion::take(&self.path).map_err(refused)?;
        if !version.is_sqlite() {
            let head = &version.header()[..version.header().len().min(16)];
            if matches!(head.trim_ascii_start().first(), Some(b'{' | b'[')) {
                return Err(StoreError::NotAFile { path: path(), found: JSON_FILE });
            }
            let found = format!("\"{}\"", head.escape_ascii());
            return Err(StoreError::NotADatabase { path: path(), found });
        }
        Ok(version)
    }

    fn memory_columns(
        &self,
        connection: &Connection,
        version: &StoreVersion,
    ) -> Result<Columns, StoreError> {
        let explain = |error| self.explain(&error, version);
        let columns = Columns::of(connection, "stm").map_err(explain)?;
        if columns.is_empty() {
            let tables = table_names(connection).map_err(explain)?;
            return Err(StoreError::NoMemoryTable { path: self.path.clone(), tables });
        }
        let missing: Vec<_> = REQUIRED.into_iter().filter(|name| !columns.has(name)).collect();
        if !missing.is_empty() {
            return Err(StoreError::MissingColumns { path: self.path.clone(), missing });
        }
        for table in ["stm", "embeddings"] {
            let path = || self.path.clone();
            if is_view(connection, table).map_err(explain)? {
                return Err(StoreError::IsView { path: path(), table });
            }
            if hides_rowids(connection, table).map_err(explain)? {
                return Err(StoreError::RowidColumn { path: path(), table });
            }
        }
        Ok(columns)
    }
}

fn table_names(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'
               ORDER BY name LIMIT ?1";
    all(connection, sql, [TABLES_SHOWN], cell0)
}

impl BrainDb {
    /// Reads in one read transaction, again where somebody wrote meanwhile. `table` names the
    /// table.
    pub(crate) fn consult<T>(
        &self,
        table: &'static str,
        read: impl Fn(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.traceless(|reader, connection| {
            read(connection).map_err(|error| self.failed(&reader.version, table, &error))
        })
    }

    /// As [`Self::consult`], of a table of ours with its columns; nothing where it does not exist.
    pub(crate) fn consult_own<T: Default>(
        &self,
        table: &'static str,
        read: impl Fn(&Connection, &Columns) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.consult(table, |connection| {
            let columns = Columns::of(connection, table)?;
            if columns.is_empty() { Ok(T::default()) } else { read(connection, &columns) }
        })
    }
}

/// A file that is not a store but has a hint of its own.
pub(crate) const JSON_FILE: &str = "a JSON file";
pub(crate) const JSON_FOLDER: &str = "a folder of JSON files";

fn folder_of_what(folder: &Path) -> &'static str {
    if folder.join(".git").exists() {
        return "a git repository without notes of memories";
    }
    let names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .take(ENTRIES_READ)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    if let Some(foreign) = Foreign::of(|foreign| foreign.entries, &names) {
        return foreign.name;
    }
    let is_json = names.iter().any(|name| name.ends_with(".json"));
    if is_json { JSON_FOLDER } else { "a folder" }
}

/// Entries of a folder that identify its kind.
const ENTRIES_READ: usize = 100;

/// A store of another system that memfold does not open in place, and the command that exports its
/// memories to a file that memfold reads.
pub(crate) struct Foreign {
    name: &'static str,
    /// Endings of the names of entries in its folder, one entry each; none: it is not a folder.
    entries: &'static [&'static str],
    /// Endings of the names of its tables, one table each; none: it is not an SQLite file.
    pub(crate) tables: &'static [&'static str],
    /// A command; `PATH` is the store.
    export: &'static str,
}

const CHROMA: &str = "python3 -c 'import chromadb, json; json.dump(chromadb.PersistentClient(\"PATH\")\
                      .get_collection(\"NAME\").get(), open(\"notes.json\", \"w\"))'";
const FOREIGN: [Foreign; 5] = [
    Foreign {
        name: "a Chroma store",
        entries: &["chroma.sqlite3"],
        tables: &["collection_metadata", "embedding_fulltext_search"],
        export: CHROMA,
    },
    Foreign {
        name: "a local Qdrant store",
        entries: &["collection", "meta.json"],
        tables: &[],
        export: "python3 -c 'import json, qdrant_client as q; json.dump([p.model_dump() for p in q.QdrantClient(\
                 path=\"PATH\").scroll(\"NAME\", limit=10**6, with_vectors=True)[0]], open(\"notes.json\", \"w\"))'",
    },
    Foreign {
        name: "a LanceDB store",
        entries: &[".lance"],
        tables: &[],
        export: "python3 -c 'import lancedb; lancedb.connect(\"PATH\").open_table(\"NAME\").to_pandas()\
                 .to_json(\"notes.json\", orient=\"records\")'",
    },
    Foreign {
        name: "a history of mem0",
        entries: &[],
        tables: &["history", "messages"],
        export: "python3 -c 'import json, mem0; json.dump(mem0.Memory().get_all(filters={\"user_id\": \"NAME\"}), \
                 open(\"notes.json\", \"w\"))'",
    },
    Foreign {
        name: "a database of sqlite-vec",
        entries: &[],
        tables: &["_chunks", "_rowids"],
        export: "sqlite3 -json -cmd '.load vec0' PATH 'SELECT * FROM NAME' > notes.json",
    },
];

impl Foreign {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        FOREIGN.iter().find(|it| it.name == name)
    }

    /// Finds the system for which each mark ends one of the names.
    pub(crate) fn of(
        marks: fn(&Self) -> &'static [&'static str],
        names: &[String],
    ) -> Option<&'static Self> {
        let ends_one = |mark: &&str| names.iter().any(|name| name.ends_with(*mark));
        FOREIGN.iter().find(|it| !marks(it).is_empty() && marks(it).iter().all(ends_one))
    }

    pub(crate) fn hint(&self, path: &Path) -> String {
        // Chroma is opened by its folder.
        let path = match path.parent() {
            Some(folder) if path.ends_with("chroma.sqlite3") => folder,
            _ => path,
        };
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let export = self.export.replace("PATH", &path.display().to_string());
        format!(
            "it is {}; write its memories to a file and read that: {export} && memfold consolidate notes.json",
            self.name
        )
    }
}

/// Size of a trial write: an index of a write-ahead log, which SQLite allocates at once.
const TRIED_BYTES: usize = 64 << 10;

/// Why a store cannot grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shortage {
    /// The disk is full.
    Disk {
        /// Bytes that are free; `None` where the system does not tell.
        free: Option<u64>,
    },
    /// The user's quota on this disk is used up.
    Quota,
    /// The process may not make files as large (`ulimit -f`).
    FileSize,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk { free: None } => f.write_str("the disk is full"),
            Self::Disk { free: Some(free) } => {
                write!(f, "the disk is full ({free} bytes are free)")
            }
            Self::Quota => f.write_str("the disk quota is used up"),
            Self::FileSize => f.write_str("the limit on the size of files is reached (ulimit -f)"),
        }
    }
}

impl Shortage {
    /// The shortage behind SQLite's error that the disk is full.
    pub(crate) fn of_disk(store: &Path) -> Self {
        Self::Disk { free: free_bytes(store) }
    }

    /// Finds out whether a file beside the store can be as long as the store's and a little longer; `None` where it can.
    ///
    /// Asks the system by writing a file without a name: only after a write of ours has failed.
    pub(crate) fn find(store: &Path) -> Option<Self> {
        let error = grow_beside(store).err()?;
        match error.kind() {
            io::ErrorKind::StorageFull => Some(Self::of_disk(store)),
            io::ErrorKind::QuotaExceeded => Some(Self::Quota),
            io::ErrorKind::FileTooLarge => Some(Self::FileSize),
            _ => None,
        }
    }
}

fn grow_beside(store: &Path) -> io::Result<()> {
    let files = ["", "-wal", "-journal"].map(|suffix| beside(store, suffix).metadata());
    let longest = files.iter().flatten().map(|found| found.len()).max().unwrap_or(0);
    let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::tempfile_in(folder.unwrap_or(Path::new(".")))?;
    let bytes = [0; TRIED_BYTES];
    file.write_all(&bytes)?;
    // The gap takes no room.
    file.seek(SeekFrom::Start(longest))?;
    file.write_all(&bytes)?;
    file.sync_all()
}

/// Returns the bytes that this user may still write to the disk of a file.
#[cfg(unix)]
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
pub(crate) fn free_bytes(_path: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_with_room_lacks_nothing_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("brain.db");
        std::fs::write(&store, [7; 100]).unwrap();
        assert_eq!(Shortage::find(&store), None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_short_is_said_with_what_is_left() {
        let said = |shortage: Shortage| shortage.to_string();
        assert_eq!(said(Shortage::Disk { free: Some(0) }), "the disk is full (0 bytes are free)");
        assert_eq!(said(Shortage::Quota), "the disk quota is used up");
        assert!(said(Shortage::FileSize).contains("ulimit -f"));
    }
}
