//! Where `memfold search` looks and how it answers, for stores and for files.

use std::collections::BTreeMap;
use std::path::Path;

use memfold::lookup::corpus::{CorpusColumns, CorpusIndex, RowMatch, SearchedRows};
use memfold::lookup::{IndexError, Match, Wanted};
use memfold::ops;
use memfold_datasets::Corpus;
use memfold_datasets::DataError;
use memfold_datasets::results::{NeighborRow, NeighborsWriter};
use memfold_guard::text::excerpt;

use crate::args::SearchArgs;
use crate::call::Call;
use crate::commands::dedup::skipped_rows;
use crate::context::open_columns;
use crate::failure::{Exit, Failure};
use crate::printer::{Printer, wrap};
use crate::progress::Bars;

/// Default number of matches.
const NEIGHBORS_DEFAULT: usize = 10;

/// `memfold search --queries --json`
#[derive(Debug, serde::Serialize)]
struct QueriesDocument {
    schema_version: u32,
    queries: u64,
    /// Rows of the file.
    neighbors: u64,
    /// Rows of the queries that were left out, by reason.
    skipped: BTreeMap<String, u64>,
    output: String,
    seconds: f64,
}

/// Does without an index that cannot be opened, and reports that.
pub(super) fn opened<T>(index: Result<Option<T>, IndexError>, printer: Printer) -> Option<T> {
    index.unwrap_or_else(|error| {
        printer.note(&format!("note: the index cannot be used: {error}"));
        if let Some(hint) = error.hint() {
            printer.note(&format!("hint: {hint}"));
        }
        None
    })
}

/// Returns which matches are wanted.
pub(super) fn wanted(args: &SearchArgs) -> Wanted {
    let default = args.threshold.is_none().then_some(NEIGHBORS_DEFAULT);
    let neighbors = args.neighbors.map(|count| count as usize).or(default);
    Wanted { neighbors, similarity_min: args.threshold }
}

/// The rows to search.
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
    pub(super) fn open(args: &SearchArgs, printer: Printer, bars: &Bars) -> Result<Self, Failure> {
        let (input, mut columns) = (&args.place.db, args.columns.clone());
        let index = match args.no_index {
            true => None,
            false => opened(
                CorpusIndex::open(&ops::index_to_read(
                    &args.place.db,
                    args.place.index_dir.as_deref(),
                )?),
                printer,
            ),
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

    /// Tells whether there is an index that was not used.
    pub(super) const fn is_foreign(&self) -> bool {
        matches!(self, Self::File { instead: Some(_), .. })
    }

    /// Says where a search is slower than it could be.
    pub(super) fn tell(&self, printer: Printer) {
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

/// Tells whether an index has the requested columns.
fn are_those(asked: &CorpusColumns, indexed: &CorpusColumns) -> bool {
    let same = |asked: &Option<String>, indexed| asked.is_none() || asked == indexed;
    same(&asked.vector, &indexed.vector) && same(&asked.id, &indexed.id)
}

/// Writes the results of queries and returns the number of rows.
pub(super) fn write<'a>(
    rows: impl Iterator<Item = NeighborRow<'a>>,
    output: &Path,
) -> Result<u64, Failure> {
    let failed = |error: DataError| Failure::of(&format!("write {}", output.display()), &error);
    let mut writer = NeighborsWriter::create(output).map_err(failed)?;
    for row in rows {
        writer.push(row).map_err(failed)?;
    }
    writer.finish().map_err(failed)
}

/// Reports the written file.
pub(super) fn tell_written(
    call: Call<'_>,
    corpus: &Corpus,
    neighbors: u64,
    output: &Path,
    seconds: f64,
) -> Result<Exit, Failure> {
    let (shown, queries) = (output.display(), corpus.matrix().len());
    if call.global.json {
        let skipped = corpus.skipped().counts();
        call.printer.document(&QueriesDocument {
            schema_version: 1,
            queries: queries as u64,
            neighbors,
            skipped: skipped.map(|(reason, count)| (reason.name().to_owned(), count)).collect(),
            output: shown.to_string(),
            seconds,
        })?;
    } else {
        call.printer.note(&format!("wrote {neighbors} neighbours of {queries} queries to {shown}"));
        skipped_rows(corpus).iter().for_each(|line| call.printer.note(line));
    }
    Ok(Exit::Done)
}

/// Characters of an id and of a text that are displayed.
const ID_CHARS: usize = 60;
const TEXT_CHARS: usize = 150;
/// Columns of a text behind its margin.
const TEXT_COLUMNS: usize = 72;

pub(super) fn screen(matches: &[Match]) -> String {
    if matches.is_empty() {
        return "no memory is near\n".to_owned();
    }
    let mut text = String::new();
    for Match { memory, similarity } in matches {
        let id = excerpt(memory.id.as_str(), ID_CHARS);
        text.push_str(&format!("{:.4}  {id}\n", similarity.get()));
        for line in wrap(&excerpt(&memory.content, TEXT_CHARS), TEXT_COLUMNS) {
            text.push_str(&format!("        {line}\n"));
        }
    }
    text
}

pub(super) fn rows(matches: &[RowMatch]) -> String {
    if matches.is_empty() {
        return "no row is near\n".to_owned();
    }
    let line = |RowMatch { row, id, similarity }: &RowMatch| {
        let id = id.as_deref().map(|id| format!("  {}", excerpt(id, ID_CHARS)));
        format!("{:.4}  row {row}{}\n", similarity.get(), id.unwrap_or_default())
    };
    matches.iter().map(line).collect()
}
