//! `memfold embed`: memories without an embedding get one.

use clap::builder::NonEmptyStringValueParser;
use clap::{self, Args, ValueHint};
use memfold::embed::EmbedError;
use memfold::embed::fill::{Fill, Filled, Refusal, Unembedded, check_space, fill, unembedded};
use memfold::embed::replace::{BothModels, ComparedPairs, Replace, ReplaceError, Replaced};
use memfold::embed::{Embedder, Provider, embedder};
use memfold::machine::{self, Stopwatch};
use memfold::ops::{self, FailureKind, Settings, StorePath, path_word};
use memfold_core::policy::name_of;
use memfold_core::report::Mode;
use memfold_guard::text::excerpt;
use memfold_index::{JoinOptions, Progress};
use memfold_store::LoadRequest;

use crate::args::{GlobalArgs, WritingArgs, store_path, whole};
use crate::context::open_store;
use crate::failure::{Exit, Failure};
use crate::printer::Printer;
use crate::progress::Bars;
use crate::writing::{self, Words};

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

pub(crate) fn run(
    global: &GlobalArgs,
    args: &EmbedArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(&global.sources(), Some(&args.db), &[])?;
    settings.show_notices(&printer);
    let stopwatch = Stopwatch::start();
    if let Some(model) = &args.replace {
        return replace(global, args, settings, model, printer);
    }
    let WritingArgs { execute, dry_run, .. } = args.writing;
    let executes = writing::may_write(&settings, execute, dry_run, &printer);
    let bars = Bars::new(printer);
    let mut lacking = look(args, &settings, &bars)?;
    let over = lacking.pending.len().saturating_sub(args.limit.unwrap_or(usize::MAX));
    lacking.pending.truncate(lacking.pending.len() - over);
    let provider = provider(&settings, &lacking)?;
    let place = provider.as_ref().map(|provider| provider.place().to_owned());
    let filled = match provider {
        _ if !executes => None,
        _ if lacking.pending.is_empty() => Some(Filled::default()),
        Some(provider) => {
            let configured = settings.configuration.settings.embed.provider;
            if configured != Some(Provider::Local) {
                printer.note(&format!("note: texts are sent to {}", provider.place()));
            }
            Some(give(args, &settings, &lacking, provider, &bars)?)
        }
        None => return Err(nobody()),
    };
    drop(bars);
    let found = EmbedDocument {
        provider: settings.configuration.settings.embed.provider.map(name_of),
        place,
        over_limit: over as u64,
        seconds: stopwatch.seconds(),
        ..EmbedDocument::new(&lacking, filled)
    };
    if global.json {
        printer.document(&found)?;
    } else {
        printer.data(&told(&found, global, args))?;
        if !executes {
            printer.note("dry run: nothing was sent anywhere or written to the store");
        }
    }
    Ok(if found.refused.is_empty() { Exit::Done } else { Exit::Partial })
}

/// `memfold embed --replace`
fn replace(
    global: &GlobalArgs,
    args: &EmbedArgs,
    mut settings: Settings,
    model: &str,
    printer: Printer,
) -> Result<Exit, Failure> {
    let stopwatch = Stopwatch::start();
    let WritingArgs { execute, dry_run, .. } = args.writing;
    let executes = writing::may_write(&settings, execute, dry_run, &printer);
    let bars = Bars::new(printer);
    let configured = &mut settings.configuration.settings.embed;
    configured.model = Some(model.to_owned());
    let variables = |name: &str| std::env::var(name).ok();
    let provider = embedder(configured, Some(model), &variables);
    let provider = provider.map_err(|error| failed(&error, 0))?;
    if let Some(provider) = &provider
        && configured.provider != Some(Provider::Local)
    {
        printer
            .note(&format!("note: texts without a kept vector are sent to {}", provider.place()));
    }
    let configured = &settings.configuration;
    let store = open_store(&args.db, &settings)?;
    let folder = ops::index_to_build(&args.db, None)?;
    let mode = ops::mode_of(&args.db)?;
    let scratch_dir = ops::scratch_dir();
    let pool = ops::pool(global.threads)?;
    let time_zone = settings.time_zone()?;
    let now = ops::now(args.writing.now.as_deref(), &time_zone)?;
    let request = LoadRequest { time_zone: &time_zone, now, progress: &bars };
    let both = BothModels::compare(
        &store,
        &request,
        Replace {
            model,
            provider,
            batch_size: configured.settings.embed.batch_size,
            folder: &folder,
            mode,
            scratch_dir: &scratch_dir,
            threshold: configured.policy.propose.min_similarity,
            join: JoinOptions {
                scratch_dir: Some(&scratch_dir),
                progress: &bars,
                ..JoinOptions::new(&pool)
            },
        },
    )
    .map_err(|error| not_replaced(&error))?;
    let replaced = match executes {
        false => None,
        true => {
            let session = writing::open_own_tables(&args.db, &settings)?;
            let written = both.write(&session, &folder, mode, now, &time_zone);
            Some(written.map_err(|error| not_replaced(&error))?)
        }
    };
    drop(bars);
    let found = ReplaceDocument::new(both, model, replaced, stopwatch.seconds());
    if global.json {
        printer.document(&found)?;
    } else {
        let words = Words::default().values("--replace", Some(model)).global(global);
        let next = words.word("--execute").command("embed", &args.db);
        printer.data(&found.told(&next))?;
        if !executes {
            printer.note("dry run: the store was not written");
        }
    }
    Ok(if found.refused.is_empty() { Exit::Done } else { Exit::Partial })
}

fn not_replaced(error: &ReplaceError) -> Failure {
    let what = "replace the model";
    match error {
        ReplaceError::Embed(error) => failed(error, 0),
        ReplaceError::File(error) => Failure::new(what, error, error.hint()),
        ReplaceError::Columns(error) => Failure::new(what, error, error.hint()),
        ReplaceError::Join(error) => Failure::new(what, error, error.hint()),
        ReplaceError::Pairs(error) => Failure::new(what, error, error.hint()),
        other => Failure::new(what, other, None),
    }
}

/// `memfold embed --replace --json`
#[derive(Debug, serde::Serialize)]
struct ReplaceDocument {
    schema_version: u32,
    mode: Mode,
    /// Memories in use.
    live: u64,
    /// The model of most vectors of another model; `null` where there are none.
    model_before: Option<String>,
    /// Its components.
    dim_before: Option<u32>,
    /// The new model.
    model: String,
    /// Its components.
    dim: Option<u32>,
    /// Texts that were sent to the provider now.
    sent: u64,
    /// How the pairs of both differ.
    pairs: ComparedPairs,
    /// The counts of the replacement.
    #[serde(flatten)]
    replaced: Replaced,
    /// Memories with a text that the provider does not take.
    refused: Vec<Refusal>,
    seconds: f64,
}

impl ReplaceDocument {
    fn new(both: BothModels, model: &str, replaced: Option<Replaced>, seconds: f64) -> Self {
        Self {
            schema_version: 1,
            mode: Mode::of(replaced.is_some()),
            live: both.live() as u64,
            model_before: both.old.as_ref().map(|space| space.model.to_string()),
            dim_before: both.old.as_ref().map(|space| space.dim),
            model: model.to_owned(),
            dim: both.dim(),
            sent: both.sent,
            pairs: both.pairs,
            replaced: replaced.unwrap_or_default(),
            refused: both.refused,
            seconds,
        }
    }

    fn told(&self, next: &str) -> String {
        let space = |model: &str, dim: Option<u32>| {
            let dim = dim.map_or_else(String::new, |dim| format!(", {dim} dimensions"));
            format!("{}{dim}", excerpt(model, ID_CHARS))
        };
        let before = self.model_before.as_deref();
        let before =
            before.map_or_else(|| "none".to_owned(), |model| space(model, self.dim_before));
        let ComparedPairs { threshold, before: old, after, both, lost, gained } = &self.pairs;
        let mut text = format!(
            "{} memories in use\nold vectors: {before}\nnew vectors: {}, {} texts sent now\n\
             pairs at {threshold} or more: {old} by the old, {after} by the new, {both} by both\n",
            self.live,
            space(&self.model, self.dim),
            self.sent
        );
        for (what, count, pairs) in [("lost", old - both, lost), ("gained", after - both, gained)] {
            text.push_str(&format!(
                "{count} {what}{}\n",
                if pairs.is_empty() { "" } else { ", the nearest:" }
            ));
            for pair in pairs {
                let [one, other] = pair.texts.each_ref().map(|text| excerpt(text, TEXT_CHARS));
                text.push_str(&format!("  {:.3}  {one}\n         {other}\n", pair.similarity));
            }
        }
        for one in self.refused.iter().take(SHOWN) {
            let (id, reason) =
                (excerpt(one.id.as_str(), ID_CHARS), excerpt(&one.reason, REASON_CHARS));
            text.push_str(&format!("refused: {id}: {reason}\n"));
        }
        let Replaced { replaced, changed } = self.replaced;
        if self.mode == Mode::DryRun {
            text.push_str(&format!("next: {next}\n"));
            return text;
        }
        text.push_str(&format!("{replaced} memories have the new vectors\n"));
        if changed > 0 {
            text.push_str(&format!(
                "  {changed} are gone or say something else meanwhile; run again for these\n"
            ));
        }
        if let Some(model) = &self.model_before {
            text.push_str(&format!(
                "the old ones are kept: --replace {} brings them back\n",
                path_word(model.as_ref())
            ));
        }
        text
    }
}

/// Finds the embeddings that the store lacks.
fn look(args: &EmbedArgs, settings: &Settings, bars: &Bars) -> Result<Unembedded, Failure> {
    let store = open_store(&args.db, settings)?;
    let time_zone = settings.time_zone()?;
    let now = ops::now(args.writing.now.as_deref(), &time_zone)?;
    let request = LoadRequest { time_zone: &time_zone, now, progress: bars };
    unembedded(&store, &request).map_err(|error| failed(&error, 0))
}

/// Makes the configured provider ready, and sees whether it fits the store.
fn provider(
    settings: &Settings,
    lacking: &Unembedded,
) -> Result<Option<Box<dyn Embedder>>, Failure> {
    let variables = |name: &str| std::env::var(name).ok();
    let configured = &settings.configuration.settings.embed;
    let provider = embedder(configured, lacking.model(), &variables);
    let provider = provider.map_err(|error| failed(&error, 0))?;
    if let Some(provider) = &provider {
        check_space(lacking.space.as_ref(), provider.model()).map_err(|error| failed(&error, 0))?;
    }
    Ok(provider)
}

fn give(
    args: &EmbedArgs,
    settings: &Settings,
    lacking: &Unembedded,
    provider: Box<dyn Embedder>,
    bars: &Bars,
) -> Result<Filled, Failure> {
    let time_zone = settings.time_zone()?;
    let fixed = args.writing.now.as_deref();
    let fixed = fixed.map(|now| ops::now(Some(now), &time_zone)).transpose()?;
    // Beside other runs: rows are only added, and each transaction checks the present rows again.
    let session = writing::open_own_tables(&args.db, settings)?;
    let (filled, done) = fill(
        &session,
        &lacking.pending,
        Fill {
            provider,
            space: lacking.space.clone(),
            batch_size: settings.configuration.settings.embed.batch_size,
            clock: &|| fixed.unwrap_or_else(machine::clock),
            time_zone: &time_zone,
            progress: bars,
        },
    );
    bars.end();
    done.map(|()| filled.clone()).map_err(|error| failed(&error, filled.filled))
}

fn nobody() -> Failure {
    Failure::usage(
        "no provider of vectors is configured",
        "say who makes them: --set embed.provider=daemon (the brain's own, port 8030), ollama, \
         openai or local; docs/embedding.md tells more",
    )
}

/// A failure after this many embeddings were written.
fn failed(error: &EmbedError, filled: u64) -> Failure {
    let failure = match error {
        error if error.is_cancelled() && filled == 0 => return Failure::interrupted(),
        error if error.is_cancelled() => Failure::plain("interrupted", "running again continues")
            .of_kind(FailureKind::Interrupted),
        error => Failure::of("embed", error),
    };
    match filled {
        0 => failure,
        _ => {
            let message = format!("{}; {filled} embeddings were written and stay", failure.message);
            Failure { message, ..failure }
        }
    }
}

/// Refused memories that are listed one by one.
const SHOWN: usize = 10;
const ID_CHARS: usize = 60;
const REASON_CHARS: usize = 200;
const TEXT_CHARS: usize = 68;

/// Describes the findings, or the results.
fn told(found: &EmbedDocument, global: &GlobalArgs, args: &EmbedArgs) -> String {
    let EmbedDocument { live, with_embedding, missing, stale, invalid, .. } = found;
    let mut text = format!(
        "{live} {} in use: {with_embedding} with an embedding, {missing} without one\n",
        writing::noun(*live, "memory", "memories")
    );
    if *stale > 0 {
        text.push_str(&format!("  {stale} have that of an earlier text, which stays\n"));
    }
    if *invalid > 0 {
        text.push_str(&format!("  {invalid} have one that is no vector, which stays\n"));
    }
    if found.executed() {
        text.push_str(&done(found));
    } else {
        text.push_str(&planned(found, global, args));
    }
    text
}

fn planned(found: &EmbedDocument, global: &GlobalArgs, args: &EmbedArgs) -> String {
    let mut text = String::new();
    if let Some(space) = space(found) {
        text.push_str(&format!("the store's vectors: {space}\n"));
    }
    if found.missing == 0 {
        return text;
    }
    match &found.place {
        Some(place) => {
            let texts = writing::noun(found.wanted, "text", "texts");
            text.push_str(&format!("{} {texts} would go to {place}\n", found.wanted));
            text.push_str(&format!("next: {}\n", next(global, args)));
        }
        None => text.push_str(
            "no provider is configured: --set embed.provider=daemon, ollama, openai or\n\
             local (docs/embedding.md)\n",
        ),
    }
    text
}

/// The command that does it, with the given options.
fn next(global: &GlobalArgs, args: &EmbedArgs) -> String {
    let words = Words::default().values("--limit", args.limit).global(global);
    words.word("--execute").command("embed", &args.db)
}

fn done(found: &EmbedDocument) -> String {
    let EmbedDocument { filled, present, changed, refused, over_limit, .. } = found;
    let of = space(found).filter(|_| *filled > 0).map_or_else(String::new, |of| format!(": {of}"));
    let mut text = format!("{filled} were given one{of}\n");
    if *present > 0 {
        text.push_str(&format!("  {present} have a row of embeddings meanwhile\n"));
    }
    if *changed > 0 {
        text.push_str(&format!(
            "  {changed} are gone or say something else meanwhile; run again for these\n"
        ));
    }
    if !refused.is_empty() {
        text.push_str(&format!("  {} were refused:\n", refused.len()));
    }
    for one in refused.iter().take(SHOWN) {
        let (id, reason) = (excerpt(&one.id, ID_CHARS), excerpt(&one.reason, REASON_CHARS));
        text.push_str(&format!("    {id}: {reason}\n"));
    }
    if refused.len() > SHOWN {
        text.push_str(&format!("    and {} more (--json lists all)\n", refused.len() - SHOWN));
    }
    if *over_limit > 0 {
        text.push_str(&format!("  {over_limit} are left; running again continues\n"));
    }
    text
}

fn space(found: &EmbedDocument) -> Option<String> {
    let dim = found.dim?;
    let model = found
        .model
        .as_deref()
        .map_or_else(|| "a model that is not named".to_owned(), |model| excerpt(model, ID_CHARS));
    Some(format!("{model}, {dim} dimensions"))
}

/// `memfold embed --json`
#[derive(Debug, serde::Serialize)]
struct EmbedDocument {
    schema_version: u32,
    mode: Mode,
    /// Memories in use, before anything was written.
    live: u64,
    /// Live memories with a valid vector of their text.
    with_embedding: u64,
    /// Live memories without an embedding.
    missing: u64,
    /// Live memories with an embedding of an earlier text; it stays.
    stale: u64,
    /// Live memories with an embedding that is not a vector; it stays.
    invalid: u64,
    /// The model of the store's vectors, or where there were none that of the new ones; `null` where nobody names it.
    model: Option<String>,
    /// Components of each vector; `null` where there is none.
    dim: Option<u64>,
    /// `daemon`, `openai`, `ollama` or `local`; `null` where none is configured.
    provider: Option<String>,
    /// Where texts go: an address without parts that may be secret, or a folder.
    place: Option<String>,
    /// Memories to embed: the ones without an embedding, up to `--limit`.
    wanted: u64,
    /// Memories beyond `--limit`.
    over_limit: u64,
    /// Memories that were given an embedding.
    filled: u64,
    /// Memories that have one meanwhile, or a row without a vector in its place.
    present: u64,
    /// Memories that are gone, or have another text since.
    changed: u64,
    /// Memories that the provider or the store refused.
    refused: Vec<RefusedMemory>,
    seconds: f64,
}

/// A memory that stays without an embedding.
#[derive(Debug, serde::Serialize)]
struct RefusedMemory {
    id: String,
    reason: String,
}

impl EmbedDocument {
    /// Makes the document; `filled` is `None` for a dry run.
    fn new(lacking: &Unembedded, filled: Option<Filled>) -> Self {
        let mode = Mode::of(filled.is_some());
        let filled = filled.unwrap_or_default();
        let (coverage, space) = (&lacking.coverage, lacking.space.as_ref());
        let refused = |Refusal { id, reason }| RefusedMemory { id: id.as_str().to_owned(), reason };
        Self {
            schema_version: 1,
            mode,
            live: coverage.live,
            with_embedding: coverage.with_embedding,
            missing: coverage.missing,
            stale: coverage.stale,
            invalid: coverage.invalid,
            model: space.map(|space| space.model.to_string()).or(filled.model),
            dim: space.map(|space| space.dim.into()).or(filled.dim.map(|dim| dim as u64)),
            provider: None,
            place: None,
            wanted: lacking.pending.len() as u64,
            over_limit: 0,
            filled: filled.filled,
            present: filled.present,
            changed: filled.changed,
            refused: filled.refused.into_iter().map(refused).collect(),
            seconds: 0.0,
        }
    }

    /// Tells whether the store was to be written.
    fn executed(&self) -> bool {
        self.mode == Mode::Execute
    }
}
