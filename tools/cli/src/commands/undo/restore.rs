//! `memfold undo --memory` of an archived memory: it lives again, alone. `--archived` lists those worth a look.

use std::path::Path;

use jiff::tz::TimeZone;
use memfold::machine;
use memfold_core::memory::MemoryId;
use memfold_core::memory::Status;
use memfold_core::report::{Mode, run_id};
use memfold_core::time::Instant;
use memfold_guard::text::excerpt;
use memfold_store::BrainDb;
use memfold_store::brain_db::SessionError;
use memfold_store::upkeep::{
    Restoration, RestoreCandidate, RestoreReason, UpkeepError, UpkeepRun, preview_restore,
    restorable, restore,
};
use serde::Serialize;

use super::UndoArgs;
use crate::args::GlobalArgs;
use crate::context::open_store;
use crate::failure::Failure;
use crate::printer::{Document, Printer};
use crate::settings::{self, Settings};
use crate::writing;

/// Candidates that are listed one by one.
const SHOWN: usize = 50;
const ID_CHARS: usize = 80;

impl Document for RestoreDocument {}
impl Document for CandidatesDocument {}

/// `memfold undo STORE --memory ID --json` of an archived memory
#[derive(Debug, Serialize)]
struct RestoreDocument {
    schema_version: u32,
    mode: Mode,
    /// `null` for a dry run.
    run_id: Option<String>,
    restoration: Restoration,
}

/// `memfold undo STORE --archived --json`
#[derive(Debug, Serialize)]
struct CandidatesDocument {
    schema_version: u32,
    candidates: Vec<RestoreCandidate>,
}

/// Tells whether a memory is archived, so that undoing it restores it alone.
pub(super) fn is_archived(
    store: &BrainDb,
    id: &MemoryId,
    time_zone: &TimeZone,
    now: Instant,
) -> Result<bool, Failure> {
    let resolved = store.resolve(id, time_zone, now).map_err(|error| {
        let hint = error.hint();
        Failure::new("look for the memory", &error, hint)
    })?;
    let archived = [Status::Merged, Status::Archived, Status::Moved];
    Ok(archived.contains(&resolved.whereabouts))
}

/// Lists archived memories that were edited since, or whose survivor is gone.
pub(super) fn list(
    global: &GlobalArgs,
    args: &UndoArgs,
    settings: &Settings,
    printer: Printer,
) -> Result<(), Failure> {
    let store = open_store(&args.db, settings)?;
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.now.as_deref(), &time_zone)?;
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
    writing::store_words(&["memfold", "undo"], store, &["--memory", id, "--execute"])
}

/// Tells what restoring a memory would do.
pub(super) fn preview(
    global: &GlobalArgs,
    args: &UndoArgs,
    id: &MemoryId,
    settings: &Settings,
    printer: Printer,
) -> Result<(), Failure> {
    let store = open_store(&args.db, settings)?;
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.now.as_deref(), &time_zone)?;
    let previewed = preview_restore(&store, id, &time_zone, now).map_err(|error| failed(&error))?;
    if global.json {
        return printer.document(&RestoreDocument {
            schema_version: 1,
            mode: Mode::DryRun,
            run_id: None,
            restoration: previewed,
        });
    }
    let mut text = told("would live again", &previewed);
    text.push_str(&format!("next: {}\n", command(&args.db, id.as_str())));
    printer.data(&text)?;
    printer.note("dry run: nothing was written to the store");
    Ok(())
}

/// Restores a memory.
pub(super) fn bring_back(
    global: &GlobalArgs,
    args: &UndoArgs,
    id: &MemoryId,
    settings: &Settings,
    printer: Printer,
) -> Result<(), Failure> {
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.now.as_deref(), &time_zone)?;
    let session = writing::open_session(&args.db, settings)?;
    let store_id = session.store_id().map_err(|error| session_failed(&error))?;
    let run = UpkeepRun {
        run_id: &run_id(&store_id, now, "restore"),
        now,
        time_zone: &time_zone,
        holder: &machine::holder(),
    };
    let (run_id, restored) = restore(&session, id, &run).map_err(|error| failed(&error))?;
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
