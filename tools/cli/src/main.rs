//! `memfold`: the command line. `main` is the table of contents; each command has its file.

mod age;
mod args;
mod commands;
mod document;
mod exit;
mod failure;
mod printer;
mod progress;
mod resources;
mod review;
mod settings;

use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;

use crate::args::{Cli, Command, GlobalArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(printer::panicked));
    refuse_large_writes();
    let typed: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::parse_typed(&typed) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, &typed),
    };
    let printer = Printer::new(cli.global.quiet, cli.global.verbose, cli.global.no_progress);
    let Cli { global, command } = cli;
    match std::panic::catch_unwind(AssertUnwindSafe(|| run(&global, command, printer))) {
        Ok(Ok(exit)) => exit.into(),
        Ok(Err(failure)) => {
            printer.failure(&failure);
            failure.exit.into()
        }
        // What went wrong is told already.
        Err(_) => Exit::Failure.into(),
    }
}

/// Makes a write beyond the limit on the size of files (`ulimit -f`) fail with an error that can be told; the signal that
/// comes with it would end the process in the middle of its work. Threads made from now on inherit this.
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

fn run(global: &GlobalArgs, command: Command, printer: Printer) -> Result<Exit, Failure> {
    settings::check_isa()?;
    match command {
        Command::Demo(args) => commands::demo::run(global, &args, printer),
        Command::Consolidate(args) => commands::consolidate::run(global, &args, printer),
        Command::Plans(args) => commands::plans::run(global, &args, printer),
        Command::Review(args) => commands::review::run(global, &args, printer),
        Command::Apply(args) => commands::apply::run(global, &args, printer),
        Command::Undo(args) => commands::undo::run(global, &args, printer),
        Command::Check(args) => commands::quick::check::run(global, &args, printer),
        Command::Save(args) => commands::quick::save::run(global, &args, printer),
        Command::Search(args) => commands::search::run(global, &args, printer),
        Command::Index(args) => commands::index::run(global, &args, printer),
        Command::Dedup(args) => commands::dedup::run(global, &args, printer),
        Command::Embed(args) => commands::embed::run(global, &args, printer),
        Command::Export(args) => commands::export::run(global, &args, printer),
        Command::Import(args) => commands::import::run(global, &args, printer),
        Command::Convert(args) => commands::convert::run(global, &args, printer),
        Command::Generate(args) => commands::generate::run(global, &args, printer),
        Command::Explain(args) => commands::explain::run(global, &args, printer),
        Command::Runs(args) => commands::runs::run(global, &args, printer),
        Command::Bench(args) => commands::bench::run(global, &args, printer),
        Command::Flags(args) => commands::flags::run(global, &args, printer),
        Command::Resolve(args) => commands::resolve::run(global, &args, printer),
        Command::Restore(args) => commands::restore::run(global, &args, printer),
        Command::Forget(args) => commands::forget::run(global, &args, printer),
        Command::Prune(args) => commands::prune::run(global, &args, printer),
        Command::Doctor(args) => commands::doctor::run(global, &args, printer),
        Command::Config(args) => commands::config::run(global, &args, printer),
        Command::Completions(args) => commands::completions::run(&args, printer),
        Command::Man(args) => commands::man::run(&args, printer),
    }
}

/// Help and version go to stdout with 0, mistakes to stderr with 2.
fn usage(error: &clap::Error, typed: &[OsString]) -> ExitCode {
    printer::usage(error, typed);
    if error.use_stderr() { Exit::Usage.into() } else { Exit::Done.into() }
}
