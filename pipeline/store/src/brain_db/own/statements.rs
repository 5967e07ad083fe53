//! `memfold_edges` and `memfold_summaries`: how memories are related, and the sources of summaries.

use std::collections::BTreeSet;

use memfold_core::memory::MemoryId;
use memfold_core::summary::Summary;
use rusqlite::{Connection, Row, params, params_from_iter};

use crate::brain_db::read::access::Columns;
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::session::{SessionError, Writes};
use crate::memory_store::LoadStoreError;

/// An edge between two memories, in force.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEdge {
    /// The source memory.
    pub source: MemoryId,
    /// The memory that it leads to.
    pub target: MemoryId,
    /// `supersedes`, `consolidates` or `references`.
    pub kind: String,
    /// How strong, from 0 to 1.
    pub weight: f64,
    /// Why.
    pub reason: Option<String>,
    /// `high`, `medium` or `low`.
    pub confidence: Option<String>,
    /// The run that made it.
    pub run_id: String,
    /// When, as the owner writes times.
    pub at: String,
}

/// A merge in force.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredMerge {
    /// The memory that was merged.
    pub absorbed: MemoryId,
    /// The memory that it was merged into.
    pub survivor: MemoryId,
    /// Their similarity, where both had a vector.
    pub similarity: Option<f64>,
    /// The rule.
    pub rule_id: Option<String>,
    /// The run that merged them.
    pub run_id: String,
    /// When, as the owner writes times.
    pub at: String,
}

/// A summary in force.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSummary {
    /// The memory that holds its text.
    pub memory_id: MemoryId,
    /// The memories that it summarises.
    pub sources: Vec<MemoryId>,
    /// The summary's fields beside its text.
    pub summary: Summary,
}

impl StoredEdge {
    /// Reads source, target, type, weight, reason, confidence, run and time, in this order.
    pub(crate) fn of_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            source: MemoryId::new(row.get::<_, String>(0)?),
            target: MemoryId::new(row.get::<_, String>(1)?),
            kind: row.get(2)?,
            weight: row.get(3)?,
            reason: row.get(4)?,
            confidence: row.get(5)?,
            run_id: row.get(6)?,
            at: row.get(7)?,
        })
    }
}

impl BrainDb {
    /// Returns the edges in force, by source, target and type; none where memfold never wrote to the store.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn edges(&self) -> Result<Vec<StoredEdge>, LoadStoreError> {
        self.edges_where("1", None)
    }

    /// Returns the edges in force from and to a memory, as [`Self::edges`] does.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn edges_of(&self, id: &MemoryId) -> Result<Vec<StoredEdge>, LoadStoreError> {
        self.edges_where("(source_id = ?1 OR target_id = ?1)", Some(id))
    }

    fn edges_where(
        &self,
        condition: &str,
        id: Option<&MemoryId>,
    ) -> Result<Vec<StoredEdge>, LoadStoreError> {
        self.consult("memfold_edges", |connection| {
            if Columns::of(connection, "memfold_edges")?.is_empty() {
                return Ok(Vec::new());
            }
            let sql = format!(
                "SELECT source_id, target_id, type, weight, reason, confidence, run_id, at
                 FROM memfold_edges WHERE active = 1 AND {condition}
                 ORDER BY source_id, target_id, type"
            );
            let mut statement = connection.prepare(&sql)?;
            let id = id.map(MemoryId::as_str);
            let edges = statement.query_map(params_from_iter(id), StoredEdge::of_row)?;
            edges.collect()
        })
    }

    /// Returns the merges in force, in the order in which they were recorded; none where memfold never wrote to the store.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn merges(&self) -> Result<Vec<StoredMerge>, LoadStoreError> {
        self.consult("memfold_lineage", |connection| {
            if Columns::of(connection, "memfold_lineage")?.is_empty() {
                return Ok(Vec::new());
            }
            let mut statement = connection.prepare(
                "SELECT absorbed_id, survivor_id, similarity, rule_id, run_id, at
                 FROM memfold_lineage WHERE active = 1 ORDER BY id",
            )?;
            let merges = statement.query_map([], |row| {
                Ok(StoredMerge {
                    absorbed: MemoryId::new(row.get::<_, String>(0)?),
                    survivor: MemoryId::new(row.get::<_, String>(1)?),
                    similarity: row.get(2)?,
                    rule_id: row.get(3)?,
                    run_id: row.get(4)?,
                    at: row.get(5)?,
                })
            })?;
            merges.collect()
        })
    }

    /// Returns the summaries in force with a live memory, by memory id. Unreadable rows are left
    /// out.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn summaries(&self) -> Result<Vec<StoredSummary>, LoadStoreError> {
        self.consult("memfold_summaries", |connection| {
            if Columns::of(connection, "memfold_summaries")?.is_empty() {
                return Ok(Vec::new());
            }
            let mut statement = connection.prepare(
                "SELECT s.memory_id, s.sources, s.body FROM memfold_summaries AS s
                 JOIN stm ON stm.id = s.memory_id
                 WHERE s.active = 1 AND coalesce(stm.source, '') NOT LIKE 'archived:%'
                 ORDER BY s.memory_id, s.id DESC",
            )?;
            let rows = statement.query_map([], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, String>(2)?))
            })?;
            let mut summaries: Vec<StoredSummary> = Vec::new();
            for row in rows {
                let (id, sources, body) = row?;
                let (Ok(sources), Ok(summary)) =
                    (serde_json::from_str(&sources), serde_json::from_str(&body))
                else {
                    continue;
                };
                let memory_id = MemoryId::new(id);
                if summaries.last().is_none_or(|last| last.memory_id != memory_id) {
                    summaries.push(StoredSummary { memory_id, sources, summary });
                }
            }
            Ok(summaries)
        })
    }
}

impl Writes<'_> {
    /// Tells whether an edge is in force.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn has_edge(
        &self,
        source: &MemoryId,
        target: &MemoryId,
        kind: &str,
    ) -> Result<bool, SessionError> {
        self.query("look for an edge", |connection| {
            let sql = "SELECT 1 FROM memfold_edges
                       WHERE source_id = ?1 AND target_id = ?2 AND type = ?3 AND active = 1";
            let mut statement = connection.prepare_cached(sql)?;
            statement.exists(params![source.as_str(), target.as_str(), kind])
        })
    }
}

/// Returns the memories of the summaries, in force or not, that have a memory as a source.
pub(crate) fn summaries_of(connection: &Connection, id: &str) -> rusqlite::Result<Vec<MemoryId>> {
    if Columns::of(connection, "memfold_summaries")?.is_empty() {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare_cached(
        "SELECT DISTINCT memory_id FROM memfold_summaries
         WHERE EXISTS (SELECT 1 FROM json_each(sources) AS source WHERE source.value = ?1)
         ORDER BY memory_id",
    )?;
    let rows = statement.query_map([id], |row| Ok(MemoryId::new(row.get::<_, String>(0)?)))?;
    rows.collect()
}

/// Returns the memories beyond some that models wrote from one of them.
pub(crate) fn restated_in(
    connection: &Connection,
    ids: &BTreeSet<MemoryId>,
) -> rusqlite::Result<Vec<MemoryId>> {
    if Columns::of(connection, "memfold_edges")?.is_empty() {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare_cached(
        "SELECT source_id FROM memfold_edges
         WHERE target_id = ?1 AND type = 'consolidates' AND active = 1",
    )?;
    let mut found = BTreeSet::new();
    for id in ids {
        let rows = statement.query_map([id.as_str()], |row| row.get::<_, String>(0))?;
        for new in rows {
            found.insert(MemoryId::new(new?));
        }
    }
    Ok(found.difference(ids).cloned().collect())
}
