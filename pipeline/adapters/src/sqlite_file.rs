//! SQLite files of other programs: read without a trace, and the vectors that sqlite-vec keeps in them.
//!
//! Vectors of a `vec0` table `V` are read from its shadow tables, so that the extension is not needed:
//!
//! * `V_rowids(rowid, id, chunk_id, chunk_offset)`: where the vector of a row is;
//! * `V_chunks(chunk_id, size, validity, rowids)`: how many places a chunk has, and a bit for each place in use, the
//!   lowest bit of a byte first;
//! * `V_vector_chunks00(rowid, vectors)`: the vectors of a chunk one after the other, 32-bit floats.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use memfold_core::value::Value;
use memfold_store::brain_db::{Access, StoreVersion, cell};
use rusqlite::{Connection, OptionalExtension as _, Row, ffi};

/// How long to wait for a writer.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a file is read without locks before a writer's haste calls for them.
const UNLOCKED_TRIES: u32 = 2;
const FLOAT_BYTES: usize = 4;

/// Does some reading in one transaction. Nothing is created beside the file.
///
/// # Errors
/// When the file is not a SQLite database or cannot be read.
pub(crate) fn read<T, E: From<rusqlite::Error>>(
    path: &Path,
    work: impl Fn(&Connection) -> Result<T, E>,
) -> Result<T, E> {
    let look = || StoreVersion::take(path).map_err(|error| cannot_open(&error.to_string()));
    for _ in 0..UNLOCKED_TRIES {
        let before = look()?;
        if !before.is_sqlite() {
            return Err(cannot_open("no SQLite database").into());
        }
        let access = before.access(path);
        let done = read_by(path, access, &work);
        if access.is_isolated() || look().is_ok_and(|after| after == before) {
            return done;
        }
    }
    read_by(path, Access::Shared, &work)
}

fn cannot_open(reason: &str) -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_CANTOPEN), Some(reason.to_owned()))
}

fn read_by<T, E: From<rusqlite::Error>>(
    path: &Path,
    access: Access,
    work: &impl Fn(&Connection) -> Result<T, E>,
) -> Result<T, E> {
    let connection = access.open(path, BUSY_TIMEOUT)?;
    let transaction = connection.unchecked_transaction()?;
    work(&transaction)
}

/// Tells whether there is a table of this name.
pub(crate) fn has_table(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?)";
    connection.query_row(sql, [name], |row| row.get(0))
}

/// Quotes a name for SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Reads 32-bit floats; `None` where the bytes are none, or one is not finite.
pub(crate) fn floats(bytes: &[u8]) -> Option<Vec<f32>> {
    let (floats, rest) = bytes.as_chunks::<FLOAT_BYTES>();
    let vector: Vec<f32> = floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let is_vector = rest.is_empty() && !vector.is_empty();
    (is_vector && vector.iter().all(|value| value.is_finite())).then_some(vector)
}

/// Tells whether a table of sqlite-vec is there with everything that its vectors are read from.
pub(crate) fn has_vectors(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    for ending in ["rowids", "chunks", "vector_chunks00"] {
        if !has_table(connection, &format!("{table}_{ending}"))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Reads the vectors of a `vec0` table by the numbers of their rows, or by their ids.
pub(crate) fn vec0_vectors(
    connection: &Connection,
    table: &str,
    by_id: bool,
) -> rusqlite::Result<HashMap<String, Vec<f32>>> {
    let part = |ending: &str| quoted(&format!("{table}_{ending}"));
    let name = if by_id { "id" } else { "rowid" };
    let sql = format!(
        "SELECT r.{name}, r.chunk_offset, r.chunk_id FROM {} r
         WHERE r.chunk_id IS NOT NULL AND r.{name} IS NOT NULL ORDER BY r.chunk_id, r.chunk_offset",
        part("rowids")
    );
    let of_chunk = format!(
        "SELECT c.size, c.validity, v.vectors FROM {} c JOIN {} v ON v.rowid = c.chunk_id WHERE c.chunk_id = ?",
        part("chunks"),
        part("vector_chunks00")
    );
    let mut of_chunk = connection.prepare(&of_chunk)?;
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let (mut at, mut chunk, mut found) = (None, None, HashMap::new());
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(2)?;
        if at != Some(id) {
            chunk = of_chunk.query_row([id], Chunk::of).optional()?;
            at = Some(id);
        }
        if let Some(vector) = chunk.as_ref().and_then(|chunk| chunk.vector(row.get(1).ok()?)) {
            found.insert(shown(&Value::from(cell(row, 0)?)), vector);
        }
    }
    Ok(found)
}

/// A chunk of vectors of a `vec0` table.
struct Chunk {
    places: usize,
    validity: Vec<u8>,
    vectors: Vec<u8>,
}

impl Chunk {
    fn of(row: &Row<'_>) -> rusqlite::Result<Self> {
        let places = usize::try_from(row.get::<_, i64>(0)?).unwrap_or(0);
        Ok(Self { places, validity: row.get(1)?, vectors: row.get(2)? })
    }

    /// Returns the vector at a place, unless the place is free or the chunk is damaged.
    fn vector(&self, offset: i64) -> Option<Vec<f32>> {
        let offset = usize::try_from(offset).ok()?;
        let is_used = self.validity.get(offset / 8)? >> (offset % 8) & 1 == 1;
        let length = self.vectors.len().checked_div(self.places)?;
        let is_whole =
            length > 0 && length % FLOAT_BYTES == 0 && self.vectors.len() == length * self.places;
        if !is_used || !is_whole {
            return None;
        }
        floats(self.vectors.get(offset * length..(offset + 1) * length)?)
    }
}

/// A value as an id or an attribute: 16 bytes are a UUID.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Blob(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            match bytes.len() {
                16 => {
                    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
                    parts.join("-")
                }
                _ => hex,
            }
        }
    }
}
