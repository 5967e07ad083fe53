//! Signals at random instants.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use serde::Serialize;

use super::fixture::has_begun_to_write;
use super::memfold::Ended;
use super::{Fixture, Phase, Recovery};
use crate::Draws;
use memfold::machine::Stopwatch;

/// The exit code of a cancelled command.
const INTERRUPTED: i32 = 130;

/// The signal to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Signal {
    /// It dies on the spot.
    #[serde(rename = "SIGKILL")]
    Kill,
    /// Control-C.
    #[serde(rename = "SIGINT")]
    Interrupt,
    /// The system asks it to end.
    #[serde(rename = "SIGTERM")]
    Terminate,
}

/// When it is sent.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// Seconds.
    AfterStart(f64),
    /// Seconds.
    AfterFirstWrite(f64),
}

/// The counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct KillReport {
    /// Processes that were started to be disturbed.
    pub trials: u64,
    /// Processes that a signal ended or stopped, by signal.
    pub stopped: BTreeMap<Signal, u64>,
    /// Stopped processes that had begun to write.
    pub stopped_while_writing: u64,
    /// Processes that ended before the signal.
    pub ended_before: u64,
    /// Disturbed runs.
    pub during_execute: u64,
    /// Disturbed undos.
    pub during_undo: u64,
    /// End states equal to that of an undisturbed run.
    pub end_states_equal: u64,
    /// Stores undone to the original, bit by bit.
    pub undone: u64,
}

impl KillReport {
    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.trials += other.trials;
        for (&signal, count) in &other.stopped {
            *self.stopped.entry(signal).or_insert(0) += count;
        }
        self.stopped_while_writing += other.stopped_while_writing;
        self.ended_before += other.ended_before;
        self.during_execute += other.during_execute;
        self.during_undo += other.during_undo;
        self.end_states_equal += other.end_states_equal;
        self.undone += other.undone;
    }
}

/// Disturbs `count` commands, each at an instant that the seed and its number decide, and recovers from it.
///
/// # Errors
/// The broken promise, and how to reproduce it.
pub fn run(
    fixture: &Fixture<'_>,
    signals: &[Signal],
    numbers: std::ops::Range<u64>,
) -> Result<KillReport, String> {
    let mut report = KillReport::default();
    for number in numbers {
        let seed = fixture.options.seed ^ (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        trial(fixture, signals, &mut Draws::new(seed), &mut report)
            .map_err(|error| format!("trial {number} of {:?}: {error}", fixture.options))?;
    }
    Ok(report)
}

fn trial(
    fixture: &Fixture<'_>,
    signals: &[Signal],
    draws: &mut Draws,
    report: &mut KillReport,
) -> Result<(), String> {
    let phase = draws.pick(&Phase::ALL);
    let signal = draws.pick(signals);
    let recovery = phase.draw(draws);
    let moment = moment(fixture, phase, draws);
    let trial = phase.trial(fixture);
    let (ended, was_writing) = disturb(fixture, phase, &trial.path, signal, moment);
    let context = |error| {
        let code = ended.summary();
        let location = trial.path.display();
        format!("{signal:?} {moment:?} during {phase:?} ({code}) of {location}: {error}")
    };
    let stopped = check_end(fixture, phase, &trial.path, &ended, signal, was_writing);
    let stopped = stopped.map_err(context)?;
    recovery.recover(phase, fixture, &trial.path).map_err(context)?;
    report.trials += 1;
    if stopped {
        *report.stopped.entry(signal).or_insert(0) += 1;
        report.stopped_while_writing += u64::from(was_writing);
    } else {
        report.ended_before += 1;
    }
    match phase {
        Phase::Execute => report.during_execute += 1,
        Phase::Undo => report.during_undo += 1,
    }
    match recovery {
        Recovery::Undone => report.undone += 1,
        Recovery::Applied | Recovery::Replanned | Recovery::Redone => report.end_states_equal += 1,
    }
    Ok(())
}

/// One signal in four comes at any instant, the others while the command writes.
fn moment(fixture: &Fixture<'_>, phase: Phase, draws: &mut Draws) -> Moment {
    let which = usize::from(phase == Phase::Undo);
    match draws.below(4) {
        0 => Moment::AfterStart(fixture.whole_seconds[which] * draws.uniform()),
        _ => Moment::AfterFirstWrite(fixture.writing_seconds[which] * draws.uniform()),
    }
}

/// Starts the command and sends the signal; returns how it ended and whether it had begun to write.
fn disturb(
    fixture: &Fixture<'_>,
    phase: Phase,
    store: &Path,
    signal: Signal,
    moment: Moment,
) -> (Ended, bool) {
    let clock = Stopwatch::start();
    let mut child = fixture.memfold.spawn(&phase.command(fixture, store));
    let after = match moment {
        Moment::AfterStart(after) => after,
        Moment::AfterFirstWrite(after) => {
            while !has_begun_to_write(store) && matches!(child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_micros(100));
            }
            clock.seconds() + after
        }
    };
    std::thread::sleep(Duration::from_secs_f64((after - clock.seconds()).max(0.0)));
    let was_writing = has_begun_to_write(store);
    signal.send(&mut child);
    let output = child.wait_with_output().expect("a child can be waited for");
    (Ended::from(output), was_writing)
}

/// Checks the exit code against the work done; tells whether the signal came in time.
fn check_end(
    fixture: &Fixture<'_>,
    phase: Phase,
    store: &Path,
    ended: &Ended,
    signal: Signal,
    was_writing: bool,
) -> Result<bool, String> {
    match (ended.code, signal) {
        (Some(0), _) => phase.check_done(fixture, store).map(|()| false),
        (None, Signal::Kill) => Ok(true),
        // Before the handler stands.
        (None, _) if !was_writing => Ok(true),
        (Some(INTERRUPTED), Signal::Interrupt | Signal::Terminate) => Ok(true),
        _ => Err("the command did not end as it should".to_owned()),
    }
}

impl Signal {
    /// All.
    pub const ALL: [Self; 3] = [Self::Kill, Self::Interrupt, Self::Terminate];

    fn send(self, child: &mut Child) {
        let name = match self {
            Self::Kill => {
                // It may have ended on its own.
                let _ = child.kill();
                return;
            }
            Self::Interrupt => "INT",
            Self::Terminate => "TERM",
        };
        // Until it is waited for, its number is its own.
        let line = format!("kill -{name} {}", child.id());
        let _ = Command::new("sh").args(["-c", &line]).output();
    }
}
