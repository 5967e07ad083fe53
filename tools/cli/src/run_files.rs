//! What a run leaves outside the store: plan, report, metrics, and the lines of its log (`--verbose`).

use std::io::Read as _;
use std::path::{Path, PathBuf};

use memfold::execute::{RunWatcher, UnitOutcome, UnitResult};
use memfold_core::plan::{Action, ActionType, Plan};
use memfold_core::report::{
    Executed, Mode, Report, ReportFileError, ReportPaths, Reported, ensure_report_dir, log_lines,
    state_report_dir, write_metrics, write_plan, write_report, write_report_in,
};
use memfold_core::runs::RunState;

use crate::failure::{Exit, Failure};
use crate::outputs::{Existing, Outputs};
use crate::printer::Printer;
use crate::writing;

/// A plan or a page of metrics is known by so many bytes of its beginning.
const HEAD_BYTES: u64 = 512;

/// Where a run was told to write.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RunFiles<'a> {
    pub(crate) plan: Option<&'a Path>,
    pub(crate) report: Option<&'a Path>,
    pub(crate) report_dir: Option<&'a Path>,
    pub(crate) metrics: Option<&'a Path>,
}

/// What became of the files of a run.
#[derive(Debug, Default)]
pub(crate) struct Written {
    files: Vec<PathBuf>,
    pub(crate) failures: Vec<Failure>,
}

impl RunFiles<'_> {
    /// Refuses files that cannot be written or must not, before the run begins. The report's folder is made.
    pub(crate) fn check(&self, mut outputs: Outputs) -> Result<(), Failure> {
        if let Some(path) = self.plan {
            outputs.take("--plan", path, Existing::ReplaceIf(is_plan))?;
        }
        if let Some(path) = self.metrics {
            outputs.take("--metrics", path, Existing::ReplaceIf(is_metrics))?;
        }
        if let Some(path) = self.report {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            ensure_report_dir(folder.unwrap_or(Path::new("."))).map_err(|e| unreported(&e))?;
            let ReportPaths { json, markdown } = ReportPaths::of(path);
            outputs.take("--report", &json, Existing::Never)?;
            outputs.take("the Markdown of --report", &markdown, Existing::Never)?;
        }
        if let Some(folder) = self.report_dir {
            ensure_report_dir(folder).map_err(|error| unreported(&error))?;
        }
        Ok(())
    }

    /// Writes the report where it was asked for or, of a run that wrote to the store, where reports stand. Where that
    /// fails after such a run, it is written elsewhere, which is told with the failure.
    pub(crate) fn write_report(
        &self,
        report: &dyn Reported,
        store: &Path,
        has_run: bool,
        printer: Printer,
        written: &mut Written,
    ) {
        let paths = match (self.report, self.report_dir) {
            (Some(path), _) => write_report(path, report).map_err(|error| unreported(&error)),
            (None, Some(folder)) => {
                write_report_in(folder, report).map_err(|error| unreported(&error))
            }
            (None, None) if has_run => writing::report_dir(store).and_then(|folder| {
                write_report_in(&folder, report).map_err(|error| unreported(&error))
            }),
            (None, None) => return,
        };
        let paths = paths.map_err(|failure| {
            let elsewhere = has_run.then(|| elsewhere(report, store)).flatten();
            let hint = match &elsewhere {
                Some(paths) => format!("the report is {} instead", paths.json.display()),
                None if has_run => {
                    let run = writing::store_words(&["memfold", "runs"], store, &[report.run_id()]);
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
            log_reported(&json, printer);
            written.files.extend([json, markdown]);
        }
    }

    /// Writes the plan where that was asked for.
    pub(crate) fn write_plan(&self, plan: &Plan, written: &mut Written) {
        let Some(path) = self.plan else { return };
        let failed = |error: memfold_core::report::WritePlanError| {
            let hint = error.hint();
            Failure::new("write the plan", &error, hint)
        };
        written.add(write_plan(path, plan).map(|()| path.to_owned()).map_err(failed));
    }

    /// Writes the metrics where that was asked for.
    pub(crate) fn write_metrics(&self, page: impl FnOnce() -> String, written: &mut Written) {
        let Some(path) = self.metrics else { return };
        let failed = |error: memfold_core::report::WriteMetricsError| {
            let hint = error.hint();
            Failure::new("write the metrics", &error, hint)
        };
        written.add(write_metrics(path, &page()).map(|()| path.to_owned()).map_err(failed));
    }
}

impl Written {
    /// Keeps what became of a file.
    pub(crate) fn add(&mut self, file: Result<PathBuf, Failure>) {
        match file {
            Ok(path) => self.files.push(path),
            Err(failure) => self.failures.push(failure),
        }
    }

    /// Tells what was written and, of a run that stands, what could not be. Returns whether all was.
    pub(crate) fn tell(&self, store: &Path, run_id: &str, printer: Printer) -> bool {
        for path in &self.files {
            printer.note(&format!("wrote {}", path.display()));
        }
        for failure in &self.failures {
            printer.failure(failure);
        }
        if !self.failures.is_empty() {
            let undo = writing::store_words(&["memfold", "undo"], store, &[run_id, "--execute"]);
            printer.failure_note(&format!("note: run {run_id} stands; to take it back: {undo}"));
        }
        self.failures.is_empty()
    }
}

fn unreported(error: &ReportFileError) -> Failure {
    let hint = error.hint();
    Failure::new("write the report", error, hint)
}

/// Writes the report of a run that stands wherever that is possible.
fn elsewhere(report: &dyn Reported, store: &Path) -> Option<ReportPaths> {
    let folders =
        [writing::report_dir(store).ok(), state_report_dir(store), Some(std::env::temp_dir())];
    folders.into_iter().flatten().find_map(|folder| write_report_in(&folder, report).ok())
}

/// Tells whether a file is a plan of an earlier run, or empty.
fn is_plan(path: &Path) -> bool {
    head(path).is_some_and(|head| {
        head.is_empty()
            || head.starts_with('{')
                && head.contains("\"schema_version\"")
                && head.contains("\"store_id\"")
    })
}

/// Tells whether a file holds metrics of an earlier run, or nothing.
fn is_metrics(path: &Path) -> bool {
    head(path).is_some_and(|head| head.is_empty() || head.starts_with("# HELP memfold_"))
}

fn head(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Importance where a store holds none.
const IMPORTANCE_DEFAULT: f64 = 1.0;

/// Tells that a run begins, and whether it may write.
pub(crate) fn log_started(run_id: &str, mode: Mode, config_hash: &str, printer: Printer) {
    printer.detail(&log_lines::start(run_id, mode, config_hash));
}

/// Tells what was found and planned.
pub(crate) fn log_planned(report: &Report, printer: Printer) {
    printer.detail(&log_lines::detect(&report.detected));
    for ruling in report.judged.iter().flat_map(|judged| &judged.rulings) {
        printer.detail(&log_lines::judge(ruling));
    }
    printer.detail(&log_lines::plan(&report.planned));
}

/// Tells where the report is.
pub(crate) fn log_reported(path: &Path, printer: Printer) {
    printer.detail(&log_lines::report(path));
}

/// Tells how a run ended that did not fail.
pub(crate) fn log_ended(
    state: RunState,
    executed: Executed,
    remaining: u64,
    are_files_written: bool,
    printer: Printer,
) {
    printer.detail(&match state {
        RunState::Interrupted => {
            log_lines::error(&format!("interrupted; units that were not tried: {remaining}"))
        }
        _ => log_lines::done(executed, are_files_written),
    });
}

/// Tells that a command failed.
pub(crate) fn log_failed(done: Result<Exit, Failure>, printer: Printer) -> Result<Exit, Failure> {
    if let Err(failure) = &done {
        printer.detail(&log_lines::error(&failure.message));
    }
    done
}

/// Tells of each unit of a run when it was tried.
pub(crate) struct LogWatcher<A> {
    /// The action at a position of the plan.
    pub(crate) action: A,
    pub(crate) printer: Printer,
}

impl<'p, A: Fn(usize) -> Option<&'p Action>> RunWatcher for LogWatcher<A> {
    fn began(&mut self, run_id: &str) {
        self.printer.detail(&log_lines::execute(run_id));
    }

    fn tried(&mut self, outcome: &UnitOutcome) {
        let label = &outcome.label;
        match &outcome.result {
            UnitResult::Applied => {
                let positions = outcome.positions.iter();
                for action in positions.filter_map(|&position| (self.action)(position)) {
                    self.printer.detail(&log_line(action, outcome));
                }
            }
            UnitResult::Stale(reason) => self.printer.detail(&log_lines::stale(label, reason)),
            UnitResult::Failed(reason) => self.printer.detail(&log_lines::failed(label, reason)),
        }
    }
}

fn log_line(action: &Action, unit: &UnitOutcome) -> String {
    let rule = &action.rationale.rule_id;
    let reasons = || action.rationale.reasons.join("; ");
    match (action.action, &action.target_ids[..]) {
        (ActionType::Merge | ActionType::ProposeMerge, [survivor, absorbed @ ..]) => {
            log_lines::merge(survivor, absorbed, rule)
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
