//! Looking at runs without leaving a trace.

use rusqlite::{Connection, Row as SqlRow};
use serde_json::Value;

use super::BrainDb;
use super::columns::Columns;
use super::own::runs;
use crate::LoadStoreError;
use memfold_model::runs::{RunHistory, UnitSummary};

impl BrainDb {
    /// Lists all runs, the first one first, and follows their audit chain. A store that memfold never wrote to has none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn runs(&self) -> Result<RunHistory, LoadStoreError> {
        self.consult("memfold_runs", |connection| {
            if Columns::of(connection, "memfold_runs")?.is_empty() {
                return Ok(RunHistory::default());
            }
            let chain_break = runs::verify_chain(connection)?;
            Ok(RunHistory { runs: runs::list(connection)?, chain_break })
        })
    }

    /// Lists the units of a run in order; empty where there is no such run, or it did nothing.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn units(&self, run_id: &str) -> Result<Vec<UnitSummary>, LoadStoreError> {
        self.consult("memfold_units", |connection| {
            if Columns::of(connection, "memfold_units")?.is_empty() {
                return Ok(Vec::new());
            }
            units(connection, run_id)
        })
    }
}

fn units(connection: &Connection, run_id: &str) -> rusqlite::Result<Vec<UnitSummary>> {
    let mut memories = connection.prepare(
        "SELECT DISTINCT row_key FROM memfold_journal
         WHERE run_id = ?1 AND unit = ?2 AND table_name = 'stm' ORDER BY row_key",
    )?;
    let mut statement = connection.prepare(
        "SELECT unit, state, undone_by, plan_id, actions, reverts_run, reverts_unit, at
         FROM memfold_units WHERE run_id = ?1 ORDER BY unit",
    )?;
    let mut found = statement.query_map([run_id], unit)?.collect::<rusqlite::Result<Vec<_>>>()?;
    for unit in &mut found {
        let ids = memories.query_map((run_id, unit.unit), |row| row.get(0))?;
        unit.memories = ids.collect::<rusqlite::Result<_>>()?;
    }
    Ok(found)
}

pub(super) fn unit(row: &SqlRow<'_>) -> rusqlite::Result<UnitSummary> {
    let actions: Option<String> = row.get(4)?;
    Ok(UnitSummary {
        unit: row.get(0)?,
        state: row.get(1)?,
        undone_by: row.get(2)?,
        plan_id: row.get(3)?,
        actions: actions.as_deref().map(action_names).unwrap_or_default(),
        reverts: row.get::<_, Option<String>>(5)?.zip(row.get(6)?),
        memories: Vec::new(),
        at: row.get(7)?,
    })
}

/// Reads `[{"label": "a1", "type": "merge", …}, …]`; what is of another form is shown as it is.
fn action_names(json: &str) -> Vec<String> {
    let name = |deed: &Value| {
        let label = deed.get("label").and_then(Value::as_str)?;
        let kind = deed.get("type").and_then(Value::as_str)?;
        Some(format!("{label} {}", kind.replace('_', " ")))
    };
    match serde_json::from_str::<Value>(json) {
        Ok(Value::Array(deeds)) => {
            deeds.iter().map(|deed| name(deed).unwrap_or_else(|| deed.to_string())).collect()
        }
        _ => vec![json.to_owned()],
    }
}
