//! `memfold search --queries`: many queries into one file.

use std::path::Path;

use memfold_datasets::results::{NeighborRow, NeighborsWriter};
use memfold_pipeline::lookup::{Matches, search_all};
use memfold_pipeline::store::LoadRequest;
use memfold_simd::Kernels;

use super::documents::QueriesDocument;
use super::{Work, tell};
use crate::args::GlobalArgs;
use crate::commands::dedup::open_vectors;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::resources::Stopwatch;

pub(super) fn run(
    work: &Work<'_>,
    (queries, output): (&Path, &Path),
    (global, printer): (&GlobalArgs, Printer),
) -> Result<Exit, Failure> {
    let (bars, stopwatch) = (Bars::new(printer), Stopwatch::start());
    let corpus = open_vectors(queries, &bars)?;
    let load = LoadRequest { progress: &bars, ..work.load };
    let tools = (&load, Kernels::active());
    let found = search_all(work.store, work.index, &corpus.matrix(), work.wanted(), tools);
    let found = found.map_err(|error| work.failed(&error))?;
    let rows = write(&found, output)?;
    let seconds = stopwatch.seconds();
    if let Some(found) = found.first() {
        tell(found.searched, printer);
    }
    if global.json {
        printer.document(&QueriesDocument {
            schema_version: 1,
            queries: found.len() as u64,
            neighbors: rows,
            output: output.display().to_string(),
            seconds,
        })?;
    } else {
        let shown = output.display();
        printer.note(&format!("wrote {rows} neighbours of {} queries to {shown}", found.len()));
    }
    Ok(Exit::Done)
}

fn write(found: &[Matches], output: &Path) -> Result<u64, Failure> {
    let failed = |error: memfold_datasets::parquet::WriteTableError| {
        let hint = error.hint();
        Failure::new(&format!("write {}", output.display()), &error, hint)
    };
    let mut writer = NeighborsWriter::create(output).map_err(failed)?;
    for (query, answer) in (0..).zip(found) {
        for (rank, near) in (0..).zip(&answer.matches) {
            let row = NeighborRow {
                query,
                rank,
                row: near.memory.rowid.cast_unsigned(),
                similarity: near.similarity.get(),
                id: near.memory.id.as_str(),
            };
            writer.push(row).map_err(failed)?;
        }
    }
    writer.finish().map_err(failed)
}
