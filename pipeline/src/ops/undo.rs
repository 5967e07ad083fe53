//! Undo of a run, whole or in part; archived memories live again.

use std::path::Path;

use memfold_core::memory::MemoryId;
use memfold_core::memory::Status;
use memfold_core::report::{Executed, Mode, run_id};
use memfold_core::runs::RunKind;
use memfold_store::BrainDb;
use memfold_store::journal::RevertOptions;
use memfold_store::upkeep::{Restoration, RestoreCandidate, preview_restore, restorable, restore};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::store::run_upkeep;
use super::{
    Failure, FailureKind, Listener, Settings, now, open_session, open_store, remove_marks,
};
use crate::execute::{
    self, ExecuteError, Undo, UndoOutcome, UndoTarget, forbidden_by, preview_undo,
};
use crate::machine::{self, Stopwatch};

/// The name of the last run.
const LATEST: &str = "latest";

/// What of a run is undone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default, deny_unknown_fields)]
pub struct UndoRequest {
    /// The run to take back, as `memfold runs` lists it; latest is the last one that is no save and
    /// no undo, and still has something to take back.
    #[serde(skip)]
    #[cfg_attr(feature = "clap", arg(conflicts_with = "memory"))]
    pub run: Option<String>,
    /// Only the unit with this action (a17): of RUN, or of the last run that applied one.
    #[cfg_attr(feature = "clap", arg(long, value_name = "A", conflicts_with = "memory"))]
    #[schemars(description = "Only the unit with this action.")]
    pub action: Option<String>,
    /// Only this memory: an archived one lives again, alone, apart from what it was merged into; of
    /// another, the last unit that changed it is undone.
    #[serde(skip)]
    #[cfg_attr(feature = "clap", arg(long, value_name = "ID"))]
    pub memory: Option<String>,
    /// Also restore memories that were changed since.
    #[cfg_attr(feature = "clap", arg(long))]
    pub force: bool,
    /// Also recreate memories that were deleted since.
    #[cfg_attr(feature = "clap", arg(long))]
    pub recreate: bool,
    /// Allow later runs to merge these again.
    #[cfg_attr(feature = "clap", arg(long))]
    pub remerge_ok: bool,
}

/// `memfold undo --json`
#[derive(Debug, Serialize, JsonSchema)]
pub struct UndoDocument<'a> {
    schema_version: u32,
    mode: Mode,
    /// What was to be undone, in words.
    target: String,
    /// The run that took it back; `null` for a dry run.
    run_id: Option<&'a str>,
    /// How that run ended: `done`, `partial`, `interrupted` or `failed`; `null` for a dry run.
    state: Option<&'static str>,
    /// Units that were undone (applied), or left as they are; `null` for a dry run.
    executed: Option<Executed>,
    /// Units that were not tried; `null` for a dry run.
    remaining: Option<u64>,
    /// What became of each unit, or would.
    units: &'a [UndoOutcome],
}

/// An archived memory that lives again, or would: `memfold undo STORE --memory ID --json`.
#[derive(Debug, Serialize)]
pub struct RestoreDocument {
    schema_version: u32,
    mode: Mode,
    /// `null` for a dry run.
    pub run_id: Option<String>,
    /// The restored memory.
    pub restoration: Restoration,
}

/// Archived memories worth a look: `memfold undo STORE --archived --json`.
#[derive(Debug, Serialize)]
pub struct CandidatesDocument {
    schema_version: u32,
    /// The memories.
    pub candidates: Vec<RestoreCandidate>,
}

impl UndoRequest {
    /// Returns the target of the request.
    ///
    /// # Errors
    /// When the latest run is wanted and there is none with something to undo.
    pub fn target(&self, store: &Path, settings: &Settings) -> Result<UndoTarget, Failure> {
        if let Some(id) = &self.memory {
            return Ok(UndoTarget::Memory(MemoryId::new(id.as_str())));
        }
        let run_id = match self.run.as_deref() {
            Some(LATEST) => Some(latest_run(&open_store(store, settings)?)?),
            run => run.map(str::to_owned),
        };
        Ok(match &self.action {
            Some(label) => UndoTarget::Action { run_id, label: label.clone() },
            None => UndoTarget::Run(run_id.unwrap_or_default()),
        })
    }

    /// Returns which conflicts are passed over.
    #[must_use]
    pub const fn options(&self) -> RevertOptions {
        RevertOptions { force: self.force, recreate: self.recreate }
    }
}

/// The last run that is neither a save nor an undo, and that has something to undo.
fn latest_run(store: &BrainDb) -> Result<String, Failure> {
    let history = store.runs().map_err(|error| Failure::of("read the runs", &error))?;
    let others = [RunKind::Save, RunKind::Undo].map(RunKind::name);
    let mut runs = history.runs.into_iter().rev();
    let latest = runs.find(|run| run.units > run.undone && !others.contains(&&*run.kind));
    latest.map(|run| run.run_id).ok_or_else(|| {
        Failure::plain(
            "no run has anything to take back",
            "`memfold runs DB` lists them; saves and undos are undone by their own ids",
        )
        .of_kind(FailureKind::NotFound)
    })
}

/// Returns the expected results of an undo.
///
/// # Errors
/// When the target does not exist, or the store cannot be read.
pub fn preview_undone(
    store: &Path,
    settings: &Settings,
    target: &UndoTarget,
    options: RevertOptions,
) -> Result<Vec<UndoOutcome>, Failure> {
    preview_undo(&open_store(store, settings)?, target, options)
        .map_err(|error| Failure::of("undo", &error))
}

/// Undoes the target. `at` is the time of the writes, in place of the clock's.
///
/// # Errors
/// When the configuration forbids it, the target does not exist, or the store cannot be written.
pub fn undo(
    store: &Path,
    settings: &Settings,
    target: &UndoTarget,
    request: &UndoRequest,
    at: Option<&str>,
    listener: &dyn Listener,
) -> Result<Undo, Failure> {
    if let Some(key) = forbidden_by(&settings.configuration.settings) {
        return Err(Failure::of("undo", &ExecuteError::Forbidden { key }));
    }
    let time_zone = settings.time_zone()?;
    let now = now(at, &time_zone)?;
    let session = open_session(store, settings)?;
    let store_id = session.store_id().map_err(|error| Failure::of("read the store", &error))?;
    let stopwatch = Stopwatch::start();
    let undone = execute::undo(
        &session,
        &execute::UndoRequest {
            target,
            options: request.options(),
            remerge_ok: request.remerge_ok,
            run_id: &run_id(&store_id, now, "undo"),
            now,
            time_zone: &time_zone,
            holder: &machine::holder(),
            progress: listener,
            clock: &|| stopwatch.seconds(),
        },
    )
    .map_err(|error| Failure::of("undo", &error))?;
    // The rows look again as they did when they had been searched.
    if let Err(failure) = remove_marks(store, None) {
        listener.note(&format!("note: {}", failure.message));
    }
    Ok(undone)
}

/// Tells whether a memory is archived, so that undoing it restores it alone.
///
/// # Errors
/// When the store cannot be read.
pub fn is_archived(
    store: &Path,
    settings: &Settings,
    id: &MemoryId,
    at: Option<&str>,
) -> Result<bool, Failure> {
    let time_zone = settings.time_zone()?;
    let resolved = open_store(store, settings)?.resolve(id, &time_zone, now(at, &time_zone)?);
    let resolved = resolved.map_err(|error| Failure::of("look for the memory", &error))?;
    let archived = [Status::Merged, Status::Archived, Status::Moved];
    Ok(archived.contains(&resolved.status))
}

/// Lists archived memories that were edited since, or lack their survivor.
///
/// # Errors
/// When the store cannot be read.
pub fn archived_memories(
    store: &Path,
    settings: &Settings,
    at: Option<&str>,
) -> Result<CandidatesDocument, Failure> {
    let time_zone = settings.time_zone()?;
    let found = restorable(&open_store(store, settings)?, &time_zone, now(at, &time_zone)?);
    let candidates = found.map_err(|error| Failure::of("restore", &error))?;
    Ok(CandidatesDocument { schema_version: 1, candidates })
}

/// Restores an archived memory, alone, or returns the expected result.
///
/// # Errors
/// When it is not archived, or the store cannot be written.
pub fn restore_memory(
    store: &Path,
    settings: &Settings,
    id: &MemoryId,
    at: Option<&str>,
    writes: bool,
) -> Result<RestoreDocument, Failure> {
    let (run_id, restoration) = if writes {
        let (run_id, restoration) =
            run_upkeep(store, settings, at, "restore", "restore", |session, run| {
                restore(session, id, run)
            })?;
        (Some(run_id), restoration)
    } else {
        let time_zone = settings.time_zone()?;
        let now = now(at, &time_zone)?;
        let previewed = preview_restore(&open_store(store, settings)?, id, &time_zone, now);
        (None, previewed.map_err(|error| Failure::of("restore", &error))?)
    };
    Ok(RestoreDocument { schema_version: 1, mode: Mode::of(writes), run_id, restoration })
}

impl<'a> UndoDocument<'a> {
    /// Makes it from an undo.
    #[must_use]
    pub fn of_run(target: &UndoTarget, undone: &'a Undo) -> Self {
        Self {
            mode: Mode::Execute,
            run_id: Some(&undone.run_id),
            state: Some(undone.state.name()),
            executed: Some(undone.executed),
            remaining: Some(undone.remaining),
            ..Self::of_preview(target, &undone.outcomes)
        }
    }

    /// Makes it from a preview.
    #[must_use]
    pub fn of_preview(target: &UndoTarget, outcomes: &'a [UndoOutcome]) -> Self {
        Self {
            schema_version: 1,
            mode: Mode::DryRun,
            target: target.to_string(),
            run_id: None,
            state: None,
            executed: None,
            remaining: None,
            units: outcomes,
        }
    }
}
