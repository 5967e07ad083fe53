//! How to read a SQLite file that belongs to somebody else without leaving a trace beside it.
//!
//! A reader of a store in WAL mode normally creates `-wal` and `-shm` and, being read-only, cannot
//! remove them. Where nobody has the store open, it is therefore read in ways that create nothing;
//! these see no locks, so [`StoreVersion`] shows afterwards whether somebody wrote meanwhile.
//! docs/decisions/0010-read-without-a-trace.md has the reasons.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use rusqlite::config::DbConfig;
use rusqlite::types::FromSql;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Params, Row};

/// Length of SQLite's file header.
const HEADER_BYTES: usize = 100;
const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// Where the header says how the file is read (1: rollback journal, 2: WAL).
const READ_VERSION_AT: usize = 19;
const READ_VERSION_WAL: u8 = 2;

/// A way to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// With SQLite's locks, beside other processes: the files they need are there already.
    Shared,
    /// As a file that does not change: there is no log, and nobody has it open.
    Frozen,
    /// With an index of the log in our own memory: a log is there, but nobody has it open.
    PrivateLog,
}

/// The size and times of a store's files; any write by anybody changes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreVersion {
    database: FileVersion,
    header: Vec<u8>,
    log: FileVersion,
    journal: FileVersion,
}

/// The size and times of a file, `None` where it does not exist.
type FileVersion = Option<FileLook>;

/// Length, modification time, and which file it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileLook {
    length: u64,
    modified: Option<SystemTime>,
    identity: Option<(u64, u64)>,
}

impl StoreVersion {
    /// Reads the sizes and times of the store and the files beside it.
    pub fn take(path: &Path) -> io::Result<Self> {
        Ok(Self {
            database: file_version(path),
            header: read_head(path, HEADER_BYTES)?,
            log: file_version(&beside(path, "-wal")),
            journal: file_version(&beside(path, "-journal")),
        })
    }

    /// Returns whether the file begins like a SQLite database.
    #[must_use]
    pub fn is_sqlite(&self) -> bool {
        self.header.starts_with(MAGIC)
    }

    pub(crate) fn header(&self) -> &[u8] {
        &self.header
    }

    pub(crate) fn has_log(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.length > 0)
    }

    /// Tells whether the store is in WAL mode.
    pub(crate) fn in_wal_mode(&self) -> bool {
        // A log counts for any header: the change of mode itself may be in the log.
        self.header.get(READ_VERSION_AT) == Some(&READ_VERSION_WAL) || self.log.is_some()
    }

    /// Tells whether a connection made at the time of this version sees the same as a new one would
    /// at the time of `now`.
    pub(crate) fn still_serves(&self, access: Access, now: &Self, path: &Path) -> bool {
        let identity = |version: &Self| version.database.as_ref().and_then(|look| look.identity);
        match access {
            // SQLite's locks show the writes of others, as long as it is the same file.
            Access::Shared => {
                identity(self).is_some()
                    && identity(self) == identity(now)
                    && now.access(path) == Access::Shared
            }
            Access::Frozen | Access::PrivateLog => self == now,
        }
    }

    /// Chooses the way to read.
    pub fn access(&self, path: &Path) -> Access {
        // A process that has a store in WAL mode open keeps both files beside it.
        let is_open = self.log.is_some() && beside(path, "-shm").exists();
        // Only SQLite can tell whether a journal is hot.
        let has_journal = self.journal.as_ref().is_some_and(|journal| journal.length > 0);
        match (self.in_wal_mode() && !has_journal, is_open, self.has_log()) {
            (false, _, _) | (_, true, _) => Access::Shared,
            (true, false, false) => Access::Frozen,
            (true, false, true) if cfg!(unix) => Access::PrivateLog,
            (true, false, true) => Access::Shared,
        }
    }
}

impl Access {
    /// Tells whether SQLite's locks keep writers from changing the rows being read.
    pub const fn is_isolated(self) -> bool {
        matches!(self, Self::Shared)
    }

    /// Opens `path` this way, for reading only.
    ///
    /// # Errors
    /// When SQLite refuses.
    pub fn open(self, path: &Path, busy_timeout: Duration) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(self.uri(path), flags)?;
        connection.busy_timeout(busy_timeout)?;
        // Any content of the log stays there when we leave.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        if self == Self::PrivateLog {
            // Keeps the log's index in our memory instead of a file.
            connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        }
        connection.pragma_update(None, "query_only", true)?;
        Ok(connection)
    }

    fn uri(self, path: &Path) -> String {
        let parameters = match self {
            Self::Shared => "mode=ro",
            Self::Frozen => "mode=ro&immutable=1",
            Self::PrivateLog => "mode=ro&vfs=unix-none",
        };
        format!("file:{}?{parameters}", encoded(path))
    }
}

/// Returns the path of a companion file.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn file_version(path: &Path) -> FileVersion {
    let metadata = fs::metadata(path).ok()?;
    let (length, modified) = (metadata.len(), metadata.modified().ok());
    Some(FileLook { length, modified, identity: identity(&metadata) })
}

#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
const fn identity(_: &fs::Metadata) -> Option<(u64, u64)> {
    None
}

/// Escapes everything in a path that means something in a URI.
fn encoded(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    let mut uri = String::with_capacity(bytes.len());
    if cfg!(windows) && bytes.get(1) == Some(&b':') {
        uri.push('/');
    }
    for byte in bytes {
        match byte {
            b'\\' if cfg!(windows) => uri.push('/'),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b':' => {
                uri.push(char::from(*byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}

/// Reads up to this many bytes from the beginning of a file.
pub(crate) fn read_head(path: &Path, length: usize) -> io::Result<Vec<u8>> {
    imp::read_head(path, length)
}

#[cfg(unix)]
mod imp {
    use std::fs::{self, File, Metadata};
    use std::io;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};
    use std::path::Path;
    use std::sync::{Arc, Mutex, PoisonError};

    /// Files that were opened; a file is closed only after it was deleted.
    static KEPT: Mutex<Vec<Arc<File>>> = Mutex::new(Vec::new());

    /// Returns the file, open for reading; it stays open when the caller drops it.
    fn keep(path: &Path) -> io::Result<Arc<File>> {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = fs::metadata(path)?;
        if !wanted.is_file() {
            // A pipe would wait for a writer.
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let is_wanted = |file: &File| file.metadata().is_ok_and(|found| is_same(&found, &wanted));
        if let Some(file) = kept.iter().find(|file| is_wanted(file)) {
            return Ok(Arc::clone(file));
        }
        let is_deleted = |file: &File| file.metadata().is_ok_and(|found| found.nlink() == 0);
        kept.retain(|file| !is_deleted(file));
        let file = Arc::new(File::open(path)?);
        kept.push(Arc::clone(&file));
        Ok(file)
    }

    pub(crate) fn read_head(path: &Path, length: usize) -> io::Result<Vec<u8>> {
        let file = keep(path)?;
        let mut bytes = vec![0; length];
        let mut read = 0;
        while read < length {
            match file.read_at(&mut bytes[read..], read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }

    fn is_same(a: &Metadata, b: &Metadata) -> bool {
        (a.dev(), a.ino()) == (b.dev(), b.ino())
    }
}

#[cfg(not(unix))]
mod imp {
    use std::fs::File;
    use std::io::{self, Read as _};
    use std::path::Path;

    pub(crate) fn read_head(path: &Path, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length);
        File::open(path)?.take(length as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Columns that `stm` has in every version of the owner.
pub(crate) const REQUIRED: [&str; 7] =
    ["id", "content", "categories", "importance", "access_count", "created_at", "source"];

/// The columns of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Columns {
    table: &'static str,
    names: Vec<String>,
}

impl Columns {
    /// Reads a table's columns; none where the table does not exist.
    pub(crate) fn of(connection: &Connection, table: &'static str) -> rusqlite::Result<Self> {
        // As a statement of its own: the function of the same name costs a virtual table.
        let mut statement = connection.prepare(&format!("PRAGMA table_info({})", quoted(table)))?;
        let names = statement.query_map([], |row| row.get("name"))?.collect::<Result<_, _>>()?;
        Ok(Self { table, names })
    }

    /// Returns the table's name.
    pub(crate) const fn table(&self) -> &'static str {
        self.table
    }

    /// Returns the columns' names as spelled in the store, in the table's order.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn into_names(self) -> Vec<String> {
        self.names
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(crate) fn has(&self, column: &str) -> bool {
        self.spelling(column).is_some()
    }

    pub(crate) fn has_all(&self, columns: &[&str]) -> bool {
        columns.iter().all(|column| self.has(column))
    }

    /// Returns the column as an SQL expression, NULL where it does not exist.
    pub(crate) fn expression(&self, column: &str) -> String {
        self.expressions(&[column])
    }

    /// Returns several columns as a list of SQL expressions.
    pub(crate) fn expressions(&self, columns: &[&str]) -> String {
        // Every match of a lookup asks for this.
        let mut list = String::with_capacity(32 * columns.len());
        for column in columns {
            if !list.is_empty() {
                list.push_str(", ");
            }
            match self.spelling(column) {
                Some(name) => {
                    list.push_str(self.table);
                    list.push('.');
                    push_quoted(&mut list, name);
                }
                None => list.push_str("NULL"),
            }
        }
        list
    }

    fn spelling(&self, column: &str) -> Option<&str> {
        self.names.iter().find(|name| name.eq_ignore_ascii_case(column)).map(String::as_str)
    }
}

/// Runs a query and returns its rows as `read` has them.
pub(crate) fn all<T, C: FromIterator<T>>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<C> {
    connection.prepare_cached(sql)?.query_map(params, read)?.collect()
}

/// As [`all`], of the first row; `None` where there is none.
pub(crate) fn first<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    connection.prepare_cached(sql)?.query_row(params, read).optional()
}

/// Tells whether a query finds any row.
pub(crate) fn exists(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> rusqlite::Result<bool> {
    connection.prepare_cached(sql)?.exists(params)
}

/// Returns the first cell of a row.
pub(crate) fn cell0<T: FromSql>(row: &Row<'_>) -> rusqlite::Result<T> {
    row.get(0)
}

/// Returns the first two cells of a row.
pub(crate) fn cells2<A: FromSql, B: FromSql>(row: &Row<'_>) -> rusqlite::Result<(A, B)> {
    Ok((row.get(0)?, row.get(1)?))
}

/// Tells whether rows of the table have a rowid.
pub(crate) fn has_rowid(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let mut statement =
        connection.prepare(&format!("PRAGMA main.table_list({})", quoted(table)))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (schema, kind, without_rowid): (String, String, bool) =
            (row.get("schema")?, row.get("type")?, row.get("wr")?);
        if schema == "main" && kind == "table" && !without_rowid {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Tells whether a name is that of a view.
pub(crate) fn is_view(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM sqlite_master WHERE type = 'view' AND lower(name) = ?1";
    exists(connection, sql, [name])
}

/// Tells whether a table has a column `rowid` that is not the number of its rows itself.
pub(crate) fn hides_rowids(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let mut statement =
        connection.prepare_cached(&format!("PRAGMA table_info({})", quoted(table)))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (name, kind, key): (String, String, i64) =
            (row.get("name")?, row.get("type")?, row.get("pk")?);
        if name.eq_ignore_ascii_case("rowid") {
            return Ok(key == 0 || !kind.eq_ignore_ascii_case("INTEGER"));
        }
    }
    Ok(false)
}

/// Tells whether an index (or key) makes each (source_type, source_id) of `embeddings` unique.
pub(crate) fn embeddings_are_unique(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT count(*) FROM pragma_index_list('embeddings') AS list
         WHERE list.\"unique\" = 1 AND list.partial = 0
           AND (SELECT group_concat(lower(name)) FROM
                (SELECT name FROM pragma_index_info(list.name) ORDER BY lower(name)))
               IN ('source_id,source_type', 'source_id')",
        [],
        |row| row.get::<_, i64>(0).map(|count| count > 0),
    )
}

/// Tells whether the columns hold text and an index makes each of their values unique, byte for byte.
pub(crate) fn is_text_key(
    connection: &Connection,
    table: &str,
    names: &[&str],
) -> rusqlite::Result<bool> {
    let sql = "SELECT name, type FROM pragma_table_info(?1)";
    let types: Vec<(String, String)> = all(connection, sql, [table], cells2)?;
    let is_text = |name: &&str| {
        types.iter().any(|(known, kind)| {
            known.eq_ignore_ascii_case(name) && kind.eq_ignore_ascii_case("text")
        })
    };
    let wanted: BTreeSet<String> = names.iter().map(|name| format!("{name} BINARY")).collect();
    let sql = "SELECT name FROM pragma_index_list(?1) WHERE \"unique\" = 1 AND partial = 0";
    let indexes: Vec<String> = all(connection, sql, [table], cell0)?;
    // An expression has no name.
    let sql = "SELECT lower(ifnull(name, '')) || ' ' || coll FROM pragma_index_xinfo(?1) WHERE key";
    for index in indexes {
        if all::<_, BTreeSet<String>>(connection, sql, [index], cell0)? == wanted {
            return Ok(names.iter().all(is_text));
        }
    }
    Ok(false)
}

pub(crate) fn quoted(name: &str) -> String {
    let mut quoted = String::new();
    push_quoted(&mut quoted, name);
    quoted
}

fn push_quoted(sql: &mut String, name: &str) {
    sql.push('"');
    for character in name.chars() {
        if character == '"' {
            sql.push('"');
        }
        sql.push(character);
    }
    sql.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped() {
        let uri = Access::Frozen.uri(Path::new("/a b/%?#é.db"));
        assert_eq!(uri, "file:/a%20b/%25%3F%23%C3%A9.db?mode=ro&immutable=1");
    }

    #[test]
    fn the_file_of_the_name_is_read_whatever_stood_there_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert!(read_head(&path, 3).is_err());
        for content in ["", "ab", "abcdef"] {
            // The same file, longer; and then another one of the same name.
            std::fs::write(&path, content).unwrap();
            assert_eq!(read_head(&path, 3).unwrap(), content.as_bytes()[..content.len().min(3)]);
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "xyz").unwrap();
        assert_eq!(read_head(&path, 2).unwrap(), b"xy");
        assert!(read_head(folder.path(), 2).is_err());
    }

    #[test]
    fn columns_are_spelled_as_in_the_store_and_quoted() {
        let names = ["Id".to_owned(), "a\"b".to_owned()].into();
        let columns = Columns { table: "stm", names };
        let listed = columns.expressions(&["id", "content", "a\"b"]);
        assert_eq!(listed, r#"stm."Id", NULL, stm."a""b""#);
        assert_eq!(columns.expression("content"), "NULL");
        assert_eq!(columns.expressions(&[]), "");
    }

    #[test]
    fn only_tables_with_rowids_have_rowids() {
        let connection = Connection::open_in_memory().unwrap();
        let sql = "CREATE TABLE stm (id, \"a\"\"b\"); CREATE VIEW seen AS SELECT id FROM stm;
                   CREATE TABLE keyed (id PRIMARY KEY) WITHOUT ROWID";
        connection.execute_batch(sql).unwrap();
        let found = ["stm", "STM", "seen", "keyed", "missing"]
            .map(|table| has_rowid(&connection, table).unwrap());
        assert_eq!(found, [true, true, false, false, false]);
        assert_eq!(Columns::of(&connection, "stm").unwrap().names(), ["id", "a\"b"]);
        assert_eq!(Columns::of(&connection, "seen").unwrap().names(), ["id"]);
        let views = ["seen", "stm", "missing"].map(|name| is_view(&connection, name).unwrap());
        assert_eq!(views, [true, false, false]);
        assert!(Columns::of(&connection, "missing").unwrap().is_empty());
    }
}
