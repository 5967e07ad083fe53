//! [`OpenStoreError`].

use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a `brain.db` cannot be opened for reading.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStoreError {
    /// Nothing is there.
    #[error("{} does not exist", path.display())]
    Missing {
        /// Where it was expected.
        path: PathBuf,
    },
    /// A folder, or something else that is no file.
    #[error("{} is {found}, expected a SQLite file", path.display())]
    NotAFile {
        /// What was given.
        path: PathBuf,
        /// What it is.
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
        /// What the system says.
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
        /// What SQLite says.
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
        /// What SQLite says.
        reason: String,
    },
    /// A writer died in the middle of a transaction that must be rolled back first.
    #[error("{} has a hot rollback journal: {reason}", path.display())]
    HotJournal {
        /// The file.
        path: PathBuf,
        /// What SQLite says.
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
        /// What SQLite says.
        reason: String,
    },
}

impl OpenStoreError {
    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Missing { .. } => "check the path; memfold reads stores, it creates none".into(),
            Self::NotAFile { path, .. } => {
                format!("name the file itself, for example {}", path.join("brain.db").display())
            }
            Self::Empty { .. } => "the store's owner writes its tables on first use".into(),
            Self::Denied { .. } => {
                "run as the user who owns the store, or grant it read access".into()
            }
            Self::NotADatabase { .. } => {
                "an encrypted store must be decrypted first; a file of vectors alone is no store"
                    .into()
            }
            Self::Damaged { .. } => {
                "run `sqlite3 FILE 'PRAGMA integrity_check'`; restore a backup or try `.recover`"
                    .into()
            }
            Self::NoMemoryTable { .. } | Self::MissingColumns { .. } => {
                "a brain.db has a table stm with id, content, categories, importance, created_at, \
                 access_count and source"
                    .into()
            }
            Self::IsView { .. } => "name the file that holds the table itself; a view neither keeps rows nor takes them".into(),
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
            Self::Locked { .. } => {
                "stop the process that holds it, or wait longer with --set busy_timeout_ms=60000"
                    .into()
            }
            Self::Sqlite { .. } => return None,
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
