//! `memfold apply`: a saved plan, or a part of it, is carried out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{self, Args};
use memfold::execute::{
    ExecuteError, ExecuteRequest, Execution, Pick, Review, Selection, UnitOutcome, UnitResult,
    WriteRules, execute_watched, forbidden_by, preview,
};
use memfold::machine::{self, Stopwatch};
use memfold_core::memory::MemoryId;
use memfold_core::plan::{SavedAction, SavedPlan, plan_id};
use memfold_core::report::{Executed, Mode, applied_metrics, read_plan, run_id};
use memfold_guard::text::excerpt;
use memfold_simd::Kernels;
use memfold_store::BrainDb;
use serde::Serialize;

use crate::args::{GlobalArgs, whole};
use crate::context::{new_vectors, open_store};
use crate::failure::{Exit, Failure};
use crate::outputs::Outputs;
use crate::printer::{Printer, documents};
use crate::progress::Bars;
use crate::run_files::{LogWatcher, RunFiles, Written, log_ended, log_failed, log_started};
use crate::settings::{self, Settings};
use crate::writing::{self, counted, exit_of};

/// Units that are listed one by one.
const SHOWN: usize = 20;
const REASON_CHARS: usize = 120;

documents! { "apply" => ApplyDocument<'_> }

/// `memfold apply`
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    pub db: PathBuf,
    /// A saved plan (its id, the beginning of it, or latest) or a plan file
    pub plan: String,
    /// Only these actions: labels (a17), risks (identical, trivial, reworded) or types
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Not these actions
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',')]
    pub except: Vec<String>,
    /// Apply N units at most; running again continues
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>(1, u64::MAX))]
    pub limit: Option<u64>,
    /// Write the report here (JSON), and its Markdown beside it
    #[arg(long, value_name = "FILE", conflicts_with = "report_dir", requires = "execute")]
    pub report: Option<PathBuf>,
    /// Write <run_id>.json and <run_id>.md into this folder
    /// [default: reports/consolidation beside the store]
    #[arg(long, value_name = "DIR", requires = "execute")]
    pub report_dir: Option<PathBuf>,
    /// Write metrics of the run here, for Prometheus (replaces those of an earlier run)
    #[arg(long, value_name = "FILE", requires = "execute")]
    pub metrics: Option<PathBuf>,
    /// Write to the store
    #[arg(long)]
    pub execute: bool,
    /// Write nothing; this is the default and wins over --execute
    #[arg(long)]
    pub dry_run: bool,
    /// Execute although the fact guard or protection is off
    #[arg(long)]
    pub allow_unguarded: bool,
    /// Write times as if it were this time (RFC 3339) [default: the clock]
    #[arg(long, value_name = "TIME")]
    pub now: Option<String>,
}

/// `memfold apply --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    log_failed(apply_plan(global, args, printer), printer)
}

fn apply_plan(global: &GlobalArgs, args: &ApplyArgs, printer: Printer) -> Result<Exit, Failure> {
    // Where the store is looked for does not depend on the plan.
    let first = Settings::load(global, Some(&args.db), &[])?;
    let store = open_store(&args.db, &first)?;
    let saved = find_plan(&store, &args.plan)?;
    let settings = Settings::load_for_plan(global, Some(&args.db), &saved.plan.overrides)?;
    settings.show_notices(printer);
    let selection = selection(&args.only, &args.except, saved.actions.len())?;
    note_not_approved(&selection, &saved, printer);
    let files = files(args);
    let plan_file = [Path::new(&args.plan)].into_iter().filter(|plan| plan.is_file());
    let inputs = plan_file.chain(global.config.as_deref());
    files.check(Outputs::beside(inputs).and_store(&args.db))?;
    if writing::may_write(&settings, args.execute, args.dry_run, printer) {
        let bars = Bars::new(printer);
        let (execution, mut written) = run_of(args, &settings, &saved, &selection, &bars, printer)?;
        written.failures.extend(show(global, args, &execution, &saved, printer).err());
        let is_whole = written.tell(&args.db, &execution.run_id, printer);
        let Execution { state, executed, remaining, .. } = execution;
        log_ended(state, executed, remaining, is_whole, printer);
        return Ok(match exit_of(execution.state) {
            Exit::Done if !is_whole => Exit::Partial,
            exit => exit,
        });
    }
    let (outcomes, _) = preview(&store, &saved, &selection)
        .map_err(|error| writing::session_failure("look at the plan", &error))?;
    if global.json {
        printer.document(&ApplyDocument::of_preview(&outcomes, &saved))?;
    } else {
        printer.data(&preview_text(global, args, &outcomes, &saved))?;
        printer.note("dry run: nothing was written to the store");
    }
    Ok(Exit::Done)
}

/// Applies a plan, saved or kept by the caller, and shows nothing.
///
/// # Errors
/// As `memfold apply --execute`.
pub fn apply_saved(
    global: &GlobalArgs,
    args: &ApplyArgs,
    saved: &SavedPlan,
    bars: &Bars,
    printer: Printer,
) -> Result<Execution, Failure> {
    let settings = Settings::load_for_plan(global, Some(&args.db), &saved.plan.overrides)?;
    if let Some(key) = forbidden_by(&settings.configuration.settings) {
        return Err(writing::execute_failure(&ExecuteError::Forbidden { key }));
    }
    let selection = selection(&args.only, &args.except, saved.actions.len())?;
    let (execution, written) = run_of(args, &settings, saved, &selection, bars, printer)?;
    for failure in &written.failures {
        printer.failure(failure);
    }
    Ok(execution)
}

/// Applies a plan and writes what a run leaves outside the store.
fn run_of(
    args: &ApplyArgs,
    settings: &Settings,
    saved: &SavedPlan,
    selection: &Selection,
    bars: &Bars,
    printer: Printer,
) -> Result<(Execution, Written), Failure> {
    rules(args, settings)
        .check(&settings.configuration.policy, &saved.plan)
        .map_err(|error| writing::execute_failure(&error))?;
    let stopwatch = Stopwatch::start();
    let execution = apply(args, settings, saved, selection, stopwatch, bars, printer)?;
    let report = execution.report(saved, stopwatch.seconds());
    let (mut written, files) = (Written::default(), files(args));
    files.write_report(&report, &args.db, true, printer, &mut written);
    let figures = || open_store(&args.db, settings).ok()?.figures().ok();
    let isa = Kernels::active().level().name();
    let page = || applied_metrics(&report, figures().as_ref(), isa);
    files.write_metrics(page, &mut written);
    Ok((execution, written))
}

/// Where a run was told to write.
fn files(args: &ApplyArgs) -> RunFiles<'_> {
    RunFiles {
        plan: None,
        report: args.report.as_deref(),
        report_dir: args.report_dir.as_deref(),
        metrics: args.metrics.as_deref(),
    }
}

/// Shows what a run did.
fn show(
    global: &GlobalArgs,
    args: &ApplyArgs,
    execution: &Execution,
    saved: &SavedPlan,
    printer: Printer,
) -> Result<(), Failure> {
    if global.json {
        return printer.document(&ApplyDocument::of_run(execution, saved));
    }
    writing::note_backup(execution, printer);
    let shown = printer.data(&format!("{}\n", done(&args.db, execution)));
    writing::note_execution(&args.db, &repeated(global, args), execution, printer);
    shown
}

/// What was typed that tells how a plan is applied, to be typed again.
fn repeated(global: &GlobalArgs, args: &ApplyArgs) -> Vec<String> {
    let mut words = Vec::new();
    let mut repeat = |flag: &str, value: Option<String>| {
        words.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value]));
    };
    let joined = |picks: &[String]| (!picks.is_empty()).then(|| picks.join(","));
    repeat("--only", joined(&args.only));
    repeat("--except", joined(&args.except));
    repeat("--limit", args.limit.map(|limit| limit.to_string()));
    repeat("--now", args.now.clone());
    repeat("--report-dir", args.report_dir.as_deref().map(writing::path_word));
    repeat("--metrics", args.metrics.as_deref().map(writing::path_word));
    words.extend(args.allow_unguarded.then(|| "--allow-unguarded".to_owned()));
    words.extend(writing::global_words(global));
    words
}

/// Tells which of the actions that were picked stay out, because a review did not approve them.
fn note_not_approved(selection: &Selection, saved: &SavedPlan, printer: Printer) {
    let labels = selection.not_approved(&saved.actions);
    if labels.is_empty() {
        return;
    }
    let shown = labels.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match labels.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    printer.note(&format!(
        "note: not approved when the plan was reviewed, so left out: {shown}{more}; \
         `memfold review DB PLAN` asks again"
    ));
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

/// Reads which actions of a plan `--only` and `--except` name.
pub(crate) fn selection(
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

fn apply(
    args: &ApplyArgs,
    settings: &Settings,
    saved: &SavedPlan,
    selection: &Selection,
    stopwatch: Stopwatch,
    bars: &Bars,
    printer: Printer,
) -> Result<Execution, Failure> {
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.now.as_deref(), &time_zone)?;
    let guard = settings.guard()?;
    let config_hash = settings.config_hash(&guard);
    let run_id = run_id(&saved.plan.store_id, now, &config_hash);
    log_started(&run_id, Mode::Execute, &config_hash, printer);
    if args.report.is_none() && args.report_dir.is_none() {
        writing::report_dir(&args.db)?;
    }
    let actions = selection.chosen(&saved.actions);
    let vectors = new_vectors(actions, settings, bars, printer)?;
    let session = writing::open_session(&args.db, settings)?;
    let action = |position: usize| saved.actions.get(position).map(SavedAction::effective);
    execute_watched(
        &session,
        &ExecuteRequest {
            plan: &saved.plan,
            vectors: &vectors,
            access_counts: &access_counts(saved),
            selection,
            limit: args.limit,
            run_id: &run_id,
            now,
            time_zone: &time_zone,
            policy: &settings.configuration.policy,
            config_hash: &config_hash,
            rules: rules(args, settings),
            holder: &machine::holder(),
            progress: bars,
            clock: &|| stopwatch.seconds(),
        },
        &mut LogWatcher { action, printer },
    )
    .map_err(|error| writing::execute_failure(&error))
}

/// What must hold before anything is written. Naming the plan is the review.
fn rules<'a>(args: &ApplyArgs, settings: &'a Settings) -> WriteRules<'a> {
    WriteRules {
        settings: &settings.configuration.settings,
        allow_unguarded: args.allow_unguarded,
        review: Review::Saved,
    }
}

fn access_counts(saved: &SavedPlan) -> BTreeMap<MemoryId, i64> {
    let counts = saved.actions.iter().filter_map(|action| {
        Some((action.effective().target_ids.first()?.clone(), action.access_count?))
    });
    counts.collect()
}

fn done(store: &Path, execution: &Execution) -> String {
    let after = [&*execution.run_id, "--execute"];
    format!(
        "{} applied by run {}\nundo: {}",
        counted(execution.executed.applied, "unit", "units"),
        execution.run_id,
        writing::store_words(&["memfold", "undo"], store, &after)
    )
}

impl<'a> ApplyDocument<'a> {
    /// Takes what a run did.
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

fn preview_text(
    global: &GlobalArgs,
    args: &ApplyArgs,
    outcomes: &[UnitOutcome],
    saved: &SavedPlan,
) -> String {
    let stale: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| match &outcome.result {
            UnitResult::Stale(reason) => Some((&outcome.label, reason)),
            _ => None,
        })
        .collect();
    let fresh = outcomes.len() - stale.len();
    let mut text = format!(
        "plan {} of {}: {} would be applied, {} {} stale\n",
        saved.plan_id,
        saved.plan.now,
        counted(fresh as u64, "unit", "units"),
        stale.len(),
        if stale.len() == 1 { "is" } else { "are" }
    );
    for (label, reason) in stale.iter().take(SHOWN) {
        text.push_str(&format!("  {label}: {}\n", excerpt(reason, REASON_CHARS)));
    }
    if stale.len() > SHOWN {
        text.push_str(&format!("  and {} more\n", stale.len() - SHOWN));
    }
    if fresh > 0 {
        let file = Path::new(&args.plan);
        // A plan of a file may be in no store yet.
        let plan = if file.is_file() { writing::path_word(file) } else { saved.plan_id.clone() };
        let repeated = repeated(global, args);
        let after = [&[&*plan][..], &writing::strs(&repeated), &["--execute"]].concat();
        let next = writing::store_words(&["memfold", "apply"], &args.db, &after);
        text.push_str(&format!("next: {next}\n"));
    }
    text
}
