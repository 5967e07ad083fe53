//! Reading what earlier runs and people recorded in memfold's own tables; rows that an undo
//! withdrew do not count.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rusqlite::Row as SqlRow;

use crate::brain_db::own::archive::ArchiveReader;
use crate::brain_db::read::access::Columns;
use crate::brain_db::read::load::{PROBE_BLOBS, Pass, cell};
use crate::memory_store::{LoadStoreError, VectorSink};
use crate::reading::embedding::{EmbeddingReader, RawEmbedding};
use crate::reading::memory::MemoryReader;
use crate::reading::vector::ShapeSurvey;
use memfold_core::decisions::{Decisions, FlaggedPairs, SingleAction, content_hash};
use memfold_core::journal::RowImage;
use memfold_core::memory::{Memory, MemoryId, Status};
use memfold_core::merge::FlagKind;
use memfold_core::row::RawMemory;
use memfold_core::time::Instant;
use memfold_core::value::ValueRef;

impl Pass<'_> {
    /// Returns (merged, survivor) pairs of earlier runs, the latest record of each first.
    pub(crate) fn lineage(&self) -> Result<Vec<(MemoryId, MemoryId)>, LoadStoreError> {
        let mut pairs = Vec::new();
        self.own_rows("memfold_lineage", &["absorbed_id", "survivor_id"], &[], |row| {
            if let (Some(absorbed), Some(survivor)) = (text(row, 0)?, text(row, 1)?) {
                pairs.push((MemoryId::new(absorbed), MemoryId::new(survivor)));
            }
            Ok(())
        })?;
        pairs.reverse();
        Ok(pairs)
    }

    /// Returns decisions and flags in the order in which they were recorded.
    pub(crate) fn recorded(&self) -> Result<Recorded, LoadStoreError> {
        let mut recorded = Recorded::default();
        let optional = ["group_id", "content_hash", "action", "access_count", "at"];
        self.own_rows("memfold_decisions", &["kind", "memory_id"], &optional, |row| {
            if let (Some(kind), Some(memory_id)) = (text(row, 0)?, text(row, 1)?) {
                recorded.decisions.push(RecordedDecision {
                    kind,
                    memory_id,
                    group_id: text(row, 2)?,
                    content_hash: text(row, 3)?,
                    action: text(row, 4)?,
                    access_count: cell(row, 5)?.count().unwrap_or(0),
                    at: cell(row, 6)?.instant(self.request.time_zone),
                });
            }
            Ok(())
        })?;
        let optional = ["left_hash", "right_hash", "kind", "state"];
        self.own_rows("memfold_flags", &["left_id", "right_id"], &optional, |row| {
            // A pair flagged as merely alike is not known to be a contradiction.
            if text(row, 4)?.as_deref() == Some(FlagKind::Near.name()) {
                return Ok(());
            }
            if let (Some(left), Some(right)) = (text(row, 0)?, text(row, 1)?) {
                let sides = [(left, text(row, 2)?), (right, text(row, 3)?)];
                recorded.flags.push(RecordedFlag { sides, state: text(row, 5)? });
            }
            Ok(())
        })?;
        Ok(recorded)
    }

    /// Reads the rows of a table of ours that count, oldest first: the needed columns, then the optional
    /// ones. A table that lacks a needed column holds nothing.
    fn own_rows(
        &self,
        table: &'static str,
        needed: &[&str],
        optional: &[&str],
        mut take: impl FnMut(&SqlRow<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), LoadStoreError> {
        let failed = |error| self.failed(table, error);
        let columns = Columns::of(self.connection, table).map_err(failed)?;
        if !columns.has_all(needed) {
            return Ok(());
        }
        let listed = columns.expressions(&[needed, optional].concat());
        let counts = if columns.has("active") { "WHERE active = 1" } else { "" };
        let sql = format!("SELECT {listed} FROM {table} {counts} ORDER BY rowid");
        let mut statement = self.connection.prepare(&sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            take(row).map_err(failed)?;
        }
        Ok(())
    }
}

fn text(row: &SqlRow<'_>, column: usize) -> rusqlite::Result<Option<Box<str>>> {
    Ok(cell(row, column)?.text().ok().flatten().map(|text| text.into()))
}

/// Records in the order in which they were made.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    pub(crate) decisions: Vec<RecordedDecision>,
    pub(crate) flags: Vec<RecordedFlag>,
}

/// A row of `memfold_decisions`.
#[derive(Debug)]
pub(crate) struct RecordedDecision {
    pub(crate) kind: Box<str>,
    pub(crate) group_id: Option<Box<str>>,
    pub(crate) memory_id: Box<str>,
    /// The decision is void once the text has another hash.
    pub(crate) content_hash: Option<Box<str>>,
    pub(crate) action: Option<Box<str>>,
    pub(crate) access_count: i64,
    pub(crate) at: Option<Instant>,
}

/// A row of `memfold_flags`: two ids, each with the hash of its text.
#[derive(Debug)]
pub(crate) struct RecordedFlag {
    pub(crate) sides: [(Box<str>, Option<Box<str>>); 2],
    /// `open`, `closed`, or how a person settled it.
    pub(crate) state: Option<Box<str>>,
}

impl Recorded {
    /// Adds the decisions and flags that apply to the memories as they are now.
    pub(crate) fn add_to(self, decisions: &mut Decisions, memories: &[Memory]) {
        if self.decisions.is_empty() && self.flags.is_empty() {
            return;
        }
        let texts = self.texts(memories);
        let holds = |id: &str, hash: Option<&str>| {
            let is_that = |text: &&str| hash.is_none_or(|hash| hash == content_hash(text));
            texts.get(id).is_some_and(is_that)
        };
        let mut groups: BTreeMap<&str, Vec<MemoryId>> = BTreeMap::new();
        for decision in &self.decisions {
            let holds = || holds(&decision.memory_id, decision.content_hash.as_deref());
            let memory = || MemoryId::new(decision.memory_id.clone());
            match &*decision.kind {
                "keep_both" => {
                    if let Some(group) = decision.group_id.as_deref().filter(|_| holds()) {
                        groups.entry(group).or_default().push(memory());
                    }
                }
                "declined" => {
                    let action = decision.action.as_deref().and_then(SingleAction::of_name);
                    decisions
                        .declined
                        .extend(action.filter(|_| holds()).map(|action| (memory(), action)));
                }
                "promoted" => {
                    decisions.promoted_at_access.insert(memory(), decision.access_count);
                }
                "taken_back" => {
                    if let (Some(at), true) = (decision.at, holds()) {
                        decisions.reworded.remove(&memory());
                        decisions.taken_back.insert(memory(), at);
                    } else {
                        decisions.reworded.insert(memory());
                    }
                }
                _ => {}
            }
        }
        for members in groups.into_values() {
            if members.iter().all(|member| decisions.taken_back.contains_key(member)) {
                decisions.keep_both.insert_undone_group(members);
            } else {
                decisions.keep_both.insert_group(members);
            }
        }
        let live = self.live_sides(memories);
        for RecordedFlag { sides: [left, right], state } in &self.flags {
            if ![left, right].iter().all(|(id, hash)| holds(id, hash.as_deref())) {
                continue;
            }
            let pair = || (MemoryId::new(left.0.clone()), MemoryId::new(right.0.clone()));
            let insert = |into: &mut FlaggedPairs| into.insert(pair().0, pair().1);
            insert(&mut decisions.flagged);
            if !live.contains(&*left.0) || !live.contains(&*right.0) {
                continue;
            }
            match state.as_deref().unwrap_or("open") {
                "open" => {
                    insert(&mut decisions.open_flags);
                    insert(&mut decisions.counted_flags);
                }
                // A flag that closed by itself has a changed side; this one was undone.
                "closed" => insert(&mut decisions.counted_flags),
                _ => {}
            }
        }
    }

    /// Returns the memories that decisions name beside the given ones, and the sides of all flags:
    /// open flags count towards the caps, and flagged texts are not flagged again.
    pub(crate) fn companions(&self, ids: &BTreeSet<MemoryId>) -> Vec<MemoryId> {
        let flagged = self.flags.iter().flat_map(|flag| &flag.sides).map(|(id, _)| id);
        let wanted: HashSet<&str> = ids.iter().map(MemoryId::as_str).collect();
        let is_wanted = |decision: &&RecordedDecision| wanted.contains(&*decision.memory_id);
        let of_wanted = self.decisions.iter().filter(is_wanted);
        let groups: HashSet<&str> =
            of_wanted.filter_map(|decision| decision.group_id.as_deref()).collect();
        let is_mate = |decision: &&RecordedDecision| {
            decision.group_id.as_deref().is_some_and(|group| groups.contains(group))
        };
        let mates = self.decisions.iter().filter(is_mate).map(|decision| &decision.memory_id);
        flagged.chain(mates).map(|id| MemoryId::new(id.clone())).collect()
    }

    /// The live memories that flags name.
    fn live_sides<'m>(&self, memories: &'m [Memory]) -> HashSet<&'m str> {
        let named: HashSet<&str> =
            self.flags.iter().flat_map(|flag| flag.sides.iter().map(|side| &*side.0)).collect();
        let live = memories.iter().filter(|memory| memory.status == Status::Live);
        live.map(|memory| memory.id.as_str()).filter(|id| named.contains(id)).collect()
    }

    /// The texts of the memories that records name.
    fn texts<'m>(&self, memories: &'m [Memory]) -> HashMap<&'m str, &'m str> {
        let of_decisions = self.decisions.iter().map(|decision| &*decision.memory_id);
        let of_flags = self.flags.iter().flat_map(|flag| flag.sides.iter().map(|side| &*side.0));
        let wanted: HashSet<&str> = of_decisions.chain(of_flags).collect();
        let named = memories.iter().filter(|memory| wanted.contains(memory.id.as_str()));
        named.map(|memory| (memory.id.as_str(), &*memory.content)).collect()
    }
}

const TABLE: &str = "memfold_archive";

/// Some archived vectors of each model and length.
#[derive(Default)]
pub(crate) struct ArchivedBlobs {
    samples: BTreeMap<ModelAndLength, Vec<Vec<u8>>>,
}

type ModelAndLength = (Option<Box<str>>, usize);

impl ArchivedBlobs {
    fn add(&mut self, model: Option<&str>, blob: &[u8]) {
        let samples = self.samples.entry((model.map(Into::into), blob.len())).or_default();
        if samples.len() < PROBE_BLOBS {
            samples.push(blob.to_vec());
        }
    }

    /// Adds vectors of a length, and of a model where one is named, until there are enough.
    pub(crate) fn fill(&self, blobs: &mut Vec<Vec<u8>>, model: Option<&str>, length: usize) {
        let wanted = self.samples.iter().filter(|((named, blob_length), _)| {
            *blob_length == length && (model.is_none() || named.as_deref() == model)
        });
        let room = PROBE_BLOBS.saturating_sub(blobs.len());
        blobs.extend(wanted.flat_map(|(_, samples)| samples).take(room).cloned());
    }
}

impl Pass<'_> {
    /// Reads archived memories; returns a remark where rows cannot be read.
    pub(crate) fn archived_memories(
        &self,
        memories: &mut MemoryReader<'_>,
    ) -> Result<Option<String>, LoadStoreError> {
        let mut unreadable = 0;
        let broken = self.archived("stm", |row, survivor| {
            if !memories.take_archived(&RawMemory::from(row), survivor) {
                unreadable += 1;
            }
            Ok(())
        })?;
        unreadable += broken;
        Ok((unreadable > 0).then(|| {
            format!(
                "{unreadable} memories in {TABLE} cannot be read: they were compared with nothing"
            )
        }))
    }

    /// Surveys archived embeddings in the same way as the table's.
    pub(crate) fn survey_archived(
        &self,
        survey: &mut ShapeSurvey,
    ) -> Result<ArchivedBlobs, LoadStoreError> {
        let mut blobs = ArchivedBlobs::default();
        self.archived("embeddings", |row, _| {
            let raw = RawEmbedding::from(row);
            let named = raw.model.text().ok().flatten();
            let blob = if let ValueRef::Blob(bytes) = raw.embedding { Some(bytes) } else { None };
            survey.add(named.as_deref(), blob.map(<[u8]>::len));
            if let Some(blob) = blob {
                blobs.add(named.as_deref(), blob);
            }
            Ok(())
        })?;
        Ok(blobs)
    }

    /// Reads archived embeddings; returns a remark where rows cannot be read.
    pub(crate) fn archived_embeddings(
        &self,
        embeddings: &mut EmbeddingReader<'_>,
        sink: &mut dyn VectorSink,
    ) -> Result<Option<String>, LoadStoreError> {
        let broken = self.archived("embeddings", |row, _| {
            embeddings.take_archived(&RawEmbedding::from(row), sink).map_err(LoadStoreError::Sink)
        })?;
        Ok((broken > 0).then(|| {
            format!("{broken} embeddings in {TABLE} cannot be read: only their texts were compared")
        }))
    }

    /// Returns how many rows there are in the archive.
    pub(crate) fn archived_count(&self) -> Result<u64, LoadStoreError> {
        if self.archive()?.is_some() { self.count(TABLE) } else { Ok(0) }
    }

    /// Reads the rows that were moved out of a table and their survivors, the latest record first.
    /// Returns how many records are broken.
    fn archived(
        &self,
        table: &str,
        mut take: impl FnMut(&RowImage, Option<MemoryId>) -> Result<(), LoadStoreError>,
    ) -> Result<u64, LoadStoreError> {
        let failed = |error| self.failed(TABLE, error);
        let Some(archive) = self.archive()? else { return Ok(0) };
        let columns = Columns::of(self.connection, TABLE).map_err(failed)?;
        let sql = format!(
            "SELECT {}, {} FROM {TABLE} WHERE table_name = '{table}' ORDER BY rowid DESC",
            columns.expression("survivor_id"),
            archive.listed()
        );
        let mut broken = 0;
        self.each_row(TABLE, "read the archive", &sql, 0, |row| {
            let image = archive.image(row, 1).map_err(failed)?;
            let survivor = cell(row, 0).map_err(failed)?.text().ok().flatten();
            match image {
                Some(image) => take(&image, survivor.map(MemoryId::new)),
                None => {
                    broken += 1;
                    Ok(())
                }
            }
        })?;
        Ok(broken)
    }

    fn archive(&self) -> Result<Option<ArchiveReader>, LoadStoreError> {
        ArchiveReader::of(self.connection).map_err(|error| self.failed(TABLE, error))
    }
}
