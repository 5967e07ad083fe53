//! `memfold_units` and `memfold_journal`: the work of each transaction.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Row as SqlRow, params};
use serde_json::Value;

use crate::brain_db::own::plans::{packed, unpacked};
use crate::brain_db::own::runs::{list_runs, verify_chain};
use crate::brain_db::read::access::Columns;
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::changes::Mark;
use crate::brain_db::write::layout::Layout;
use crate::brain_db::write::session::{SessionError, Writes};
use crate::memory_store::LoadStoreError;
use memfold_core::journal::{JournalEntry, Op, RowKey, Table};
use memfold_core::memory::MemoryId;
use memfold_core::runs::{RunHistory, UnitSummary};

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
    /// The plan of its actions.
    pub plan_id: Option<String>,
    /// Its actions.
    pub actions: Vec<ActionRecord>,
    /// The unit that it undoes.
    pub reverts: Option<(String, i64)>,
    /// Base digests (hex) of its memories afterwards.
    pub digests: BTreeMap<MemoryId, String>,
}

/// An applied unit, as it is recorded.
#[derive(Debug, Clone, Default)]
pub struct NewUnit<'a> {
    /// The plan of its actions.
    pub plan_id: Option<&'a str>,
    /// Its actions.
    pub actions: Vec<ActionRecord>,
    /// The unit that it undoes.
    pub reverts: Option<(&'a str, i64)>,
    /// The memories with digests to keep.
    pub memories: Vec<&'a MemoryId>,
}

/// One action of a unit, enough to report it where the plan is gone.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ActionRecord {
    /// The action's label in its plan.
    pub label: String,
    /// Its position in its plan, from 0.
    pub position: usize,
    /// Its type.
    #[serde(rename = "type")]
    pub action: memfold_core::plan::ActionType,
    /// Its targets: the survivor first.
    pub ids: Vec<MemoryId>,
    /// Who decided, where no rule did: a model's name, or a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl ActionRecord {
    /// An action of no plan.
    #[must_use]
    pub fn alone(label: &str, action: memfold_core::plan::ActionType, ids: Vec<MemoryId>) -> Self {
        Self { label: label.to_owned(), position: 0, action, ids, by: None }
    }
}

const COLUMNS: &str =
    "run_id, unit, state, undone_by, plan_id, actions, reverts_run, reverts_unit, digests";

impl Writes<'_> {
    /// Records an applied unit; returns the base digests (hex) of its memories as they are now,
    /// empty for memories that are gone.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub fn record_unit(
        &self,
        layout: &Layout,
        mark: &Mark<'_>,
        unit: &NewUnit<'_>,
    ) -> Result<BTreeMap<MemoryId, String>, SessionError> {
        let mut digests = BTreeMap::new();
        for &id in &unit.memories {
            let row = self.memory(layout, id)?;
            let digest = row.map_or_else(String::new, |row| row.digest.to_string());
            digests.insert(id.clone(), digest);
        }
        self.query("write down the unit", |c| insert_unit(c, mark, unit, &digests))?;
        Ok(digests)
    }

    /// Marks a unit as undone by a run, or as in force again.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn mark_unit(
        &self,
        run_id: &str,
        unit: i64,
        undone_by: Option<&str>,
    ) -> Result<(), SessionError> {
        let state = if undone_by.is_some() { "undone" } else { "applied" };
        let sql =
            "UPDATE memfold_units SET state = ?3, undone_by = ?4 WHERE run_id = ?1 AND unit = ?2";
        self.execute("mark a unit", sql, params![run_id, unit, state, undone_by]).map(drop)
    }

    /// Reads one unit.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn unit(&self, run_id: &str, number: i64) -> Result<Option<UnitRecord>, SessionError> {
        self.query("read memfold_units", |connection| unit(connection, run_id, number))
    }

    /// Reads the units of a run, in order.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn units_of_run(&self, run_id: &str) -> Result<Vec<UnitRecord>, SessionError> {
        self.units("run_id = ?1 ORDER BY unit", run_id)
    }

    /// Reads the units in force that applied a plan's actions, in order; none where memfold never
    /// wrote to the store.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn units_of_plan(&self, plan_id: &str) -> Result<Vec<UnitRecord>, SessionError> {
        if !self.has_own_tables()? {
            return Ok(Vec::new());
        }
        self.units("plan_id = ?1 AND state = 'applied' ORDER BY rowid", plan_id)
    }

    fn units(&self, condition: &str, value: &str) -> Result<Vec<UnitRecord>, SessionError> {
        let sql = format!("SELECT {COLUMNS} FROM memfold_units WHERE {condition}");
        self.query("read memfold_units", |connection| {
            connection.prepare_cached(&sql)?.query_map([value], read_unit)?.collect()
        })
    }

    /// Reads the last unit in force that changed a memory and is not an undo.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn last_unit_of_memory(&self, id: &MemoryId) -> Result<Option<UnitRecord>, SessionError> {
        let sql = "SELECT j.run_id, j.unit FROM memfold_journal AS j
                   JOIN memfold_units AS u ON u.run_id = j.run_id AND u.unit = j.unit
                   WHERE j.row_key = ?1 AND j.table_name = 'stm' AND u.state = 'applied'
                     AND u.reverts_run IS NULL
                   ORDER BY j.seq DESC LIMIT 1";
        self.query("read memfold_journal", |connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let key = statement.query_row([id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)));
            let key: Option<(String, i64)> = key.optional()?;
            key.map_or(Ok(None), |(run_id, number)| unit(connection, &run_id, number))
        })
    }

    /// Reads the unit in force that applied an action: of a run, or the last one of any run.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn unit_of_action(
        &self,
        run_id: Option<&str>,
        label: &str,
    ) -> Result<Option<UnitRecord>, SessionError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM memfold_units
             WHERE (?1 IS NULL OR run_id = ?1) AND reverts_run IS NULL
               AND (?1 IS NOT NULL OR state = 'applied') AND instr(actions, ?2) > 0
             ORDER BY rowid DESC"
        );
        let quoted = Value::from(label).to_string();
        self.query("read memfold_units", |connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            for unit in statement.query_map(params![run_id, quoted], read_unit)? {
                let unit = unit?;
                if unit.actions.iter().any(|action| action.label == label) {
                    return Ok(Some(unit));
                }
            }
            Ok(None)
        })
    }

    /// Returns the later units in force, undos apart, that changed any memory which a unit changed.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn later_units(&self, run_id: &str, unit: i64) -> Result<Vec<(String, i64)>, SessionError> {
        let sql = "SELECT DISTINCT later.run_id, later.unit FROM memfold_journal AS own
             JOIN memfold_journal AS later
               ON later.row_key = own.row_key AND later.table_name = 'stm' AND later.seq > own.seq
             JOIN memfold_units AS u ON u.run_id = later.run_id AND u.unit = later.unit
             WHERE own.run_id = ?1 AND own.unit = ?2 AND own.table_name = 'stm'
               AND NOT (later.run_id = ?1 AND later.unit = ?2)
               AND u.state = 'applied' AND u.reverts_run IS NULL
             ORDER BY later.seq";
        self.query("read memfold_journal", |connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let key = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            statement.query_map(params![run_id, unit], key)?.collect()
        })
    }

    /// Tells whether a unit moved memories out of the owner's tables.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn moved_memories(&self, run_id: &str, unit: i64) -> Result<bool, SessionError> {
        let sql = "SELECT 1 FROM memfold_journal WHERE run_id = ?1 AND unit = ?2 AND op = ?3";
        self.query("read memfold_journal", |connection| {
            connection.prepare_cached(sql)?.exists(params![run_id, unit, Op::TakeOut.name()])
        })
    }

    /// Reads the journal of a unit, in order. Where a memory left for a survivor, one row stands for two entries: its
    /// `row_rowid` is the key of the lineage that was recorded with it.
    ///
    /// # Errors
    /// When the store cannot be read, or an entry cannot be understood.
    pub fn journal(&self, run_id: &str, unit: i64) -> Result<Vec<JournalEntry>, SessionError> {
        let sql = "SELECT seq, op, table_name, row_key, row_rowid, before, after, deltas, survivor
                   FROM memfold_journal WHERE run_id = ?1 AND unit = ?2 ORDER BY seq";
        let entries: Result<Vec<Vec<JournalEntry>>, i64> =
            self.query("read memfold_journal", |connection| {
                let mut statement = connection.prepare_cached(sql)?;
                let entries = statement.query_map(params![run_id, unit], |row| {
                    let seq: i64 = row.get(0)?;
                    let Some(entry) = entry(row)? else { return Ok(Err(seq)) };
                    let lineage: Option<i64> = row.get(4)?;
                    let lineage = lineage.filter(|_| entry.op == Op::TakeOut);
                    let recorded = lineage.map(|key| JournalEntry::recorded(Table::Lineage, key));
                    Ok(Ok(std::iter::once(entry).chain(recorded).collect()))
                })?;
                entries.collect()
            })?;
        let entries = entries.map_err(|seq| SessionError::Unreadable {
            path: self.path().to_owned(),
            what: format!("entry {seq} of memfold_journal"),
        })?;
        Ok(entries.into_iter().flatten().collect())
    }
}

fn insert_unit(
    connection: &Connection,
    mark: &Mark<'_>,
    unit: &NewUnit<'_>,
    digests: &BTreeMap<MemoryId, String>,
) -> rusqlite::Result<()> {
    let json = |value: serde_json::Result<String>| {
        value.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    };
    connection
        .prepare_cached(
            "INSERT INTO memfold_units
                (run_id, unit, state, undone_by, plan_id, actions, reverts_run, reverts_unit, digests, at)
             VALUES (?1, ?2, 'applied', NULL, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            mark.run_id,
            mark.unit,
            unit.plan_id,
            json(serde_json::to_string(&unit.actions))?,
            unit.reverts.map(|(run_id, _)| run_id),
            unit.reverts.map(|(_, unit)| unit),
            json(serde_json::to_string(&packed_digests(digests)))?,
            mark.at
        ])
        .map(drop)
}

fn packed_digests(digests: &BTreeMap<MemoryId, String>) -> BTreeMap<&MemoryId, String> {
    let packed = |digest: &String| packed(digest).unwrap_or_else(|| digest.clone());
    digests.iter().map(|(id, digest)| (id, packed(digest))).collect()
}

/// Reads the digests of a unit's memories; empty for memories that are gone.
pub(crate) fn unpacked_digests(json: &str) -> serde_json::Result<BTreeMap<MemoryId, String>> {
    let digests: BTreeMap<MemoryId, String> = serde_json::from_str(json)?;
    Ok(digests.into_iter().map(|(id, digest)| (id, unpacked(&digest))).collect())
}

fn unit(connection: &Connection, run_id: &str, unit: i64) -> rusqlite::Result<Option<UnitRecord>> {
    let sql = format!("SELECT {COLUMNS} FROM memfold_units WHERE run_id = ?1 AND unit = ?2");
    connection.prepare_cached(&sql)?.query_row(params![run_id, unit], read_unit).optional()
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

    Ok(JournalEntry::read(
        op,
        key,
        before.as_ref(),
        after.as_ref(),
        deltas.as_ref(),
        row.get(4)?,
        row.get(8)?,
    ))
}

fn read_unit(row: &rusqlite::Row<'_>) -> rusqlite::Result<UnitRecord> {
    let json = |at: usize| row.get::<_, Option<String>>(at);
    let parse_error = |at: usize, error: serde_json::Error| {
        rusqlite::Error::FromSqlConversionFailure(at, rusqlite::types::Type::Text, error.into())
    };
    let actions = json(5)?.unwrap_or_else(|| "[]".to_owned());
    let digests = json(8)?.unwrap_or_else(|| "{}".to_owned());
    let reverts = row.get::<_, Option<String>>(6)?.zip(row.get::<_, Option<i64>>(7)?);
    Ok(UnitRecord {
        run_id: row.get(0)?,
        unit: row.get(1)?,
        is_applied: row.get::<_, String>(2)? == "applied",
        undone_by: row.get(3)?,
        plan_id: row.get(4)?,
        actions: serde_json::from_str(&actions).map_err(|error| parse_error(5, error))?,
        reverts,
        digests: unpacked_digests(&digests).map_err(|error| parse_error(8, error))?,
    })
}

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
            let chain_break = verify_chain(connection)?;
            Ok(RunHistory { runs: list_runs(connection)?, chain_break })
        })
    }

    /// Lists the units of a run in order; empty where the run does not exist or did nothing.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn units(&self, run_id: &str) -> Result<Vec<UnitSummary>, LoadStoreError> {
        self.consult("memfold_units", |connection| {
            if Columns::of(connection, "memfold_units")?.is_empty() {
                return Ok(Vec::new());
            }
            unit_summaries(connection, run_id)
        })
    }
}

fn unit_summaries(connection: &Connection, run_id: &str) -> rusqlite::Result<Vec<UnitSummary>> {
    let mut memories = connection.prepare(
        "SELECT DISTINCT row_key FROM memfold_journal
         WHERE run_id = ?1 AND unit = ?2 AND table_name = 'stm' ORDER BY row_key",
    )?;
    let mut statement = connection.prepare(
        "SELECT unit, state, undone_by, plan_id, actions, reverts_run, reverts_unit, at
         FROM memfold_units WHERE run_id = ?1 ORDER BY unit",
    )?;
    let mut found =
        statement.query_map([run_id], unit_summary)?.collect::<rusqlite::Result<Vec<_>>>()?;
    for unit in &mut found {
        let ids = memories.query_map((run_id, unit.unit), |row| row.get(0))?;
        unit.memories = ids.collect::<rusqlite::Result<_>>()?;
    }
    Ok(found)
}

pub(crate) fn unit_summary(row: &SqlRow<'_>) -> rusqlite::Result<UnitSummary> {
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

/// Reads `[{"label": "a1", "type": "merge", …}, …]`; other forms are returned as they are.
fn action_names(json: &str) -> Vec<String> {
    let name = |action: &Value| {
        let label = action.get("label").and_then(Value::as_str)?;
        let kind = action.get("type").and_then(Value::as_str)?;
        let by = action.get("by").and_then(Value::as_str);
        let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
        Some(format!("{label} {}{by}", kind.replace('_', " ")))
    };
    match serde_json::from_str::<Value>(json) {
        Ok(Value::Array(actions)) => actions
            .iter()
            .map(|action| name(action).unwrap_or_else(|| action.to_string()))
            .collect(),
        _ => vec![json.to_owned()],
    }
}
