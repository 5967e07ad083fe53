//! `memfold_merged`: the words by which a merged memory was found lead to its survivor.
//!
//! The owner's full-text index gets nothing of it: it is contentless, and words that the owner deletes by hand would
//! answer for the next row of the same number.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};

use crate::brain_db::read::access::Columns;
use crate::brain_db::write::session::{SessionError, Writes};

const TABLE: &str = "memfold_merged";

/// Keeps the words of a memory that was merged into another, where the other one lacks any of them.
pub(crate) fn index_merged(
    writes: &Writes<'_>,
    lineage: i64,
    absorbed: &str,
    survivor: &str,
) -> Result<(), SessionError> {
    let text = |id: &str| {
        let bytes = writes.text_of(id, true)?.unwrap_or_default();
        Ok::<_, SessionError>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (own, other) = (text(absorbed)?, text(survivor)?);
    let known: BTreeSet<String> = words(&other).collect();
    if words(&own).all(|word| known.contains(&word)) {
        return Ok(());
    }
    let sql = "INSERT INTO memfold_merged(rowid, content) VALUES (?1, ?2)";
    writes.execute("keep the words of a merged memory", sql, params![lineage, own]).map(drop)
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let is_between = |c: char| !c.is_alphanumeric();
    text.split(is_between).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Keeps the words of all memories that were merged before there was a table for them.
pub(crate) fn index_all_merged(writes: &Writes<'_>) -> Result<(), SessionError> {
    let merges: Vec<(i64, String, String)> =
        writes.query("read memfold_lineage", |connection| {
            let sql = "SELECT id, absorbed_id, survivor_id FROM memfold_lineage";
            let mut statement = connection.prepare(sql)?;
            let rows =
                statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect()
        })?;
    for (lineage, absorbed, survivor) in merges {
        index_merged(writes, lineage, &absorbed, &survivor)?;
    }
    Ok(())
}

/// Returns the merged memories that have some of the words, the best first by bm25.
pub(crate) fn merged_with(
    connection: &Connection,
    words: &[String],
    most: usize,
) -> rusqlite::Result<Vec<String>> {
    let has_lineage =
        Columns::of(connection, "memfold_lineage")?.has_all(&["id", "absorbed_id", "active"]);
    if words.is_empty() || !has_lineage || Columns::of(connection, TABLE)?.is_empty() {
        return Ok(Vec::new());
    }
    let phrases: Vec<String> =
        words.iter().map(|word| format!("\"{}\"", word.replace('"', "\"\""))).collect();
    let mut statement = connection.prepare_cached(
        "SELECT l.absorbed_id FROM memfold_merged AS m JOIN memfold_lineage AS l ON l.id = m.rowid
         WHERE m.memfold_merged MATCH ?1 AND l.active = 1 ORDER BY m.rank LIMIT ?2",
    )?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let found = statement.query_map(params![phrases.join(" OR "), most], |row| row.get(0))?;
    found.collect()
}

/// Removes the words of a memory, and of the memories merged into it.
pub(crate) fn erase_merged(writes: &Writes<'_>, id: &str) -> Result<(), SessionError> {
    let sql = "DELETE FROM memfold_merged WHERE rowid IN
                   (SELECT id FROM memfold_lineage WHERE absorbed_id = ?1 OR survivor_id = ?1)";
    writes.execute("erase the words of a merged memory", sql, [id]).map(drop)
}

/// Rewrites the index without removed entries.
pub(crate) fn rewrite_merged(writes: &Writes<'_>) -> Result<(), SessionError> {
    let sql = "INSERT INTO memfold_merged(memfold_merged) VALUES ('optimize')";
    writes.execute("optimize the index of merged memories", sql, []).map(drop)
}
