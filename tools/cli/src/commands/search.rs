//! `memfold search`: the nearest memories.

mod batch;
mod corpus;
mod documents;
mod screen;

use memfold::lookup::{
    Matches, OpenIndexError, Query, SearchError, Searched, StoreIndex, Wanted, search,
};
use memfold::machine;
use memfold_index::NoProgress;
use memfold_simd::Kernels;
use memfold_store::{BrainDb, LoadRequest};

use self::documents::SearchDocument;
use crate::args::{GlobalArgs, SearchArgs};
use crate::commands::consolidate::open_options;
use crate::commands::index::{is_corpus, place, refuse_columns};
use crate::commands::outputs::{Existing, Outputs};
use crate::commands::quick::Provider;
use crate::commands::vector;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::resources::Stopwatch;
use crate::settings::Settings;

/// Matches where nobody said how many.
const NEIGHBORS_DEFAULT: usize = 10;

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
        return corpus::run(global, args, (printer, stopwatch));
    }
    refuse_options_of_files(args)?;
    let settings = Settings::load(global, Some(&args.place.db), &[])?;
    settings.show_notices(printer);
    let store = BrainDb::at(&args.place.db, open_options(&settings));
    let index = open_index(args, printer)?;
    let open = stopwatch.seconds();
    let time_zone = settings.time_zone()?;
    let load = LoadRequest { time_zone: &time_zone, now: machine::clock(), progress: &NoProgress };
    let work =
        Work { args, store: &store, index: index.as_ref(), load, settings: &settings, printer };
    if let (Some(queries), Some(output)) = (&args.queries, &args.output) {
        return batch::run(&work, (queries, output), (global, printer));
    }
    let found = work.search()?;
    let total = stopwatch.seconds();
    tell(found.searched, printer);
    let note = found.without_vector.filter(|count| *count > 0).map(unfindable);
    if let Some(note) = &note {
        printer.note(&format!("note: {note}"));
    }
    if global.json {
        let document = SearchDocument::new(&found, index.as_ref(), (open, total));
        printer.document(&SearchDocument { notes: note.into_iter().collect(), ..document })?;
    } else {
        printer.data(&screen::screen(&found.matches))?;
    }
    Ok(Exit::Done)
}

/// Opens the index, where there is one that can be used.
fn open_index(args: &SearchArgs, printer: Printer) -> Result<Option<StoreIndex>, Failure> {
    if args.no_index {
        return Ok(None);
    }
    Ok(opened(StoreIndex::open(&place::to_read(&args.place)?), printer))
}

/// Does without an index that cannot be opened, and says so.
fn opened<T>(index: Result<Option<T>, OpenIndexError>, printer: Printer) -> Option<T> {
    index.unwrap_or_else(|error| {
        printer.note(&format!("note: the index cannot be used: {error}"));
        if let Some(hint) = error.hint() {
            printer.note(&format!("hint: {hint}"));
        }
        None
    })
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

/// Returns which matches are wanted.
fn wanted(args: &SearchArgs) -> Wanted {
    let default = args.threshold.is_none().then_some(NEIGHBORS_DEFAULT);
    let neighbors = args.neighbors.map(|count| count as usize).or(default);
    Wanted { neighbors, similarity_min: args.threshold }
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
        wanted(self.args)
    }

    fn search(&self) -> Result<Matches, Failure> {
        let typed;
        let query = match (&self.args.id, &self.args.text, &self.args.vector) {
            (Some(id), _, _) => Query::Memory(id),
            (None, Some(text), _) => Query::Text(text),
            (None, None, vector) => {
                typed = vector::parse(vector.as_deref().unwrap_or_default())?;
                Query::Vector(&typed)
            }
        };
        let by = |query| {
            let asked = (query, self.wanted());
            search(self.store, self.index, asked, &self.load, Kernels::active())
        };
        let found = match (by(query), query) {
            (Err(SearchError::NoText), Query::Text(text)) => {
                by(Query::Vector(&self.embedded(text)?))
            }
            (found, _) => found,
        };
        found.map_err(|error| self.failed(&error))
    }

    /// Has the configured provider make the vector of a text that no memory has.
    fn embedded(&self, text: &str) -> Result<Vec<f32>, Failure> {
        if self.settings.configuration.settings.embed.provider.is_none() {
            return Err(self.failed(&SearchError::NoText));
        }
        let made = Provider::open(self.settings, self.printer)?.vector(text);
        made.map(|(vector, _)| vector).map_err(|problem| {
            Failure::plain(problem, "give --vector, or look at what `embed.provider` names")
        })
    }

    fn failed(&self, error: &SearchError) -> Failure {
        if matches!(error, SearchError::Cancelled) {
            return Failure::interrupted();
        }
        let hint = error.hint();
        Failure::new(&format!("search {}", self.args.place.db.display()), error, hint)
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
        Searched::StoreInsteadOfIndex { rows } => printer.note(&format!(
            "note: the index no longer fits the store, so all {rows} vectors were read; run `memfold index build`"
        )),
    }
}
