//! `memfold_units` and `memfold_journal`: what was done in each transaction.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::Value;

use crate::journal::{JournalEntry, Op, RowKey, Table};
use memfold_model::memory::MemoryId;

/// One transaction of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitRecord {
    /// The run.
    pub run_id: String,
    /// Its number in the run, from 1.
    pub unit: i64,
    /// Whether an undo took it back, and which.
    pub undone_by: Option<String>,
    /// Whether it is in force.
    pub is_applied: bool,
    /// The plan whose actions it carried out.
    pub plan_id: Option<String>,
    /// What it did.
    pub deeds: Vec<Deed>,
    /// The unit that it takes back.
    pub reverts: Option<(String, i64)>,
    /// Base digests (hex) of its memories afterwards.
    pub digests: BTreeMap<MemoryId, String>,
}

/// One action of a unit, enough to tell what was done where the plan is gone.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Deed {
    /// The action's label in its plan.
    pub label: String,
    /// Its position in its plan, from 0.
    pub position: usize,
    /// Its type.
    #[serde(rename = "type")]
    pub action: memfold_plan::plan::ActionType,
    /// Its targets: the survivor first.
    pub ids: Vec<MemoryId>,
}

/// Writes a unit down.
pub fn insert_unit(connection: &Connection, unit: &UnitRecord, at: &str) -> rusqlite::Result<()> {
    let json = |value: serde_json::Result<String>| {
        value.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    };
    let (run, number) = unit.reverts.as_ref().map_or((None, None), |(r, n)| (Some(r), Some(n)));
    connection
        .prepare_cached(
            "INSERT INTO memfold_units
                (run_id, unit, state, undone_by, plan_id, actions, reverts_run, reverts_unit, digests, at)
             VALUES (?1, ?2, 'applied', NULL, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            unit.run_id,
            unit.unit,
            unit.plan_id,
            json(serde_json::to_string(&unit.deeds))?,
            run,
            number,
            json(serde_json::to_string(&unit.digests))?,
            at
        ])
        .map(drop)
}

/// Marks a unit as taken back by a run, or as in force again.
pub fn mark_unit(
    connection: &Connection,
    (run_id, unit): (&str, i64),
    undone_by: Option<&str>,
) -> rusqlite::Result<()> {
    let state = if undone_by.is_some() { "undone" } else { "applied" };
    connection
        .prepare_cached(
            "UPDATE memfold_units SET state = ?3, undone_by = ?4 WHERE run_id = ?1 AND unit = ?2",
        )?
        .execute(params![run_id, unit, state, undone_by])
        .map(drop)
}

const COLUMNS: &str =
    "run_id, unit, state, undone_by, plan_id, actions, reverts_run, reverts_unit, digests";

/// Reads one unit.
pub fn unit(
    connection: &Connection,
    (run_id, unit): (&str, i64),
) -> rusqlite::Result<Option<UnitRecord>> {
    let sql = format!("SELECT {COLUMNS} FROM memfold_units WHERE run_id = ?1 AND unit = ?2");
    connection.prepare_cached(&sql)?.query_row(params![run_id, unit], read_unit).optional()
}

/// Reads the units of a run, in order.
pub fn units_of_run(connection: &Connection, run_id: &str) -> rusqlite::Result<Vec<UnitRecord>> {
    let sql = format!("SELECT {COLUMNS} FROM memfold_units WHERE run_id = ?1 ORDER BY unit");
    connection.prepare_cached(&sql)?.query_map([run_id], read_unit)?.collect()
}

/// Reads the units in force that carried out a plan's actions, in order.
pub fn units_of_plan(connection: &Connection, plan_id: &str) -> rusqlite::Result<Vec<UnitRecord>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM memfold_units WHERE plan_id = ?1 AND state = 'applied' ORDER BY rowid"
    );
    connection.prepare_cached(&sql)?.query_map([plan_id], read_unit)?.collect()
}

/// Reads the last unit in force that changed a memory and is no undo itself.
pub fn last_unit_of_memory(
    connection: &Connection,
    id: &str,
) -> rusqlite::Result<Option<UnitRecord>> {
    let found: Option<(String, i64)> = connection
        .prepare_cached(
            "SELECT j.run_id, j.unit FROM memfold_journal AS j
             JOIN memfold_units AS u ON u.run_id = j.run_id AND u.unit = j.unit
             WHERE j.row_key = ?1 AND j.table_name = 'stm' AND u.state = 'applied'
               AND u.reverts_run IS NULL
             ORDER BY j.seq DESC LIMIT 1",
        )?
        .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    match found {
        Some((run_id, number)) => unit(connection, (&run_id, number)),
        None => Ok(None),
    }
}

/// Reads the unit in force that carried out an action: of a run, or the last one of any run.
pub fn unit_of_action(
    connection: &Connection,
    run_id: Option<&str>,
    label: &str,
) -> rusqlite::Result<Option<UnitRecord>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM memfold_units
         WHERE (?1 IS NULL OR run_id = ?1) AND reverts_run IS NULL
           AND (?1 IS NOT NULL OR state = 'applied') AND instr(actions, ?2) > 0
         ORDER BY rowid DESC"
    );
    let quoted = serde_json::Value::from(label).to_string();
    let mut statement = connection.prepare_cached(&sql)?;
    let units = statement.query_map(params![run_id, quoted], read_unit)?;
    for unit in units {
        let unit = unit?;
        if unit.deeds.iter().any(|deed| deed.label == label) {
            return Ok(Some(unit));
        }
    }
    Ok(None)
}

/// Returns the later units in force, undos apart, that changed any memory which a unit changed.
pub fn later_units(
    connection: &Connection,
    (run_id, unit): (&str, i64),
) -> rusqlite::Result<Vec<(String, i64)>> {
    connection
        .prepare_cached(
            "SELECT DISTINCT later.run_id, later.unit FROM memfold_journal AS own
             JOIN memfold_journal AS later
               ON later.row_key = own.row_key AND later.table_name = 'stm' AND later.seq > own.seq
             JOIN memfold_units AS u ON u.run_id = later.run_id AND u.unit = later.unit
             WHERE own.run_id = ?1 AND own.unit = ?2 AND own.table_name = 'stm'
               AND NOT (later.run_id = ?1 AND later.unit = ?2)
               AND u.state = 'applied' AND u.reverts_run IS NULL
             ORDER BY later.seq",
        )?
        .query_map(params![run_id, unit], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Returns how many units a run applied; `None` where there is no such run.
pub fn applied_units(connection: &Connection, run_id: &str) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT applied FROM memfold_runs WHERE run_id = ?1")?
        .query_row([run_id], |row| row.get(0))
        .optional()
}

/// Reads the journal of a unit, in order; `Err` names an entry that cannot be understood.
pub fn journal(
    connection: &Connection,
    (run_id, unit): (&str, i64),
) -> rusqlite::Result<Result<Vec<JournalEntry>, i64>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, op, table_name, row_key, row_rowid, before, after, deltas, survivor
         FROM memfold_journal WHERE run_id = ?1 AND unit = ?2 ORDER BY seq",
    )?;
    let entries = statement.query_map(params![run_id, unit], |row| {
        let seq: i64 = row.get(0)?;
        Ok(entry(row)?.ok_or(seq))
    })?;
    entries.collect()
}

fn entry(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<JournalEntry>> {
    let (op, table): (String, String) = (row.get(1)?, row.get(2)?);
    let (Some(op), Some(table)) = (Op::of_name(&op), Table::of_name(&table)) else {
        return Ok(None);
    };
    let json = |at: usize| -> rusqlite::Result<Option<Option<Value>>> {
        let text: Option<String> = row.get(at)?;
        Ok(text.map_or(Some(None), |text| serde_json::from_str(&text).ok().map(Some)))
    };
    let (Some(before), Some(after), Some(deltas)) = (json(5)?, json(6)?, json(7)?) else {
        return Ok(None);
    };
    let key = RowKey { table, key: row.get(3)? };
    let rest = (row.get(4)?, row.get(8)?);
    Ok(JournalEntry::read(op, key, (before.as_ref(), after.as_ref(), deltas.as_ref()), rest))
}

fn read_unit(row: &rusqlite::Row<'_>) -> rusqlite::Result<UnitRecord> {
    let json = |at: usize| row.get::<_, Option<String>>(at);
    let parse_error = |at: usize, error: serde_json::Error| {
        rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, error.into())
    };
    let deeds = json(5)?.unwrap_or_else(|| "[]".to_owned());
    let digests = json(8)?.unwrap_or_else(|| "{}".to_owned());
    let reverts = row.get::<_, Option<String>>(6)?.zip(row.get::<_, Option<i64>>(7)?);
    Ok(UnitRecord {
        run_id: row.get(0)?,
        unit: row.get(1)?,
        is_applied: row.get::<_, String>(2)? == "applied",
        undone_by: row.get(3)?,
        plan_id: row.get(4)?,
        deeds: serde_json::from_str(&deeds).map_err(|error| parse_error(5, error))?,
        reverts,
        digests: serde_json::from_str(&digests).map_err(|error| parse_error(8, error))?,
    })
}
