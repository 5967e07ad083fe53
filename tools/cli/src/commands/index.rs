//! `memfold index`: build and inspect the index of a store or a file of vectors.

mod corpus;
mod output;
mod store;

use crate::args::{IndexArgs, IndexCommand};
use crate::call::Call;
use crate::context::is_corpus;
use crate::failure::{Exit, Failure};

pub(crate) fn run(call: Call<'_>, args: &IndexArgs) -> Result<Exit, Failure> {
    match &args.command {
        IndexCommand::Build(args) if is_corpus(&args.place.db) => corpus::build(call, args),
        IndexCommand::Info(args) if is_corpus(&args.place.db) => corpus::info(call, args),
        IndexCommand::Build(args) => store::build(call, args),
        IndexCommand::Info(args) => store::info(call, args),
    }
}
