//! [`StoreError`]: why a store cannot be opened, read or written.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::ErrorCode;

use crate::brain_db::read::open::{Foreign, JSON_FILE, JSON_FOLDER, Shortage};

/// Why a `brain.db` cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Nothing is there.
    #[error("{} does not exist", path.display())]
    Missing {
        /// Where it was expected.
        path: PathBuf,
    },
    /// A folder, or another path that is not a file.
    #[error("{} is {found}, expected a SQLite file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// The kind of file found.
        found: &'static str,
    },
    /// A file of no bytes.
    #[error("{} is empty (0 bytes), expected a SQLite file", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refuses.
    #[error("{} cannot be read: {reason}", path.display())]
    Denied {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: String,
    },
    /// It does not begin as a SQLite file does.
    #[error("{} is no SQLite file: it begins with {found}, expected \"SQLite format 3\"", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
        /// Its first bytes, escaped.
        found: String,
    },
    /// It begins as a SQLite file and is damaged further on.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The SQLite error.
        reason: String,
    },
    /// A SQLite file of something else.
    #[error("{} has no table stm, found {}", path.display(), list(tables))]
    NoMemoryTable {
        /// The file.
        path: PathBuf,
        /// The tables it has, at most ten, by name.
        tables: Vec<String>,
    },
    /// A memory table of another shape.
    #[error("table stm of {} has no column {}", path.display(), missing.join(", "))]
    MissingColumns {
        /// The file.
        path: PathBuf,
        /// The columns it lacks.
        missing: Vec<&'static str>,
    },
    /// A view in place of a table.
    #[error("{table} of {} is a view, expected a table", path.display())]
    IsView {
        /// The file.
        path: PathBuf,
        /// Which table it should be.
        table: &'static str,
    },
    /// A column that hides the numbers of rows.
    #[error("table {table} of {} has a column named rowid, which hides the numbers of its rows", path.display())]
    RowidColumn {
        /// The file.
        path: PathBuf,
        /// The table.
        table: &'static str,
    },
    /// Its write-ahead log holds changes that cannot be read from here.
    #[error("the write-ahead log of {} cannot be read: {reason}", path.display())]
    HotWal {
        /// The file.
        path: PathBuf,
        /// The SQLite error.
        reason: String,
    },
    /// A writer died in the middle of a transaction that must be rolled back first.
    #[error("{} has a hot rollback journal: {reason}", path.display())]
    HotJournal {
        /// The file.
        path: PathBuf,
        /// The SQLite error.
        reason: String,
    },
    /// Another process holds an exclusive lock.
    #[error("{} was locked by another process for {} ms", path.display(), waited.as_millis())]
    Locked {
        /// The file.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// Anything else.
    #[error("open {}: {reason}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The SQLite error.
        reason: String,
    },
    /// A table cannot be read to its end.
    #[error("read table {table} of {}: {reason}", path.display())]
    Read {
        /// The store.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// The SQLite error.
        reason: String,
    },
    /// Somebody wrote while the store was read, and the vectors already taken cannot be given back.
    #[error("{} was changed by another process while it was read", path.display())]
    Changed {
        /// The store.
        path: PathBuf,
    },
    /// Memories are numbered with 32 bits.
    #[error("the store holds more than {limit} memories")]
    TooManyRows {
        /// How many can be loaded.
        limit: u32,
    },
    /// The vectors could not be kept.
    #[error("keep the vectors of the store: {0}")]
    Sink(#[source] std::io::Error),
    /// The caller cancelled.
    #[error("interrupted")]
    Cancelled,
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
}

impl StoreError {
    /// Translates an SQLite error of a step that may write.
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

    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let at = |path: &Path| path.join("brain.db").display().to_string();
        Some(match self {
            Self::NotAFile { found: JSON_FILE, path } => {
                format!("memfold import {} --into brain.db makes a store of it", path.display())
            }
            Self::NotAFile { found: JSON_FOLDER, path } => format!(
                "where its entries are memories: --store-kind json_folder; else import one of its files, or name \
                 a file, for example {}",
                at(path)
            ),
            Self::NotAFile { found, path } => match Foreign::named(found) {
                Some(foreign) => foreign.hint(path),
                None => format!(
                    "name the file itself, for example {}, or the kind of the folder with --store-kind: none \
                     was recognised (its Markdown files, _index.json or notes in refs/notes/mem)",
                    at(path)
                ),
            },
            Self::NoMemoryTable { path, tables }
                if let Some(foreign) = Foreign::of(|it| it.tables, tables) =>
            {
                foreign.hint(path)
            }
            Self::RowidColumn { table, .. } => {
                format!("rename it: ALTER TABLE {table} RENAME COLUMN rowid TO row_number")
            }
            Self::HotWal { path, .. } => format!(
                "copy {} together with its -wal file into a folder that you can write, and read it there",
                name(path)
            ),
            Self::HotJournal { path, .. } => format!(
                "open {} once with a program that may write (`sqlite3 FILE 'SELECT 1 FROM stm'`), \
                 which rolls it back",
                name(path)
            ),
            Self::UnknownPlan { candidates, .. } | Self::AmbiguousPlan { candidates, .. }
                if !candidates.is_empty() =>
            {
                format!("name one of {}, or latest", candidates.join(", "))
            }
            error => return error.fixed_hint().map(str::to_owned),
        })
    }

    /// Returns advice that names nothing of the error.
    const fn fixed_hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Missing { .. } => "check the path; memfold reads stores, it creates none",
            Self::Empty { .. } => "the store's owner writes its tables on first use",
            Self::Denied { .. } => "run as the user who owns the store, or grant it read access",
            Self::NotADatabase { .. } => {
                "an encrypted store must be decrypted first; a file of vectors alone is no store"
            }
            Self::Damaged { .. } => {
                "run `sqlite3 FILE 'PRAGMA integrity_check'`; restore a backup or try `.recover`"
            }
            Self::NoMemoryTable { .. } | Self::MissingColumns { .. } => {
                "a brain.db has a table stm with id, content, categories, importance, created_at, \
                 access_count and source"
            }
            Self::IsView { .. } => {
                "name the file that holds the table itself; a view neither keeps rows nor takes them"
            }
            Self::Locked { .. } => {
                "stop the process that holds it, or wait longer with --set busy_timeout_ms=60000"
            }
            Self::Read { .. } => {
                "run `PRAGMA integrity_check` on the store; if it is damaged, restore a backup"
            }
            Self::Changed { .. } => "run the command again",
            Self::Sink(_) => "check the free space of the folder for temporary files",
            Self::ReadOnly { .. } => {
                "memfold writes to the store, its log and a lock file beside it: check the \
                 permissions of the file and its folder"
            }
            Self::LockedByRun { .. } => "wait until it has finished; `memfold runs DB` shows it",
            Self::Busy { .. } => {
                "end what holds the store, or wait longer: --set busy_timeout_ms=60000; \
                 what was applied stays applied, running again continues"
            }
            Self::Full { shortage: Shortage::FileSize, .. } => {
                "raise the limit (`ulimit -f unlimited`); what was applied stays applied, running again continues"
            }
            Self::Full { .. } => {
                "make room; what was applied stays applied, running again continues"
            }
            Self::Broken { .. } => {
                "run `PRAGMA integrity_check` on the store and look at the disk; what was \
                 applied can be undone"
            }
            Self::NewerTables { .. } => {
                "use the version of memfold that wrote them, or a later one"
            }
            Self::Unreadable { .. } => {
                "something else wrote to memfold's tables; docs/recovery.md says how to go on"
            }
            Self::UnknownPlan { .. } => "save one first: memfold consolidate DB --save-plan",
            Self::DamagedPlan { .. } => "save it again: memfold consolidate DB --save-plan",
            _ => return None,
        })
    }
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into())
}

fn list(tables: &[String]) -> String {
    if tables.is_empty() {
        return "no tables at all".into();
    }
    tables.iter().map(|table| table.escape_debug().to_string()).collect::<Vec<_>>().join(", ")
}
