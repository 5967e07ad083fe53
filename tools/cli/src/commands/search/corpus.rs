//! `memfold search` for a file of vectors: the nearest rows.

use std::path::Path;

use memfold::lookup::Wanted;
use memfold::lookup::corpus::{
    CorpusColumns, CorpusIndex, RowMatch, RowQuery, SearchRowsError, SearchedRows, search_rows,
    search_rows_all,
};
use memfold_datasets::Corpus;
use memfold_datasets::results::NeighborRow;
use memfold_index::{Pool, Row};
use memfold_simd::Kernels;

use super::documents::SearchDocument;
use super::{batch, opened, screen, wanted};
use crate::args::{GlobalArgs, SearchArgs};
use crate::commands::dedup::{open_columns, open_vectors};
use crate::commands::index::place;
use crate::commands::vector;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::resources::Stopwatch;
use crate::settings;

pub(super) fn run(
    global: &GlobalArgs,
    args: &SearchArgs,
    (printer, stopwatch): (Printer, Stopwatch),
) -> Result<Exit, Failure> {
    if args.text.is_some() {
        return Err(Failure::usage(
            format!("--text is for stores, and {} is a file of vectors", args.place.db.display()),
            "embed the text with the model of the file and give --vector",
        ));
    }
    let (bars, pool) = (Bars::new(printer), settings::pool(global)?);
    let source = Source::open(args, printer, &bars)?;
    source.tell(printer);
    let work = Work { args, rows: source.rows(), pool };
    if let (Some(queries), Some(output)) = (&args.queries, &args.output) {
        return work.answer_all((queries, output), &bars, (global, printer, stopwatch));
    }
    let open = stopwatch.seconds();
    let found = work.answer()?;
    if global.json {
        let seconds = (open, stopwatch.seconds());
        printer.document(&SearchDocument::of_rows(&found, &source, seconds))?;
    } else {
        printer.data(&screen::rows(&found))?;
    }
    Ok(Exit::Done)
}

/// Where rows are looked for.
pub(super) enum Source {
    /// An index that fits the file.
    Index(Box<CorpusIndex>),
    /// The file.
    File {
        corpus: Box<Corpus>,
        /// Why there is an index that was not used.
        instead: Option<&'static str>,
    },
}

impl Source {
    /// Opens the index, or reads the file where there is none that can be used.
    fn open(args: &SearchArgs, printer: Printer, bars: &Bars) -> Result<Self, Failure> {
        let (input, mut columns) = (&args.place.db, args.columns.columns());
        let index = match args.no_index {
            true => None,
            false => opened(CorpusIndex::open(&place::to_read(&args.place)?), printer),
        };
        let mut instead = None;
        if let Some(index) = index {
            let fits = index.fits(input).map_err(|error| {
                Failure::new(&format!("read {}", input.display()), &error, None)
            })?;
            let is_of_these = are_those(&columns, &index.origin().columns);
            if fits && is_of_these {
                return Ok(Self::Index(Box::new(index)));
            }
            if is_of_these {
                columns.clone_from(&index.origin().columns);
            }
            instead = Some(match is_of_these {
                true => "the index no longer fits the file",
                false => "the index is of other columns",
            });
        }
        let corpus = Box::new(open_columns(input, &columns, bars)?);
        Ok(Self::File { corpus, instead })
    }

    pub(super) const fn rows(&self) -> SearchedRows<'_> {
        match self {
            Self::Index(index) => SearchedRows::Index(index),
            Self::File { corpus, .. } => SearchedRows::Corpus(corpus),
        }
    }

    /// Says where a search is slower than it could be.
    fn tell(&self, printer: Printer) {
        let Self::File { corpus, instead } = self else { return };
        let count = corpus.matrix().len();
        match instead {
            None => printer.detail(&format!(
                "note: all {count} vectors were read; `memfold index build` makes this faster"
            )),
            Some(why) => printer.note(&format!(
                "note: {why}, so all {count} vectors were read; run `memfold index build`"
            )),
        }
    }
}

/// Tells whether an index has the columns asked for.
fn are_those(asked: &CorpusColumns, indexed: &CorpusColumns) -> bool {
    let same = |asked: &Option<String>, indexed| asked.is_none() || asked == indexed;
    same(&asked.vector, &indexed.vector) && same(&asked.id, &indexed.id)
}

/// One call of the command.
struct Work<'a> {
    args: &'a SearchArgs,
    rows: SearchedRows<'a>,
    pool: Pool,
}

impl Work<'_> {
    fn wanted(&self) -> Wanted {
        wanted(self.args)
    }

    fn answer(&self) -> Result<Vec<RowMatch>, Failure> {
        let typed;
        let query = match (&self.args.id, self.args.row, &self.args.vector) {
            (Some(id), _, _) => RowQuery::Id(id),
            (None, Some(row), _) => RowQuery::Row(row),
            (None, None, vector) => {
                typed = vector::parse(vector.as_deref().unwrap_or_default())?;
                RowQuery::Vector(&typed)
            }
        };
        let tools = (&self.pool, Kernels::active());
        search_rows(self.rows, (query, self.wanted()), tools).map_err(|error| self.failed(&error))
    }

    fn answer_all(
        &self,
        (queries, output): (&Path, &Path),
        bars: &Bars,
        (global, printer, stopwatch): (&GlobalArgs, Printer, Stopwatch),
    ) -> Result<Exit, Failure> {
        let queries = open_vectors(queries, bars)?;
        let tools = (&self.pool, Kernels::active());
        let found = search_rows_all(self.rows, &queries.matrix(), self.wanted(), tools, bars)
            .map_err(|error| self.failed(&error))?;
        let rows = (0..).zip(&found).flat_map(|(at, answer)| {
            let query = queries.ordinal(Row(at));
            (0..).zip(answer).map(move |(rank, near)| NeighborRow {
                query,
                rank,
                row: near.row,
                similarity: near.similarity.get(),
                id: near.id.as_deref(),
            })
        });
        let neighbors = batch::write(rows, output)?;
        batch::tell_written((found.len(), neighbors), output, (global, printer, stopwatch))
    }

    fn failed(&self, error: &SearchRowsError) -> Failure {
        if matches!(error, SearchRowsError::Cancelled) {
            return Failure::interrupted();
        }
        let hint = error.hint();
        Failure::new(&format!("search {}", self.args.place.db.display()), error, hint)
    }
}
