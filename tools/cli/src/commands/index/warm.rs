//! `memfold index warm`

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use memfold_index::Progress as _;
use memfold_index::snapshot::Generations;
use serde::Serialize;

use super::{mebibytes, open, place};
use crate::args::{GlobalArgs, IndexPlaceArgs};
use crate::document::documents;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::resources::Stopwatch;

/// Bytes of one read.
const PORTION: usize = 4 << 20;

documents! { "index-warm" => WarmDocument }

/// `memfold index warm --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WarmDocument {
    schema_version: u32,
    /// Bytes read.
    bytes: u64,
    seconds: f64,
}

pub(super) fn run(
    global: &GlobalArgs,
    args: &IndexPlaceArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let live = |folder: &Path| Ok(Generations::at(folder).current()?);
    let generation = open(&place::to_read(args)?, live)?;
    let (stopwatch, bars) = (Stopwatch::start(), Bars::new(printer));
    let total: u64 = generation.file_lengths().map(|(_, bytes)| bytes).sum();
    let (mut bytes, mut portion) = (0, vec![0; PORTION]);
    bars.begin("read", Some(total));
    for (name, _) in generation.file_lengths() {
        let path = generation.folder().join(name);
        let failed = |error| Failure::new(&format!("read {}", path.display()), &error, None);
        let mut file = File::open(&path).map_err(failed)?;
        loop {
            let read = file.read(&mut portion).map_err(failed)?;
            if read == 0 {
                break;
            }
            if bars.cancelled() {
                return Err(Failure::interrupted());
            }
            bytes += read as u64;
            bars.advance(read as u64);
        }
    }
    bars.end();
    let seconds = stopwatch.seconds();
    if global.json {
        printer.document(&WarmDocument { schema_version: 1, bytes, seconds })?;
    } else {
        printer.data(&format!("read {} in {seconds:.2} s\n", mebibytes(bytes)))?;
    }
    Ok(Exit::Done)
}
