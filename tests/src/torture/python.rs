//! A writer in Python, as the owner of a `brain.db` is one, beside memfold.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use memfold::machine::Stopwatch;
use serde::{Deserialize, Serialize};

use super::reader::execute_and_undo;
use super::writers::check_texts;
use super::{Fixture, Waits};
use crate::integrity;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/faults/writer.py");

/// The counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PythonReport {
    /// Python's version of SQLite.
    pub sqlite: String,
    /// Runs with their undo.
    pub rounds: u64,
    /// Rows inserted and found at the end.
    pub inserted: u64,
    /// Transactions that met a lock for longer than the timeout.
    pub lock_errors: u64,
    /// Waits for the lock.
    pub waits: Waits,
    /// How long all took.
    pub seconds: f64,
}

#[derive(Deserialize)]
struct Said {
    sqlite: String,
    waits: Vec<f64>,
    texts: BTreeMap<String, String>,
    lock_errors: u64,
}

/// Executes and undoes beside the writer for at least a time; `None` without Python, or without its SQLite.
///
/// # Errors
/// A row that was lost, a lock error, a command that failed, or a damaged store.
pub fn run(fixture: &Fixture<'_>, duration: Duration) -> Result<Option<PythonReport>, String> {
    if !has_python() {
        return Ok(None);
    }
    let clock = Stopwatch::start();
    let trial = fixture.fresh();
    let stop_file = trial.path.with_extension("stop");
    let writer = Command::new("python3")
        .arg(SCRIPT)
        .args([&trial.path, &stop_file])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("python3: {error}"))?;
    let mut rounds = 0;
    let mut driven = Ok(());
    while driven.is_ok() && clock.seconds() < duration.as_secs_f64() {
        driven = execute_and_undo(fixture, &trial.path, &AtomicBool::new(false));
        rounds += 1;
    }
    std::fs::write(&stop_file, "").map_err(|error| error.to_string())?;
    let output = writer.wait_with_output().map_err(|error| error.to_string())?;
    driven?;
    if !output.status.success() {
        return Err(format!("the writer: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let said: Said = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    check_texts(&trial.path, &said.texts)?;
    super::fixture::expect_none("integrity", integrity(&trial.path))?;
    let report = PythonReport {
        sqlite: said.sqlite,
        rounds,
        inserted: said.texts.len() as u64,
        lock_errors: said.lock_errors,
        waits: Waits::of(&said.waits),
        seconds: clock.seconds(),
    };
    if report.lock_errors > 0 {
        return Err(format!("{} lock errors: {report:?}", report.lock_errors));
    }
    Ok(Some(report))
}

fn has_python() -> bool {
    let probe = "import sqlite3; sqlite3.connect(':memory:').execute('CREATE VIRTUAL TABLE t USING fts5(a)')";
    let output = Command::new("python3").args(["-c", probe]).stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success())
}
