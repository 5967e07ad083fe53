//! A saved plan, or a part of it, is applied.

use std::collections::BTreeMap;
use std::path::Path;

use memfold_core::memory::MemoryId;
use memfold_core::plan::{SavedAction, SavedPlan, plan_id};
use memfold_core::report::{Executed, Mode, applied_metrics, log_lines, read_plan, run_id};
use memfold_simd::Kernels;
use memfold_store::BrainDb;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(feature = "clap")]
use super::consolidate::units;
use super::provider::new_vectors;
use super::run_files::{LogWatcher, RunFiles, Written, report_dir};
use super::{Failure, FailureKind, Listener, Settings, StorePath, now, open_session, open_store};
use crate::execute::{
    ExecuteError, ExecuteRequest, Execution, Pick, Review, Selection, UnitOutcome, UnitResult,
    WriteRules, execute_watched, forbidden_by, preview,
};
use crate::machine::{self, Stopwatch};

/// What of a plan is applied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(default, deny_unknown_fields)]
pub struct ApplyRequest {
    /// Only these actions: labels (a17), risks (identical, trivial, reworded) or types.
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT,…", value_delimiter = ','))]
    pub only: Vec<String>,
    /// Not these actions.
    #[cfg_attr(feature = "clap", arg(long, value_name = "WHAT,…", value_delimiter = ','))]
    pub except: Vec<String>,
    /// Apply N units at most; running again continues.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N", allow_negative_numbers = true, value_parser = units)
    )]
    pub limit: Option<u64>,
    /// Execute although the fact guard or protection is off.
    #[serde(skip)]
    #[cfg_attr(feature = "clap", arg(long))]
    pub allow_unguarded: bool,
}

/// `memfold apply --json`
#[derive(Debug, Serialize, JsonSchema)]
pub struct ApplyDocument<'a> {
    schema_version: u32,
    mode: Mode,
    /// `null` for a dry run.
    run_id: Option<&'a str>,
    plan_id: &'a str,
    /// Digest of the plan's actions as they were made.
    plan_digest: &'a str,
    /// How the run ended: `done`, `partial`, `interrupted` or `failed`; `null` for a dry run.
    state: Option<&'static str>,
    /// `null` for a dry run.
    executed: Option<Executed>,
    /// Units that were not tried; `null` for a dry run.
    remaining: Option<u64>,
    /// What became of each unit, or would.
    units: Vec<UnitDocument<'a>>,
}

/// Actions that are applied together or not at all.
#[derive(Debug, Serialize, JsonSchema)]
struct UnitDocument<'a> {
    /// Their labels: `a3`, `a3 a4`.
    actions: &'a str,
    /// `applied`, `stale` (a memory had changed) or `failed` (rolled back).
    result: &'static str,
    /// Why it was not applied.
    reason: Option<&'a str>,
}

/// Finds a saved plan by its name, or reads a plan file.
///
/// # Errors
/// When the plan does not exist, or the file holds none.
pub fn find_plan(store: &BrainDb, name: &str) -> Result<SavedPlan, Failure> {
    let path = Path::new(name);
    if path.is_file() {
        let plan = read_plan(path).map_err(|error| Failure::new("apply", &error, error.hint()))?;
        return Ok(match store.plan(&plan_id(&plan)) {
            Ok(saved) => saved,
            Err(_) => SavedPlan::proposed(plan),
        });
    }
    saved_plan(store, name)
}

/// Finds a saved plan by its id, how that begins, or `latest`.
///
/// # Errors
/// When there is none, or more than one.
pub fn saved_plan(store: &BrainDb, name: &str) -> Result<SavedPlan, Failure> {
    store.plan(name).map_err(|error| Failure::of("find the plan", &error))
}

/// Reads which actions of a plan are named.
///
/// # Errors
/// When a word names no actions, or the plan lacks the action.
pub fn selection(
    only: &[String],
    except: &[String],
    action_count: usize,
) -> Result<Selection, Failure> {
    let picks = |words: &[String]| -> Result<Vec<Pick>, Failure> {
        let parsed = words.iter().map(|word| word.parse::<Pick>()).collect::<Result<_, _>>();
        parsed.map_err(|error| Failure::usage(error.to_string(), error.hint().unwrap_or_default()))
    };
    let selection = Selection { only: picks(only)?, except: picks(except)? };
    let unknown = selection.unknown_labels(action_count);
    if unknown.is_empty() {
        return Ok(selection);
    }
    Err(Failure::usage(
        format!("the plan has {action_count} actions and no {}", unknown.join(", ")),
        "`memfold runs DB PLAN --plans` lists them",
    ))
}

/// Returns the expected results of the chosen units of a plan.
///
/// # Errors
/// When the store cannot be read.
pub fn preview_apply(
    store: &BrainDb,
    saved: &SavedPlan,
    selection: &Selection,
) -> Result<Vec<UnitOutcome>, Failure> {
    let previewed = preview(store, saved, selection);
    let (outcomes, _) = previewed.map_err(|error| Failure::of("look at the plan", &error))?;
    Ok(outcomes)
}

/// Applies a plan, saved or kept by the caller, and writes the run's files outside the store.
/// `at` is the time of the writes, in place of the clock's.
///
/// # Errors
/// When the configuration or the plan forbids it, or the store cannot be written; nothing was applied then.
pub fn apply(
    store: &StorePath,
    settings: &Settings,
    saved: &SavedPlan,
    request: &ApplyRequest,
    at: Option<&str>,
    files: &RunFiles,
    listener: &dyn Listener,
) -> Result<(Execution, Written), Failure> {
    if let Some(key) = forbidden_by(&settings.configuration.settings) {
        return Err(unexecuted(&ExecuteError::Forbidden { key }));
    }
    let selection = selection(&request.only, &request.except, saved.actions.len())?;
    // Naming the plan is the review.
    let rules = WriteRules {
        settings: &settings.configuration.settings,
        allow_unguarded: request.allow_unguarded,
        review: Review::Saved,
    };
    let policy = &settings.configuration.policy;
    rules.check(policy, &saved.plan).map_err(|error| unexecuted(&error))?;
    let (stopwatch, time_zone) = (Stopwatch::start(), settings.time_zone()?);
    let now = now(at, &time_zone)?;
    let config_hash = settings.config_hash(&settings.guard()?);
    let run_id = run_id(&saved.plan.store_id, now, &config_hash);
    listener.detail(&log_lines::start(&run_id, Mode::Execute, &config_hash));
    if files.report.is_none() && files.report_dir.is_none() {
        report_dir(store)?;
    }
    let vectors = new_vectors(selection.chosen(&saved.actions), settings, listener)?;
    let session = open_session(store, settings)?;
    let action = |position: usize| saved.actions.get(position).map(SavedAction::effective);
    let execution = execute_watched(
        &session,
        &ExecuteRequest {
            plan: &saved.plan,
            vectors: &vectors,
            access_counts: &access_counts(saved),
            selection: &selection,
            limit: request.limit,
            run_id: &run_id,
            now,
            time_zone: &time_zone,
            policy,
            config_hash: &config_hash,
            rules,
            holder: &machine::holder(),
            progress: listener,
            clock: &|| stopwatch.seconds(),
        },
        &mut LogWatcher { action, listener },
    )
    .map_err(|error| unexecuted(&error))?;
    let report = execution.report(saved, stopwatch.seconds());
    let mut written = Written::default();
    files.write_report(&report, store, true, listener, &mut written);
    let figures = || open_store(store, settings).ok()?.figures().ok();
    let isa = Kernels::active().level().name();
    files.write_metrics(|| applied_metrics(&report, figures().as_ref(), isa), &mut written);
    Ok((execution, written))
}

fn access_counts(saved: &SavedPlan) -> BTreeMap<MemoryId, i64> {
    let counts = saved.actions.iter().filter_map(|action| {
        Some((action.effective().target_ids.first()?.clone(), action.access_count?))
    });
    counts.collect()
}

/// A failure to execute; a refusal speaks for itself.
pub(super) fn unexecuted(error: &ExecuteError) -> Failure {
    let failure = Failure::of("execute", error);
    let is_refused = matches!(failure.kind, FailureKind::Unguarded | FailureKind::AnotherPlan)
        || matches!(error, ExecuteError::TooManyChanges { .. });
    match is_refused {
        true => Failure { message: error.to_string(), ..failure },
        false => failure,
    }
}

impl<'a> ApplyDocument<'a> {
    /// Makes it from a run.
    #[must_use]
    pub fn of_run(execution: &'a Execution, saved: &'a SavedPlan) -> Self {
        Self {
            mode: Mode::Execute,
            run_id: Some(&execution.run_id),
            state: Some(execution.state.name()),
            executed: Some(execution.executed),
            remaining: Some(execution.remaining),
            ..Self::of_preview(&execution.outcomes, saved)
        }
    }

    /// Makes it from a preview.
    #[must_use]
    pub fn of_preview(outcomes: &'a [UnitOutcome], saved: &'a SavedPlan) -> Self {
        Self {
            schema_version: 1,
            mode: Mode::DryRun,
            run_id: None,
            plan_id: &saved.plan_id,
            plan_digest: &saved.plan_digest,
            state: None,
            executed: None,
            remaining: None,
            units: outcomes.iter().map(UnitDocument::of).collect(),
        }
    }
}

impl<'a> UnitDocument<'a> {
    fn of(outcome: &'a UnitOutcome) -> Self {
        let (result, reason) = match &outcome.result {
            UnitResult::Applied => ("applied", None),
            UnitResult::Stale(reason) => ("stale", Some(reason.as_str())),
            UnitResult::Failed(reason) => ("failed", Some(reason.as_str())),
        };
        Self { actions: &outcome.label, result, reason }
    }
}
