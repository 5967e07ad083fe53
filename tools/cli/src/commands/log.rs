//! What a run tells a log: lines on stderr with `--verbose`.

use std::path::Path;

use memfold_pipeline::execute::{Execution, UnitOutcome, UnitResult};
use memfold_pipeline::plan::{Action, ActionType};
use memfold_pipeline::report::{Report, log_lines};

use crate::printer::Printer;

/// Importance where a store holds none.
const IMPORTANCE_DEFAULT: f64 = 1.0;

/// Tells what was found and planned.
pub(crate) fn planned(report: &Report, printer: Printer) {
    printer.detail(&log_lines::start(&report.run_id, report.mode, &report.config_hash));
    printer.detail(&log_lines::detect(&report.detected));
    printer.detail(&log_lines::plan(&report.planned));
}

/// Tells where the report is.
pub(crate) fn reported(path: &Path, printer: Printer) {
    printer.detail(&log_lines::report(path));
}

/// Tells what was applied, action by action.
pub(crate) fn executed<'a>(
    execution: &Execution,
    action: impl Fn(usize) -> Option<&'a Action>,
    printer: Printer,
) {
    printer.detail(&log_lines::execute());
    let applied = execution.outcomes.iter().filter(|unit| unit.result == UnitResult::Applied);
    for unit in applied {
        for action in unit.positions.iter().filter_map(|&position| action(position)) {
            printer.detail(&line(action, unit));
        }
    }
    printer.detail(&log_lines::done(execution.executed));
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
