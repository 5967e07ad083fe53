//! The store's facts about a memory: its row, lineage, provenance, decisions and flags.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap};

use jiff::tz::TimeZone;
use rusqlite::{Connection, OptionalExtension as _, Row as SqlRow, Statement, params};
use serde_json::Value;

use crate::brain_db::own::archive::ArchiveReader;
use crate::brain_db::read::access::Columns;
use crate::brain_db::read::load::{MEMORY_COLUMNS, raw_memory};
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::read::rows::content_of;
use crate::memory_store::LoadStoreError;
use memfold_core::decisions;
use memfold_core::journal::RowImage;
use memfold_core::lineage::{
    Declined, Explanation, Few, FlagNote, Fold, KeptApart, KnownBy, Lineage, MemoryView, Place,
    Promotion, Resolved, explain_folds, resolve,
};
use memfold_core::memory::{MemoryId, Status};
use memfold_core::row::parse_source;
use memfold_core::row::{RawMemory, RowFacts, row_facts};
use memfold_core::time::Instant;

impl BrainDb {
    /// Finds the live memory that holds the statement of the memory with this id.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn resolve(
        &self,
        id: &MemoryId,
        time_zone: &TimeZone,
        now: Instant,
    ) -> Result<Resolved, LoadStoreError> {
        self.consult("stm", |connection| {
            resolve(&StoreLineage::new(connection, time_zone, now)?, id)
        })
    }

    /// Returns all facts about a memory.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn explain_memory(
        &self,
        id: &MemoryId,
        time_zone: &TimeZone,
        now: Instant,
    ) -> Result<Explanation, LoadStoreError> {
        self.consult("stm", |connection| {
            explain(connection, id, &StoreLineage::new(connection, time_zone, now)?)
        })
    }
}

fn explain(
    connection: &Connection,
    id: &MemoryId,
    lineage: &StoreLineage<'_>,
) -> rusqlite::Result<Explanation> {
    let memory = lineage.view(id)?;
    let content_hash = lineage.content_hash(id)?;
    let explained = explain_folds(lineage, id, memory)?;
    added(connection, explained, content_hash.as_deref())
}

const FOLD_COLUMNS: &str =
    "absorbed_id, survivor_id, similarity, rule_id, reasons, run_id, at FROM memfold_lineage";

/// Reads lineage from a store.
pub(crate) struct StoreLineage<'a> {
    connection: &'a Connection,
    time_zone: &'a TimeZone,
    now: Instant,
    memories: Columns,
    has_lineage: bool,
    archive: Option<ArchiveReader>,
    has_journal: bool,
    claims: OnceCell<Claims>,
}

/// A row of the memory table.
struct Found {
    facts: Option<RowFacts>,
    text: Option<String>,
    created_at: Option<String>,
}

impl<'a> StoreLineage<'a> {
    /// Finds out which tables exist.
    pub(crate) fn new(
        connection: &'a Connection,
        time_zone: &'a TimeZone,
        now: Instant,
    ) -> rusqlite::Result<Self> {
        let has = |table| Columns::of(connection, table).map(|columns| !columns.is_empty());
        Ok(Self {
            connection,
            time_zone,
            now,
            memories: Columns::of(connection, "stm")?,
            has_lineage: has("memfold_lineage")?,
            archive: ArchiveReader::of(connection)?,
            has_journal: has("memfold_journal")?,
            claims: OnceCell::new(),
        })
    }

    /// Returns a memory for display.
    pub(crate) fn view(&self, id: &MemoryId) -> rusqlite::Result<Option<MemoryView>> {
        Ok(self.row(id)?.and_then(|found| {
            let facts = found.facts?;
            Some(MemoryView {
                text: found.text,
                categories: facts.categories.iter().map(ToString::to_string).collect(),
                importance: facts.importance,
                access_count: facts.access_count,
                created_at: found.created_at,
                root_source: facts.root_source.into(),
            })
        }))
    }

    /// Returns the hash of a memory's text as it is now.
    pub(crate) fn content_hash(&self, id: &MemoryId) -> rusqlite::Result<Option<String>> {
        let text = self.place(id)?.text;
        Ok(text.as_deref().map(decisions::content_hash))
    }

    /// Returns the memories that their source marks as archived, or that are in the archive table.
    pub(crate) fn archived_ids(&self) -> rusqlite::Result<Vec<MemoryId>> {
        let mut statement = self.connection.prepare(
            "SELECT id FROM stm WHERE source LIKE 'archived:%' AND typeof(id) = 'text' ORDER BY id",
        )?;
        let mut ids = ids(&mut statement)?;
        if self.archive.is_some() {
            let sql = "SELECT DISTINCT memory_id FROM memfold_archive WHERE table_name = 'stm'
                       ORDER BY memory_id";
            ids.extend(self::ids(&mut self.connection.prepare(sql)?)?);
        }
        Ok(ids)
    }

    /// Tells whether a memory says something else than when it was archived, as far as the journal knows.
    pub(crate) fn was_edited(&self, id: &MemoryId, text: Option<&str>) -> rusqlite::Result<bool> {
        if !self.has_journal {
            return Ok(false);
        }
        let sql = "SELECT before FROM memfold_journal
                   WHERE row_key = ?1 AND table_name = 'stm' AND op = 'set'
                     AND instr(before, '\"content\"') > 0 ORDER BY seq DESC LIMIT 1";
        let mut statement = self.connection.prepare_cached(sql)?;
        let before: Option<String> =
            statement.query_row([id.as_str()], |row| row.get(0)).optional()?;
        let kept = before.and_then(|json| text_before(&json));
        Ok(kept.is_some() && kept.as_deref() != text)
    }

    fn row(&self, id: &MemoryId) -> rusqlite::Result<Option<Found>> {
        let columns = self.memories.expressions(&MEMORY_COLUMNS);
        let sql = format!("SELECT 0, {columns} FROM stm WHERE id = ?1 LIMIT 1");
        let mut statement = self.connection.prepare_cached(&sql)?;
        let found = statement.query_row([id.as_str()], |row| Ok(self.found(&raw_memory(row)?)));
        found.optional()
    }

    fn found(&self, raw: &RawMemory<'_>) -> Found {
        Found {
            facts: row_facts(raw, self.time_zone, self.now).ok(),
            text: raw.content.text().ok().flatten().map(Into::into),
            created_at: raw.created_at.text().ok().flatten().map(Into::into),
        }
    }

    /// The text of a memory in the archive table, and its survivor.
    fn moved(&self, id: &MemoryId) -> rusqlite::Result<Option<(Option<String>, Option<String>)>> {
        let Some(archive) = &self.archive else { return Ok(None) };
        let sql = format!(
            "SELECT survivor_id, {} FROM memfold_archive
             WHERE memory_id = ?1 AND table_name = 'stm' ORDER BY id DESC LIMIT 1",
            archive.listed()
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let moved = statement.query_row([id.as_str()], |row| {
            let image = archive.image(row, 1)?;
            let text = image.as_ref().and_then(content_of).map(ToOwned::to_owned);
            Ok((text, row.get(0)?))
        });
        moved.optional()
    }

    fn claims(&self) -> rusqlite::Result<&Claims> {
        if let Some(claims) = self.claims.get() {
            return Ok(claims);
        }
        let read = Claims::read(self.connection)?;
        Ok(self.claims.get_or_init(|| read))
    }

    /// The latest merge of a memory in our own tables: into one survivor, or into any.
    pub(crate) fn recorded(
        &self,
        absorbed: &str,
        survivor: Option<&str>,
    ) -> rusqlite::Result<Option<Fold>> {
        if !self.has_lineage {
            return Ok(None);
        }
        let sql = format!(
            "SELECT {FOLD_COLUMNS} WHERE absorbed_id = ?1 AND (?2 IS NULL OR survivor_id = ?2)
             AND active = 1 ORDER BY id DESC LIMIT 1"
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        statement.query_row(params![absorbed, survivor], fold).optional()
    }

    /// The merge of a memory by any evidence: the row's own source first, then lineage, then
    /// survivors' lists.
    fn latest(&self, id: &MemoryId) -> rusqlite::Result<Option<Fold>> {
        let facts = self.row(id)?.and_then(|found| found.facts);
        let own_word = match facts.and_then(|facts| facts.merged_into) {
            Some(survivor) => Some(survivor.as_str().to_owned()),
            None => self.moved(id)?.and_then(|(_, survivor)| survivor),
        };
        if let Some(survivor) = own_word {
            let recorded = self.recorded(id.as_str(), Some(&survivor))?;
            return Ok(Some(recorded.unwrap_or_else(|| provenance_fold(id.as_str(), &survivor))));
        }
        if let Some(recorded) = self.recorded(id.as_str(), None)? {
            return Ok(Some(recorded));
        }
        let survivor = self.claims()?.survivor(id.as_str());
        Ok(survivor.map(|survivor| provenance_fold(id.as_str(), survivor)))
    }

    /// Tells whether anything in the store remembers a memory that is not there.
    fn is_remembered(&self, id: &MemoryId) -> rusqlite::Result<bool> {
        let sql = "SELECT 1 FROM memfold_lineage WHERE absorbed_id = ?1 OR survivor_id = ?1";
        if self.has_lineage && self.connection.prepare_cached(sql)?.exists([id.as_str()])? {
            return Ok(true);
        }
        let sql = "SELECT 1 FROM memfold_journal WHERE row_key = ?1 AND table_name = 'stm'";
        if self.has_journal && self.connection.prepare_cached(sql)?.exists([id.as_str()])? {
            return Ok(true);
        }
        let claims = self.claims()?;
        Ok(claims.survivor(id.as_str()).is_some() || !claims.absorbed(id.as_str()).is_empty())
    }
}

impl Lineage for StoreLineage<'_> {
    type Error = rusqlite::Error;

    fn place(&self, id: &MemoryId) -> rusqlite::Result<Place> {
        if let Some(found) = self.row(id)? {
            let whereabouts = match found.facts.map(|facts| facts.status) {
                None => Status::Unreadable,
                Some(Status::Archived) if self.latest(id)?.is_some() => Status::Merged,
                Some(status) => status,
            };
            return Ok(Place { whereabouts, text: found.text });
        }
        if let Some((text, _)) = self.moved(id)? {
            return Ok(Place { whereabouts: Status::Moved, text });
        }
        let is_remembered = self.is_remembered(id)?;
        let whereabouts = if is_remembered { Status::Gone } else { Status::Unknown };
        Ok(Place { whereabouts, text: None })
    }

    fn folded_into(&self, id: &MemoryId) -> rusqlite::Result<Option<Fold>> {
        use Status::{Expired, Live, Record, Unreadable};
        match self.place(id)?.whereabouts {
            // A row without an archive mark was brought back by the program that removed the mark.
            Live | Expired | Record | Unreadable => Ok(None),
            _ => self.latest(id),
        }
    }

    fn absorbed(&self, id: &MemoryId) -> rusqlite::Result<Vec<Fold>> {
        let mut folds = Vec::new();
        if self.has_lineage {
            let sql =
                format!("SELECT {FOLD_COLUMNS} WHERE survivor_id = ?1 AND active = 1 ORDER BY id");
            let mut statement = self.connection.prepare_cached(&sql)?;
            folds =
                statement.query_map([id.as_str()], fold)?.collect::<rusqlite::Result<Vec<_>>>()?;
        }
        let claimed = self.claims()?.absorbed(id.as_str());
        folds.extend(claimed.iter().map(|absorbed| provenance_fold(absorbed, id.as_str())));
        let mut seen = BTreeSet::new();
        folds.retain(|fold| seen.insert(fold.absorbed.clone()));
        let mut direct = Vec::with_capacity(folds.len());
        for fold in folds {
            // A list names all memories ever merged, also the ones that came along with another.
            if self.latest(&fold.absorbed)?.is_some_and(|latest| latest.survivor == *id) {
                direct.push(fold);
            }
        }
        Ok(direct)
    }
}

/// Reads ids; an invalid text is not an id of any memory.
fn ids(statement: &mut Statement<'_>) -> rusqlite::Result<Vec<MemoryId>> {
    let mut rows = statement.query([])?;
    let mut ids = Vec::new();
    while let Some(row) = rows.next()? {
        ids.extend(row.get_ref(0)?.as_str().ok().map(MemoryId::new));
    }
    Ok(ids)
}

fn fold(row: &SqlRow<'_>) -> rusqlite::Result<Fold> {
    Ok(Fold {
        absorbed: MemoryId::new(row.get::<_, String>(0)?),
        survivor: MemoryId::new(row.get::<_, String>(1)?),
        similarity: row.get(2)?,
        rule_id: row.get(3)?,
        reasons: row.get(4)?,
        run_id: row.get(5)?,
        at: row.get(6)?,
        known_by: KnownBy::Lineage,
    })
}

fn provenance_fold(absorbed: &str, survivor: &str) -> Fold {
    Fold {
        absorbed: MemoryId::new(absorbed),
        survivor: MemoryId::new(survivor),
        similarity: None,
        rule_id: None,
        reasons: None,
        run_id: None,
        at: None,
        known_by: KnownBy::Provenance,
    }
}

/// The text in cells of the journal.
fn text_before(json: &str) -> Option<String> {
    let value: Value = serde_json::from_str(json).ok()?;
    let image = RowImage::from_json(None, &value)?;
    content_of(&image).map(ToOwned::to_owned)
}

/// The merges that the rows' sources claim, for the whole store.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Merged id → survivor, by the merged row's own source.
    own: HashMap<String, String>,
    /// Merged id → survivor, by survivors' lists.
    listed: HashMap<String, String>,
    /// Survivor → all that any row says was merged into it.
    absorbed: HashMap<String, Vec<String>>,
}

impl Claims {
    /// Reads all rows with a source that mentions merges, in one pass.
    pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut claims = Self::default();
        let mut statement = connection.prepare(
            "SELECT CAST(id AS TEXT), CAST(source AS TEXT) FROM stm
             WHERE (source LIKE 'archived:%' OR source LIKE 'consolidation:{%')
               AND typeof(id) <> 'blob' AND id IS NOT NULL ORDER BY id",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            // A text that is not UTF-8 is not ours.
            let (Ok(id), Ok(source)) = (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_str()) else {
                continue;
            };
            claims.take(id, source);
        }
        Ok(claims)
    }

    fn take(&mut self, id: &str, source: &str) {
        let said = parse_source(source);
        if let Some(survivor) = &said.merged_into {
            let survivor = survivor.as_str().to_owned();
            self.absorbed.entry(survivor.clone()).or_default().push(id.to_owned());
            self.own.insert(id.to_owned(), survivor);
        }
        for absorbed in &said.merged_from {
            let absorbed = absorbed.as_str().to_owned();
            if absorbed != id {
                self.absorbed.entry(id.to_owned()).or_default().push(absorbed.clone());
                self.listed.entry(absorbed).or_insert_with(|| id.to_owned());
            }
        }
    }

    /// Returns the survivor that any row claims for a memory, its own row first.
    pub(crate) fn survivor(&self, id: &str) -> Option<&str> {
        self.own.get(id).or_else(|| self.listed.get(id)).map(String::as_str)
    }

    /// Returns the memories that any row claims were merged into a memory, with repeats.
    pub(crate) fn absorbed(&self, id: &str) -> &[String] {
        self.absorbed.get(id).map_or(&[], Vec::as_slice)
    }
}

/// Adds decisions and flags to an explanation; `content_hash` is that of the text as it is now.
pub(crate) fn added(
    connection: &Connection,
    explained: Explanation,
    content_hash: Option<&str>,
) -> rusqlite::Result<Explanation> {
    let id = explained.resolved.id.clone();
    let mut explained = explained;
    if !Columns::of(connection, "memfold_decisions")?.is_empty() {
        explained.promotions = promotions(connection, &id)?;
        explained.kept_apart = kept_apart(connection, &id, content_hash)?;
        explained.declined = declined(connection, &id, content_hash)?;
    }
    if !Columns::of(connection, "memfold_flags")?.is_empty() {
        explained.flags = flags(connection, &id)?;
    }
    Ok(explained)
}

/// Reads the active decisions of a kind about a memory, the latest first.
fn decisions<T>(
    connection: &Connection,
    kind: &str,
    id: &MemoryId,
    read: impl FnMut(&SqlRow<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Few<T>> {
    let mut statement = connection.prepare_cached(
        "SELECT run_id, at, content_hash, group_id, action, access_count FROM memfold_decisions
         WHERE kind = ?1 AND memory_id = ?2 AND active = 1 ORDER BY id DESC",
    )?;
    statement.query_map((kind, id.as_str()), read)?.collect()
}

fn promotions(connection: &Connection, id: &MemoryId) -> rusqlite::Result<Few<Promotion>> {
    decisions(connection, "promoted", id, |row| {
        Ok(Promotion { access_count: row.get(5)?, run_id: row.get(0)?, at: row.get(1)? })
    })
}

fn declined(
    connection: &Connection,
    id: &MemoryId,
    content_hash: Option<&str>,
) -> rusqlite::Result<Few<Declined>> {
    decisions(connection, "declined", id, |row| {
        Ok(Declined {
            action: row.get::<_, Option<String>>(4)?.unwrap_or_default(),
            holds: holds(row, content_hash)?,
            run_id: row.get(0)?,
            at: row.get(1)?,
        })
    })
}

fn kept_apart(
    connection: &Connection,
    id: &MemoryId,
    content_hash: Option<&str>,
) -> rusqlite::Result<Few<KeptApart>> {
    let mut others = connection.prepare_cached(
        "SELECT memory_id FROM memfold_decisions
         WHERE kind = 'keep_both' AND group_id = ?1 AND memory_id <> ?2 AND active = 1 ORDER BY id",
    )?;
    decisions(connection, "keep_both", id, |row| {
        let group: Option<String> = row.get(3)?;
        let from = others
            .query_map((group, id.as_str()), |row| row.get(0).map(|id: String| MemoryId::new(id)))?
            .collect::<rusqlite::Result<_>>()?;
        let holds = holds(row, content_hash)?;
        Ok(KeptApart { from, holds, run_id: row.get(0)?, at: row.get(1)? })
    })
}

fn holds(row: &SqlRow<'_>, content_hash: Option<&str>) -> rusqlite::Result<bool> {
    Ok(row.get::<_, Option<String>>(2)?.as_deref() == content_hash)
}

fn flags(connection: &Connection, id: &MemoryId) -> rusqlite::Result<Few<FlagNote>> {
    let mut statement = connection.prepare_cached(
        "SELECT CASE WHEN left_id = ?1 THEN right_id ELSE left_id END,
                state, similarity, score, run_id, at
         FROM memfold_flags WHERE (left_id = ?1 OR right_id = ?1) AND active = 1 ORDER BY id DESC",
    )?;
    let notes = statement.query_map([id.as_str()], |row| {
        Ok(FlagNote {
            other: MemoryId::new(row.get::<_, String>(0)?),
            state: row.get(1)?,
            similarity: row.get(2)?,
            score: row.get(3)?,
            run_id: row.get(4)?,
            at: row.get(5)?,
        })
    })?;
    notes.collect()
}

#[cfg(test)]
mod tests;
