//! SQLite's own checks.

use crate::brain_db::read::open::free_bytes;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::fs::TryLockError;
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OptionalExtension as _};

use crate::brain_db::doctor::facts::{
    AuditChain, Files, Found, FullText, FullTextKind, OwnTables, UnfinishedRun,
};
use crate::brain_db::own::runs::verify_chain;
use crate::brain_db::own::tables::{VERSION, table_names};
use crate::brain_db::own::units::unpacked_digests;
use crate::brain_db::read::access::{Columns, Stamp, beside, has_rowid};
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::beside::lock_path;
use crate::memory_store::{LoadRequest, LoadStoreError};
use memfold_core::Snapshot;
use memfold_core::memory::{Memory, MemoryId, Status};
use memfold_core::report::StoreFigures;
use memfold_core::time::Instant;

/// Complaints that are kept.
const COMPLAINTS_MAX: u32 = 10;

/// Broken references that are counted.
const REFERENCES_MAX: usize = 100_000;

/// A check and its scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// Everything, indexes against tables included.
    Integrity,
    /// Everything but indexes against tables.
    Quick,
    /// The memory table, but not its indexes.
    QuickMemories,
}

impl Check {
    /// Returns the complaints of the check; damage that stops it is a complaint, too.
    ///
    /// # Errors
    /// When SQLite cannot check for a reason other than damage.
    pub(crate) fn run(self, connection: &Connection) -> rusqlite::Result<Vec<String>> {
        let complaints = match self {
            Self::Integrity => {
                lines(connection, &format!("PRAGMA integrity_check({COMPLAINTS_MAX})"))
            }
            Self::Quick => lines(connection, "PRAGMA quick_check(1)"),
            Self::QuickMemories => lines(connection, "PRAGMA quick_check(stm)"),
        };
        match complaints {
            Ok(lines) => Ok(lines.into_iter().filter(|line| line != "ok").collect()),
            Err(error) if is_damage(&error) => Ok(vec![error.to_string()]),
            Err(error) => Err(error),
        }
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
pub(crate) fn unopened_tables(connection: &Connection) -> rusqlite::Result<Vec<UnopenedTable>> {
    let mut found = Vec::new();
    for name in table_list(connection, true)? {
        let table = quoted(&name);
        let opened = connection.prepare(&format!("SELECT 1 FROM {table} LIMIT 0")).map(drop);
        // A full-text table is opened without its tokenizer, which the first search loads.
        let searched = opened.and_then(|()| match is_full_text(connection, &name)? {
            true => {
                let sql = format!("SELECT rowid FROM {table} WHERE {table} MATCH 'a' LIMIT 1");
                connection.query_row(&sql, [], |_| Ok(())).optional().map(drop)
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
pub(crate) fn check_tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for name in table_list(connection, false)? {
        let pragma = format!("PRAGMA integrity_check({})", quoted(&name));
        match lines(connection, &pragma) {
            Ok(lines) => complaints.extend(lines.into_iter().filter(|line| line != "ok")),
            Err(error) if is_damage(&error) => complaints.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    complaints.truncate(COMPLAINTS_MAX as usize);
    Ok(complaints)
}

fn table_list(connection: &Connection, is_virtual: bool) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(
        "SELECT name FROM sqlite_master WHERE type = 'table'
           AND (lower(ltrim(sql)) LIKE 'create virtual table%') = ?1 ORDER BY name",
    )?;
    let names = statement.query_map([is_virtual], |row| row.get(0))?;
    names.collect()
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Tells whether SQLite stopped because of damage in the file.
pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::SystemIoFailure)
    )
}

fn lines(connection: &Connection, pragma: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(pragma)?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    // One answer can hold several complaints.
    let mut complaints = Vec::new();
    for line in lines {
        complaints.extend(line?.lines().map(str::to_owned));
    }
    complaints.truncate(COMPLAINTS_MAX as usize);
    Ok(complaints)
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
pub(crate) fn examine_full_text(
    connection: &Connection,
    live: Option<&HashSet<&str>>,
) -> rusqlite::Result<FullText> {
    let kind = kind(connection)?;
    if matches!(kind, FullTextKind::Absent | FullTextKind::Opaque) {
        return Ok(FullText { kind, ..FullText::default() });
    }
    // SQLite loads the tokenizer when the table is first used.
    if let Err(error) = connection.prepare("SELECT rowid FROM stm_fts LIMIT 0") {
        let (kind, refusal) = (FullTextKind::Unusable, Some(error.to_string()));
        return Ok(FullText { kind, refusal, ..FullText::default() });
    }
    let (orphans, orphans_ahead) = orphans(connection)?;
    let missing = missing(connection, live)?;
    Ok(FullText { kind, missing, orphans, orphans_ahead, ..FullText::default() })
}

fn kind(connection: &Connection) -> rusqlite::Result<FullTextKind> {
    let sql = "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'stm_fts'";
    let ddl = connection.query_row(sql, [], |row| row.get::<_, Option<String>>(0)).optional()?;
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
pub(crate) fn examine_own_tables(
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
    let mut statement = connection.prepare(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'memfold\\_%' ESCAPE '\\'",
    )?;
    statement.query_map([], |row| row.get(0))?.collect()
}

fn version(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    if !Columns::of(connection, "memfold_schema")?.has("version") {
        return Ok(None);
    }
    let sql = "SELECT version FROM memfold_schema LIMIT 1";
    connection.query_row(sql, [], |row| row.get(0)).optional()
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
    connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
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
    let (absorbed, left) = (absorbed(connection)?, digests(connection)?);
    let mut edited = Found::default();
    for memory in snapshot.memories.iter().filter(|memory| is_archived(memory)) {
        let id = memory.id.as_str();
        let is_marked = absorbed.contains(id) || memory.source.starts_with("archived:{");
        let is_ours = is_marked && !moved.contains(id);
        let changed = left.get(id).is_some_and(|then| *then != memory.base_digest.to_string());
        if is_ours && changed {
            edited.add(id);
        }
    }
    Ok(edited)
}

fn absorbed(connection: &Connection) -> rusqlite::Result<HashSet<String>> {
    if !Columns::of(connection, "memfold_lineage")?.has_all(&["absorbed_id", "active"]) {
        return Ok(HashSet::new());
    }
    let sql = "SELECT absorbed_id FROM memfold_lineage WHERE active = 1";
    connection.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
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
pub(crate) fn examine_files(
    connection: &Connection,
    path: &Path,
    stamp: &Stamp,
) -> rusqlite::Result<Files> {
    let count =
        |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let lock = lock_path(path);
    let lock_name = lock.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(Files {
        store_bytes: length(path),
        log_bytes: length(&beside(path, "-wal")),
        in_wal_mode: stamp.in_wal_mode(),
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
pub(crate) fn is_locked(store: &Path) -> Option<bool> {
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

pub(crate) fn read_figures(connection: &Connection) -> rusqlite::Result<StoreFigures> {
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
    pub fn figures(&self) -> Result<StoreFigures, LoadStoreError> {
        self.traceless(|reader, connection| {
            read_figures(connection).map_err(|error| self.failed(&reader.stamp, "stm", &error))
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::brain_db::doctor::examine::content_option;

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
