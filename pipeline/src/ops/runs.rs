//! The history of a store, run by run; saved plans; the journal's size.

use std::path::Path;

use memfold_core::plan::{Action, ActionState, PlanSummary, SavedAction, SavedPlan};
use memfold_core::report::Mode;
use memfold_core::runs::{ChainBreak, RunHistory, RunSummary, UnitSummary};
use memfold_core::time::Instant;
use memfold_guard::text::excerpt;
use memfold_store::upkeep::{self, Pruned, preview_prune};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::store::run_upkeep;
use super::{Failure, FailureKind, Settings, now, open_store};

/// Maximum characters of a name.
const NAME_CHARS: usize = 60;

/// `memfold runs --json`
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunsDocument<'a> {
    schema_version: u32,
    /// The first one first.
    runs: &'a [RunSummary],
    audit_chain: AuditChain<'a>,
}

/// Whether no run was changed, added or removed by others; where the chain breaks first.
#[derive(Debug, Serialize, JsonSchema)]
struct AuditChain<'a> {
    holds: bool,
    #[serde(flatten)]
    chain_break: Option<&'a ChainBreak>,
}

/// `memfold runs DB RUN --json`
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunDocument<'a> {
    schema_version: u32,
    #[serde(flatten)]
    run: &'a RunSummary,
    /// Its units; none where it changed nothing, or they were pruned.
    list: &'a [UnitSummary],
}

/// `memfold runs STORE --plans --json`
#[derive(Debug, Serialize, JsonSchema)]
pub struct PlansDocument {
    schema_version: u32,
    /// The plans, the last one first.
    pub plans: Vec<PlanSummary>,
}

/// `memfold runs STORE PLAN --plans --json`
#[derive(Debug, Serialize, JsonSchema)]
pub struct SavedPlanDocument<'a> {
    schema_version: u32,
    plan_id: &'a str,
    /// Digest of its actions as they were made.
    plan_digest: &'a str,
    /// sha256 of the semantic configuration.
    config_hash: &'a str,
    /// Keys that were set on the command line when it was made.
    overrides: &'a Map<String, Value>,
    /// The time it was made for, RFC 3339.
    now: &'a str,
    /// When it was saved, in the store's naive local time.
    saved_at: &'a str,
    /// In plan order.
    actions: Vec<SavedActionDocument<'a>>,
}

/// An action of a saved plan, and what became of it.
#[derive(Debug, Serialize, JsonSchema)]
struct SavedActionDocument<'a> {
    /// The name that people use: `a1`, `a2`, …
    label: String,
    state: ActionState,
    /// Whether a person changed it.
    amended: bool,
    /// The run that last dealt with it.
    run_id: Option<&'a str>,
    /// Why it is in this state, in words.
    note: Option<&'a str>,
    /// What is to be done: as amended, else as planned.
    action: &'a Action,
}

/// `memfold runs STORE --prune-older-than AGE --json`
#[derive(Debug, Serialize)]
pub struct PruneDocument {
    schema_version: u32,
    mode: Mode,
    /// `null` for a dry run.
    run_id: Option<String>,
    /// The removed entries.
    #[serde(flatten)]
    pub pruned: Pruned,
}

/// Removes entries of the journal that are older than a number of microseconds, or returns the
/// expected result. `at` is the time of the run, in place of the clock's.
///
/// # Errors
/// When the store cannot be read or written.
pub fn prune(
    store: &Path,
    settings: &Settings,
    age_us: i64,
    at: Option<&str>,
    writes: bool,
) -> Result<PruneDocument, Failure> {
    let before = |now: Instant| Instant(now.0.saturating_sub(age_us));
    let (run_id, pruned) = if writes {
        let (run_id, pruned) =
            run_upkeep(store, settings, at, "prune", "prune", |session, run| {
                upkeep::prune(session, before(run.now), run)
            })?;
        (Some(run_id), pruned)
    } else {
        let time_zone = settings.time_zone()?;
        let before = before(now(at, &time_zone)?);
        let pruned = preview_prune(&open_store(store, settings)?, before, &time_zone);
        (None, pruned.map_err(|error| Failure::of("prune", &error))?)
    };
    Ok(PruneDocument { schema_version: 1, mode: Mode::of(writes), run_id, pruned })
}

/// Finds a run by its id or how that begins; `latest` is the last one.
///
/// # Errors
/// When there is none, or more than one.
pub fn find_run<'h>(history: &'h RunHistory, wanted: &str) -> Result<&'h RunSummary, Failure> {
    let hint = "`memfold runs DB` lists them; `latest` is the last one";
    if wanted == "latest" {
        return history
            .runs
            .last()
            .ok_or_else(|| Failure::plain("no run has written to this store yet", hint));
    }
    let mut found = history.runs.iter().filter(|run| run.run_id.starts_with(wanted));
    match (found.next(), found.next()) {
        (Some(run), None) => Ok(run),
        (Some(run), Some(_)) if run.run_id == wanted => Ok(run),
        (Some(_), Some(_)) => Err(Failure::plain(
            format!("several runs begin with {}", excerpt(wanted, NAME_CHARS)),
            hint,
        )),
        (None, _) => {
            let message = format!("there is no run {}", excerpt(wanted, NAME_CHARS));
            Err(Failure::plain(message, hint).of_kind(FailureKind::NotFound))
        }
    }
}

impl<'a> RunsDocument<'a> {
    /// Takes the runs of a store.
    #[must_use]
    pub fn of(history: &'a RunHistory) -> Self {
        let chain_break = history.chain_break.as_ref();
        let audit_chain = AuditChain { holds: chain_break.is_none(), chain_break };
        Self { schema_version: 1, runs: &history.runs, audit_chain }
    }
}

impl<'a> RunDocument<'a> {
    /// Takes a run and its units.
    #[must_use]
    pub const fn of(run: &'a RunSummary, list: &'a [UnitSummary]) -> Self {
        Self { schema_version: 1, run, list }
    }
}

impl PlansDocument {
    /// Takes the saved plans of a store.
    #[must_use]
    pub const fn new(plans: Vec<PlanSummary>) -> Self {
        Self { schema_version: 1, plans }
    }
}

impl<'a> SavedPlanDocument<'a> {
    /// Takes a plan.
    #[must_use]
    pub fn of(plan: &'a SavedPlan) -> Self {
        Self {
            schema_version: 1,
            plan_id: &plan.plan_id,
            plan_digest: &plan.plan_digest,
            config_hash: &plan.plan.config_hash,
            overrides: plan.overrides(),
            now: &plan.plan.now,
            saved_at: &plan.saved_at,
            actions: plan.actions.iter().map(SavedActionDocument::of).collect(),
        }
    }
}

impl<'a> SavedActionDocument<'a> {
    fn of(saved: &'a SavedAction) -> Self {
        Self {
            label: saved.label(),
            state: saved.state,
            amended: saved.amended.is_some(),
            run_id: saved.run_id.as_deref(),
            note: saved.note.as_deref(),
            action: saved.effective(),
        }
    }
}
