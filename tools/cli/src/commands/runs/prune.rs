//! `memfold runs --prune-older-than`: removes old entries of the journal.

use memfold::machine;
use memfold::ops::{self, Settings};
use memfold_core::report::{Mode, run_id};
use memfold_guard::text::excerpt;
use memfold_store::upkeep::{Pruned, UpkeepRun, preview_prune, prune};
use serde::Serialize;

use super::RunsArgs;
use crate::args::Age;
use crate::call::Call;
use crate::context::open_store;
use crate::failure::{Exit, Failure};
use crate::printer::table;
use crate::writing;

const NAME_CHARS: usize = 60;

/// `memfold runs STORE --prune-older-than AGE --json`
#[derive(Debug, Serialize)]
struct PruneDocument {
    schema_version: u32,
    mode: Mode,
    /// `null` for a dry run.
    run_id: Option<String>,
    #[serde(flatten)]
    pruned: Pruned,
}

/// Removes entries older than `age`, or tells which it would remove.
pub(super) fn run(
    call: Call<'_>,
    args: &RunsArgs,
    age: Age,
    settings: &Settings,
) -> Result<Exit, Failure> {
    let time_zone = settings.time_zone()?;
    let now = ops::now(args.writing.now.as_deref(), &time_zone)?;
    let before = age.before(now);
    let failed = |error| Failure::of("prune", &error);
    let (run_id, pruned) = if call.may_write(settings, &args.writing) {
        let session = writing::open_session(&args.db, settings)?;
        let store_id = session.store_id().map_err(failed)?;
        let run = UpkeepRun {
            run_id: &run_id(&store_id, now, "prune"),
            now,
            time_zone: &time_zone,
            holder: &machine::holder(),
        };
        let (run_id, pruned) = prune(&session, before, &run).map_err(failed)?;
        (Some(run_id), pruned)
    } else {
        let store = open_store(&args.db, settings)?;
        (None, preview_prune(&store, before, &time_zone).map_err(failed)?)
    };
    let has_run = run_id.is_some();
    let document = PruneDocument { schema_version: 1, mode: Mode::of(has_run), run_id, pruned };
    call.show_run(has_run, &document, || told(&document.pruned, has_run))
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
