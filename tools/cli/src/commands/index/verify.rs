//! `memfold index verify`

use memfold_pipeline::lookup::{StoreDifference, StoreIndex, Thoroughness, VerifiedIndex, verify};
use memfold_pipeline::store::LoadRequest;
use memfold_simd::Kernels;

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
    let load = LoadRequest { time_zone: &time_zone, now: settings::clock(), progress: &bars };
    let scratch_dir = settings::scratch_dir();
    let thoroughness = Thoroughness {
        store: args.full.then_some((&store, scratch_dir.as_path())),
        pool: &settings::pool(global)?,
        kernels: Kernels::active(),
    };
    let verified = verify(&index, &load, &thoroughness).map_err(|error| {
        if error.is_cancelled() {
            return Failure::interrupted();
        }
        let hint = error.hint();
        Failure::new("verify the index", &error, hint)
    })?;
    if global.json {
        let VerifiedIndex { bytes, graph, store } = verified;
        printer.document(&VerifyDocument {
            schema_version: 1,
            generation: index.generation().number(),
            bytes,
            rows: index.columns().len() as u64,
            looked_up: graph.map(|graph| graph.looked_up as u64),
            found: graph.map(|graph| graph.found as u64),
            store: store.map(DifferenceDocument::from),
        })?;
    } else {
        printer.data(&screen(&verified, index.columns().len()))?;
    }
    Ok(Exit::Done)
}

fn screen(verified: &VerifiedIndex, rows: usize) -> String {
    let mut text = format!(
        "{} are as they were written: {rows} rows with ids, vectors and texts' hashes\n",
        mebibytes(verified.bytes)
    );
    if let Some(graph) = verified.graph {
        text.push_str(&format!(
            "all {} nodes can be reached; {} of {} rows looked up find themselves\n",
            graph.nodes, graph.found, graph.looked_up
        ));
    }
    if let Some(StoreDifference { same, changed, gone, fresh }) = verified.store {
        text.push_str(&format!(
            "compared with the store: {same} rows are the same, {changed} have another vector, {gone} are gone,\n\
             {fresh} live memories came since\n"
        ));
    }
    text
}
