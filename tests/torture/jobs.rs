//! The suites and their sizes.

use std::path::PathBuf;
use std::time::Duration;

use memfold::machine::Stopwatch;
use memfold_tests::torture::faults::{self, Sweep};
use memfold_tests::torture::kills::{self, KillReport, Signal};
use memfold_tests::torture::writers::{self, Beside};
use memfold_tests::torture::{
    FaultKind, Fixture, FixtureOptions, Location, Memfold, Phase, Shim, python, reader,
};
use serde_json::{Value, json};

use crate::say;

/// Names of the suites, in the order in which they run.
pub(crate) const SUITES: [&str; 4] = ["kill", "faults", "writers", "reader"];

const SEED: u64 = 20_260_630;

/// Trials of one report of progress.
const CHUNK: u64 = 10;

/// The writers of another program wait no longer than this, but for one time in a hundred.
const PYTHON_WAIT_P99_MS: f64 = 250.0;

/// The jobs to run.
pub(crate) struct Jobs {
    pub(crate) binary: PathBuf,
    pub(crate) full: bool,
    pub(crate) only: Option<String>,
    /// Kills, where not as many as usual.
    pub(crate) trials: Option<u64>,
}

type Print<'p> = &'p mut dyn FnMut(&str);

impl Jobs {
    /// Runs the wanted suites; each gives at least one line.
    pub(crate) fn run(&self, print: Print<'_>) -> Result<(), String> {
        let memfold = Memfold::new(&self.binary);
        for suite in SUITES {
            if self.only.as_deref().is_some_and(|only| only != suite) {
                continue;
            }
            say(&format!("torture: {suite}"));
            let ran = match suite {
                "kill" => self.kill(&memfold, print),
                "faults" => self.faults(&memfold, print),
                "writers" => self.writers(&memfold, print),
                _ => self.reader(&memfold, print),
            };
            ran.map_err(|reason| format!("{suite}: {reason}"))?;
        }
        Ok(())
    }

    fn kill(&self, memfold: &Memfold, print: Print<'_>) -> Result<(), String> {
        let (rows, trials) = if self.full { (5_000, 1_000) } else { (1_000, 100) };
        let trials = self.trials.unwrap_or(trials);
        let clock = Stopwatch::start();
        let options = FixtureOptions { rows, seed: SEED, wal: true, location: Location::Memory };
        let fixture = Fixture::new(memfold, options)?;
        let mut report = KillReport::default();
        // Each drives a process of its own, which sleeps half of the time to let others at the store.
        let lanes = 2 * std::thread::available_parallelism().map_or(2, usize::from) as u64;
        for from in (0..trials).step_by((CHUNK * lanes) as usize) {
            let fixture = &fixture;
            let lane = move |number: u64| {
                let start = from + number * CHUNK;
                kills::run(fixture, &Signal::ALL, start.min(trials)..(start + CHUNK).min(trials))
            };
            let ended: Vec<_> = std::thread::scope(|scope| {
                let started: Vec<_> = (0..lanes).map(|n| scope.spawn(move || lane(n))).collect();
                started.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
            });
            for lane in ended {
                report.add(&lane.map_err(|_| "a trial panicked".to_owned())??);
            }
            say(&format!("torture: kill: {} of {trials} trials", report.trials));
        }
        print(&line("kill", options, clock, &json!(report)));
        Ok(())
    }

    fn faults(&self, memfold: &Memfold, print: Print<'_>) -> Result<(), String> {
        let Some(shim) = Shim::build() else {
            say("torture: faults: skipped: no C compiler on Linux");
            return Ok(());
        };
        let calls_max = if self.full { u64::MAX } else { 12 };
        for wal in [true, false] {
            let options = FixtureOptions { rows: 60, seed: SEED, wal, location: Location::Memory };
            let fixture = Fixture::new(memfold, options)?;
            for kind in [FaultKind::NoSpace, FaultKind::Io, FaultKind::Busy, FaultKind::Kill] {
                for phase in Phase::ALL {
                    let clock = Stopwatch::start();
                    let report = faults::run(&fixture, &shim, Sweep { kind, phase, calls_max })?;
                    say(&format!(
                        "torture: faults: {kind:?} during {phase:?}, wal {wal}: {report:?}"
                    ));
                    print(&line("faults", options, clock, &json!(report)));
                }
            }
        }
        Ok(())
    }

    fn writers(&self, memfold: &Memfold, print: Print<'_>) -> Result<(), String> {
        let duration = Duration::from_secs(if self.full { 600 } else { 20 });
        let options = FixtureOptions { rows: 400, seed: SEED, wal: true, location: Location::Disk };
        let fixture = Fixture::new(memfold, options)?;
        let clock = Stopwatch::start();
        let report = writers::run(&fixture, Beside { writers: 10, duration })?;
        print(&line("writers", options, clock, &json!(report)));
        let clock = Stopwatch::start();
        let Some(report) = python::run(&fixture, duration / 10)? else {
            say("torture: writers: python: skipped: no python3 with sqlite3 and FTS5");
            return Ok(());
        };
        print(&line("python-writer", options, clock, &json!(report)));
        if report.waits.p99_ms >= PYTHON_WAIT_P99_MS {
            return Err(format!("python waited too long: {:?}", report.waits));
        }
        Ok(())
    }

    fn reader(&self, memfold: &Memfold, print: Print<'_>) -> Result<(), String> {
        let (rows, rounds) = if self.full { (5_000, 20) } else { (1_000, 4) };
        let options = FixtureOptions { rows, seed: SEED, wal: true, location: Location::Memory };
        let fixture = Fixture::new(memfold, options)?;
        let clock = Stopwatch::start();
        let report = reader::run(&fixture, rounds)?;
        print(&line("reader", options, clock, &json!(report)));
        Ok(())
    }
}

/// One line of results.
fn line(suite: &str, options: FixtureOptions, clock: Stopwatch, report: &Value) -> String {
    let mut line = json!({
        "suite": suite,
        "rows": options.rows,
        "seed": options.seed,
        "place": if options.location == Location::Memory { "memory" } else { "disk" },
        "journal_mode": if options.wal { "wal" } else { "delete" },
        "date": today(),
        "seconds": (clock.seconds() * 10.0).round() / 10.0,
    });
    if let (Some(line), Some(report)) = (line.as_object_mut(), report.as_object()) {
        for (name, value) in report {
            line.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
    line.to_string()
}

#[expect(clippy::disallowed_methods, reason = "a stored result carries its date")]
fn today() -> String {
    jiff::Zoned::now().date().to_string()
}
