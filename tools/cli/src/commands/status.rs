//! `memfold status`: tiers, flags, plans and runs of a store, and whether a run is due.

mod tiers;

use clap::{self, Args, ValueHint};
use memfold::ops::{self, IndexState, Status, StorePath, waiting};
use memfold_core::lifecycle::Tier;
use memfold_core::plan::PlanSummary;
use memfold_core::runs::RunSummary;
use memfold_guard::text::excerpt;

use crate::args::store_path;
use crate::call::Call;
use crate::failure::{Exit, Failure};
use crate::writing::{counted, noun};

/// Maximum characters of names and times.
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

pub(crate) fn run(call: Call<'_>, args: &StatusArgs) -> Result<Exit, Failure> {
    let settings = call.settings(&args.db)?;
    let now = ops::now(args.now.as_deref(), &settings.time_zone()?)?;
    let mut status = ops::status(&args.db, &settings, now, &call.printer)?;
    if args.session_end {
        status.end_session(&settings);
    }
    if args.store_tiers {
        status.store_tiers(&args.db, &settings, &call.printer)?;
    }
    let exit = match status.due {
        None if args.exit_code => Exit::Failure,
        _ => Exit::Done,
    };
    call.show(&status.document(args.list), || match (args.list, &status.due) {
        (Some(tier), _) => tiers::list_text(&status.tiers, tier),
        (None, Some(reason)) if args.exit_code => format!("{reason}\n"),
        (None, None) if args.exit_code => {
            call.printer.note(&format!("no run is due: {}", View(&status).new_since()));
            String::new()
        }
        _ => View(&status).screen(call.printer.is_verbose()),
    })?;
    Ok(exit)
}

/// A store's state for display.
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
