//! `memfold recall`: the memories that answer a question, and times worked out from them.

use clap::{self, Args};
use memfold::lookup::{SearchError, StoreIndex};
use memfold::machine::Stopwatch;
use memfold::ops::{self, Elapsed, RecallDocument, Settings};
use memfold::recall::{
    RECALLED_DEFAULT, RecallMode, RecallOptions, RecallQuery, Recalled, Recaller,
};
use memfold_core::lifecycle::temporal::{Answer, answer, wants_time};
use memfold_guard::text::excerpt;
use memfold_store::BrainDb;

use crate::args::{GlobalArgs, StorePlaceArgs, whole};
use crate::context::{self, Provider, open_options};
use crate::failure::{Exit, Failure};
use crate::printer::{Printer, wrap};

/// `memfold recall`
#[derive(Debug, Args)]
pub(crate) struct RecallArgs {
    #[command(flatten)]
    pub(crate) place: StorePlaceArgs,
    /// What is asked, in words
    pub(crate) query: String,
    /// How far down the tiers to look
    #[arg(long, value_enum, value_name = "MODE", default_value = "standard")]
    pub(crate) mode: RecallMode,
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

pub(crate) fn run(
    global: &GlobalArgs,
    args: &RecallArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let stopwatch = Stopwatch::start();
    let settings = Settings::load(&global.sources(), Some(&args.place.db), &[])?;
    settings.show_notices(&printer);
    let time_zone = settings.time_zone()?;
    let now = ops::now(args.now.as_deref(), &time_zone)?;
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
        mode: args.mode,
        limit: args.limit as usize,
        include_summaries: args.include_summaries,
        counts: !args.no_count,
        now,
    };
    let mut found = recaller.recall(&query).map_err(|error| failed(args, &error))?;
    found.notes.extend(missing);
    let reasoned = (args.reason || wants_time(&args.query))
        .then(|| answer(&args.query, &ops::candidates(&found), now, &time_zone));
    let total = stopwatch.seconds();
    for note in &found.notes {
        printer.note(&format!("note: {note}"));
    }
    if global.json {
        let answer = reasoned.as_ref();
        let seconds = Elapsed { open, total };
        printer.document(&RecallDocument::new(&args.query, args.mode, &found, answer, seconds))?;
    } else {
        printer.data(&screen(&found, reasoned.as_ref()))?;
    }
    Ok(Exit::Done)
}

/// Does without an index that cannot be opened, and says so.
fn open_index(args: &RecallArgs, printer: Printer) -> Result<Option<StoreIndex>, Failure> {
    let folder = ops::index_to_read(&args.place.db, args.place.index_dir.as_deref())?;
    let opened = StoreIndex::open(&folder);
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
    let mut provider = Provider::open(settings, &args.place.db)?;
    if !provider.is_there() {
        return Ok((None, Some(ops::WORDS_ALONE.to_owned())));
    }
    Ok(match provider.vector(&args.query, &printer) {
        Ok((vector, _)) => (Some(vector), None),
        Err(problem) => (None, Some(format!("found by words alone: {problem}"))),
    })
}

fn failed(args: &RecallArgs, error: &SearchError) -> Failure {
    Failure::of(&format!("recall from {}", args.place.db.display()), error)
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
