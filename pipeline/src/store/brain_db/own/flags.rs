//! `memfold_flags`: contradictory pairs for people to look at.

use rusqlite::{Connection, params};

use crate::decisions::content_hash;
use crate::store::brain_db::{SessionError, Writes};

/// An open flag: its row, its two memories and the hashes of the texts it is about.
type OpenFlag = (i64, [(String, String); 2]);

/// Closes the flags of which a side was edited, archived or is gone.
pub(crate) fn close_flags(writes: &Writes<'_>) -> Result<(), SessionError> {
    for (id, sides) in writes.query("read memfold_flags", open_flags)? {
        let mut holds = true;
        for (memory, hash) in &sides {
            holds &= writes.query("read a memory", |c| still_says(c, memory, hash))?;
        }
        if !holds {
            let sql = "UPDATE memfold_flags SET state = 'closed' WHERE id = ?1";
            writes.execute("close a flag", sql, [id])?;
        }
    }
    Ok(())
}

fn open_flags(connection: &Connection) -> rusqlite::Result<Vec<OpenFlag>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, left_id, left_hash, right_id, right_hash FROM memfold_flags
         WHERE state = 'open' AND active = 1 ORDER BY id",
    )?;
    let flags = statement.query_map([], |row| {
        Ok((row.get(0)?, [(row.get(1)?, row.get(2)?), (row.get(3)?, row.get(4)?)]))
    })?;
    flags.collect()
}

/// Tells whether a memory is there, not archived, with the text that was flagged.
fn still_says(connection: &Connection, id: &str, hash: &str) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(
        "SELECT content FROM stm WHERE id = ?1 AND coalesce(source, '') NOT LIKE 'archived:%'
         AND typeof(content) = 'text'",
    )?;
    let mut rows = statement.query(params![id])?;
    let Some(row) = rows.next()? else { return Ok(false) };
    let content = row.get_ref(0)?.as_bytes().unwrap_or_default();
    Ok(std::str::from_utf8(content).is_ok_and(|content| content_hash(content) == hash))
}
