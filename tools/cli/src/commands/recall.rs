//! `memfold recall`: the memories that answer a question, and times worked out from them.

use clap::{self, Args, ValueEnum};
use memfold::lookup::{SearchError, Searched, StoreIndex};
use memfold::machine::Stopwatch;
use memfold::recall::{
    ArchivedMemory, RECALLED_DEFAULT, RecallMode, RecallOptions, RecallQuery, Recalled,
    RecalledMemory, Recaller,
};
use memfold_core::lifecycle::temporal::{Answer, Candidate, TimeReference, answer, wants_time};
use memfold_core::lifecycle::{Retention, Tier, TierReason};
use memfold_guard::text::excerpt;
use memfold_store::BrainDb;

use crate::args::{GlobalArgs, StorePlaceArgs, whole};
use crate::context::{self, Provider, open_options};
use crate::failure::{Exit, Failure};
use crate::printer::{Printer, documents, wrap};
use crate::settings::{self, Settings};

documents! {
    "recall" => RecallDocument<'_>,
}

/// `memfold recall`
#[derive(Debug, Args)]
pub(crate) struct RecallArgs {
    #[command(flatten)]
    pub(crate) place: StorePlaceArgs,
    /// What is asked, in words
    pub(crate) query: String,
    /// How far down the tiers to look
    #[arg(long, value_enum, value_name = "MODE", default_value = "standard")]
    pub(crate) mode: ModeArg,
    /// Return at most K memories
    #[arg(short = 'k', long = "limit", value_name = "K", default_value_t = RECALLED_DEFAULT as u32, allow_negative_numbers = true, value_parser = whole::<u32>(1, 1_000))]
    pub(crate) limit: u32,
    /// The vector of the question: a file of f32 or JSON, a JSON array, or base64 of f32
    /// (little-endian) [default: made by embed.provider, where that is configured]
    #[arg(long, value_name = "VECTOR", allow_hyphen_values = true)]
    pub(crate) vector: Option<String>,
    /// Find the summaries of consolidations, too
    #[arg(long)]
    pub(crate) include_summaries: bool,
    /// Work out the time that is asked for, step by step [default: where the question asks for a
    /// time]
    #[arg(long)]
    pub(crate) reason: bool,
    /// Do not count the memories as read; nothing is written then
    #[arg(long)]
    pub(crate) no_count: bool,
    /// Tiers, distances and the access as of this time (RFC 3339) [default: the clock]
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
}

/// How far down the tiers to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    /// HOT memories
    Reflexive,
    /// HOT and WARM memories
    Standard,
    /// COLD memories too
    Deep,
    /// All, and what was merged or archived
    Exhaustive,
}

impl From<ModeArg> for RecallMode {
    fn from(mode: ModeArg) -> Self {
        match mode {
            ModeArg::Reflexive => Self::Reflexive,
            ModeArg::Standard => Self::Standard,
            ModeArg::Deep => Self::Deep,
            ModeArg::Exhaustive => Self::Exhaustive,
        }
    }
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &RecallArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let stopwatch = Stopwatch::start();
    let settings = Settings::load(global, Some(&args.place.db), &[])?;
    settings.show_notices(printer);
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.now.as_deref(), &time_zone)?;
    let store = BrainDb::at(&args.place.db, open_options(&settings));
    let index = open_index(args, printer)?;
    let (vector, missing) = vector(args, &settings, printer)?;
    let configured = &settings.configuration.settings;
    let options = RecallOptions {
        policy: settings.configuration.policy.clone(),
        retention: configured.lifecycle.retention.clone(),
        time_zone: time_zone.clone(),
        read_only: configured.read_only || !configured.enabled,
    };
    let recaller = Recaller::new(store, index, options);
    let open = stopwatch.seconds();
    let query = RecallQuery {
        text: &args.query,
        vector: vector.as_deref(),
        mode: args.mode.into(),
        limit: args.limit as usize,
        include_summaries: args.include_summaries,
        counts: !args.no_count,
        now,
    };
    let mut found = recaller.recall(&query).map_err(|error| failed(args, &error))?;
    found.notes.extend(missing);
    let reasoned = (args.reason || wants_time(&args.query))
        .then(|| answer(&args.query, &candidates(&found), now, &time_zone));
    let total = stopwatch.seconds();
    for note in &found.notes {
        printer.note(&format!("note: {note}"));
    }
    if global.json {
        let answer = reasoned.as_ref();
        printer.document(&RecallDocument::new(&query, &found, answer, open, total))?;
    } else {
        printer.data(&screen(&found, reasoned.as_ref()))?;
    }
    Ok(Exit::Done)
}

/// Does without an index that cannot be opened, and says so.
fn open_index(args: &RecallArgs, printer: Printer) -> Result<Option<StoreIndex>, Failure> {
    let opened = StoreIndex::open(&context::index_to_read(&(&args.place).into())?);
    Ok(opened.unwrap_or_else(|error| {
        printer.note(&format!("note: the index cannot be used: {error}"));
        None
    }))
}

/// Returns the vector of the question, or why there is none.
fn vector(
    args: &RecallArgs,
    settings: &Settings,
    printer: Printer,
) -> Result<(Option<Vec<f32>>, Option<String>), Failure> {
    if let Some(typed) = &args.vector {
        return Ok((Some(context::typed_vector(typed)?), None));
    }
    let mut provider = Provider::open(settings, &args.place.db, printer)?;
    if !provider.is_there() {
        return Ok((None, Some(WORDS_ALONE.to_owned())));
    }
    Ok(match provider.vector(&args.query) {
        Ok((vector, _)) => (Some(vector), None),
        Err(problem) => (None, Some(format!("found by words alone: {problem}"))),
    })
}

/// Said of a question without a vector, where nobody makes one.
pub const WORDS_ALONE: &str = "found by words alone: give --vector, or configure who makes vectors \
                           (embed.provider; docs/embedding.md)";

fn failed(args: &RecallArgs, error: &SearchError) -> Failure {
    let hint = error.hint();
    Failure::new(&format!("recall from {}", args.place.db.display()), error, hint)
}

/// Returns the memories whose time of creation can be read, as candidates for an answer.
pub fn candidates(found: &Recalled) -> Vec<Candidate> {
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
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecallDocument<'a> {
    schema_version: u32,
    query: &'a str,
    mode: RecallMode,
    /// Live memories, the best first.
    matches: Vec<RecalledDocument<'a>>,
    /// What is no longer live, the best first; in mode `exhaustive` only.
    archived: Vec<ArchivedDocument<'a>>,
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
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

/// A memory that is no longer live.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ArchivedDocument<'a> {
    id: &'a str,
    text: &'a str,
    /// The memory that it lives on in; `null` where a rule archived it.
    survivor: Option<&'a str>,
}

/// A time, and how it was found.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RecallElapsed {
    open: u64,
    recall: u64,
    total: u64,
}

impl<'a> RecallDocument<'a> {
    /// Takes what was found, the time worked out from it, and the seconds until the store was open and
    /// until the answer.
    pub fn new(
        query: &RecallQuery<'a>,
        found: &'a Recalled,
        reasoned: Option<&'a Answer>,
        open: f64,
        total: f64,
    ) -> Self {
        let micros = |seconds: f64| (seconds * 1e6).round() as u64;
        Self {
            schema_version: 1,
            query: query.text,
            mode: query.mode,
            matches: found.memories.iter().map(RecalledDocument::of).collect(),
            archived: found.archived.iter().map(ArchivedDocument::of).collect(),
            answer: reasoned.map(|answer| AnswerDocument::of(answer, found)),
            vectors: match found.searched {
                Some(Searched::Index { .. }) => "index",
                Some(_) => "store",
                None => "none",
            },
            words: found.by_words,
            counted: found.is_counted,
            notes: &found.notes,
            elapsed_us: RecallElapsed {
                open: micros(open),
                recall: micros(total - open),
                total: micros(total),
            },
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

impl<'a> ArchivedDocument<'a> {
    fn of(found: &'a ArchivedMemory) -> Self {
        let survivor = found.survivor.as_ref().map(|id| id.as_str());
        Self { id: found.id.as_str(), text: &found.text, survivor }
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

/// Characters of an id and of a text that are shown.
const ID_CHARS: usize = 50;
const TEXT_CHARS: usize = 150;
/// Columns of a text behind its margin.
const TEXT_COLUMNS: usize = 72;

fn screen(found: &Recalled, reasoned: Option<&Answer>) -> String {
    let mut text = String::new();
    if let Some(answer) = reasoned {
        let said = answer.answer.as_deref().unwrap_or("none");
        let confidence = answer.confidence.value();
        text.push_str(&format!("answer: {said} (confidence {confidence:.2})\n"));
        for step in &answer.chain {
            text.push_str(&format!("  - {}\n", excerpt(step, TEXT_CHARS)));
        }
        text.push('\n');
    }
    if found.memories.is_empty() && found.archived.is_empty() {
        text.push_str("no memory was found\n");
    }
    for found in &found.memories {
        let id = excerpt(found.memory.id.as_str(), ID_CHARS);
        text.push_str(&format!("{:.4}  {:4}  {id}\n", found.score, found.tier));
        push_lines(&mut text, &found.memory.content);
        if let Some(newer) = &found.superseded_by {
            let newer = excerpt(newer.as_str(), ID_CHARS);
            text.push_str(&format!("        superseded by {newer}\n"));
        }
        for merged in &found.found_as {
            let merged = excerpt(merged.as_str(), ID_CHARS);
            text.push_str(&format!("        found as {merged}, which was merged into it\n"));
        }
    }
    for archived in &found.archived {
        let id = excerpt(archived.id.as_str(), ID_CHARS);
        let survivor = match &archived.survivor {
            Some(survivor) => format!("merged into {}", excerpt(survivor.as_str(), ID_CHARS)),
            None => "archived by a rule".to_owned(),
        };
        text.push_str(&format!("        {id}, {survivor}\n"));
        push_lines(&mut text, &archived.text);
    }
    text
}

fn push_lines(text: &mut String, content: &str) {
    for line in wrap(&excerpt(content, TEXT_CHARS), TEXT_COLUMNS) {
        text.push_str(&format!("        {line}\n"));
    }
}
