//! Some memories of a store instead of all: which ones changed, and a load of a few.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use memfold_core::memory::{MemoryId, Status};
use memfold_core::time::Instant;

use crate::brain_db::read::load::{MEMORY_COLUMNS, cell, derived_store_id, raw_memory};
use crate::brain_db::read::lookup::StoreReader;
use crate::memory_store::{LoadStoreError, VectorSink};
use crate::reading::embedding::{EmbeddingReader, RawEmbedding};
use crate::reading::memory::MemoryReader;
use crate::reading::vector::ModelShapes;
use memfold_core::Snapshot;
use memfold_core::row::{RawMemory, digest_of_columns, row_facts};
use memfold_core::value::ValueRef;

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
    ) -> Result<u64, LoadStoreError> {
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
    fn places_of_embeddings(&self) -> Result<Vec<(u64, u64)>, LoadStoreError> {
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
    ) -> Result<Snapshot, LoadStoreError> {
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
            if self.own()?.has_lineage {
                lineage.extend(self.lineage_of(id.as_str())?);
            }
        }
        let mut read = memories.finish(lineage);
        read.rows_total = row_count;
        let mut embeddings = EmbeddingReader::new(&read, shapes);
        for memory in &read.memories {
            let id = memory.id.as_str();
            let taken = self.last_embedding(id, |raw| embeddings.take(raw, sink))?;
            if let Some(taken) = taken {
                taken.map_err(LoadStoreError::Sink)?;
            }
            if let Some(image) = self.archived_image("embeddings", id)?.map(|(image, _)| image) {
                let raw = RawEmbedding::from(&image);
                embeddings.take_archived(&raw, sink).map_err(LoadStoreError::Sink)?;
            }
        }
        let found = embeddings.finish();
        let store_id = match pass.recorded_store_id()? {
            Some(recorded) => recorded,
            None => derived_store_id(pass.connection).map_err(|e| pass.failed("stm", e))?,
        };
        let mut snapshot = found.into_snapshot(read, Some(store_id), Vec::new());
        recorded.add_to(&mut snapshot.decisions, &snapshot.memories);
        Ok(snapshot)
    }

    /// Adds memories and their survivors.
    fn add_with_survivors(
        &self,
        mut open: Vec<MemoryId>,
        ids: &mut BTreeSet<MemoryId>,
    ) -> Result<(), LoadStoreError> {
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
    ) -> Result<bool, LoadStoreError> {
        let failed = |error| self.pass.failed("stm", error);
        let listed = self.pass.memory_columns.expressions(&MEMORY_COLUMNS);
        let position = if self.has_rowid_of_memories { "rowid" } else { "0" };
        let sql = format!("SELECT {position}, {listed} FROM stm WHERE id = ?1 LIMIT 1");
        let mut statement = self.pass.connection.prepare_cached(&sql).map_err(failed)?;
        let mut rows = statement.query([id]).map_err(failed)?;
        let Some(row) = rows.next().map_err(failed)? else { return Ok(false) };
        let at = row.get::<_, Option<i64>>(0).map_err(failed)?.unwrap_or(0);
        memories.take(&raw_memory(row).map_err(failed)?, at);
        Ok(true)
    }

    fn take_archived_row(
        &self,
        id: &MemoryId,
        memories: &mut MemoryReader<'_>,
    ) -> Result<(), LoadStoreError> {
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

fn half(hash: &[u8; 32]) -> u64 {
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
