//! [`forget`]: a memory is erased everywhere, also in texts that name it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use jiff::tz::TimeZone;
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params, params_from_iter};
use serde::Serialize;
use serde_json::Value as Json;

use crate::brain_db::own::archive::{ArchiveReader, erase_merged, words};
use crate::brain_db::own::runs::forget_target;
use crate::brain_db::own::statements::{restated_in, summaries_of};
use crate::brain_db::read::access::{all, cell0, cells2, exists, first};
use crate::brain_db::read::lookup::StoreReader;
use crate::brain_db::read::open::{BrainDb, OpenOptions};
use crate::brain_db::write::changes::stands;
use crate::brain_db::write::rows::Layout;
use crate::brain_db::write::session::{Session, Writes};
use crate::error::StoreError;
use crate::memory_store::LoadRequest;
use crate::upkeep::restore::{UpkeepError, UpkeepRun};
use memfold_core::lineage::Lineage as _;
use memfold_core::memory::{MemoryId, Status};
use memfold_core::runs::RunKind;
use memfold_core::time::Instant;
use memfold_guard::text::excerpt;
use memfold_index::NoProgress;

/// Characters of an id.
const ID_CHARS: usize = 80;

/// What goes with a memory. Counts are rows, unless they say otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, schemars::JsonSchema)]
pub struct Erasure {
    /// The memories that go: the one that was named, those merged into it, and flags about them.
    pub ids: Vec<MemoryId>,
    /// Memories in the owner's table.
    pub memories: u64,
    /// Vectors.
    pub embeddings: u64,
    /// Search entries.
    pub search_entries: u64,
    /// Rows in the archive table.
    pub archived: u64,
    /// Rows of lineage.
    pub lineage: u64,
    /// Decisions.
    pub decisions: u64,
    /// Flags.
    pub flags: u64,
    /// Entries of the journal.
    pub journal: u64,
    /// Units that can no longer be undone, as `<run> <unit>`.
    pub units: Vec<String>,
    /// Actions of plans, which can no longer be applied.
    pub actions: u64,
    /// Other rows that named it and no longer will.
    pub renamed: u64,
    /// Memories that a model wrote from it, with others, and that say in other words what it said.
    pub restated_in: Vec<MemoryId>,
    /// What the owner's schema does to other tables when a memory or its vector is deleted.
    pub reactions: Vec<String>,
}

/// The result of a forgetting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgotten {
    /// The run.
    pub run_id: String,
    /// The erased rows and names.
    pub erasure: Erasure,
    /// Whether the write-ahead log holds no old pages any more.
    pub is_log_empty: bool,
}

/// Returns the rows and names that forgetting a memory would erase, without writing.
///
/// # Errors
/// When it is unknown, when others were merged into it and `with_merged` is not set, or when the
/// store cannot be read.
pub fn preview_forget(
    store: &BrainDb,
    id: &MemoryId,
    with_merged: bool,
    time_zone: &TimeZone,
    now: Instant,
) -> Result<Erasure, UpkeepError> {
    store.look_on(|reads| {
        let ids = all_ids(reads, id, with_merged, time_zone, now)?;
        Ok(Plan::of(reads, ids)?.erasure)
    })
}

/// Erases a memory everywhere in the store, in one transaction. This cannot be undone.
///
/// # Errors
/// As [`preview_forget`], and when the store cannot be written; then nothing was erased.
pub fn forget(
    session: &Session,
    id: &MemoryId,
    with_merged: bool,
    run: &UpkeepRun<'_>,
) -> Result<Forgotten, UpkeepError> {
    let UpkeepRun { time_zone, now, .. } = *run;
    session.read(|reads| all_ids(reads, id, with_merged, time_zone, now).map(drop))?;
    session.overwrite_deleted()?;
    let (run_id, erasure) = run.carry_out(session, RunKind::Forget, None, |_| {
        session.write(|writes| {
            let ids = all_ids(writes, id, with_merged, time_zone, now)?;
            let plan = Plan::of(writes, ids)?;
            plan.carry_out(writes)?;
            let count = plan.erasure.ids.len() as u64;
            Ok::<_, UpkeepError>((plan.erasure, count))
        })
    })?;
    let is_log_empty = session.settle()?;
    Ok(Forgotten { run_id, erasure, is_log_empty })
}

/// The memory, the memories merged into it, and flags about any of them in the owner's table.
fn all_ids(
    reads: &Writes<'_>,
    id: &MemoryId,
    with_merged: bool,
    time_zone: &TimeZone,
    now: Instant,
) -> Result<BTreeSet<MemoryId>, UpkeepError> {
    let shown = |id: &MemoryId| excerpt(id.as_str(), ID_CHARS);
    let request = LoadRequest { time_zone, now, progress: &NoProgress };
    let (status, merged_rows) = reads.look_up::<_, StoreError>(&request, |lineage| {
        Ok((lineage.place(id)?.status, merged_rows(lineage, id)?))
    })?;
    if status == Status::Unknown && !is_named(reads, id)? {
        return Err(UpkeepError::Unknown { id: shown(id) });
    }
    if !merged_rows.is_empty() && !with_merged {
        let merged_rows = merged_rows.iter().map(shown).collect();
        return Err(UpkeepError::HasMerged { id: shown(id), merged_rows });
    }
    let mut ids: BTreeSet<MemoryId> = merged_rows.into_iter().chain([id.clone()]).collect();
    let flags = reads.query("look for flags", flag_rows)?;
    let about = flags.into_iter().filter(|(_, content)| names_any(content, &ids));
    let about: Vec<MemoryId> = about.map(|(id, _)| MemoryId::new(id)).collect();
    ids.extend(about);
    // A summary's own text repeats the memory in other words.
    for id in ids.clone() {
        ids.extend(reads.query("look for summaries", |c| summaries_of(c, id.as_str()))?);
    }
    Ok(ids)
}

/// All that was merged into a memory and lives on in it only.
fn merged_rows(lineage: &StoreReader<'_>, id: &MemoryId) -> Result<BTreeSet<MemoryId>, StoreError> {
    let mut found = BTreeSet::new();
    let mut open = vec![id.clone()];
    while let Some(next) = open.pop() {
        for merge in lineage.merged(&next)? {
            let is_kept =
                matches!(lineage.place(&merge.merged)?.status, Status::Merged | Status::Moved);
            if merge.merged != *id && is_kept && found.insert(merge.merged.clone()) {
                open.push(merge.merged);
            }
        }
    }
    Ok(found)
}

/// Tells whether anything of ours names a memory that is nowhere else known.
fn is_named(reads: &Writes<'_>, id: &MemoryId) -> Result<bool, StoreError> {
    let erasure = Plan::of(reads, BTreeSet::from([id.clone()]))?.erasure;
    Ok(erasure != Erasure { ids: erasure.ids.clone(), ..Erasure::default() })
}

/// Takes ids out of a text.
type Rename = fn(&str, &BTreeSet<MemoryId>) -> Option<String>;

/// All that is to be erased, and the replacement where only a name is erased.
struct Plan {
    erasure: Erasure,
    units: BTreeSet<(String, i64)>,
    journal: BTreeSet<i64>,
    renamed: Vec<(Naming, Vec<Renamed>)>,
    /// Answers of models about other memories that quote it, by key.
    quoting: Vec<String>,
    actions: Vec<Renamed>,
    has_tables: bool,
}

impl Plan {
    fn of(reads: &Writes<'_>, ids: BTreeSet<MemoryId>) -> Result<Self, StoreError> {
        let has_tables = reads.has_own_tables()?;
        let mut plan = Self {
            erasure: Erasure { ids: ids.iter().cloned().collect(), ..Erasure::default() },
            units: BTreeSet::new(),
            journal: BTreeSet::new(),
            renamed: Vec::new(),
            quoting: Vec::new(),
            actions: Vec::new(),
            has_tables,
        };
        if has_tables {
            // Units that moved rows away into one of the memories.
            let sql = "SELECT DISTINCT run_id, unit, survivor FROM memfold_journal
                       WHERE survivor IS NOT NULL";
            let read = |row: &Row<'_>| Ok((cells2(row)?, row.get::<_, String>(2)?));
            let units: Vec<((String, i64), String)> =
                reads.all("read the journal", sql, [], read)?;
            let into = units.into_iter().filter(|(_, into)| is_one_of(&ids, into));
            plan.units.extend(into.map(|(unit, _)| unit));
            let restated = reads.query("look for new texts", |c| restated_in(c, &ids))?;
            plan.erasure.restated_in = restated;
            let has_archive = reads.has_archive()?;
            let mut texts = Vec::new();
            for id in &ids {
                let text = reads.text_of(id.as_str(), has_archive)?;
                texts.extend(text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()));
            }
            plan.quoting =
                reads.query("look for answers of models", |c| judgements_quoting(c, &texts))?;
            plan.erasure.renamed += plan.quoting.len() as u64;
        }
        plan.count_rows(reads)?;
        reads.query("look where it is named", |connection| {
            let sources = Naming::new("stm", "id", "id").columns(&["source"]).only(
                "(source LIKE 'consolidation:{%' OR source LIKE 'archived:%') AND id IS NOT NULL",
            );
            plan.rename(connection, &ids, sources, scrub_source)?;
            if !has_tables {
                return Ok(());
            }
            let of_memories = "table_name = 'stm'";
            let journal = Naming::new("memfold_journal", "seq", "row_key").only(of_memories);
            let journal = journal.columns(&["before", "after"]);
            plan.rename(connection, &ids, journal, scrub_cells)?;
            let archive = Naming::new("memfold_archive", "id", "memory_id").only(of_memories);
            let json = archive.clone().columns(&["row"]);
            plan.rename(connection, &ids, json, scrub_cells)?;
            if let Some(reader) = ArchiveReader::of(connection)? {
                for (shape, column) in reader.columns_of("source") {
                    let shaped = archive.clone().columns(&[&column]);
                    let shaped = shaped.only(format!("{of_memories} AND shape = {shape}"));
                    plan.rename(connection, &ids, shaped, scrub_source)?;
                }
            }
            let units = Naming::new("memfold_units", "rowid", "NULL");
            let units = units.columns(&["actions", "digests"]);
            plan.rename(connection, &ids, units, scrub_document)?;
            let actions = Naming::new("memfold_actions", "rowid", "NULL").only("body <> 'null'");
            let actions = actions.columns(&["body", "amended", "base_digests"]);
            let names = |text: &str| names_any(text, &ids).then(String::new);
            plan.actions = actions.find(connection, &ids, names)?;
            Ok(())
        })?;
        plan.erasure.actions = plan.actions.len() as u64;
        Ok(plan)
    }

    /// Counts the rows that are erased as a whole.
    fn count_rows(&mut self, reads: &Writes<'_>) -> Result<(), StoreError> {
        let layout = reads.layout()?;
        self.count_traces_and_records(reads, &layout)?;
        if self.erasure.memories + self.erasure.embeddings > 0 {
            self.erasure.reactions.clone_from(&layout.reactions);
        }
        for (run_id, unit) in &self.units {
            let sql = "SELECT seq FROM memfold_journal WHERE run_id = ?1 AND unit = ?2";
            let keys: Vec<i64> =
                reads.all("read the journal", sql, params![run_id, unit], cell0)?;
            self.journal.extend(keys);
            self.erasure.units.push(format!("{run_id} {unit}"));
        }
        self.erasure.journal = self.journal.len() as u64;
        Ok(())
    }

    fn count_traces_and_records(
        &mut self,
        reads: &Writes<'_>,
        layout: &Layout,
    ) -> Result<(), StoreError> {
        for id in self.erasure.ids.clone() {
            let traces = reads.traces(layout, id.as_str())?;
            self.erasure.memories += traces.rows;
            self.erasure.embeddings += traces.embeddings;
            self.erasure.search_entries += traces.search_entries;
            self.erasure.renamed += traces.references;
            if !self.has_tables {
                continue;
            }
            let sql = "SELECT DISTINCT run_id, unit FROM memfold_journal
                       WHERE row_key = ?1 AND table_name = 'stm'";
            let units: Vec<_> = reads.all("read the journal", sql, [id.as_str()], cells2)?;
            self.units.extend(units);
            let erasure = &mut self.erasure;
            let counters = [
                &mut erasure.lineage,
                &mut erasure.decisions,
                &mut erasure.flags,
                &mut erasure.archived,
            ];
            for ((table, condition), counter) in COUNTED.into_iter().zip(counters) {
                let sql = format!("SELECT count(*) FROM {table} WHERE {condition}");
                let count = reads.first("count rows", &sql, [id.as_str()], cell0::<i64>)?;
                *counter += count.unwrap_or_default().unsigned_abs();
            }
        }
        Ok(())
    }

    fn rename(
        &mut self,
        connection: &rusqlite::Connection,
        ids: &BTreeSet<MemoryId>,
        naming: Naming,
        rename: Rename,
    ) -> rusqlite::Result<()> {
        let mut found = naming.find(connection, ids, |text| rename(text, ids))?;
        if naming.table == "memfold_journal" {
            let goes =
                |key: &Value| matches!(key, Value::Integer(seq) if self.journal.contains(seq));
            found.retain(|row| !goes(&row.key));
        }
        self.erasure.renamed += found.len() as u64;
        self.renamed.push((naming, found));
        Ok(())
    }

    fn carry_out(&self, writes: &Writes<'_>) -> Result<(), StoreError> {
        let layout = writes.layout()?;
        for (naming, found) in &self.renamed {
            for renamed in found {
                writes.query("take a name out", |c| naming.write(c, renamed))?;
            }
        }
        for key in &self.quoting {
            let sql = "DELETE FROM memfold_judgements WHERE key = ?1";
            writes.execute("erase an answer of a model", sql, [key])?;
        }
        for action in &self.actions {
            writes.query("void an action", |c| void_action(c, &action.key))?;
        }
        for (run_id, unit) in &self.units {
            // The whole journal of the unit, so that nobody undoes half of it.
            let sql = "DELETE FROM memfold_journal WHERE run_id = ?1 AND unit = ?2";
            writes.execute("erase the journal", sql, params![run_id, unit])?;
        }
        for id in &self.erasure.ids {
            let id = id.as_str();
            writes.erase(&layout, id)?;
            if !self.has_tables {
                continue;
            }
            erase_merged(writes, id)?;
            // The name of the request stays: sent again it would store the memory anew.
            let sql = format!(
                "UPDATE memfold_requests SET answer = '', memories = '[]' WHERE {LISTED_IN_MEMORIES}"
            );
            writes.execute("erase an answer", &sql, [id])?;
            for (table, condition) in COUNTED.into_iter().chain(UNCOUNTED) {
                let sql = format!("DELETE FROM {table} WHERE {condition}");
                writes.execute("erase rows", &sql, [id])?;
            }
            writes.query("erase a target", |c| {
                forget_target(c, id)?;
                forget_target(c, &format!("memory {id}"))
            })?;
        }
        Ok(())
    }
}

/// A table, and the condition for its rows about a memory (`?1`) and nothing else.
type RowsAbout = (&'static str, &'static str);

/// Tables with rows that are erased as a whole, in the order of [`Erasure`]'s counts.
const COUNTED: [RowsAbout; 4] = [
    ("memfold_lineage", "absorbed_id = ?1 OR survivor_id = ?1"),
    ("memfold_decisions", "memory_id = ?1"),
    ("memfold_flags", "left_id = ?1 OR right_id = ?1"),
    ("memfold_archive", "memory_id = ?1"),
];
const LISTED_IN_MEMORIES: &str =
    "EXISTS (SELECT 1 FROM json_each(memories) AS memory WHERE memory.value = ?1)";

/// Tables with rows that are erased as well and are not counted. Judgements of a memory go also where they are about
/// others, too; a summary of it is erased with it.
const UNCOUNTED: [RowsAbout; 6] = [
    ("memfold_revived", "memory_id = ?1"),
    ("memfold_judgements", LISTED_IN_MEMORIES),
    ("memfold_edges", "source_id = ?1 OR target_id = ?1"),
    ("memfold_summaries", "memory_id = ?1"),
    ("memfold_tiers", "memory_id = ?1"),
    ("memfold_origins", "id = ?1"),
];

/// A table with columns that may name memories among other things.
#[derive(Debug, Clone)]
struct Naming {
    /// The table.
    table: &'static str,
    /// By which its rows are found again.
    key: &'static str,
    /// The memory that a row is about; `NULL` where it is about none.
    about: &'static str,
    /// Columns that may name others.
    columns: Vec<String>,
    condition: String,
}

impl Naming {
    fn new(table: &'static str, key: &'static str, about: &'static str) -> Self {
        Self { table, key, about, columns: Vec::new(), condition: "1".to_owned() }
    }

    /// Sets the columns that may name others.
    fn columns(self, columns: &[&str]) -> Self {
        Self { columns: columns.iter().map(|&column| column.to_owned()).collect(), ..self }
    }

    /// Leaves out rows for which a condition does not hold.
    fn only(self, condition: impl Into<String>) -> Self {
        Self { condition: condition.into(), ..self }
    }
}

/// A row with columns that name memories, and their new texts.
#[derive(Debug, Clone, PartialEq)]
struct Renamed {
    /// Its key.
    key: Value,
    /// The new text of each column; `None` leaves it as it is.
    texts: Vec<Option<String>>,
}

impl Naming {
    /// Finds the rows where `rename` changes one of the columns; rows about one of the ids are
    /// erased anyway and are left out.
    fn find(
        &self,
        connection: &Connection,
        ids: &BTreeSet<MemoryId>,
        rename: impl Fn(&str) -> Option<String>,
    ) -> rusqlite::Result<Vec<Renamed>> {
        let Self { table, key, about, columns, condition } = self;
        let listed = columns.join(", ");
        let sql = format!("SELECT {key}, {about}, {listed} FROM {table} WHERE {condition}");
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let about = row.get_ref(1)?.as_str().ok();
            if about.is_some_and(|id| ids.contains(&MemoryId::new(id))) {
                continue;
            }
            let mut texts = Vec::with_capacity(columns.len());
            for column in 0..columns.len() {
                texts.push(row.get_ref(column + 2)?.as_str().ok().and_then(&rename));
            }
            if texts.iter().any(Option::is_some) {
                found.push(Renamed { key: row.get(0)?, texts });
            }
        }
        Ok(found)
    }

    /// Writes the new texts.
    fn write(&self, connection: &Connection, renamed: &Renamed) -> rusqlite::Result<()> {
        let set: Vec<String> = self
            .columns
            .iter()
            .zip(2..)
            .map(|(column, number): (_, u32)| format!("{column} = ifnull(?{number}, {column})"))
            .collect();
        let sql = format!("UPDATE {} SET {} WHERE {} = ?1", self.table, set.join(", "), self.key);
        let key = std::iter::once(renamed.key.clone());
        let texts = renamed.texts.iter().map(|text| text.clone().map_or(Value::Null, Value::Text));
        connection.prepare_cached(&sql)?.execute(params_from_iter(key.chain(texts))).map(drop)
    }
}

/// This many consecutive words of a memory are a quotation; of a shorter one, all of them.
const QUOTED_WORDS: usize = 4;

/// Returns the keys of the answers of models that quote one of the texts, whichever memories they are about.
fn judgements_quoting(connection: &Connection, texts: &[String]) -> rusqlite::Result<Vec<String>> {
    let words = |text: &str| -> Vec<String> { words(text).collect() };
    let quotations: BTreeSet<Vec<String>> = texts
        .iter()
        .flat_map(|text| {
            let words = words(text);
            let size = words.len().clamp(1, QUOTED_WORDS);
            words.windows(size).map(<[String]>::to_vec).collect::<Vec<_>>()
        })
        .collect();
    let sizes: BTreeSet<usize> = quotations.iter().map(Vec::len).collect();
    let rows: Vec<Option<(String, String)>> =
        all(connection, "SELECT key, opinions FROM memfold_judgements", [], texts2)?;
    let mut found = Vec::new();
    for (key, opinions) in rows.into_iter().flatten() {
        let mut said = String::new();
        match serde_json::from_str(&opinions) {
            Ok(opinions) => push_texts(&opinions, &mut said),
            Err(_) => said.push_str(&opinions),
        }
        let said = words(&said);
        let quotes = |size: &usize| said.windows(*size).any(|words| quotations.contains(words));
        if sizes.iter().any(quotes) {
            found.push(key);
        }
    }
    Ok(found)
}

fn push_texts(value: &serde_json::Value, texts: &mut String) {
    match value {
        serde_json::Value::String(text) => {
            texts.push_str(text);
            texts.push('\n');
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| push_texts(item, texts)),
        serde_json::Value::Object(members) => {
            members.values().for_each(|member| push_texts(member, texts));
        }
        _ => {}
    }
}

/// Returns the owner's rows that are flags: their ids and their texts, which name the memories.
fn flag_rows(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let sql = "SELECT id, content FROM stm
               WHERE source LIKE 'consolidation:contradiction:%' AND typeof(id) = 'text'
                 AND typeof(content) = 'text'";
    let found: Vec<Option<_>> = all(connection, sql, [], texts2)?;
    Ok(found.into_iter().flatten().collect())
}

/// Reads the first two cells of a row; `None` where one of them is not a text.
fn texts2(row: &Row<'_>) -> rusqlite::Result<Option<(String, String)>> {
    let text = |at: usize| Ok::<_, rusqlite::Error>(row.get_ref(at)?.as_str().ok());
    Ok(text(0)?.zip(text(1)?).map(|(one, other)| (one.to_owned(), other.to_owned())))
}

/// Erases an action of a plan; its plan can then no longer be read, nor applied. A plan without
/// applied actions is erased as a whole.
fn void_action(connection: &Connection, rowid: &Value) -> rusqlite::Result<()> {
    let sql = "SELECT plan_id FROM memfold_actions WHERE rowid = ?1";
    let Some(plan) = first(connection, sql, [rowid], cell0::<String>)? else { return Ok(()) };
    let sql = "SELECT 1 FROM memfold_actions WHERE plan_id = ?1 AND state IN ('applied', 'undone')";
    if !exists(connection, sql, [&plan])? {
        return crate::upkeep::restore::drop_plan(connection, &plan);
    }
    let sql = "UPDATE memfold_actions SET body = 'null', amended = NULL, base_digests = '{}',
                   note = 'a memory was forgotten' WHERE rowid = ?1";
    connection.prepare_cached(sql)?.execute([rowid])?;
    let sql = "UPDATE memfold_actions SET state = 'stale', note = 'a memory was forgotten'
               WHERE plan_id = ?1 AND state IN ('proposed', 'approved')";
    connection.prepare_cached(sql)?.execute([plan]).map(drop)
}

/// Provenance is unwrapped this deep.
const DEPTH_MAX: usize = 16;

/// Returns a row's `source` without the ids; `None` where it names none of them.
pub(crate) fn scrub_source(source: &str, ids: &BTreeSet<MemoryId>) -> Option<String> {
    scrubbed_source(source, ids, DEPTH_MAX)
}

fn scrubbed_source(source: &str, ids: &BTreeSet<MemoryId>, depth: usize) -> Option<String> {
    if let Some(id) = source.strip_prefix("archived:merged_into:") {
        return is_one_of(ids, id.trim()).then(|| "archived:forgotten".to_owned());
    }
    let (prefix, json) = ["consolidation:", "archived:"]
        .into_iter()
        .find_map(|prefix| Some((prefix, source.strip_prefix(prefix)?)))?;
    let Ok(Json::Object(mut fields)) = serde_json::from_str::<Json>(json) else { return None };
    let mut changed = false;
    if let Some(Json::Array(from)) = fields.get_mut("merged_from") {
        let before = from.len();
        from.retain(|id| !id.as_str().is_some_and(|id| is_one_of(ids, id)));
        changed |= from.len() < before;
    }
    if fields.get("merged_into").and_then(Json::as_str).is_some_and(|id| is_one_of(ids, id)) {
        fields.remove("merged_into");
        changed = true;
    }
    let previous = fields.get("previous_source").and_then(Json::as_str);
    let previous = previous.filter(|_| depth > 0);
    if let Some(scrubbed) = previous.and_then(|text| scrubbed_source(text, ids, depth - 1)) {
        fields.insert("previous_source".to_owned(), scrubbed.into());
        changed = true;
    }
    changed.then(|| format!("{prefix}{}", Json::Object(fields)))
}

/// Returns cells (of the journal, of the archive) without the ids in their `source`; `None` where there is none.
pub(crate) fn scrub_cells(json: &str, ids: &BTreeSet<MemoryId>) -> Option<String> {
    let Ok(Json::Object(mut cells)) = serde_json::from_str::<Json>(json) else { return None };
    let (_, value) = cells.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case("source"))?;
    *value = scrub_source(value.as_str()?, ids)?.into();
    Some(Json::Object(cells).to_string())
}

/// Returns a JSON document without list items and members that are one of the ids; `None` where there are none.
pub(crate) fn scrub_document(json: &str, ids: &BTreeSet<MemoryId>) -> Option<String> {
    let mut value = serde_json::from_str(json).ok()?;
    remove(&mut value, ids).then(|| value.to_string())
}

fn remove(value: &mut Json, ids: &BTreeSet<MemoryId>) -> bool {
    match value {
        Json::Array(items) => {
            let before = items.len();
            items.retain(|item| !item.as_str().is_some_and(|id| is_one_of(ids, id)));
            let mut changed = items.len() < before;
            for item in items {
                changed |= remove(item, ids);
            }
            changed
        }
        Json::Object(members) => {
            let before = members.len();
            members.retain(|name, _| !is_one_of(ids, name));
            let mut changed = members.len() < before;
            for (_, member) in members.iter_mut() {
                changed |= remove(member, ids);
            }
            changed
        }
        _ => false,
    }
}

/// Tells whether a JSON document names one of the ids, as a whole string or a member's name.
pub(crate) fn names_any(json: &str, ids: &BTreeSet<MemoryId>) -> bool {
    fn look(value: &Json, ids: &BTreeSet<MemoryId>) -> bool {
        match value {
            Json::String(text) => is_one_of(ids, text),
            Json::Array(items) => items.iter().any(|item| look(item, ids)),
            Json::Object(members) => {
                members.iter().any(|(name, member)| is_one_of(ids, name) || look(member, ids))
            }
            _ => false,
        }
    }
    serde_json::from_str(json).is_ok_and(|value| look(&value, ids))
}

fn is_one_of(ids: &BTreeSet<MemoryId>, id: &str) -> bool {
    ids.contains(&MemoryId::new(id))
}

/// The part of a backup's name after the store's.
const BACKUP_SUFFIX: &str = ".memfold-backup-";

/// Files that name a memory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, schemars::JsonSchema)]
pub struct Mentions {
    /// Reports and plans.
    pub reports: Vec<PathBuf>,
    /// Backups that hold it, or that cannot be read.
    pub backups: Vec<PathBuf>,
}

/// Searches the files of the folders of reports, and the backups beside a store.
///
/// # Errors
/// When a file cannot be read; a folder that does not exist has no files.
pub fn mentions(
    store: &Path,
    report_folders: &[PathBuf],
    ids: &[MemoryId],
) -> io::Result<Mentions> {
    let mut found = Mentions::default();
    for folder in report_folders {
        for file in files(folder)? {
            let text = fs::read(&file)?;
            if ids.iter().any(|id| names(&text, id.as_str().as_bytes())) {
                found.reports.push(file);
            }
        }
    }
    let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty());
    let name = store.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!("{name}{BACKUP_SUFFIX}");
    for file in files(folder.unwrap_or(Path::new(".")))? {
        let is_backup =
            file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
        if is_backup && may_hold(&file, ids) {
            found.backups.push(file);
        }
    }
    Ok(found)
}

/// The files of a folder, by name.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Tells whether an id stands in a text as a word of its own.
fn names(text: &[u8], id: &[u8]) -> bool {
    if id.is_empty() {
        return false;
    }
    let is_inside =
        |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    text.windows(id.len()).enumerate().any(|(at, window)| {
        window == id
            && !is_inside(at.checked_sub(1).and_then(|before| text.get(before)))
            && !is_inside(text.get(at + id.len()))
    })
}

/// A backup that cannot be read counts as holding it.
fn may_hold(path: &Path, ids: &[MemoryId]) -> bool {
    let Ok(store) = BrainDb::open(path, OpenOptions::default()) else { return true };
    let held = store.look_on::<_, StoreError>(|reads| {
        for id in ids {
            if stands(reads, id.as_str())? {
                return Ok(true);
            }
        }
        Ok(false)
    });
    held.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> BTreeSet<MemoryId> {
        BTreeSet::from([MemoryId::new("a"), MemoryId::new("é")])
    }

    #[test]
    fn sources_lose_the_ids_and_nothing_else() {
        for (before, after) in [
            (
                r#"consolidation:{"merged_count":3,"merged_from":["x","a","é"],"previous_source":"user"}"#,
                Some(
                    r#"consolidation:{"merged_count":3,"merged_from":["x"],"previous_source":"user"}"#,
                ),
            ),
            (
                r#"consolidation:{"merged_from": ["\u00e9"]}"#,
                Some(r#"consolidation:{"merged_from":[]}"#),
            ),
            (r#"archived:{"merged_into":"a","run_id":"r"}"#, Some(r#"archived:{"run_id":"r"}"#)),
            ("archived:merged_into:a", Some("archived:forgotten")),
            (
                r#"archived:{"previous_source":"archived:merged_into:a"}"#,
                Some(r#"archived:{"previous_source":"archived:forgotten"}"#),
            ),
            (r#"consolidation:{"merged_from":["ab"]}"#, None),
            ("archived:merged_into:ab", None),
            ("consolidation:contradiction:a", None),
            ("agent:a", None),
            ("consolidation:{broken a", None),
        ] {
            assert_eq!(scrub_source(before, &ids()).as_deref(), after, "{before}");
        }
    }

    #[test]
    fn documents_lose_items_and_members() {
        let deeds = r#"[{"ids":["b","a"],"label":"a"}]"#;
        assert_eq!(
            scrub_document(deeds, &ids()).as_deref(),
            Some(r#"[{"ids":["b"],"label":"a"}]"#)
        );
        assert_eq!(scrub_document(r#"{"a":"1","b":"2"}"#, &ids()).as_deref(), Some(r#"{"b":"2"}"#));
        assert_eq!(scrub_document(r#"{"b":"2"}"#, &ids()), None);
        assert!(names_any(r#"{"x":[{"é":1}]}"#, &ids()) && names_any(r#"{"x":"a"}"#, &ids()));
        assert!(!names_any(r#"{"x":"an a in a text"}"#, &ids()));
    }

    #[test]
    fn cells_lose_ids_in_their_source() {
        let before = r#"{"id":"b","source":"archived:merged_into:a"}"#;
        let after = r#"{"id":"b","source":"archived:forgotten"}"#;
        assert_eq!(scrub_cells(before, &ids()).as_deref(), Some(after));
        assert_eq!(scrub_cells(r#"{"id":"a","source":null}"#, &ids()), None);
    }

    #[test]
    fn ids_are_found_as_whole_words() {
        for (text, found) in [
            ("m1", true),
            ("\"m1\"", true),
            ("a m1, b", true),
            ("m10", false),
            ("xm1 m1x _m1", false),
            ("", false),
        ] {
            assert_eq!(names(text.as_bytes(), b"m1"), found, "{text}");
        }
        assert!(!names(b"abc", b""));
    }

    #[test]
    fn files_that_name_a_memory_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("brain.db");
        let reports = folder.path().join("reports");
        fs::create_dir(&reports).unwrap();
        fs::write(reports.join("a.json"), "{\"targetIds\":[\"m1\"]}").unwrap();
        fs::write(reports.join("b.json"), "{\"targetIds\":[\"m10\"]}").unwrap();
        fs::write(folder.path().join("brain.db.memfold-backup-x"), "no store").unwrap();
        let none = folder.path().join("none");
        let found = mentions(&store, &[reports.clone(), none], &[MemoryId::new("m1")]).unwrap();
        assert_eq!(found.reports, [reports.join("a.json")]);
        assert_eq!(found.backups, [folder.path().join("brain.db.memfold-backup-x")]);
    }
}
