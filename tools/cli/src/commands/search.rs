//! `memfold search`: the nearest memories.

mod corpus;
mod results;

use std::path::Path;

use memfold::lookup::{Query, SearchError, Searched};
use memfold::machine::Stopwatch;
use memfold::ops::{Elapsed, Memories, MemoriesOptions, SearchDocument};
use memfold_datasets::results::NeighborRow;
use memfold_index::Row;

use crate::args::SearchArgs;
use crate::call::Call;
use crate::context::{self, is_corpus, open_vectors, refuse_columns};
use crate::failure::{Exit, Failure};
use crate::outputs::{Existing, Outputs};
use crate::printer::Printer;
use crate::progress::Bars;

pub(crate) fn run(call: Call<'_>, args: &SearchArgs) -> Result<Exit, Failure> {
    let stopwatch = Stopwatch::start();
    if let Some(path) = &args.output {
        let inputs = args.queries.as_deref().into_iter().chain([&*args.place.db]);
        let mut outputs = Outputs::beside(inputs).and_store(&args.place.db);
        outputs.take("--output", path, Existing::forced(args.force))?;
    }
    if is_corpus(&args.place.db) {
        return corpus::run(call, args, stopwatch);
    }
    refuse_options_of_files(args)?;
    let settings = call.settings(&args.place.db)?;
    let (index_dir, embeds) = (args.place.index_dir.as_deref(), args.text.is_some());
    let options = MemoriesOptions { index_dir, embeds, ..Default::default() };
    let memories = Memories::open(&args.place.db, &settings, options)?;
    if !args.no_index {
        // An unusable index is reported once, and searches do without it.
        results::opened(memories.index(), call.printer);
    }
    let open = stopwatch.seconds();
    if let (Some(queries), Some(output)) = (&args.queries, &args.output) {
        return search_batch(call, args, &memories, queries, output);
    }
    let typed = args.vector.as_deref().map(context::typed_vector).transpose()?;
    let query = match (&args.id, &args.text) {
        (Some(id), _) => Query::Memory(id),
        (None, Some(text)) => Query::Text(text),
        (None, None) => Query::Vector(typed.as_deref().unwrap_or_default()),
    };
    let found = memories.search(query, results::wanted(args), &[], args.no_index, &call.printer);
    let found = found.map_err(|error| failed(args, &error))?;
    let (index, found) = (found.index, found.matches);
    let total = stopwatch.seconds();
    tell(found.searched, call.printer);
    let note = found.without_vector.filter(|count| *count > 0).map(unfindable);
    if let Some(note) = &note {
        call.printer.note(&format!("note: {note}"));
    }
    let mut document = SearchDocument::new(&found, index.as_deref(), Elapsed { open, total });
    document.notes.extend(note);
    call.show(&document, || results::screen(&found.matches))
}

fn refuse_options_of_files(args: &SearchArgs) -> Result<(), Failure> {
    if args.row.is_some() {
        return Err(Failure::usage(
            "--row is for files of vectors, not for a store",
            "name a memory by its id: --id ID",
        ));
    }
    refuse_columns(&args.columns)
}

fn failed(args: &SearchArgs, error: &SearchError) -> Failure {
    Failure::of(&format!("search {}", args.place.db.display()), error)
}

/// Says that memories cannot be found.
fn unfindable(count: u64) -> String {
    let memories = if count == 1 { "memory has" } else { "memories have" };
    format!("{count} {memories} no vector and cannot be found; `memfold embed` makes them")
}

/// Says where a search was slower than it could be.
fn tell(searched: Searched, printer: Printer) {
    match searched {
        Searched::Index { .. } => {}
        Searched::Store { rows } => printer.detail(&format!(
            "note: all {rows} vectors were read; `memfold index build` makes this faster"
        )),
        Searched::Words { .. } => printer.note(
            "note: compared by words, built in; configure who makes vectors to search by meaning \
             (embed.provider; docs/embedding.md)",
        ),
        Searched::StoreInsteadOfIndex { rows } => printer.note(&format!(
            "note: the index no longer fits the store, so all {rows} vectors were read; run `memfold index build`"
        )),
    }
}

fn search_batch(
    call: Call<'_>,
    args: &SearchArgs,
    memories: &Memories,
    queries: &Path,
    output: &Path,
) -> Result<Exit, Failure> {
    let (bars, stopwatch) = (Bars::new(call.printer), Stopwatch::start());
    let queries = open_vectors(queries, &bars)?;
    let wanted = results::wanted(args);
    let found = memories.search_all(&queries.matrix(), wanted, args.no_index, &bars);
    let found = found.map_err(|error| failed(args, &error))?;
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
    let neighbors = results::write(rows, output)?;
    if let Some(found) = found.first() {
        tell(found.searched, call.printer);
    }
    let seconds = stopwatch.seconds();
    results::tell_written(call, &queries, neighbors, output, seconds)
}
