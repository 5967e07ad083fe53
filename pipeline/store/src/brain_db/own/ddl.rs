//! The tables, as migrations that are only ever appended to.
//!
//! Nothing here is newer than SQLite 3.24, and nothing hangs on the owner's tables: an older reader would
//! be locked out of the whole file.

/// Version of the tables: how many migrations have run.
pub(crate) const VERSION: i64 = MIGRATIONS.len() as i64;

/// What leads from each version to the next. Never change one that was published.
pub(super) const MIGRATIONS: &[&str] = &[FIRST, SECOND, ASSERTED, REVIVED];

/// * `schema`: one row.
/// * `plans`, `actions`: plans written back, and what became of each action (`proposed`, `approved`,
///   `rejected`, `applied`, `stale`, `undone`). `position` counts from 0; people see `a1`, `a2`, …
/// * `runs`: what was started and how it ended; `prev_hash` chains each to the one that ended before.
/// * `units`: what was done in one transaction; `digests` holds the base digests of its rows afterwards.
/// * `journal`: changed columns before and after.
/// * `lineage`: who was folded into whom.
/// * `decisions`: `keep_both` (rows of one group stay apart while their texts stay), `declined` (an action
///   that a person took back), `taken_back` (whatever a run did to this memory was undone), `promoted` (and at
///   which access count).
/// * `flags`: contradictory pairs for people to look at; `state` is `open` or `closed`.
/// * `archive`: rows that were moved out of the owner's tables, as JSON of their cells.
///
/// `active` is 0 for what an undo withdrew.
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
/// * `flags.kind`: `contradiction`, or `near` for a pair that a save found alike and did not fold. Flags of the first
///   version are contradictions.
const SECOND: &str = "
ALTER TABLE memfold_runs ADD COLUMN chained INTEGER;
UPDATE memfold_runs SET chained = seq WHERE state <> 'running';
ALTER TABLE memfold_flags ADD COLUMN kind TEXT;
CREATE INDEX memfold_flags_left ON memfold_flags(left_id);
CREATE INDEX memfold_flags_right ON memfold_flags(right_id);
";

/// * `flags.asserted_id`: the side that was said again after the other one was, and `asserted_at` when; the pair's order is
///   then not that of its rows. NULL where their times tell which one is newer.
const ASSERTED: &str = "
ALTER TABLE memfold_flags ADD COLUMN asserted_id TEXT;
ALTER TABLE memfold_flags ADD COLUMN asserted_at TEXT;
";

/// * `revived`: memories that live again, in the order in which that was written. A lookup reads those behind the mark of its
///   index: such rows stand among others that the index has seen.
const REVIVED: &str = "
CREATE TABLE memfold_revived (
    seq INTEGER PRIMARY KEY,
    memory_id TEXT NOT NULL,
    at TEXT NOT NULL);
";

/// Returns the names of the tables.
pub(in crate::brain_db) fn table_names() -> impl Iterator<Item = &'static str> {
    let tables = MIGRATIONS.iter().flat_map(|sql| sql.split("CREATE TABLE ").skip(1));
    tables.filter_map(|rest| rest.split([' ', '(']).next())
}
