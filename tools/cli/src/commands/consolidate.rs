//! `memfold consolidate`: detect → plan → report → execute. A dry run unless `--execute`.

mod args;
mod budget;
mod table;
pub(crate) mod texts;

use memfold::execute::Execution;
use memfold::ops::{self, ConsolidateDocument, Consolidated, is_text_file, log_ended};
use memfold_core::report::{Commands, Report, screen};
use memfold_core::runs::RunState;

use self::args::{commands, without_set};
use self::budget::Budget;
use crate::args::GlobalArgs;
use crate::failure::{Exit, Failure};
use crate::outputs::Outputs;
use crate::printer::{self, Printer};
use crate::progress::Bars;
use crate::writing::{self, global_words, path_word};

pub(crate) use self::args::ConsolidateArgs;

pub(crate) fn run(
    global: &GlobalArgs,
    args: &ConsolidateArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    if is_text_file(&args.db) {
        return texts::run(global, args, printer);
    }
    if let Some(output) = &args.output {
        return Err(Failure::usage(
            format!("--output {}: {} is no file of texts", output.display(), args.db.display()),
            "a store is changed in place: leave --output out",
        ));
    }
    writing::log_failed(consolidate_store(global, args, printer), printer)
}

fn consolidate_store(
    global: &GlobalArgs,
    args: &ConsolidateArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let bars = Bars::new(printer);
    let budget = Budget::of(args)?;
    let outputs = Outputs::beside(global.config.as_deref()).and_store(&args.db);
    writing::check_files(&args.files(), outputs)?;
    let scope = args.scope();
    let mut done = ops::consolidate(&global.sources(), &args.request(&scope, global), &bars)?;
    let lines = budget.as_ref().map(|budget| budget.lines(&done.outcome));
    let exit = match done.execution.take() {
        Some(execution) => {
            // The run stands, even if nothing more can be written about it.
            let shown = show(global, args, &done, Some(&execution), printer);
            done.written.failures.extend(shown.err());
            writing::end_run(&execution, &done.written, &args.db, printer)
        }
        None => {
            args.table.write(&args.db, &done.outcome.plan, &printer)?;
            end_plan(global, args, done, printer)?
        }
    };
    lines.transpose()?.iter().flatten().for_each(|line| printer.note(line));
    Ok(exit)
}

/// Ends a run that only planned.
fn end_plan(
    global: &GlobalArgs,
    args: &ConsolidateArgs,
    mut done: Consolidated,
    printer: Printer,
) -> Result<Exit, Failure> {
    if !done.written.failures.is_empty() {
        return Err(done.written.failures.swap_remove(0));
    }
    show(global, args, &done, None, printer)?;
    let report = &done.outcome.report;
    writing::tell_written(&done.written, &args.db, &report.run_id, printer);
    log_ended(RunState::Done, report.executed, 0, true, &printer);
    let pending = args.exit_code && done.outcome.plan.changes() > 0;
    Ok(if pending { Exit::ChangesPending } else { Exit::Done })
}

fn show(
    global: &GlobalArgs,
    args: &ConsolidateArgs,
    done: &Consolidated,
    execution: Option<&Execution>,
    printer: Printer,
) -> Result<(), Failure> {
    let report = &done.outcome.report;
    if global.json {
        return printer.document(&ConsolidateDocument::of(report));
    }
    let commands = next(global, args, done.saved_as.as_deref(), report);
    let shown = printer.data(&screen(report, &commands));
    match execution {
        Some(execution) => {
            let further = args.to_go_on(global).into_vec();
            ops::note_execution(&args.db, &further, execution, &printer);
        }
        None if done.saved_as.is_some() => {
            printer.note("no memory was changed: the plan waits for review");
        }
        None => printer.note("dry run: nothing was written to the store"),
    }
    shown
}

/// The next step: review the saved plan, or execute it.
fn next(
    global: &GlobalArgs,
    args: &ConsolidateArgs,
    saved_as: Option<&str>,
    report: &Report,
) -> Commands {
    let commands = match saved_as {
        Some(plan_id) => {
            let mut commands = Commands::review(&path_word(args.db.named()), plan_id);
            commands.next.extend(global_words(&without_set(global)));
            commands
        }
        None => commands(global, args, report),
    };
    Commands { is_folded: printer::is_terminal(), ..commands }
}
