//! `memfold consolidate`: detect → plan → report → execute. A dry run unless `--execute`.

mod args;
mod budget;
mod table;
pub(crate) mod texts;

use memfold::execute::Execution;
use memfold::ops::{self, ConsolidateDocument, Consolidated, is_text_file, log_ended};
use memfold_core::report::{Commands, Report, screen};
use memfold_core::runs::RunState;

use self::args::commands;
use self::budget::Budget;
use crate::args::GlobalArgs;
use crate::call::Call;
use crate::failure::{Exit, Failure};
use crate::outputs::Outputs;
use crate::printer::{self};
use crate::progress::Bars;
use crate::writing::{self, Words, path_word};

pub(crate) use self::args::ConsolidateArgs;

pub(crate) fn run(call: Call<'_>, args: &ConsolidateArgs) -> Result<Exit, Failure> {
    if is_text_file(&args.db) {
        return texts::run(call, args);
    }
    if let Some(output) = &args.output {
        return Err(Failure::usage(
            format!("--output {}: {} is no file of texts", output.display(), args.db.display()),
            "a store is changed in place: leave --output out",
        ));
    }
    writing::log_failed(consolidate_store(call, args), call.printer)
}

fn consolidate_store(call: Call<'_>, args: &ConsolidateArgs) -> Result<Exit, Failure> {
    let bars = Bars::new(call.printer);
    let budget = Budget::of(args)?;
    let outputs = Outputs::beside(call.global.sources.config.as_deref()).and_store(&args.db);
    writing::check_files(&args.request.files, outputs)?;
    let (sources, threads) = (&call.global.sources, call.global.threads);
    let mut done = ops::consolidate(sources, &args.db, &args.request, threads, &bars)?;
    let lines = budget.as_ref().map(|budget| budget.lines(&done.outcome));
    let exit = match done.execution.take() {
        Some(execution) => {
            // The run stands, even if nothing more can be written about it.
            let shown = show(call, args, &done, Some(&execution));
            done.written.failures.extend(shown.err());
            writing::end_run(&execution, &done.written, &args.db, call.printer)
        }
        None => {
            args.table.write(&args.db, &done.outcome.plan, &call.printer)?;
            end_plan(call, args, done)?
        }
    };
    lines.transpose()?.iter().flatten().for_each(|line| call.printer.note(line));
    Ok(exit)
}

/// Ends a run that only planned.
fn end_plan(
    call: Call<'_>,
    args: &ConsolidateArgs,
    mut done: Consolidated,
) -> Result<Exit, Failure> {
    if !done.written.failures.is_empty() {
        return Err(done.written.failures.swap_remove(0));
    }
    show(call, args, &done, None)?;
    let report = &done.outcome.report;
    writing::tell_written(&done.written, &args.db, &report.run_id, call.printer);
    log_ended(RunState::Done, report.executed, 0, true, &call.printer);
    let pending = args.exit_code && done.outcome.plan.changes() > 0;
    Ok(if pending { Exit::ChangesPending } else { Exit::Done })
}

fn show(
    call: Call<'_>,
    args: &ConsolidateArgs,
    done: &Consolidated,
    execution: Option<&Execution>,
) -> Result<(), Failure> {
    let report = &done.outcome.report;
    if call.global.json {
        return call.printer.document(&ConsolidateDocument::of(report));
    }
    let commands = next(call.global, args, done.saved_as.as_deref(), report);
    let shown = call.printer.data(&screen(report, &commands));
    match execution {
        Some(execution) => {
            let further = args.to_go_on(call.global).into_vec();
            ops::note_execution(&args.db, &further, execution, &call.printer);
        }
        None if done.saved_as.is_some() => {
            call.printer.note("no memory was changed: the plan waits for review");
        }
        None => call.printer.note("dry run: nothing was written to the store"),
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
            let config = global.sources.config.as_deref();
            commands.next.extend(Words::default().path("--config", config).into_vec());
            commands
        }
        None => commands(global, args, report),
    };
    Commands { is_wrapped: printer::is_terminal(), ..commands }
}
