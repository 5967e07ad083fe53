//! `memfold apply`: a saved plan, or a part of it, is carried out.

use std::collections::BTreeMap;
use std::path::Path;

use memfold_pipeline::execute::{
    ExecuteRequest, Execution, Pick, Selection, UnitOutcome, UnitResult, execute, preview,
};
use memfold_pipeline::memory::MemoryId;
use memfold_pipeline::plan::{SavedAction, SavedPlan, plan_id};
use memfold_pipeline::report::{Executed, Mode, read_plan, run_id};
use memfold_pipeline::store::BrainDb;
use memfold_pipeline::text::excerpt;
use serde::Serialize;

use crate::args::{ApplyArgs, GlobalArgs};
use crate::commands::consolidate::{exit_of, open_store};
use crate::commands::{log, writing};
use crate::document::documents;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::resources::Stopwatch;
use crate::settings::{self, Settings};

/// Units that are listed one by one.
const SHOWN: usize = 20;
const REASON_CHARS: usize = 120;

documents! { "apply" => ApplyDocument<'_> }

/// `memfold apply --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ApplyDocument<'a> {
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
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UnitDocument<'a> {
    /// Their labels: `a3`, `a3 a4`.
    actions: &'a str,
    /// `applied`, `stale` (a memory had changed) or `failed` (rolled back).
    result: &'static str,
    /// Why it was not applied.
    reason: Option<&'a str>,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &ApplyArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    // Where the store is looked for does not depend on the plan.
    let first = Settings::load(global, Some(&args.db), &[])?;
    let store = open_store(&args.db, &first)?;
    let saved = find_plan(&store, &args.plan)?;
    let settings = Settings::load_for_plan(global, Some(&args.db), &saved.plan.overrides)?;
    settings.show_notices(printer);
    let selection = selection(args, saved.actions.len())?;
    if writing::may_write(&settings, (args.execute, args.dry_run), printer) {
        writing::check_guarded(&settings, args.allow_unguarded)?;
        let execution = apply(args, &settings, (&saved, &selection), printer)?;
        let action = |position: usize| saved.actions.get(position).map(SavedAction::effective);
        log::executed(&execution, action, printer);
        if global.json {
            printer.document(&ApplyDocument::of_run(&execution, &saved))?;
        } else {
            writing::note_backup(&execution, printer);
            printer.data(&format!("{}\n", done(&args.db, &execution)))?;
            writing::note_execution(&args.db, &execution, printer);
        }
        return Ok(exit_of(execution.state));
    }
    let (outcomes, _) = preview(&store, &saved, &selection)
        .map_err(|error| writing::session_failure("look at the plan", &error))?;
    if global.json {
        printer.document(&ApplyDocument::of_preview(&outcomes, &saved))?;
    } else {
        printer.data(&preview_text(args, &outcomes, &saved))?;
        printer.note("dry run: nothing was written to the store");
    }
    Ok(Exit::Done)
}

/// A saved plan by name, or a plan file.
fn find_plan(store: &BrainDb, name: &str) -> Result<SavedPlan, Failure> {
    let path = Path::new(name);
    if path.is_file() {
        let plan = read_plan(path).map_err(|error| {
            let hint = error.hint();
            Failure::new("apply", &error, hint)
        })?;
        return Ok(match store.plan(&plan_id(&plan)) {
            Ok(saved) => saved,
            Err(_) => SavedPlan::proposed(plan),
        });
    }
    store.plan(name).map_err(|error| {
        let hint = error.hint();
        Failure::new("find the plan", &error, hint)
    })
}

fn selection(args: &ApplyArgs, action_count: usize) -> Result<Selection, Failure> {
    let picks = |words: &[String]| -> Result<Vec<Pick>, Failure> {
        let parsed = words.iter().map(|word| word.parse::<Pick>()).collect::<Result<_, _>>();
        parsed.map_err(|error| Failure::usage(error.to_string(), error.hint().unwrap_or_default()))
    };
    let selection = Selection { only: picks(&args.only)?, except: picks(&args.except)? };
    let unknown = selection.unknown_labels(action_count);
    if unknown.is_empty() {
        return Ok(selection);
    }
    Err(Failure::usage(
        format!("the plan has {action_count} actions and no {}", unknown.join(", ")),
        "`memfold plans DB PLAN` lists them",
    ))
}

fn apply(
    args: &ApplyArgs,
    settings: &Settings,
    (saved, selection): (&SavedPlan, &Selection),
    printer: Printer,
) -> Result<Execution, Failure> {
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.now.as_deref(), &time_zone)?;
    let guard = settings.guard()?;
    let config_hash = settings.config_hash(&guard);
    let session = writing::open_session(&args.db, settings)?;
    let stopwatch = Stopwatch::start();
    execute(
        &session,
        &ExecuteRequest {
            plan: &saved.plan,
            access_counts: &access_counts(saved),
            selection,
            limit: args.limit,
            run_id: &run_id(&saved.plan.store_id, now, &config_hash),
            now,
            time_zone: &time_zone,
            policy: &settings.configuration.policy,
            config_hash: &config_hash,
            holder: &settings::holder(),
            progress: &Bars::new(printer),
            clock: &|| stopwatch.seconds(),
        },
    )
    .map_err(|error| writing::execute_failure(&error))
}

fn access_counts(saved: &SavedPlan) -> BTreeMap<MemoryId, i64> {
    let counts = saved.actions.iter().filter_map(|action| {
        Some((action.effective().target_ids.first()?.clone(), action.access_count?))
    });
    counts.collect()
}

fn done(store: &Path, execution: &Execution) -> String {
    let store = store.to_string_lossy();
    let words = ["memfold", "undo", &store, &execution.run_id, "--execute"];
    format!(
        "{} units applied by run {}\nundo: {}",
        execution.executed.applied,
        execution.run_id,
        writing::command_line(&words)
    )
}

impl<'a> ApplyDocument<'a> {
    fn of_run(execution: &'a Execution, saved: &'a SavedPlan) -> Self {
        Self {
            mode: Mode::Execute,
            run_id: Some(&execution.run_id),
            state: Some(execution.state.name()),
            executed: Some(execution.executed),
            remaining: Some(execution.remaining),
            ..Self::of_preview(&execution.outcomes, saved)
        }
    }

    fn of_preview(outcomes: &'a [UnitOutcome], saved: &'a SavedPlan) -> Self {
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

fn preview_text(args: &ApplyArgs, outcomes: &[UnitOutcome], saved: &SavedPlan) -> String {
    let stale: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| match &outcome.result {
            UnitResult::Stale(reason) => Some((&outcome.label, reason)),
            _ => None,
        })
        .collect();
    let fresh = outcomes.len() - stale.len();
    let mut text = format!(
        "plan {} of {}: {fresh} units would be applied, {} are stale\n",
        saved.plan_id,
        saved.plan.now,
        stale.len()
    );
    for (label, reason) in stale.iter().take(SHOWN) {
        text.push_str(&format!("  {label}: {}\n", excerpt(reason, REASON_CHARS)));
    }
    if stale.len() > SHOWN {
        text.push_str(&format!("  and {} more\n", stale.len() - SHOWN));
    }
    if fresh > 0 {
        let store = args.db.to_string_lossy();
        let (only, except) = (args.only.join(","), args.except.join(","));
        let mut words = vec!["memfold", "apply", &store, &saved.plan_id];
        if !only.is_empty() {
            words.extend(["--only", &only]);
        }
        if !except.is_empty() {
            words.extend(["--except", &except]);
        }
        words.push("--execute");
        text.push_str(&format!("next: {}\n", writing::command_line(&words)));
    }
    text
}
