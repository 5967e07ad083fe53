//! memfold's own tables, read with nothing taken for granted: they may be of another version, or half gone.

use rusqlite::{Connection, OptionalExtension as _};

use super::facts::{AuditChain, OwnTables, UnfinishedRun};
use crate::LoadRequest;
use crate::brain_db::columns::Columns;
use crate::brain_db::own;
use memfold_model::time::Instant;

/// A run that gave no sign of life for so long has died, in microseconds.
const SILENCE_MAX_US: i64 = 2 * 60 * 1_000_000;

/// Unfinished runs that are told of.
const UNFINISHED_MAX: u32 = 10;

/// Reads what memfold left in a store; `None` where it never wrote to it.
pub(super) fn examine(
    connection: &Connection,
    request: &LoadRequest<'_>,
) -> rusqlite::Result<Option<OwnTables>> {
    let present = present(connection)?;
    if present.is_empty() {
        return Ok(None);
    }
    let version = version(connection)?;
    let version_here = own::VERSION;
    // What another version has is not known here.
    let is_comparable = version.is_none_or(|version| version == version_here);
    let is_missing = |table: &&str| is_comparable && !present.iter().any(|name| name == table);
    Ok(Some(OwnTables {
        version,
        version_here,
        missing: own::table_names().filter(is_missing).map(str::to_owned).collect(),
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

/// Checks the chain of runs, where its columns are those of this version.
fn audit(connection: &Connection) -> rusqlite::Result<AuditChain> {
    let runs = Columns::of(connection, "memfold_runs")?;
    let schema = Columns::of(connection, "memfold_schema")?;
    if !runs.has_all(&["seq", "prev_hash", "holder", "finished_at"]) || !schema.has("store_uuid") {
        return Ok(AuditChain::Unchecked);
    }
    Ok(match own::runs::verify_chain(connection) {
        Ok(None) => AuditChain::Whole,
        Ok(Some(broken)) => AuditChain::Broken { run_id: broken.run_id },
        // A column of another version, or a schema without its row.
        Err(rusqlite::Error::QueryReturnedNoRows | rusqlite::Error::InvalidColumnType(..)) => {
            AuditChain::Unchecked
        }
        Err(error) => return Err(error),
    })
}
