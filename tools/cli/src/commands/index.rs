//! `memfold index`: build, look at, verify, warm and remove the index of a store or a file of vectors.

mod corpus;
mod output;
pub(crate) mod store;

use std::path::Path;
use std::time::Duration;

use memfold::machine::Stopwatch;
use memfold_index::Progress as _;
use memfold_index::file::Generations;
use serde::Serialize;

use self::output::{mebibytes, open};
use crate::args::{GlobalArgs, IndexArgs, IndexCommand, IndexPlaceArgs};
use crate::context::{index_to_read, is_corpus};
use crate::failure::{Exit, Failure};
use crate::printer::{Printer, documents};
use crate::progress::Bars;

documents! {
    "index-warm" => WarmDocument,
    "index-remove" => RemoveDocument,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &IndexArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    match &args.command {
        IndexCommand::Build(args) if is_corpus(&args.place.db) => {
            corpus::build(global, args, printer)
        }
        IndexCommand::Info(args) if is_corpus(&args.db) => corpus::info(global, args, printer),
        IndexCommand::Verify(args) if is_corpus(&args.place.db) => {
            corpus::verify(global, args, printer)
        }
        IndexCommand::Build(args) => store::build(global, args, printer),
        IndexCommand::Info(args) => store::info(global, args, printer),
        IndexCommand::Verify(args) => store::verify(global, args, printer),
        IndexCommand::Warm(args) => warm(global, args, printer),
        IndexCommand::Remove(args) => remove(global, args, printer),
    }
}

/// Bytes that are read at a time: large pages.
const PORTION: usize = 4 << 20;

/// `memfold index warm --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WarmDocument {
    schema_version: u32,
    /// Bytes read.
    bytes: u64,
    seconds: f64,
}

fn warm(global: &GlobalArgs, args: &IndexPlaceArgs, printer: Printer) -> Result<Exit, Failure> {
    let live = |folder: &Path| Ok(Generations::at(folder).current()?);
    let generation = open(&index_to_read(args)?, live)?;
    let (stopwatch, bars) = (Stopwatch::start(), Bars::new(printer));
    let total: u64 = generation.file_lengths().map(|(_, bytes)| bytes).sum();
    bars.begin("read", Some(total));
    for (name, mapped) in generation.looked_up_files() {
        let path = generation.folder().join(name);
        for start in (0..mapped.len()).step_by(PORTION) {
            if bars.cancelled() {
                return Err(Failure::interrupted());
            }
            let range = start..mapped.len().min(start + PORTION);
            bars.advance(range.len() as u64);
            let failed = |error| Failure::new(&format!("read {}", path.display()), &error, None);
            mapped.fetch(range).map_err(failed)?;
        }
    }
    bars.end();
    let seconds = stopwatch.seconds();
    if global.json {
        printer.document(&WarmDocument { schema_version: 1, bytes: total, seconds })?;
    } else {
        printer.data(&format!("read {} in {seconds:.2} s\n", mebibytes(total)))?;
    }
    Ok(Exit::Done)
}

/// How long to wait for a process that builds.
const WAIT: Duration = Duration::from_secs(5);

/// `memfold index remove --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RemoveDocument {
    schema_version: u32,
    /// Whether there was an index.
    removed: bool,
    /// The folder of generations.
    folder: String,
}

fn remove(global: &GlobalArgs, args: &IndexPlaceArgs, printer: Printer) -> Result<Exit, Failure> {
    let folder = index_to_read(args)?;
    let was_there = Generations::at(&folder).remove(WAIT).map_err(|error| {
        let hint = error.hint();
        Failure::new(&format!("remove {}", folder.display()), &error, hint)
    })?;
    if global.json {
        let folder = folder.display().to_string();
        printer.document(&RemoveDocument { schema_version: 1, removed: was_there, folder })?;
    } else if was_there {
        printer.data(&format!("removed {}\n", folder.display()))?;
    } else {
        printer.data(&format!("there is no index in {}\n", folder.display()))?;
    }
    Ok(Exit::Done)
}
