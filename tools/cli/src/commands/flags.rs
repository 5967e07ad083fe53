//! `memfold flags`: the pairs that wait for a person, and what a person says of them.

use memfold_index::NoProgress;
use memfold_pipeline::report::{Mode, run_id};
use memfold_pipeline::store::LoadRequest;
use memfold_pipeline::store::brain_db::{FlagKind, OpenPair};
use memfold_pipeline::text::excerpt;
use memfold_pipeline::upkeep::{
    SettleError, SettleRules, Settled, Settlement, UpkeepRun, preview_settlement, settle,
};
use serde::Serialize;

use crate::args::{FlagsArgs, GlobalArgs};
use crate::commands::consolidate::open_store;
use crate::commands::writing;
use crate::document::documents;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::{self, Settings};

/// Characters of an id and of a text that are shown.
const ID_CHARS: usize = 40;
const TEXT_CHARS: usize = 110;

documents! { "flags" => FlagsDocument<'_>, "flags-settled" => SettledDocument }

/// `memfold flags --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlagsDocument<'a> {
    schema_version: u32,
    flags: Vec<FlagDocument<'a>>,
}

/// A pair that waits for a person.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FlagDocument<'a> {
    /// The name of the pair: 16 hex digits.
    key: &'a str,
    /// `contradiction`, or `near` where a save did not fold them.
    kind: &'static str,
    /// The memories, smaller id first.
    ids: &'a [String; 2],
    /// Their texts as they are; `null` where a memory is gone or its text is no text.
    texts: &'a [Option<String>; 2],
    similarity: Option<f64>,
    /// How contradictory, from 0 to 1.
    score: Option<f64>,
    /// When they were flagged, as the owner writes times.
    at: &'a str,
}

/// `memfold flags --json` with a pair to settle
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SettledDocument {
    schema_version: u32,
    mode: Mode,
    /// `null` for a dry run.
    run_id: Option<String>,
    settled: Settled,
}

impl<'a> FlagDocument<'a> {
    fn of(pair: &'a OpenPair) -> Self {
        let OpenPair { key, kind, ids, texts, similarity, score, at } = pair;
        let (kind, similarity, score) = (kind.name(), *similarity, *score);
        Self { key, kind, ids, texts, similarity, score, at }
    }
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &FlagsArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    if let Some(asked) = asked(args) {
        return decide(global, (args, asked), (&settings, printer));
    }
    if args.writing.execute {
        return Err(Failure::usage(
            "--execute without a pair to settle",
            "name one with --keep-both, --merge or --supersede; `memfold flags DB` lists them",
        ));
    }
    let pairs = open_store(&args.db, &settings)?.open_flags().map_err(|error| {
        let hint = error.hint();
        Failure::new("read the flags", &error, hint)
    })?;
    if global.json {
        let flags = pairs.iter().map(FlagDocument::of).collect();
        printer.document(&FlagsDocument { schema_version: 1, flags })?;
    } else {
        printer.data(&text(&pairs))?;
    }
    Ok(Exit::Done)
}

/// The pair that a person decides about, and how.
fn asked(args: &FlagsArgs) -> Option<(&str, Settlement)> {
    [
        (&args.keep_both, Settlement::KeepBoth),
        (&args.merge, Settlement::Merge),
        (&args.supersede, Settlement::Supersede),
    ]
    .into_iter()
    .find_map(|(key, settlement)| Some((key.as_deref()?, settlement)))
}

fn decide(
    global: &GlobalArgs,
    (args, asked): (&FlagsArgs, (&str, Settlement)),
    (settings, printer): (&Settings, Printer),
) -> Result<Exit, Failure> {
    let (guard, time_zone) = (settings.guard()?, settings.time_zone()?);
    let rules = SettleRules { policy: &settings.configuration.policy, guard: &guard };
    let now = settings::now(args.writing.now.as_deref(), &time_zone)?;
    let wanted = (args.writing.execute, args.writing.dry_run);
    let (run, settled) = if writing::may_write(settings, wanted, printer) {
        let session = writing::open_session(&args.db, settings)?;
        let store_id = session.store_id();
        let store_id =
            store_id.map_err(|error| writing::session_failure("settle the pair", &error))?;
        let run_id = run_id(&store_id, now, &format!("flags {}", asked.0));
        let (run_id, holder) = (run_id.as_str(), &*settings::holder());
        let run = UpkeepRun { run_id, now, time_zone: &time_zone, holder };
        let (run, settled) =
            settle(&session, asked, rules, &run).map_err(|error| failed(&error))?;
        (Some(run), settled)
    } else {
        let load = LoadRequest { time_zone: &time_zone, now, progress: &NoProgress };
        let store = open_store(&args.db, settings)?;
        let settled = preview_settlement(&store, asked, rules, &load);
        (None, settled.map_err(|error| failed(&error))?)
    };
    if global.json {
        let mode = Mode::of(run.is_some());
        printer.document(&SettledDocument { schema_version: 1, mode, run_id: run, settled })?;
        return Ok(Exit::Done);
    }
    let mut text = told(&settled, run.is_some());
    if let Some(run) = &run {
        let store = args.db.to_string_lossy();
        let undo = writing::command_line(&["memfold", "undo", &store, run, "--execute"]);
        text.push_str(&format!("to take it back: {undo}\n"));
    }
    printer.data(&text)?;
    if let Some(note) = &settled.note {
        printer.note(&format!("note: {note}"));
    }
    if run.is_none() {
        printer.note("dry run: nothing was written to the store");
    }
    Ok(Exit::Done)
}

fn told(settled: &Settled, is_done: bool) -> String {
    let id = |id: &memfold_pipeline::memory::MemoryId| excerpt(id.as_str(), ID_CHARS);
    let (newer, older) = (id(&settled.newer), id(&settled.older));
    let would = if is_done { "" } else { "would be " };
    match settled.settlement {
        Settlement::KeepBoth => format!("{newer} and {older} {would}kept both\n"),
        Settlement::Merge => format!("{older} {would}folded into {newer}\n"),
        Settlement::Supersede => format!("{older} {would}superseded by {newer}\n"),
    }
}

fn failed(error: &SettleError) -> Failure {
    match error {
        SettleError::Session(error) => writing::session_failure("settle the pair", error),
        error => Failure::new("settle the pair", error, error.hint()),
    }
}

fn text(pairs: &[OpenPair]) -> String {
    if pairs.is_empty() {
        return "no pair waits for a look\n".to_owned();
    }
    let mut text = String::new();
    for pair in pairs {
        let score = pair.score.map_or_else(String::new, |score| format!("  score {score:.2}"));
        let near =
            pair.similarity.map_or_else(String::new, |near| format!("  similarity {near:.3}"));
        let kind = match pair.kind {
            FlagKind::Contradiction => "contradiction",
            FlagKind::Near => "alike",
        };
        text.push_str(&format!("{}  {kind}{score}{near}\n", pair.key));
        for (id, said) in pair.ids.iter().zip(&pair.texts) {
            let said =
                said.as_deref().map_or_else(|| "(gone)".to_owned(), |t| excerpt(t, TEXT_CHARS));
            text.push_str(&format!("  {}\n    {said}\n", excerpt(id, ID_CHARS)));
        }
    }
    let plural = if pairs.len() == 1 { "" } else { "s" };
    text.push_str(&format!(
        "\n{} pair{plural}; a flag closes when you edit or archive a side, or settle it:\n\
         memfold flags DB --keep-both KEY | --merge KEY | --supersede KEY\n",
        pairs.len()
    ));
    text
}
