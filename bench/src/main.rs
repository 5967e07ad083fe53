//! `memfold-bench`: generates data, and measures memfold on the user's own.
//!
//! It shares options, output and failures with `memfold` (`memfold_cli`).

mod args;
mod ann;
mod check;
mod guard;
mod generate;
mod export;
mod likeness;
mod recall;
mod years;
mod plots;
mod plot;
mod common;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;
use memfold_terminal::failure::Exit;
use memfold_terminal::finish;

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    let typed: Vec<OsString> = std::env::args_os().collect();
    let Cli { global, command } = match Cli::try_parse_from(&typed) {
        Ok(cli) => cli,
        Err(error) => return Exit::of_usage(&error, &typed).into(),
    };
    let exit = finish(global.shown(), |printer| match command {
        Command::Ann(args) => ann::run(&global, &args, printer),
        Command::Check(args) => check::run(&global, &args, printer),
        Command::Guard(args) => guard::run(&global, &args, printer),
        Command::Judge(args) => guard::run_judge(&global, &args, printer),
        Command::Generate(args) => generate::run(&global, &args, printer),
        Command::Export(args) => export::run(&global, &args, printer),
        Command::Likeness(args) => likeness::run(&global, &args, printer),
        Command::Recall(args) => recall::run(&args, printer),
        Command::Years(args) => years::run(&args, printer),
        Command::Plot(args) => plots::run(&args, printer),
    });
    exit.into()
}
