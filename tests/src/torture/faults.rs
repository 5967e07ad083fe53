//! Failures of every k-th call that writes or asks for a lock.

use std::path::Path;

use serde::Serialize;

use super::memfold::{self, Ended, finish};
use super::{Calls, Fault, FaultKind, Fixture, Phase, Shim};
use crate::Draws;

/// Exit codes allowed on a failing disk: done in spite of it, failed, partial, locked.
const EXPECTED_CODES: [i32; 4] = [0, 1, 4, 5];

/// How long a disturbed command waits for a lock, in milliseconds.
const BUSY_TIMEOUT_MS: u32 = 40;

/// The counts of one kind of failure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultReport {
    /// The failure.
    pub kind: FaultKind,
    /// The command whose calls failed.
    pub command: &'static str,
    /// Calls of an undisturbed command.
    pub calls: u64,
    /// Distance between two failing calls; each failed once alone and once with all that followed.
    pub stride: u64,
    /// Failures injected.
    pub injected: u64,
    /// Commands that did all their work in spite of it.
    pub done: u64,
    /// Commands that reported the work they had to leave undone.
    pub refused: u64,
    /// Commands that were killed.
    pub killed: u64,
}

/// Which calls fail.
#[derive(Debug, Clone, Copy)]
pub struct Sweep {
    /// In which way.
    pub kind: FaultKind,
    /// During which command.
    pub phase: Phase,
    /// How many calls are tried at most, spread evenly.
    pub calls_max: u64,
}

/// Lets calls fail one by one, each with a store of its own, and recovers from each.
///
/// # Errors
/// The broken promise, and how to reproduce it.
pub fn run(fixture: &Fixture<'_>, shim: &Shim, sweep: Sweep) -> Result<FaultReport, String> {
    let calls = count(fixture, shim, sweep)?;
    let stride = calls.div_ceil(sweep.calls_max.max(1)).max(1);
    let mut report = FaultReport {
        kind: sweep.kind,
        command: if sweep.phase == Phase::Execute { "consolidate --execute" } else { "undo" },
        calls,
        stride,
        injected: 0,
        done: 0,
        refused: 0,
        killed: 0,
    };
    let mut draws = Draws::new(fixture.options.seed);
    let mut at = 1 + draws.below(stride);
    while at <= calls {
        for is_sticky in [false, true] {
            let fault = Fault { kind: sweep.kind, at, is_sticky };
            if is_sticky && sweep.kind == FaultKind::Kill {
                continue;
            }
            trial(fixture, shim, sweep.phase, fault, &mut draws, &mut report)
                .map_err(|error| format!("{fault:?} of {:?}: {error}", fixture.options))?;
        }
        at += stride;
    }
    Ok(report)
}

/// Counts the calls of an undisturbed command.
fn count(fixture: &Fixture<'_>, shim: &Shim, sweep: Sweep) -> Result<u64, String> {
    let trial = sweep.phase.trial(fixture);
    let mut command = fixture.memfold.command(&arguments(fixture, sweep, &trial.path));
    let counter = shim.count(&mut command, &trial.path, sweep.kind.calls());
    let ended = finish(command);
    sweep.phase.check_done(fixture, &trial.path)?;
    let digits = std::fs::read_to_string(counter).unwrap_or_default();
    let calls = digits.trim().parse().unwrap_or(0);
    if ended.code != Some(0) || calls == 0 {
        return Err(format!("{calls} calls were counted: {}", ended.summary()));
    }
    Ok(calls)
}

fn arguments(fixture: &Fixture<'_>, sweep: Sweep, store: &Path) -> Vec<String> {
    let mut arguments = sweep.phase.command(fixture, store);
    if sweep.kind.calls() == Calls::Locks {
        let setting = format!("busy_timeout_ms={BUSY_TIMEOUT_MS}");
        arguments.extend(memfold::strings(&["--set", &setting]));
    }
    arguments
}

fn trial(
    fixture: &Fixture<'_>,
    shim: &Shim,
    phase: Phase,
    fault: Fault,
    draws: &mut Draws,
    report: &mut FaultReport,
) -> Result<(), String> {
    let recovery = phase.draw(draws);
    let trial = phase.trial(fixture);
    let sweep = Sweep { kind: fault.kind, phase, calls_max: 0 };
    let mut command = fixture.memfold.command(&arguments(fixture, sweep, &trial.path));
    shim.inject(&mut command, &trial.path, fault);
    let ended = finish(command);
    let context = |error: String| format!("{phase:?} ({}): {error}", ended.summary());
    check_end(fixture, phase, &trial.path, &ended, fault).map_err(context)?;
    recovery.recover(phase, fixture, &trial.path).map_err(context)?;
    report.injected += 1;
    match ended.code {
        Some(0) => report.done += 1,
        Some(_) => report.refused += 1,
        None => report.killed += 1,
    }
    Ok(())
}

fn check_end(
    fixture: &Fixture<'_>,
    phase: Phase,
    store: &Path,
    ended: &Ended,
    fault: Fault,
) -> Result<(), String> {
    match ended.code {
        Some(0) => phase.check_done(fixture, store),
        Some(code) if EXPECTED_CODES.contains(&code) && !ended.err.is_empty() => Ok(()),
        None if fault.kind == FaultKind::Kill => Ok(()),
        _ => Err("the command did not end as it should".to_owned()),
    }
}
