//! The status of a single memory, and the memories merged into it.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{OptionalExtension as _, Row as SqlRow, params};

use crate::brain_db::read::access::Columns;
use crate::brain_db::read::load::{cell, raw_embedding};
use crate::brain_db::read::lookup::{Reach, Reaches, StoreReader};
use crate::memory_store::{LoadStoreError, VecSink};
use crate::reading::embedding::{EmbeddingReader, RawEmbedding, decode_vector};
use crate::reading::memory::{MemoryReader, ReadMemories};
use crate::reading::vector::ModelShapes;
use memfold_core::decisions::content_hash;
use memfold_core::journal::RowImage;
use memfold_core::memory::{Memory, MemoryId, Status, VectorSpace};
use memfold_core::row::RawMemory;
use memfold_core::row::{is_archived_by_run, parse_source};
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
pub struct Ghost {
    /// The id.
    pub id: MemoryId,
    /// The text.
    pub content: Box<str>,
    /// The vector, where there is one.
    pub vector: Option<Vec<f32>>,
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
    ) -> Result<Option<LiveMemory>, LoadStoreError> {
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
    pub fn remembered(&self, id: &str) -> Result<Option<Memory>, LoadStoreError> {
        let Some(read) = self.read_memory(id)? else { return self.moved_memory(id) };
        let memory = read.memories.into_iter().next();
        Ok(memory.and_then(|memory| match memory.status {
            Status::Live | Status::Merged => Some(memory),
            Status::Archived if is_archived_by_run(&memory.source) => Some(before_archival(memory)),
            _ => None,
        }))
    }

    /// As [`Self::remembered`], of a live memory only.
    pub fn live_memory(&self, id: &str) -> Result<Option<Memory>, LoadStoreError> {
        Ok(self.remembered(id)?.filter(|memory| memory.status == Status::Live))
    }

    /// Reads a memory in the archive table: its marks were never written.
    fn moved_memory(&self, id: &str) -> Result<Option<Memory>, LoadStoreError> {
        let Some((image, survivor)) = self.archived_image("stm", id)? else { return Ok(None) };
        let mut memories = MemoryReader::new(*self.pass.request);
        memories.take_archived(&RawMemory::from(&image), survivor);
        Ok(memories.finish(Vec::new()).memories.into_iter().next())
    }

    /// Returns the latest readable record of a row that was moved out of a table, and its survivor.
    pub(crate) fn archived_image(
        &self,
        table: &str,
        id: &str,
    ) -> Result<Option<(RowImage, Option<MemoryId>)>, LoadStoreError> {
        let Some(archive) = self.archive()? else { return Ok(None) };
        let sql = format!(
            "SELECT survivor_id, {} FROM memfold_archive
             WHERE memory_id = ?1 AND table_name = ?2 ORDER BY id DESC LIMIT 1",
            archive.listed()
        );
        let failed = |error| self.failed(error);
        let mut statement = self.pass.connection.prepare_cached(&sql).map_err(failed)?;
        let found = statement
            .query_row([id, table], |row| {
                Ok((archive.image(row, 1)?, row.get::<_, Option<String>>(0)?))
            })
            .optional()
            .map_err(failed)?;
        Ok(found.and_then(|(image, survivor)| Some((image?, survivor.map(MemoryId::new)))))
    }

    /// Returns the vector of a live memory, where it has a valid one of the space.
    pub fn vector(
        &self,
        id: &str,
        space: SpaceShapes<'_>,
    ) -> Result<Option<Vec<f32>>, LoadStoreError> {
        Ok(self.live(id, Some(space.space), space.shapes)?.map(|live| live.vector))
    }

    /// Returns all that was merged into a memory, directly or along with others; `None` where that is more than `most`.
    pub fn ghosts(
        &self,
        live: &Memory,
        space: Option<SpaceShapes<'_>>,
        most: usize,
    ) -> Result<Option<Vec<Ghost>>, LoadStoreError> {
        let mut ghosts: Vec<Ghost> = Vec::new();
        let mut seen = BTreeSet::from([live.id.clone()]);
        // The source of a memory names the memories merged into it; a merged row's source no longer
        // does.
        let mut open = vec![(live.id.clone(), &*live.source)];
        while let Some((survivor, source)) = open.pop() {
            for id in self.folded_into(&survivor, source)? {
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
                if ghosts.len() == most {
                    return Ok(None);
                }
                let vector = match space {
                    Some(space) => self.vector_of_ghost(id.as_str(), space)?,
                    None => None,
                };
                open.push((id.clone(), ""));
                seen.insert(id.clone());
                ghosts.push(Ghost { id, content, vector });
            }
        }
        Ok(Some(ghosts))
    }

    /// The memories that were merged into one: by our own tables, then by its source.
    fn folded_into(
        &self,
        survivor: &MemoryId,
        source: &str,
    ) -> Result<Vec<MemoryId>, LoadStoreError> {
        let mut ids = Vec::new();
        if self.own()?.has_lineage {
            let failed = |error| self.failed(error);
            let sql = "SELECT absorbed_id FROM memfold_lineage
                       WHERE survivor_id = ?1 AND active = 1 ORDER BY id";
            let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
            let found = statement
                .query_map([survivor.as_str()], |row| row.get::<_, String>(0))
                .map_err(failed)?;
            for id in found {
                ids.push(MemoryId::new(id.map_err(failed)?));
            }
        }
        // The latest stand last, and memories that came along with another before it.
        ids.extend(parse_source(source).merged_from.into_iter().rev());
        Ok(ids)
    }

    /// Returns the vector that a merged memory had, where it is a valid one of the space.
    pub fn vector_of_ghost(
        &self,
        id: &str,
        space: SpaceShapes<'_>,
    ) -> Result<Option<Vec<f32>>, LoadStoreError> {
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
    fn read_memory(&self, id: &str) -> Result<Option<ReadMemories>, LoadStoreError> {
        let mut memories = MemoryReader::new(*self.pass.request);
        if !self.take_row(id, &mut memories)? {
            return Ok(None);
        }
        let read = memories.finish(Vec::new());
        let is_archived = |memory: &Memory| memory.status == Status::Archived;
        if !read.memories.iter().any(is_archived) || !self.own()?.has_lineage {
            return Ok(Some(read));
        }
        // Its own marks do not name its survivor, but ours may.
        let mut memories = MemoryReader::new(*self.pass.request);
        self.take_row(id, &mut memories)?;
        Ok(Some(memories.finish(self.lineage_of(id)?)))
    }

    pub(crate) fn lineage_of(&self, id: &str) -> Result<Vec<(MemoryId, MemoryId)>, LoadStoreError> {
        let failed = |error| self.failed(error);
        let sql = "SELECT survivor_id FROM memfold_lineage
                   WHERE absorbed_id = ?1 AND active = 1 ORDER BY id DESC";
        let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
        let survivors =
            statement.query_map(params![id], |row| row.get::<_, String>(0)).map_err(failed)?;
        let pair = |survivor| (MemoryId::new(id), MemoryId::new(survivor));
        survivors.map(|survivor| survivor.map(pair).map_err(failed)).collect()
    }

    /// Adds the vector to a memory that was read; `None` where it has no valid one.
    fn with_vector(
        &self,
        read: ReadMemories,
        shapes: &ModelShapes,
    ) -> Result<Option<(LiveMemory, VectorSpace)>, LoadStoreError> {
        let Some(id) = read.memories.first().map(|memory| memory.id.clone()) else {
            return Ok(None);
        };
        let mut sink = VecSink::default();
        let mut embeddings = EmbeddingReader::new(&read, shapes);
        if let Some(taken) =
            self.last_embedding(id.as_str(), |raw| embeddings.take(raw, &mut sink))?
        {
            taken.map_err(LoadStoreError::Sink)?;
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
    ) -> Result<Option<T>, LoadStoreError> {
        if !self.has_embeddings() {
            return Ok(None);
        }
        let failed = |error| self.failed(error);
        let order = if self.has_rowid { "ORDER BY rowid DESC" } else { "" };
        let listed = self.embedding_columns();
        let sql = format!(
            "SELECT 0, {listed} FROM embeddings
             WHERE source_type = 'stm' AND source_id = ?1 {order} LIMIT 1"
        );
        let mut statement = self.pass.connection.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query([id]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(None) };
        Ok(Some(take(&raw_embedding(row).map_err(failed)?)))
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

    /// Tells whether a person let one memory replace another one with a different statement.
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

impl StoreReader<'_> {
    /// Passes on the vectors of a space that came after a place, in order, and the vectors of
    /// revived memories: memory's id and vector. It does not check whether the others are live.
    ///
    /// # Errors
    /// When the store cannot be read, or the error of `take`.
    pub fn since<E: From<LoadStoreError>>(
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
    ) -> Result<bool, LoadStoreError> {
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
    ) -> Result<bool, LoadStoreError> {
        let mut revived = Vec::new();
        let is_complete = self.revived_since(reach, limit, |id| revived.push(id.to_owned()))?;
        for id in revived {
            if let Some(memory) = self.live_memory(&id)? {
                take(&id, &memory.content);
            }
        }
        Ok(is_complete)
    }

    fn vectors_since<E: From<LoadStoreError>>(
        &self,
        reach: Reach,
        space: SpaceShapes<'_>,
        take: &mut impl FnMut(&str, &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let SpaceShapes { space, shapes } = space;
        let failed = |error| self.failed(error);
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
    ) -> Result<bool, LoadStoreError> {
        let position = if self.has_rowid_of_memories { "rowid" } else { "0" };
        let after = if self.has_rowid_of_memories { "rowid > ?1 ORDER BY rowid" } else { "?1 < 1" };
        let sql =
            format!("SELECT {position}, id, content FROM stm NOT INDEXED WHERE {after} LIMIT ?2");
        self.limited(&sql, reach, limit, |row| {
            let (id, content) = (cell(row, 1)?, cell(row, 2)?);
            if let (Ok(Some(id)), Ok(Some(content))) = (id.text(), content.text()) {
                take(&id, &content);
            }
            Ok(())
        })
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
    ) -> Result<bool, LoadStoreError> {
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
    ) -> Result<bool, LoadStoreError> {
        let failed = |error| self.failed(error);
        let mut statement = self.pass.connection.prepare_cached(sql).map_err(failed)?;
        let most = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let mut rows = statement.query(params![reach.rowid(), most]).map_err(failed)?;
        let mut taken = 0;
        while let Some(row) = rows.next().map_err(failed)? {
            if taken == limit {
                return Ok(false);
            }
            taken += 1;
            take(row).map_err(failed)?;
        }
        Ok(true)
    }
}

/// Returns the text of a row as the archive keeps it.
pub(crate) fn content_of(image: &RowImage) -> Option<&str> {
    image.get("content").and_then(Value::as_text)
}
