//! What was decided about a memory, and which contradictions it is part of.

use rusqlite::{Connection, Row as SqlRow};

use crate::brain_db::columns::Columns;
use memfold_model::lineage::{Declined, Explanation, Few, FlagNote, KeptApart, Promotion};
use memfold_model::memory::MemoryId;

/// Adds decisions and flags to an explanation; `content_hash` is that of the text as it is now.
pub(super) fn added(
    connection: &Connection,
    explained: Explanation,
    content_hash: Option<&str>,
) -> rusqlite::Result<Explanation> {
    let id = explained.resolved.id.clone();
    let mut explained = explained;
    if !Columns::of(connection, "memfold_decisions")?.is_empty() {
        explained.promotions = promotions(connection, &id)?;
        explained.kept_apart = kept_apart(connection, &id, content_hash)?;
        explained.declined = declined(connection, &id, content_hash)?;
    }
    if !Columns::of(connection, "memfold_flags")?.is_empty() {
        explained.flags = flags(connection, &id)?;
    }
    Ok(explained)
}

/// Reads the active decisions of a kind about a memory, the latest first.
fn decisions<T>(
    connection: &Connection,
    (kind, id): (&str, &MemoryId),
    read: impl FnMut(&SqlRow<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Few<T>> {
    let mut statement = connection.prepare_cached(
        "SELECT run_id, at, content_hash, group_id, action, access_count FROM memfold_decisions
         WHERE kind = ?1 AND memory_id = ?2 AND active = 1 ORDER BY id DESC",
    )?;
    statement.query_map((kind, id.as_str()), read)?.collect()
}

fn promotions(connection: &Connection, id: &MemoryId) -> rusqlite::Result<Few<Promotion>> {
    decisions(connection, ("promoted", id), |row| {
        Ok(Promotion { access_count: row.get(5)?, run_id: row.get(0)?, at: row.get(1)? })
    })
}

fn declined(
    connection: &Connection,
    id: &MemoryId,
    content_hash: Option<&str>,
) -> rusqlite::Result<Few<Declined>> {
    decisions(connection, ("declined", id), |row| {
        Ok(Declined {
            action: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
            holds: holds(row, content_hash)?,
            run_id: row.get(0)?,
            at: row.get(1)?,
        })
    })
}

fn kept_apart(
    connection: &Connection,
    id: &MemoryId,
    content_hash: Option<&str>,
) -> rusqlite::Result<Few<KeptApart>> {
    let mut others = connection.prepare_cached(
        "SELECT memory_id FROM memfold_decisions
         WHERE kind = 'keep_both' AND group_id = ?1 AND memory_id <> ?2 AND active = 1 ORDER BY id",
    )?;
    decisions(connection, ("keep_both", id), |row| {
        let group: Option<String> = row.get(3)?;
        let from = others
            .query_map((group, id.as_str()), |row| row.get(0).map(|id: String| MemoryId::new(id)))?
            .collect::<rusqlite::Result<_>>()?;
        let holds = holds(row, content_hash)?;
        Ok(KeptApart { from, holds, run_id: row.get(0)?, at: row.get(1)? })
    })
}

fn holds(row: &SqlRow<'_>, content_hash: Option<&str>) -> rusqlite::Result<bool> {
    Ok(row.get::<_, Option<String>>(2)?.as_deref() == content_hash)
}

fn flags(connection: &Connection, id: &MemoryId) -> rusqlite::Result<Few<FlagNote>> {
    let mut statement = connection.prepare_cached(
        "SELECT CASE WHEN left_id = ?1 THEN right_id ELSE left_id END,
                state, similarity, score, run_id, at
         FROM memfold_flags WHERE (left_id = ?1 OR right_id = ?1) AND active = 1 ORDER BY id DESC",
    )?;
    let notes = statement.query_map([id.as_str()], |row| {
        Ok(FlagNote {
            other: MemoryId::new(row.get::<_, String>(0)?),
            state: row.get(1)?,
            similarity: row.get(2)?,
            score: row.get(3)?,
            run_id: row.get(4)?,
            at: row.get(5)?,
        })
    })?;
    notes.collect()
}
