//! `memfold runs`: the history of a store, run by run and unit by unit; saved plans; the journal's
//! size.

pub(crate) mod plans;
mod prune;

use clap::{self, Args, ValueHint};
use memfold::audit::{Findings, Subject};
use memfold::ops::{RunDocument, RunsDocument, StorePath, find_run};
use memfold_core::runs::{ChainBreak, RunHistory, RunSummary, UnitSummary};
use memfold_guard::text::excerpt;

use crate::args::{WritingArgs, age_us, store_path};
use crate::call::Call;
use crate::commands::audit::said;
use crate::context::open_store;
use crate::failure::{Exit, Failure};
use crate::printer::table;
use crate::writing::counted;

/// Maximum characters of names and times.
const NAME_CHARS: usize = 60;
/// Characters of a list of memories or actions.
const LIST_CHARS: usize = 200;
/// Ids and actions that a line shows.
const LISTED_MAX: usize = 3;

/// `memfold runs`
#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    #[arg(value_parser = store_path(), value_hint = ValueHint::AnyPath)]
    pub(crate) db: StorePath,
    /// Show what this run did, or with --plans the actions of this plan: its id, how that begins, or
    /// `latest`
    #[arg(value_name = "RUN|PLAN")]
    pub(crate) run: Option<String>,
    /// List the saved plans instead
    #[arg(long, conflicts_with = "prune_older_than")]
    pub(crate) plans: bool,
    /// Remove older entries of the journal: hours, days or weeks (24h, 90d, 12w); what they say can
    /// no longer be undone (dry run unless --execute)
    #[arg(long, value_name = "AGE", value_parser = age_us, conflicts_with = "run")]
    pub(crate) prune_older_than: Option<i64>,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
}

pub(crate) fn run(call: Call<'_>, args: &RunsArgs) -> Result<Exit, Failure> {
    let settings = call.settings(&args.db)?;
    if let Some(age_us) = args.prune_older_than {
        return prune::run(call, args, age_us, &settings);
    }
    if args.writing.execute {
        return Err(Failure::usage(
            "--execute without --prune-older-than",
            "leave it out: listing writes nothing",
        ));
    }
    let store = open_store(&args.db, &settings)?;
    if args.plans {
        return plans::run(call, &store, args.run.as_deref());
    }
    let history = store.runs().map_err(|error| Failure::of("read the runs", &error))?;
    match &args.run {
        None => call.show(&RunsDocument::of(&history), || history_text(&history)),
        Some(wanted) => {
            let run = find_run(&history, wanted)?;
            let units = store.units(&run.run_id);
            let units = units.map_err(|error| Failure::of("read the units", &error))?;
            call.show(&RunDocument::of(run, &units), || run_text(&history, run, &units))
        }
    }
}

fn history_text(history: &RunHistory) -> String {
    if history.runs.is_empty() {
        return "no run has written to this store yet\n".to_owned();
    }
    let header = ["run", "kind", "state", "units", "undone", "plan"];
    let mut text = table(&header, history.runs.iter().map(run_row).collect());
    text.push_str("\nunits: applied/stale/failed; of an audit: right/not sure/wrong\n");
    text.push_str("undone: of units that are still known\n");
    text.push_str(&chain_line(history.chain_break.as_ref()));
    text
}

fn run_text(history: &RunHistory, run: &RunSummary, units: &[UnitSummary]) -> String {
    let mut text = heading(run);
    let audits = history.runs.iter().filter(|other| other.target.as_deref() == Some(&run.run_id));
    for audit in audits {
        let Some(findings) = Findings::of_run(audit) else { continue };
        let refused = Subject::of_run(audit) == Some(Subject::RefusedPairs);
        let about = if refused { "audit of refused pairs" } else { "audit" };
        text.push_str(&format!("{about}: {}\n", said(&findings)));
    }
    if units.is_empty() {
        text.push_str("no units: it changed nothing, or they were pruned\n");
    } else {
        let header = ["unit", "actions", "state", "rows", "memories"];
        text.push_str(&table(&header, units.iter().map(unit_row).collect()));
    }
    text
}

fn shown(text: &str) -> String {
    excerpt(text, NAME_CHARS)
}

fn run_row(run: &RunSummary) -> Vec<String> {
    let undone =
        if run.units == 0 { "-".to_owned() } else { format!("{}/{}", run.undone, run.units) };
    vec![
        shown(&run.run_id),
        shown(&run.kind),
        shown(&run.state),
        format!("{}/{}/{}", run.executed.applied, run.executed.stale, run.executed.failed),
        undone,
        run.plan_id.as_deref().map(shown).unwrap_or_default(),
    ]
}

fn heading(run: &RunSummary) -> String {
    let mut text = format!("{} {} {}\n", shown(&run.run_id), shown(&run.kind), shown(&run.state));
    let mut line = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            text.push_str(&format!("{name}: {}\n", shown(value)));
        }
    };
    line("started", Some(&run.started_at));
    line("finished", run.finished_at.as_deref());
    line("by", Some(&run.holder));
    line("plan", run.plan_id.as_deref());
    line("asked for", run.target.as_deref());
    if let Some(findings) = Findings::of_run(run) {
        text.push_str(&format!("{}\n", said(&findings)));
        return text;
    }
    let counts = run.executed;
    text.push_str(&format!(
        "{} applied, {} stale, {} failed; {} of {} undone\n\n",
        counts.applied,
        counts.stale,
        counts.failed,
        run.undone,
        counted(run.units, "unit", "units")
    ));
    text
}

fn unit_row(unit: &UnitSummary) -> Vec<String> {
    let mut actions = unit.actions.clone();
    if let Some(reverted) = &unit.reverts {
        actions.push(format!("takes back unit {} of {}", reverted.unit, reverted.run_id));
    }
    let state = match &unit.undone_by {
        Some(run_id) => format!("{} by {}", shown(&unit.state), shown(run_id)),
        None => shown(&unit.state),
    };
    vec![
        unit.unit.to_string(),
        few(&actions),
        state,
        unit.memories.len().to_string(),
        few(&unit.memories),
    ]
}

fn few(items: &[String]) -> String {
    let mut text = items.iter().take(LISTED_MAX).map(|item| shown(item)).collect::<Vec<_>>();
    if items.len() > LISTED_MAX {
        text.push(format!("and {} more", items.len() - LISTED_MAX));
    }
    excerpt(&text.join(", "), LIST_CHARS)
}

fn chain_line(chain_break: Option<&ChainBreak>) -> String {
    match chain_break {
        None => "audit chain: holds\n".to_owned(),
        Some(ChainBreak { run_id, .. }) => format!(
            "audit chain: BROKEN at {}: a run before it was changed, added or removed\n",
            shown(run_id)
        ),
    }
}
