//! [`BrainDb::checkup`]: SQLite's own checks and the other facts, gathered in two readings, the vectors' and this one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::fs::TryLockError;
use std::path::Path;

use rusqlite::{Connection, ErrorCode};

use crate::brain_db::doctor::facts::{
    AuditChain, Facts, Files, Found, FullText, FullTextKind, MemoryFacts, OwnTables, UnfinishedRun,
    VectorCensus, find_other_consolidators,
};
use crate::brain_db::doctor::findings::{Severity, findings, size};
use crate::brain_db::own::runs::{unpacked_digests, verify_chain};
use crate::brain_db::own::tables::{VERSION, table_names};
use crate::brain_db::read::access::{
    Columns, StoreVersion, all, beside, cell0, exists, first, has_rowid, quoted,
};
use crate::brain_db::read::load::Pass;
use crate::brain_db::read::open::{BrainDb, OpenOptions, free_bytes};
use crate::brain_db::write::rows::reactions_of;
use crate::brain_db::write::session::lock_path;
use crate::error::StoreError;
use crate::memory_store::{LoadRequest, MemoryStore as _};
use crate::reading::memory::lack_of;
use memfold_core::memory::{CreatedAt, Embedding, Memory, MemoryId, Status};
use memfold_core::report::StoreFigures;
use memfold_core::time::Instant;
use memfold_core::{SkipReason, Snapshot};
use memfold_guard::text::excerpt;

/// A store, loaded and examined.
#[derive(Debug)]
pub struct Checkup {
    /// The facts.
    pub facts: Facts,
    /// The memories, or why they cannot be read; damage is listed in the facts.
    pub loaded: Result<Snapshot, StoreError>,
    /// How many vectors each of the snapshot's spaces has.
    pub vectors: Vec<u64>,
}

impl BrainDb {
    /// Loads the store and examines it; writes nothing. One vector under `shared_texts` different texts or more
    /// is noted.
    ///
    /// # Errors
    /// When the store cannot be opened, or when cancelled. Damage is a fact, not an error.
    pub fn checkup(
        &self,
        request: &LoadRequest<'_>,
        shared_texts: usize,
    ) -> Result<Checkup, StoreError> {
        let mut census = VectorCensus::default();
        let loaded = match self.load(request, &mut census) {
            Err(error) if !matches!(error, StoreError::Read { .. }) => return Err(error),
            loaded => loaded,
        };
        let snapshot = loaded.as_ref().ok();
        let mut facts = self.traceless(|reader, connection| {
            request.progress.begin("examine", None);
            let facts = Pass::over(self, reader, connection, request).all_facts(snapshot);
            request.progress.end();
            facts.map_err(|error| self.failed(&reader.version, "stm", &error))
        })?;
        if let (Some(memories), Some(snapshot)) = (&mut facts.memories, snapshot) {
            memories.spaces = census.spaces();
            (memories.shared_vectors, memories.sharing_memories) =
                census.shared(snapshot, shared_texts);
        }
        Ok(Checkup { facts, loaded, vectors: census.counts() })
    }
}

impl Pass<'_> {
    fn all_facts(&self, snapshot: Option<&Snapshot>) -> rusqlite::Result<Facts> {
        let connection = self.connection;
        let mut facts = self.few_facts(CHECK_ALL)?;
        let live = snapshot.map(live_ids);
        let damage = &mut facts.damage;
        facts.broken_references = unless_damaged(damage, broken_references(connection))?;
        facts.full_text = unless_damaged(damage, examine_full_text(connection, live.as_ref()))?;
        let columns = self.memory_columns;
        let other_consolidators = find_other_consolidators(connection, columns, self.store.path());
        facts.other_consolidators = unless_damaged(damage, other_consolidators)?;
        facts.reactions = unless_damaged(damage, reactions_of(connection))?;
        if let Some(snapshot) = snapshot {
            let moved = unless_damaged(damage, moved(connection))?;
            if let Some(own) = &mut facts.own {
                own.moved = moved.len() as u64;
            }
            let edited = archived_edited(connection, snapshot, &moved);
            let archived_edited = unless_damaged(damage, edited)?;
            facts.memories = Some(MemoryFacts {
                archived_edited,
                visible_archived: visible_archived(snapshot, &moved),
                survivor_gone: survivor_gone(snapshot, &moved),
                ..MemoryFacts::of(snapshot)
            });
        }
        Ok(facts)
    }

    /// Gathers the cheap facts: one check, the files, memfold's own tables.
    fn few_facts(&self, check: &str) -> rusqlite::Result<Facts> {
        let connection = self.connection;
        let unopened = unless_damaged(&mut Vec::new(), unopened_tables(connection))?;
        let mut damage = match unopened.is_empty() {
            true => complaints_of(connection, check)?,
            false => check_tables(connection)?,
        };
        let full_text_damage: Vec<String> =
            damage.iter().filter(|line| is_of_full_text(line)).cloned().collect();
        if !full_text_damage.is_empty() {
            // The check stopped there.
            damage = check_tables(connection)?;
        }
        let mut facts = Facts { damage, full_text_damage, unopened, ..Facts::default() };
        let damage = &mut facts.damage;
        facts.own = unless_damaged(damage, examine_own_tables(connection, self.request))?;
        let unfinished = facts.own.iter_mut().flat_map(|own| &mut own.unfinished);
        for run in unfinished.filter(|run| run.is_running) {
            run.is_alive = is_locked(self.store.path()).unwrap_or(run.is_alive);
        }
        let files = examine_files(connection, self.store.path(), self.version);
        facts.files = unless_damaged(damage, files)?;
        Ok(facts)
    }
}

/// Tells whether a complaint is about the content of an FTS5 index.
fn is_of_full_text(line: &str) -> bool {
    line.starts_with("fts5: ") || line.contains("for FTS5 table")
}

/// Takes damage for a fact.
fn unless_damaged<T: Default>(
    damage: &mut Vec<String>,
    found: rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    match found {
        Err(error) if is_damage(&error) => {
            damage.push(error.to_string());
            Ok(T::default())
        }
        found => found,
    }
}

fn live_ids(snapshot: &Snapshot) -> HashSet<&str> {
    let live = snapshot.memories.iter().filter(|memory| memory.status == Status::Live);
    live.map(|memory| memory.id.as_str()).collect()
}

impl MemoryFacts {
    /// Counts the facts that a snapshot alone shows.
    fn of(snapshot: &Snapshot) -> Self {
        let mut facts = Self { live: snapshot.live_count(), ..Self::default() };
        for (reason, &count) in &snapshot.skipped {
            facts.skipped.insert(*reason, Found { count, examples: Vec::new() });
        }
        let live = snapshot.memories.iter().filter(|memory| memory.status == Status::Live);
        for memory in live {
            if matches!(memory.embedding, Embedding::Invalid(_)) {
                facts.invalid_embeddings.push(memory.id.to_string());
            }
            let time = matches!(memory.created_at, CreatedAt::Unreadable(_))
                .then_some(SkipReason::CreatedAtUnreadable);
            for reason in time.into_iter().chain(lack_of(&memory.embedding)) {
                if let Some(found) = facts.skipped.get_mut(&reason) {
                    found.illustrate(memory.id.as_str());
                }
            }
        }
        facts
    }
}

/// Larger files are checked in part: their memory table alone.
const CHECKED_BYTES_MAX: u64 = 512 << 20;

/// Maximum characters of a reason.
const REASON_CHARS: usize = 200;

/// How a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthStatus {
    /// Sound.
    Ok,
    /// It works, but a person should look.
    Warning,
    /// It cannot be read, or is damaged.
    Critical,
}

impl HealthStatus {
    /// Returns the word that the line begins with.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARN",
            Self::Critical => "CRITICAL",
        }
    }
}

/// The health of a store, for a monitor.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// How it is.
    pub status: HealthStatus,
    /// Why it is not ok: safe to display.
    pub reasons: Vec<String>,
    /// Counts, where the store could be read.
    pub counts: Option<HealthCounts>,
}

/// Counts of a readable store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthCounts {
    /// Counts over the whole memory table.
    pub figures: StoreFigures,
    /// Memories that may take part in a consolidation.
    pub live: u64,
    /// Contradictory pairs that wait for a person.
    pub open_flags: u64,
    /// Bytes of the store.
    pub store_bytes: u64,
    /// Bytes of its write-ahead log.
    pub log_bytes: u64,
    /// Whether the check went through the whole file, or only through the memory table.
    pub is_whole_file_checked: bool,
}

impl Health {
    /// A store of which nothing but this is known.
    #[must_use]
    pub fn unknown(status: HealthStatus, reason: &str) -> Self {
        Self { status, reasons: vec![excerpt(reason, REASON_CHARS)], counts: None }
    }

    /// Returns the line, without a line break: `OK | STM:377 | live:366 | …`, with reasons at its end.
    #[must_use]
    pub fn line(&self) -> String {
        let mut parts = vec![self.status.word().to_owned()];
        if let Some(counts) = &self.counts {
            parts.extend([
                format!("STM:{}", counts.figures.memories),
                format!("live:{}", counts.live),
                format!("embedded:{:.0}%", 100.0 * counts.figures.embedded_share()),
                format!("flags:{}", counts.open_flags),
                format!("size:{}", size(counts.store_bytes).replace(' ', "")),
                format!("wal:{}", size(counts.log_bytes).replace(' ', "")),
            ]);
        }
        if !self.reasons.is_empty() {
            parts.push(self.reasons.join("; "));
        }
        parts.join(" | ")
    }
}

/// Checks a store without its vectors: quick counts, a quick check, memfold's own tables. Writes
/// nothing and never fails: an unreadable store is critical, a locked one a warning.
#[must_use]
pub fn health(path: &Path, options: OpenOptions, request: &LoadRequest<'_>) -> Health {
    match BrainDb::open(path, options).and_then(|store| store.glance(request)) {
        Ok((facts, counts)) => judged(&facts, counts),
        Err(error @ StoreError::Locked { .. }) => {
            Health::unknown(HealthStatus::Warning, &error.to_string())
        }
        Err(error) => Health::unknown(HealthStatus::Critical, &error.to_string()),
    }
}

fn judged(facts: &Facts, counts: HealthCounts) -> Health {
    let findings = findings(facts, "");
    let bad = findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    let reasons = bad.clone().map(|finding| excerpt(&finding.what, REASON_CHARS)).collect();
    let status = match bad.map(|finding| finding.severity).max() {
        None => HealthStatus::Ok,
        Some(Severity::Critical) => HealthStatus::Critical,
        Some(_) => HealthStatus::Warning,
    };
    Health { status, reasons, counts: Some(counts) }
}

impl BrainDb {
    fn glance(&self, request: &LoadRequest<'_>) -> Result<(Facts, HealthCounts), StoreError> {
        self.traceless(|reader, connection| {
            let failed = |error| self.failed(&reader.version, "stm", &error);
            let is_whole_file_checked = length(self.path()) <= CHECKED_BYTES_MAX;
            let check = if is_whole_file_checked { CHECK_QUICKLY } else { CHECK_MEMORIES };
            let pass = Pass::over(self, reader, connection, request);
            let facts = pass.few_facts(check).map_err(failed)?;
            let memories = pass.memories(&mut Vec::new())?.memories;
            let live = memories.iter().filter(|memory| memory.status == Status::Live).count();
            let counts = HealthCounts {
                figures: read_figures(connection).map_err(failed)?,
                live: live as u64,
                open_flags: facts.own.as_ref().map_or(0, |own| own.open_flags),
                store_bytes: facts.files.store_bytes,
                log_bytes: facts.files.log_bytes,
                is_whole_file_checked,
            };
            Ok((facts, counts))
        })
    }
}

/// Complaints that are kept.
const COMPLAINTS_MAX: usize = 10;

/// Broken references that are counted.
const REFERENCES_MAX: usize = 100_000;

/// Checks everything, indexes against tables included.
const CHECK_ALL: &str = "integrity_check(10)";
/// Checks everything but indexes against tables.
const CHECK_QUICKLY: &str = "quick_check(1)";
/// Checks the memory table, but not its indexes.
const CHECK_MEMORIES: &str = "quick_check(stm)";

/// Returns the complaints of a check; damage that stops it is a complaint, too.
///
/// # Errors
/// When SQLite cannot check for a reason other than damage.
fn complaints_of(connection: &Connection, check: &str) -> rusqlite::Result<Vec<String>> {
    match all::<String, Vec<_>>(connection, &format!("PRAGMA {check}"), [], cell0) {
        // One answer can hold several complaints.
        Ok(answers) => {
            let lines = answers.iter().flat_map(|answer| answer.lines()).take(COMPLAINTS_MAX);
            Ok(lines.filter(|line| *line != "ok").map(str::to_owned).collect())
        }
        Err(error) if is_damage(&error) => Ok(vec![error.to_string()]),
        Err(error) => Err(error),
    }
}

/// A virtual table that SQLite cannot open here: its module or tokenizer belongs to another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnopenedTable {
    /// Its name.
    pub name: String,
    /// The SQLite error.
    pub reason: String,
}

/// Returns the virtual tables that cannot be opened.
fn unopened_tables(connection: &Connection) -> rusqlite::Result<Vec<UnopenedTable>> {
    let mut found = Vec::new();
    for name in table_list(connection, true)? {
        let table = quoted(&name);
        let opened = connection.prepare(&format!("SELECT 1 FROM {table} LIMIT 0")).map(drop);
        // A full-text table is opened without its tokenizer, which the first search loads.
        let searched = opened.and_then(|()| match is_full_text(connection, &name)? {
            true => {
                let sql = format!("SELECT rowid FROM {table} WHERE {table} MATCH 'a' LIMIT 1");
                exists(connection, &sql, []).map(drop)
            }
            false => Ok(()),
        });
        if let Err(error) = searched {
            if is_damage(&error) {
                return Err(error);
            }
            found.push(UnopenedTable { name, reason: error.to_string() });
        }
    }
    Ok(found)
}

fn is_full_text(connection: &Connection, name: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT lower(sql) LIKE '%using fts5%' FROM sqlite_master WHERE type = 'table' AND name = ?1";
    connection.query_row(sql, [name], |row| row.get(0))
}

/// Checks the ordinary tables one by one: SQLite's check of the whole file stops at a virtual table that it cannot open.
fn check_tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for name in table_list(connection, false)? {
        let check = format!("integrity_check({})", quoted(&name));
        complaints.extend(complaints_of(connection, &check)?);
    }
    complaints.truncate(COMPLAINTS_MAX);
    Ok(complaints)
}

fn table_list(connection: &Connection, is_virtual: bool) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table'
                 AND (lower(ltrim(sql)) LIKE 'create virtual table%') = ?1 ORDER BY name";
    all(connection, sql, [is_virtual], cell0)
}

/// Tells whether SQLite stopped because of damage in the file.
fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::SystemIoFailure)
    )
}

/// Counts rows that refer to a row that is not there, by (table, parent).
pub(crate) fn broken_references(
    connection: &Connection,
) -> rusqlite::Result<BTreeMap<(String, String), u64>> {
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let pairs = statement.query_map([], |row| Ok((row.get(0)?, row.get(2)?)))?;
    let mut counts = BTreeMap::new();
    for pair in pairs.take(REFERENCES_MAX) {
        *counts.entry(pair?).or_insert(0) += 1;
    }
    Ok(counts)
}

/// Compares the index with the memories. `live` holds the ids of the live ones; without it every memory counts.
fn examine_full_text(
    connection: &Connection,
    live: Option<&HashSet<&str>>,
) -> rusqlite::Result<FullText> {
    let kind = kind(connection)?;
    if matches!(kind, FullTextKind::Absent | FullTextKind::Opaque) {
        return Ok(FullText { kind, ..FullText::default() });
    }
    let (orphans, orphans_ahead) = orphans(connection)?;
    Ok(FullText { kind, missing: missing(connection, live)?, orphans, orphans_ahead })
}

fn kind(connection: &Connection) -> rusqlite::Result<FullTextKind> {
    let sql = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'stm_fts'";
    let ddl = first(connection, sql, [], cell0::<Option<String>>)?;
    let Some(ddl) = ddl.flatten().filter(|ddl| ddl.to_ascii_lowercase().contains("fts5")) else {
        return Ok(FullTextKind::Absent);
    };
    let tells = Columns::of(connection, "stm_fts_docsize")?.has("id");
    if !tells || !has_rowid(connection, "stm")? {
        return Ok(FullTextKind::Opaque);
    }
    Ok(match content_option(&ddl) {
        None => FullTextKind::Stored,
        Some(table) if table.is_empty() => FullTextKind::Contentless,
        Some(_) => FullTextKind::External,
    })
}

/// Returns the value of the option `content` of an FTS5 table, without its quotes.
fn content_option(ddl: &str) -> Option<String> {
    let inside = ddl.split_once('(')?.1.rsplit_once(')')?.0;
    inside.split(',').find_map(|argument| {
        let (key, value) = argument.split_once('=')?;
        let quotes = ['\'', '"', '`', '[', ']'];
        key.trim()
            .eq_ignore_ascii_case("content")
            .then(|| value.trim().trim_matches(quotes).trim().to_owned())
    })
}

fn missing(connection: &Connection, live: Option<&HashSet<&str>>) -> rusqlite::Result<Found> {
    let mut statement = connection.prepare(
        "SELECT id FROM stm WHERE typeof(id) = 'text' AND typeof(content) = 'text'
           AND NOT EXISTS (SELECT 1 FROM stm_fts_docsize AS entry WHERE entry.id = stm.rowid)
         ORDER BY rowid",
    )?;
    let mut rows = statement.query([])?;
    let mut missing = Found::default();
    while let Some(row) = rows.next()? {
        let Ok(id) = row.get_ref(0)?.as_str() else { continue };
        if live.is_none_or(|live| live.contains(id)) {
            missing.add(id);
        }
    }
    Ok(missing)
}

/// Counts entries without a row, and how many of these new rows will take over: SQLite numbers a
/// new row one above the highest.
fn orphans(connection: &Connection) -> rusqlite::Result<(u64, u64)> {
    connection.query_row(
        "SELECT count(*), count(CASE WHEN id > (SELECT ifnull(max(rowid), 0) FROM stm) THEN 1 END)
         FROM stm_fts_docsize AS entry
         WHERE NOT EXISTS (SELECT 1 FROM stm WHERE stm.rowid = entry.id)",
        [],
        |row| Ok((row.get::<_, i64>(0)?.unsigned_abs(), row.get::<_, i64>(1)?.unsigned_abs())),
    )
}

/// A run without a heartbeat for this long has died, in microseconds.
const SILENCE_MAX_US: i64 = 2 * 60 * 1_000_000;

/// Unfinished runs that are reported.
const UNFINISHED_MAX: u32 = 10;

/// Examines memfold's own tables; `None` where it never wrote to the store.
fn examine_own_tables(
    connection: &Connection,
    request: &LoadRequest<'_>,
) -> rusqlite::Result<Option<OwnTables>> {
    let present = present(connection)?;
    if present.is_empty() {
        return Ok(None);
    }
    let version = version(connection)?;
    let version_here = VERSION;
    // The tables of another version are not known here.
    let is_comparable = version.is_none_or(|version| version == version_here);
    let is_missing = |table: &&str| is_comparable && !present.iter().any(|name| name == table);
    Ok(Some(OwnTables {
        version,
        version_here,
        missing: table_names().filter(is_missing).map(str::to_owned).collect(),
        unfinished: unfinished(connection, request)?,
        open_flags: open_flags(connection)?,
        moved: 0,
        audit: audit(connection)?,
    }))
}

fn present(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'memfold\\_%' ESCAPE '\\'";
    all(connection, sql, [], cell0)
}

fn version(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    if !Columns::of(connection, "memfold_schema")?.has("version") {
        return Ok(None);
    }
    let sql = "SELECT version FROM memfold_schema LIMIT 1";
    first(connection, sql, [], cell0)
}

/// Returns the runs that have not ended, the latest first.
fn unfinished(
    connection: &Connection,
    request: &LoadRequest<'_>,
) -> rusqlite::Result<Vec<UnfinishedRun>> {
    let wanted = ["seq", "run_id", "kind", "plan_id", "target", "state", "heartbeat_at", "applied"];
    if !Columns::of(connection, "memfold_runs")?.has_all(&wanted) {
        return Ok(Vec::new());
    }
    // The run's own count is as old as its last sign of life.
    let applied = if Columns::of(connection, "memfold_units")?.has("run_id") {
        "(SELECT count(*) FROM memfold_units AS unit WHERE unit.run_id = run.run_id)"
    } else {
        "applied"
    };
    // An interrupted run that a later one of the same plan completed, or that was undone, is settled.
    let mut statement = connection.prepare(&format!(
        "SELECT run_id, kind, plan_id, target, state, heartbeat_at, {applied} FROM memfold_runs AS run
         WHERE state = 'running' OR (state = 'interrupted' AND NOT EXISTS (
             SELECT 1 FROM memfold_runs AS later WHERE later.seq > run.seq
               AND later.state IN ('done', 'partial')
               AND (later.plan_id = run.plan_id OR later.target = run.run_id
                    OR (later.kind = run.kind AND later.target = run.target))))
         ORDER BY seq DESC LIMIT {UNFINISHED_MAX}"
    ))?;
    let runs = statement.query_map([], |row| {
        let state: String = row.get(4)?;
        let heartbeat: Option<String> = row.get(5)?;
        Ok(UnfinishedRun {
            run_id: row.get(0)?,
            kind: row.get(1)?,
            plan_id: row.get(2)?,
            target: row.get(3)?,
            is_running: state == "running",
            is_alive: heartbeat.is_some_and(|at| is_recent(&at, request)),
            applied: row.get::<_, Option<i64>>(6)?.unwrap_or(0).unsigned_abs(),
        })
    })?;
    runs.collect()
}

fn is_recent(heartbeat: &str, request: &LoadRequest<'_>) -> bool {
    Instant::parse(heartbeat, request.time_zone)
        .is_some_and(|at| (request.now.0 - at.0).abs() <= SILENCE_MAX_US)
}

/// Counts the contradictory pairs that wait for a person.
fn open_flags(connection: &Connection) -> rusqlite::Result<u64> {
    if !Columns::of(connection, "memfold_flags")?.has_all(&["state", "active"]) {
        return Ok(0);
    }
    let sql = "SELECT count(*) FROM memfold_flags WHERE active = 1 AND state = 'open'";
    connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}

/// Checks the chain of runs, if the table has the columns of this version.
fn audit(connection: &Connection) -> rusqlite::Result<AuditChain> {
    let runs = Columns::of(connection, "memfold_runs")?;
    let schema = Columns::of(connection, "memfold_schema")?;
    if !runs.has_all(&["seq", "prev_hash", "holder", "finished_at"]) || !schema.has("store_uuid") {
        return Ok(AuditChain::Unchecked);
    }
    Ok(match verify_chain(connection) {
        Ok(None) => AuditChain::Whole,
        Ok(Some(broken)) => AuditChain::Broken { run_id: broken.run_id },
        // A column of another version, or a schema without its row.
        Err(rusqlite::Error::QueryReturnedNoRows | rusqlite::Error::InvalidColumnType(..)) => {
            AuditChain::Unchecked
        }
        Err(error) => return Err(error),
    })
}

/// Returns the ids of the memories that were moved out of the memory table.
pub(crate) fn moved(connection: &Connection) -> rusqlite::Result<HashSet<String>> {
    if !Columns::of(connection, "memfold_archive")?.has_all(&["memory_id", "table_name"]) {
        return Ok(HashSet::new());
    }
    let sql = "SELECT memory_id FROM memfold_archive WHERE table_name = 'stm'";
    all(connection, sql, [], cell0)
}

/// Returns the merged rows with a survivor that is neither a row of the store nor moved out of it.
pub(crate) fn survivor_gone(snapshot: &Snapshot, moved: &HashSet<String>) -> Found {
    let known: HashSet<&MemoryId> = snapshot.memories.iter().map(|memory| &memory.id).collect();
    let mut gone = Found::default();
    for memory in &snapshot.memories {
        if let Some(survivor) = &memory.merged_into
            && !known.contains(survivor)
            && !moved.contains(survivor.as_str())
        {
            gone.add(memory.id.as_str());
        }
    }
    gone
}

/// Counts merged and archived rows that every reader of the table sees.
pub(crate) fn visible_archived(snapshot: &Snapshot, moved: &HashSet<String>) -> u64 {
    let archived = snapshot.memories.iter().filter(|memory| is_archived(memory));
    archived.filter(|memory| !moved.contains(memory.id.as_str())).count() as u64
}

fn is_archived(memory: &Memory) -> bool {
    matches!(memory.status, Status::Merged | Status::Archived)
}

/// Returns the rows that memfold archived in their table and that are no longer as it left them.
pub(crate) fn archived_edited(
    connection: &Connection,
    snapshot: &Snapshot,
    moved: &HashSet<String>,
) -> rusqlite::Result<Found> {
    let (merged, left) = (merged(connection)?, digests(connection)?);
    let mut edited = Found::default();
    for memory in snapshot.memories.iter().filter(|memory| is_archived(memory)) {
        let id = memory.id.as_str();
        let is_marked = merged.contains(id) || memory.source.starts_with("archived:{");
        let is_ours = is_marked && !moved.contains(id);
        let changed = left.get(id).is_some_and(|then| *then != memory.base_digest.to_string());
        if is_ours && changed {
            edited.add(id);
        }
    }
    Ok(edited)
}

fn merged(connection: &Connection) -> rusqlite::Result<HashSet<String>> {
    if !Columns::of(connection, "memfold_lineage")?.has_all(&["absorbed_id", "active"]) {
        return Ok(HashSet::new());
    }
    let sql = "SELECT absorbed_id FROM memfold_lineage WHERE active = 1";
    all(connection, sql, [], cell0)
}

/// Returns the digest of every row as the last unit that touched it left it; none where it left no row.
fn digests(connection: &Connection) -> rusqlite::Result<HashMap<String, String>> {
    let mut digests = HashMap::new();
    if !Columns::of(connection, "memfold_units")?.has("digests") {
        return Ok(digests);
    }
    let mut statement = connection.prepare("SELECT digests FROM memfold_units ORDER BY rowid")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let Ok(text) = row.get_ref(0)?.as_str() else { continue };
        let Ok(left) = unpacked_digests(text) else { continue };
        for (id, digest) in left {
            match digest.is_empty() {
                true => digests.remove(id.as_str()),
                false => digests.insert(id.to_string(), digest),
            };
        }
    }
    Ok(digests)
}

/// Examines the files of the store at `path`, which `connection` reads.
fn examine_files(
    connection: &Connection,
    path: &Path,
    version: &StoreVersion,
) -> rusqlite::Result<Files> {
    let count =
        |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let lock = lock_path(path);
    let lock_name = lock.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(Files {
        store_bytes: length(path),
        log_bytes: length(&beside(path, "-wal")),
        in_wal_mode: version.in_wal_mode(),
        pages: count("page_count")?.unsigned_abs(),
        free_pages: count("freelist_count")?.unsigned_abs(),
        free_bytes: free_bytes(path),
        lock_file: lock_name.filter(|_| lock.exists()),
    })
}

/// Tells whether a run holds the store's lock; `None` where the system does not tell.
///
/// Takes a share of the lock and releases it at once: only for stores with a run that claims to be
/// under way.
fn is_locked(store: &Path) -> Option<bool> {
    let file = fs::File::open(lock_path(store)).ok()?;
    match file.try_lock_shared() {
        Ok(()) => Some(false),
        Err(TryLockError::WouldBlock) => Some(true),
        Err(TryLockError::Error(_)) => None,
    }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |metadata| metadata.len())
}

fn read_figures(connection: &Connection) -> rusqlite::Result<StoreFigures> {
    let embeddings = Columns::of(connection, "embeddings")?;
    let embedded = if embeddings.has_all(&["source_type", "source_id"]) {
        "(SELECT count(*) FROM stm WHERE EXISTS (SELECT 1 FROM embeddings AS e
              WHERE e.source_type = 'stm' AND e.source_id = stm.id))"
    } else {
        "0"
    };
    let sql = format!(
        "SELECT count(*), count(CASE WHEN source LIKE 'consolidation%' THEN 1 END), {embedded}
             FROM stm"
    );
    connection.query_row(&sql, [], |row| {
        let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
        Ok(StoreFigures { memories: count(0)?, consolidated: count(1)?, embedded: count(2)? })
    })
}

impl BrainDb {
    /// Counts, without leaving a trace.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn figures(&self) -> Result<StoreFigures, StoreError> {
        self.traceless(|reader, connection| {
            read_figures(connection).map_err(|error| self.failed(&reader.version, "stm", &error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_option_is_read_as_sqlite_does() {
        let option = |inside: &str| {
            content_option(&format!("CREATE VIRTUAL TABLE stm_fts USING fts5({inside})"))
        };
        assert_eq!(option("content, content='', content_rowid=''").as_deref(), Some(""));
        assert_eq!(
            option("content, content = \"stm\" , content_rowid=rowid").as_deref(),
            Some("stm")
        );
        assert_eq!(option("content, content=stm").as_deref(), Some("stm"));
        assert_eq!(option("content, tokenize='porter'"), None);
    }
}
