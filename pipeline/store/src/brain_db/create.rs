//! Writes new `brain.db` files: samples, fixtures and generated stores of any size.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, params};
use tempfile::TempPath;

use crate::brain_db::read::access::beside;
use memfold_core::SkipReason;
use memfold_core::row::categories_to_json;
use memfold_datasets::atomic_file::{open_new, place_of};
use memfold_index::file::FileMode;

#[cfg(feature = "wild")]
use crate::brain_db::wild::{VectorShape, spell, write_odd_rows};

/// Rows per transaction.
const BATCH_ROWS: u64 = 10_000;
/// The owner embeds this many characters of a text and keeps them beside the vector.
const EMBEDDED_CHARS: usize = 1000;
/// SQLite's page cache in KiB: the indexes of a million random ids fit.
const CACHE_KIB: i64 = 192 * 1024;

/// How a written store looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreStyle {
    /// As the owner's newest version writes it.
    #[default]
    Plain,
    /// With every habit of a store that many programs wrote for years: the rows that are pushed in
    /// other spellings of the same, and some dozens of odd rows after them.
    #[cfg(feature = "wild")]
    Wild,
}

/// How to create a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateOptions {
    /// How it looks.
    pub style: StoreStyle,
    /// Whether an existing file is replaced.
    pub overwrite: bool,
    /// Whether the file is in WAL mode, as the owner sets it, or keeps a rollback journal.
    pub wal: bool,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self { style: StoreStyle::Plain, overwrite: false, wal: true }
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

/// The rows that were written, and the rows that a reader must leave out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenStore {
    /// Rows of the memory table.
    pub rows_total: u64,
    /// Reasons a reader meets, as [`Snapshot::skipped`](memfold_core::Snapshot::skipped) counts them,
    /// provided that every pushed row is live.
    pub left_out: BTreeMap<SkipReason, u64>,
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

/// Streams memories into a new file, which appears under its name when it is finished.
///
/// Dropped before that, it leaves nothing behind.
#[derive(Debug)]
pub struct BrainDbWriter {
    path: PathBuf,
    partial: PathBuf,
    options: CreateOptions,
    connection: Option<Connection>,
    written: WrittenStore,
    #[cfg(feature = "wild")]
    shape: VectorShape,
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
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
        let (mut builder, suffix) = (tempfile::Builder::new(), temporary_suffix(place));
        builder.prefix(TEMPORARY_PREFIX).suffix(&suffix);
        let folder = folder.unwrap_or(Path::new("."));
        let file = builder.make_in(folder, |path| open_new(path, mode)).map_err(failed)?;
        let store = Self { file: file.into_temp_path(), place: place.to_owned() };
        let made = Connection::open(store.path()).and_then(|connection| {
            connection.execute_batch(FRESH_TABLES)?;
            connection.close().map_err(|(_, error)| error)
        });
        made.map_err(|error| store.refused(&error))?;
        Ok(store)
    }

    /// Removes partial stores that killed processes left here. Call it only while nobody makes one.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn remove_leftovers(place: &Path) -> std::io::Result<()> {
        let suffix = temporary_suffix(place);
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
        // A folder that cannot be read holds nothing that could be removed.
        let items = fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
        for item in items {
            let name = item.file_name();
            let random = name.to_str().and_then(|name| name.strip_prefix(TEMPORARY_PREFIX));
            let rest = random.and_then(|rest| Some(&rest[rest.find('-')?..]));
            let ending = rest.and_then(|rest| rest.strip_prefix(&*suffix));
            if ending.is_some_and(|ending| ["", "-journal", "-wal", "-shm"].contains(&ending)) {
                fs::remove_file(item.path())?;
            }
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
        let set = Connection::open(self.path()).and_then(|connection| {
            connection.pragma_update(None, "journal_mode", "WAL")?;
            connection.close().map_err(|(_, error)| error)
        });
        set.map_err(|error| self.refused(&error))?;
        let Self { file, place } = self;
        let synced = fs::File::open(&file).and_then(|file| file.sync_all());
        synced.map_err(|source| CreateStoreError::File { path: place.clone(), source })?;
        file.persist_noclobber(&place).map_err(|refused| match refused.error.kind() {
            std::io::ErrorKind::AlreadyExists => CreateStoreError::Exists { path: place.clone() },
            _ => CreateStoreError::File { path: place.clone(), source: refused.error },
        })
    }

    fn refused(&self, error: &rusqlite::Error) -> CreateStoreError {
        CreateStoreError::Sqlite { path: self.place.clone(), row: 0, reason: error.to_string() }
    }
}

const TEMPORARY_PREFIX: &str = ".memfold-";

/// Ends the name that a store has while it is made.
fn temporary_suffix(place: &Path) -> String {
    let name = place.file_name().unwrap_or_default();
    format!("-{}", name.to_string_lossy())
}

/// The cells of one memory in the spelling that is written.
pub(crate) struct Spelled {
    pub(crate) categories: Value,
    pub(crate) importance: Value,
    pub(crate) access_count: Value,
    pub(crate) created_at: Value,
    pub(crate) source: Value,
    pub(crate) embedding: Value,
    pub(crate) embedded_chars: Option<usize>,
    pub(crate) model: Option<String>,
    pub(crate) last_accessed: Option<Value>,
    pub(crate) in_fts: bool,
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
        let path = match place_of(&path) {
            Ok(place) => place,
            Err(source) => return Err(CreateStoreError::File { path, source }),
        };
        let partial = beside(&path, ".partial");
        let mut writer = Self {
            path,
            partial,
            options,
            connection: None,
            written: WrittenStore::default(),
            #[cfg(feature = "wild")]
            shape: VectorShape::default(),
        };
        // The system creates the file first, because its error message says more than SQLite's;
        // leftovers, or a link put there, are replaced.
        remove(&writer.partial);
        fs::File::create_new(&writer.partial).map_err(|source| writer.file_error(source))?;
        let connection = writer.begin().map_err(|error| writer.sqlite_error(&error))?;
        writer.connection = Some(connection);
        Ok(writer)
    }

    /// Writes one memory, with its embedding and full-text entry.
    ///
    /// # Errors
    /// When SQLite refuses, for example because of a repeated id.
    pub fn push(&mut self, memory: &NewMemory<'_>) -> Result<(), CreateStoreError> {
        let row = self.written.rows_total;
        let spelled = match self.options.style {
            StoreStyle::Plain => plain(memory),
            #[cfg(feature = "wild")]
            StoreStyle::Wild => spell(row, memory),
        };
        if let Some(connection) = &self.connection {
            insert(connection, memory, &spelled).map_err(|error| self.sqlite_error(&error))?;
            if (row + 1).is_multiple_of(BATCH_ROWS) {
                let next = connection.execute_batch("COMMIT; BEGIN");
                next.map_err(|error| self.sqlite_error(&error))?;
            }
        }
        #[cfg(feature = "wild")]
        self.shape.learn(memory);
        self.written.rows_total += 1;
        if memory.vector.is_none() {
            *self.written.left_out.entry(SkipReason::EmbeddingMissing).or_insert(0) += 1;
        }
        Ok(())
    }

    /// Completes the store and gives it its name.
    ///
    /// # Errors
    /// When SQLite or the system refuses.
    pub fn finish(mut self) -> Result<WrittenStore, CreateStoreError> {
        let Some(connection) = self.connection.take() else { return Ok(self.written.clone()) };
        #[cfg(feature = "wild")]
        if self.options.style == StoreStyle::Wild {
            let odd = write_odd_rows(&connection, &self.shape);
            odd.map_err(|error| self.sqlite_error(&error))?.add_to(&mut self.written);
        }
        let mode = if self.options.wal { "WAL" } else { "DELETE" };
        connection
            .execute_batch("COMMIT; PRAGMA synchronous = FULL;")
            .and_then(|()| connection.pragma_update(None, "journal_mode", mode))
            .and_then(|()| connection.close().map_err(|(_, error)| error))
            .map_err(|error| self.sqlite_error(&error))?;
        fs::File::open(&self.partial)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&self.partial, &self.path))
            .map_err(|source| self.file_error(source))?;
        Ok(std::mem::take(&mut self.written))
    }

    fn begin(&self) -> rusqlite::Result<Connection> {
        let connection = Connection::open(&self.partial)?;
        connection.pragma_update(None, "journal_mode", "OFF")?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.execute_batch(FRESH_TABLES)?;
        #[cfg(feature = "wild")]
        if self.options.style == StoreStyle::Wild {
            connection.execute_batch(LATER_COLUMNS)?;
        }
        connection.execute_batch("BEGIN")?;
        Ok(connection)
    }

    fn file_error(&self, source: std::io::Error) -> CreateStoreError {
        CreateStoreError::File { path: self.path.clone(), source }
    }

    fn sqlite_error(&self, error: &rusqlite::Error) -> CreateStoreError {
        let (path, row) = (self.path.clone(), self.written.rows_total);
        CreateStoreError::Sqlite { path, row, reason: error.to_string() }
    }
}

impl Drop for BrainDbWriter {
    fn drop(&mut self) {
        // After a finished store's renaming there is nothing left to remove.
        drop(self.connection.take());
        remove(&self.partial);
        remove(&beside(&self.partial, "-wal"));
        remove(&beside(&self.partial, "-shm"));
    }
}

fn remove(path: &Path) {
    // A missing or undeletable file must not make a drop fail.
    let _ = fs::remove_file(path);
}

fn plain(memory: &NewMemory<'_>) -> Spelled {
    Spelled {
        categories: categories_to_json(memory.categories).into(),
        importance: memory.importance.into(),
        access_count: memory.access_count.into(),
        created_at: memory.created_at.to_owned().into(),
        source: memory.source.to_owned().into(),
        embedding: memory.vector.map_or(Value::Null, |vector| blob(vector).into()),
        embedded_chars: Some(EMBEDDED_CHARS),
        model: memory.model.map(str::to_owned),
        last_accessed: None,
        in_fts: true,
    }
}

fn insert(
    connection: &Connection,
    memory: &NewMemory<'_>,
    spelled: &Spelled,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO stm (id, content, categories, importance, access_count, created_at,
                              updated_at, expires_at, source)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            memory.id,
            memory.content,
            spelled.categories,
            spelled.importance,
            spelled.access_count,
            spelled.created_at,
            memory.updated_at,
            memory.expires_at,
            spelled.source,
        ])?;
    let rowid = connection.last_insert_rowid();
    if let Some(last_accessed) = &spelled.last_accessed {
        connection
            .prepare_cached("UPDATE stm SET last_accessed = ?1 WHERE rowid = ?2")?
            .execute(params![last_accessed, rowid])?;
    }
    if spelled.in_fts {
        connection
            .prepare_cached("INSERT INTO stm_fts (rowid, content) VALUES (?1, ?2)")?
            .execute(params![rowid, memory.content])?;
    }
    if memory.vector.is_some() {
        insert_embedding(connection, memory, spelled)?;
    }
    Ok(())
}

fn insert_embedding(
    connection: &Connection,
    memory: &NewMemory<'_>,
    spelled: &Spelled,
) -> rusqlite::Result<()> {
    let text = memory.embedded_text.unwrap_or(memory.content);
    let embedded = spelled.embedded_chars.map(|chars| prefix(text, chars));
    connection
        .prepare_cached(
            "INSERT INTO embeddings (id, source_type, source_id, content, embedding, model, created_at)
             VALUES (?1, 'stm', ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            embedding_id(memory.id),
            memory.id,
            embedded,
            spelled.embedding,
            spelled.model,
            memory.created_at,
        ])?;
    Ok(())
}

/// Derives `emb_` and 12 hex digits from a memory's id.
pub(crate) fn embedding_id(id: &str) -> String {
    format!("emb_{}", &blake3::hash(id.as_bytes()).to_hex()[..12])
}

pub(crate) fn blob(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|component| component.to_le_bytes()).collect()
}

pub(crate) fn prefix(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
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

/// Columns that later versions and other tools of the owner added.
#[cfg(feature = "wild")]
pub(crate) const LATER_COLUMNS: &str = "
ALTER TABLE stm ADD COLUMN confidence REAL DEFAULT 0.5;
ALTER TABLE stm ADD COLUMN last_accessed INTEGER;
ALTER TABLE stm ADD COLUMN validation_count INTEGER DEFAULT 0;
ALTER TABLE stm ADD COLUMN contradiction_count INTEGER DEFAULT 0;
ALTER TABLE stm ADD COLUMN compressed_from TEXT;
ALTER TABLE stm ADD COLUMN archived_by TEXT;
ALTER TABLE stm ADD COLUMN timestamp TEXT;
ALTER TABLE embeddings ADD COLUMN confidence REAL;
ALTER TABLE embeddings ADD COLUMN access_count INTEGER DEFAULT 1;
";
