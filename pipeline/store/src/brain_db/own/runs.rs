//! Runs and their audit chain. The caller holds the transaction.

use rusqlite::{Connection, OptionalExtension as _, Row as SqlRow, params};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

use crate::brain_db::own::tables::own_tables_exist;
use crate::brain_db::read::access::Columns;
use crate::brain_db::read::load::cell;
use crate::brain_db::write::session::{Session, SessionError, Writes};
use memfold_core::report::Executed;
use memfold_core::runs::{ChainBreak, RunKind, RunState, RunSummary};
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
    pub fn begin_run(&self, start: &RunStart<'_>) -> Result<String, SessionError> {
        self.write(|writes| {
            writes.query("begin the run", |connection| {
                mark_dead(connection, start.at)?;
                let run_id = free_run_id(connection, start.run_id)?;
                begin(connection, &RunStart { run_id: &run_id, ..*start })?;
                Ok(run_id)
            })
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
    ) -> Result<(), SessionError> {
        self.write(|writes| writes.finish_run(run_id, state, at, executed))
    }

    /// Tells whether no run executed anything on this store so far.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn is_first_execution(&self) -> Result<bool, SessionError> {
        self.read(|reads| {
            reads.query("read memfold_runs", |connection| {
                let sql = "SELECT 1 FROM memfold_runs WHERE kind = 'execute'";
                Ok(!own_tables_exist(connection)? || !connection.prepare_cached(sql)?.exists([])?)
            })
        })
    }
}

impl Writes<'_> {
    /// Records a run that holds no lock and takes units as they come: it ends where it begins, and
    /// how much it did follows from its units. Returns its id.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn begin_ended_run(&self, start: &RunStart<'_>) -> Result<String, SessionError> {
        self.query("begin the run", |connection| {
            let run_id = free_run_id(connection, start.run_id)?;
            begin_ended(connection, &RunStart { run_id: &run_id, ..*start })?;
            Ok(run_id)
        })
    }

    /// Records that a run is alive, and its progress.
    ///
    /// # Errors
    /// When the run is not under way, or the store cannot be written.
    pub fn beat(&self, run_id: &str, at: &str, executed: Executed) -> Result<(), SessionError> {
        self.query("write down the run", |connection| beat(connection, run_id, at, executed))
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
    ) -> Result<(), SessionError> {
        self.query("finish the run", |connection| finish(connection, run_id, state, at, executed))
    }

    /// Returns how many units a run applied; `None` where the run does not exist.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn applied_units(&self, run_id: &str) -> Result<Option<i64>, SessionError> {
        self.query("read memfold_runs", |connection| {
            let sql = "SELECT applied FROM memfold_runs WHERE run_id = ?1";
            connection.prepare_cached(sql)?.query_row([run_id], |row| row.get(0)).optional()
        })
    }
}

/// Records the start of a run.
pub(crate) fn begin(connection: &Connection, start: &RunStart<'_>) -> rusqlite::Result<()> {
    let RunStart { run_id, kind, plan_id, target, holder, at } = *start;
    connection
        .prepare_cached(
            "INSERT INTO memfold_runs(seq, run_id, kind, plan_id, target, state, holder, started_at,
                                      heartbeat_at, engine_version, prev_hash)
             VALUES ((SELECT ifnull(max(seq), 0) + 1 FROM memfold_runs),
                     ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7, ?8, '')",
        )?
        .execute(params![
            run_id,
            kind.name(),
            plan_id,
            target,
            RunState::Running.name(),
            holder,
            at,
            env!("CARGO_PKG_VERSION"),
        ])?;
    Ok(())
}

/// Records a run that holds no lock and takes units as they come: it ends where it begins, and how
/// much it did follows from its units.
fn begin_ended(connection: &Connection, start: &RunStart<'_>) -> rusqlite::Result<()> {
    begin(connection, start)?;
    end(connection, start.run_id, RunState::Done, start.at)
}

/// Ends a run: nothing of it changes from here on, and the chain covers it.
fn end(connection: &Connection, run_id: &str, state: RunState, at: &str) -> rusqlite::Result<()> {
    let previous = last_hash(connection)?;
    let changed = connection
        .prepare_cached(
            "UPDATE memfold_runs SET state = ?2, finished_at = ?3, prev_hash = ?4,
                    chained = (SELECT ifnull(max(chained), 0) + 1 FROM memfold_runs)
             WHERE run_id = ?1 AND chained IS NULL",
        )?
        .execute(params![run_id, state.name(), at, previous])?;
    one_row(changed)
}

/// Records that a run is alive, and its progress.
///
/// # Errors
/// When the run is not under way, and when SQLite refuses.
fn beat(
    connection: &Connection,
    run_id: &str,
    at: &str,
    executed: Executed,
) -> rusqlite::Result<()> {
    let changed = connection.execute(
        "UPDATE memfold_runs SET heartbeat_at = ?2, applied = ?3, stale = ?4, failed = ?5
         WHERE run_id = ?1 AND state = 'running'",
        params![run_id, at, executed.applied as i64, executed.stale as i64, executed.failed as i64],
    )?;
    one_row(changed)
}

/// Records the end of a run.
///
/// # Errors
/// When the run is not under way, and when SQLite refuses.
pub(crate) fn finish(
    connection: &Connection,
    run_id: &str,
    state: RunState,
    at: &str,
    executed: Executed,
) -> rusqlite::Result<()> {
    beat(connection, run_id, at, executed)?;
    end(connection, run_id, state, at)
}

/// Marks runs that never ended as interrupted, and returns their ids in their order. Only the
/// holder of the store's lock may call it.
fn mark_dead(connection: &Connection, at: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement =
        connection.prepare("SELECT run_id FROM memfold_runs WHERE chained IS NULL ORDER BY seq")?;
    let dead: Vec<String> =
        statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for run_id in &dead {
        end(connection, run_id, RunState::Interrupted, at)?;
    }
    Ok(dead)
}

/// Returns the wanted id, or the same time with other digits where the id is taken.
fn free_run_id(connection: &Connection, wanted: &str) -> rusqlite::Result<String> {
    let mut taken = connection.prepare("SELECT 1 FROM memfold_runs WHERE run_id = ?1")?;
    let time = wanted.rsplit_once('-').map_or(wanted, |(time, _)| time);
    let mut id = wanted.to_owned();
    while taken.exists([&id])? {
        id = format!("{time}-{}", &hash(id.as_bytes())[..ID_HEX]);
    }
    Ok(id)
}

/// Returns all runs, the first one first.
pub(crate) fn list_runs(connection: &Connection) -> rusqlite::Result<Vec<RunSummary>> {
    let mut statement = connection.prepare(
        "SELECT run_id, kind, plan_id, target, state, holder, started_at, finished_at,
                iif(kind = 'save',
                    (SELECT count(*) FROM memfold_units AS u WHERE u.run_id = r.run_id), applied),
                stale, failed,
                (SELECT count(*) FROM memfold_units AS u WHERE u.run_id = r.run_id),
                (SELECT count(*) FROM memfold_units AS u
                 WHERE u.run_id = r.run_id AND u.state = 'undone')
         FROM memfold_runs AS r ORDER BY seq",
    )?;
    statement.query_map([], summary)?.collect()
}

fn summary(row: &SqlRow<'_>) -> rusqlite::Result<RunSummary> {
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
    match connection.query_row(&sql, [], row_hash).optional()? {
        Some(hash) => Ok(hash),
        None => first_hash(connection),
    }
}

fn first_hash(connection: &Connection) -> rusqlite::Result<String> {
    let sql = "SELECT store_uuid FROM memfold_schema LIMIT 1";
    let store_id: String = connection.query_row(sql, [], |row| row.get(0))?;
    Ok(hash(store_id.as_bytes()))
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

fn one_row(changed: usize) -> rusqlite::Result<()> {
    if changed == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(changed)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain_db::own::tables::{MIGRATIONS, migrate};
    use crate::brain_db::write::beside::running;

    const NONE: Executed = Executed { applied: 0, stale: 0, failed: 0 };
    const SOME: Executed = Executed { applied: 3, stale: 2, failed: 1 };

    fn store() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection, || Ok("store_1".to_owned()), "t").unwrap();
        connection
    }

    fn start(run_id: &str) -> RunStart<'_> {
        let kind = RunKind::Undo;
        RunStart { run_id, kind, plan_id: None, target: Some("m1"), holder: "host 7", at: "t1" }
    }

    fn three_runs() -> Connection {
        let connection = store();
        for run_id in ["r1", "r2", "r3"] {
            begin(&connection, &start(run_id)).unwrap();
            finish(&connection, run_id, RunState::Done, "t2", SOME).unwrap();
        }
        connection
    }

    #[test]
    fn a_run_is_listed_with_what_became_of_it() {
        let connection = store();
        begin(&connection, &start("r1")).unwrap();
        beat(&connection, "r1", "t2", SOME).unwrap();
        let alive = running(&connection).unwrap().unwrap();
        assert_eq!((&*alive.run_id, &*alive.heartbeat_at, &*alive.holder), ("r1", "t2", "host 7"));
        finish(&connection, "r1", RunState::Partial, "t3", SOME).unwrap();
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
        assert!(beat(&connection, "r1", "t9", NONE).is_err());
        assert!(finish(&connection, "r1", RunState::Failed, "t9", NONE).is_err());
        assert!(mark_dead(&connection, "t9").unwrap().is_empty());
        assert_eq!(list_runs(&connection).unwrap(), before);
    }

    #[test]
    fn runs_that_never_ended_were_interrupted() {
        let connection = store();
        begin(&connection, &start("r2")).unwrap();
        beat(&connection, "r2", "t2", SOME).unwrap();
        assert_eq!(mark_dead(&connection, "t3").unwrap(), ["r2"]);
        let run = list_runs(&connection).unwrap().remove(0);
        assert_eq!((&*run.state, run.executed), ("interrupted", SOME));
        begin(&connection, &start("r1")).unwrap();
        assert_eq!(verify_chain(&connection).unwrap(), None);
    }

    #[test]
    fn a_taken_id_gets_other_digits() {
        let connection = store();
        let wanted = "20260101T000000Z-0000000a";
        assert_eq!(free_run_id(&connection, wanted).unwrap(), wanted);
        let mut seen = vec![wanted.to_owned()];
        for _ in 0..3 {
            begin(&connection, &start(seen.last().unwrap())).unwrap();
            let next = free_run_id(&connection, wanted).unwrap();
            assert_eq!(next, free_run_id(&connection, wanted).unwrap());
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
        begin(&connection, &start("r1")).unwrap();
        for run_id in ["s1", "s2"] {
            begin_ended(&connection, &RunStart { kind: RunKind::Save, ..start(run_id) }).unwrap();
        }
        beat(&connection, "r1", "t5", SOME).unwrap();
        finish(&connection, "r1", RunState::Done, "t6", SOME).unwrap();
        begin_ended(&connection, &RunStart { kind: RunKind::Save, ..start("s3") }).unwrap();
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
        begin(&connection, &start("r3")).unwrap();
        finish(&connection, "r3", RunState::Done, "t2", SOME).unwrap();
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
