//! `memfold undo`: what a run did is taken back, whole or in part.

use std::path::Path;

use memfold_pipeline::execute::{Undo, UndoOutcome, UndoRequest, UndoTarget, preview_undo, undo};
use memfold_pipeline::journal::RevertOptions;
use memfold_pipeline::memory::MemoryId;
use memfold_pipeline::report::run_id;
use memfold_pipeline::text::excerpt;
use serde_json::json;

use crate::args::{GlobalArgs, UndoArgs};
use crate::commands::consolidate::{exit_of, open_store};
use crate::commands::writing;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::resources::Stopwatch;
use crate::settings::{self, Settings};

/// Units that are listed one by one.
const SHOWN: usize = 20;
/// Memories of a unit that are listed.
const IDS_SHOWN: usize = 3;
const TEXT_CHARS: usize = 160;

pub(crate) fn run(global: &GlobalArgs, args: &UndoArgs, printer: Printer) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    let target = target(args);
    let options = RevertOptions { force: args.force, recreate: args.recreate };
    if writing::may_write(&settings, (args.execute, args.dry_run), printer) {
        let undone = take_back(args, &settings, (&target, options), printer)?;
        if global.json {
            printer.json(&undone_json(&undone))?;
        } else {
            printer.data(&undone_text(&args.db, &undone))?;
        }
        return Ok(exit_of(undone.state));
    }
    let store = open_store(&args.db, &settings)?;
    let outcomes =
        preview_undo(&store, &target, options).map_err(|error| writing::undo_failure(&error))?;
    if global.json {
        printer.json(&json!({
            "schema_version": 1,
            "mode": "dry_run",
            "target": target.to_string(),
            "units": outcomes.iter().map(unit_json).collect::<Vec<_>>(),
        }))?;
    } else {
        printer.data(&preview_text(args, &outcomes))?;
        printer.note("dry run: nothing was written to the store");
    }
    Ok(Exit::Done)
}

fn target(args: &UndoArgs) -> UndoTarget {
    match (&args.memory, &args.action, &args.run) {
        (Some(id), ..) => UndoTarget::Memory(MemoryId::new(id.as_str())),
        (None, Some(label), run) => {
            UndoTarget::Action { run_id: run.clone(), label: label.clone() }
        }
        (None, None, run) => UndoTarget::Run(run.clone().unwrap_or_default()),
    }
}

fn take_back(
    args: &UndoArgs,
    settings: &Settings,
    (target, options): (&UndoTarget, RevertOptions),
    printer: Printer,
) -> Result<Undo, Failure> {
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.now.as_deref(), &time_zone)?;
    let session = writing::open_session(&args.db, settings)?;
    let store_id =
        session.store_id().map_err(|error| writing::session_failure("read the store", &error))?;
    let stopwatch = Stopwatch::start();
    undo(
        &session,
        &UndoRequest {
            target,
            options,
            remerge_ok: args.remerge_ok,
            run_id: &run_id(&store_id, now, "undo"),
            now,
            time_zone: &time_zone,
            holder: &settings::holder(),
            progress: &Bars::new(printer),
            clock: &|| stopwatch.seconds(),
        },
    )
    .map_err(|error| writing::undo_failure(&error))
}

fn undone_json(undone: &Undo) -> serde_json::Value {
    json!({
        "schema_version": 1,
        "mode": "execute",
        "run_id": undone.run_id,
        "state": undone.state.name(),
        "executed": undone.executed,
        "remaining": undone.remaining,
        "units": undone.outcomes.iter().map(unit_json).collect::<Vec<_>>(),
    })
}

fn unit_json(outcome: &UndoOutcome) -> serde_json::Value {
    json!({
        "run_id": outcome.unit.0,
        "unit": outcome.unit.1,
        "what": outcome.what,
        "ids": outcome.ids,
        "conflicts": outcome.conflicts,
        "remedies": outcome.remedies,
    })
}

fn undone_text(store: &Path, undone: &Undo) -> String {
    let store = store.to_string_lossy();
    let words = ["memfold", "undo", &store, &undone.run_id, "--execute"];
    let mut text = format!(
        "{} units taken back by run {}, {} left as they are\n",
        undone.executed.applied,
        undone.run_id,
        undone.executed.stale + undone.executed.failed
    );
    text.push_str(&conflicts(&undone.outcomes));
    if undone.remaining > 0 {
        text.push_str(&format!("{} units were not tried; run undo again\n", undone.remaining));
    }
    if undone.executed.applied > 0 {
        text.push_str(&format!("to take the undo back: {}\n", writing::command_line(&words)));
    }
    text
}

fn preview_text(args: &UndoArgs, outcomes: &[UndoOutcome]) -> String {
    let free = outcomes.iter().filter(|outcome| outcome.conflicts.is_empty());
    let count = free.clone().count();
    let mut text =
        format!("{count} units would be taken back, {} cannot\n", outcomes.len() - count);
    for outcome in free.take(SHOWN) {
        text.push_str(&format!("  {}\n", described(outcome)));
    }
    if count > SHOWN {
        text.push_str(&format!("  and {} more\n", count - SHOWN));
    }
    text.push_str(&conflicts(outcomes));
    if count > 0 {
        text.push_str(&format!("next: {}\n", command(args)));
    }
    text
}

/// The same command, writing.
fn command(args: &UndoArgs) -> String {
    let store = args.db.to_string_lossy();
    let mut words = vec!["memfold", "undo", &store];
    words.extend(args.run.as_deref());
    for (flag, value) in [("--action", &args.action), ("--memory", &args.memory)] {
        words.extend(value.iter().flat_map(|value| [flag, value.as_str()]));
    }
    for (flag, given) in
        [("--force", args.force), ("--recreate", args.recreate), ("--remerge-ok", args.remerge_ok)]
    {
        words.extend(given.then_some(flag));
    }
    words.push("--execute");
    writing::command_line(&words)
}

fn described(outcome: &UndoOutcome) -> String {
    let ids: Vec<String> =
        outcome.ids.iter().take(IDS_SHOWN).map(|id| excerpt(id.as_str(), TEXT_CHARS)).collect();
    let more = outcome.ids.len().saturating_sub(IDS_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}: {}{more}", outcome.what, ids.join(", "))
}

fn conflicts(outcomes: &[UndoOutcome]) -> String {
    let left: Vec<_> = outcomes.iter().filter(|outcome| !outcome.conflicts.is_empty()).collect();
    let mut text = String::new();
    for outcome in left.iter().take(SHOWN) {
        text.push_str(&format!("  left as it is: {}\n", described(outcome)));
        for conflict in outcome.conflicts.iter().take(IDS_SHOWN) {
            text.push_str(&format!("    {}\n", excerpt(conflict, TEXT_CHARS)));
        }
        if !outcome.remedies.is_empty() {
            text.push_str(&format!("    {} gets past it\n", outcome.remedies.join(" ")));
        }
    }
    if left.len() > SHOWN {
        text.push_str(&format!("  and {} more left as they are\n", left.len() - SHOWN));
    }
    text
}
