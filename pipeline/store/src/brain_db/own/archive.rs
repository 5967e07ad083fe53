//! `memfold_archive` (rows that were moved out of the owner's tables, with every value in its storage class) and
//! `memfold_merged` (the words by which a merged memory was found lead to its survivor); reading what earlier runs and
//! people recorded, where rows that an undo withdrew do not count.
//!
//! The owner's full-text index gets no words of merged memories: it is contentless, and words that the owner deletes by
//! hand would answer for the next row of the same number.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rusqlite::types::ToSql;
use rusqlite::{Connection, Row, Row as SqlRow, params};

use crate::brain_db::read::access::{Columns, all, cell0, cells2, first};
use crate::brain_db::read::load::{PROBE_BLOBS, Param, Pass, cell};
use crate::brain_db::write::changes::Mark;
use crate::brain_db::write::session::Writes;
use crate::error::StoreError;
use crate::memory_store::VectorSink;
use crate::reading::memory::{EmbeddingReader, MemoryReader, RawEmbedding};
use crate::reading::vector::ShapeSurvey;
use memfold_core::decisions::{Decisions, FlaggedPairs, SingleAction, content_hash};
use memfold_core::journal::RowImage;
use memfold_core::memory::{Memory, MemoryId, Status};
use memfold_core::merge::FlagKind;
use memfold_core::row::RawMemory;
use memfold_core::time::Instant;

const TABLE: &str = "memfold_archive";

/// A row with more columns is kept as JSON: SQLite's default limit is 2,000 columns per table.
const CELLS_MAX: usize = 1_000;

/// A row of the archive.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArchivedRow {
    /// The owner's table.
    pub(crate) table: String,
    /// The row.
    pub(crate) image: RowImage,
    /// Whether it had a search entry.
    pub(crate) indexed: bool,
}

/// The memory that a row belongs to, and the survivor it was merged into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moved<'a> {
    pub(crate) memory_id: &'a str,
    pub(crate) survivor: Option<&'a str>,
}

/// How the rows of the archive are read: the cells of a row stand in the columns `c0`, `c1`, …, and its `shape` holds
/// their names. Rows of earlier versions have no shape; they are JSON in the column `row`.
#[derive(Debug)]
pub(crate) struct ArchiveReader {
    listed: String,
    shapes: HashMap<i64, Vec<String>>,
}

impl ArchiveReader {
    /// Reads the layout of the archive's tables; `None` where there is no archive.
    pub(crate) fn of(connection: &Connection) -> rusqlite::Result<Option<Self>> {
        let columns = Columns::of(connection, TABLE)?;
        if !columns.has_all(&["memory_id", "table_name", "row"]) {
            return Ok(None);
        }
        let shapes = if columns.has("shape") { shapes(connection)? } else { HashMap::new() };
        let cells = shapes.values().map(Vec::len).max().unwrap_or_default();
        let cells: Vec<String> = (0..cells).map(cell_name).collect();
        let names: Vec<&str> =
            ["row", "shape"].into_iter().chain(cells.iter().map(String::as_str)).collect();
        Ok(Some(Self { listed: columns.expressions(&names), shapes }))
    }

    /// Returns the columns that [`Self::image`] reads, for a `SELECT`.
    pub(crate) fn listed(&self) -> &str {
        &self.listed
    }

    /// Reads the row with columns from `first` on; `None` where it is damaged.
    pub(crate) fn image(&self, row: &Row<'_>, first: usize) -> rusqlite::Result<Option<RowImage>> {
        let Some(shape) = row.get::<_, Option<i64>>(first + 1).ok().flatten() else {
            let json = row.get_ref(first)?.as_str().ok();
            let json = json.and_then(|json| serde_json::from_str(json).ok());
            return Ok(json.and_then(|json| RowImage::from_json(None, &json)));
        };
        let Some(names) = self.shapes.get(&shape) else { return Ok(None) };
        let cells = names
            .iter()
            .enumerate()
            .map(|(at, name)| Ok((name.clone(), cell(row, first + 2 + at)?.into())))
            .collect::<rusqlite::Result<_>>()?;
        Ok(Some(RowImage { rowid: None, cells }))
    }

    /// Returns each shape with the column that holds the cell of a name.
    pub(crate) fn columns_of<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = (i64, String)> + 'a {
        let mut shapes: Vec<_> = self.shapes.iter().collect();
        shapes.sort_unstable_by_key(|(shape, _)| **shape);
        shapes.into_iter().filter_map(move |(shape, names)| {
            let at = names.iter().position(|known| known.eq_ignore_ascii_case(name))?;
            Some((*shape, cell_name(at)))
        })
    }
}

fn cell_name(at: usize) -> String {
    format!("c{at}")
}

fn shapes(connection: &Connection) -> rusqlite::Result<HashMap<i64, Vec<String>>> {
    let rows: Vec<(i64, String)> =
        all(connection, "SELECT id, columns FROM memfold_shapes", [], cells2)?;
    let parsed = rows.into_iter().map(|(id, names)| Some((id, serde_json::from_str(&names).ok()?)));
    Ok(parsed.flatten().collect())
}

/// Keeps a row that leaves one of the owner's tables.
pub(crate) fn keep(
    writes: &Writes<'_>,
    mark: &Mark<'_>,
    moved: Moved<'_>,
    row: &ArchivedRow,
) -> Result<(), StoreError> {
    let ArchivedRow { table, image, indexed } = row;
    let shape = writes.query("archive a row", |connection| shape_of(connection, image))?;
    let json = if shape.is_some() { String::new() } else { image.to_json().to_string() };
    let cells = if shape.is_some() { image.cells.len() } else { 0 };
    // Rows that belong to a memory move with it: only the memory's own row holds the time and the
    // survivor.
    let (run_id, at, survivor) =
        if table == "stm" { (mark.run_id, mark.at, moved.survivor) } else { ("", "", None) };
    let names: Vec<String> = (0..cells).map(cell_name).collect();
    let values: Vec<Param<'_>> = image.cells.iter().map(|(_, value)| Param(value)).collect();
    let mut row: Vec<(&str, &dyn ToSql)> = vec![
        ("memory_id", &moved.memory_id),
        ("table_name", table),
        ("row_rowid", &image.rowid),
        ("row", &json),
        ("indexed", indexed),
        ("survivor_id", &survivor),
        ("run_id", &run_id),
        ("at", &at),
        ("shape", &shape),
    ];
    row.extend(names.iter().zip(&values).map(|(name, value)| (name.as_str(), value as &dyn ToSql)));
    writes.insert("archive a row", TABLE, &row).map(drop)
}

/// Returns the shape of a row's columns, made where it is new; `None` where they are too many.
fn shape_of(connection: &Connection, image: &RowImage) -> rusqlite::Result<Option<i64>> {
    if image.cells.len() > CELLS_MAX {
        return Ok(None);
    }
    let names: Vec<&str> = image.cells.iter().map(|(name, _)| name.as_str()).collect();
    let names = serde_json::json!(names).to_string();
    let sql = "SELECT id FROM memfold_shapes WHERE columns = ?1";
    let known = first(connection, sql, [&names], cell0)?;
    if known.is_some() {
        return Ok(known);
    }
    let columns = Columns::of(connection, TABLE)?;
    for name in (0..image.cells.len()).map(cell_name).filter(|name| !columns.has(name)) {
        // Without a type, so that no value changes its storage class.
        connection.execute_batch(&format!("ALTER TABLE {TABLE} ADD COLUMN {name}"))?;
    }
    connection.execute("INSERT INTO memfold_shapes(columns) VALUES (?1)", [&names])?;
    Ok(Some(connection.last_insert_rowid()))
}

/// Returns the archived rows of a memory: its own first.
pub(crate) fn archived(writes: &Writes<'_>, id: &str) -> Result<Vec<ArchivedRow>, StoreError> {
    let rows = writes.query("read memfold_archive", |connection| {
        let Some(reader) = ArchiveReader::of(connection)? else { return Ok(Vec::new()) };
        let sql = format!(
            "SELECT table_name, row_rowid, indexed, {} FROM {TABLE}
             WHERE memory_id = ?1 ORDER BY table_name <> 'stm', id",
            reader.listed()
        );
        all::<_, Vec<_>>(connection, &sql, [id], |row| {
            let (table, rowid, indexed) = (row.get(0)?, row.get(1)?, row.get(2)?);
            let image = reader.image(row, 3)?.map(|image| RowImage { rowid, ..image });
            Ok(image.map(|image| ArchivedRow { table, image, indexed }))
        })
    })?;
    let rows: Option<Vec<_>> = rows.into_iter().collect();
    rows.ok_or_else(|| writes.unreadable(format!("the archived row of {id}")))
}

/// Returns a memory's row in the archive table.
pub(crate) fn archived_image(reads: &Writes<'_>, id: &str) -> Result<Option<RowImage>, StoreError> {
    let rows = archived(reads, id)?;
    Ok(rows.into_iter().find(|row| row.table == "stm").map(|row| row.image))
}

/// Keeps the words of a memory that was merged into another, where the other one lacks any of them.
pub(crate) fn index_merged(
    writes: &Writes<'_>,
    lineage: i64,
    merged: &str,
    survivor: &str,
) -> Result<(), StoreError> {
    let text = |id: &str| {
        let bytes = writes.text_of(id, true)?.unwrap_or_default();
        Ok::<_, StoreError>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (own, other) = (text(merged)?, text(survivor)?);
    let known: BTreeSet<String> = words(&other).collect();
    if words(&own).all(|word| known.contains(&word)) {
        return Ok(());
    }
    let sql = "INSERT INTO memfold_merged(rowid, content) VALUES (?1, ?2)";
    writes.execute("keep the words of a merged memory", sql, params![lineage, own]).map(drop)
}

/// Returns the words of a text in lower case.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    let is_between = |c: char| !c.is_alphanumeric();
    text.split(is_between).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Keeps the words of all memories that were merged before there was a table for them.
pub(crate) fn index_all_merged(writes: &Writes<'_>) -> Result<(), StoreError> {
    let sql = "SELECT id, absorbed_id, survivor_id FROM memfold_lineage";
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let merges: Vec<(i64, String, String)> = writes.all("read memfold_lineage", sql, [], read)?;
    for (lineage, merged, survivor) in merges {
        index_merged(writes, lineage, &merged, &survivor)?;
    }
    Ok(())
}

/// Returns the merged memories that have some of the words, the best first by bm25.
pub(crate) fn merged_with(
    connection: &Connection,
    words: &[String],
    most: usize,
) -> rusqlite::Result<Vec<String>> {
    let has_lineage =
        Columns::of(connection, "memfold_lineage")?.has_all(&["id", "absorbed_id", "active"]);
    if words.is_empty() || !has_lineage || Columns::of(connection, "memfold_merged")?.is_empty() {
        return Ok(Vec::new());
    }
    let phrases: Vec<String> =
        words.iter().map(|word| format!("\"{}\"", word.replace('"', "\"\""))).collect();
    let sql = "SELECT l.absorbed_id FROM memfold_merged AS m
               JOIN memfold_lineage AS l ON l.id = m.rowid
               WHERE m.memfold_merged MATCH ?1 AND l.active = 1 ORDER BY m.rank LIMIT ?2";
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    all(connection, sql, params![phrases.join(" OR "), most], cell0)
}

/// Removes the words of a memory, and of the memories merged into it.
pub(crate) fn erase_merged(writes: &Writes<'_>, id: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM memfold_merged WHERE rowid IN
                   (SELECT id FROM memfold_lineage WHERE absorbed_id = ?1 OR survivor_id = ?1)";
    writes.execute("erase the words of a merged memory", sql, [id]).map(drop)
}

/// Rewrites the index without removed entries.
pub(crate) fn rewrite_merged(writes: &Writes<'_>) -> Result<(), StoreError> {
    let sql = "INSERT INTO memfold_merged(memfold_merged) VALUES ('optimize')";
    writes.execute("optimize the index of merged memories", sql, []).map(drop)
}

impl Pass<'_> {
    /// Returns (merged, survivor) pairs of earlier runs, the latest record of each first.
    pub(crate) fn lineage(&self) -> Result<Vec<(MemoryId, MemoryId)>, StoreError> {
        let mut pairs = Vec::new();
        self.own_rows("memfold_lineage", &["absorbed_id", "survivor_id"], &[], |row| {
            if let (Some(merged), Some(survivor)) = (text(row, 0)?, text(row, 1)?) {
                pairs.push((MemoryId::new(merged), MemoryId::new(survivor)));
            }
            Ok(())
        })?;
        pairs.reverse();
        Ok(pairs)
    }

    /// Returns decisions and flags in the order in which they were recorded.
    pub(crate) fn recorded(&self) -> Result<Recorded, StoreError> {
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
    ) -> Result<(), StoreError> {
        let columns = self.columns(table)?;
        if !columns.has_all(needed) {
            return Ok(());
        }
        let listed = columns.expressions(&[needed, optional].concat());
        let counts = if columns.has("active") { "WHERE active = 1" } else { "" };
        let sql = format!("SELECT {listed} FROM {table} {counts} ORDER BY rowid");
        self.query(table, |connection| {
            let mut statement = connection.prepare(&sql)?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                take(row)?;
            }
            Ok(())
        })
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
                "undone" => {
                    if let (Some(at), true) = (decision.at, holds()) {
                        decisions.reworded.remove(&memory());
                        decisions.undone.insert(memory(), at);
                    } else {
                        decisions.reworded.insert(memory());
                    }
                }
                _ => {}
            }
        }
        for members in groups.into_values() {
            if members.iter().all(|member| decisions.undone.contains_key(member)) {
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
    ) -> Result<Option<String>, StoreError> {
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
    ) -> Result<ArchivedBlobs, StoreError> {
        let mut blobs = ArchivedBlobs::default();
        self.archived("embeddings", |row, _| {
            if let (named, Some(blob)) = survey.add_raw(&RawEmbedding::from(row)) {
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
    ) -> Result<Option<String>, StoreError> {
        let broken = self.archived("embeddings", |row, _| {
            embeddings.take_archived(&RawEmbedding::from(row), sink).map_err(StoreError::Sink)
        })?;
        Ok((broken > 0).then(|| {
            format!("{broken} embeddings in {TABLE} cannot be read: only their texts were compared")
        }))
    }

    /// Returns how many rows there are in the archive.
    pub(crate) fn archived_count(&self) -> Result<u64, StoreError> {
        if self.archive()?.is_some() { self.count(TABLE) } else { Ok(0) }
    }

    /// Reads the rows that were moved out of a table and their survivors, the latest record first.
    /// Returns how many records are broken.
    fn archived(
        &self,
        table: &str,
        mut take: impl FnMut(&RowImage, Option<MemoryId>) -> Result<(), StoreError>,
    ) -> Result<u64, StoreError> {
        let failed = |error| self.failed(TABLE, error);
        let Some(archive) = self.archive()? else { return Ok(0) };
        let columns = self.columns(TABLE)?;
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

    fn archive(&self) -> Result<Option<ArchiveReader>, StoreError> {
        self.query(TABLE, ArchiveReader::of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain_db::own::tables::own_tables_in_memory as store;
    use memfold_core::value::Value;
    use proptest::prelude::*;

    /// Any value that SQLite can hold.
    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Integer),
            any::<f64>().prop_filter("no NaN in SQLite", |v| !v.is_nan()).prop_map(Value::Real),
            any::<Vec<u8>>().prop_map(Value::Text),
            any::<Vec<u8>>().prop_map(Value::Blob),
        ]
    }

    fn kept(connection: &Connection, id: &str, image: &RowImage) {
        let writes = Writes::new(connection, std::path::Path::new("brain.db"));
        let mark = Mark { run_id: "r", unit: 1, at: "t" };
        let row = ArchivedRow { table: "stm".to_owned(), image: image.clone(), indexed: true };
        keep(&writes, &mark, Moved { memory_id: id, survivor: Some("s") }, &row).unwrap();
        assert_eq!(archived(&writes, id).unwrap(), [row]);
    }

    proptest! {
        /// Whole numbers as reals, numbers as text, −0: an affinity would change the storage class.
        #[test]
        fn every_value_keeps_its_storage_class(values in prop::collection::vec(any_value(), 1..6)) {
            let cells = values.into_iter().enumerate().map(|(at, v)| (format!("k{at}"), v));
            let connection = store();
            kept(&connection, "m", &RowImage { rowid: Some(7), cells: cells.collect() });
        }
    }

    #[test]
    fn rows_of_other_columns_have_another_shape() {
        let connection = store();
        let image = |names: &[&str]| RowImage {
            rowid: None,
            cells: names.iter().map(|name| ((*name).to_owned(), (*name).into())).collect(),
        };
        kept(&connection, "a", &image(&["id", "content"]));
        kept(&connection, "b", &image(&["id", "content", "a \"new\" one"]));
        kept(&connection, "c", &image(&["id", "content"]));
        let shapes: i64 = connection
            .query_row("SELECT count(*) FROM memfold_shapes", [], |row| row.get(0))
            .unwrap();
        assert_eq!(shapes, 2);
        let many: Vec<String> = (0..=CELLS_MAX).map(|at| format!("k{at}")).collect();
        kept(&connection, "d", &image(&many.iter().map(String::as_str).collect::<Vec<_>>()));
    }

    #[test]
    fn rows_that_are_json_are_read_as_well() {
        let connection = store();
        let image = RowImage { rowid: None, cells: vec![("id".to_owned(), "x".into())] };
        connection
            .execute(
                "INSERT INTO memfold_archive(memory_id, table_name, row, indexed, run_id, at)
                 VALUES ('x', 'stm', ?1, 0, 'r', 't')",
                [image.to_json().to_string()],
            )
            .unwrap();
        let writes = Writes::new(&connection, std::path::Path::new("brain.db"));
        assert_eq!(archived_image(&writes, "x").unwrap(), Some(image));
    }
}
