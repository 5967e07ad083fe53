//! What a run tells a log: lines on stderr with `--verbose`, each when it happens.

use std::path::Path;

use memfold::execute::{RunWatcher, UnitOutcome, UnitResult};
use memfold_model::runs::RunState;
use memfold_plan::plan::{Action, ActionType};
use memfold_plan::report::{Executed, Mode, Report, log_lines};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;

/// Importance where a store holds none.
const IMPORTANCE_DEFAULT: f64 = 1.0;

/// Tells that a run begins, and whether it may write.
pub(crate) fn started(run_id: &str, mode: Mode, config_hash: &str, printer: Printer) {
    printer.detail(&log_lines::start(run_id, mode, config_hash));
}

/// Tells what was found and planned.
pub(crate) fn planned(report: &Report, printer: Printer) {
    printer.detail(&log_lines::detect(&report.detected));
    printer.detail(&log_lines::plan(&report.planned));
}

/// Tells where the report is.
pub(crate) fn reported(path: &Path, printer: Printer) {
    printer.detail(&log_lines::report(path));
}

/// Tells how a run ended that did not fail.
pub(crate) fn ended(
    (state, executed, remaining): (RunState, Executed, u64),
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
pub(crate) fn failed(done: Result<Exit, Failure>, printer: Printer) -> Result<Exit, Failure> {
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
                    self.printer.detail(&line(action, outcome));
                }
            }
            UnitResult::Stale(reason) => self.printer.detail(&log_lines::stale(label, reason)),
            UnitResult::Failed(reason) => self.printer.detail(&log_lines::failed(label, reason)),
        }
    }
}

fn line(action: &Action, unit: &UnitOutcome) -> String {
    let rule = &action.rationale.rule_id;
    let reasons = || action.rationale.reasons.join("; ");
    match (action.action, &action.target_ids[..]) {
        (ActionType::Merge, [survivor, absorbed @ ..]) => {
            log_lines::merge(survivor, absorbed, rule)
        }
        (ActionType::Promote, [id, ..]) => {
            let from = unit.importance_before.unwrap_or(IMPORTANCE_DEFAULT);
            log_lines::promote(id, from, action.new_importance.unwrap_or(from), rule)
        }
        (ActionType::Archive, [id, ..]) => log_lines::archive(id, &reasons(), rule),
        (ActionType::FlagContradiction, [a, b, ..]) => {
            log_lines::contradiction(a, b, &action.rationale.evidence.contradiction_signals)
        }
        (_, _) => log_lines::error("an action without targets"),
    }
}
