//! `memfold_origins` and `memfold_mirror`: a `brain.db` that mirrors an origin.
//!
//! A mirror is a store like any other; these two tables name its origin and hold, for each record,
//! the pulled state and the state of its memory that the origin has. A record and its memory have
//! the same id.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};

use crate::brain_db::own::tables::own_tables_exist;
use crate::brain_db::read::access::{Columns, all, cell0, cells2, first};
use crate::brain_db::read::load::Param;
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::changes::{NewEmbedding, bound, put_back, put_in, revived};
use crate::brain_db::write::rows::{Layout, add_entry, drop_entry};
use crate::brain_db::write::session::Writes;
use crate::error::StoreError;
use crate::origin::{LinkKind, OriginRecord, OriginStatus};
use memfold_core::journal::RowImage;
use memfold_core::row::{archives, categories_to_json, parse_categories, parse_source};
use memfold_core::value::Value;

/// The run that edges name which were pulled from an origin.
const PULLED_RUN: &str = "origin";
/// The model of vectors from an origin that names no model.
const MODEL_UNKNOWN: &str = "unknown";

/// Of which origin a store is the mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorOf {
    /// The kind of the origin, as `--store-kind` spells it.
    pub kind: String,
    /// Where the origin is.
    pub place: String,
    /// A publication that was begun and not finished.
    pub publishing: Option<String>,
}

/// A record of an origin, and the state of its memory that the origin has.
#[derive(Debug, Clone, PartialEq)]
pub struct MirroredRecord {
    /// The id of the record, and of its memory.
    pub id: String,
    /// [`OriginRecord::mark`] of the record as the origin has it.
    pub mark: String,
    /// [`OriginRecord::digest`] of the record as the origin has it.
    pub digest: String,
    /// The record as others left it, without its vector: a restoration goes back to it.
    pub record: OriginRecord,
    /// The state of the memory after `record` was pulled.
    pub pulled: MemoryState,
    /// The state of the memory that the origin has.
    pub published: MemoryState,
    /// Whether memfold wrote the record.
    pub is_ours: bool,
}

/// The part of a memory that is published to an origin.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryState {
    /// Whether it counts.
    #[serde(rename = "standing")] // the name on disk
    pub status: OriginStatus,
    /// The hash of its text; empty where it does not count.
    pub content: String,
    /// Its categories in their order; none where it does not count.
    pub categories: Vec<String>,
    /// Its importance; 0 where it does not count.
    pub importance: f64,
    /// How often it was read; 0 where it does not count.
    pub access_count: i64,
    /// The memories that were merged into it, in the order of their ids.
    pub merged: Vec<String>,
}

/// A memory of a mirror.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MirrorMemory {
    /// The published state.
    pub state: MemoryState,
    /// Its text.
    pub content: String,
    /// When it was made, as written.
    pub created_at: String,
    /// Where it came from, before any consolidation.
    pub source: String,
}

/// The unit that changed a memory last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastUnit {
    /// The run.
    pub run_id: String,
    /// When, as the owner writes times.
    pub at: String,
    /// The rule or the action that caused it; `undo` where it undid another unit.
    pub rule: String,
}

impl BrainDb {
    /// Returns the origin that the store is a mirror of, if it is one.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn mirror_of(&self) -> Result<Option<MirrorOf>, StoreError> {
        self.look_on(|reads| reads.mirror_of())
    }
}

impl Writes<'_> {
    /// Returns the origin that the store is a mirror of, if it is one.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn mirror_of(&self) -> Result<Option<MirrorOf>, StoreError> {
        self.query("read memfold_mirror", |connection| {
            if Columns::of(connection, "memfold_mirror")?.is_empty() {
                return Ok(None);
            }
            let sql = "SELECT kind, place, publishing FROM memfold_mirror LIMIT 1";
            first(connection, sql, [], |row| {
                Ok(MirrorOf { kind: row.get(0)?, place: row.get(1)?, publishing: row.get(2)? })
            })
        })
    }

    /// Makes the store the mirror of an origin, or notes where that is now.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn set_mirror_of(&self, kind: &str, place: &str) -> Result<(), StoreError> {
        const WHAT: &str = "name the origin";
        let sql = "UPDATE memfold_mirror SET kind = ?1, place = ?2";
        if self.execute(WHAT, sql, [kind, place])? == 0 {
            let sql = "INSERT INTO memfold_mirror(kind, place, publishing) VALUES (?1, ?2, NULL)";
            self.execute(WHAT, sql, [kind, place])?;
        }
        if !self.layout()?.memories.has("last_accessed") {
            let sql = "ALTER TABLE stm ADD COLUMN last_accessed TEXT";
            self.execute("add a column", sql, [])?;
        }
        Ok(())
    }

    /// Records a change that is about to be published, or that it is published.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn set_publishing(&self, publishing: Option<&str>) -> Result<(), StoreError> {
        let sql = "UPDATE memfold_mirror SET publishing = ?1";
        self.execute("write down what is published", sql, [publishing]).map(drop)
    }

    /// Reads all records by id; none where the table is missing.
    ///
    /// # Errors
    /// When the store cannot be read, or holds a record that cannot be understood.
    pub fn mirrored_records(&self) -> Result<BTreeMap<String, MirroredRecord>, StoreError> {
        let sql = "SELECT id, mark, digest, record, pulled, published, ours FROM memfold_origins";
        let records = self.query("read memfold_origins", |connection| {
            if Columns::of(connection, "memfold_origins")?.is_empty() {
                return Ok(Vec::new());
            }
            let read = |row: &Row<'_>| Ok(mirrored(row)?.ok_or(row.get::<_, String>(0)?));
            all::<_, Vec<_>>(connection, sql, [], read)
        })?;
        let records = records.into_iter().map(|record| {
            let record = record
                .map_err(|id| self.unreadable(format!("record {id:?} of memfold_origins")))?;
            Ok((record.id.clone(), record))
        });
        records.collect()
    }

    /// Writes a record down, in place of an earlier one of its id.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn put_mirrored(&self, record: &MirroredRecord, at: &str) -> Result<(), StoreError> {
        let json = |value: serde_json::Result<String>| {
            value.map_err(|error| StoreError::Refused {
                what: "write a record down",
                reason: error.to_string(),
            })
        };
        let sql = "INSERT OR REPLACE INTO memfold_origins
                       (id, mark, digest, record, pulled, published, ours, at)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let MirroredRecord { id, mark, digest, is_ours, .. } = record;
        let state = json(serde_json::to_string(&record.record))?;
        let pulled = json(serde_json::to_string(&record.pulled))?;
        let published = json(serde_json::to_string(&record.published))?;
        let row = params![id, mark, digest, state, pulled, published, is_ours, at];
        self.execute("write a record down", sql, row).map(drop)
    }

    /// Removes a record's row.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn drop_mirrored(&self, id: &str) -> Result<(), StoreError> {
        self.execute("remove a record", "DELETE FROM memfold_origins WHERE id = ?1", [id]).map(drop)
    }

    /// Reads all memories by id, including archived ones.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn mirror_memories(&self) -> Result<BTreeMap<String, MirrorMemory>, StoreError> {
        let mut memories = self.query("read memories", status_memories)?;
        for (id, survivor) in self.query("read the archive", moved_memories)? {
            memories.entry(id).or_insert_with(|| retired(survivor));
        }
        let merged = memories.iter().filter_map(|(id, memory)| match &memory.state.status {
            OriginStatus::Merged { into } => Some((into.clone(), id.clone())),
            OriginStatus::Live | OriginStatus::Archived => None,
        });
        for (into, id) in merged.collect::<Vec<_>>() {
            let survivor = memories.get_mut(&into).map(|memory| &mut memory.state);
            if let Some(state) = survivor.filter(|state| state.status == OriginStatus::Live) {
                state.merged.push(id);
            }
        }
        Ok(memories)
    }

    /// Makes a memory agree with its record: a new row, or other cells of the existing one. Its
    /// embedding stays while its text does, unless the record has one.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn take_record(
        &self,
        layout: &Layout,
        record: &OriginRecord,
        at: &str,
    ) -> Result<(), StoreError> {
        let found = self.status_row(layout, &record.id)?;
        let is_live = record.status == OriginStatus::Live;
        let image = RowImage { rowid: None, cells: cells(record) };
        match &found {
            None => put_in(self, layout, &image, is_live, None)?,
            Some(before) => self.overwrite(layout, before, &image, is_live)?,
        }
        let is_same_text = found.as_ref().is_some_and(|before| {
            before.get("content").and_then(Value::as_text) == Some(&*record.text)
        });
        if record.vector.is_some() || !is_same_text {
            let sql = "DELETE FROM embeddings WHERE source_type = 'stm' AND source_id = ?1";
            self.execute("remove an embedding", sql, [&record.id])?;
        }
        if let Some((model, vector)) = &record.vector {
            let model = if model.is_empty() { MODEL_UNKNOWN } else { model };
            let new = NewEmbedding {
                memory_id: &record.id,
                content: &record.text,
                vector,
                model: Some(model),
                at,
            };
            self.insert_embedding(layout, &new)?;
        }
        self.withdraw_lineage(&record.id)?;
        self.take_links(record, at)?;
        let was_archived = found.is_some_and(|before| {
            before
                .get("source")
                .and_then(Value::as_text)
                .is_some_and(|source| parse_source(source).archived)
        });
        if is_live && was_archived { revived(self, at, &record.id) } else { Ok(()) }
    }

    /// Removes a memory without a record, from `stm` or the archive.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn drop_record(&self, layout: &Layout, id: &str) -> Result<(), StoreError> {
        self.status_row(layout, id)?;
        self.erase(layout, id)?;
        self.withdraw_lineage(id)?;
        let sql = "UPDATE memfold_edges SET active = 0
                   WHERE (source_id = ?1 OR target_id = ?1) AND active = 1";
        self.execute("withdraw an edge", sql, [id])?;
        self.drop_mirrored(id)
    }

    /// Reads the row of a memory, back from the archive where it was moved there.
    fn status_row(&self, layout: &Layout, id: &str) -> Result<Option<RowImage>, StoreError> {
        if let Some(found) = self.row_of(layout, id)? {
            return Ok(Some(found));
        }
        let sql = "SELECT 1 FROM memfold_archive WHERE memory_id = ?1 AND table_name = 'stm'";
        if !self.exists("read the archive", sql, [id])? {
            return Ok(None);
        }
        put_back(self, layout, id)?;
        self.row_of(layout, id)
    }

    fn overwrite(
        &self,
        layout: &Layout,
        before: &RowImage,
        after: &RowImage,
        is_live: bool,
    ) -> Result<(), StoreError> {
        let cells = after.cells.iter().filter(|(name, _)| layout.memories.has(name));
        if let Some(rowid) = before.rowid {
            drop_entry(self, layout, rowid, before)?;
        }
        let id = before.get("id").cloned().unwrap_or(Value::Null);
        let cells: Vec<_> = cells.map(|(name, value)| (name.as_str(), Param(value))).collect();
        self.update("change a memory", "stm", &bound(&cells), "id", &Param(&id))?;
        match before.rowid {
            Some(rowid) if is_live => add_entry(self, layout, rowid, after),
            _ => Ok(()),
        }
    }

    fn withdraw_lineage(&self, id: &str) -> Result<(), StoreError> {
        let sql = "UPDATE memfold_lineage SET active = 0 WHERE absorbed_id = ?1 AND active = 1";
        self.execute("withdraw a merge", sql, [id]).map(drop)
    }

    fn take_links(&self, record: &OriginRecord, at: &str) -> Result<(), StoreError> {
        let sql = "UPDATE memfold_edges SET active = 0
                   WHERE source_id = ?1 AND run_id = ?2 AND active = 1";
        self.execute("withdraw an edge", sql, [&*record.id, PULLED_RUN])?;
        for link in &record.links {
            let kind = match link.kind {
                LinkKind::References => "references",
                LinkKind::Supersedes => "supersedes",
            };
            let sql = "INSERT OR IGNORE INTO memfold_edges
                           (source_id, target_id, type, weight, run_id, unit, at, active)
                       VALUES (?1, ?2, ?3, 1.0, ?4, 0, ?5, 1)";
            self.execute("write an edge", sql, params![record.id, link.to, kind, PULLED_RUN, at])?;
        }
        Ok(())
    }

    /// Returns the unit that changed a memory last; `None` where none did.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn last_unit_of(&self, id: &str) -> Result<Option<LastUnit>, StoreError> {
        let sql = "SELECT u.run_id, u.at, u.actions, u.reverts_run,
                       (SELECT rule_id FROM memfold_lineage
                        WHERE absorbed_id = ?1 AND active = 1 ORDER BY id DESC LIMIT 1)
                   FROM memfold_journal AS j
                   JOIN memfold_units AS u ON u.run_id = j.run_id AND u.unit = j.unit
                   WHERE j.row_key = ?1 AND j.table_name = 'stm' ORDER BY j.seq DESC LIMIT 1";
        self.first("read memfold_journal", sql, [id], last_unit)
    }

    /// Returns the memories that an undone run had made: they are in the archive and never existed
    /// outside that run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn withdrawn_memories(&self) -> Result<BTreeSet<String>, StoreError> {
        self.query("read the archive", |connection| {
            if !own_tables_exist(connection)? {
                return Ok(BTreeSet::new());
            }
            all(connection, WITHDRAWN, [], cell0)
        })
    }

    /// Returns the memories that a memory of memfold's was made of, in the order of their ids.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn made_of(&self, id: &str) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT absorbed_id FROM memfold_lineage WHERE survivor_id = ?1 AND active = 1
                   UNION SELECT target_id FROM memfold_edges
                       WHERE source_id = ?1 AND active = 1 AND run_id <> ?2
                         AND type IN ('consolidates', 'supersedes')
                   ORDER BY 1";
        self.all("read memfold_lineage", sql, [id, PULLED_RUN], cell0)
    }
}

fn last_unit(row: &Row<'_>) -> rusqlite::Result<LastUnit> {
    let (actions, reverts): (Option<String>, Option<String>) = (row.get(2)?, row.get(3)?);
    let rule: Option<String> = row.get(4)?;
    let action = || {
        let deeds: serde_json::Value = serde_json::from_str(&actions?).ok()?;
        Some(deeds.get(0)?.get("type")?.as_str()?.to_owned())
    };
    let rule = match reverts {
        Some(_) => "undo".to_owned(),
        None => rule.or_else(action).unwrap_or_else(|| "save".to_owned()),
    };
    Ok(LastUnit { run_id: row.get(0)?, at: row.get(1)?, rule })
}

/// The cells of `stm` that a record makes.
fn cells(record: &OriginRecord) -> Vec<(String, Value)> {
    let mut categories = record.categories();
    let source = match &record.status {
        OriginStatus::Live => record.source.clone(),
        OriginStatus::Merged { into } => {
            let told = serde_json::json!({ "merged_into": into, "previous_source": record.source });
            format!("archived:{told}")
        }
        OriginStatus::Archived => {
            format!("archived:{}", serde_json::json!({ "previous_source": record.source }))
        }
    };
    if record.status != OriginStatus::Live {
        categories.push("archived".to_owned());
    }
    let text = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    let cells: [(&str, Value); 10] = [
        ("id", record.id.as_str().into()),
        ("content", record.text.as_str().into()),
        ("categories", categories_to_json(&categories).into()),
        ("importance", Value::Real(record.importance)),
        ("access_count", Value::Integer(record.access_count)),
        // The column wants a text; an empty one is a time that is not known.
        ("created_at", record.created_at.as_deref().unwrap_or_default().into()),
        ("updated_at", text(&record.updated_at)),
        ("last_accessed", text(&record.last_accessed)),
        ("expires_at", text(&record.expires_at)),
        ("source", source.into()),
    ];
    cells.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn mirrored(row: &Row<'_>) -> rusqlite::Result<Option<MirroredRecord>> {
    let (record, pulled, published): (String, String, String) =
        (row.get(3)?, row.get(4)?, row.get(5)?);
    let (Ok(record), Ok(pulled), Ok(published)) = (
        serde_json::from_str(&record),
        serde_json::from_str(&pulled),
        serde_json::from_str(&published),
    ) else {
        return Ok(None);
    };
    Ok(Some(MirroredRecord {
        id: row.get(0)?,
        mark: row.get(1)?,
        digest: row.get(2)?,
        record,
        pulled,
        published,
        is_ours: row.get(6)?,
    }))
}

const STANDING: &str = "SELECT id, content, categories, importance, access_count, created_at,
                            coalesce(source, 'agent') FROM stm";
const MOVED: &str = "SELECT memory_id, survivor_id FROM memfold_archive WHERE table_name = 'stm'
                     ORDER BY id";
/// The journal of one of these memories begins with a run that put it in, and an undo of that run
/// took it out.
const WITHDRAWN: &str = "SELECT a.memory_id FROM memfold_archive AS a
        JOIN memfold_units AS u ON u.run_id = a.run_id AND u.reverts_run IS NOT NULL
        JOIN memfold_journal AS j ON j.run_id = u.reverts_run AND j.unit = u.reverts_unit
             AND j.table_name = 'stm' AND j.row_key = a.memory_id AND j.op = 'put_in'
    WHERE a.table_name = 'stm' AND a.survivor_id IS NULL
      AND NOT EXISTS (SELECT 1 FROM memfold_journal AS e
                      WHERE e.table_name = 'stm' AND e.row_key = a.memory_id AND e.seq < j.seq)";

fn status_memories(connection: &Connection) -> rusqlite::Result<BTreeMap<String, MirrorMemory>> {
    let found: Vec<(String, Option<MirrorMemory>)> = all(connection, STANDING, [], memory)?;
    Ok(found.into_iter().filter_map(|(id, memory)| Some((id, memory?))).collect())
}

fn moved_memories(connection: &Connection) -> rusqlite::Result<BTreeMap<String, Option<String>>> {
    if !own_tables_exist(connection)? {
        return Ok(BTreeMap::new());
    }
    all(connection, MOVED, [], cells2)
}

fn retired(survivor: Option<String>) -> MirrorMemory {
    let status = match survivor {
        Some(into) => OriginStatus::Merged { into },
        None => OriginStatus::Archived,
    };
    let state = MemoryState { status, ..MemoryState::default() };
    MirrorMemory { state, ..MirrorMemory::default() }
}

/// Reads a row of `stm`; no memory where it is a record about others.
fn memory(row: &Row<'_>) -> rusqlite::Result<(String, Option<MirrorMemory>)> {
    let (id, source): (String, String) = (row.get(0)?, row.get(6)?);
    let provenance = parse_source(&source);
    if provenance.record {
        return Ok((id, None));
    }
    let categories: Option<String> = row.get(2)?;
    let categories = parse_categories(categories.as_deref().unwrap_or_default());
    let categories: Vec<String> = categories.into_iter().map(String::from).collect();
    if provenance.archived || categories.iter().any(|category| archives(category)) {
        return Ok((id, Some(retired(provenance.merged_into.map(|id| id.as_str().to_owned())))));
    }
    let content: String = row.get(1)?;
    let state = MemoryState {
        status: OriginStatus::Live,
        content: blake3::hash(content.as_bytes()).to_hex()[..32].to_owned(),
        categories,
        importance: row.get::<_, Option<f64>>(3)?.unwrap_or(1.0),
        access_count: row.get::<_, Option<i64>>(4)?.unwrap_or(0),
        merged: Vec::new(),
    };
    let (created_at, source) = (row.get(5)?, provenance.root.into());
    Ok((id, Some(MirrorMemory { state, content, created_at, source })))
}
