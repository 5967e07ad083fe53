//! Old units, their journal and old plans: which they are, and how they go.

use rusqlite::{Connection, params};

/// Units and what can be told of them before they go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OldRun {
    /// The run.
    pub(crate) run_id: String,
    /// When it started.
    pub(crate) started_at: String,
    /// Its units.
    pub(crate) units: u64,
    /// Those in force, which could be undone.
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
        super::forget::drop_journal(connection, (run_id, *unit))?;
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
