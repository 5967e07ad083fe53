//! `memfold completions`: a completion script for a shell.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;

pub(crate) fn run(args: &CompletionsArgs, printer: Printer) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "memfold", &mut script);
    printer.data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
