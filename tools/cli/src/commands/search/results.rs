//! Where `memfold search` looks and how it answers, for stores and for files.

use std::collections::BTreeMap;
use std::path::Path;

use memfold::lookup::corpus::{CorpusColumns, CorpusIndex, RowMatch, SearchedRows};
use memfold::lookup::{IndexError, Match, Matches, Searched, StoreIndex, Wanted};
use memfold_datasets::Corpus;
use memfold_datasets::DataError;
use memfold_datasets::results::{NeighborRow, NeighborsWriter};
use memfold_guard::text::excerpt;

use crate::args::{GlobalArgs, SearchArgs};
use crate::commands::dedup::skipped_rows;
use crate::context::{self, open_columns};
use crate::failure::{Exit, Failure};
use crate::printer::{Document, Printer, documents, wrap};
use crate::progress::Bars;

/// Matches where nobody said how many.
const NEIGHBORS_DEFAULT: usize = 10;

documents! { "search" => SearchDocument }

impl Document for QueriesDocument {}

/// `memfold search --json`
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SearchDocument {
    pub(super) schema_version: u32,
    /// What is near, the most similar first.
    pub(super) matches: Vec<MatchDocument>,
    pub(super) index: SearchedDocument,
    /// What a user should know and can do: memories that have no vector.
    pub notes: Vec<String>,
    pub(super) elapsed_us: ElapsedDocument,
}

/// A memory of a store, or a row of a file.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(crate) enum MatchDocument {
    Memory(MemoryDocument),
    Row(RowDocument),
}

/// A row that is near.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RowDocument {
    /// Its place in the file, from 0.
    row: u64,
    /// Its id, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The canonical similarity to the query.
    similarity: f64,
}

/// A memory that is near.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct MemoryDocument {
    id: String,
    /// The canonical similarity to the query.
    similarity: f64,
    text: String,
    /// In UTC; `null` where it cannot be read.
    created_at: Option<String>,
    categories: Vec<String>,
    importance: f64,
    access_count: i64,
    source: String,
}

/// What was searched.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SearchedDocument {
    /// What answered: `scan`, `graph`, or `none` where every vector was read.
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    /// Rows of the generation.
    rows: u64,
    /// Rows that were added to it since.
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed_rows: Option<u64>,
    /// Vectors that were compared one by one.
    fresh_rows: u64,
    /// Rows that were found near, but are no longer what they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    gone_rows: Option<u64>,
    /// Whether there is an index that no longer fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    foreign: Option<bool>,
}

/// Wall time in microseconds.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ElapsedDocument {
    open: u64,
    search: u64,
    total: u64,
}

/// `memfold search --queries --json`
#[derive(Debug, serde::Serialize)]
pub(super) struct QueriesDocument {
    pub(super) schema_version: u32,
    pub(super) queries: u64,
    /// Rows of the file.
    pub(super) neighbors: u64,
    /// Rows of the queries that were left out, by reason.
    pub(super) skipped: BTreeMap<String, u64>,
    pub(super) output: String,
    pub(super) seconds: f64,
}

impl SearchDocument {
    /// Takes what was found, and the seconds until the store was open and until the answer.
    pub fn new(found: &Matches, index: Option<&StoreIndex>, open: f64, total: f64) -> Self {
        Self {
            schema_version: 1,
            matches: found.matches.iter().map(MatchDocument::of_memory).collect(),
            index: SearchedDocument::new(found.searched, index),
            notes: Vec::new(),
            elapsed_us: ElapsedDocument::new(open, total),
        }
    }

    pub(super) fn of_rows(found: &[RowMatch], source: &Source, open: f64, total: f64) -> Self {
        Self {
            schema_version: 1,
            matches: found.iter().map(MatchDocument::of_row).collect(),
            index: SearchedDocument::of_source(source),
            notes: Vec::new(),
            elapsed_us: ElapsedDocument::new(open, total),
        }
    }
}

impl MatchDocument {
    fn of_row(RowMatch { row, id, similarity }: &RowMatch) -> Self {
        let id = id.as_deref().map(str::to_owned);
        Self::Row(RowDocument { row: *row, id, similarity: similarity.get() })
    }

    fn of_memory(Match { memory, similarity }: &Match) -> Self {
        Self::Memory(MemoryDocument {
            id: memory.id.as_str().to_owned(),
            similarity: similarity.get(),
            text: memory.content.to_string(),
            created_at: memory.created_at.instant().map(|at| at.to_string()),
            categories: memory.categories.iter().map(ToString::to_string).collect(),
            importance: memory.importance,
            access_count: memory.access_count,
            source: memory.source.to_string(),
        })
    }
}

impl SearchedDocument {
    fn new(searched: Searched, index: Option<&StoreIndex>) -> Self {
        match searched {
            Searched::Index { fresh_rows, gone_rows } => Self {
                kind: index.map_or("none", |index| index.files().tier().name()),
                generation: index.map(|index| index.files().generation().number()),
                rows: index.map_or(0, |index| index.files().columns().len() as u64),
                sealed_rows: index.map(sealed_rows),
                fresh_rows,
                gone_rows: Some(gone_rows),
                foreign: None,
            },
            Searched::Store { rows } | Searched::Words { rows } => Self::without_index(rows, false),
            Searched::StoreInsteadOfIndex { rows } => Self::without_index(rows, true),
        }
    }

    fn of_source(source: &Source) -> Self {
        match source {
            Source::Index(index) => Self {
                kind: index.files().tier().name(),
                generation: Some(index.files().generation().number()),
                rows: index.files().columns().len() as u64,
                sealed_rows: Some(0),
                fresh_rows: 0,
                gone_rows: Some(0),
                foreign: None,
            },
            Source::File { corpus, instead } => {
                Self::without_index(corpus.matrix().len() as u64, instead.is_some())
            }
        }
    }

    fn without_index(fresh_rows: u64, foreign: bool) -> Self {
        Self {
            kind: "none",
            generation: None,
            rows: 0,
            sealed_rows: None,
            fresh_rows,
            gone_rows: None,
            foreign: Some(foreign),
        }
    }
}

fn sealed_rows(index: &StoreIndex) -> u64 {
    index.fresh().iter().map(|segment| segment.len() as u64).sum()
}

impl ElapsedDocument {
    /// Takes the seconds until the store was open, and all of them.
    pub(super) fn new(open: f64, total: f64) -> Self {
        let micros = |seconds: f64| (seconds * 1e6).round() as u64;
        Self { open: micros(open), search: micros(total - open), total: micros(total) }
    }
}

/// Does without an index that cannot be opened, and says so.
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
    pub(super) fn open(args: &SearchArgs, printer: Printer, bars: &Bars) -> Result<Self, Failure> {
        let (input, mut columns) = (&args.place.db, args.columns.columns());
        let index = match args.no_index {
            true => None,
            false => opened(CorpusIndex::open(&context::index_to_read(&args.place)?), printer),
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

/// Tells whether an index has the columns asked for.
fn are_those(asked: &CorpusColumns, indexed: &CorpusColumns) -> bool {
    let same = |asked: &Option<String>, indexed| asked.is_none() || asked == indexed;
    same(&asked.vector, &indexed.vector) && same(&asked.id, &indexed.id)
}

/// Writes what queries found and returns how many rows that are.
pub(super) fn write<'a>(
    rows: impl Iterator<Item = NeighborRow<'a>>,
    output: &Path,
) -> Result<u64, Failure> {
    let failed = |error: DataError| {
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
    corpus: &Corpus,
    neighbors: u64,
    output: &Path,
    seconds: f64,
    global: &GlobalArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let shown = output.display();
    let queries = corpus.matrix().len();
    if global.json {
        printer.document(&QueriesDocument {
            schema_version: 1,
            queries: queries as u64,
            neighbors,
            skipped: corpus
                .skipped()
                .counts()
                .map(|(reason, count)| (reason.name().to_owned(), count))
                .collect(),
            output: shown.to_string(),
            seconds,
        })?;
    } else {
        printer.note(&format!("wrote {neighbors} neighbours of {queries} queries to {shown}"));
        skipped_rows(corpus).iter().for_each(|line| printer.note(line));
    }
    Ok(Exit::Done)
}

/// Characters of an id and of a text that are shown.
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
