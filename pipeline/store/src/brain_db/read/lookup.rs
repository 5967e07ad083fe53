//! [`StoreReader`]: the queries of lookups, memory by memory; which memories changed, and a load of some of them.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use rusqlite::Row;

use crate::brain_db::own::archive::ArchiveReader;
use crate::brain_db::read::access::{Columns, all, cell0, exists, first};
use crate::brain_db::read::lineage::Claims;
use crate::brain_db::read::load::{MEMORY_COLUMNS, Pass, cell, raw_memory};
use crate::brain_db::read::open::{BrainDb, KeptReader};
use crate::error::StoreError;
use crate::memory_store::{LoadRequest, VectorSink};
use crate::reading::memory::{EmbeddingReader, MemoryReader, RawEmbedding};
use crate::reading::vector::ModelShapes;
use memfold_core::Snapshot;
use memfold_core::memory::{MemoryId, Status};
use memfold_core::row::{RawMemory, digest_of_columns, row_facts};
use memfold_core::time::Instant;
use memfold_core::value::ValueRef;

/// A store inside one transaction.
pub struct StoreReader<'a> {
    pub(crate) pass: Pass<'a>,
    embeddings: Columns,
    pub(crate) has_rowid: bool,
    pub(crate) has_rowid_of_memories: bool,
    own: OnceCell<OwnTables>,
    archive: OnceCell<Option<ArchiveReader>>,
    pub(crate) claims: OnceCell<Claims>,
}

/// The tables that exist beside those of memories and embeddings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnTables {
    pub(crate) has_lineage: bool,
    pub(crate) has_archive: bool,
    pub(crate) has_journal: bool,
    pub(crate) has_revived: bool,
    pub(crate) has_edges: bool,
    pub(crate) has_summaries: bool,
    /// The owner's full-text index.
    pub(crate) has_words: bool,
}

impl BrainDb {
    /// Reads single memories in one read transaction, without leaving a trace; `read` is called again where somebody
    /// wrote meanwhile.
    ///
    /// # Errors
    /// The error of `read`, or that the store cannot be opened.
    pub fn look_up<T, E: From<StoreError>>(
        &self,
        request: &LoadRequest<'_>,
        read: impl FnMut(&StoreReader<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.look_up_again(&KeptReader::default(), request, read)
    }

    /// As [`Self::look_up`], by a connection that is kept for the next call.
    pub fn look_up_again<T, E: From<StoreError>>(
        &self,
        kept: &KeptReader,
        request: &LoadRequest<'_>,
        mut read: impl FnMut(&StoreReader<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.traceless_again(kept, |reader, connection| {
            read(&StoreReader::over(Pass::over(self, reader, connection, request))?)
        })
    }
}

impl<'a> StoreReader<'a> {
    pub(crate) fn over(pass: Pass<'a>) -> Result<Self, StoreError> {
        Ok(Self {
            embeddings: pass.columns("embeddings")?,
            has_rowid: pass.has_rowid("embeddings")?,
            has_rowid_of_memories: pass.has_rowid("stm")?,
            pass,
            own: OnceCell::new(),
            archive: OnceCell::new(),
            claims: OnceCell::new(),
        })
    }

    /// Returns the name that an earlier run gave the store, if any did.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn recorded_name(&self) -> Result<Option<Box<str>>, StoreError> {
        self.pass.recorded_store_id()
    }

    /// Surveys all embeddings to learn how models write their vectors.
    pub fn shapes(&self) -> Result<ModelShapes, StoreError> {
        Ok(self.pass.survey(&mut Vec::new())?.0)
    }

    /// Returns the ids of memories with exactly this text, in any order.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn ids_of_text(&self, text: &str) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT id FROM stm WHERE content = ?1 AND typeof(id) = 'text'";
        self.pass.query("stm", |c| all(c, sql, [text], cell0))
    }

    /// Tells whether any memory has an embedding, of any kind.
    pub fn has_any_embedding(&self) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM embeddings WHERE source_type = 'stm' LIMIT 1";
        Ok(self.has_embeddings() && self.pass.query("embeddings", |c| exists(c, sql, []))?)
    }

    /// Counts the memories in use that have no row of `embeddings`. Reads both tables.
    pub fn count_without_vector(&self) -> Result<u64, StoreError> {
        let has_none = match self.has_embeddings() {
            true => {
                "AND id NOT IN (SELECT source_id FROM embeddings
                                WHERE source_type = 'stm' AND source_id IS NOT NULL)"
            }
            false => "",
        };
        let sql = format!(
            "SELECT count(*) FROM stm WHERE id IS NOT NULL {has_none}
             AND coalesce(source, '') NOT LIKE 'archived:%'
             AND coalesce(source, '') NOT LIKE 'consolidation:contradiction:%'"
        );
        let count = self.pass.query("stm", |c| c.query_row(&sql, [], cell0::<i64>))?;
        Ok(count.unsigned_abs())
    }

    pub(crate) fn has_embeddings(&self) -> bool {
        self.embeddings.has_all(&["source_type", "source_id", "embedding"])
    }

    pub(crate) fn own(&self) -> Result<OwnTables, StoreError> {
        if let Some(own) = self.own.get() {
            return Ok(*own);
        }
        let has =
            |table, needed: &[&str]| Ok::<_, StoreError>(self.pass.columns(table)?.has_all(needed));
        let own = OwnTables {
            has_lineage: has("memfold_lineage", &["absorbed_id", "survivor_id", "active"])?,
            has_archive: has(
                "memfold_archive",
                &["memory_id", "table_name", "row", "survivor_id", "run_id", "at"],
            )?,
            has_journal: has("memfold_journal", &["seq", "row_key", "table_name", "before"])?,
            has_revived: has("memfold_revived", &["seq", "memory_id", "at"])?,
            has_edges: has(
                "memfold_edges",
                &["source_id", "target_id", "type", "confidence", "at", "active"],
            )?,
            has_summaries: has("memfold_summaries", &["memory_id", "body", "active"])?,
            has_words: has("stm_fts", &["content"])?,
        };
        Ok(*self.own.get_or_init(|| own))
    }

    /// Returns how the archive is read; `None` where there is none that can be.
    pub(crate) fn archive(&self) -> Result<Option<&ArchiveReader>, StoreError> {
        if !self.own()?.has_archive {
            return Ok(None);
        }
        if let Some(archive) = self.archive.get() {
            return Ok(archive.as_ref());
        }
        let read = self.pass.query("memfold_archive", ArchiveReader::of)?;
        Ok(self.archive.get_or_init(|| read).as_ref())
    }

    pub(crate) fn embedding_columns(&self) -> String {
        self.embeddings.expressions(&["source_id", "content", "embedding", "model"])
    }
}

/// A row by which a later reader finds its place again.
///
/// SQLite gives the highest row number to the next row when a row is deleted, so a number alone says nothing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LastSeen {
    /// Its row number.
    pub rowid: i64,
    /// The first 16 hex digits of the blake3 of the row's content: id and text, or id and vector as
    /// stored.
    pub digest: Box<str>,
}

/// Where the tables of a store ended; of each table the latest row first, and some before.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Marks {
    /// In `embeddings`.
    pub embeddings: Vec<LastSeen>,
    /// In `stm`.
    pub memories: Vec<LastSeen>,
    /// In `memfold_archive`.
    pub archive: Vec<LastSeen>,
    /// In `memfold_revived`.
    #[serde(default)]
    pub revived: Vec<LastSeen>,
}

/// How far into a table marks reach, in view of the table as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Rows up to this number were seen, as far as the last seen rows show.
    After(i64),
    /// No last seen row is where it was: the table was renumbered, or it is another store. Or a row
    /// has the last number there is, and new rows may stand anywhere.
    Lost,
}

impl Reach {
    /// From the first row on.
    pub const START: Self = Self::After(i64::MIN);

    /// Returns the row number after which everything is new.
    pub(crate) const fn rowid(self) -> i64 {
        match self {
            Self::After(rowid) => rowid,
            Self::Lost => i64::MIN,
        }
    }
}

/// How far marks reach into each table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaches {
    /// Into `embeddings`.
    pub embeddings: Reach,
    /// Into `stm`.
    pub memories: Reach,
    /// Into `memfold_archive`; a table that is gone is read from its start.
    pub archive: Reach,
    /// Into `memfold_revived`, likewise.
    pub revived: Reach,
}

impl Reaches {
    /// Everything is new, including revived memories.
    pub const START: Self = Self {
        embeddings: Reach::START,
        memories: Reach::START,
        archive: Reach::START,
        revived: Reach::After(i64::MAX),
    };

    /// Tells whether rows were renumbered, or it is another store.
    #[must_use]
    pub fn is_lost(self) -> bool {
        self.embeddings == Reach::Lost || self.memories == Reach::Lost
    }
}

/// A table in which places are marked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Marked {
    Embeddings,
    Memories,
    Archive,
    Revived,
}

/// This many last seen rows stand one by one at the end, others ever farther apart.
const WATERMARKS_CLOSE: i64 = 16;
/// This many are enough for a reader that comes back soon.
const WATERMARKS_LAST: usize = 3;

impl Marked {
    /// The columns that are read, hashed and counted. An index would look up nearly every row one
    /// by one.
    const fn sql(self) -> &'static str {
        match self {
            Self::Embeddings => {
                "SELECT rowid, CAST(source_id AS BLOB), CAST(embedding AS BLOB)
                 FROM embeddings NOT INDEXED WHERE source_type = 'stm' AND "
            }
            Self::Memories => {
                "SELECT rowid, CAST(id AS BLOB), CAST(content AS BLOB) FROM stm NOT INDEXED WHERE "
            }
            Self::Archive => {
                "SELECT rowid, CAST(memory_id AS BLOB), CAST(row || run_id || at AS BLOB)
                 FROM memfold_archive NOT INDEXED WHERE table_name = 'stm' AND "
            }
            Self::Revived => {
                "SELECT rowid, CAST(memory_id AS BLOB), CAST(at AS BLOB)
                 FROM memfold_revived NOT INDEXED WHERE "
            }
        }
    }
}

impl StoreReader<'_> {
    /// Returns where the tables end.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn marks(&self) -> Result<Marks, StoreError> {
        self.marks_of(usize::MAX)
    }

    /// Returns the last rows of the tables, for a reader that comes back soon.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn last_marks(&self) -> Result<Marks, StoreError> {
        self.marks_of(WATERMARKS_LAST)
    }

    fn marks_of(&self, most: usize) -> Result<Marks, StoreError> {
        Ok(Marks {
            embeddings: self.watermarks(Marked::Embeddings, most)?,
            memories: self.watermarks(Marked::Memories, most)?,
            archive: self.watermarks(Marked::Archive, most)?,
            revived: self.watermarks(Marked::Revived, most)?,
        })
    }

    /// Finds the latest mark of each table that is still where it was.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn reaches(&self, marks: &Marks) -> Result<Reaches, StoreError> {
        let from_start = |reach| if reach == Reach::Lost { Reach::START } else { reach };
        let archive = from_start(self.reach(Marked::Archive, &marks.archive)?);
        let revived = from_start(self.reach(Marked::Revived, &marks.revived)?);
        Ok(Reaches {
            embeddings: self.reach(Marked::Embeddings, &marks.embeddings)?,
            memories: self.reach(Marked::Memories, &marks.memories)?,
            archive,
            revived,
        })
    }

    /// Passes on id and text of memories that came, were moved into the archive or live again after a place; `false` where
    /// there are more than `limit` of one kind, of which the first ones were passed on.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn all_texts_since(
        &self,
        reaches: Reaches,
        limit: usize,
        mut take: impl FnMut(&str, &str),
    ) -> Result<bool, StoreError> {
        Ok(self.texts_since(reaches.memories, limit, &mut take)?
            && self.archived_texts_since(reaches.archive, limit, &mut take)?
            && self.revived_texts_since(reaches.revived, limit, &mut take)?)
    }

    fn watermarks(&self, table: Marked, most: usize) -> Result<Vec<LastSeen>, StoreError> {
        let mut watermarks = Vec::new();
        let Some(mut below) = self.can_mark(table)?.then_some(i64::MAX) else {
            return Ok(watermarks);
        };
        let mut gap = 1;
        while let Some(last_seen) =
            self.last_seen(table, "rowid <= ?1 ORDER BY rowid DESC LIMIT 1", below)?
        {
            if watermarks.len() as i64 >= WATERMARKS_CLOSE {
                gap *= 2;
            }
            let next = last_seen.rowid.checked_sub(gap);
            watermarks.push(last_seen);
            let Some(next) = next.filter(|_| watermarks.len() < most) else { break };
            below = next;
        }
        Ok(watermarks)
    }

    fn reach(&self, table: Marked, watermarks: &[LastSeen]) -> Result<Reach, StoreError> {
        // A table that was empty has no last seen rows, and everything in it is new.
        if watermarks.is_empty() {
            return Ok(Reach::START);
        }
        // A row with the last number there is: SQLite then gives new rows any number that is free.
        let has_last = || self.last_seen(table, "rowid = ?1", i64::MAX);
        if !self.can_mark(table)? || has_last()?.is_some() {
            return Ok(Reach::Lost);
        }
        for last_seen in watermarks {
            if self.last_seen(table, "rowid = ?1", last_seen.rowid)?.as_ref() == Some(last_seen) {
                return Ok(Reach::After(last_seen.rowid));
            }
        }
        Ok(Reach::Lost)
    }

    fn can_mark(&self, table: Marked) -> Result<bool, StoreError> {
        Ok(match table {
            Marked::Embeddings => self.has_rowid && self.has_embeddings(),
            Marked::Memories => self.has_rowid_of_memories,
            Marked::Archive => self.own()?.has_archive,
            Marked::Revived => self.own()?.has_revived,
        })
    }

    fn last_seen(
        &self,
        table: Marked,
        which: &str,
        rowid: i64,
    ) -> Result<Option<LastSeen>, StoreError> {
        let sql = format!("{}{which}", table.sql());
        let read = |row: &Row<'_>| {
            let mut hasher = blake3::Hasher::new();
            for column in [1, 2] {
                let bytes = row.get_ref(column)?.as_blob_or_null()?.unwrap_or_default();
                hasher.update(&(bytes.len() as u64).to_le_bytes());
                hasher.update(bytes);
            }
            let digest = hasher.finalize().to_hex()[..16].into();
            Ok(LastSeen { rowid: row.get(0)?, digest })
        };
        self.pass.query("embeddings", |c| first(c, &sql, [rowid], read))
    }
}

/// Detects whether a row changed: halves of hashes, so that a million rows are 16 MB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowMark {
    /// Of the id.
    pub id: u64,
    /// Of the columns that a plan rests on, and of the place of the embedding.
    pub digest: u64,
}

impl RowMark {
    /// Returns the hash of an id as marks have it.
    #[must_use]
    pub fn id_of(id: &MemoryId) -> u64 {
        half_hash(id.as_str().as_bytes())
    }
}

/// A row that passes by.
#[derive(Debug, Clone, Copy)]
pub struct MarkedRow<'a> {
    /// The id.
    pub id: &'a str,
    /// Its mark.
    pub mark: RowMark,
    /// Whether a load would find it live.
    pub is_live: bool,
    /// Whether it was made at or after the requested time, or has no readable time.
    pub is_young: bool,
}

/// A row without the place of its embedding.
struct FoundRow {
    mark: RowMark,
    /// Where the id stands among the ids of all rows.
    id: (usize, usize),
    is_live: bool,
    is_young: bool,
}

/// No time zone is this far from UTC: a date that is earlier by this much is earlier everywhere.
const ZONE_SPAN_US: i64 = 2 * 86_400_000_000;

impl StoreReader<'_> {
    /// Shows every row of the memory table with its mark, by ascending hash of the id; rows without a text as id are
    /// passed over. Returns the number of all rows.
    ///
    /// The mark covers the columns of the base digest and the row number of the embedding, which changes whenever the
    /// owner writes another one. A vector that is overwritten in place does not show.
    ///
    /// Cost: one pass over `stm` and over the keys of `embeddings`, 1 to 3 µs a row, and about 60 bytes of memory.
    ///
    /// # Errors
    /// When the store cannot be read, or when cancelled.
    pub fn each_mark(
        &self,
        young_since: Instant,
        mut take: impl FnMut(&MarkedRow<'_>),
    ) -> Result<u64, StoreError> {
        let (mut rows, mut ids, mut row_count) = (Vec::new(), String::new(), 0);
        let pass = &self.pass;
        let failed = |error| pass.failed("stm", error);
        let listed = pass.memory_columns.expressions(&MEMORY_COLUMNS);
        let sql = format!("SELECT 0, {listed} FROM stm NOT INDEXED");
        let young = Young::since(young_since);
        pass.each_row("stm", "look for changes", &sql, 0, |row| {
            row_count += 1;
            let raw = raw_memory(row).map_err(failed)?;
            let Some(id) = raw.id.text().ok().flatten() else { return Ok(()) };
            let start = ids.len();
            ids.push_str(&id);
            let id = half_hash(id.as_bytes());
            rows.push(FoundRow {
                mark: RowMark { id, digest: half(&digest_of_columns(&raw).0) },
                id: (start, ids.len()),
                is_live: is_live(&raw, pass.request.time_zone, pass.request.now),
                is_young: young.holds(raw.created_at, pass.request.time_zone),
            });
            Ok(())
        })?;
        // One after the other in memory, where lookups of a million rows would each wait for it.
        rows.sort_unstable_by_key(|row| row.mark);
        let places = self.places_of_embeddings()?;
        let mut next = 0;
        for FoundRow { mut mark, id, is_live, is_young } in rows {
            next += places[next..].iter().take_while(|(of, _)| *of < mark.id).count();
            for (_, place) in places[next..].iter().take_while(|(of, _)| *of == mark.id) {
                mark.digest = mark.digest.wrapping_add(*place);
            }
            take(&MarkedRow { id: &ids[id.0..id.1], mark, is_live, is_young });
        }
        Ok(row_count)
    }

    /// The row numbers of embeddings beside the hash of their memory's id, ascending, mixed so that they add up to hashes.
    fn places_of_embeddings(&self) -> Result<Vec<(u64, u64)>, StoreError> {
        let mut places: Vec<(u64, u64)> = Vec::new();
        if !self.has_embeddings() || !self.has_rowid {
            return Ok(places);
        }
        let pass = &self.pass;
        let failed = |error| pass.failed("embeddings", error);
        // Both columns stand in the index on the key, which is a fraction of the table.
        let sql = "SELECT source_id, rowid FROM embeddings WHERE source_type = 'stm'";
        pass.each_row("embeddings", "look for changes", sql, 0, |row| {
            if let Some(id) = cell(row, 0).map_err(failed)?.text().ok().flatten() {
                let rowid: i64 = row.get(1).map_err(failed)?;
                places.push((half_hash(id.as_bytes()), half_hash(&rowid.to_le_bytes())));
            }
            Ok(())
        })?;
        places.sort_unstable();
        Ok(places)
    }

    /// Reads some memories as a load of the whole store would, together with the sides of flags and
    /// memories that a person keeps apart from one of them. Survivors and merged memories need
    /// their own ids in the request; unknown ids are passed over. `row_count` is the number of rows
    /// in the table.
    ///
    /// # Errors
    /// When the store cannot be read, or the sink cannot keep a vector.
    pub fn load_some(
        &self,
        ids: &BTreeSet<MemoryId>,
        row_count: u64,
        shapes: &ModelShapes,
        sink: &mut dyn VectorSink,
    ) -> Result<Snapshot, StoreError> {
        let pass = &self.pass;
        let mut memories = MemoryReader::new(*pass.request);
        let mut lineage = Vec::new();
        let recorded = pass.recorded()?;
        let mut ids = ids.clone();
        self.add_with_survivors(recorded.companions(&ids), &mut ids)?;
        for id in &ids {
            if !self.take_row(id.as_str(), &mut memories)? {
                self.take_archived_row(id, &mut memories)?;
            }
            lineage.extend(self.survivors_of(id)?);
        }
        let mut read = memories.finish(lineage);
        read.rows_total = row_count;
        let mut embeddings = EmbeddingReader::new(&read, shapes);
        for memory in &read.memories {
            let id = memory.id.as_str();
            let taken = self.last_embedding(id, |raw| embeddings.take(raw, sink))?;
            if let Some(taken) = taken {
                taken.map_err(StoreError::Sink)?;
            }
            if let Some(image) = self.archived_image("embeddings", id)?.map(|(image, _)| image) {
                let raw = RawEmbedding::from(&image);
                embeddings.take_archived(&raw, sink).map_err(StoreError::Sink)?;
            }
        }
        let found = embeddings.finish();
        let mut snapshot = found.into_snapshot(read, Some(pass.store_id()?), Vec::new());
        recorded.add_to(&mut snapshot.decisions, &snapshot.memories);
        Ok(snapshot)
    }

    /// Adds memories and their survivors.
    fn add_with_survivors(
        &self,
        mut open: Vec<MemoryId>,
        ids: &mut BTreeSet<MemoryId>,
    ) -> Result<(), StoreError> {
        while let Some(id) = open.pop() {
            if ids.insert(id.clone())
                && let Some(survivor) = self.remembered(id.as_str())?.and_then(|it| it.merged_into)
            {
                open.push(survivor);
            }
        }
        Ok(())
    }

    /// Takes the row of an id; whether there is one.
    pub(crate) fn take_row(
        &self,
        id: &str,
        memories: &mut MemoryReader<'_>,
    ) -> Result<bool, StoreError> {
        let listed = self.pass.memory_columns.expressions(&MEMORY_COLUMNS);
        let position = if self.has_rowid_of_memories { "rowid" } else { "0" };
        let sql = format!("SELECT {position}, {listed} FROM stm WHERE id = ?1 LIMIT 1");
        let take = |row: &Row<'_>| {
            let at = row.get::<_, Option<i64>>(0)?.unwrap_or(0);
            memories.take(&raw_memory(row)?, at);
            Ok(())
        };
        Ok(self.pass.query("stm", |c| first(c, &sql, [id], take))?.is_some())
    }

    fn take_archived_row(
        &self,
        id: &MemoryId,
        memories: &mut MemoryReader<'_>,
    ) -> Result<(), StoreError> {
        if let Some((image, survivor)) = self.archived_image("stm", id.as_str())? {
            memories.take_archived(&RawMemory::from(&image), survivor);
        }
        Ok(())
    }
}

/// Tells whether a row counts; a row without any mark is not examined.
fn is_live(raw: &RawMemory<'_>, time_zone: &TimeZone, now: Instant) -> bool {
    let starts = |cell: ValueRef<'_>, with: &[u8]| matches!(cell, ValueRef::Text(text) if text.starts_with(with));
    let categories = match raw.categories {
        ValueRef::Text(text) => text.windows(b"archive".len()).any(|window| window == b"archive"),
        _ => false,
    };
    let is_marked = categories
        || !matches!(raw.archived_by, ValueRef::Null)
        || !matches!(raw.expires_at, ValueRef::Null)
        || starts(raw.source, b"archived")
        || starts(raw.source, b"consolidation");
    if is_marked {
        return row_facts(raw, time_zone, now).is_ok_and(|facts| facts.status == Status::Live);
    }
    matches!(raw.content, ValueRef::Text(text) if !text.trim_ascii().is_empty())
}

/// Tells times from a moment on without reading each of them.
struct Young {
    since: Instant,
    /// A date as text that is earlier in every zone.
    surely_before: Option<String>,
}

impl Young {
    fn since(since: Instant) -> Self {
        let before = Instant(since.0.saturating_sub(ZONE_SPAN_US)).to_rfc3339();
        let surely_before =
            before.get(..10).filter(|date| date.starts_with(|c: char| c.is_ascii_digit()));
        Self { since, surely_before: surely_before.map(str::to_owned) }
    }

    fn holds(&self, created_at: ValueRef<'_>, time_zone: &TimeZone) -> bool {
        if let (ValueRef::Text(text), Some(before)) = (created_at, &self.surely_before)
            && text.len() > 10
            && text[..10].iter().all(|byte| byte.is_ascii_digit() || *byte == b'-')
            && text[..10] < *before.as_bytes()
        {
            return false;
        }
        created_at.instant(time_zone).is_none_or(|at| at >= self.since)
    }
}

fn half_hash(bytes: &[u8]) -> u64 {
    half(blake3::hash(bytes).as_bytes())
}

pub(crate) fn half(hash: &[u8; 32]) -> u64 {
    let (first, _) = hash.as_chunks::<8>();
    u64::from_le_bytes(first[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn young_is_what_was_made_since() {
        let zone = TimeZone::UTC;
        let since = Instant::parse("2026-06-01T12:00:00Z", &zone).unwrap();
        let young = Young::since(since);
        let holds = |text: &str| young.holds(ValueRef::Text(text.as_bytes()), &zone);
        for old in ["2026-05-01T00:00:00", "2026-06-01T11:59:59Z", "1999-12-31 23:59:59"] {
            assert!(!holds(old), "{old}");
        }
        for new in ["2026-06-01T12:00:00", "2026-06-01T05:00:00-08:00", "2027-01-01", "soon", ""] {
            assert!(holds(new), "{new}");
        }
        assert!(young.holds(ValueRef::Null, &zone));
    }

    #[test]
    fn archived_expired_and_empty_rows_are_not_live() {
        let row = RawMemory {
            id: ValueRef::Text(b"a"),
            content: ValueRef::Text(b"text"),
            categories: ValueRef::Text(br#"["a"]"#),
            source: ValueRef::Text(b"agent"),
            ..RawMemory::default()
        };
        let live =
            |raw: &RawMemory<'_>| is_live(raw, &TimeZone::UTC, Instant(1_780_272_000_000_000));
        assert!(live(&row));
        assert!(live(&RawMemory { categories: ValueRef::Text(br#"["archive-tool"]"#), ..row }));
        let survivor = br#"consolidation:{"merged_from":["b"]}"#;
        assert!(live(&RawMemory { source: ValueRef::Text(survivor), ..row }));
        assert!(!live(&RawMemory { categories: ValueRef::Text(br#"["archived"]"#), ..row }));
        assert!(!live(&RawMemory { source: ValueRef::Text(b"archived:low_utility"), ..row }));
        assert!(!live(&RawMemory { archived_by: ValueRef::Text(b"x"), ..row }));
        assert!(!live(&RawMemory { expires_at: ValueRef::Text(b"2020-01-01"), ..row }));
        assert!(!live(&RawMemory { content: ValueRef::Text(b" \n"), ..row }));
    }
}
