//! The commands, one file each, and the way from what was typed to the exit code.

pub(crate) mod apply;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod consolidate;
pub(crate) mod convert;
pub(crate) mod dedup;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod embed;
pub(crate) mod explain;
pub(crate) mod explain_memory;
pub(crate) mod export;
pub(crate) mod forget;
pub(crate) mod generate;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod outputs;
pub(crate) mod plans;
pub(crate) mod prune;
pub(crate) mod quick;
pub(crate) mod flags;
pub(crate) mod resolve;
pub(crate) mod restore;
pub(crate) mod review;
pub(crate) mod run_files;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod undo;
pub(crate) mod vector;
pub(crate) mod writing;

use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use crate::args::{Cli, Command, GlobalArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{self, Printer};
use crate::settings;

/// Runs `memfold` with the arguments of this process.
#[must_use]
pub fn run() -> ExitCode {
    let typed: Vec<OsString> = std::env::args_os().collect();
    match Cli::parse_typed(&typed) {
        Ok(cli) => finish(&cli.global, |printer| run_command(&cli.global, cli.command, printer)),
        Err(error) => Exit::of_usage(&error, &typed),
    }
}

/// Runs a command with a printer as the options want it, and shows why it failed.
pub fn finish(
    global: &GlobalArgs,
    command: impl FnOnce(Printer) -> Result<Exit, Failure>,
) -> ExitCode {
    std::panic::set_hook(Box::new(printer::panicked));
    refuse_large_writes();
    let printer = Printer::new(global.quiet, global.verbose, global.no_progress);
    let run = || settings::check_isa().and_then(|()| command(printer));
    match std::panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(exit)) => exit.into(),
        Ok(Err(failure)) => {
            printer.failure(&failure);
            failure.exit.into()
        }
        // What went wrong is told already.
        Err(_) => Exit::Failure.into(),
    }
}

/// Makes a write beyond the limit on the size of files (`ulimit -f`) fail with an error that can be told; the signal
/// that comes with it would end the process in the middle of its work. Threads made from now on inherit this.
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

fn run_command(global: &GlobalArgs, command: Command, printer: Printer) -> Result<Exit, Failure> {
    match command {
        Command::Demo(args) => demo::run(global, &args, printer),
        Command::Consolidate(args) => consolidate::run(global, &args, printer),
        Command::Plans(args) => plans::run(global, &args, printer),
        Command::Review(args) => review::run(global, &args, printer),
        Command::Apply(args) => apply::run(global, &args, printer),
        Command::Undo(args) => undo::run(global, &args, printer),
        Command::Check(args) => quick::check::run(global, &args, printer),
        Command::Save(args) => quick::save::run(global, &args, printer),
        Command::Search(args) => search::run(global, &args, printer),
        Command::Index(args) => index::run(global, &args, printer),
        Command::Dedup(args) => dedup::run(global, &args, printer),
        Command::Embed(args) => embed::run(global, &args, printer),
        Command::Export(args) => export::run(global, &args, printer),
        Command::Import(args) => import::run(global, &args, printer),
        Command::Convert(args) => convert::run(global, &args, printer),
        Command::Generate(args) => generate::run(global, &args, printer),
        Command::Explain(args) => explain::run(global, &args, printer),
        Command::Runs(args) => runs::run(global, &args, printer),
        Command::Bench(args) => bench::run(global, &args, printer),
        Command::Flags(args) => flags::run(global, &args, printer),
        Command::Resolve(args) => resolve::run(global, &args, printer),
        Command::Restore(args) => restore::run(global, &args, printer),
        Command::Forget(args) => forget::run(global, &args, printer),
        Command::Prune(args) => prune::run(global, &args, printer),
        Command::Doctor(args) => doctor::run(global, &args, printer),
        Command::Config(args) => config::run(global, &args, printer),
        Command::Completions(args) => completions::run(&args, printer),
        Command::Man(args) => man::run(&args, printer),
    }
}
