//! `memfold recall`: the memories that answer a question, and times worked out from them.

use clap::{self, Args};
use memfold::machine::Stopwatch;
use memfold::ops::{
    self, Answered, Elapsed, Memories, MemoriesOptions, RecallDocument, RecallRequest,
};
use memfold::recall::{RECALLED_DEFAULT, RecallMode, Recalled};
use memfold_core::lifecycle::temporal::Answer;
use memfold_guard::text::excerpt;

use crate::args::{StorePlaceArgs, whole};
use crate::call::Call;
use crate::context;
use crate::failure::{Exit, Failure};
use crate::printer::wrap;

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

pub(crate) fn run(call: Call<'_>, args: &RecallArgs) -> Result<Exit, Failure> {
    let stopwatch = Stopwatch::start();
    let settings = call.settings(&args.place.db)?;
    let time_zone = settings.time_zone()?;
    let now = ops::now(args.now.as_deref(), &time_zone)?;
    let request = RecallRequest {
        query: args.query.clone(),
        vector: args.vector.as_deref().map(context::typed_vector).transpose()?,
        mode: args.mode,
        limit: Some(args.limit as usize),
        include_summaries: args.include_summaries,
        reason: args.reason,
        no_count: args.no_count,
        ..RecallRequest::default()
    };
    let index_dir = args.place.index_dir.as_deref();
    let options = MemoriesOptions { index_dir, may_count: true, embeds: request.vector.is_none() };
    let memories = Memories::open(&args.place.db, &settings, options)?;
    let open = stopwatch.seconds();
    let recalled = memories.recall(&request, now, &call.printer).map_err(|error| {
        Failure::of(&format!("recall from {}", args.place.db.display()), &error)
    })?;
    let Answered { recalled: found, answer: reasoned, .. } = recalled;
    let total = stopwatch.seconds();
    for note in &found.notes {
        call.printer.note(&format!("note: {note}"));
    }
    let (answer, seconds) = (reasoned.as_ref(), Elapsed { open, total });
    let document = RecallDocument::new(&args.query, args.mode, &found, answer, seconds);
    call.show(&document, || screen(&found, answer))
}

/// Characters of an id and of a text that are displayed.
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
