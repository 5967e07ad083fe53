//! The status of a single memory and the memories merged into it; the queries of recall and of the start of a session.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, Params, Row as SqlRow, params};

use crate::brain_db::own::archive::merged_with;
use crate::brain_db::own::statements::{EDGE, edge};
use crate::brain_db::read::access::{all, cell0, cells2, exists, first};
use crate::brain_db::read::load::{MEMORY_COLUMNS, cell, raw_embedding, raw_memory};
use crate::brain_db::read::lookup::{Reach, Reaches, StoreReader};
use crate::error::StoreError;
use crate::memory_store::VecSink;
use crate::reading::memory::{
    EmbeddingReader, MemoryReader, RawEmbedding, ReadMemories, decode_vector,
};
use crate::reading::vector::ModelShapes;
use memfold_core::decisions::content_hash;
use memfold_core::journal::RowImage;
use memfold_core::lifecycle::Edge;
use memfold_core::memory::{Memory, MemoryId, Status, VectorSpace};
use memfold_core::row::{MEMORY_CELLS, RawMemory, is_archived_by_run, parse_source};
use memfold_core::summary::Summary;
use memfold_core::time::Instant;
use memfold_core::value::Value;

/// A live memory and its vector, as they are now.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveMemory {
    /// The memory.
    pub memory: Memory,
    /// Its vector.
    pub vector: Vec<f32>,
}

/// A memory that was merged into another.
#[derive(Debug, Clone, PartialEq)]
pub struct MergedRow {
    /// The id.
    pub id: MemoryId,
    /// The text.
    pub content: Box<str>,
    /// The vector, where there is one.
    pub vector: Option<Vec<f32>>,
}

/// A row that was moved out of a table.
pub(crate) struct ArchivedRecord {
    /// The row; `None` where it cannot be read.
    pub(crate) image: Option<RowImage>,
    /// The memory that it was merged into.
    pub(crate) survivor: Option<MemoryId>,
}

/// Vectors that are compared, and how the store's models write them.
#[derive(Debug, Clone, Copy)]
pub struct SpaceShapes<'a> {
    /// The space.
    pub space: &'a VectorSpace,
    /// How models write vectors.
    pub shapes: &'a ModelShapes,
}

impl StoreReader<'_> {
    /// Reads a memory as it is now; `None` unless it is live and has a valid vector (of the given
    /// space, if any).
    pub fn live(
        &self,
        id: &str,
        space: Option<&VectorSpace>,
        shapes: &ModelShapes,
    ) -> Result<Option<LiveMemory>, StoreError> {
        let Some(read) = self.read_memory(id)? else { return Ok(None) };
        if !is_live(&read) {
            return Ok(None);
        }
        let found = self.with_vector(read, shapes)?;
        Ok(found
            .and_then(|(live, found)| space.is_none_or(|space| *space == found).then_some(live)))
    }

    /// Reads a memory that is live, was merged into another or was archived by a rule of ours, in
    /// the table or in the archive; an archived one with the categories that it had. `None` for
    /// anything else: expired, archived by its owner, a record, unreadable, gone.
    pub fn remembered(&self, id: &str) -> Result<Option<Memory>, StoreError> {
        let Some(read) = self.read_memory(id)? else { return self.moved_memory(id) };
        let memory = read.memories.into_iter().next();
        Ok(memory.and_then(|memory| match memory.status {
            Status::Live | Status::Merged => Some(memory),
            Status::Archived if is_archived_by_run(&memory.source) => Some(before_archival(memory)),
            _ => None,
        }))
    }

    /// As [`Self::remembered`], of a live memory only.
    pub fn live_memory(&self, id: &str) -> Result<Option<Memory>, StoreError> {
        Ok(self.remembered(id)?.filter(|memory| memory.status == Status::Live))
    }

    /// Reads a memory in the archive table: its marks were never written.
    fn moved_memory(&self, id: &str) -> Result<Option<Memory>, StoreError> {
        let Some((image, survivor)) = self.archived_image("stm", id)? else { return Ok(None) };
        let mut memories = MemoryReader::new(*self.pass.request);
        memories.take_archived(&RawMemory::from(&image), survivor);
        Ok(memories.finish(Vec::new()).memories.into_iter().next())
    }

    /// Returns the latest record of a row that was moved out of a table, where it can be read, and its survivor.
    pub(crate) fn archived_image(
        &self,
        table: &str,
        id: &str,
    ) -> Result<Option<(RowImage, Option<MemoryId>)>, StoreError> {
        let found = self.archived_record(table, id)?;
        Ok(found.and_then(|record| Some((record.image?, record.survivor))))
    }

    /// As [`Self::archived_image`]; a record that cannot be read has no image.
    pub(crate) fn archived_record(
        &self,
        table: &str,
        id: &str,
    ) -> Result<Option<ArchivedRecord>, StoreError> {
        let Some(archive) = self.archive()? else { return Ok(None) };
        let sql = format!(
            "SELECT survivor_id, {} FROM memfold_archive
             WHERE memory_id = ?1 AND table_name = ?2 ORDER BY id DESC LIMIT 1",
            archive.listed()
        );
        let read = |row: &SqlRow<'_>| {
            let survivor = row.get::<_, Option<String>>(0)?.map(MemoryId::new);
            Ok(ArchivedRecord { image: archive.image(row, 1)?, survivor })
        };
        self.pass.query("embeddings", |c| first(c, &sql, [id, table], read))
    }

    /// Returns the vector of a live memory, where it has a valid one of the space.
    pub fn vector(&self, id: &str, space: SpaceShapes<'_>) -> Result<Option<Vec<f32>>, StoreError> {
        Ok(self.live(id, Some(space.space), space.shapes)?.map(|live| live.vector))
    }

    /// Returns all that was merged into a memory, directly or along with others; `None` where that is more than `most`.
    pub fn merged_rows(
        &self,
        live: &Memory,
        space: Option<SpaceShapes<'_>>,
        most: usize,
    ) -> Result<Option<Vec<MergedRow>>, StoreError> {
        let mut merged_rows: Vec<MergedRow> = Vec::new();
        let mut seen = BTreeSet::from([live.id.clone()]);
        // The source of a memory names the memories merged into it; a merged row's source no longer
        // does.
        let mut open = vec![(live.id.clone(), &*live.source)];
        while let Some((survivor, source)) = open.pop() {
            for id in self.merged_into(&survivor, source)? {
                if seen.contains(&id) {
                    continue;
                }
                let Some(Memory { content, merged_into: Some(survivor), .. }) =
                    self.remembered(id.as_str())?
                else {
                    continue;
                };
                // A list names all memories ever merged, also the ones that somebody merged
                // elsewhere since.
                if !seen.contains(&survivor) {
                    continue;
                }
                if merged_rows.len() == most {
                    return Ok(None);
                }
                let vector = match space {
                    Some(space) => self.vector_of_merged(id.as_str(), space)?,
                    None => None,
                };
                open.push((id.clone(), ""));
                seen.insert(id.clone());
                merged_rows.push(MergedRow { id, content, vector });
            }
        }
        Ok(Some(merged_rows))
    }

    /// The memories that were merged into one: by our own tables, then by its source.
    fn merged_into(&self, survivor: &MemoryId, source: &str) -> Result<Vec<MemoryId>, StoreError> {
        let recorded = self.merges_into(survivor)?.into_iter();
        let mut ids: Vec<MemoryId> = recorded.map(|merge| merge.merged).collect();
        // The latest stand last, and memories that came along with another before it.
        ids.extend(parse_source(source).merged_from.into_iter().rev());
        Ok(ids)
    }

    /// Returns the vector that a merged memory had, where it is a valid one of the space.
    pub fn vector_of_merged(
        &self,
        id: &str,
        space: SpaceShapes<'_>,
    ) -> Result<Option<Vec<f32>>, StoreError> {
        let SpaceShapes { space, shapes } = space;
        let mut vector = Vec::new();
        let found =
            self.last_embedding(id, |raw| decode_vector(raw, shapes, space, &mut vector))?;
        if let Some(is_valid) = found {
            return Ok(is_valid.then_some(vector));
        }
        let image = self.archived_image("embeddings", id)?;
        let is_valid = image.is_some_and(|(image, _)| {
            decode_vector(&RawEmbedding::from(&image), shapes, space, &mut vector)
        });
        Ok(is_valid.then_some(vector))
    }

    /// Reads the row of a memory in any state; `None` where there is none.
    fn read_memory(&self, id: &str) -> Result<Option<ReadMemories>, StoreError> {
        let mut memories = MemoryReader::new(*self.pass.request);
        if !self.take_row(id, &mut memories)? {
            return Ok(None);
        }
        let read = memories.finish(Vec::new());
        let is_archived = |memory: &Memory| memory.status == Status::Archived;
        if !read.memories.iter().any(is_archived) {
            return Ok(Some(read));
        }
        // Its own marks do not name its survivor, but ours may.
        let mut memories = MemoryReader::new(*self.pass.request);
        self.take_row(id, &mut memories)?;
        Ok(Some(memories.finish(self.survivors_of(&MemoryId::new(id))?)))
    }

    /// Returns the recorded survivors of a memory beside it, the latest first.
    pub(crate) fn survivors_of(
        &self,
        id: &MemoryId,
    ) -> Result<Vec<(MemoryId, MemoryId)>, StoreError> {
        let merges = self.merges_of(id)?.into_iter();
        Ok(merges.map(|merge| (merge.merged, merge.survivor)).collect())
    }

    /// Adds the vector to a memory that was read; `None` where it has no valid one.
    fn with_vector(
        &self,
        read: ReadMemories,
        shapes: &ModelShapes,
    ) -> Result<Option<(LiveMemory, VectorSpace)>, StoreError> {
        let Some(id) = read.memories.first().map(|memory| memory.id.clone()) else {
            return Ok(None);
        };
        let mut sink = VecSink::default();
        let mut embeddings = EmbeddingReader::new(&read, shapes);
        if let Some(taken) =
            self.last_embedding(id.as_str(), |raw| embeddings.take(raw, &mut sink))?
        {
            taken.map_err(StoreError::Sink)?;
        }
        let found = embeddings.finish();
        let snapshot = found.into_snapshot(read, None, Vec::new());
        let memory = snapshot.memories.into_iter().next();
        Ok(memory.and_then(|memory| {
            let (at, row) = memory.embedding.vector()?;
            let space = snapshot.spaces[at.0 as usize].clone();
            Some((LiveMemory { memory, vector: sink.vector(at, row).to_vec() }, space))
        }))
    }

    /// Hands over the embedding of a memory that counts: the last of several.
    pub(crate) fn last_embedding<T>(
        &self,
        id: &str,
        take: impl FnOnce(&RawEmbedding<'_>) -> T,
    ) -> Result<Option<T>, StoreError> {
        if !self.has_embeddings() {
            return Ok(None);
        }
        let order = if self.has_rowid { "ORDER BY rowid DESC" } else { "" };
        let listed = self.embedding_columns();
        let sql = format!(
            "SELECT 0, {listed} FROM embeddings
             WHERE source_type = 'stm' AND source_id = ?1 {order} LIMIT 1"
        );
        let take = |row: &SqlRow<'_>| Ok(take(&raw_embedding(row)?));
        self.pass.query("embeddings", |c| first(c, &sql, [id], take))
    }
}

/// Takes the marks of the archive off.
fn before_archival(mut memory: Memory) -> Memory {
    memory.categories.retain(|category| **category != *"archived");
    for category in &mut memory.categories {
        if let Some(before) = category.strip_prefix("archive/") {
            *category = before.into();
        }
    }
    memory
}

fn is_live(read: &ReadMemories) -> bool {
    read.memories.first().is_some_and(|memory| memory.status == Status::Live)
}

/// An open contradiction flag, seen from one of its sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFlag {
    /// The row of `memfold_flags`.
    pub row: i64,
    /// The other side.
    pub other: MemoryId,
    /// The side that was saved again after the other one was, and when.
    pub asserted: Option<(MemoryId, String)>,
}

impl StoreReader<'_> {
    /// Returns the contradictions that a memory is flagged for and that nobody settled, as far as its text is the one that
    /// was flagged; the latest of several with the same other side.
    pub fn open_contradictions_of(&self, memory: &Memory) -> Result<Vec<OpenFlag>, StoreError> {
        let columns = self.pass.columns("memfold_flags")?;
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
        let read = |row: &SqlRow<'_>| {
            let (id, at) = (row.get::<_, Option<String>>(2)?, row.get(3)?);
            Ok(OpenFlag {
                row: row.get(0)?,
                other: MemoryId::new(row.get::<_, String>(1)?),
                asserted: id.map(MemoryId::new).zip(at),
            })
        };
        let text = params![memory.id.as_str(), content_hash(&memory.content)];
        let flags = self.pass.query("memfold_flags", |c| all(c, &sql, text, read));
        let mut flags: Vec<OpenFlag> = flags?;
        flags.sort_by(|a, b| a.other.cmp(&b.other).then(b.row.cmp(&a.row)));
        flags.dedup_by(|a, b| a.other == b.other);
        Ok(flags)
    }

    /// Returns the memories that a person keeps apart from this one while its text stays, with the hash of theirs.
    pub fn kept_apart_from(
        &self,
        memory: &Memory,
    ) -> Result<BTreeMap<MemoryId, Option<String>>, StoreError> {
        let columns = self.pass.columns("memfold_decisions")?;
        if !columns.has_all(&["kind", "group_id", "memory_id", "content_hash", "active"]) {
            return Ok(BTreeMap::new());
        }
        let sql = "SELECT b.memory_id, b.content_hash FROM memfold_decisions AS a
                   JOIN memfold_decisions AS b
                   ON b.group_id = a.group_id AND b.kind = 'keep_both' AND b.active = 1
                   WHERE a.memory_id = ?1 AND a.kind = 'keep_both' AND a.active = 1
                     AND coalesce(a.content_hash, ?2) = ?2 AND b.memory_id <> ?1
                   ORDER BY b.id";
        let text = params![memory.id.as_str(), content_hash(&memory.content)];
        let read = |row: &SqlRow<'_>| Ok((id_at0(row)?, row.get(1)?));
        self.pass.query("memfold_decisions", |c| all(c, sql, text, read))
    }

    /// Tells whether a person let one memory replace another one with a different statement.
    pub fn is_superseded(&self, older: &str, by: &MemoryId) -> Result<bool, StoreError> {
        if !self.pass.columns("memfold_flags")?.has_all(&["left_id", "right_id", "state", "active"])
        {
            return Ok(false);
        }
        let sql = "SELECT 1 FROM memfold_flags WHERE state = 'superseded' AND active = 1
                   AND (left_id = ?1 AND right_id = ?2 OR left_id = ?2 AND right_id = ?1) LIMIT 1";
        self.pass.query("memfold_flags", |c| exists(c, sql, [older, by.as_str()]))
    }
}

impl StoreReader<'_> {
    /// Passes on the vectors of a space that came after a place, in order, and the vectors of
    /// revived memories: memory's id and vector. It does not check whether the others are live.
    ///
    /// # Errors
    /// When the store cannot be read, or the error of `take`.
    pub fn since<E: From<StoreError>>(
        &self,
        reaches: Reaches,
        space: SpaceShapes<'_>,
        mut take: impl FnMut(&str, &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.vectors_since(reaches.embeddings, space, &mut take)?;
        let mut revived = Vec::new();
        self.revived_since(reaches.revived, usize::MAX, |id| revived.push(id.to_owned()))?;
        for id in revived {
            if let Some(vector) = self.vector(&id, space)? {
                take(&id, &vector)?;
            }
        }
        Ok(())
    }

    /// Passes on the ids of memories that live again since a place; `false` where there are more than `limit`.
    fn revived_since(
        &self,
        reach: Reach,
        limit: usize,
        mut take: impl FnMut(&str),
    ) -> Result<bool, StoreError> {
        if reach == Reaches::START.revived || !self.own()?.has_revived {
            return Ok(true);
        }
        let sql = "SELECT seq, memory_id FROM memfold_revived WHERE seq > ?1 ORDER BY seq LIMIT ?2";
        self.limited(sql, reach, limit, |row| {
            if let Ok(id) = row.get_ref(1)?.as_str() {
                take(id);
            }
            Ok(())
        })
    }

    /// Passes on id and text of memories that live again since a place, as [`texts_since`](Self::texts_since).
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn revived_texts_since(
        &self,
        reach: Reach,
        limit: usize,
        mut take: impl FnMut(&str, &str),
    ) -> Result<bool, StoreError> {
        let mut revived = Vec::new();
        let is_complete = self.revived_since(reach, limit, |id| revived.push(id.to_owned()))?;
        for id in revived {
            if let Some(memory) = self.live_memory(&id)? {
                take(&id, &memory.content);
            }
        }
        Ok(is_complete)
    }

    fn vectors_since<E: From<StoreError>>(
        &self,
        reach: Reach,
        space: SpaceShapes<'_>,
        take: &mut impl FnMut(&str, &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let SpaceShapes { space, shapes } = space;
        let failed = |error| self.pass.failed("embeddings", error);
        if !self.has_embeddings() {
            return Ok(());
        }
        let (position, order) =
            if self.has_rowid { ("rowid", "AND rowid > ?1 ORDER BY rowid") } else { ("0", "") };
        let listed = self.embedding_columns();
        // By the index on source_type nearly every row would be found one by one and then sorted.
        let sql = format!(
            "SELECT {position}, {listed} FROM embeddings NOT INDEXED WHERE source_type = 'stm' {order}"
        );
        let mut statement = self.pass.connection.prepare_cached(&sql).map_err(failed)?;
        let first = [reach.rowid()];
        let parameters = if self.has_rowid { &first[..] } else { &[] };
        let mut rows = statement.query(rusqlite::params_from_iter(parameters)).map_err(failed)?;
        let mut vector = Vec::new();
        while let Some(row) = rows.next().map_err(failed)? {
            let raw = raw_embedding(row).map_err(failed)?;
            let Some(id) = raw.source_id.text().ok().flatten() else { continue };
            if decode_vector(&raw, shapes, space, &mut vector) {
                take(&id, &vector)?;
            }
        }
        Ok(())
    }

    /// Passes on id and text of memories that came after a place, in any state; `false` where there
    /// are more than `limit`, of which the first ones were passed on.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn texts_since(
        &self,
        reach: Reach,
        limit: usize,
        mut take: impl FnMut(&str, &str),
    ) -> Result<bool, StoreError> {
        let position = if self.has_rowid_of_memories { "rowid" } else { "0" };
        let after = if self.has_rowid_of_memories { "rowid > ?1 ORDER BY rowid" } else { "?1 < 1" };
        let sql =
            format!("SELECT {position}, id, content FROM stm NOT INDEXED WHERE {after} LIMIT ?2");
        self.limited(&sql, reach, limit, |row| take_text(row, &mut take))
    }

    /// Passes on id and text of memories that were moved into the archive after a place, as
    /// [`texts_since`](Self::texts_since).
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn archived_texts_since(
        &self,
        reach: Reach,
        limit: usize,
        mut take: impl FnMut(&str, &str),
    ) -> Result<bool, StoreError> {
        let Some(archive) = self.archive()? else { return Ok(true) };
        let sql = format!(
            "SELECT rowid, memory_id, {} FROM memfold_archive NOT INDEXED
             WHERE rowid > ?1 AND table_name = 'stm' ORDER BY rowid LIMIT ?2",
            archive.listed()
        );
        self.limited(&sql, reach, limit, |row| {
            let id: String = row.get(1)?;
            let image = archive.image(row, 2)?;
            if let Some(content) = image.as_ref().and_then(content_of) {
                take(&id, content);
            }
            Ok(())
        })
    }

    fn limited(
        &self,
        sql: &str,
        reach: Reach,
        limit: usize,
        mut take: impl FnMut(&SqlRow<'_>) -> rusqlite::Result<()>,
    ) -> Result<bool, StoreError> {
        let most = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        self.pass.query("embeddings", |connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(params![reach.rowid(), most])?;
            let mut taken = 0;
            while let Some(row) = rows.next()? {
                if taken == limit {
                    return Ok(false);
                }
                taken += 1;
                take(row)?;
            }
            Ok(true)
        })
    }
}

/// Reads the first cell of a row as an id.
pub(crate) fn id_at0(row: &SqlRow<'_>) -> rusqlite::Result<MemoryId> {
    Ok(MemoryId::new(row.get::<_, String>(0)?))
}

/// Passes on the second and third cell of a row, id and text, where they are texts.
fn take_text(row: &SqlRow<'_>, take: &mut impl FnMut(&str, &str)) -> rusqlite::Result<()> {
    let (id, content) = (cell(row, 1)?, cell(row, 2)?);
    if let (Ok(Some(id)), Ok(Some(content))) = (id.text(), content.text()) {
        take(&id, &content);
    }
    Ok(())
}

/// Returns the text of a row as the archive keeps it.
pub(crate) fn content_of(image: &RowImage) -> Option<&str> {
    image.get("content").and_then(Value::as_text)
}

/// Rows that are ranked: bm25 reads each of them, which takes about a microsecond.
const RANKED_ROWS_MAX: i64 = 1_000;

/// Facts that determine a memory's tier, beside its row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RecallFacts {
    /// Whether a consolidation wrote it as a summary.
    pub is_summary: bool,
    /// The edges `supersedes` in force from and to it.
    pub supersedes: Vec<Edge>,
}

/// A live memory with the time of its last change.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedMemory {
    /// The memory.
    pub memory: Memory,
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
    pub fn keep_more_pages(&self) -> Result<(), StoreError> {
        self.pass.query("stm", |c| c.pragma_update(None, "cache_size", -KEPT_PAGES_KIB))
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
    ) -> Result<Option<Vec<String>>, StoreError> {
        if !self.has_rowid_of_memories || !self.own()?.has_words {
            return Ok(None);
        }
        let Ok(rowids) = self.rows_of_words(words, most) else { return Ok(None) };
        let sql = "SELECT id FROM stm WHERE rowid = ?1 AND typeof(id) = 'text'";
        self.pass.query("stm", |connection| {
            let mut ids = Vec::new();
            for rowid in rowids {
                // The entry of a row that is gone stays in the index.
                ids.extend(first(connection, sql, [rowid], cell0)?);
            }
            Ok(Some(ids))
        })
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
    ) -> Result<Vec<String>, StoreError> {
        self.pass.query("memfold_merged", |c| merged_with(c, words, most))
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
            for rowid in all::<_, Vec<i64>>(connection, &sql, params![query, most], cell0)? {
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
    ) -> Result<(), StoreError> {
        let sql = "SELECT 0, id, content FROM stm WHERE source LIKE 'archived:%'";
        self.pass.query("stm", |connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                take_text(row, &mut take)?;
            }
            Ok(())
        })
    }

    /// Returns the facts that determine the tier of a memory, beside its row.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn recall_facts(&self, id: &MemoryId) -> Result<RecallFacts, StoreError> {
        let own = self.own()?;
        let mut facts = RecallFacts::default();
        if own.has_summaries {
            let sql = "SELECT 1 FROM memfold_summaries WHERE memory_id = ?1 AND active = 1 LIMIT 1";
            let find = |c: &Connection| exists(c, sql, [id.as_str()]);
            facts.is_summary = self.pass.query("memfold_summaries", find)?;
        }
        if own.has_edges {
            let supersedes = "type = 'supersedes' AND active = 1";
            let sql = format!(
                "SELECT {EDGE} FROM memfold_edges WHERE target_id = ?1 AND {supersedes} UNION ALL
                 SELECT {EDGE} FROM memfold_edges WHERE source_id = ?1 AND {supersedes}"
            );
            let read = |row: &SqlRow<'_>| edge(row, self.pass.request.time_zone);
            let edges: Vec<_> =
                self.pass.query("memfold_edges", |c| all(c, &sql, [id.as_str()], read))?;
            facts.supersedes = edges.into_iter().flatten().collect();
        }
        Ok(facts)
    }

    /// Reads the start of a session: at most `most` summaries, newest memories and most important
    /// memories, and never the whole table.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn session_rows(&self, most: usize) -> Result<SessionRows, StoreError> {
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

    fn latest_summaries(&self, limit: i64) -> Result<Vec<(TimedMemory, Summary)>, StoreError> {
        if !self.own()?.has_summaries {
            return Ok(Vec::new());
        }
        let sql = "SELECT memory_id, body FROM memfold_summaries WHERE active = 1
                   ORDER BY id DESC LIMIT ?1";
        let rows = self.pass.query("memfold_summaries", |c| all(c, sql, [limit], cells2));
        let rows: Vec<(String, String)> = rows?;
        let mut seen = BTreeSet::new();
        let mut summaries = Vec::new();
        for (id, body) in rows {
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
    fn has_index_of_importance(&self) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM sqlite_master WHERE type = 'index' AND tbl_name = 'stm'
                   AND sql LIKE '%(importance%' AND sql NOT LIKE '%WHERE%'";
        self.pass.query("stm", |c| exists(c, sql, []))
    }

    fn timed(&self, rest: &str, params: impl Params) -> Result<Vec<TimedMemory>, StoreError> {
        let position = if self.has_rowid_of_memories { "rowid" } else { "0" };
        let columns = self.pass.memory_columns;
        let listed = columns.expressions(&MEMORY_COLUMNS);
        let updated_at = columns.expression("updated_at");
        let sql = format!("SELECT {position}, {listed}, {updated_at} FROM stm {rest}");
        let zone = self.pass.request.time_zone;
        let read = |row: &SqlRow<'_>| {
            let mut reader = MemoryReader::new(*self.pass.request);
            reader.take(&raw_memory(row)?, row.get(0)?);
            let updated_at = cell(row, MEMORY_CELLS + 1)?.instant(zone);
            let memory = reader.finish(Vec::new()).memories.into_iter().next();
            let memory = memory.filter(|memory| memory.status == Status::Live);
            Ok(memory.map(|memory| TimedMemory { memory, updated_at }))
        };
        let found = self.pass.query("stm", |c| all::<_, Vec<_>>(c, &sql, params, read))?;
        Ok(found.into_iter().flatten().collect())
    }
}
