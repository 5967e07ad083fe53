//! `memfold prune`: old entries of the journal go.

use memfold::machine;
use std::path::PathBuf;

use clap::{self, Args};
use memfold_model::text::excerpt;
use memfold_plan::report::{Mode, run_id};
use memfold_store::upkeep::{Pruned, UpkeepRun, preview_prune, prune};
use serde::Serialize;

use crate::args::{Age, GlobalArgs, WritingArgs, age};
use crate::context::open_store;
use crate::failure::{Exit, Failure};
use crate::printer::{Printer, documents, table};
use crate::settings::{self, Settings};
use crate::writing;

const NAME_CHARS: usize = 60;

documents! { "prune" => PruneDocument }

/// `memfold prune`
#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    pub(crate) db: PathBuf,
    /// Remove what is older: hours, days or weeks (24h, 90d, 12w)
    #[arg(long, value_name = "AGE", value_parser = age)]
    pub(crate) journal_older_than: Age,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
}

/// `memfold prune --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PruneDocument {
    schema_version: u32,
    mode: Mode,
    /// `null` for a dry run.
    run_id: Option<String>,
    #[serde(flatten)]
    pruned: Pruned,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &PruneArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    let wanted = (args.writing.execute, args.writing.dry_run);
    let (run_id, pruned) = if writing::may_write(&settings, wanted, printer) {
        let (run_id, pruned) = remove(args, &settings)?;
        (Some(run_id), pruned)
    } else {
        (None, look(args, &settings)?)
    };
    if global.json {
        let mode = Mode::of(run_id.is_some());
        printer.document(&PruneDocument { schema_version: 1, mode, run_id, pruned })?;
        return Ok(Exit::Done);
    }
    printer.data(&told(&pruned, run_id.is_some()))?;
    if run_id.is_none() {
        printer.note("dry run: nothing was written to the store");
    }
    Ok(Exit::Done)
}

fn look(args: &PruneArgs, settings: &Settings) -> Result<Pruned, Failure> {
    let store = open_store(&args.db, settings)?;
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.writing.now.as_deref(), &time_zone)?;
    let before = args.journal_older_than.before(now);
    preview_prune(&store, before, &time_zone)
        .map_err(|error| writing::session_failure("prune", &error))
}

fn remove(args: &PruneArgs, settings: &Settings) -> Result<(String, Pruned), Failure> {
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.writing.now.as_deref(), &time_zone)?;
    let session = writing::open_session(&args.db, settings)?;
    let store_id = session.store_id().map_err(|error| writing::session_failure("prune", &error))?;
    let run = UpkeepRun {
        run_id: &run_id(&store_id, now, "prune"),
        now,
        time_zone: &time_zone,
        holder: &machine::holder(),
    };
    let before = args.journal_older_than.before(now);
    prune(&session, before, &run).map_err(|error| writing::session_failure("prune", &error))
}

fn told(pruned: &Pruned, is_done: bool) -> String {
    if pruned.is_empty() {
        return "nothing is that old\n".to_owned();
    }
    let mut text = String::new();
    if !pruned.runs.is_empty() {
        let rows = pruned.runs.iter().map(|run| {
            vec![
                excerpt(&run.run_id, NAME_CHARS),
                run.units.to_string(),
                run.entries.to_string(),
                run.no_longer_undoable.to_string(),
            ]
        });
        text.push_str(&table(&["run", "units", "entries", "no longer undoable"], rows.collect()));
    }
    if !pruned.plans.is_empty() {
        let count = pruned.plans.len();
        let plans = writing::noun(count as u64, "plan that was", "plans that were");
        text.push_str(&format!("{count} {plans} never applied\n"));
    }
    let end = if is_done { "removed" } else { "would be removed; this cannot be undone" };
    text.push_str(&format!("{end}; lineage, archive and decisions stay\n"));
    text
}
