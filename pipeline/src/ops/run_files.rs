//! The files of a run outside the store: plan, report, metrics, and the lines of its log
//! (`--verbose`).

use std::path::{Path, PathBuf};

use memfold_core::plan::{Action, ActionType, Plan, action_label};
use memfold_core::report::{
    Executed, Report, ReportFileError, ReportPaths, Reported, ensure_report_dir, log_lines,
    state_report_dir, write_metrics, write_plan, write_report, write_report_in,
};
use memfold_core::runs::RunState;
use memfold_datasets::atomic_file::stay_within;
use memfold_guard::text::excerpt;
use memfold_store::brain_db::BackupOutcome;

use super::{Failure, Listener, StorePath, counted, store_words};
use crate::execute::{Execution, RunWatcher, UnitOutcome, UnitResult};

/// Outcomes that are listed one by one.
const SHOWN: usize = 20;
const REASON_CHARS: usize = 200;

/// The files that a run writes.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct RunFiles {
    /// Write the plan here (JSON; replaces that of an earlier run).
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub plan: Option<PathBuf>,
    /// Write the report here (JSON), and its Markdown beside it; the folder is made.
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE", conflicts_with = "report_dir"))]
    pub report: Option<PathBuf>,
    /// Write `<run_id>.json` and `<run_id>.md` into this folder.
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "DIR",
            help = "Write <run_id>.json and <run_id>.md into this folder"
        )
    )]
    pub report_dir: Option<PathBuf>,
    /// Write metrics of the run here, for Prometheus (replaces those of an earlier run).
    #[cfg_attr(feature = "clap", arg(long, value_name = "FILE"))]
    pub metrics: Option<PathBuf>,
}

/// The files of a run that were written, and failures.
#[derive(Debug, Default)]
pub struct Written {
    /// The files.
    pub files: Vec<PathBuf>,
    /// Failures to write a file of a run that stands.
    pub failures: Vec<Failure>,
}

impl RunFiles {
    /// Writes the report to the requested place or, for a run that wrote to the store, to the
    /// default one. If that fails after a run that wrote, the report is written elsewhere, and the
    /// failure says where.
    pub fn write_report(
        &self,
        report: &dyn Reported,
        store: &StorePath,
        has_run: bool,
        listener: &dyn Listener,
        written: &mut Written,
    ) {
        let paths = match (&self.report, &self.report_dir) {
            (Some(path), _) => write_report(path, report).map_err(unreported),
            (None, Some(folder)) => write_report_in(folder, report).map_err(unreported),
            (None, None) if has_run => report_dir(store)
                .and_then(|folder| write_report_in(&folder, report).map_err(unreported)),
            (None, None) => return,
        };
        let paths = paths.map_err(|failure| {
            let elsewhere = has_run.then(|| elsewhere(report, store)).flatten();
            let hint = match &elsewhere {
                Some(paths) => format!("the report is {} instead", paths.json.display()),
                None if has_run => {
                    let run = store_words(&["memfold", "runs"], store, &[report.run_id()]);
                    format!("`{run}` lists what the run did")
                }
                None => failure.hint.unwrap_or_default(),
            };
            (Failure { hint: Some(hint), ..failure }, elsewhere)
        });
        let paths = match paths {
            Ok(paths) => Some(paths),
            Err((failure, elsewhere)) => {
                written.failures.push(failure);
                elsewhere
            }
        };
        if let Some(ReportPaths { json, markdown }) = paths {
            listener.detail(&log_lines::report(&json));
            written.files.extend([json, markdown]);
        }
    }

    /// Writes the plan if requested.
    pub fn write_plan(&self, plan: &Plan, written: &mut Written) {
        let Some(path) = &self.plan else { return };
        let plan = write_plan(path, plan).map(|()| path.to_owned());
        written.add(plan.map_err(|error| Failure::of("write the plan", &error)));
    }

    /// Writes the metrics if requested.
    pub fn write_metrics(&self, page: impl FnOnce() -> String, written: &mut Written) {
        let Some(path) = &self.metrics else { return };
        let page = write_metrics(path, &page()).map(|()| path.to_owned());
        written.add(page.map_err(|error| Failure::of("write the metrics", &error)));
    }
}

impl Written {
    /// Records the result for a file.
    fn add(&mut self, file: Result<PathBuf, Failure>) {
        match file {
            Ok(path) => self.files.push(path),
            Err(failure) => self.failures.push(failure),
        }
    }
}

fn unreported(error: ReportFileError) -> Failure {
    Failure::of("write the report", &error)
}

/// Writes the report of a run that stands to the first possible place.
fn elsewhere(report: &dyn Reported, store: &StorePath) -> Option<ReportPaths> {
    let folders = [report_dir(store).ok(), state_report_dir(store), Some(std::env::temp_dir())];
    folders.into_iter().flatten().find_map(|folder| write_report_in(&folder, report).ok())
}

/// Finds a folder for the reports of runs that write: `reports/consolidation` beside the store, or one in
/// the user's state folder.
///
/// # Errors
/// When neither can be written.
pub fn report_dir(store: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: ReportFileError| {
        Failure::of("find a place for the report; nothing was executed", &error)
    };
    let store = store.canonicalize().unwrap_or_else(|_| store.to_owned());
    let home = store.parent().unwrap_or(Path::new("."));
    let beside = home.join("reports").join("consolidation");
    let ensured = stay_within(home, &beside)
        .map_err(|error| ReportFileError::CreateFolder { path: beside.clone(), error })
        .and_then(|()| ensure_report_dir(&beside));
    match (ensured, state_report_dir(&store)) {
        (Ok(()), _) => Ok(beside),
        (Err(_), Some(folder)) => ensure_report_dir(&folder).map(|()| folder).map_err(failed),
        (Err(error), None) => Err(failed(error)),
    }
}

/// Reports the copy that is made before a store is first changed.
pub fn note_backup(execution: &Execution, listener: &dyn Listener) {
    match &execution.backup {
        Some(BackupOutcome::Made { path }) => {
            listener.note(&format!("copied the store as it was to {}", path.display()));
        }
        Some(BackupOutcome::Skipped { reason }) => {
            listener.note(&format!("note: no copy of the store was made: {reason}"));
        }
        None => {}
    }
}

/// Reports the results of a run, and how to continue, with further words of the command line.
pub fn note_execution(
    store: &StorePath,
    further: &[String],
    execution: &Execution,
    listener: &dyn Listener,
) {
    let Execution { run_id, plan_id, executed, remaining, .. } = execution;
    listener.note(&format!(
        "run {run_id}: {} applied, {} stale, {} failed{}",
        counted(executed.applied, "unit", "units"),
        executed.stale,
        executed.failed,
        if *remaining > 0 { format!(", {remaining} not tried") } else { String::new() }
    ));
    for note in &execution.notes {
        listener.note(&format!("note: {note}"));
    }
    for outcome in execution.outcomes.iter().filter(|o| o.result != UnitResult::Applied).take(SHOWN)
    {
        if let UnitResult::Stale(reason) | UnitResult::Failed(reason) = &outcome.result {
            listener.note(&format!("  {}: {}", outcome.label, excerpt(reason, REASON_CHARS)));
        }
    }
    for blocked in execution.blocked.iter().take(SHOWN) {
        let (action, needs) = (action_label(blocked.position), action_label(blocked.needs));
        listener.note(&format!("  {action}: not applied, it rests on {needs}"));
    }
    if *remaining > 0 {
        let further = further.iter().map(String::as_str);
        let after: Vec<&str> = [plan_id.as_str(), "--execute"].into_iter().chain(further).collect();
        listener.note(&format!("to go on: {}", store_words(&["memfold", "apply"], store, &after)));
    }
}

/// Importance where a store holds none.
const IMPORTANCE_DEFAULT: f64 = 1.0;

/// Reports the findings and the plan.
pub(super) fn log_planned(report: &Report, listener: &dyn Listener) {
    listener.detail(&log_lines::detect(&report.detected));
    for ruling in report.judged.iter().flat_map(|judged| &judged.rulings) {
        listener.detail(&log_lines::judge(ruling));
    }
    listener.detail(&log_lines::plan(&report.planned));
}

/// Logs the end of a run that did not fail.
pub fn log_ended(
    state: RunState,
    executed: Executed,
    remaining: u64,
    are_files_written: bool,
    listener: &dyn Listener,
) {
    listener.detail(&match state {
        RunState::Interrupted => {
            log_lines::error(&format!("interrupted; units that were not tried: {remaining}"))
        }
        _ => log_lines::done(executed, are_files_written),
    });
}

/// Tells of each unit of a run when it was tried.
pub(super) struct LogWatcher<'a, A> {
    /// The action at a position of the plan.
    pub(super) action: A,
    pub(super) listener: &'a dyn Listener,
}

impl<'p, A: Fn(usize) -> Option<&'p Action>> RunWatcher for LogWatcher<'_, A> {
    fn began(&mut self, run_id: &str) {
        self.listener.detail(&log_lines::execute(run_id));
    }

    fn tried(&mut self, outcome: &UnitOutcome) {
        let label = &outcome.label;
        match &outcome.result {
            UnitResult::Applied => {
                let positions = outcome.positions.iter();
                for action in positions.filter_map(|&position| (self.action)(position)) {
                    self.listener.detail(&log_line(action, outcome));
                }
            }
            UnitResult::Stale(reason) => self.listener.detail(&log_lines::stale(label, reason)),
            UnitResult::Failed(reason) => self.listener.detail(&log_lines::failed(label, reason)),
        }
    }
}

fn log_line(action: &Action, unit: &UnitOutcome) -> String {
    let rule = &action.rationale.rule_id;
    let reasons = || action.rationale.reasons.join("; ");
    match (action.action, &action.target_ids[..]) {
        (ActionType::Merge | ActionType::ProposeMerge, [survivor, merged @ ..]) => {
            log_lines::merge(survivor, merged, rule)
        }
        (ActionType::Promote, [id, ..]) => {
            let from = unit.importance_before.unwrap_or(IMPORTANCE_DEFAULT);
            log_lines::promote(id, from, action.new_importance.unwrap_or(from), rule)
        }
        (ActionType::Archive, [id, ..]) => log_lines::archive(id, &reasons(), rule),
        (ActionType::Rewrite, sources) if let Some(new) = &action.canonical_id => {
            log_lines::rewrite(new, sources, rule)
        }
        (ActionType::Summarize, sources) if let Some(new) = &action.canonical_id => {
            log_lines::summary(new, sources)
        }
        (ActionType::Supersede, [newer, older, ..]) => {
            log_lines::supersede(newer, older, &reasons())
        }
        (ActionType::FlagContradiction, [a, b, ..]) => {
            log_lines::contradiction(a, b, &action.rationale.evidence.contradiction_signals)
        }
        (_, _) => log_lines::error("an action without targets"),
    }
}
