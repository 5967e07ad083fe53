//! Writes new `brain.db` files: samples, fixtures and generated stores of any size.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};
use tempfile::TempPath;

use crate::brain_db::read::access::beside;
use crate::whole_file;
use memfold_core::row::categories_to_json;
use memfold_datasets::atomic_file::NewFile;
use memfold_index::file::FileMode;

/// Rows per transaction.
const BATCH_ROWS: u64 = 10_000;
/// The owner embeds this many characters of a text and keeps them beside the vector.
const EMBEDDED_CHARS: usize = 1000;
/// SQLite's page cache in KiB: the indexes of a million random ids fit.
const CACHE_KIB: i64 = 192 * 1024;

/// How to create a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateOptions {
    /// Whether an existing file is replaced.
    pub overwrite: bool,
    /// Whether the file is in WAL mode, as the owner sets it, or keeps a rollback journal.
    pub wal: bool,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self { overwrite: false, wal: true }
    }
}

/// A memory to write.
#[derive(Debug, Clone, Copy)]
pub struct NewMemory<'a> {
    /// Its id, unique.
    pub id: &'a str,
    /// Its text.
    pub content: &'a str,
    /// Its categories.
    pub categories: &'a [&'a str],
    /// Its importance.
    pub importance: f64,
    /// How often it was read.
    pub access_count: i64,
    /// When it was made, as the column shall hold it.
    pub created_at: &'a str,
    /// When it was last changed.
    pub updated_at: Option<&'a str>,
    /// When it stops to count.
    pub expires_at: Option<&'a str>,
    /// Where it came from.
    pub source: &'a str,
    /// Its vector.
    pub vector: Option<&'a [f32]>,
    /// The text that the vector was made for, where that is an earlier wording.
    pub embedded_text: Option<&'a str>,
    /// The vector's model.
    pub model: Option<&'a str>,
}

/// Why a store could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateStoreError {
    /// A file is there.
    #[error("{} exists", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file cannot be made, renamed or removed.
    #[error("write {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// SQLite refuses.
    #[error("write memory {row} of {}: {reason}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The memory's number, from 0.
        row: u64,
        /// The SQLite error.
        reason: String,
    },
}

impl CreateStoreError {
    /// Returns advice for the user, if there is any.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Exists { .. } => Some("name another file, or remove this one first".into()),
            Self::File { .. } => Some("check that the folder exists and can be written".into()),
            Self::Sqlite { .. } => None,
        }
    }
}

/// A store that is being made, under a name of its own beside its place; dropped before it is published, it leaves nothing
/// behind.
#[derive(Debug)]
pub struct NewStore {
    file: TempPath,
    place: PathBuf,
}

impl NewStore {
    /// Makes the owner's tables in a new file with `mode`, as far as the process's mask allows.
    pub fn create(place: &Path, mode: FileMode) -> Result<Self, CreateStoreError> {
        let failed = |source| CreateStoreError::File { path: place.to_owned(), source };
        let made = NewFile::create_with(place, mode).and_then(NewFile::finish).map_err(failed)?;
        let Some((file, place)) = made else {
            return Err(failed(std::io::Error::other("a file without a name takes no place")));
        };
        let store = Self { file, place };
        let made = Connection::open(store.path()).and_then(|connection| {
            connection.execute_batch(FRESH_TABLES)?;
            connection.close().map_err(|(_, error)| error)
        });
        made.map_err(|error| store.refused(0, &error))?;
        Ok(store)
    }

    /// Removes partial stores that killed processes left here. Call it only while nobody makes one.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn remove_leftovers(place: &Path) -> std::io::Result<()> {
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
        for file in whole_file::leftovers(folder.unwrap_or(Path::new(".")), Some(place)) {
            for ending in ["-journal", "-wal", "-shm"] {
                // Most partial stores have none of these.
                let _ = fs::remove_file(beside(&file, ending));
            }
            fs::remove_file(file)?;
        }
        Ok(())
    }

    /// Returns the file under its temporary name.
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// Puts the store into WAL mode, as the owner does, and gives it its name.
    ///
    /// # Errors
    /// When SQLite or the system refuses, or something has the name by now.
    pub fn publish(self) -> Result<(), CreateStoreError> {
        self.publish_as(CreateOptions::default())
    }

    fn publish_as(self, options: CreateOptions) -> Result<(), CreateStoreError> {
        let mode = if options.wal { "WAL" } else { "DELETE" };
        let set = Connection::open(self.path()).and_then(|connection| {
            connection.pragma_update(None, "journal_mode", mode)?;
            connection.close().map_err(|(_, error)| error)
        });
        set.map_err(|error| self.refused(0, &error))?;
        let Self { file, place } = self;
        let failed = |source| CreateStoreError::File { path: place.clone(), source };
        fs::File::open(&file).and_then(|file| file.sync_all()).map_err(failed)?;
        let named = match options.overwrite {
            true => file.persist(&place),
            false => file.persist_noclobber(&place),
        };
        named.map_err(|refused| match refused.error.kind() {
            std::io::ErrorKind::AlreadyExists => CreateStoreError::Exists { path: place.clone() },
            _ => failed(refused.error),
        })
    }

    fn refused(&self, row: u64, error: &rusqlite::Error) -> CreateStoreError {
        CreateStoreError::Sqlite { path: self.place.clone(), row, reason: error.to_string() }
    }
}

/// Streams memories into a new file, which appears under its name when it is finished.
///
/// Dropped before that, it leaves nothing behind.
#[derive(Debug)]
pub struct BrainDbWriter {
    // Closed before the file goes.
    connection: Connection,
    store: NewStore,
    options: CreateOptions,
    rows: u64,
}

impl BrainDbWriter {
    /// Begins a store at `path`.
    ///
    /// # Errors
    /// When a file is there that may not be replaced, or none can be made.
    pub fn create(
        path: impl Into<PathBuf>,
        options: CreateOptions,
    ) -> Result<Self, CreateStoreError> {
        let path = path.into();
        if path.symlink_metadata().is_ok() && !options.overwrite {
            return Err(CreateStoreError::Exists { path });
        }
        let store = NewStore::create(&path, FileMode::from_bits(0o666))?;
        let connection = begin(store.path()).map_err(|error| store.refused(0, &error))?;
        Ok(Self { connection, store, options, rows: 0 })
    }

    /// Writes one memory, with its embedding and full-text entry.
    ///
    /// # Errors
    /// When SQLite refuses, for example because of a repeated id.
    pub fn push(&mut self, memory: &NewMemory<'_>) -> Result<(), CreateStoreError> {
        let mut written = insert(&self.connection, memory);
        if (self.rows + 1).is_multiple_of(BATCH_ROWS) {
            written = written.and_then(|()| self.connection.execute_batch("COMMIT; BEGIN"));
        }
        written.map_err(|error| self.store.refused(self.rows, &error))?;
        self.rows += 1;
        Ok(())
    }

    /// Completes the store and gives it its name; returns the number of its memories.
    ///
    /// # Errors
    /// When SQLite or the system refuses, or something has the name by now that may not be replaced.
    pub fn finish(self) -> Result<u64, CreateStoreError> {
        let Self { connection, store, options, rows } = self;
        let ended = connection
            .execute_batch("COMMIT")
            .and_then(|()| connection.close().map_err(|(_, error)| error));
        ended.map_err(|error| store.refused(rows, &error))?;
        store.publish_as(options)?;
        Ok(rows)
    }
}

/// Opens a new store for many rows: nobody reads it before it is whole.
fn begin(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "OFF")?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.execute_batch("BEGIN")?;
    Ok(connection)
}

fn insert(connection: &Connection, memory: &NewMemory<'_>) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO stm (id, content, categories, importance, access_count, created_at,
                              updated_at, expires_at, source)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            memory.id,
            memory.content,
            categories_to_json(memory.categories),
            memory.importance,
            memory.access_count,
            memory.created_at,
            memory.updated_at,
            memory.expires_at,
            memory.source,
        ])?;
    connection
        .prepare_cached("INSERT INTO stm_fts (rowid, content) VALUES (?1, ?2)")?
        .execute(params![connection.last_insert_rowid(), memory.content])?;
    let Some(vector) = memory.vector else { return Ok(()) };
    let text = memory.embedded_text.unwrap_or(memory.content);
    let end = text.char_indices().nth(EMBEDDED_CHARS).map_or(text.len(), |(end, _)| end);
    let blob: Vec<u8> = vector.iter().flat_map(|component| component.to_le_bytes()).collect();
    // The id: `emb_` and 12 hex digits from the memory's.
    let id = format!("emb_{}", &blake3::hash(memory.id.as_bytes()).to_hex()[..12]);
    connection
        .prepare_cached(
            "INSERT INTO embeddings (id, source_type, source_id, content, embedding, model, created_at)
             VALUES (?1, 'stm', ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![id, memory.id, &text[..end], blob, memory.model, memory.created_at])?;
    Ok(())
}

/// Every table that a memory touches, with the owner's indexes.
pub(crate) const FRESH_TABLES: &str = "
CREATE TABLE threads (
    id TEXT PRIMARY KEY, subject TEXT, created_at TEXT NOT NULL, updated_at TEXT);
CREATE TABLE messages (
    id TEXT PRIMARY KEY, thread_id TEXT NOT NULL, parent_id TEXT, from_agent TEXT NOT NULL,
    to_agent TEXT, priority TEXT DEFAULT 'info', subject TEXT, body TEXT NOT NULL,
    created_at TEXT NOT NULL, updated_at TEXT, metadata TEXT, expires_at TEXT, task_status TEXT,
    result TEXT, context TEXT);
CREATE TABLE stm (
    id TEXT PRIMARY KEY,
    content TEXT NOT NULL,
    categories TEXT,
    importance REAL DEFAULT 1.0,
    access_count INTEGER DEFAULT 0,
    created_at TEXT NOT NULL,
    updated_at TEXT,
    expires_at TEXT,
    source TEXT DEFAULT 'agent',
    source_message_id TEXT,
    FOREIGN KEY (source_message_id) REFERENCES messages(id));
CREATE TABLE embeddings (
    id TEXT PRIMARY KEY,
    source_type TEXT NOT NULL,
    source_id TEXT NOT NULL,
    content TEXT,
    embedding BLOB NOT NULL,
    model TEXT DEFAULT 'all-MiniLM-L6-v2',
    created_at TEXT NOT NULL,
    UNIQUE(source_type, source_id));
CREATE TABLE atoms (
    id TEXT PRIMARY KEY, subject TEXT NOT NULL, action TEXT NOT NULL, outcome TEXT NOT NULL,
    consequences TEXT, confidence REAL DEFAULT 1.0, source TEXT, source_message_id TEXT,
    source_type TEXT DEFAULT 'unknown', created_at TEXT NOT NULL, access_count INTEGER DEFAULT 0);
CREATE TABLE working_memory (
    id TEXT PRIMARY KEY, label TEXT, content TEXT NOT NULL, pinned_at TEXT, position INTEGER);
CREATE TABLE categories (
    name TEXT PRIMARY KEY, description TEXT, keywords TEXT DEFAULT '[]', created_at TEXT);
CREATE INDEX idx_stm_importance ON stm(importance DESC);
CREATE INDEX idx_stm_source ON stm(source_message_id);
CREATE INDEX idx_embeddings_source ON embeddings(source_type, source_id);
CREATE VIRTUAL TABLE stm_fts USING fts5(content, content='', content_rowid='');
CREATE VIRTUAL TABLE messages_fts USING fts5(subject, body, content='', content_rowid='');
";
