//! `memfold index remove`

use std::time::Duration;

use memfold_index::snapshot::Generations;
use serde::Serialize;

use super::place;
use crate::args::{GlobalArgs, IndexPlaceArgs};
use crate::document::documents;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;

/// How long to wait for a process that builds.
const WAIT: Duration = Duration::from_secs(5);

documents! { "index-remove" => RemoveDocument }

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

pub(super) fn run(
    global: &GlobalArgs,
    args: &IndexPlaceArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let folder = place::to_read(args)?;
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
