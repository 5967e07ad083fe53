//! What became of folded and archived rows since.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;
use serde_json::Value;

use super::facts::Found;
use crate::Snapshot;
use crate::brain_db::columns::Columns;
use memfold_model::memory::{Exclusion, Memory, MemoryId, Standing};

/// Returns the ids of the memories that were moved out of the memory table.
pub(super) fn moved(connection: &Connection) -> rusqlite::Result<HashSet<String>> {
    if !Columns::of(connection, "memfold_archive")?.has_all(&["memory_id", "table_name"]) {
        return Ok(HashSet::new());
    }
    let sql = "SELECT memory_id FROM memfold_archive WHERE table_name = 'stm'";
    connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

/// Returns the folded rows whose survivor is neither a row of the store nor moved out of it.
pub(super) fn survivor_gone(snapshot: &Snapshot, moved: &HashSet<String>) -> Found {
    let known: HashSet<&MemoryId> = snapshot.memories.iter().map(|memory| &memory.id).collect();
    let mut gone = Found::default();
    for memory in &snapshot.memories {
        if let Standing::Ghost { survivor } = &memory.standing
            && !known.contains(survivor)
            && !moved.contains(survivor.as_str())
        {
            gone.add(memory.id.as_str());
        }
    }
    gone
}

/// Counts folded and archived rows that every reader of the table sees.
pub(super) fn visible_archived(snapshot: &Snapshot, moved: &HashSet<String>) -> u64 {
    let archived = snapshot.memories.iter().filter(|memory| is_archived(memory));
    archived.filter(|memory| !moved.contains(memory.id.as_str())).count() as u64
}

fn is_archived(memory: &Memory) -> bool {
    matches!(memory.standing, Standing::Ghost { .. } | Standing::Excluded(Exclusion::Archived))
}

/// Returns the rows that memfold archived in their table and that are no longer as it left them.
pub(super) fn archived_edited(
    connection: &Connection,
    snapshot: &Snapshot,
    moved: &HashSet<String>,
) -> rusqlite::Result<Found> {
    let (absorbed, left) = (absorbed(connection)?, digests(connection)?);
    let mut edited = Found::default();
    for memory in snapshot.memories.iter().filter(|memory| is_archived(memory)) {
        let id = memory.id.as_str();
        let is_marked = absorbed.contains(id) || memory.source.starts_with("archived:{");
        let is_ours = is_marked && !moved.contains(id);
        let changed = left.get(id).is_some_and(|then| *then != memory.base_digest.to_string());
        if is_ours && changed {
            edited.add(id);
        }
    }
    Ok(edited)
}

fn absorbed(connection: &Connection) -> rusqlite::Result<HashSet<String>> {
    if !Columns::of(connection, "memfold_lineage")?.has_all(&["absorbed_id", "active"]) {
        return Ok(HashSet::new());
    }
    let sql = "SELECT absorbed_id FROM memfold_lineage WHERE active = 1";
    connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
}

/// Returns the digest of every row as the last unit that touched it left it; none where it left no row.
fn digests(connection: &Connection) -> rusqlite::Result<HashMap<String, String>> {
    let mut digests = HashMap::new();
    if !Columns::of(connection, "memfold_units")?.has("digests") {
        return Ok(digests);
    }
    let mut statement = connection.prepare("SELECT digests FROM memfold_units ORDER BY rowid")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let Ok(text) = row.get_ref(0)?.as_str() else { continue };
        let Ok(Value::Object(fields)) = serde_json::from_str(text) else { continue };
        for (id, digest) in fields {
            match digest {
                Value::String(digest) if !digest.is_empty() => digests.insert(id, digest),
                _ => digests.remove(&id),
            };
        }
    }
    Ok(digests)
}
