//! `memfold index`: build, look at, verify, warm and remove the index of a store.

mod build;
mod documents;
mod info;
pub(crate) mod place;
mod remove;
mod verify;
mod warm;

use std::path::Path;

use memfold_pipeline::lookup::{OpenIndexError, StoreIndex};

use crate::args::{GlobalArgs, IndexArgs, IndexCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;

pub(crate) fn run(
    global: &GlobalArgs,
    args: &IndexArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    match &args.command {
        IndexCommand::Build(args) => build::run(global, args, printer),
        IndexCommand::Info(args) => info::run(global, args, printer),
        IndexCommand::Verify(args) => verify::run(global, args, printer),
        IndexCommand::Warm(args) => warm::run(global, args, printer),
        IndexCommand::Remove(args) => remove::run(global, args, printer),
    }
}

/// Opens the index in a folder, which must be there.
fn open(folder: &Path) -> Result<StoreIndex, Failure> {
    match StoreIndex::open(folder) {
        Ok(Some(index)) => Ok(index),
        Ok(None) => Err(Failure::plain(
            format!("no index in {}", folder.display()),
            "build it with `memfold index build`",
        )),
        Err(error) => Err(unopened(&error)),
    }
}

fn unopened(error: &OpenIndexError) -> Failure {
    let hint = error.hint();
    Failure::new("open the index", error, hint)
}

/// Shows bytes in MiB, or in KiB where there are few.
fn mebibytes(bytes: u64) -> String {
    match bytes as f64 / f64::from(1 << 20) {
        small if small < 1.0 => format!("{:.0} KiB", small * 1024.0),
        mebibytes => format!("{mebibytes:.1} MiB"),
    }
}
