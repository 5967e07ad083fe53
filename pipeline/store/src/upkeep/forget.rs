//! [`forget`]: a memory is erased everywhere.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};
use serde::Serialize;

use crate::brain_db::own::archive::ArchiveReader;
use crate::brain_db::own::merged::erase_merged;
use crate::brain_db::own::runs::forget_target;
use crate::brain_db::own::statements::{restated_in, summaries_of};
use crate::brain_db::read::lineage::StoreLineage;
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::layout::Layout;
use crate::brain_db::write::session::{Session, SessionError, Writes};
use crate::upkeep::mentions::{names_any, scrub_cells, scrub_document, scrub_source};
use crate::upkeep::run::{UpkeepError, UpkeepRun};
use memfold_core::lineage::Lineage as _;
use memfold_core::memory::MemoryId;
use memfold_core::memory::Status;
use memfold_core::runs::RunKind;
use memfold_core::time::Instant;
use memfold_guard::text::excerpt;

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
/// When it is unknown, when others were merged into it and `with_absorbed` is not set, or when the
/// store cannot be read.
pub fn preview_forget(
    store: &BrainDb,
    id: &MemoryId,
    with_absorbed: bool,
    time_zone: &TimeZone,
    now: Instant,
) -> Result<Erasure, UpkeepError> {
    store.look_on(|reads| {
        let ids = all_ids(reads, id, with_absorbed, time_zone, now)?;
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
    with_absorbed: bool,
    run: &UpkeepRun<'_>,
) -> Result<Forgotten, UpkeepError> {
    let UpkeepRun { time_zone, now, .. } = *run;
    session.read(|reads| all_ids(reads, id, with_absorbed, time_zone, now).map(drop))?;
    session.overwrite_deleted()?;
    let (run_id, erasure) = run.carry_out(session, RunKind::Forget, None, |_| {
        session.write(|writes| {
            let ids = all_ids(writes, id, with_absorbed, time_zone, now)?;
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
    with_absorbed: bool,
    time_zone: &TimeZone,
    now: Instant,
) -> Result<BTreeSet<MemoryId>, UpkeepError> {
    let shown = |id: &MemoryId| excerpt(id.as_str(), ID_CHARS);
    let (whereabouts, ghosts) = reads.query("look for the memory", |connection| {
        let lineage = StoreLineage::new(connection, time_zone, now)?;
        Ok((lineage.place(id)?.whereabouts, ghosts(&lineage, id)?))
    })?;
    if whereabouts == Status::Unknown && !is_named(reads, id)? {
        return Err(UpkeepError::Unknown { id: shown(id) });
    }
    if !ghosts.is_empty() && !with_absorbed {
        let ghosts = ghosts.iter().map(shown).collect();
        return Err(UpkeepError::HasAbsorbed { id: shown(id), ghosts });
    }
    let mut ids: BTreeSet<MemoryId> = ghosts.into_iter().chain([id.clone()]).collect();
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
fn ghosts(lineage: &StoreLineage<'_>, id: &MemoryId) -> rusqlite::Result<BTreeSet<MemoryId>> {
    let mut found = BTreeSet::new();
    let mut open = vec![id.clone()];
    while let Some(next) = open.pop() {
        for fold in lineage.absorbed(&next)? {
            let is_kept = matches!(
                lineage.place(&fold.absorbed)?.whereabouts,
                Status::Merged | Status::Moved
            );
            if fold.absorbed != *id && is_kept && found.insert(fold.absorbed.clone()) {
                open.push(fold.absorbed);
            }
        }
    }
    Ok(found)
}

/// Tells whether anything of ours names a memory that is nowhere else known.
fn is_named(reads: &Writes<'_>, id: &MemoryId) -> Result<bool, SessionError> {
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
    /// Sources of archived memories that name it.
    archived: Vec<ArchivedCell>,
    /// Answers of models about other memories that quote it, by key.
    quoting: Vec<String>,
    actions: Vec<Renamed>,
    has_tables: bool,
}

impl Plan {
    fn of(reads: &Writes<'_>, ids: BTreeSet<MemoryId>) -> Result<Self, SessionError> {
        let has_tables = reads.has_own_tables()?;
        let mut plan = Self {
            erasure: Erasure { ids: ids.iter().cloned().collect(), ..Erasure::default() },
            units: BTreeSet::new(),
            journal: BTreeSet::new(),
            renamed: Vec::new(),
            archived: Vec::new(),
            quoting: Vec::new(),
            actions: Vec::new(),
            has_tables,
        };
        if has_tables {
            let units = reads.query("read the journal", |c| units_into(c, &ids))?;
            plan.units.extend(units);
        }
        if has_tables {
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
            plan.rename(connection, &ids, SOURCES, scrub_source)?;
            if !has_tables {
                return Ok(());
            }
            plan.rename(connection, &ids, JOURNAL, scrub_cells)?;
            plan.rename(connection, &ids, ARCHIVE, scrub_cells)?;
            plan.archived = cells_to_rename(connection, &ids)?;
            plan.erasure.renamed += plan.archived.len() as u64;
            plan.rename(connection, &ids, UNITS, scrub_document)?;
            let names = |text: &str| names_any(text, &ids).then(String::new);
            plan.actions = ACTIONS.find(connection, &ids, names)?;
            Ok(())
        })?;
        plan.erasure.actions = plan.actions.len() as u64;
        Ok(plan)
    }

    /// Counts the rows that are erased as a whole.
    fn count_rows(&mut self, reads: &Writes<'_>) -> Result<(), SessionError> {
        let layout = reads.layout()?;
        self.count_traces_and_records(reads, &layout)?;
        if self.erasure.memories + self.erasure.embeddings > 0 {
            self.erasure.reactions.clone_from(&layout.reactions);
        }
        for (run_id, unit) in &self.units {
            let keys = reads.query("read the journal", |c| journal_keys(c, run_id, *unit))?;
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
    ) -> Result<(), SessionError> {
        for id in self.erasure.ids.clone() {
            let traces = reads.traces(layout, id.as_str())?;
            self.erasure.memories += traces.rows;
            self.erasure.embeddings += traces.embeddings;
            self.erasure.search_entries += traces.search_entries;
            self.erasure.renamed += traces.references;
            if !self.has_tables {
                continue;
            }
            let units = reads.query("read the journal", |c| units_of_memory(c, id.as_str()))?;
            self.units.extend(units);
            for telling in TELLING {
                let count = reads.query("count rows", |c| telling.count(c, id.as_str()))?;
                *self.counter(telling.table) += count;
            }
        }
        Ok(())
    }

    fn counter(&mut self, table: &str) -> &mut u64 {
        match table {
            "memfold_lineage" => &mut self.erasure.lineage,
            "memfold_decisions" => &mut self.erasure.decisions,
            "memfold_flags" => &mut self.erasure.flags,
            _ => &mut self.erasure.archived,
        }
    }

    fn rename(
        &mut self,
        connection: &rusqlite::Connection,
        ids: &BTreeSet<MemoryId>,
        naming: Naming,
        rename: Rename,
    ) -> rusqlite::Result<()> {
        let mut found = naming.find(connection, ids, |text| rename(text, ids))?;
        if naming.table == JOURNAL.table {
            let goes =
                |key: &Value| matches!(key, Value::Integer(seq) if self.journal.contains(seq));
            found.retain(|row| !goes(&row.key));
        }
        self.erasure.renamed += found.len() as u64;
        self.renamed.push((naming, found));
        Ok(())
    }

    fn carry_out(&self, writes: &Writes<'_>) -> Result<(), SessionError> {
        let layout = writes.layout()?;
        for (naming, found) in &self.renamed {
            for renamed in found {
                writes.query("take a name out", |c| naming.write(c, renamed))?;
            }
        }
        for cell in &self.archived {
            writes.query("take a name out", |c| cell.write(c))?;
        }
        for key in &self.quoting {
            writes.query("erase an answer of a model", |connection| {
                let sql = "DELETE FROM memfold_judgements WHERE key = ?1";
                connection.prepare_cached(sql)?.execute([key])
            })?;
        }
        for action in &self.actions {
            writes.query("void an action", |c| void_action(c, &action.key))?;
        }
        for (run_id, unit) in &self.units {
            writes.query("erase the journal", |c| drop_journal(c, run_id, *unit))?;
        }
        for id in &self.erasure.ids {
            let id = id.as_str();
            writes.erase(&layout, id)?;
            if !self.has_tables {
                continue;
            }
            erase_merged(writes, id)?;
            // The name of the request stays: sent again it would store the memory anew.
            let blank = "answer = '', memories = '[]'";
            writes.query("erase an answer", |c| ANSWERED.update(c, id, blank))?;
            for telling in TELLING.into_iter().chain(ALSO_TELLING) {
                writes.query("erase rows", |c| telling.delete(c, id))?;
            }
            writes.query("erase a target", |c| {
                forget_target(c, id)?;
                forget_target(c, &format!("memory {id}"))
            })?;
        }
        Ok(())
    }
}

/// A table and which of its rows tell of a memory (`?1`) and of nothing else.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Telling {
    /// The table.
    pub(crate) table: &'static str,
    condition: &'static str,
}

/// Tables with rows that are erased as a whole.
pub(crate) const TELLING: [Telling; 4] = [
    Telling { table: "memfold_lineage", condition: "absorbed_id = ?1 OR survivor_id = ?1" },
    Telling { table: "memfold_decisions", condition: "memory_id = ?1" },
    Telling { table: "memfold_flags", condition: "left_id = ?1 OR right_id = ?1" },
    Telling { table: "memfold_archive", condition: "memory_id = ?1" },
];
/// That a memory once lived again.
pub(crate) const REVIVED: Telling =
    Telling { table: "memfold_revived", condition: "memory_id = ?1" };

/// Judgements of models on it, together with others.
pub(crate) const JUDGED: Telling = Telling {
    table: "memfold_judgements",
    condition: "EXISTS (SELECT 1 FROM json_each(memories) AS memory WHERE memory.value = ?1)",
};

/// Its relations to others.
pub(crate) const LINKED: Telling =
    Telling { table: "memfold_edges", condition: "source_id = ?1 OR target_id = ?1" };

/// Its role as a summary of others; a summary of it is erased with it.
pub(crate) const SUMMARIZED: Telling =
    Telling { table: "memfold_summaries", condition: "memory_id = ?1" };

/// The tier that it was last assigned.
pub(crate) const TIERED: Telling = Telling { table: "memfold_tiers", condition: "memory_id = ?1" };

/// The line of another system that it was imported from.
pub(crate) const CAME_IN: Telling = Telling { table: "memfold_origins", condition: "id = ?1" };

/// Answers that name it.
pub(crate) const ANSWERED: Telling = Telling {
    table: "memfold_requests",
    condition: "EXISTS (SELECT 1 FROM json_each(memories) AS memory WHERE memory.value = ?1)",
};

/// Tables with rows that are erased as well and are not counted.
const ALSO_TELLING: [Telling; 6] = [REVIVED, JUDGED, LINKED, SUMMARIZED, TIERED, CAME_IN];

impl Telling {
    /// Counts the rows about a memory.
    pub(crate) fn count(self, connection: &Connection, id: &str) -> rusqlite::Result<u64> {
        let sql = format!("SELECT count(*) FROM {} WHERE {}", self.table, self.condition);
        let count: i64 = connection.prepare_cached(&sql)?.query_row([id], |row| row.get(0))?;
        Ok(count.unsigned_abs())
    }

    /// Sets columns of the rows about a memory.
    fn update(self, connection: &Connection, id: &str, set: &str) -> rusqlite::Result<usize> {
        let sql = format!("UPDATE {} SET {set} WHERE {}", self.table, self.condition);
        connection.prepare_cached(&sql)?.execute([id])
    }

    /// Deletes the rows about a memory.
    pub(crate) fn delete(self, connection: &Connection, id: &str) -> rusqlite::Result<usize> {
        let sql = format!("DELETE FROM {} WHERE {}", self.table, self.condition);
        connection.prepare_cached(&sql)?.execute([id])
    }
}

/// A table with columns that may name memories among other things.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Naming {
    /// The table.
    pub(crate) table: &'static str,
    /// By which its rows are found again.
    key: &'static str,
    /// The memory that a row is about; `NULL` where it is about none.
    about: &'static str,
    /// Columns that may name others.
    columns: &'static [&'static str],
    condition: &'static str,
}

/// Sources of the owner's rows.
pub(crate) const SOURCES: Naming = Naming {
    table: "stm",
    key: "id",
    about: "id",
    columns: &["source"],
    condition: "(source LIKE 'consolidation:{%' OR source LIKE 'archived:%') AND id IS NOT NULL",
};
/// Rows as the journal keeps them.
pub(crate) const JOURNAL: Naming = Naming {
    table: "memfold_journal",
    key: "seq",
    about: "row_key",
    columns: &["before", "after"],
    condition: "table_name = 'stm'",
};
/// Rows in the archive table that are JSON.
pub(crate) const ARCHIVE: Naming = Naming {
    table: "memfold_archive",
    key: "id",
    about: "memory_id",
    columns: &["row"],
    condition: "table_name = 'stm'",
};
/// The memories and actions of units.
pub(crate) const UNITS: Naming = Naming {
    table: "memfold_units",
    key: "rowid",
    about: "NULL",
    columns: &["actions", "digests"],
    condition: "1",
};
/// Actions of plans.
pub(crate) const ACTIONS: Naming = Naming {
    table: "memfold_actions",
    key: "rowid",
    about: "NULL",
    columns: &["body", "amended", "base_digests"],
    condition: "body <> 'null'",
};

/// A row with columns that name memories, and their new texts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Renamed {
    /// Its key.
    pub(crate) key: Value,
    /// The new text of each column; `None` leaves it as it is.
    texts: Vec<Option<String>>,
}

impl Naming {
    /// Finds the rows where `rename` changes one of the columns; rows about one of the ids are
    /// erased anyway and are left out.
    pub(crate) fn find(
        self,
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
    pub(crate) fn write(self, connection: &Connection, renamed: &Renamed) -> rusqlite::Result<()> {
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
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect()
    };
    let quotations: BTreeSet<Vec<String>> = texts
        .iter()
        .flat_map(|text| {
            let words = words(text);
            let size = words.len().clamp(1, QUOTED_WORDS);
            words.windows(size).map(<[String]>::to_vec).collect::<Vec<_>>()
        })
        .collect();
    let sizes: BTreeSet<usize> = quotations.iter().map(Vec::len).collect();
    let mut statement = connection.prepare("SELECT key, opinions FROM memfold_judgements")?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (Ok(key), Ok(opinions)) = (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_str()) else {
            continue;
        };
        let mut said = String::new();
        match serde_json::from_str(opinions) {
            Ok(opinions) => push_texts(&opinions, &mut said),
            Err(_) => said.push_str(opinions),
        }
        let said = words(&said);
        let quotes = |size: &usize| said.windows(*size).any(|words| quotations.contains(words));
        if sizes.iter().any(quotes) {
            found.push(key.to_owned());
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

/// A cell of the archive and its new content.
struct ArchivedCell {
    row: i64,
    column: String,
    text: String,
}

impl ArchivedCell {
    fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let sql = format!("UPDATE memfold_archive SET {} = ?2 WHERE id = ?1", self.column);
        connection.prepare_cached(&sql)?.execute(params![self.row, self.text]).map(drop)
    }
}

/// Finds the sources of archived memories that name one of the ids; rows about one of them go anyway.
fn cells_to_rename(
    connection: &Connection,
    ids: &BTreeSet<MemoryId>,
) -> rusqlite::Result<Vec<ArchivedCell>> {
    let mut found = Vec::new();
    let Some(archive) = ArchiveReader::of(connection)? else { return Ok(found) };
    for (shape, column) in archive.columns_of("source") {
        let sql = format!(
            "SELECT id, memory_id, {column} FROM memfold_archive
             WHERE table_name = 'stm' AND shape = ?1"
        );
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([shape])?;
        while let Some(row) = rows.next()? {
            let goes = row.get_ref(1)?.as_str().is_ok_and(|id| ids.contains(&MemoryId::new(id)));
            let source = row.get_ref(2)?.as_str().ok().filter(|_| !goes);
            if let Some(text) = source.and_then(|source| scrub_source(source, ids)) {
                found.push(ArchivedCell { row: row.get(0)?, column: column.clone(), text });
            }
        }
    }
    Ok(found)
}

/// Returns the units that changed a memory.
pub(crate) fn units_of_memory(
    connection: &Connection,
    id: &str,
) -> rusqlite::Result<Vec<(String, i64)>> {
    let mut statement = connection.prepare_cached(
        "SELECT DISTINCT run_id, unit FROM memfold_journal
         WHERE row_key = ?1 AND table_name = 'stm' ORDER BY run_id, unit",
    )?;
    statement.query_map([id], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Returns the units that moved rows away into one of the memories.
pub(crate) fn units_into(
    connection: &Connection,
    ids: &BTreeSet<MemoryId>,
) -> rusqlite::Result<Vec<(String, i64)>> {
    let mut statement = connection.prepare(
        "SELECT DISTINCT run_id, unit, survivor FROM memfold_journal WHERE survivor IS NOT NULL",
    )?;
    let mut rows = statement.query([])?;
    let mut units = Vec::new();
    while let Some(row) = rows.next()? {
        if ids.contains(&MemoryId::new(row.get::<_, String>(2)?)) {
            units.push((row.get(0)?, row.get(1)?));
        }
    }
    Ok(units)
}

/// Removes the whole journal of a unit, so that nobody undoes half of it. Returns the entries.
pub(crate) fn drop_journal(
    connection: &Connection,
    run_id: &str,
    unit: i64,
) -> rusqlite::Result<usize> {
    let sql = "DELETE FROM memfold_journal WHERE run_id = ?1 AND unit = ?2";
    connection.prepare_cached(sql)?.execute(params![run_id, unit])
}

/// Returns the keys of the journal's entries of a unit.
pub(crate) fn journal_keys(
    connection: &Connection,
    run_id: &str,
    unit: i64,
) -> rusqlite::Result<Vec<i64>> {
    let sql = "SELECT seq FROM memfold_journal WHERE run_id = ?1 AND unit = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_map(params![run_id, unit], |row| row.get(0))?.collect()
}

/// Returns the owner's rows that are flags: their ids and their texts, which name the memories.
pub(crate) fn flag_rows(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare(
        "SELECT id, content FROM stm
         WHERE source LIKE 'consolidation:contradiction:%' AND typeof(id) = 'text'
           AND typeof(content) = 'text'",
    )?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        if let (Ok(id), Ok(content)) = (row.get_ref(0)?.as_str(), row.get_ref(1)?.as_str()) {
            found.push((id.to_owned(), content.to_owned()));
        }
    }
    Ok(found)
}

/// Erases an action of a plan; its plan can then no longer be read, nor applied. A plan without
/// applied actions is erased as a whole.
pub(crate) fn void_action(connection: &Connection, rowid: &Value) -> rusqlite::Result<()> {
    let plan: Option<String> = connection
        .prepare_cached("SELECT plan_id FROM memfold_actions WHERE rowid = ?1")?
        .query_row([rowid], |row| row.get(0))
        .optional()?;
    let Some(plan) = plan else { return Ok(()) };
    let sql = "SELECT 1 FROM memfold_actions WHERE plan_id = ?1 AND state IN ('applied', 'undone')";
    if !connection.prepare_cached(sql)?.exists([&plan])? {
        return crate::upkeep::prune::drop_plan(connection, &plan);
    }
    connection
        .prepare_cached(
            "UPDATE memfold_actions SET body = 'null', amended = NULL, base_digests = '{}',
                                        note = 'a memory was forgotten' WHERE rowid = ?1",
        )?
        .execute([rowid])?;
    connection
        .prepare_cached(
            "UPDATE memfold_actions SET state = 'stale', note = 'a memory was forgotten'
             WHERE plan_id = ?1 AND state IN ('proposed', 'approved')",
        )?
        .execute([plan])
        .map(drop)
}
