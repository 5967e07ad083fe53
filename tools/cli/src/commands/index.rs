//! `memfold index`: build and inspect the index of a store or a file of vectors.

mod corpus;
mod output;
pub(crate) mod store;

use crate::args::{GlobalArgs, IndexArgs, IndexCommand};
use crate::context::is_corpus;
use crate::failure::{Exit, Failure};
use crate::printer::Printer;

pub(crate) fn run(
    global: &GlobalArgs,
    args: &IndexArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    match &args.command {
        IndexCommand::Build(args) if is_corpus(&args.place.db) => {
            corpus::build(global, args, printer)
        }
        IndexCommand::Info(args) if is_corpus(&args.place.db) => {
            corpus::info(global, args, printer)
        }
        IndexCommand::Build(args) => store::build(global, args, printer),
        IndexCommand::Info(args) => store::info(global, args, printer),
    }
}
