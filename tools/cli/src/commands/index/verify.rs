//! `memfold index verify`

use memfold::lookup::{
    IndexDifference, StoreIndex, Thoroughness, VerifiedIndex, VerifyIndexError, verify,
};
use memfold::machine;
use memfold_simd::Kernels;
use memfold_store::LoadRequest;

use super::documents::{DifferenceDocument, VerifyDocument};
use super::{mebibytes, open, place};
use crate::args::{GlobalArgs, IndexVerifyArgs};
use crate::commands::consolidate::open_store;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::settings::{self, Settings};

pub(super) fn run(
    global: &GlobalArgs,
    args: &IndexVerifyArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.place.db), &[])?;
    settings.show_notices(printer);
    let store = open_store(&args.place.db, &settings)?;
    let index = open(&place::to_read(&args.place)?, StoreIndex::open)?;
    let (time_zone, bars) = (settings.time_zone()?, Bars::new(printer));
    let load = LoadRequest { time_zone: &time_zone, now: machine::clock(), progress: &bars };
    let scratch_dir = settings::scratch_dir();
    let thoroughness = Thoroughness {
        store: args.full.then_some((&store, scratch_dir.as_path())),
        pool: &settings::pool(global)?,
        kernels: Kernels::active(),
    };
    let verified = verify(&index, &load, &thoroughness);
    let of_a_store = Words {
        indexed: "ids, vectors and texts' hashes",
        compared: |IndexDifference { same, changed, gone, fresh }| {
            format!(
                "compared with the store: {same} rows are the same, {changed} have another vector, {gone} are gone,\n\
                 {fresh} live memories came since\n"
            )
        },
    };
    let index = (index.files().generation().number(), index.files().columns().len());
    tell(verified, index, &of_a_store, (global, printer))
}

/// What is said of an index of a store, or of one of a file.
pub(super) struct Words {
    /// What was compared with what was written.
    pub(super) indexed: &'static str,
    /// The comparison with its store or file.
    pub(super) compared: fn(IndexDifference) -> String,
}

/// Tells what came of verifying a generation with so many rows.
pub(super) fn tell(
    verified: Result<VerifiedIndex, VerifyIndexError>,
    (generation, rows): (u64, usize),
    words: &Words,
    (global, printer): (&GlobalArgs, Printer),
) -> Result<Exit, Failure> {
    let VerifiedIndex { bytes, is_compared, graph, difference } = verified.map_err(|error| {
        if error.is_cancelled() {
            return Failure::interrupted();
        }
        let hint = error.hint();
        Failure::new("verify the index", &error, hint)
    })?;
    if global.json {
        printer.document(&VerifyDocument {
            schema_version: 1,
            generation,
            bytes,
            compared: is_compared,
            rows: rows as u64,
            looked_up: graph.map(|graph| graph.looked_up as u64),
            found: graph.map(|graph| graph.found as u64),
            store: difference.map(DifferenceDocument::from),
        })?;
        return Ok(Exit::Done);
    }
    let mut text = format!(
        "{} are as they were written: {rows} rows with {}\n",
        mebibytes(bytes),
        words.indexed
    );
    if let Some(graph) = graph {
        text.push_str(&format!(
            "all {} nodes can be reached; {} of {} rows looked up find themselves\n",
            graph.nodes, graph.found, graph.looked_up
        ));
    }
    text.push_str(&difference.map(words.compared).unwrap_or_default());
    if !is_compared {
        text.push_str(
            "columns.arrow is unchecked but for its ids and vectors: an earlier version built this index without its \
             checksum;\nrebuild it with `memfold index build`\n",
        );
    }
    printer.data(&text)?;
    Ok(Exit::Done)
}
