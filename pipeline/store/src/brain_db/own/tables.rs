//! The tables, as migrations that are only ever appended to.
//!
//! Nothing here is newer than SQLite 3.24, and nothing hangs on the owner's tables: an older reader would
//! be locked out of the whole file.

use rusqlite::{Connection, params};

use crate::brain_db::own::archive::index_all_merged;
use crate::brain_db::read::access::{cell0, cells2, first};
use crate::brain_db::read::load::derived_store_id;
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::session::{Session, Writes};
use crate::error::StoreError;

/// Version of the tables: how many migrations have run.
pub(crate) const VERSION: i64 = MIGRATIONS.len() as i64;

/// The version since which the words of merged memories are kept.
const MERGED_SINCE: i64 = 11;

/// The migrations from each version to the next. Never change a published one.
pub(crate) const MIGRATIONS: &[&str] = &[
    FIRST, SECOND, ASSERTED, REVIVED, JUDGED, WRITTEN, TIERED, MIRRORED, SERVED, REMEMBERED,
    SHAPED, FORMED,
];

/// * `schema`: one row.
/// * `plans`, `actions`: plans written back, and the state of each action (`proposed`, `approved`,
///   `rejected`, `applied`, `stale`, `undone`). `position` counts from 0; people see `a1`, `a2`, …
/// * `runs`: each run and how it ended; `prev_hash` chains each to the one that ended before.
/// * `units`: the work of one transaction; `digests` holds the base digests of its rows afterwards.
/// * `journal`: changed columns before and after.
/// * `lineage`: which memory was merged into which.
/// * `decisions`: `keep_both` (rows of one group stay apart while their texts stay), `declined` (an
///   action that a person undid), `undone` (all that a run did to this memory was undone),
///   `promoted` (and at which access count).
/// * `flags`: contradictory pairs for people to review; `state` is `open` or `closed`.
/// * `archive`: rows that were moved out of the owner's tables.
///
/// `active` is 0 for rows that an undo withdrew.
const FIRST: &str = "
CREATE TABLE memfold_schema (
    version INTEGER NOT NULL,
    store_uuid TEXT NOT NULL,
    created_at TEXT NOT NULL,
    engine_version TEXT NOT NULL);
CREATE TABLE memfold_plans (
    plan_id TEXT PRIMARY KEY NOT NULL,
    plan_digest TEXT NOT NULL,
    store_id TEXT NOT NULL,
    schema_version INTEGER NOT NULL,
    config_hash TEXT NOT NULL,
    overrides TEXT NOT NULL,
    engine_version TEXT NOT NULL,
    now TEXT NOT NULL,
    saved_at TEXT NOT NULL);
CREATE TABLE memfold_actions (
    plan_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    type TEXT NOT NULL,
    risk TEXT NOT NULL,
    rule_id TEXT NOT NULL,
    state TEXT NOT NULL,
    body TEXT NOT NULL,
    amended TEXT,
    base_digests TEXT NOT NULL,
    access_count INTEGER,
    run_id TEXT,
    unit INTEGER,
    note TEXT,
    PRIMARY KEY (plan_id, position));
CREATE TABLE memfold_runs (
    seq INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    plan_id TEXT,
    target TEXT,
    state TEXT NOT NULL,
    holder TEXT NOT NULL,
    started_at TEXT NOT NULL,
    heartbeat_at TEXT NOT NULL,
    finished_at TEXT,
    applied INTEGER NOT NULL DEFAULT 0,
    stale INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    engine_version TEXT NOT NULL,
    prev_hash TEXT NOT NULL);
CREATE TABLE memfold_units (
    run_id TEXT NOT NULL,
    unit INTEGER NOT NULL,
    state TEXT NOT NULL,
    undone_by TEXT,
    plan_id TEXT,
    actions TEXT,
    reverts_run TEXT,
    reverts_unit INTEGER,
    digests TEXT NOT NULL,
    at TEXT NOT NULL,
    PRIMARY KEY (run_id, unit));
CREATE TABLE memfold_journal (
    seq INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    unit INTEGER NOT NULL,
    op TEXT NOT NULL,
    table_name TEXT NOT NULL,
    row_key TEXT NOT NULL,
    row_rowid INTEGER,
    before TEXT,
    after TEXT,
    deltas TEXT,
    survivor TEXT);
CREATE INDEX memfold_journal_unit ON memfold_journal(run_id, unit);
CREATE INDEX memfold_journal_row ON memfold_journal(row_key);
CREATE TABLE memfold_lineage (
    id INTEGER PRIMARY KEY,
    absorbed_id TEXT NOT NULL,
    survivor_id TEXT NOT NULL,
    similarity REAL,
    rule_id TEXT,
    reasons TEXT,
    run_id TEXT NOT NULL,
    unit INTEGER NOT NULL,
    at TEXT NOT NULL,
    active INTEGER NOT NULL);
CREATE INDEX memfold_lineage_absorbed ON memfold_lineage(absorbed_id);
CREATE INDEX memfold_lineage_survivor ON memfold_lineage(survivor_id);
CREATE TABLE memfold_decisions (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    group_id TEXT,
    memory_id TEXT NOT NULL,
    content_hash TEXT,
    action TEXT,
    access_count INTEGER,
    run_id TEXT NOT NULL,
    unit INTEGER NOT NULL,
    at TEXT NOT NULL,
    active INTEGER NOT NULL);
CREATE INDEX memfold_decisions_memory ON memfold_decisions(memory_id);
CREATE TABLE memfold_flags (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    left_id TEXT NOT NULL,
    right_id TEXT NOT NULL,
    left_hash TEXT NOT NULL,
    right_hash TEXT NOT NULL,
    similarity REAL,
    score REAL,
    signals TEXT,
    differences TEXT,
    memory_id TEXT,
    state TEXT NOT NULL,
    run_id TEXT NOT NULL,
    unit INTEGER NOT NULL,
    at TEXT NOT NULL,
    active INTEGER NOT NULL);
CREATE INDEX memfold_flags_key ON memfold_flags(key);
CREATE TABLE memfold_archive (
    id INTEGER PRIMARY KEY,
    memory_id TEXT NOT NULL,
    table_name TEXT NOT NULL,
    row_rowid INTEGER,
    row TEXT NOT NULL,
    indexed INTEGER NOT NULL,
    survivor_id TEXT,
    run_id TEXT NOT NULL,
    at TEXT NOT NULL);
CREATE INDEX memfold_archive_memory ON memfold_archive(memory_id);
";

/// * `runs.chained`: the place in the audit chain, taken when a run ends, so that saves may come and go while another
///   run is under way.
/// * `flags.kind`: `contradiction`, or `near` for a pair that a save found alike and did not merge.
///   Flags of the first version are contradictions.
const SECOND: &str = "
ALTER TABLE memfold_runs ADD COLUMN chained INTEGER;
UPDATE memfold_runs SET chained = seq WHERE state <> 'running';
ALTER TABLE memfold_flags ADD COLUMN kind TEXT;
CREATE INDEX memfold_flags_left ON memfold_flags(left_id);
CREATE INDEX memfold_flags_right ON memfold_flags(right_id);
";

/// * `flags.asserted_id`: the side that was saved again after the other one was, and `asserted_at`
///   its time; the pair's order then differs from its rows'. NULL where their times show which one
///   is newer.
const ASSERTED: &str = "
ALTER TABLE memfold_flags ADD COLUMN asserted_id TEXT;
ALTER TABLE memfold_flags ADD COLUMN asserted_at TEXT;
";

/// * `revived`: memories that live again, in the order of the records. A lookup reads the rows
///   after the mark of its index: revived rows stand among others that the index has seen.
const REVIVED: &str = "
CREATE TABLE memfold_revived (
    seq INTEGER PRIMARY KEY,
    memory_id TEXT NOT NULL,
    at TEXT NOT NULL);
";

/// * `judgements`: opinions of models on proposals, by question; `memories` is a JSON array of ids.
const JUDGED: &str = "
CREATE TABLE memfold_judgements (
    key TEXT PRIMARY KEY NOT NULL,
    judge TEXT NOT NULL,
    memories TEXT NOT NULL,
    opinions TEXT NOT NULL,
    requests INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost REAL NOT NULL,
    latency_ms INTEGER NOT NULL,
    at TEXT NOT NULL);
";

/// * `edges`: relations of memories: `supersedes`, `consolidates`, `references`; each in force once.
/// * `summaries`: for a memory that summarises others, their ids (a JSON array), and its fields
///   beside the text.
const WRITTEN: &str = "
CREATE TABLE memfold_edges (
    id INTEGER PRIMARY KEY,
    source_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    type TEXT NOT NULL,
    weight REAL NOT NULL,
    reason TEXT,
    confidence TEXT,
    run_id TEXT NOT NULL,
    unit INTEGER NOT NULL,
    at TEXT NOT NULL,
    active INTEGER NOT NULL);
CREATE UNIQUE INDEX memfold_edges_once ON memfold_edges(source_id, target_id, type) WHERE active = 1;
CREATE INDEX memfold_edges_target ON memfold_edges(target_id);
CREATE TABLE memfold_summaries (
    id INTEGER PRIMARY KEY,
    memory_id TEXT NOT NULL,
    sources TEXT NOT NULL,
    body TEXT NOT NULL,
    run_id TEXT NOT NULL,
    unit INTEGER NOT NULL,
    at TEXT NOT NULL,
    active INTEGER NOT NULL);
CREATE INDEX memfold_summaries_memory ON memfold_summaries(memory_id);
";

/// * `tiers`: the tier that a memory was last assigned, with the reasons. Derived, so not
///   journaled.
const TIERED: &str = "
CREATE TABLE memfold_tiers (
    memory_id TEXT PRIMARY KEY NOT NULL,
    tier TEXT NOT NULL,
    retention REAL NOT NULL,
    reasons TEXT,
    at TEXT NOT NULL);
";

/// * `mirror`: in a store that mirrors an origin, one row: which origin, and a publication that is under way (JSON).
/// * `origins`: the records of that origin: as they are there (`mark`, `digest`), as others left them (`record`), and the
///   state of their memories after the pull and as the origin has it. `ours` is 1 for records that memfold wrote.
const MIRRORED: &str = "
CREATE TABLE memfold_mirror (
    kind TEXT NOT NULL,
    place TEXT NOT NULL,
    publishing TEXT);
CREATE TABLE memfold_origins (
    id TEXT PRIMARY KEY NOT NULL,
    mark TEXT NOT NULL,
    digest TEXT NOT NULL,
    record TEXT NOT NULL,
    pulled TEXT NOT NULL,
    published TEXT NOT NULL,
    ours INTEGER NOT NULL,
    at TEXT NOT NULL);
";

/// * `requests`: saves that a client named, so that a repeated one is not done twice: a hash of the
///   request, the answer (JSON), and the ids that it names (a JSON array).
/// * `schedule`: one row for each kind of scheduled work: its settings (JSON), the last time that
///   was taken, and who works on it until when.
const SERVED: &str = "
CREATE TABLE memfold_requests (
    key TEXT PRIMARY KEY NOT NULL,
    digest TEXT NOT NULL,
    memories TEXT NOT NULL,
    answer TEXT NOT NULL,
    at TEXT NOT NULL);
CREATE INDEX memfold_requests_at ON memfold_requests(at);
CREATE TABLE memfold_schedule (
    name TEXT PRIMARY KEY NOT NULL,
    settings TEXT,
    slot TEXT,
    holder TEXT,
    leased_until TEXT,
    outcome TEXT);
";

/// * `tiers.earlier`: the tiers before, oldest first, each with its time (a JSON array of `[tier, at]`).
const REMEMBERED: &str = "ALTER TABLE memfold_tiers ADD COLUMN earlier TEXT;";

/// * `archive.shape`: the names of a row's columns. Their values stand in columns `c0`, `c1`, …
///   that have no type and are added when a row needs them. Rows of earlier versions have none and
///   are JSON in `row`.
/// * `shapes`: JSON arrays of column names.
/// * `merged`: the words of merged memories that their survivor lacks, by the `id` of their lineage. They count while that
///   row of lineage is active.
const SHAPED: &str = "
ALTER TABLE memfold_archive ADD COLUMN shape INTEGER;
CREATE TABLE memfold_shapes (
    id INTEGER PRIMARY KEY,
    columns TEXT NOT NULL UNIQUE);
CREATE VIRTUAL TABLE memfold_merged USING fts5(content, tokenize = 'porter unicode61');
";

/// * `forms`: the common part of many merges of a plan, as JSON with `null` where they differ. The
///   `body` of an action with a form is an array: the form's `id`, and the value for each `null`,
///   in order.
/// * `actions.base_digests`, `units.digests`: digests are base64 from this version on, before hexadecimal digits.
/// * `journal.row_rowid` of a memory that left: the lineage that was recorded with it, which has no entry of its own.
const FORMED: &str = "
CREATE TABLE memfold_forms (
    id INTEGER PRIMARY KEY,
    form TEXT NOT NULL UNIQUE);
";

/// Returns the names of the tables.
pub(crate) fn table_names() -> impl Iterator<Item = &'static str> {
    let tables = MIGRATIONS.iter().flat_map(|sql| sql.split("CREATE TABLE ").skip(1));
    tables.filter_map(|rest| rest.split([' ', '(']).next())
}

/// Brings the tables to this version, inside a write transaction of the caller. `store_id` names a
/// store that holds no name yet. Returns the version of tables that a later program made, which stay as they are.
pub(crate) fn migrate(
    connection: &Connection,
    store_id: impl FnOnce() -> rusqlite::Result<String>,
    at: &str,
) -> rusqlite::Result<Option<i64>> {
    let found = recorded_version(connection)?;
    let version = found.as_ref().map_or(0, |(version, _)| *version);
    if version > VERSION {
        return Ok(Some(version));
    }
    for sql in MIGRATIONS.iter().skip(version.max(0) as usize) {
        connection.execute_batch(sql)?;
    }
    if found.is_none() {
        let store_id = store_id()?;
        connection.execute(
            "INSERT INTO memfold_schema(version, store_uuid, created_at, engine_version)
             VALUES (?1, ?2, ?3, ?4)",
            params![VERSION, store_id, at, env!("CARGO_PKG_VERSION")],
        )?;
    } else if version < VERSION {
        connection.execute("UPDATE memfold_schema SET version = ?1", [VERSION])?;
    }
    Ok(None)
}

/// Tells whether memfold ever wrote to the store.
pub(crate) fn own_tables_exist(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'memfold_schema'",
        [],
        cell0,
    )
}

impl Writes<'_> {
    /// Makes or renews memfold's tables where needed.
    ///
    /// # Errors
    /// When they are of a later version, or cannot be written.
    pub fn prepare(&self, at: &str) -> Result<(), StoreError> {
        let (before, found) = self.query("make memfold's tables", |connection| {
            let before = recorded_version(connection)?;
            let found = migrate(connection, || derived_store_id(connection).map(Into::into), at)?;
            Ok((before, found))
        })?;
        if let Some(found) = found {
            let path = self.path().to_owned();
            return Err(StoreError::NewerTables { path, found, known: VERSION });
        }
        if before.is_some_and(|(version, _)| version < MERGED_SINCE) {
            index_all_merged(self)?;
        }
        Ok(())
    }

    /// Tells whether memfold ever wrote to the store.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn has_own_tables(&self) -> Result<bool, StoreError> {
        self.query("look for memfold's tables", own_tables_exist)
    }
}

/// The tables' version and the store's name; `None` where there are no tables yet.
pub(crate) fn recorded_version(connection: &Connection) -> rusqlite::Result<Option<(i64, String)>> {
    if !own_tables_exist(connection)? {
        return Ok(None);
    }
    first(connection, "SELECT version, store_uuid FROM memfold_schema LIMIT 1", [], cells2)
}

fn store_id(reads: &Writes<'_>) -> Result<String, StoreError> {
    reads.query("read the store's name", |connection| match recorded_version(connection)? {
        Some((_, store_id)) => Ok(store_id),
        None => derived_store_id(connection).map(Into::into),
    })
}

impl BrainDb {
    /// Returns the store's name: the recorded one, or the one a reader derives, which reads the creation time and
    /// the id of each row.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn store_id(&self) -> Result<String, StoreError> {
        self.look_on(store_id)
    }
}

impl Session {
    /// Returns the store's name: the recorded one, or the one a reader derives.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn store_id(&self) -> Result<String, StoreError> {
        self.read(store_id)
    }
}

/// Makes a database with our tables alone.
#[cfg(test)]
pub(crate) fn own_tables_in_memory() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    migrate(&connection, || Ok("store_1".to_owned()), "t").unwrap();
    connection
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> rusqlite::Result<String> {
        Ok("store_1".to_owned())
    }

    #[test]
    fn tables_are_made_once() {
        let connection = Connection::open_in_memory().unwrap();
        assert_eq!(recorded_version(&connection).unwrap(), None);
        migrate(&connection, fresh, "t").unwrap();
        migrate(&connection, || unreachable!(), "t").unwrap();
        let found = recorded_version(&connection).unwrap();
        assert_eq!(found, Some((VERSION, "store_1".to_owned())));
    }

    #[test]
    fn tables_of_a_later_version_are_left_alone() {
        let connection = own_tables_in_memory();
        connection.execute("UPDATE memfold_schema SET version = 99", []).unwrap();
        assert_eq!(migrate(&connection, fresh, "t").unwrap(), Some(99));
    }

    #[test]
    fn nothing_newer_than_sqlite_3_24_is_used() {
        let sql = MIGRATIONS.concat().to_uppercase();
        for word in ["STRICT", "GENERATED", "TRIGGER", "VIEW", "RETURNING", "WITHOUT ROWID"] {
            assert!(!sql.contains(word), "{word}");
        }
    }
}
