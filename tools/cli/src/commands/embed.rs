//! `memfold embed`: memories without an embedding get one.

use clap::builder::NonEmptyStringValueParser;
use clap::{self, Args, ValueHint};
use memfold::embed::fill::{Coverage, Filled, Refusal};
use memfold::embed::replace::{ComparedPairs, Replaced};
use memfold::ops::{self, EmbedDocument, EmbedRequest, ReplaceDocument, StorePath, path_word};
use memfold_core::report::Mode;
use memfold_guard::text::excerpt;

use crate::args::{GlobalArgs, WritingArgs, store_path, whole};
use crate::call::Call;
use crate::failure::{Exit, Failure};
use crate::progress::Bars;
use crate::writing::{Words, noun};

/// `memfold embed`
#[derive(Debug, Args)]
#[command(after_help = PROVIDERS)]
pub(crate) struct EmbedArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    #[arg(value_parser = store_path(), value_hint = ValueHint::AnyPath)]
    pub(crate) db: StorePath,
    /// Give N memories an embedding at most, newest first; running again continues
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<usize>(1, u64::MAX))]
    pub(crate) limit: Option<usize>,
    /// Replace the model of all vectors: compare the pairs of both, and with --execute put the new vectors in place
    #[arg(long, value_name = "MODEL", conflicts_with = "limit", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) replace: Option<String>,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
}

/// The end of the help of `memfold embed`.
const PROVIDERS: &str = "\
Vectors come from the provider that the configuration names, and texts go
nowhere else: --set embed.provider=daemon (the brain's own, port 8030), ollama,
openai (any program of that protocol; --set embed.url=…) or local.
Embeddings of an earlier text, or that are no vectors, are counted and stay.
With --replace texts are sent without --execute too: vectors are kept beside
the index, so that none is made twice, and so are those that are replaced.";

pub(crate) fn run(call: Call<'_>, args: &EmbedArgs) -> Result<Exit, Failure> {
    let settings = call.settings(&args.db)?;
    let request = EmbedRequest {
        limit: args.limit,
        now: args.writing.now.as_deref(),
        execute: call.may_write(&settings, &args.writing),
    };
    let bars = Bars::new(call.printer);
    let (note, is_whole) = match &args.replace {
        Some(model) => {
            let threads = call.global.threads;
            let found = ops::replace_model(&args.db, &settings, model, request, threads, &bars)?;
            drop(bars);
            call.show(&found, || replaced(&found, call.global, args))?;
            ("dry run: the store was not written", found.refused.is_empty())
        }
        None => {
            let found = ops::embed(&args.db, &settings, request, &bars)?;
            drop(bars);
            call.show(&found, || told(&found, call.global, args))?;
            let note = "dry run: nothing was sent anywhere or written to the store";
            (note, found.filled.refused.is_empty())
        }
    };
    if !request.execute && !call.global.json {
        call.printer.note(note);
    }
    Ok(if is_whole { Exit::Done } else { Exit::Partial })
}

/// Refused memories that are listed one by one.
const SHOWN: usize = 10;
const ID_CHARS: usize = 60;
const REASON_CHARS: usize = 200;
const TEXT_CHARS: usize = 68;

/// Describes how the pairs of two models differ, or the replacement.
fn replaced(found: &ReplaceDocument, global: &GlobalArgs, args: &EmbedArgs) -> String {
    let before = match (&found.model_before, found.dim_before) {
        (Some(model), dim) => space(model, dim.map(u64::from)),
        (None, _) => "none".to_owned(),
    };
    let ComparedPairs { threshold, before: old, after, both, lost, gained } = &found.pairs;
    let mut text = format!(
        "{} memories in use\nold vectors: {before}\nnew vectors: {}, {} texts sent now\n\
         pairs at {threshold} or more: {old} by the old, {after} by the new, {both} by both\n",
        found.live,
        space(&found.model, found.dim.map(u64::from)),
        found.sent
    );
    for (what, count, pairs) in [("lost", old - both, lost), ("gained", after - both, gained)] {
        let nearest = if pairs.is_empty() { "" } else { ", the nearest:" };
        text.push_str(&format!("{count} {what}{nearest}\n"));
        for pair in pairs {
            let [one, other] = pair.texts.each_ref().map(|text| excerpt(text, TEXT_CHARS));
            text.push_str(&format!("  {:.3}  {one}\n         {other}\n", pair.similarity));
        }
    }
    for one in found.refused.iter().take(SHOWN) {
        text.push_str(&format!("refused: {}\n", refusal(one)));
    }
    let Replaced { replaced, changed } = found.replaced;
    if found.mode == Mode::DryRun {
        let next = next(Words::default().values("--replace", Some(&found.model)), global, args);
        text.push_str(&format!("next: {next}\n"));
        return text;
    }
    text.push_str(&format!("{replaced} memories have the new vectors\n"));
    text.push_str(&told_changed(changed));
    if let Some(model) = &found.model_before {
        text.push_str(&format!(
            "the old ones are kept: --replace {} brings them back\n",
            path_word(model.as_ref())
        ));
    }
    text
}

/// Describes the findings, or the results.
fn told(found: &EmbedDocument, global: &GlobalArgs, args: &EmbedArgs) -> String {
    let Coverage { live, with_embedding, missing, stale, invalid } = found.coverage;
    let mut text = format!(
        "{live} {} in use: {with_embedding} with an embedding, {missing} without one\n",
        noun(live, "memory", "memories")
    );
    if stale > 0 {
        text.push_str(&format!("  {stale} have that of an earlier text, which stays\n"));
    }
    if invalid > 0 {
        text.push_str(&format!("  {invalid} have one that is no vector, which stays\n"));
    }
    text + &match found.mode {
        Mode::Execute => done(found),
        Mode::DryRun => planned(found, global, args),
    }
}

fn planned(found: &EmbedDocument, global: &GlobalArgs, args: &EmbedArgs) -> String {
    let mut text = String::new();
    if let Some(space) = space_of(found) {
        text.push_str(&format!("the store's vectors: {space}\n"));
    }
    if found.coverage.missing == 0 {
        return text;
    }
    match &found.place {
        Some(place) => {
            let texts = noun(found.wanted, "text", "texts");
            text.push_str(&format!("{} {texts} would go to {place}\n", found.wanted));
            let next = next(Words::default().values("--limit", args.limit), global, args);
            text.push_str(&format!("next: {next}\n"));
        }
        None => text.push_str(
            "no provider is configured: --set embed.provider=daemon, ollama, openai or\n\
             local (docs/embedding.md)\n",
        ),
    }
    text
}

/// The command that does it, with the given options.
fn next(words: Words, global: &GlobalArgs, args: &EmbedArgs) -> String {
    words.global(global).word("--execute").command("embed", &args.db)
}

fn done(found: &EmbedDocument) -> String {
    let Filled { filled, present, changed, refused, .. } = &found.filled;
    let of =
        space_of(found).filter(|_| *filled > 0).map_or_else(String::new, |of| format!(": {of}"));
    let mut text = format!("{filled} were given one{of}\n");
    if *present > 0 {
        text.push_str(&format!("  {present} have a row of embeddings meanwhile\n"));
    }
    text.push_str(&told_changed(*changed));
    if !refused.is_empty() {
        text.push_str(&format!("  {} were refused:\n", refused.len()));
    }
    for one in refused.iter().take(SHOWN) {
        text.push_str(&format!("    {}\n", refusal(one)));
    }
    if refused.len() > SHOWN {
        text.push_str(&format!("    and {} more (--json lists all)\n", refused.len() - SHOWN));
    }
    if found.over_limit > 0 {
        text.push_str(&format!("  {} are left; running again continues\n", found.over_limit));
    }
    text
}

fn told_changed(changed: u64) -> String {
    match changed {
        0 => String::new(),
        _ => format!("  {changed} are gone or say something else meanwhile; run again for these\n"),
    }
}

fn refusal(one: &Refusal) -> String {
    format!("{}: {}", excerpt(one.id.as_str(), ID_CHARS), excerpt(&one.reason, REASON_CHARS))
}

fn space_of(found: &EmbedDocument) -> Option<String> {
    let model = found.model.as_deref().unwrap_or("a model that is not named");
    found.dim.map(|dim| space(model, Some(dim)))
}

fn space(model: &str, dim: Option<u64>) -> String {
    let dim = dim.map_or_else(String::new, |dim| format!(", {dim} dimensions"));
    format!("{}{dim}", excerpt(model, ID_CHARS))
}
