//! Runs and undos that are killed, refused by the disk, watched and written beside: nothing is lost, and all of
//! it can be continued or undone. `python3 bench/measure.py torture` does the same at length.

use std::time::Duration;

use memfold_tests::torture::faults::{self, Sweep};
use memfold_tests::torture::kills::{self, Signal};
use memfold_tests::torture::writers::{self, Beside};
use memfold_tests::torture::{
    FaultKind, Fixture, FixtureOptions, Location, Memfold, Phase, Shim, python, reader,
};

/// Of every store and every instant here.
const SEED: u64 = 3;

fn memfold() -> Memfold {
    Memfold::new(env!("CARGO_BIN_EXE_memfold"))
}

fn fixture(memfold: &Memfold, rows: u32, wal: bool) -> Fixture<'_> {
    Fixture::new(memfold, FixtureOptions { rows, seed: SEED, wal, location: Location::Memory })
        .unwrap()
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

#[test]
fn a_killed_run_is_continued_or_undone() {
    let memfold = memfold();
    let fixture = fixture(&memfold, 400, true);
    let report = kills::run(&fixture, &[Signal::Kill], 0..10).unwrap();
    assert_eq!(report.trials, 10, "{report:?}");
    assert!(report.stopped_while_writing > 2, "{report:?}");
}

#[test]
fn a_run_that_is_asked_to_stop_ends_after_a_unit() {
    let memfold = memfold();
    let fixture = fixture(&memfold, 400, true);
    let signals = [Signal::Interrupt, Signal::Terminate];
    let report = kills::run(&fixture, &signals, 100..108).unwrap();
    assert!(report.stopped_while_writing > 1, "{report:?}");
}

fn sweep(kinds: &[FaultKind], wal: bool, calls_max: u64) {
    let Some(shim) = Shim::build() else { return skipped("no C compiler on Linux") };
    let memfold = memfold();
    let fixture = fixture(&memfold, 40, wal);
    for &kind in kinds {
        for phase in Phase::ALL {
            let report = faults::run(&fixture, &shim, Sweep { kind, phase, calls_max }).unwrap();
            assert!(report.injected + 1 >= calls_max, "{report:?}");
        }
    }
}

#[test]
fn a_failing_disk_loses_nothing() {
    sweep(&[FaultKind::NoSpace, FaultKind::Io], true, 8);
}

#[test]
fn a_failing_disk_loses_nothing_of_a_store_with_a_rollback_journal() {
    sweep(&[FaultKind::NoSpace, FaultKind::Io, FaultKind::Kill], false, 6);
}

#[test]
fn a_busy_store_is_left_as_it_is() {
    sweep(&[FaultKind::Busy], true, 3);
}

#[test]
fn death_at_a_write_loses_nothing() {
    sweep(&[FaultKind::Kill], true, 8);
}

#[test]
fn a_reader_finds_every_fact_at_every_instant() {
    let memfold = memfold();
    let fixture = fixture(&memfold, 400, true);
    let report = reader::run(&fixture, 2).unwrap();
    assert!(report.instants > 10, "{report:?}");
}

#[test]
fn writers_beside_a_run_lose_no_update() {
    let memfold = memfold();
    let fixture = fixture(&memfold, 200, true);
    let beside = Beside { writers: 10, duration: Duration::from_secs(3) };
    let report = writers::run(&fixture, beside).unwrap();
    assert!(report.inserted > 10 && report.edited > 3 && report.bumped > 10, "{report:?}");
}

#[test]
fn a_writer_in_python_works_on() {
    let memfold = memfold();
    let fixture = fixture(&memfold, 200, true);
    let Some(report) = python::run(&fixture, Duration::from_secs(2)).unwrap() else {
        return skipped("no python3 with sqlite3 and FTS5");
    };
    assert!(report.inserted > 10, "{report:?}");
}
