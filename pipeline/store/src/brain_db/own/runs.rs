//! `memfold_runs` with its audit chain, `memfold_units` and `memfold_journal`: the work of each transaction. The caller
//! holds the transaction.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row as SqlRow, params};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

use crate::brain_db::own::plans::{packed, unpacked};
use crate::brain_db::read::access::{Columns, all, cell0, cells2, first};
use crate::brain_db::read::load::cell;
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::changes::Mark;
use crate::brain_db::write::rows::Layout;
use crate::brain_db::write::session::{Session, Writes};
use crate::error::StoreError;
use memfold_core::journal::{JournalEntry, Op, RowKey, Table};
use memfold_core::memory::MemoryId;
use memfold_core::report::Executed;
use memfold_core::runs::{
    ChainBreak, RevertedUnit, RunHistory, RunKind, RunState, RunSummary, UnitSummary,
};
use memfold_core::value::Value;

/// The columns that the chain covers: all but the place in it. The hash of the run before comes last.
const CHAINED: &str = "seq, run_id, kind, plan_id, target, state, holder, started_at, heartbeat_at, \
                       finished_at, applied, stale, failed, engine_version, prev_hash";

/// Ended runs, in the order in which they ended.
const IN_CHAIN: &str = "WHERE chained IS NOT NULL ORDER BY chained";

/// Position of `target` in [`CHAINED`].
const TARGET_AT: usize = 4;

/// How a forgotten target begins; 64 hex digits follow.
const DIGEST_PREFIX: &str = "sha256:";

/// Hex digits that end a run's id.
const ID_HEX: usize = 8;

/// The facts of a run at its start.
#[derive(Debug, Clone, Copy)]
pub struct RunStart<'a> {
    /// Which run; where the id is taken it gets other digits.
    pub run_id: &'a str,
    /// Its kind.
    pub kind: RunKind,
    /// The plan it applies.
    pub plan_id: Option<&'a str>,
    /// Its target (the run to undo, for example).
    pub target: Option<&'a str>,
    /// Who runs it: host and process.
    pub holder: &'a str,
    /// When it starts.
    pub at: &'a str,
}

impl Session {
    /// Begins a run and returns its id. Runs that were killed are marked as interrupted first.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn begin_run(&self, start: &RunStart<'_>) -> Result<String, StoreError> {
        self.write(|writes| {
            writes.mark_dead(start.at)?;
            let run_id = writes.free_run_id(start.run_id)?;
            writes.begin(&RunStart { run_id: &run_id, ..*start })?;
            Ok(run_id)
        })
    }

    /// Records the end of a run.
    ///
    /// # Errors
    /// When the run is not under way, or the store cannot be written.
    pub fn finish_run(
        &self,
        run_id: &str,
        state: RunState,
        at: &str,
        executed: Executed,
    ) -> Result<(), StoreError> {
        self.write(|writes| writes.finish_run(run_id, state, at, executed))
    }

    /// Tells whether no run executed anything on this store so far.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn is_first_execution(&self) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM memfold_runs WHERE kind = 'execute'";
        self.read(|reads| {
            Ok(!reads.has_own_tables()? || !reads.exists("read memfold_runs", sql, [])?)
        })
    }
}

impl Writes<'_> {
    /// Records a run that holds no lock and takes units as they come: it ends where it begins, and
    /// how much it did follows from its units. Returns its id.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn begin_ended_run(&self, start: &RunStart<'_>) -> Result<String, StoreError> {
        let run_id = self.free_run_id(start.run_id)?;
        self.begin(&RunStart { run_id: &run_id, ..*start })?;
        self.end(&run_id, RunState::Done, start.at)?;
        Ok(run_id)
    }

    /// Records that a run is alive, and its progress.
    ///
    /// # Errors
    /// When the run is not under way, or the store cannot be written.
    pub fn beat(&self, run_id: &str, at: &str, executed: Executed) -> Result<(), StoreError> {
        let sql = "UPDATE memfold_runs SET heartbeat_at = ?2, applied = ?3, stale = ?4, failed = ?5
                   WHERE run_id = ?1 AND state = 'running'";
        let Executed { applied, stale, failed } = executed;
        let row = params![run_id, at, applied as i64, stale as i64, failed as i64];
        self.change_one("write down the run", sql, row)
    }

    /// Records the end of a run.
    ///
    /// # Errors
    /// When the run is not under way, or the store cannot be written.
    pub fn finish_run(
        &self,
        run_id: &str,
        state: RunState,
        at: &str,
        executed: Executed,
    ) -> Result<(), StoreError> {
        self.beat(run_id, at, executed)?;
        self.end(run_id, state, at)
    }

    /// Returns how many units a run applied; `None` where the run does not exist.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn applied_units(&self, run_id: &str) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT applied FROM memfold_runs WHERE run_id = ?1";
        self.first("read memfold_runs", sql, [run_id], cell0)
    }

    /// Records the start of a run.
    fn begin(&self, start: &RunStart<'_>) -> Result<(), StoreError> {
        let RunStart { run_id, kind, plan_id, target, holder, at } = *start;
        let sql = "INSERT INTO memfold_runs(seq, run_id, kind, plan_id, target, state, holder, started_at,
                                            heartbeat_at, engine_version, prev_hash)
                   VALUES ((SELECT ifnull(max(seq), 0) + 1 FROM memfold_runs),
                           ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, '')";
        let (kind, state) = (kind.name(), RunState::Running.name());
        let row =
            params![run_id, kind, plan_id, target, state, holder, at, env!("CARGO_PKG_VERSION")];
        self.execute("begin the run", sql, row).map(drop)
    }

    /// Ends a run: nothing of it changes from here on, and the chain covers it.
    fn end(&self, run_id: &str, state: RunState, at: &str) -> Result<(), StoreError> {
        const WHAT: &str = "finish the run";
        let previous = self.query(WHAT, last_hash)?;
        let sql = "UPDATE memfold_runs SET state = ?2, finished_at = ?3, prev_hash = ?4,
                       chained = (SELECT ifnull(max(chained), 0) + 1 FROM memfold_runs)
                   WHERE run_id = ?1 AND chained IS NULL";
        self.change_one(WHAT, sql, params![run_id, state.name(), at, previous])
    }

    /// Marks runs that never ended as interrupted, and returns their ids in their order. Only the
    /// holder of the store's lock may call it.
    fn mark_dead(&self, at: &str) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT run_id FROM memfold_runs WHERE chained IS NULL ORDER BY seq";
        let dead: Vec<String> = self.all("read memfold_runs", sql, [], cell0)?;
        for run_id in &dead {
            self.end(run_id, RunState::Interrupted, at)?;
        }
        Ok(dead)
    }

    /// Returns the wanted id, or the same time with other digits where the id is taken.
    fn free_run_id(&self, wanted: &str) -> Result<String, StoreError> {
        let taken = "SELECT 1 FROM memfold_runs WHERE run_id = ?1";
        let time = wanted.rsplit_once('-').map_or(wanted, |(time, _)| time);
        let mut id = wanted.to_owned();
        while self.exists("read memfold_runs", taken, [&id])? {
            id = format!("{time}-{}", &hash(id.as_bytes())[..ID_HEX]);
        }
        Ok(id)
    }
}

/// Returns all runs, the first one first.
pub(crate) fn list_runs(connection: &Connection) -> rusqlite::Result<Vec<RunSummary>> {
    let sql = "SELECT run_id, kind, plan_id, target, state, holder, started_at, finished_at,
                iif(kind = 'save',
                    (SELECT count(*) FROM memfold_units AS u WHERE u.run_id = r.run_id), applied),
                stale, failed,
                (SELECT count(*) FROM memfold_units AS u WHERE u.run_id = r.run_id),
                (SELECT count(*) FROM memfold_units AS u
                 WHERE u.run_id = r.run_id AND u.state = 'undone')
         FROM memfold_runs AS r ORDER BY seq";
    all(connection, sql, [], |row| {
        let count = |column: usize| row.get::<_, i64>(column).map(i64::unsigned_abs);
        Ok(RunSummary {
            run_id: row.get(0)?,
            kind: row.get(1)?,
            plan_id: row.get(2)?,
            target: row.get(3)?,
            state: row.get(4)?,
            holder: row.get(5)?,
            started_at: row.get(6)?,
            finished_at: row.get(7)?,
            executed: Executed { applied: count(8)?, stale: count(9)?, failed: count(10)? },
            units: count(11)?,
            undone: count(12)?,
        })
    })
}

/// Returns the first run that does not fit the one before it: that record was changed since.
pub(crate) fn verify_chain(connection: &Connection) -> rusqlite::Result<Option<ChainBreak>> {
    let mut statement = connection
        .prepare(&format!("SELECT {CHAINED} FROM memfold_runs {}", in_chain(connection)?))?;
    let hash_at = statement.column_count() - 1;
    let mut rows = statement.query([])?;
    let mut expected = first_hash(connection)?;
    while let Some(row) = rows.next()? {
        let found: String = row.get(hash_at)?;
        if found != expected {
            let run_id = row.get(1)?;
            return Ok(Some(ChainBreak { run_id, expected, found }));
        }
        expected = row_hash(row)?;
    }
    Ok(None)
}

/// Replaces a target by its sha256, which the chain takes for the same.
pub(crate) fn forget_target(connection: &Connection, target: &str) -> rusqlite::Result<usize> {
    connection.execute(
        "UPDATE memfold_runs SET target = ?2 WHERE target = ?1",
        params![target, target_digest(target)],
    )
}

/// Which runs the chain covers, and in which order: tables of the first version tell no places.
fn in_chain(connection: &Connection) -> rusqlite::Result<&'static str> {
    let has_places = Columns::of(connection, "memfold_runs")?.has("chained");
    Ok(if has_places { IN_CHAIN } else { "ORDER BY seq" })
}

/// Returns the hash that the next run records.
fn last_hash(connection: &Connection) -> rusqlite::Result<String> {
    let sql = format!("SELECT {CHAINED} FROM memfold_runs {IN_CHAIN} DESC LIMIT 1");
    match first(connection, &sql, [], row_hash)? {
        Some(hash) => Ok(hash),
        None => first_hash(connection),
    }
}

fn first_hash(connection: &Connection) -> rusqlite::Result<String> {
    let sql = "SELECT store_uuid FROM memfold_schema LIMIT 1";
    Ok(hash(connection.query_row(sql, [], cell0::<String>)?.as_bytes()))
}

/// Returns the hash of a row of [`CHAINED`]: of the JSON array of its values, the target by its sha256.
fn row_hash(row: &SqlRow<'_>) -> rusqlite::Result<String> {
    let count = row.as_ref().column_count();
    let mut values = Vec::with_capacity(count);
    for column in 0..count {
        let value = Value::from(cell(row, column)?);
        values.push(match value.as_text() {
            Some(target) if column == TARGET_AT => target_digest(target).into(),
            _ => value.to_json(),
        });
    }
    Ok(hash(Json::Array(values).to_string().as_bytes()))
}

/// Returns the representation of a target in the chain.
fn target_digest(target: &str) -> String {
    let is_digest = target.strip_prefix(DIGEST_PREFIX).is_some_and(|hex| {
        hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    });
    if is_digest {
        return target.to_owned();
    }
    format!("{DIGEST_PREFIX}{}", hash(target.as_bytes()))
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

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
    ) -> Result<BTreeMap<MemoryId, String>, StoreError> {
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
    ) -> Result<(), StoreError> {
        let state = if undone_by.is_some() { "undone" } else { "applied" };
        let sql =
            "UPDATE memfold_units SET state = ?3, undone_by = ?4 WHERE run_id = ?1 AND unit = ?2";
        self.execute("mark a unit", sql, params![run_id, unit, state, undone_by]).map(drop)
    }

    /// Reads one unit.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn unit(&self, run_id: &str, number: i64) -> Result<Option<UnitRecord>, StoreError> {
        self.query("read memfold_units", |connection| unit(connection, run_id, number))
    }

    /// Reads the units of a run, in order.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn units_of_run(&self, run_id: &str) -> Result<Vec<UnitRecord>, StoreError> {
        self.units("run_id = ?1 ORDER BY unit", run_id)
    }

    /// Reads the units in force that applied a plan's actions, in order; none where memfold never
    /// wrote to the store.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn units_of_plan(&self, plan_id: &str) -> Result<Vec<UnitRecord>, StoreError> {
        if !self.has_own_tables()? {
            return Ok(Vec::new());
        }
        self.units("plan_id = ?1 AND state = 'applied' ORDER BY rowid", plan_id)
    }

    fn units(&self, condition: &str, value: &str) -> Result<Vec<UnitRecord>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM memfold_units WHERE {condition}");
        self.all("read memfold_units", &sql, [value], read_unit)
    }

    /// Reads the last unit in force that changed a memory and is not an undo.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn last_unit_of_memory(&self, id: &MemoryId) -> Result<Option<UnitRecord>, StoreError> {
        let sql = "SELECT j.run_id, j.unit FROM memfold_journal AS j
                   JOIN memfold_units AS u ON u.run_id = j.run_id AND u.unit = j.unit
                   WHERE j.row_key = ?1 AND j.table_name = 'stm' AND u.state = 'applied'
                     AND u.reverts_run IS NULL
                   ORDER BY j.seq DESC LIMIT 1";
        self.query("read memfold_journal", |connection| {
            let key: Option<(String, i64)> = first(connection, sql, [id.as_str()], cells2)?;
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
    ) -> Result<Option<UnitRecord>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM memfold_units
             WHERE (?1 IS NULL OR run_id = ?1) AND reverts_run IS NULL
               AND (?1 IS NOT NULL OR state = 'applied') AND instr(actions, ?2) > 0
             ORDER BY rowid DESC"
        );
        let quoted = Json::from(label).to_string();
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
    pub fn later_units(&self, run_id: &str, unit: i64) -> Result<Vec<(String, i64)>, StoreError> {
        let sql = "SELECT DISTINCT later.run_id, later.unit FROM memfold_journal AS own
             JOIN memfold_journal AS later
               ON later.row_key = own.row_key AND later.table_name = 'stm' AND later.seq > own.seq
             JOIN memfold_units AS u ON u.run_id = later.run_id AND u.unit = later.unit
             WHERE own.run_id = ?1 AND own.unit = ?2 AND own.table_name = 'stm'
               AND NOT (later.run_id = ?1 AND later.unit = ?2)
               AND u.state = 'applied' AND u.reverts_run IS NULL
             ORDER BY later.seq";
        self.all("read memfold_journal", sql, params![run_id, unit], cells2)
    }

    /// Tells whether a unit moved memories out of the owner's tables.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn moved_memories(&self, run_id: &str, unit: i64) -> Result<bool, StoreError> {
        let sql = "SELECT 1 FROM memfold_journal WHERE run_id = ?1 AND unit = ?2 AND op = ?3";
        self.exists("read memfold_journal", sql, params![run_id, unit, Op::TakeOut.name()])
    }

    /// Reads the journal of a unit, in order. Where a memory left for a survivor, one row stands for two entries: its
    /// `row_rowid` is the key of the lineage that was recorded with it.
    ///
    /// # Errors
    /// When the store cannot be read, or an entry cannot be understood.
    pub fn journal(&self, run_id: &str, unit: i64) -> Result<Vec<JournalEntry>, StoreError> {
        let sql = "SELECT seq, op, table_name, row_key, row_rowid, before, after, deltas, survivor
                   FROM memfold_journal WHERE run_id = ?1 AND unit = ?2 ORDER BY seq";
        let read = |row: &SqlRow<'_>| {
            let seq: i64 = row.get(0)?;
            let Some(entry) = entry(row)? else { return Ok(Err(seq)) };
            let lineage: Option<i64> = row.get(4)?;
            let lineage = lineage.filter(|_| entry.op == Op::TakeOut);
            let recorded = lineage.map(|key| JournalEntry::recorded(Table::Lineage, key));
            Ok(Ok(std::iter::once(entry).chain(recorded)))
        };
        let entries: Vec<Result<_, i64>> =
            self.all("read memfold_journal", sql, params![run_id, unit], read)?;
        let mut journal = Vec::new();
        for entry in entries {
            let unreadable = |seq| self.unreadable(format!("entry {seq} of memfold_journal"));
            journal.extend(entry.map_err(unreadable)?);
        }
        Ok(journal)
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
    first(connection, &sql, params![run_id, unit], read_unit)
}

fn entry(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<JournalEntry>> {
    let (op, table): (String, String) = (row.get(1)?, row.get(2)?);
    let (Some(op), Some(table)) = (Op::of_name(&op), Table::of_name(&table)) else {
        return Ok(None);
    };
    let json = |at: usize| -> rusqlite::Result<Option<Option<Json>>> {
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
    pub fn runs(&self) -> Result<RunHistory, StoreError> {
        self.consult_own("memfold_runs", |connection, _| {
            let chain_break = verify_chain(connection)?;
            Ok(RunHistory { runs: list_runs(connection)?, chain_break })
        })
    }

    /// Lists the units of a run in order; empty where the run does not exist or did nothing.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn units(&self, run_id: &str) -> Result<Vec<UnitSummary>, StoreError> {
        self.consult_own("memfold_units", |connection, _| {
            let sql =
                "SELECT unit, state, undone_by, plan_id, actions, reverts_run, reverts_unit, at
                       FROM memfold_units WHERE run_id = ?1 ORDER BY unit";
            let mut found: Vec<UnitSummary> = all(connection, sql, [run_id], unit_summary)?;
            let sql = "SELECT DISTINCT row_key FROM memfold_journal
                       WHERE run_id = ?1 AND unit = ?2 AND table_name = 'stm' ORDER BY row_key";
            for unit in &mut found {
                unit.memories = all(connection, sql, (run_id, unit.unit), cell0)?;
            }
            Ok(found)
        })
    }
}

fn unit_summary(row: &SqlRow<'_>) -> rusqlite::Result<UnitSummary> {
    let actions: Option<String> = row.get(4)?;
    Ok(UnitSummary {
        unit: row.get(0)?,
        state: row.get(1)?,
        undone_by: row.get(2)?,
        plan_id: row.get(3)?,
        actions: actions.as_deref().map(action_names).unwrap_or_default(),
        reverts: row
            .get::<_, Option<String>>(5)?
            .zip(row.get(6)?)
            .map(|(run_id, unit)| RevertedUnit { run_id, unit }),
        memories: Vec::new(),
        at: row.get(7)?,
    })
}

/// Reads `[{"label": "a1", "type": "merge", …}, …]`; other forms are returned as they are.
fn action_names(json: &str) -> Vec<String> {
    let name = |action: &Json| {
        let label = action.get("label").and_then(Json::as_str)?;
        let kind = action.get("type").and_then(Json::as_str)?;
        let by = action.get("by").and_then(Json::as_str);
        let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
        Some(format!("{label} {}{by}", kind.replace('_', " ")))
    };
    match serde_json::from_str::<Json>(json) {
        Ok(Json::Array(actions)) => actions
            .iter()
            .map(|action| name(action).unwrap_or_else(|| action.to_string()))
            .collect(),
        _ => vec![json.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain_db::own::tables::{MIGRATIONS, migrate, own_tables_in_memory as store};
    use crate::brain_db::write::session::running;

    const NONE: Executed = Executed { applied: 0, stale: 0, failed: 0 };
    const SOME: Executed = Executed { applied: 3, stale: 2, failed: 1 };

    fn start(run_id: &str) -> RunStart<'_> {
        let kind = RunKind::Undo;
        RunStart { run_id, kind, plan_id: None, target: Some("m1"), holder: "host 7", at: "t1" }
    }

    fn writes(connection: &Connection) -> Writes<'_> {
        Writes::new(connection, std::path::Path::new("brain.db"))
    }

    fn begin(connection: &Connection, run_id: &str) {
        writes(connection).begin(&start(run_id)).unwrap();
    }

    fn finish(connection: &Connection, run_id: &str, state: RunState) {
        writes(connection).finish_run(run_id, state, "t3", SOME).unwrap();
    }

    fn begin_ended(connection: &Connection, run_id: &str) {
        let start = RunStart { kind: RunKind::Save, ..start(run_id) };
        assert_eq!(writes(connection).begin_ended_run(&start).unwrap(), run_id);
    }

    fn three_runs() -> Connection {
        let connection = store();
        for run_id in ["r1", "r2", "r3"] {
            begin(&connection, run_id);
            finish(&connection, run_id, RunState::Done);
        }
        connection
    }

    #[test]
    fn a_run_is_listed_with_what_became_of_it() {
        let connection = store();
        begin(&connection, "r1");
        writes(&connection).beat("r1", "t2", SOME).unwrap();
        let alive = running(&connection).unwrap().unwrap();
        assert_eq!((&*alive.run_id, &*alive.heartbeat_at, &*alive.holder), ("r1", "t2", "host 7"));
        finish(&connection, "r1", RunState::Partial);
        assert_eq!(running(&connection).unwrap(), None);
        connection
            .execute_batch(
                "INSERT INTO memfold_units(run_id, unit, state, digests, at) VALUES
                 ('r1', 0, 'applied', '{}', 't'), ('r1', 1, 'undone', '{}', 't'),
                 ('r2', 0, 'undone', '{}', 't');",
            )
            .unwrap();
        let listed = list_runs(&connection).unwrap();
        assert_eq!(listed.len(), 1);
        let run = &listed[0];
        assert_eq!((&*run.kind, &*run.state), ("undo", "partial"));
        assert_eq!((run.executed, run.units, run.undone), (SOME, 2, 1));
        assert_eq!((run.target.as_deref(), run.finished_at.as_deref()), (Some("m1"), Some("t3")));
    }

    #[test]
    fn a_run_that_ended_stays_as_it_is() {
        let connection = three_runs();
        let before = list_runs(&connection).unwrap();
        assert!(writes(&connection).beat("r1", "t9", NONE).is_err());
        assert!(writes(&connection).finish_run("r1", RunState::Failed, "t9", NONE).is_err());
        assert!(writes(&connection).mark_dead("t9").unwrap().is_empty());
        assert_eq!(list_runs(&connection).unwrap(), before);
    }

    #[test]
    fn runs_that_never_ended_were_interrupted() {
        let connection = store();
        begin(&connection, "r2");
        writes(&connection).beat("r2", "t2", SOME).unwrap();
        assert_eq!(writes(&connection).mark_dead("t3").unwrap(), ["r2"]);
        let run = list_runs(&connection).unwrap().remove(0);
        assert_eq!((&*run.state, run.executed), ("interrupted", SOME));
        begin(&connection, "r1");
        assert_eq!(verify_chain(&connection).unwrap(), None);
    }

    #[test]
    fn a_taken_id_gets_other_digits() {
        let connection = store();
        let wanted = "20260101T000000Z-0000000a";
        assert_eq!(writes(&connection).free_run_id(wanted).unwrap(), wanted);
        let mut seen = vec![wanted.to_owned()];
        for _ in 0..3 {
            begin(&connection, seen.last().unwrap());
            let next = writes(&connection).free_run_id(wanted).unwrap();
            assert_eq!(next, writes(&connection).free_run_id(wanted).unwrap());
            assert!(next.len() == wanted.len() && next.starts_with("20260101T000000Z-"), "{next}");
            assert!(!seen.contains(&next));
            seen.push(next);
        }
    }

    #[test]
    fn the_chain_covers_every_column() {
        let connection = store();
        let mut statement =
            connection.prepare("SELECT name FROM pragma_table_info('memfold_runs')").unwrap();
        let names: Vec<String> =
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        let covered: Vec<&str> = CHAINED.split(", ").collect();
        assert_eq!([&covered[..], &["chained"]].concat(), names);
        assert_eq!(names[TARGET_AT], "target");
    }

    #[test]
    fn whatever_changes_in_a_run_breaks_the_chain_after_it() {
        for column in CHAINED.split(", ").filter(|column| *column != "prev_hash") {
            let connection = three_runs();
            assert_eq!(verify_chain(&connection).unwrap(), None);
            let other = if column == "seq" { "-7" } else { "'other'" };
            let sql = format!("UPDATE memfold_runs SET {column} = {other} WHERE run_id = 'r1'");
            connection.execute(&sql, []).unwrap();
            let broken = verify_chain(&connection).unwrap().unwrap();
            assert_eq!(broken.run_id, "r2", "{column}");
            assert_ne!(broken.expected, broken.found);
        }
        for (sql, at) in [
            ("DELETE FROM memfold_runs WHERE run_id = 'r1'", "r2"),
            ("DELETE FROM memfold_runs WHERE run_id = 'r2'", "r3"),
            ("UPDATE memfold_schema SET store_uuid = 'other'", "r1"),
            ("UPDATE memfold_runs SET prev_hash = 'x' WHERE run_id = 'r2'", "r2"),
        ] {
            let connection = three_runs();
            connection.execute(sql, []).unwrap();
            assert_eq!(verify_chain(&connection).unwrap().unwrap().run_id, at, "{sql}");
        }
    }

    #[test]
    fn saves_may_come_while_a_run_is_under_way() {
        let connection = store();
        begin(&connection, "r1");
        for run_id in ["s1", "s2"] {
            begin_ended(&connection, run_id);
        }
        writes(&connection).beat("r1", "t5", SOME).unwrap();
        finish(&connection, "r1", RunState::Done);
        begin_ended(&connection, "s3");
        assert_eq!(verify_chain(&connection).unwrap(), None);
        connection.execute("DELETE FROM memfold_runs WHERE run_id = 'r1'", []).unwrap();
        assert_eq!(verify_chain(&connection).unwrap().unwrap().run_id, "s3");
    }

    #[test]
    fn runs_of_the_first_version_keep_their_chain() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(MIGRATIONS[0]).unwrap();
        connection
            .execute_batch("INSERT INTO memfold_schema VALUES (1, 'store_1', 't', '0')")
            .unwrap();
        let mut previous = hash(b"store_1");
        for run_id in ["r1", "r2"] {
            connection
                .execute(
                    "INSERT INTO memfold_runs(run_id, kind, state, holder, started_at, heartbeat_at,
                        engine_version, prev_hash) VALUES (?1, 'undo', 'done', 'h', 't', 't', '0', ?2)",
                    [run_id, &previous],
                )
                .unwrap();
            let sql = format!("SELECT {CHAINED} FROM memfold_runs ORDER BY seq DESC LIMIT 1");
            previous = connection.query_row(&sql, [], row_hash).unwrap();
        }
        migrate(&connection, || unreachable!(), "t").unwrap();
        begin(&connection, "r3");
        finish(&connection, "r3", RunState::Done);
        assert_eq!(verify_chain(&connection).unwrap(), None);
        connection.execute("UPDATE memfold_runs SET kind = 'x' WHERE run_id = 'r2'", []).unwrap();
        assert_eq!(verify_chain(&connection).unwrap().unwrap().run_id, "r3");
    }

    #[test]
    fn a_target_can_be_forgotten_without_breaking_the_chain() {
        let connection = three_runs();
        assert_eq!(forget_target(&connection, "m1").unwrap(), 3);
        assert_eq!(verify_chain(&connection).unwrap(), None);
        let run = list_runs(&connection).unwrap().remove(0);
        assert!(run.target.unwrap().starts_with("sha256:"));
    }
}
