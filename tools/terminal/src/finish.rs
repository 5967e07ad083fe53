//! The frame of every program around its command: the options of its output, signals, panics, the
//! exit code.

use std::num::NonZeroUsize;
use std::panic::AssertUnwindSafe;

use clap::ValueEnum;
use memfold_simd::Level;

use crate::failure::{Exit, Failure};
use crate::printer::{self, Printer};

/// How lines on stderr look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    #[default]
    Text,
    /// One JSON object on each line
    Json,
}

/// The options of a run's output.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shown {
    /// Errors only.
    pub quiet: bool,
    /// 1: also details, and a line for each stage; 2: also when stages begin.
    pub verbose: u8,
    /// No progress bars.
    pub no_progress: bool,
    /// How lines on stderr look.
    pub log_format: LogFormat,
}

/// Returns a parser of whole numbers from `least` to `most`.
pub fn whole<T>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: TryFrom<u64>,
{
    move |typed| {
        let number = typed.trim().parse::<u64>().ok();
        let number = number.filter(|number| (least..=most).contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            // An upper bound that nobody can hit is left out.
            if most > u64::from(u32::MAX) {
                format!("expected a whole number, {least} or more")
            } else {
                format!("expected a whole number from {least} to {most}")
            }
        })
    }
}

/// Reads a number of threads.
///
/// # Errors
/// When it is not a number, or 0.
pub fn threads(typed: &str) -> Result<NonZeroUsize, String> {
    let expected = || "expected a whole number, 1 or more".to_owned();
    NonZeroUsize::new(whole(1, u64::MAX)(typed)?).ok_or_else(expected)
}

/// Runs a command with a printer as the options want it, and shows why it failed.
pub fn finish(shown: Shown, command: impl FnOnce(Printer) -> Result<Exit, Failure>) -> Exit {
    std::panic::set_hook(Box::new(printer::panicked));
    refuse_large_writes();
    let is_json = shown.log_format == LogFormat::Json;
    let printer = Printer::new(shown.quiet, shown.verbose > 0, shown.no_progress || is_json);
    let printer = printer.logging_json(is_json);
    let run = || check_isa().and_then(|()| command(printer));
    match std::panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(exit)) => exit,
        Ok(Err(failure)) => {
            printer.failure(&failure);
            failure.kind.into()
        }
        // The error was printed by the panic hook.
        Err(_) => Exit::Failure,
    }
}

/// Refuses an ISA level that `MEMFOLD_ISA` names and this machine lacks.
fn check_isa() -> Result<(), Failure> {
    Level::requested().map(drop).map_err(|error| Failure::of("choose the kernels", &error))
}

/// Makes a write beyond the limit on the size of files (`ulimit -f`) fail with an error that can be
/// reported; the signal that comes with it would end the process in the middle of its work. Threads
/// made from now on inherit this.
fn refuse_large_writes() {
    #[cfg(unix)]
    {
        use nix::sys::signal::{SigSet, Signal};
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGXFSZ);
        // Where it cannot be blocked, it ends the process as before.
        let _ = blocked.thread_block();
    }
}
