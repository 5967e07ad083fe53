//! What is recorded of a memory and another one: open flags, a person's decisions.

use std::collections::BTreeMap;

use rusqlite::params;

use super::StoreReader;
use crate::LoadStoreError;
use crate::brain_db::columns::Columns;
use memfold_model::decisions::content_hash;
use memfold_model::memory::{Memory, MemoryId};

/// An open contradiction flag, seen from one of its sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFlag {
    /// The row of `memfold_flags`.
    pub row: i64,
    /// The other side.
    pub other: MemoryId,
    /// The side that was said again after the other one was, and when.
    pub asserted: Option<(MemoryId, String)>,
}

impl StoreReader<'_> {
    /// Returns the contradictions that a memory is flagged for and that nobody settled, as far as its text is the one that
    /// was flagged; the latest of several with the same other side.
    pub fn open_contradictions_of(&self, memory: &Memory) -> Result<Vec<OpenFlag>, LoadStoreError> {
        let columns = self.columns_of("memfold_flags")?;
        if !columns.has_all(&["left_id", "right_id", "left_hash", "right_hash", "state", "active"])
        {
            return Ok(Vec::new());
        }
        let asserted = match columns.has_all(&["asserted_id", "asserted_at"]) {
            true => "asserted_id, asserted_at",
            false => "NULL, NULL",
        };
        let kind = if columns.has("kind") { "coalesce(kind, '') <> 'near'" } else { "1" };
        let side = |own: &str, other: &str| {
            format!(
                "SELECT id, {other}_id, {asserted} FROM memfold_flags
                 WHERE {own}_id = ?1 AND {own}_hash = ?2 AND state = 'open' AND active = 1 AND {kind}"
            )
        };
        let sql = format!("{} UNION ALL {}", side("left", "right"), side("right", "left"));
        let failed = |error| self.pass.failed("memfold_flags", error);
        let mut statement = self.pass.connection.prepare_cached(&sql).map_err(failed)?;
        let flags = statement
            .query_map(params![memory.id.as_str(), content_hash(&memory.content)], |row| {
                let (id, at) = (row.get::<_, Option<String>>(2)?, row.get(3)?);
                Ok(OpenFlag {
                    row: row.get(0)?,
                    other: MemoryId::new(row.get::<_, String>(1)?),
                    asserted: id.map(MemoryId::new).zip(at),
                })
            })
            .map_err(failed)?;
        let mut flags = flags.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        flags.sort_by(|a, b| a.other.cmp(&b.other).then(b.row.cmp(&a.row)));
        flags.dedup_by(|a, b| a.other == b.other);
        Ok(flags)
    }

    /// Returns the memories that a person keeps apart from this one while its text stays, with the hash of theirs.
    pub fn kept_apart_from(
        &self,
        memory: &Memory,
    ) -> Result<BTreeMap<MemoryId, Option<String>>, LoadStoreError> {
        let columns = self.columns_of("memfold_decisions")?;
        if !columns.has_all(&["kind", "group_id", "memory_id", "content_hash", "active"]) {
            return Ok(BTreeMap::new());
        }
        let sql = "SELECT b.memory_id, b.content_hash FROM memfold_decisions AS a
                   JOIN memfold_decisions AS b
                   ON b.group_id = a.group_id AND b.kind = 'keep_both' AND b.active = 1
                   WHERE a.memory_id = ?1 AND a.kind = 'keep_both' AND a.active = 1
                     AND coalesce(a.content_hash, ?2) = ?2 AND b.memory_id <> ?1
                   ORDER BY b.id";
        let failed = |error| self.pass.failed("memfold_decisions", error);
        let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
        let others = statement
            .query_map(params![memory.id.as_str(), content_hash(&memory.content)], |row| {
                Ok((MemoryId::new(row.get::<_, String>(0)?), row.get(1)?))
            })
            .map_err(failed)?;
        others.collect::<Result<_, _>>().map_err(failed)
    }

    /// Tells whether a person let one memory take the place of another one that said something else.
    pub fn is_superseded(&self, older: &str, by: &MemoryId) -> Result<bool, LoadStoreError> {
        if !self.columns_of("memfold_flags")?.has_all(&["left_id", "right_id", "state", "active"]) {
            return Ok(false);
        }
        let sql = "SELECT 1 FROM memfold_flags WHERE state = 'superseded' AND active = 1
                   AND (left_id = ?1 AND right_id = ?2 OR left_id = ?2 AND right_id = ?1) LIMIT 1";
        let failed = |error| self.pass.failed("memfold_flags", error);
        let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
        statement.exists(params![older, by.as_str()]).map_err(failed)
    }

    fn columns_of(&self, table: &'static str) -> Result<Columns, LoadStoreError> {
        Columns::of(self.pass.connection, table).map_err(|error| self.pass.failed(table, error))
    }
}
