//! A reader that searches every fact, again and again, while memfold writes.

use std::sync::atomic::{AtomicBool, Ordering};

use ::memfold::machine::Stopwatch;
use serde::Serialize;

use super::Fixture;
use super::memfold;
use crate::{FactReader, StoreImage, diff};

/// Number of facts searched at one instant.
const WINDOW: usize = 48;

/// The counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ReaderReport {
    /// Instants at which the store was read.
    pub instants: u64,
    /// Facts that were searched and found, by words, vector and id.
    pub found: u64,
    /// Runs with their undo.
    pub rounds: u64,
    /// How long all took.
    pub seconds: f64,
}

/// Executes and undoes `rounds` times beside a reader.
///
/// # Errors
/// A fact that was not found at some instant, or a command that did not succeed.
pub fn run(fixture: &Fixture<'_>, rounds: u64) -> Result<ReaderReport, String> {
    let clock = Stopwatch::start();
    let trial = fixture.fresh();
    let stop = AtomicBool::new(false);
    let (driven, read) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| poll(fixture, &trial.path, &stop));
        let driven = (0..rounds).try_for_each(|_| execute_and_undo(fixture, &trial.path, &stop));
        stop.store(true, Ordering::SeqCst);
        (driven, reader.join())
    });
    driven?;
    let read = read.map_err(|_| "the reader panicked".to_owned())??;
    let image = StoreImage::of(&trial.path);
    super::fixture::expect_none("unlike the original", diff(&fixture.before, &image))?;
    Ok(ReaderReport { rounds, seconds: clock.seconds(), ..read })
}

fn poll(
    fixture: &Fixture<'_>,
    store: &std::path::Path,
    stop: &AtomicBool,
) -> Result<ReaderReport, String> {
    let mut reader = FactReader::open(store);
    let mut report = ReaderReport::default();
    let mut from = 0;
    while !stop.load(Ordering::SeqCst) {
        let facts: Vec<_> = fixture.facts.iter().cycle().skip(from).take(WINDOW).cloned().collect();
        let missing = reader.missing(&facts).map_err(|error| format!("the reader: {error}"));
        super::fixture::expect_none("not found meanwhile", missing?).inspect_err(|_| {
            stop.store(true, Ordering::SeqCst);
        })?;
        from = (from + WINDOW) % fixture.facts.len();
        report.instants += 1;
        report.found += WINDOW as u64;
    }
    Ok(report)
}

/// Runs and undoes until the stop flag is set.
pub(super) fn execute_and_undo(
    fixture: &Fixture<'_>,
    store: &std::path::Path,
    stop: &AtomicBool,
) -> Result<(), String> {
    if stop.load(Ordering::SeqCst) {
        return Ok(());
    }
    let executed = fixture.memfold.run(&memfold::execute(store));
    let failed = |what: &str, ended: &super::Ended| format!("{what}: {}", ended.summary());
    if !matches!(executed.code, Some(0 | 4)) {
        return Err(failed("execute", &executed));
    }
    let run = super::fixture::latest_run(store, "execute").map_err(|error| error.to_string())?;
    let Some(run) = run else { return Err("the run is not recorded".to_owned()) };
    let mut undo = memfold::undo(store, &run);
    // Else the next round would find nothing to do.
    undo.push("--remerge-ok".to_owned());
    let undone = fixture.memfold.run(&undo);
    if !matches!(undone.code, Some(0 | 4)) {
        return Err(failed("undo", &undone));
    }
    Ok(())
}
