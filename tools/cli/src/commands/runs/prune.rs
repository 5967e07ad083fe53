//! `memfold runs --prune-older-than`: removes old entries of the journal.

use memfold::ops::{self, Settings};
use memfold_guard::text::excerpt;
use memfold_store::upkeep::Pruned;

use super::RunsArgs;
use crate::call::Call;
use crate::failure::{Exit, Failure};
use crate::printer::table;
use crate::writing;

const NAME_CHARS: usize = 60;

/// Removes entries older than an age, or tells which it would remove.
pub(super) fn run(
    call: Call<'_>,
    args: &RunsArgs,
    age_us: i64,
    settings: &Settings,
) -> Result<Exit, Failure> {
    let (now, writes) = (args.writing.now.as_deref(), call.may_write(settings, &args.writing));
    let found = ops::prune(&args.db, settings, age_us, now, writes)?;
    call.show_run(writes, &found, || told(&found.pruned, writes))
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
