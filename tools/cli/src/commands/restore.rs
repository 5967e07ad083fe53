//! `memfold restore`: archived memories live again.

use std::path::{Path, PathBuf};

use clap::{self, Args};
use memfold::machine;
use memfold_model::memory::MemoryId;
use memfold_model::text::excerpt;
use memfold_plan::report::{Mode, run_id};
use memfold_store::brain_db::SessionError;
use memfold_store::upkeep::{
    Restoration, RestoreCandidate, RestoreReason, UpkeepError, UpkeepRun, preview_restore,
    restorable, restore,
};
use serde::Serialize;

use crate::args::{GlobalArgs, WritingArgs};
use crate::context::open_store;
use crate::failure::{Exit, Failure};
use crate::printer::{Printer, documents};
use crate::settings::{self, Settings};
use crate::writing;

/// Candidates that are listed one by one.
const SHOWN: usize = 50;
const ID_CHARS: usize = 80;

documents! {
    "restore" => RestoreDocument,
    "restore-candidates" => CandidatesDocument,
}

/// `memfold restore`
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    pub(crate) db: PathBuf,
    /// The archived memory's id; without it, those worth a look are listed
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
}

/// `memfold restore --json` with a memory to restore
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RestoreDocument {
    schema_version: u32,
    mode: Mode,
    /// `null` for a dry run.
    run_id: Option<String>,
    restoration: Restoration,
}

/// `memfold restore --json` without a memory
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct CandidatesDocument {
    schema_version: u32,
    candidates: Vec<RestoreCandidate>,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &RestoreArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    let wanted = (args.writing.execute, args.writing.dry_run);
    match &args.id {
        None => list(global, args, (&settings, printer))?,
        Some(id) if writing::may_write(&settings, wanted, printer) => {
            bring_back(global, (args, id), (&settings, printer))?;
        }
        Some(id) => preview(global, (args, id), (&settings, printer))?,
    }
    Ok(Exit::Done)
}

fn list(
    global: &GlobalArgs,
    args: &RestoreArgs,
    (settings, printer): (&Settings, Printer),
) -> Result<(), Failure> {
    if args.writing.execute {
        return Err(Failure::usage(
            "there is no id of a memory to restore",
            "without --execute, `memfold restore DB` lists memories worth a look",
        ));
    }
    let store = open_store(&args.db, settings)?;
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.writing.now.as_deref(), &time_zone)?;
    let found = restorable(&store, &time_zone, now).map_err(|error| session_failed(&error))?;
    if global.json {
        return printer.document(&CandidatesDocument { schema_version: 1, candidates: found });
    }
    if found.is_empty() {
        let text = "no archived memory was edited since, and every survivor is there\n";
        return printer.data(text);
    }
    let mut text = String::new();
    for candidate in found.iter().take(SHOWN) {
        text.push_str(&described(&args.db, candidate));
    }
    if found.len() > SHOWN {
        text.push_str(&format!("and {} more (--json lists all)\n", found.len() - SHOWN));
    }
    printer.data(&text)
}

fn described(store: &Path, candidate: &RestoreCandidate) -> String {
    let survivor = candidate.survivor.as_ref().map(|id| excerpt(id.as_str(), ID_CHARS));
    let why = match (candidate.reason, survivor) {
        (RestoreReason::Edited, _) => "its text was edited after it was archived".to_owned(),
        (RestoreReason::SurvivorGone, Some(survivor)) => {
            format!("it was merged into {survivor}, which is gone")
        }
        (RestoreReason::SurvivorGone, None) => "what it was merged into is gone".to_owned(),
    };
    let mut text = format!("{}: {why}\n", excerpt(candidate.id.as_str(), ID_CHARS));
    if let Some(content) = &candidate.text {
        text.push_str(&format!("  \"{content}\"\n"));
    }
    text.push_str(&format!("  {}\n", command(store, candidate.id.as_str())));
    text
}

fn command(store: &Path, id: &str) -> String {
    writing::store_words(&["memfold", "restore"], store, &[id, "--execute"])
}

fn preview(
    global: &GlobalArgs,
    (args, id): (&RestoreArgs, &str),
    (settings, printer): (&Settings, Printer),
) -> Result<(), Failure> {
    let store = open_store(&args.db, settings)?;
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.writing.now.as_deref(), &time_zone)?;
    let previewed = preview_restore(&store, &MemoryId::new(id), (&time_zone, now))
        .map_err(|error| failed(&error))?;
    if global.json {
        return printer.document(&RestoreDocument {
            schema_version: 1,
            mode: Mode::DryRun,
            run_id: None,
            restoration: previewed,
        });
    }
    let mut text = told("would live again", &previewed);
    text.push_str(&format!("next: {}\n", command(&args.db, id)));
    printer.data(&text)?;
    printer.note("dry run: nothing was written to the store");
    Ok(())
}

fn bring_back(
    global: &GlobalArgs,
    (args, id): (&RestoreArgs, &str),
    (settings, printer): (&Settings, Printer),
) -> Result<(), Failure> {
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.writing.now.as_deref(), &time_zone)?;
    let session = writing::open_session(&args.db, settings)?;
    let store_id = session.store_id().map_err(|error| session_failed(&error))?;
    let run = UpkeepRun {
        run_id: &run_id(&store_id, now, "restore"),
        now,
        time_zone: &time_zone,
        holder: &machine::holder(),
    };
    let (run_id, restored) =
        restore(&session, &MemoryId::new(id), &run).map_err(|error| failed(&error))?;
    if global.json {
        return printer.document(&RestoreDocument {
            schema_version: 1,
            mode: Mode::Execute,
            run_id: Some(run_id),
            restoration: restored,
        });
    }
    let undo = writing::store_words(&["memfold", "undo"], &args.db, &[&run_id, "--execute"]);
    let mut text = told("lives again", &restored);
    text.push_str(&format!("to take it back: {undo}\n"));
    printer.data(&text)
}

fn told(what: &str, restoration: &Restoration) -> String {
    let mut text = format!("{} {what}", excerpt(restoration.id.as_str(), ID_CHARS));
    if !restoration.apart_from.is_empty() {
        let ids = restoration.apart_from.iter().map(|id| excerpt(id.as_str(), ID_CHARS));
        let ids = ids.collect::<Vec<_>>().join(" and ");
        text.push_str(&format!(", kept apart from {ids} while their texts stay"));
    }
    text.push('\n');
    if let Some(content) = &restoration.text {
        text.push_str(&format!("  \"{content}\"\n"));
    }
    text
}

fn session_failed(error: &SessionError) -> Failure {
    writing::session_failure("restore", error)
}

fn failed(error: &UpkeepError) -> Failure {
    match error {
        UpkeepError::Session(error) => session_failed(error),
        error => Failure::new("restore", error, error.hint()),
    }
}
