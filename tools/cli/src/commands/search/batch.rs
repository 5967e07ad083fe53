//! `memfold search --queries`: many queries into one file.

use std::path::Path;

use memfold::lookup::search_all;
use memfold_datasets::parquet::WriteTableError;
use memfold_datasets::results::{NeighborRow, NeighborsWriter};
use memfold_index::Row;
use memfold_simd::Kernels;
use memfold_store::LoadRequest;

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
    let queries = open_vectors(queries, &bars)?;
    let load = LoadRequest { progress: &bars, ..work.load };
    let tools = (&load, Kernels::active());
    let found = search_all(work.store, work.index, &queries.matrix(), work.wanted(), tools);
    let found = found.map_err(|error| work.failed(&error))?;
    let rows = (0..).zip(&found).flat_map(|(at, answer)| {
        let query = queries.ordinal(Row(at));
        (0..).zip(&answer.matches).map(move |(rank, near)| NeighborRow {
            query,
            rank,
            row: near.memory.rowid.cast_unsigned(),
            similarity: near.similarity.get(),
            id: Some(near.memory.id.as_str()),
        })
    });
    let neighbors = write(rows, output)?;
    if let Some(found) = found.first() {
        tell(found.searched, printer);
    }
    tell_written((found.len(), neighbors), output, (global, printer, stopwatch))
}

/// Writes what queries found and returns how many rows that are.
pub(super) fn write<'a>(
    rows: impl Iterator<Item = NeighborRow<'a>>,
    output: &Path,
) -> Result<u64, Failure> {
    let failed = |error: WriteTableError| {
        let hint = error.hint();
        Failure::new(&format!("write {}", output.display()), &error, hint)
    };
    let mut writer = NeighborsWriter::create(output).map_err(failed)?;
    for row in rows {
        writer.push(row).map_err(failed)?;
    }
    writer.finish().map_err(failed)
}

/// Says what was written.
pub(super) fn tell_written(
    (queries, neighbors): (usize, u64),
    output: &Path,
    (global, printer, stopwatch): (&GlobalArgs, Printer, Stopwatch),
) -> Result<Exit, Failure> {
    let shown = output.display();
    if global.json {
        printer.document(&QueriesDocument {
            schema_version: 1,
            queries: queries as u64,
            neighbors,
            output: shown.to_string(),
            seconds: stopwatch.seconds(),
        })?;
    } else {
        printer.note(&format!("wrote {neighbors} neighbours of {queries} queries to {shown}"));
    }
    Ok(Exit::Done)
}
