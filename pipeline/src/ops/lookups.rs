//! The answers of lookups: checks, saves, searches and recalls as documents.

use memfold_core::lifecycle::temporal::{Answer, Candidate, TimeReference};
use memfold_core::lifecycle::{Retention, Tier, TierReason};
use schemars::JsonSchema;
use serde::Serialize;

use crate::lookup::corpus::{RowMatch, SearchedRows};
use crate::lookup::{Match, Matches, Searched, StoreIndex};
use crate::quick_check::{Check, Saved};
use crate::recall::{ArchivedMemory, RecallMode, Recalled, RecalledMemory};

/// Seconds of a lookup.
#[derive(Debug, Clone, Copy, Default)]
pub struct Elapsed {
    /// Until the store was open.
    pub open: f64,
    /// Until the answer.
    pub total: f64,
}

impl Elapsed {
    /// Returns the microseconds to open, to look up, and in all.
    fn micros(self) -> [u64; 3] {
        let micros = |seconds: f64| (seconds * 1e6).round() as u64;
        [micros(self.open), micros(self.total - self.open), micros(self.total)]
    }
}

/// Returns the memories with a readable time of creation, as candidates for an answer.
pub(super) fn candidates(found: &Recalled) -> Vec<Candidate> {
    let candidate = |found: &RecalledMemory| {
        Some(Candidate {
            id: found.memory.id.clone(),
            text: found.memory.content.to_string(),
            created_at: found.memory.created_at.instant()?,
            rank_score: found.score,
        })
    };
    found.memories.iter().filter_map(candidate).collect()
}

/// `memfold recall --json`
#[derive(Debug, Serialize, JsonSchema)]
pub struct RecallDocument<'a> {
    schema_version: u32,
    query: &'a str,
    mode: RecallMode,
    /// Live memories, the best first.
    matches: Vec<RecalledDocument<'a>>,
    /// What is no longer live, the best first; in mode `exhaustive` only.
    archived: &'a [ArchivedMemory],
    /// The time that was asked for, where one was.
    answer: Option<AnswerDocument<'a>>,
    /// How vectors were searched: `index`, `store` (all of them) or `none`.
    vectors: &'static str,
    /// Whether words were searched.
    words: bool,
    /// Whether the matches were counted as read.
    counted: bool,
    /// What a user should know.
    notes: &'a [String],
    elapsed_us: RecallElapsed,
}

/// A memory that was recalled.
#[derive(Debug, Serialize, JsonSchema)]
struct RecalledDocument<'a> {
    id: &'a str,
    text: &'a str,
    /// Sum of 1 / (60 + rank) over vectors and words.
    score: f64,
    /// The canonical similarity to the vector; `null` where vectors did not find it.
    similarity: Option<f64>,
    /// Its place among those found by vector, from 1.
    vector_rank: Option<usize>,
    /// Its place among those found by words, from 1.
    word_rank: Option<usize>,
    tier: Tier,
    retention: Retention,
    /// What made its tier.
    reasons: &'a [TierReason],
    /// Whether a consolidation wrote it as a summary.
    summary: bool,
    /// The memory that supersedes it.
    superseded_by: Option<&'a str>,
    /// Memories merged into it whose words were found.
    found_as: Vec<&'a str>,
    /// In UTC; `null` where it cannot be read.
    created_at: Option<String>,
    categories: Vec<&'a str>,
    importance: f64,
    /// Before this recall.
    access_count: i64,
    source: &'a str,
}

/// A time, and how it was found.
#[derive(Debug, Serialize, JsonSchema)]
struct AnswerDocument<'a> {
    /// A date, a range, a time or a distance; `null` where no memory was found.
    answer: Option<&'a str>,
    /// From 0 to 1.
    confidence: f32,
    /// The steps, as sentences.
    chain: &'a [String],
    /// The times that the memory names, the one used first.
    resolved: Vec<ResolvedDocument<'a>>,
    /// The memories that the answer rests on.
    sources: Vec<&'a str>,
}

/// A time that a memory names.
#[derive(Debug, Serialize, JsonSchema)]
struct ResolvedDocument<'a> {
    /// The words of the text that name it.
    words: &'a str,
    /// The first instant within, in UTC.
    start: String,
    /// The first instant behind, in UTC.
    end: String,
    confidence: f32,
    /// Why it is not surer.
    note: Option<&'a str>,
}

/// Wall time in microseconds.
#[derive(Debug, Serialize, JsonSchema)]
struct RecallElapsed {
    open: u64,
    recall: u64,
    total: u64,
}

impl<'a> RecallDocument<'a> {
    /// Makes it from the memories found for a question, and the time derived from them.
    #[must_use]
    pub fn new(
        query: &'a str,
        mode: RecallMode,
        found: &'a Recalled,
        reasoned: Option<&'a Answer>,
        seconds: Elapsed,
    ) -> Self {
        let [open, recall, total] = seconds.micros();
        Self {
            schema_version: 1,
            query,
            mode,
            matches: found.memories.iter().map(RecalledDocument::of).collect(),
            archived: &found.archived,
            answer: reasoned.map(|answer| AnswerDocument::of(answer, found)),
            vectors: match found.searched {
                Some(Searched::Index { .. }) => "index",
                Some(_) => "store",
                None => "none",
            },
            words: found.by_words,
            counted: found.is_counted,
            notes: &found.notes,
            elapsed_us: RecallElapsed { open, recall, total },
        }
    }
}

impl<'a> RecalledDocument<'a> {
    fn of(found: &'a RecalledMemory) -> Self {
        let memory = &found.memory;
        Self {
            id: memory.id.as_str(),
            text: &memory.content,
            score: found.score,
            similarity: found.similarity.map(|similarity| similarity.get()),
            vector_rank: found.vector_rank,
            word_rank: found.word_rank,
            tier: found.tier,
            retention: found.retention,
            reasons: &found.reasons,
            summary: found.is_summary,
            superseded_by: found.superseded_by.as_ref().map(|id| id.as_str()),
            found_as: found.found_as.iter().map(|id| id.as_str()).collect(),
            created_at: memory.created_at.instant().map(|at| at.to_string()),
            categories: memory.categories.iter().map(|category| &**category).collect(),
            importance: memory.importance,
            access_count: memory.access_count,
            source: &memory.source,
        }
    }
}

impl<'a> AnswerDocument<'a> {
    fn of(answer: &'a Answer, found: &'a Recalled) -> Self {
        let source = answer.sources.first();
        let memory = found.memories.iter().find(|found| Some(&found.memory.id) == source);
        let text = memory.map_or("", |found| &found.memory.content);
        let resolved = |reference: &'a TimeReference| ResolvedDocument {
            words: text.get(reference.span.clone()).unwrap_or_default(),
            start: reference.interval.start.to_string(),
            end: reference.interval.end.to_string(),
            confidence: reference.confidence.value(),
            note: reference.note.as_deref(),
        };
        Self {
            answer: answer.answer.as_deref(),
            confidence: answer.confidence.value(),
            chain: &answer.chain,
            resolved: answer.resolved.iter().map(resolved).collect(),
            sources: answer.sources.iter().map(|id| id.as_str()).collect(),
        }
    }
}

/// `memfold search --json`
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchDocument {
    schema_version: u32,
    /// What is near, the most similar first.
    matches: Vec<MatchDocument>,
    index: SearchedDocument,
    /// What a user should know and can do: memories that have no vector.
    pub notes: Vec<String>,
    elapsed_us: ElapsedDocument,
}

/// A memory of a store, or a row of a file.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum MatchDocument {
    Memory(MemoryDocument),
    Row(RowDocument),
}

/// A row that is near.
#[derive(Debug, Serialize, JsonSchema)]
struct RowDocument {
    /// Its place in the file, from 0.
    row: u64,
    /// Its id, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The canonical similarity to the query.
    similarity: f64,
}

/// A memory that is near.
#[derive(Debug, Serialize, JsonSchema)]
struct MemoryDocument {
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
#[derive(Debug, Serialize, JsonSchema)]
struct SearchedDocument {
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
#[derive(Debug, Serialize, JsonSchema)]
struct ElapsedDocument {
    open: u64,
    search: u64,
    total: u64,
}

impl SearchDocument {
    /// Takes memories that were found, and the index that was searched.
    #[must_use]
    pub fn new(found: &Matches, index: Option<&StoreIndex>, seconds: Elapsed) -> Self {
        Self {
            schema_version: 1,
            matches: found.matches.iter().map(MatchDocument::of_memory).collect(),
            index: SearchedDocument::new(found.searched, index),
            notes: Vec::new(),
            elapsed_us: ElapsedDocument::new(seconds),
        }
    }

    /// Takes rows of a file that were found; `is_foreign` where its index does not fit.
    #[must_use]
    pub fn of_rows(
        found: &[RowMatch],
        rows: SearchedRows<'_>,
        is_foreign: bool,
        seconds: Elapsed,
    ) -> Self {
        Self {
            schema_version: 1,
            matches: found.iter().map(MatchDocument::of_row).collect(),
            index: SearchedDocument::of_rows(rows, is_foreign),
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
                sealed_rows: index.map(StoreIndex::sealed_rows),
                fresh_rows,
                gone_rows: Some(gone_rows),
                foreign: None,
            },
            Searched::Store { rows } | Searched::Words { rows } => Self::without_index(rows, false),
            Searched::StoreInsteadOfIndex { rows } => Self::without_index(rows, true),
        }
    }

    fn of_rows(rows: SearchedRows<'_>, is_foreign: bool) -> Self {
        match rows {
            SearchedRows::Index(index) => Self {
                kind: index.files().tier().name(),
                generation: Some(index.files().generation().number()),
                rows: index.files().columns().len() as u64,
                sealed_rows: Some(0),
                fresh_rows: 0,
                gone_rows: Some(0),
                foreign: None,
            },
            SearchedRows::Corpus(corpus) => {
                Self::without_index(corpus.matrix().len() as u64, is_foreign)
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

impl ElapsedDocument {
    fn new(seconds: Elapsed) -> Self {
        let [open, search, total] = seconds.micros();
        Self { open, search, total }
    }
}

/// `memfold check --json`
#[derive(Debug, Serialize, JsonSchema)]
pub struct CheckDocument<'a> {
    schema_version: u32,
    #[serde(flatten)]
    check: &'a Check,
}

/// `memfold save --json`, and a line that answers one of `--jsonl`
#[derive(Debug, Serialize, JsonSchema)]
pub struct SaveDocument<'a> {
    schema_version: u32,
    /// The line of `--jsonl`, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// Whether it is on disk.
    stored: bool,
    #[serde(flatten)]
    saved: &'a Saved,
}

/// A memory that was not saved
#[derive(Debug, Serialize)]
pub struct NotSavedDocument {
    schema_version: u32,
    /// The line of `--jsonl`, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// Whether it is on disk.
    stored: bool,
    error: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl<'a> CheckDocument<'a> {
    /// Makes it from a check.
    #[must_use]
    pub const fn new(check: &'a Check) -> Self {
        Self { schema_version: 1, check }
    }
}

impl<'a> SaveDocument<'a> {
    /// Makes it from a save; `line` where it answers one of `--jsonl`.
    #[must_use]
    pub const fn new(line: Option<u64>, saved: &'a Saved) -> Self {
        Self { schema_version: 1, line, stored: true, saved }
    }
}

impl NotSavedDocument {
    /// Takes why it was not saved.
    #[must_use]
    pub const fn new(line: Option<u64>, error: String, hint: Option<String>) -> Self {
        Self { schema_version: 1, line, stored: false, error, hint }
    }
}
