//! `memfold search`: the nearest memories.

mod corpus;
mod results;

use std::path::Path;

use memfold::lookup::{
    Matches, Query, SearchError, Searched, StoreIndex, Wanted, search, search_all, search_by_words,
};
use memfold::machine::{self, Stopwatch};
use memfold::ops::{self, Elapsed, SearchDocument, Settings};
use memfold_datasets::results::NeighborRow;
use memfold_index::{NoProgress, Row};
use memfold_simd::Kernels;
use memfold_store::{BrainDb, LoadRequest};

use crate::args::{GlobalArgs, SearchArgs};
use crate::context::{self, Provider, is_corpus, open_options, open_vectors, refuse_columns};
use crate::failure::{Exit, Failure};
use crate::outputs::{Existing, Outputs};
use crate::printer::Printer;
use crate::progress::Bars;

pub(crate) fn run(
    global: &GlobalArgs,
    args: &SearchArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let stopwatch = Stopwatch::start();
    if let Some(path) = &args.output {
        let inputs = args.queries.as_deref().into_iter().chain([&*args.place.db]);
        let mut outputs = Outputs::beside(inputs).and_store(&args.place.db);
        outputs.take("--output", path, Existing::forced(args.force))?;
    }
    if is_corpus(&args.place.db) {
        return corpus::run(global, args, printer, stopwatch);
    }
    refuse_options_of_files(args)?;
    let settings = Settings::load(&global.sources(), Some(&args.place.db), &[])?;
    settings.show_notices(&printer);
    let store = BrainDb::at(&args.place.db, open_options(&settings));
    let index = open_index(args, printer)?;
    let open = stopwatch.seconds();
    let time_zone = settings.time_zone()?;
    let load = LoadRequest { time_zone: &time_zone, now: machine::clock(), progress: &NoProgress };
    let work =
        Work { args, store: &store, index: index.as_ref(), load, settings: &settings, printer };
    if let (Some(queries), Some(output)) = (&args.queries, &args.output) {
        return search_batch(&work, queries, output, global, printer);
    }
    let found = work.search()?;
    let total = stopwatch.seconds();
    tell(found.searched, printer);
    let note = found.without_vector.filter(|count| *count > 0).map(unfindable);
    if let Some(note) = &note {
        printer.note(&format!("note: {note}"));
    }
    if global.json {
        let mut document = SearchDocument::new(&found, index.as_ref(), Elapsed { open, total });
        document.notes.extend(note);
        printer.document(&document)?;
    } else {
        printer.data(&results::screen(&found.matches))?;
    }
    Ok(Exit::Done)
}

/// Opens the index, where there is one that can be used.
fn open_index(args: &SearchArgs, printer: Printer) -> Result<Option<StoreIndex>, Failure> {
    if args.no_index {
        return Ok(None);
    }
    Ok(results::opened(
        StoreIndex::open(&ops::index_to_read(&args.place.db, args.place.index_dir.as_deref())?),
        printer,
    ))
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

/// One call of the command.
struct Work<'a> {
    args: &'a SearchArgs,
    store: &'a BrainDb,
    index: Option<&'a StoreIndex>,
    load: LoadRequest<'a>,
    settings: &'a Settings,
    printer: Printer,
}

impl Work<'_> {
    fn wanted(&self) -> Wanted {
        results::wanted(self.args)
    }

    fn search(&self) -> Result<Matches, Failure> {
        let typed;
        let query = match (&self.args.id, &self.args.text, &self.args.vector) {
            (Some(id), _, _) => Query::Memory(id),
            (None, Some(text), _) => Query::Text(text),
            (None, None, vector) => {
                typed = context::typed_vector(vector.as_deref().unwrap_or_default())?;
                Query::Vector(&typed)
            }
        };
        let by = |query| {
            let kernels = Kernels::active();
            search(self.store, self.index, query, self.wanted(), &self.load, kernels)
        };
        let found = match (by(query), query) {
            (Err(SearchError::NoText), Query::Text(text)) => match self.embedded(text)? {
                Some(vector) => by(Query::Vector(&vector)),
                None => {
                    let kernels = Kernels::active();
                    search_by_words(self.store, text, self.wanted(), &self.load, kernels)
                }
            },
            (found, _) => found,
        };
        found.map_err(|error| self.failed(&error))
    }

    /// Has the configured provider make the vector of a text that no memory has; `None` where nobody makes one.
    fn embedded(&self, text: &str) -> Result<Option<Vec<f32>>, Failure> {
        let mut provider = Provider::open(self.settings, &self.args.place.db)?;
        if !provider.is_there() {
            return Ok(None);
        }
        let made = provider.vector(text, &self.printer);
        if let Err(problem) = &made {
            self.printer.note(&format!("note: {problem}"));
        }
        Ok(made.ok().map(|(vector, _)| vector))
    }

    fn failed(&self, error: &SearchError) -> Failure {
        Failure::of(&format!("search {}", self.args.place.db.display()), error)
    }
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
    work: &Work<'_>,
    queries: &Path,
    output: &Path,
    global: &GlobalArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let (bars, stopwatch) = (Bars::new(printer), Stopwatch::start());
    let queries = open_vectors(queries, &bars)?;
    let load = LoadRequest { progress: &bars, ..work.load };
    let kernels = Kernels::active();
    let found =
        search_all(work.store, work.index, &queries.matrix(), work.wanted(), &load, kernels);
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
    let neighbors = results::write(rows, output)?;
    if let Some(found) = found.first() {
        tell(found.searched, printer);
    }
    let seconds = stopwatch.seconds();
    results::tell_written(&queries, neighbors, output, seconds, global, printer)
}
