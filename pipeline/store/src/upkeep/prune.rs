//! [`prune`]: old entries of the journal go.

use jiff::tz::TimeZone;
use rusqlite::{Connection, params};
use serde::Serialize;

use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::session::{Session, SessionError, Writes};
use crate::upkeep::run::UpkeepRun;
use memfold_core::runs::RunKind;
use memfold_core::time::Instant;

/// Units removed in one transaction, so that others need not wait.
const UNITS_AT_ONCE: u32 = 100;

/// A run whose units go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Pruning {
    /// The run.
    pub run_id: String,
    /// Units that go.
    pub units: u64,
    /// Those of them in force: they can no longer be undone.
    pub no_longer_undoable: u64,
    /// Entries of the journal that go.
    pub entries: u64,
}

/// What goes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, schemars::JsonSchema)]
pub struct Pruned {
    /// Runs, the first one first.
    pub runs: Vec<Pruning>,
    /// Plans that were never applied.
    pub plans: Vec<String>,
}

impl Pruned {
    /// Tells whether nothing is old enough.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.plans.is_empty()
    }
}

/// Returns the entries older than `before`, without writing. Entries without a readable time are
/// kept.
///
/// # Errors
/// When the store cannot be read.
pub fn preview_prune(
    store: &BrainDb,
    before: Instant,
    time_zone: &TimeZone,
) -> Result<Pruned, SessionError> {
    store.look_on(|reads| old(reads, before, time_zone))
}

/// Removes units that are older than `before` with their journal, and equally old plans without
/// applied actions. This cannot be undone, nor can the removed units.
///
/// # Errors
/// When the store cannot be written; every unit is then there with all of its journal, or gone with it.
pub fn prune(
    session: &Session,
    before: Instant,
    run: &UpkeepRun<'_>,
) -> Result<(String, Pruned), SessionError> {
    run.carry_out(session, RunKind::Prune, None, |_| {
        let pruned = session.read(|reads| old(reads, before, run.time_zone))?;
        let mut units = 0;
        for run in &pruned.runs {
            units += drop_run(session, &run.run_id)?;
        }
        for plan in &pruned.plans {
            session.write::<_, SessionError>(|writes| {
                writes.query("remove a plan", |c| drop_plan(c, plan))
            })?;
        }
        Ok((pruned, units))
    })
}

fn drop_run(session: &Session, run_id: &str) -> Result<u64, SessionError> {
    let mut dropped = 0;
    loop {
        let count = session.write::<_, SessionError>(|writes| {
            writes.query("remove old units", |c| drop_units(c, run_id, UNITS_AT_ONCE))
        })?;
        if count == 0 {
            return Ok(dropped);
        }
        dropped += count as u64;
    }
}

fn old(reads: &Writes<'_>, before: Instant, time_zone: &TimeZone) -> Result<Pruned, SessionError> {
    if !reads.has_own_tables()? {
        return Ok(Pruned::default());
    }
    let is_old = |at: &str| Instant::parse(at, time_zone).is_some_and(|at| at < before);
    let runs = reads.query("read memfold_runs", ended_runs)?;
    let plans = reads.query("read memfold_plans", unapplied_plans)?;
    let runs = runs.into_iter().filter(|run| is_old(&run.started_at));
    let pruning = |run: OldRun| Pruning {
        run_id: run.run_id,
        units: run.units,
        no_longer_undoable: run.applied,
        entries: run.entries,
    };
    let plans = plans.into_iter().filter(|(_, saved_at)| is_old(saved_at));
    Ok(Pruned {
        runs: runs.map(pruning).collect(),
        plans: plans.map(|(plan_id, _)| plan_id).collect(),
    })
}

/// Units and their summary before removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OldRun {
    /// The run.
    pub(crate) run_id: String,
    /// When it started.
    pub(crate) started_at: String,
    /// Its units.
    pub(crate) units: u64,
    /// Units in force, which could be undone.
    pub(crate) applied: u64,
    /// Entries of the journal.
    pub(crate) entries: u64,
}

/// Returns the runs that have ended and still have units, with their times.
pub(crate) fn ended_runs(connection: &Connection) -> rusqlite::Result<Vec<OldRun>> {
    let mut statement = connection.prepare(
        "SELECT run_id, started_at,
                (SELECT count(*) FROM memfold_units AS u WHERE u.run_id = r.run_id),
                (SELECT count(*) FROM memfold_units AS u
                 WHERE u.run_id = r.run_id AND u.state = 'applied'),
                (SELECT count(*) FROM memfold_journal AS j WHERE j.run_id = r.run_id)
         FROM memfold_runs AS r WHERE state <> 'running' ORDER BY seq",
    )?;
    let runs = statement.query_map([], |row| {
        let count = |column: usize| row.get::<_, i64>(column).map(i64::unsigned_abs);
        Ok(OldRun {
            run_id: row.get(0)?,
            started_at: row.get(1)?,
            units: count(2)?,
            applied: count(3)?,
            entries: count(4)?,
        })
    })?;
    let mut runs = runs.collect::<rusqlite::Result<Vec<_>>>()?;
    runs.retain(|run| run.units > 0 || run.entries > 0);
    Ok(runs)
}

/// Returns plans of which nothing was applied, with the times when they were saved.
pub(crate) fn unapplied_plans(connection: &Connection) -> rusqlite::Result<Vec<(String, String)>> {
    let mut statement = connection.prepare(
        "SELECT plan_id, saved_at FROM memfold_plans AS p
         WHERE NOT EXISTS (SELECT 1 FROM memfold_actions AS a WHERE a.plan_id = p.plan_id
                           AND a.state IN ('applied', 'undone'))
           AND NOT EXISTS (SELECT 1 FROM memfold_runs AS r WHERE r.plan_id = p.plan_id
                           AND r.state = 'running')
         ORDER BY saved_at, plan_id",
    )?;
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
}

/// Removes up to `limit` units of a run, each with its whole journal; returns how many there were.
pub(crate) fn drop_units(
    connection: &Connection,
    run_id: &str,
    limit: u32,
) -> rusqlite::Result<usize> {
    let mut statement =
        connection.prepare_cached("SELECT unit FROM memfold_units WHERE run_id = ?1 LIMIT ?2")?;
    let units = statement
        .query_map(params![run_id, limit], |row| row.get(0))?
        .collect::<rusqlite::Result<Vec<i64>>>()?;
    for unit in &units {
        crate::upkeep::forget::drop_journal(connection, run_id, *unit)?;
        connection
            .prepare_cached("DELETE FROM memfold_units WHERE run_id = ?1 AND unit = ?2")?
            .execute(params![run_id, unit])?;
    }
    Ok(units.len())
}

/// Removes a plan and its actions.
pub(crate) fn drop_plan(connection: &Connection, plan_id: &str) -> rusqlite::Result<()> {
    for table in ["memfold_actions", "memfold_plans"] {
        connection
            .prepare_cached(&format!("DELETE FROM {table} WHERE plan_id = ?1"))?
            .execute([plan_id])?;
    }
    Ok(())
}
