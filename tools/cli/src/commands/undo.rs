//! `memfold undo`: what a run did is taken back, whole or in part; archived memories live again.

mod restore;

use std::path::{Path, PathBuf};

use clap::{self, Args};
use memfold::execute::{
    ExecuteError, Undo, UndoOutcome, UndoRequest, UndoTarget, forbidden_by, preview_undo, undo,
};
use memfold::machine::{self, Stopwatch};
use memfold_core::memory::MemoryId;
use memfold_core::report::{Executed, Mode, run_id};
use memfold_core::runs::RunKind;
use memfold_guard::text::excerpt;
use memfold_store::journal::RevertOptions;
use serde::Serialize;

use crate::args::{GlobalArgs, IndexPlaceArgs};
use crate::context::{self, open_store};
use crate::failure::{Exit, Failure};
use crate::printer::{Printer, documents};
use crate::progress::Bars;
use crate::settings::{self, Settings};
use crate::writing::{self, counted, exit_of};

/// Units that are listed one by one.
const SHOWN: usize = 20;
/// Memories of a unit that are listed.
const IDS_SHOWN: usize = 3;
const TEXT_CHARS: usize = 160;
/// The name of the last run.
const LATEST: &str = "latest";

documents! { "undo" => UndoDocument<'_> }

/// `memfold undo`
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("target").args(["run", "action", "memory", "archived"]).required(true).multiple(true))]
pub struct UndoArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    pub db: PathBuf,
    /// The run to take back, as `memfold runs` lists it; latest is the last one that is no save and
    /// no undo, and still has something to take back
    #[arg(conflicts_with = "memory")]
    pub run: Option<String>,
    /// Only the unit with this action (a17): of RUN, or of the last run that applied one
    #[arg(long, value_name = "A", conflicts_with = "memory")]
    pub action: Option<String>,
    /// Only this memory: an archived one lives again, alone, apart from what it was merged into; of
    /// another, the last unit that changed it is taken back
    #[arg(long, value_name = "ID")]
    pub memory: Option<String>,
    /// List archived memories worth a look: edited since, or their survivor is gone
    #[arg(long, conflicts_with_all = ["run", "action", "memory", "execute"])]
    pub archived: bool,
    /// Also restore memories that were changed since
    #[arg(long)]
    pub force: bool,
    /// Also recreate memories that were deleted since
    #[arg(long)]
    pub recreate: bool,
    /// Allow later runs to merge these again
    #[arg(long)]
    pub remerge_ok: bool,
    /// Write to the store
    #[arg(long)]
    pub execute: bool,
    /// Write nothing; this is the default and wins over --execute
    #[arg(long)]
    pub dry_run: bool,
    /// Write times as if it were this time (RFC 3339) [default: the clock]
    #[arg(long, value_name = "TIME")]
    pub now: Option<String>,
}

/// `memfold undo --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct UndoDocument<'a> {
    schema_version: u32,
    mode: Mode,
    /// What was to be taken back, in words.
    target: String,
    /// The run that took it back; `null` for a dry run.
    run_id: Option<&'a str>,
    /// How that run ended: `done`, `partial`, `interrupted` or `failed`; `null` for a dry run.
    state: Option<&'static str>,
    /// Units that were taken back (applied), or left as they are; `null` for a dry run.
    executed: Option<Executed>,
    /// Units that were not tried; `null` for a dry run.
    remaining: Option<u64>,
    /// What became of each unit, or would.
    units: Vec<UndoneDocument<'a>>,
}

/// A unit that was, or can be, taken back, unless it has conflicts.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct UndoneDocument<'a> {
    /// The run that did it.
    run_id: &'a str,
    /// Its number in that run.
    unit: i64,
    /// What it did, by label and type: `a3 merge`.
    what: &'a str,
    /// The memories it changed, survivors first.
    ids: &'a [MemoryId],
    /// Why it cannot be taken back; empty where it was, or can be.
    conflicts: &'a [String],
    /// Flags of the command line that get past all of the conflicts.
    remedies: &'a [&'static str],
}

pub(crate) fn run(global: &GlobalArgs, args: &UndoArgs, printer: Printer) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    if args.archived {
        restore::list(global, args, &settings, printer)?;
        return Ok(Exit::Done);
    }
    let named = UndoArgs { run: find_run(args, &settings)?, ..args.clone() };
    let args = &named;
    let target = target(args);
    let writes = writing::may_write(&settings, args.execute, args.dry_run, printer);
    if let UndoTarget::Memory(id) = &target {
        let (store, time_zone) = (open_store(&args.db, &settings)?, settings.time_zone()?);
        let now = settings::now(args.now.as_deref(), &time_zone)?;
        if restore::is_archived(&store, id, &time_zone, now)? {
            match writes {
                true => restore::bring_back(global, args, id, &settings, printer)?,
                false => restore::preview(global, args, id, &settings, printer)?,
            }
            return Ok(Exit::Done);
        }
    }
    let options = RevertOptions { force: args.force, recreate: args.recreate };
    if writes {
        let bars = Bars::new(printer);
        let undone = take_back(args, &settings, &target, options, &bars, printer)?;
        if global.json {
            printer.document(&UndoDocument::of_run(&target, &undone))?;
        } else {
            printer.data(&undone_text(&args.db, &undone, args.remerge_ok))?;
        }
        return Ok(exit_of(undone.state));
    }
    let store = open_store(&args.db, &settings)?;
    let outcomes =
        preview_undo(&store, &target, options).map_err(|error| writing::undo_failure(&error))?;
    if global.json {
        printer.document(&UndoDocument::of_preview(&target, &outcomes))?;
    } else {
        printer.data(&preview_text(global, args, &outcomes))?;
        printer.note("dry run: nothing was written to the store");
    }
    Ok(Exit::Done)
}

/// Takes back what a command names, and shows nothing.
///
/// # Errors
/// As `memfold undo --execute`.
pub fn undo_named(
    global: &GlobalArgs,
    args: &UndoArgs,
    bars: &Bars,
    printer: Printer,
) -> Result<(UndoTarget, Undo), Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    if let Some(key) = forbidden_by(&settings.configuration.settings) {
        return Err(writing::undo_failure(&ExecuteError::Forbidden { key }));
    }
    let args = UndoArgs { run: find_run(args, &settings)?, ..args.clone() };
    let target = target(&args);
    let options = RevertOptions { force: args.force, recreate: args.recreate };
    let undone = take_back(&args, &settings, &target, options, bars, printer)?;
    Ok((target, undone))
}

/// The run that was named; `latest` is the last one that is no save and no undo, and that has something to take back.
fn find_run(args: &UndoArgs, settings: &Settings) -> Result<Option<String>, Failure> {
    if args.run.as_deref() != Some(LATEST) {
        return Ok(args.run.clone());
    }
    let history = open_store(&args.db, settings)?.runs().map_err(|error| {
        let hint = error.hint();
        Failure::new("read the runs", &error, hint)
    })?;
    let others = [RunKind::Save, RunKind::Undo].map(RunKind::name);
    let mut runs = history.runs.into_iter().rev();
    let latest = runs.find(|run| run.units > run.undone && !others.contains(&&*run.kind));
    latest.map(|run| Some(run.run_id)).ok_or_else(|| {
        Failure::plain(
            "no run has anything to take back",
            "`memfold runs DB` lists them; saves and undos are taken back by their own ids",
        )
    })
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
    target: &UndoTarget,
    options: RevertOptions,
    bars: &Bars,
    printer: Printer,
) -> Result<Undo, Failure> {
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.now.as_deref(), &time_zone)?;
    let session = writing::open_session(&args.db, settings)?;
    let store_id =
        session.store_id().map_err(|error| writing::session_failure("read the store", &error))?;
    let stopwatch = Stopwatch::start();
    let undone = undo(
        &session,
        &UndoRequest {
            target,
            options,
            remerge_ok: args.remerge_ok,
            run_id: &run_id(&store_id, now, "undo"),
            now,
            time_zone: &time_zone,
            holder: &machine::holder(),
            progress: bars,
            clock: &|| stopwatch.seconds(),
        },
    )
    .map_err(|error| writing::undo_failure(&error))?;
    // The rows look again as they did when they had been searched.
    let place = IndexPlaceArgs { db: args.db.clone(), index_dir: None };
    if let Err(failure) = context::remove_marks(&place) {
        printer.note(&format!("note: {}", failure.message));
    }
    Ok(undone)
}

impl<'a> UndoDocument<'a> {
    /// Takes what an undo did.
    pub fn of_run(target: &UndoTarget, undone: &'a Undo) -> Self {
        Self {
            mode: Mode::Execute,
            run_id: Some(&undone.run_id),
            state: Some(undone.state.name()),
            executed: Some(undone.executed),
            remaining: Some(undone.remaining),
            ..Self::of_preview(target, &undone.outcomes)
        }
    }

    fn of_preview(target: &UndoTarget, outcomes: &'a [UndoOutcome]) -> Self {
        Self {
            schema_version: 1,
            mode: Mode::DryRun,
            target: target.to_string(),
            run_id: None,
            state: None,
            executed: None,
            remaining: None,
            units: outcomes.iter().map(UndoneDocument::of).collect(),
        }
    }
}

impl<'a> UndoneDocument<'a> {
    fn of(outcome: &'a UndoOutcome) -> Self {
        let UndoOutcome { unit: (run_id, unit), what, ids, conflicts, remedies } = outcome;
        Self { run_id, unit: *unit, what, ids, conflicts, remedies }
    }
}

/// Why a later plan lacks what was undone.
const KEPT_APART: &str = "what was undone is kept apart from now on; to allow it again: memfold consolidate \
                          --again, or take the undo back and undo with --remerge-ok\n";

fn undone_text(store: &Path, undone: &Undo, remerge_ok: bool) -> String {
    let left = undone.executed.stale + undone.executed.failed;
    let mut text = format!(
        "{} taken back by run {}, {left} left as {}\n",
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
    if undone.executed.applied > 0 && !remerge_ok {
        text.push_str(KEPT_APART);
    }
    if undone.executed.applied > 0 {
        let after = [&*undone.run_id, "--execute"];
        let undo = writing::store_words(&["memfold", "undo"], store, &after);
        text.push_str(&format!("to take the undo back: {undo}\n"));
    }
    text
}

fn preview_text(global: &GlobalArgs, args: &UndoArgs, outcomes: &[UndoOutcome]) -> String {
    let free = outcomes.iter().filter(|outcome| outcome.conflicts.is_empty());
    let count = free.clone().count();
    let mut text = format!(
        "{} would be taken back, {} cannot\n",
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
    if count > 0 && !args.remerge_ok {
        text.push_str("later runs keep these apart; --remerge-ok lets them merge these again\n");
    }
    if count > 0 {
        text.push_str(&format!("next: {}\n", command(global, args)));
    }
    text
}

/// The same command, writing.
fn command(global: &GlobalArgs, args: &UndoArgs) -> String {
    let mut words: Vec<&str> = Vec::new();
    words.extend(args.run.as_deref());
    for (flag, value) in [("--action", &args.action), ("--memory", &args.memory)] {
        words.extend(value.iter().flat_map(|value| [flag, value.as_str()]));
    }
    for (flag, given) in
        [("--force", args.force), ("--recreate", args.recreate), ("--remerge-ok", args.remerge_ok)]
    {
        words.extend(given.then_some(flag));
    }
    words.extend(args.now.iter().flat_map(|now| ["--now", now]));
    words.push("--execute");
    let further = writing::global_words(global);
    words.extend(writing::strs(&further));
    writing::store_words(&["memfold", "undo"], &args.db, &words)
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
