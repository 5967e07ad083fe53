//! `memfold status`: tiers, flags, plans and runs of a store, and whether a run is due.

mod tiers;

use clap::{self, Args, ValueHint};
use memfold::ops::{self, IndexState, Settings, Status, StorePath, waiting};
use memfold_core::lifecycle::{Tier, due};
use memfold_core::plan::PlanSummary;
use memfold_core::runs::RunSummary;
use memfold_guard::text::excerpt;

use crate::args::{GlobalArgs, store_path};
use crate::failure::{Exit, Failure};
use crate::printer::Printer;
use crate::writing::{counted, noun};

/// Names and times are cut after so many characters.
const NAME_CHARS: usize = 60;

/// `memfold status`
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    #[arg(value_parser = store_path(), value_hint = ValueHint::AnyPath)]
    pub(crate) db: StorePath,
    /// List the memories of a tier instead, most alive first
    #[arg(long, value_name = "TIER", conflicts_with = "exit_code")]
    pub(crate) list: Option<Tier>,
    /// Exit with 0 when a run is due, and print why; with 1 when none is
    #[arg(long)]
    pub(crate) exit_code: bool,
    /// A session has just ended: a run is due where anything is new
    #[arg(long)]
    pub(crate) session_end: bool,
    /// Store the tiers where they changed, and with --verbose print each change; later runs with
    /// --execute then keep them stored
    #[arg(long)]
    pub(crate) store_tiers: bool,
    /// Answer for this time, past or to come (RFC 3339) [default: the clock]
    #[arg(long, value_name = "TIME", visible_alias = "at")]
    pub(crate) now: Option<String>,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &StatusArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(&global.sources(), Some(&args.db), &[])?;
    settings.show_notices(&printer);
    let now = ops::now(args.now.as_deref(), &settings.time_zone()?)?;
    let mut status = ops::status(&args.db, &settings, now, &printer)?;
    if args.session_end {
        status.since.is_session_end = true;
        status.due =
            due(&status.since, now, settings.configuration.settings.lifecycle.new_memories_min);
    }
    if args.store_tiers {
        status.store_tiers(&args.db, &settings, &printer)?;
    }
    let exit = match status.due {
        None if args.exit_code => Exit::Failure,
        _ => Exit::Done,
    };
    if global.json {
        printer.document(&status.document_with(args.list))?;
    } else if let Some(tier) = args.list {
        printer.data(&tiers::list_text(&status.tiers, tier))?;
    } else if !args.exit_code {
        printer.data(&View(&status).screen(printer.is_verbose()))?;
    } else if let Some(reason) = &status.due {
        printer.data(&format!("{reason}\n"))?;
    } else {
        printer.note(&format!("no run is due: {}", View(&status).new_since()));
    }
    Ok(exit)
}

/// A store's state as it is shown.
struct View<'a>(&'a Status);

impl View<'_> {
    fn screen(&self, is_verbose: bool) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| text.push_str(&format!("{name:<9} {value}\n"));
        line("memories", &format!("{} live", self.0.tiers.assignments.len()));
        line("tiers", &self.tiers_line());
        line("flags", &format!("{} open", self.0.open_flags));
        line("plans", &self.plans_line());
        if is_verbose {
            for plan in &self.0.plans {
                line("", &plan_line(plan));
            }
        }
        line("last run", &self.0.runs.last().map_or_else(|| "none".to_owned(), run_line));
        line("index", &self.0.index.map_or_else(|| "none".to_owned(), index_line));
        line("next run", &self.next_line());
        if is_verbose {
            text.push('\n');
            text.push_str(&tiers::distribution(self.0.tiers.counts()));
            text.push_str(&tiers::changes(&self.0.tiers));
        }
        text
    }

    fn new_since(&self) -> String {
        let new = counted(self.0.since.new_memories, "new memory", "new memories");
        format!("{new} since the last run")
    }

    fn tiers_line(&self) -> String {
        let counts = self.0.tiers.counts();
        let parts = Tier::ALL.map(|tier| format!("{tier} {}", counts.of(tier)));
        parts.join(", ")
    }

    fn plans_line(&self) -> String {
        let (proposed, approved) = self
            .0
            .plans
            .iter()
            .map(waiting)
            .fold((0, 0), |sum, plan| (sum.0 + plan.0, sum.1 + plan.1));
        match self.0.plans.len() as u64 {
            0 => "none waits".to_owned(),
            count => format!(
                "{} {}: {proposed} proposed, {approved} approved actions",
                counted(count, "plan", "plans"),
                noun(count, "waits", "wait"),
            ),
        }
    }

    fn next_line(&self) -> String {
        match &self.0.due {
            Some(reason) => format!("due: {reason}"),
            None => format!("not due: {}", self.new_since()),
        }
    }
}

fn plan_line(plan: &PlanSummary) -> String {
    let (proposed, approved) = waiting(plan);
    let shown = |text: &str| excerpt(text, NAME_CHARS);
    format!(
        "{} of {}: {proposed} proposed, {approved} approved",
        shown(&plan.plan_id),
        shown(&plan.saved_at)
    )
}

fn run_line(run: &RunSummary) -> String {
    let shown = |text: &str| excerpt(text, NAME_CHARS);
    let at = run.finished_at.as_deref().unwrap_or(&run.started_at);
    format!("{} {} {}, {}", shown(&run.run_id), shown(&run.kind), shown(&run.state), shown(at))
}

fn index_line(index: IndexState) -> String {
    let rows = counted(index.rows, "row", "rows");
    match index.newer {
        Some(newer) => format!("{rows}, {newer} newer"),
        None => format!("{rows}; it no longer fits the store: memfold index build"),
    }
}
