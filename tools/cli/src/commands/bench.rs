//! `memfold bench`: recall, speed and quality on the user's own data.

mod ann;
mod check;
mod cold;
mod export;
mod guard;
mod likeness;
mod screen;

use crate::args::{BenchArgs, BenchCommand, GlobalArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;

pub(crate) fn run(
    global: &GlobalArgs,
    args: &BenchArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    match &args.command {
        BenchCommand::Guard(args) => guard::run(global, args, printer),
        BenchCommand::Ann(args) => ann::run(global, args, printer),
        BenchCommand::Check(args) => check::run(global, args, printer),
        BenchCommand::Export(args) => export::run(global, args, printer),
        BenchCommand::Likeness(args) => likeness::run(global, args, printer),
    }
}
