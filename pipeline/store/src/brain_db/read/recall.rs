//! Queries for recall and the start of a session: words, and the facts for a memory's tier.

use std::collections::BTreeSet;

use memfold_core::memory::{Memory, MemoryId, Status};
use memfold_core::summary::Summary;
use memfold_core::time::Instant;
use rusqlite::{OptionalExtension as _, Params, Row as SqlRow, params};

use crate::brain_db::own::merged::merged_with;
use crate::brain_db::own::statements::StoredEdge;
use crate::brain_db::read::load::{MEMORY_COLUMNS, cell, raw_memory};
use crate::brain_db::read::lookup::StoreReader;
use crate::memory_store::LoadStoreError;
use crate::reading::memory::MemoryReader;
use memfold_core::row::MEMORY_CELLS;

/// Rows that are ranked: bm25 reads each of them, which takes about a microsecond.
const RANKED_ROWS_MAX: i64 = 1_000;

/// Facts that determine a memory's tier, beside its row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecallFacts {
    /// When it was last read; none where the store does not say.
    pub last_accessed: Option<Instant>,
    /// Whether a consolidation wrote it as a summary.
    pub is_summary: bool,
    /// The edges `supersedes` in force from and to it.
    pub supersedes: Vec<StoredEdge>,
}

/// A live memory with its times.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedMemory {
    /// The memory.
    pub memory: Memory,
    /// When it was last read.
    pub last_accessed: Option<Instant>,
    /// When it last changed.
    pub updated_at: Option<Instant>,
}

/// Content for the start of a session; each list has at most the requested length.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionRows {
    /// The latest summaries in force, with their fields beside the text.
    pub summaries: Vec<(TimedMemory, Summary)>,
    /// The newest memories and, where an index leads to them, the most important ones, by id.
    pub memories: Vec<TimedMemory>,
}

/// Pages that a connection keeps for the next recall, in KiB. The upper pages of the tables of 100,000 memories, which
/// every recall reads, do not fit SQLite's own 2 MiB.
const KEPT_PAGES_KIB: i64 = 16 * 1_024;

impl StoreReader<'_> {
    /// Makes the connection keep more pages, for repeated look-ups.
    ///
    /// # Errors
    /// When SQLite refuses it.
    pub fn keep_more_pages(&self) -> Result<(), LoadStoreError> {
        let set = self.pass.connection.pragma_update(None, "cache_size", -KEPT_PAGES_KIB);
        set.map_err(|error| self.pass.failed("stm", error))
    }

    /// Returns the ids of rows with some of the words, the best first by bm25; `None` where the
    /// store has no full-text index that can be queried.
    ///
    /// Words rank, the rarest first, as long as all of them together are in at most 2,000 rows;
    /// after these rows come the newest rows that have all other words.
    /// The index may know texts that its owner changed since.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn ids_of_words(
        &self,
        words: &[String],
        most: usize,
    ) -> Result<Option<Vec<String>>, LoadStoreError> {
        if !self.has_rowid_of_memories || !self.own()?.has_words {
            return Ok(None);
        }
        let Ok(rowids) = self.rows_of_words(words, most) else { return Ok(None) };
        let failed = |error| self.pass.failed("stm", error);
        let sql = "SELECT id FROM stm WHERE rowid = ?1 AND typeof(id) = 'text'";
        let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
        let mut ids = Vec::new();
        for rowid in rowids {
            // The entry of a row that is gone stays in the index.
            ids.extend(statement.query_row([rowid], |row| row.get(0)).optional().map_err(failed)?);
        }
        Ok(Some(ids))
    }

    /// Returns the ids of merged memories that have some of the words where their survivor lacks
    /// them, the best first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn merged_ids_of_words(
        &self,
        words: &[String],
        most: usize,
    ) -> Result<Vec<String>, LoadStoreError> {
        merged_with(self.pass.connection, words, most)
            .map_err(|error| self.pass.failed("memfold_merged", error))
    }

    fn rows_of_words(&self, words: &[String], most: usize) -> rusqlite::Result<Vec<i64>> {
        let connection = self.pass.connection;
        let mut counted = connection.prepare_cached(
            "SELECT count(*) FROM (SELECT 1 FROM stm_fts WHERE stm_fts MATCH ?1 LIMIT ?2)",
        )?;
        let mut phrases: Vec<(i64, String)> = Vec::new();
        for word in words {
            let phrase = format!("\"{}\"", word.replace('"', "\"\""));
            let count =
                counted.query_row(params![phrase, RANKED_ROWS_MAX + 1], |row| row.get(0))?;
            phrases.push((count, phrase));
        }
        phrases.retain(|(count, _)| *count > 0);
        phrases.sort_by_key(|(count, _)| *count);
        let (mut rare, mut common, mut row_count) = (Vec::new(), Vec::new(), 0);
        for (count, phrase) in phrases {
            row_count += count;
            if row_count > RANKED_ROWS_MAX { common.push(phrase) } else { rare.push(phrase) }
        }
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let mut rowids: Vec<i64> = Vec::new();
        let asked = [(rare.join(" OR "), "rank"), (common.join(" AND "), "rowid DESC")];
        for (query, order) in asked {
            if query.is_empty() || rowids.len() as i64 >= most {
                continue;
            }
            let sql = format!(
                "SELECT rowid FROM stm_fts WHERE stm_fts MATCH ?1 ORDER BY {order} LIMIT ?2"
            );
            let mut statement = connection.prepare_cached(&sql)?;
            let found = statement.query_map(params![query, most], |row| row.get(0))?;
            for rowid in found {
                let rowid = rowid?;
                if !rowids.contains(&rowid) {
                    rowids.push(rowid);
                }
            }
        }
        rowids.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        Ok(rowids)
    }

    /// Passes on id and text of the rows that were archived where they stand. Reads the whole table.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn texts_archived_in_place(
        &self,
        mut take: impl FnMut(&str, &str),
    ) -> Result<(), LoadStoreError> {
        let failed = |error| self.pass.failed("stm", error);
        let sql = "SELECT id, content FROM stm WHERE source LIKE 'archived:%'";
        let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let (id, content) = (cell(row, 0).map_err(failed)?, cell(row, 1).map_err(failed)?);
            if let (Ok(Some(id)), Ok(Some(content))) = (id.text(), content.text()) {
                take(&id, &content);
            }
        }
        Ok(())
    }

    /// Returns the facts that determine the tier of a memory, beside its row.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn recall_facts(&self, id: &MemoryId) -> Result<RecallFacts, LoadStoreError> {
        let own = self.own()?;
        let mut facts = RecallFacts::default();
        if self.pass.memory_columns.has("last_accessed") {
            let failed = |error| self.pass.failed("stm", error);
            let sql = "SELECT last_accessed FROM stm WHERE id = ?1";
            let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
            let read = |row: &SqlRow<'_>| Ok(cell(row, 0)?.instant(self.pass.request.time_zone));
            let found = statement.query_row([id.as_str()], read).optional().map_err(failed)?;
            facts.last_accessed = found.flatten();
        }
        if own.has_summaries {
            let failed = |error| self.pass.failed("memfold_summaries", error);
            let sql = "SELECT 1 FROM memfold_summaries WHERE memory_id = ?1 AND active = 1 LIMIT 1";
            let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
            facts.is_summary = statement.exists([id.as_str()]).map_err(failed)?;
        }
        if own.has_edges {
            facts.supersedes = self.superseding_edges(id)?;
        }
        Ok(facts)
    }

    fn superseding_edges(&self, id: &MemoryId) -> Result<Vec<StoredEdge>, LoadStoreError> {
        let failed = |error| self.pass.failed("memfold_edges", error);
        let side = |column: &str| {
            format!(
                "SELECT source_id, target_id, type, weight, reason, confidence, run_id, at
                 FROM memfold_edges WHERE {column} = ?1 AND type = 'supersedes' AND active = 1"
            )
        };
        let sql = format!("{} UNION ALL {}", side("target_id"), side("source_id"));
        let mut statement = self.pass.connection.prepare_cached(&sql).map_err(failed)?;
        let edges = statement.query_map([id.as_str()], StoredEdge::of_row).map_err(failed)?;
        edges.collect::<Result<_, _>>().map_err(failed)
    }

    /// Reads the start of a session: at most `most` summaries, newest memories and most important
    /// memories, and never the whole table.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn session_rows(&self, most: usize) -> Result<SessionRows, LoadStoreError> {
        let limit = i64::try_from(most).unwrap_or(i64::MAX);
        let mut memories = Vec::new();
        if self.has_rowid_of_memories {
            memories = self.timed("ORDER BY rowid DESC LIMIT ?1", [limit])?;
            if self.has_index_of_importance()? {
                let important = "WHERE importance >= 2.0 ORDER BY importance DESC LIMIT ?1";
                memories.extend(self.timed(important, [limit])?);
            }
        }
        memories.sort_by(|a: &TimedMemory, b| a.memory.id.cmp(&b.memory.id));
        memories.dedup_by(|a, b| a.memory.id == b.memory.id);
        Ok(SessionRows { summaries: self.latest_summaries(limit)?, memories })
    }

    fn latest_summaries(&self, limit: i64) -> Result<Vec<(TimedMemory, Summary)>, LoadStoreError> {
        if !self.own()?.has_summaries {
            return Ok(Vec::new());
        }
        let failed = |error| self.pass.failed("memfold_summaries", error);
        let sql = "SELECT memory_id, body FROM memfold_summaries WHERE active = 1
                   ORDER BY id DESC LIMIT ?1";
        let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
        let rows = statement
            .query_map([limit], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
            .map_err(failed)?;
        let mut seen = BTreeSet::new();
        let mut summaries = Vec::new();
        for row in rows {
            let (id, body) = row.map_err(failed)?;
            let Ok(summary) = serde_json::from_str(&body) else { continue };
            if !seen.insert(id.clone()) {
                continue;
            }
            let found = self.timed("WHERE id = ?1", [id])?.into_iter().next();
            summaries.extend(found.map(|memory| (memory, summary)));
        }
        Ok(summaries)
    }

    /// Tells whether the most important rows are found without reading the others.
    fn has_index_of_importance(&self) -> Result<bool, LoadStoreError> {
        let sql = "SELECT 1 FROM sqlite_master WHERE type = 'index' AND tbl_name = 'stm'
                   AND sql LIKE '%(importance%' AND sql NOT LIKE '%WHERE%'";
        let found = self.pass.connection.prepare_cached(sql).and_then(|mut s| s.exists([]));
        found.map_err(|error| self.pass.failed("stm", error))
    }

    fn timed(&self, rest: &str, params: impl Params) -> Result<Vec<TimedMemory>, LoadStoreError> {
        let failed = |error| self.pass.failed("stm", error);
        let position = if self.has_rowid_of_memories { "rowid" } else { "0" };
        let columns = self.pass.memory_columns;
        let listed = columns.expressions(&MEMORY_COLUMNS);
        let times = columns.expressions(&["last_accessed", "updated_at"]);
        let sql = format!("SELECT {position}, {listed}, {times} FROM stm {rest}");
        let mut statement = self.pass.connection.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query(params).map_err(failed)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let mut reader = MemoryReader::new(*self.pass.request);
            reader.take(&raw_memory(row).map_err(failed)?, row.get(0).map_err(failed)?);
            let time = |column| {
                let cell = cell(row, column).map_err(failed)?;
                Ok::<_, LoadStoreError>(cell.instant(self.pass.request.time_zone))
            };
            let (last_accessed, updated_at) = (time(MEMORY_CELLS + 1)?, time(MEMORY_CELLS + 2)?);
            let memory = reader.finish(Vec::new()).memories.into_iter().next();
            let memory = memory.filter(|memory| memory.status == Status::Live);
            found.extend(memory.map(|memory| TimedMemory { memory, last_accessed, updated_at }));
        }
        Ok(found)
    }
}
