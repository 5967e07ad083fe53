//! Writers with the owner's habits beside memfold.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memfold::machine::Stopwatch;
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};
use serde::Serialize;

use super::reader::execute_and_undo;
use super::{Fixture, Waits};
use crate::{Draws, integrity};

/// How long a writer waits for the lock, as the owner does.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A writer rests up to this long between two transactions.
const REST_MICROSECONDS: u64 = 20_000;

/// How many, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Beside {
    /// Writers.
    pub writers: u64,
    /// Rounds of execute and undo go on for at least this long.
    pub duration: Duration,
}

/// The counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WritersReport {
    /// Writers beside memfold.
    pub writers: u64,
    /// Runs with their undo.
    pub rounds: u64,
    /// Rows inserted and found at the end.
    pub inserted: u64,
    /// Texts changed and found at the end.
    pub edited: u64,
    /// Accesses counted and found at the end.
    pub bumped: u64,
    /// Transactions that met a lock for longer than the timeout.
    pub lock_errors: u64,
    /// Waits for the lock beside memfold.
    pub waits: Waits,
    /// Waits of the same writers without memfold.
    pub waits_alone: Waits,
    /// How long all took.
    pub seconds: f64,
}

/// Records the work, once it is committed.
type Note = Box<dyn FnOnce(&mut Done)>;

/// The work of a writer.
#[derive(Default)]
struct Done {
    texts: BTreeMap<String, String>,
    edited: u64,
    bumps: BTreeMap<String, i64>,
    waits: Vec<f64>,
    lock_errors: u64,
}

/// Lets writers write, first alone for a tenth of the time, then beside repeated execute and undo,
/// and compares the store's contents with their writes.
///
/// # Errors
/// An update that was lost, a lock error, a command that failed, or a damaged store.
pub fn run(fixture: &Fixture<'_>, beside: Beside) -> Result<WritersReport, String> {
    let clock = Stopwatch::start();
    let trial = fixture.fresh();
    let mut counts = access_counts(&trial.path)?;
    let (alone, _) = write(fixture, &trial.path, beside, false)?;
    let (together, rounds) = write(fixture, &trial.path, beside, true)?;
    let mut report = WritersReport { writers: beside.writers, rounds, ..WritersReport::default() };
    for done in alone.iter().chain(&together) {
        report.inserted += done.texts.len() as u64;
        report.edited += done.edited;
        report.bumped += done.bumps.values().sum::<i64>() as u64;
        report.lock_errors += done.lock_errors;
        for (id, bumps) in &done.bumps {
            *counts.entry(id.clone()).or_insert(0) += bumps;
        }
        check_texts(&trial.path, &done.texts)?;
    }
    check_counts(&counts, &access_counts(&trial.path)?)?;
    super::fixture::expect_none("integrity", integrity(&trial.path))?;
    let waits = |all: &[Done]| {
        Waits::of(&all.iter().flat_map(|done| done.waits.iter().copied()).collect::<Vec<_>>())
    };
    (report.waits_alone, report.waits) = (waits(&alone), waits(&together));
    report.seconds = clock.seconds();
    if report.lock_errors > 0 {
        return Err(format!("{} lock errors: {report:?}", report.lock_errors));
    }
    Ok(report)
}

/// Runs all writers; with memfold until the time is over, and to the end of its round.
fn write(
    fixture: &Fixture<'_>,
    store: &Path,
    beside: Beside,
    with_memfold: bool,
) -> Result<(Vec<Done>, u64), String> {
    let (stop, never) = (AtomicBool::new(false), AtomicBool::new(false));
    let ids: Vec<&str> = fixture.facts.iter().map(|fact| &*fact.id).collect();
    let clock = Stopwatch::start();
    std::thread::scope(|scope| {
        let start = |number| {
            let seed = fixture.options.seed ^ (number << 1 | u64::from(with_memfold));
            let writer = Writer { number, with_memfold, ids: &ids, draws: Draws::new(seed) };
            let stop = &stop;
            scope.spawn(move || writer.run(store, stop))
        };
        let writers: Vec<_> = (0..beside.writers).map(start).collect();
        let mut rounds = 0;
        let mut driven = Ok(());
        if with_memfold {
            while driven.is_ok() && clock.seconds() < beside.duration.as_secs_f64() {
                driven = execute_and_undo(fixture, store, &never);
                rounds += 1;
            }
        } else {
            std::thread::sleep(beside.duration / 10);
        }
        stop.store(true, Ordering::SeqCst);
        let ended = writers.into_iter().map(|writer| {
            writer.join().map_err(|_| "a writer panicked".to_owned())?.map_err(|e| e.to_string())
        });
        let done: Result<Vec<Done>, String> = ended.collect();
        driven?;
        Ok((done?, rounds))
    })
}

struct Writer<'a> {
    number: u64,
    with_memfold: bool,
    ids: &'a [&'a str],
    draws: Draws,
}

impl Writer<'_> {
    fn run(mut self, store: &Path, stop: &AtomicBool) -> rusqlite::Result<Done> {
        let mut connection = Connection::open(store)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "foreign_keys", "ON")?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        let mut done = Done::default();
        while !stop.load(Ordering::SeqCst) {
            let clock = Stopwatch::start();
            let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
            done.waits.push(clock.seconds());
            match begun {
                Ok(transaction) => {
                    let note = self.act(&transaction, &mut done)?;
                    transaction.commit()?;
                    note(&mut done);
                }
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                    done.lock_errors += 1;
                }
                Err(error) => return Err(error),
            }
            std::thread::sleep(Duration::from_micros(self.draws.below(REST_MICROSECONDS)));
        }
        Ok(done)
    }

    /// Does one thing.
    fn act(&mut self, connection: &Connection, done: &mut Done) -> rusqlite::Result<Note> {
        match self.draws.below(4) {
            0 => self.insert(connection),
            1 if !done.texts.is_empty() => self.edit(connection, done),
            _ => self.bump(connection),
        }
    }

    fn insert(&mut self, connection: &Connection) -> rusqlite::Result<Note> {
        let id = format!("stm_{:012x}", self.draws.next_u64() >> 16);
        let content = self.text();
        connection.execute(
            "INSERT INTO stm (id, content, categories, importance, access_count, created_at, source)
             VALUES (?1, ?2, '[\"general\"]', 1.0, 0, '2026-06-30T11:59:59.000001', 'agent')",
            params![id, content],
        )?;
        connection.execute(
            "INSERT INTO stm_fts (rowid, content) VALUES (?1, ?2)",
            params![connection.last_insert_rowid(), content],
        )?;
        Ok(Box::new(move |done| {
            done.texts.insert(id, content);
        }))
    }

    /// Changes a text of this writer, as an owner does that keeps its index right.
    fn edit(&mut self, connection: &Connection, done: &Done) -> rusqlite::Result<Note> {
        let at = self.draws.below(done.texts.len() as u64) as usize;
        let Some((id, old)) = done.texts.iter().nth(at).map(|(id, old)| (id.clone(), old.clone()))
        else {
            return self.bump(connection);
        };
        let content = self.text();
        let rowid: i64 =
            connection.query_row("SELECT rowid FROM stm WHERE id = ?1", [&id], |row| row.get(0))?;
        let delete = "INSERT INTO stm_fts (stm_fts, rowid, content) VALUES ('delete', ?1, ?2)";
        connection.execute(delete, params![rowid, old])?;
        connection.execute(
            "INSERT INTO stm_fts (rowid, content) VALUES (?1, ?2)",
            params![rowid, content],
        )?;
        connection.execute(
            "UPDATE stm SET content = ?1, updated_at = '2026-06-30T12:00:01.5' WHERE id = ?2",
            params![content, id],
        )?;
        Ok(Box::new(move |done| {
            done.texts.insert(id, content);
            done.edited += 1;
        }))
    }

    fn bump(&mut self, connection: &Connection) -> rusqlite::Result<Note> {
        let id = self.draws.pick(self.ids).to_owned();
        let found = connection.execute(
            "UPDATE stm SET access_count = coalesce(access_count, 0) + 1 WHERE id = ?1",
            [&id],
        )?;
        Ok(Box::new(move |done| {
            // Of a memory that moved away, SQLite tells the writer that no row was there to count in.
            if found > 0 {
                *done.bumps.entry(id).or_insert(0) += 1;
            }
        }))
    }

    /// A text that nobody else writes.
    fn text(&mut self) -> String {
        let kind = if self.with_memfold { "beside" } else { "alone" };
        format!("Writer {} {kind} noted the number {}.", self.number, self.draws.next_u64())
    }
}

fn access_counts(store: &Path) -> Result<BTreeMap<String, i64>, String> {
    let read = || -> rusqlite::Result<BTreeMap<String, i64>> {
        let connection = Connection::open(store)?;
        let sql = "SELECT id, coalesce(access_count, 0) FROM stm
                   WHERE typeof(id) = 'text' AND id LIKE 'stm\\_%' ESCAPE '\\'";
        let mut statement = connection.prepare(sql)?;
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
    };
    read().map_err(|error| error.to_string())
}

fn check_counts(
    expected: &BTreeMap<String, i64>,
    found: &BTreeMap<String, i64>,
) -> Result<(), String> {
    let differ = |(id, expected): (&String, &i64)| {
        let found = found.get(id);
        (found != Some(expected)).then(|| format!("{id}: {expected} accesses, found {found:?}"))
    };
    let mut lost: Vec<String> = expected.iter().filter_map(differ).collect();
    lost.truncate(20);
    super::fixture::expect_none("lost updates", lost)
}

/// Fails where a text is not in its row, or not found by its words.
pub(super) fn check_texts(store: &Path, expected: &BTreeMap<String, String>) -> Result<(), String> {
    let check = || -> rusqlite::Result<Vec<String>> {
        let connection = Connection::open(store)?;
        let mut by_id =
            connection.prepare("SELECT rowid FROM stm WHERE id = ?1 AND content = ?2")?;
        let mut by_words = connection
            .prepare("SELECT count(*) FROM stm_fts WHERE stm_fts MATCH ?1 AND rowid = ?2")?;
        let mut lost = Vec::new();
        for (id, text) in expected {
            let mut rows = by_id.query([id, text])?;
            let rowid: Option<i64> = rows.next()?.map(|row| row.get(0)).transpose()?;
            let words = format!("\"{}\"", crate::tokens(text).join(" "));
            let hits: i64 = match rowid {
                Some(rowid) => by_words.query_row(params![words, rowid], |row| row.get(0))?,
                None => 0,
            };
            if hits != 1 {
                lost.push(format!("{id}: {text:?}"));
            }
        }
        lost.truncate(20);
        Ok(lost)
    };
    super::fixture::expect_none("lost texts", check().map_err(|error| error.to_string())?)
}
