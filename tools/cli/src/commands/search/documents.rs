//! What `memfold search` prints with `--json`.

use memfold::lookup::corpus::RowMatch;
use memfold::lookup::{Match, Matches, Searched, StoreIndex};

use super::corpus::Source;
use crate::document::documents;

documents! { "search" => SearchDocument, "search-queries" => QueriesDocument }

/// `memfold search --json`
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SearchDocument {
    pub(super) schema_version: u32,
    /// What is near, the most similar first.
    pub(super) matches: Vec<MatchDocument>,
    pub(super) index: SearchedDocument,
    /// What a user should know and can do: memories that have no vector.
    pub(super) notes: Vec<String>,
    pub(super) elapsed_us: ElapsedDocument,
}

/// A memory of a store, or a row of a file.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(super) enum MatchDocument {
    Memory(MemoryDocument),
    Row(RowDocument),
}

/// A row that is near.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RowDocument {
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
pub(super) struct MemoryDocument {
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
pub(super) struct SearchedDocument {
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
pub(super) struct ElapsedDocument {
    open: u64,
    search: u64,
    total: u64,
}

/// `memfold search --queries --json`
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct QueriesDocument {
    pub(super) schema_version: u32,
    pub(super) queries: u64,
    /// Rows of the file.
    pub(super) neighbors: u64,
    pub(super) output: String,
    pub(super) seconds: f64,
}

impl SearchDocument {
    pub(super) fn new(found: &Matches, index: Option<&StoreIndex>, seconds: (f64, f64)) -> Self {
        Self {
            schema_version: 1,
            matches: found.matches.iter().map(MatchDocument::of_memory).collect(),
            index: SearchedDocument::new(found.searched, index),
            notes: Vec::new(),
            elapsed_us: ElapsedDocument::new(seconds),
        }
    }

    pub(super) fn of_rows(found: &[RowMatch], source: &Source, seconds: (f64, f64)) -> Self {
        Self {
            schema_version: 1,
            matches: found.iter().map(MatchDocument::of_row).collect(),
            index: SearchedDocument::of_source(source),
            notes: Vec::new(),
            elapsed_us: ElapsedDocument::new(seconds),
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
            Searched::Store { rows } => Self::without_index(rows, false),
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
    pub(super) fn new((open, total): (f64, f64)) -> Self {
        let micros = |seconds: f64| (seconds * 1e6).round() as u64;
        Self { open: micros(open), search: micros(total - open), total: micros(total) }
    }
}
