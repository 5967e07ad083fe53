//! `memfold apply`: applies a saved plan, or a part of it.

use std::path::{Path, PathBuf};

use clap::{self, Args, ValueHint};
use memfold::execute::{Execution, Selection, UnitOutcome, UnitResult};
use memfold::ops::{self, ApplyDocument, ApplyRequest, RunFiles, Settings, StorePath};
use memfold_core::plan::SavedPlan;
use memfold_guard::text::excerpt;

use crate::args::{GlobalArgs, WritingArgs, store_path};
use crate::call::Call;
use crate::context::open_store;
use crate::failure::{Exit, Failure};
use crate::outputs::Outputs;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::writing::{self, Words, counted, few};

/// Units that are listed one by one.
const SHOWN: usize = 20;
const REASON_CHARS: usize = 120;

/// `memfold apply`
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    #[arg(value_parser = store_path(), value_hint = ValueHint::AnyPath)]
    pub(crate) db: StorePath,
    /// A saved plan (its id, the beginning of it, or latest) or a plan file
    pub(crate) plan: String,
    #[command(flatten)]
    pub(crate) request: ApplyRequest,
    /// Write the report here (JSON), and its Markdown beside it
    #[arg(long, value_name = "FILE", conflicts_with = "report_dir", requires = "execute")]
    pub(crate) report: Option<PathBuf>,
    /// Write <run_id>.json and <run_id>.md into this folder
    /// [default: reports/consolidation beside the store]
    #[arg(long, value_name = "DIR", requires = "execute")]
    pub(crate) report_dir: Option<PathBuf>,
    /// Write metrics of the run here, for Prometheus (replaces those of an earlier run)
    #[arg(long, value_name = "FILE", requires = "execute")]
    pub(crate) metrics: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
}

pub(crate) fn run(call: Call<'_>, args: &ApplyArgs) -> Result<Exit, Failure> {
    writing::log_failed(apply_plan(call, args), call.printer)
}

fn apply_plan(call: Call<'_>, args: &ApplyArgs) -> Result<Exit, Failure> {
    // The search for the store does not depend on the plan.
    let first = Settings::load(&call.global.sources, Some(&args.db), &[])?;
    let store = open_store(&args.db, &first)?;
    let saved = ops::find_plan(&store, &args.plan)?;
    let settings =
        Settings::load_for_plan(&call.global.sources, Some(&args.db), &saved.plan.overrides)?;
    settings.show_notices(&call.printer);
    let selection = ops::selection(&args.request.only, &args.request.except, saved.actions.len())?;
    note_not_approved(&selection, &saved, call.printer);
    let files = RunFiles {
        plan: None,
        report: args.report.clone(),
        report_dir: args.report_dir.clone(),
        metrics: args.metrics.clone(),
    };
    let plan_file = [Path::new(&args.plan)].into_iter().filter(|plan| plan.is_file());
    let inputs = plan_file.chain(call.global.sources.config.as_deref());
    writing::check_files(&files, Outputs::beside(inputs).and_store(&args.db))?;
    if call.may_write(&settings, &args.writing) {
        let (now, bars) = (args.writing.now.as_deref(), Bars::new(call.printer));
        let (execution, mut written) =
            ops::apply(&args.db, &settings, &saved, &args.request, now, &files, &bars)?;
        written.failures.extend(show(call, args, &execution, &saved).err());
        return Ok(writing::end_run(&execution, &written, &args.db, call.printer));
    }
    let outcomes = ops::preview_apply(&store, &saved, &selection)?;
    let document = ApplyDocument::of_preview(&outcomes, &saved);
    call.show_run(false, &document, || preview_text(call.global, args, &outcomes, &saved))
}

/// Shows the results of a run.
fn show(
    call: Call<'_>,
    args: &ApplyArgs,
    execution: &Execution,
    saved: &SavedPlan,
) -> Result<(), Failure> {
    if call.global.json {
        return call.printer.document(&ApplyDocument::of_run(execution, saved));
    }
    ops::note_backup(execution, &call.printer);
    let shown = call.printer.data(&format!(
        "{} applied by run {}\nundo: {}\n",
        counted(execution.executed.applied, "unit", "units"),
        execution.run_id,
        writing::undo_words(&args.db, &execution.run_id)
    ));
    let further = repeated(Words::default(), call.global, args).into_vec();
    ops::note_execution(&args.db, &further, execution, &call.printer);
    shown
}

/// The options about how a plan is applied, to be repeated in a command.
fn repeated(words: Words, global: &GlobalArgs, args: &ApplyArgs) -> Words {
    let ApplyRequest { only, except, limit, allow_unguarded } = &args.request;
    let joined = |picks: &[String]| (!picks.is_empty()).then(|| picks.join(","));
    words
        .values("--only", joined(only))
        .values("--except", joined(except))
        .values("--limit", *limit)
        .values("--now", &args.writing.now)
        .path("--report-dir", args.report_dir.as_deref())
        .path("--metrics", args.metrics.as_deref())
        .flag("--allow-unguarded", *allow_unguarded)
        .global(global)
}

/// Tells which of the actions that were picked stay out, because a review did not approve them.
fn note_not_approved(selection: &Selection, saved: &SavedPlan, printer: Printer) {
    let labels = selection.not_approved(&saved.actions);
    if labels.is_empty() {
        return;
    }
    printer.note(&format!(
        "note: not approved when the plan was reviewed, so left out: {}; \
         `memfold review DB PLAN` asks again",
        few(&labels, SHOWN)
    ));
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
        let words = repeated(Words::default().word(plan), global, args).word("--execute");
        text.push_str(&format!("next: {}\n", words.command("apply", &args.db)));
    }
    text
}
