//! `memfold undo`: undoes a run, whole or in part; archived memories live again.

mod restore;

use clap::{self, Args, ValueHint};
use memfold::execute::{Undo, UndoOutcome, UndoTarget};
use memfold::ops::{self, StorePath, UndoDocument, UndoRequest};
use memfold_guard::text::excerpt;

use crate::args::{GlobalArgs, WritingArgs, store_path};
use crate::call::Call;
use crate::failure::{Exit, Failure};
use crate::progress::Bars;
use crate::writing::{self, Words, counted, few};

/// Units that are listed one by one.
const SHOWN: usize = 20;
/// Memories of a unit that are listed.
const IDS_SHOWN: usize = 3;
const TEXT_CHARS: usize = 160;

/// `memfold undo`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("target").args(["run", "action", "memory", "archived"]).required(true).multiple(true))]
pub(crate) struct UndoArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    #[arg(value_parser = store_path(), value_hint = ValueHint::AnyPath)]
    pub(crate) db: StorePath,
    #[command(flatten)]
    pub(crate) request: UndoRequest,
    /// List archived memories worth a look: edited since, or their survivor is gone
    #[arg(long, conflicts_with_all = ["run", "action", "memory", "execute"])]
    pub(crate) archived: bool,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
}

pub(crate) fn run(call: Call<'_>, args: &UndoArgs) -> Result<Exit, Failure> {
    let settings = call.settings(&args.db)?;
    let (request, now) = (&args.request, args.writing.now.as_deref());
    if args.archived {
        let found = ops::archived_memories(&args.db, &settings, now)?;
        return call.show(&found, || restore::listed(args, &found.candidates));
    }
    let target = request.target(&args.db, &settings)?;
    let writes = call.may_write(&settings, &args.writing);
    if let UndoTarget::Memory(id) = &target
        && ops::is_archived(&args.db, &settings, id, now)?
    {
        let restored = ops::restore_memory(&args.db, &settings, id, now, writes)?;
        return restore::show(call, args, &restored);
    }
    if writes {
        let bars = Bars::new(call.printer);
        let undone = ops::undo(&args.db, &settings, &target, request, now, &bars)?;
        call.show(&UndoDocument::of_run(&target, &undone), || undone_text(args, &undone))?;
        return Ok(undone.state.into());
    }
    let outcomes = ops::preview_undone(&args.db, &settings, &target, request.options())?;
    call.show_run(false, &UndoDocument::of_preview(&target, &outcomes), || {
        preview_text(call.global, args, &target, &outcomes)
    })
}

/// Why a later plan lacks undone merges.
const KEPT_APART: &str = "what was undone is kept apart from now on; to allow it again: memfold consolidate \
                          --again, or take the undo back and undo with --remerge-ok\n";

fn undone_text(args: &UndoArgs, undone: &Undo) -> String {
    let left = undone.executed.stale + undone.executed.failed;
    let mut text = format!(
        "{} undone by run {}, {left} left as {}\n",
        counted(undone.executed.applied, "unit", "units"),
        undone.run_id,
        if left == 1 { "it is" } else { "they are" }
    );
    text.push_str(&conflicts(&undone.outcomes));
    if undone.remaining > 0 {
        let (count, were) = match undone.remaining {
            1 => ("1 unit".to_owned(), "was"),
            many => (format!("{many} units"), "were"),
        };
        text.push_str(&format!("{count} {were} not tried; run undo again\n"));
    }
    if undone.executed.applied > 0 && !args.request.remerge_ok {
        text.push_str(KEPT_APART);
    }
    if undone.executed.applied > 0 {
        let undo = writing::undo_words(&args.db, &undone.run_id);
        text.push_str(&format!("to take the undo back: {undo}\n"));
    }
    text
}

fn preview_text(
    global: &GlobalArgs,
    args: &UndoArgs,
    target: &UndoTarget,
    outcomes: &[UndoOutcome],
) -> String {
    let free = outcomes.iter().filter(|outcome| outcome.conflicts.is_empty());
    let count = free.clone().count();
    let mut text = format!(
        "{} would be undone, {} cannot\n",
        counted(count as u64, "unit", "units"),
        outcomes.len() - count
    );
    for outcome in free.take(SHOWN) {
        text.push_str(&format!("  {}\n", described(outcome)));
    }
    if count > SHOWN {
        text.push_str(&format!("  and {} more\n", count - SHOWN));
    }
    text.push_str(&conflicts(outcomes));
    if count > 0 && !args.request.remerge_ok {
        text.push_str("later runs keep these apart; --remerge-ok lets them merge these again\n");
    }
    if count > 0 {
        text.push_str(&format!("next: {}\n", command(global, args, target)));
    }
    text
}

/// The same command, writing, with the run that `latest` stands for.
fn command(global: &GlobalArgs, args: &UndoArgs, target: &UndoTarget) -> String {
    let run = match target {
        UndoTarget::Run(run) => Some(run),
        UndoTarget::Action { run_id, .. } => run_id.as_ref(),
        UndoTarget::Memory(_) => None,
    };
    let UndoRequest { action, memory, force, recreate, remerge_ok, .. } = &args.request;
    run.into_iter()
        .fold(Words::default(), |words, run| words.word(run))
        .values("--action", action)
        .values("--memory", memory)
        .flag("--force", *force)
        .flag("--recreate", *recreate)
        .flag("--remerge-ok", *remerge_ok)
        .values("--now", &args.writing.now)
        .word("--execute")
        .global(global)
        .command("undo", &args.db)
}

fn described(outcome: &UndoOutcome) -> String {
    let ids = outcome.ids.iter().map(|id| excerpt(id.as_str(), TEXT_CHARS));
    format!("{}: {}", outcome.what, few(&ids.collect::<Vec<_>>(), IDS_SHOWN))
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
