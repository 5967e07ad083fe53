//! `memfold status`: tiers, flags, plans and runs of a store, and whether a run is due.

pub(crate) mod tiers;

use std::path::{Path, PathBuf};

use clap::{self, Args};
use memfold::lifecycle::{Tiers, due_state};
use memfold::lookup::{FreshSegment, Freshness, StoreIndex, freshness};
use memfold_core::lifecycle::{DueReason, DueState, Tier, TierCounts, due};
use memfold_core::plan::{ActionState, PlanSummary};
use memfold_core::runs::RunSummary;
use memfold_core::time::Instant;
use memfold_guard::text::excerpt;
use memfold_index::NoProgress;
use memfold_store::{BrainDb, LoadRequest};
use serde::Serialize;

use self::tiers::{ListedDocument, TierName, unread};
use crate::args::{GlobalArgs, IndexPlaceArgs};
use crate::context::{index_to_read, open_store};
use crate::failure::{Exit, Failure};
use crate::printer::{Printer, documents};
use crate::settings::{self, Settings};
use crate::writing::{self, counted, noun};

/// Names and times are cut after so many characters.
const NAME_CHARS: usize = 60;

documents! { "status" => StatusDocument<'_> }

/// `memfold status`
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    pub(crate) db: PathBuf,
    /// List the memories of a tier instead, most alive first
    #[arg(long, value_name = "TIER", conflicts_with = "exit_code")]
    pub(crate) list: Option<TierName>,
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

/// `memfold status --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct StatusDocument<'a> {
    schema_version: u32,
    /// The time that it is about, RFC 3339.
    at: String,
    /// Live memories.
    live: u64,
    /// Live memories by tier.
    tiers: TierCounts,
    /// Memories whose tier differs from the stored one, or that have none.
    tier_changes: u64,
    /// The memories of the tier to list, most alive first; `null` where none was asked for.
    list: Option<Vec<ListedDocument<'a>>>,
    /// Pairs that wait for a person.
    open_flags: u64,
    /// Saved plans with actions that nothing became of yet.
    plans: Vec<WaitingPlan<'a>>,
    /// The last run; `null` where none wrote to the store.
    last_run: Option<&'a RunSummary>,
    /// The search index beside the store; `null` where there is none.
    index: Option<IndexState>,
    is_due: bool,
    /// Why a run is due; `null` where none is.
    reason: Option<DueReason>,
    /// The reason in words.
    text: Option<String>,
    #[serde(flatten)]
    since: SinceDocument,
}

/// Where a store stands since its last completed consolidation.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SinceDocument {
    /// When that ended, RFC 3339; `null` where there was none.
    last_run_at: Option<String>,
    /// When the newest memory was made, RFC 3339.
    last_write_at: Option<String>,
    /// Memories made since.
    new_memories: u64,
    /// Memories that the index lacks; 0 where there is no index.
    unindexed: u64,
}

impl From<&DueState> for SinceDocument {
    fn from(state: &DueState) -> Self {
        Self {
            last_run_at: state.last_run.map(|at| at.to_rfc3339()),
            last_write_at: state.last_write.map(|at| at.to_rfc3339()),
            new_memories: state.new_memories,
            unindexed: state.unindexed,
        }
    }
}

/// A plan that waits.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct WaitingPlan<'a> {
    plan_id: &'a str,
    saved_at: &'a str,
    /// Actions that nobody decided about.
    proposed: u64,
    /// Actions to apply.
    approved: u64,
}

/// How far an index reaches.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct IndexState {
    /// Rows in it, segments included.
    rows: u64,
    /// Vectors that came since; `null` where it no longer fits the store.
    newer: Option<u64>,
}

impl IndexState {
    /// Looks for the index of a store; `None` where there is none, or it cannot be read.
    pub(crate) fn of(
        db: &Path,
        store: &BrainDb,
        load: &LoadRequest<'_>,
        printer: Printer,
    ) -> Result<Option<Self>, Failure> {
        let folder = index_to_read(&IndexPlaceArgs { db: db.to_owned(), index_dir: None })?;
        let index = match StoreIndex::open(&folder) {
            Ok(Some(index)) => index,
            Ok(None) => return Ok(None),
            Err(error) => {
                printer.note(&format!("note: the index cannot be read: {error}"));
                return Ok(None);
            }
        };
        let found = freshness(store, &index, load).map_err(|error| {
            let hint = error.hint();
            Failure::new(&format!("read {}", db.display()), &error, hint)
        })?;
        let sealed: usize = index.fresh().iter().map(FreshSegment::len).sum();
        let rows = (index.files().columns().len() + sealed) as u64;
        let newer = match found {
            Freshness::Since { fresh_rows } => Some(fresh_rows),
            Freshness::Foreign => None,
        };
        Ok(Some(Self { rows, newer }))
    }

    /// Memories that lookups do not find by it: all where it does not fit.
    pub(crate) fn unindexed(self, live: u64) -> u64 {
        self.newer.unwrap_or(live)
    }
}

/// Where a store stands.
#[derive(Debug)]
pub struct Status {
    at: Instant,
    /// When live memories were created, where that is known, ascending.
    pub created: Vec<Instant>,
    /// Every live memory with its tier.
    pub tiers: Tiers,
    /// Pairs that wait for a person.
    pub open_flags: u64,
    /// Saved plans with actions that nothing became of yet.
    pub plans: Vec<PlanSummary>,
    /// The runs, the first one first.
    pub runs: Vec<RunSummary>,
    index: Option<IndexState>,
    /// Where it stands since its last consolidation.
    pub since: DueState,
    /// Why a run is due; `None` where none is.
    pub due: Option<DueReason>,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &StatusArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    let now = settings::now(args.now.as_deref(), &settings.time_zone()?)?;
    let mut status = status(&args.db, &settings, now, printer)?;
    if args.session_end {
        status.since.is_session_end = true;
        status.due = due(&status.since, now, &settings.configuration.settings.lifecycle.due);
    }
    if args.store_tiers {
        status.store_tiers(&args.db, &settings, printer)?;
    }
    let exit = match status.due {
        None if args.exit_code => Exit::Failure,
        _ => Exit::Done,
    };
    if global.json {
        printer.document(&status.document_with(args.list.map(Tier::from)))?;
    } else if let Some(tier) = args.list {
        printer.data(&tiers::list_text(&status.tiers, tier.into()))?;
    } else if !args.exit_code {
        printer.data(&status.screen(printer.is_verbose()))?;
    } else if let Some(reason) = &status.due {
        printer.data(&format!("{reason}\n"))?;
    } else {
        printer.note(&format!("no run is due: {}", status.new_since()));
    }
    Ok(exit)
}

/// Reads where a store stands.
///
/// # Errors
/// When it cannot be read.
pub fn status(
    db: &Path,
    settings: &Settings,
    at: Instant,
    printer: Printer,
) -> Result<Status, Failure> {
    let time_zone = settings.time_zone()?;
    let store = open_store(db, settings)?;
    let load = LoadRequest { time_zone: &time_zone, now: at, progress: &NoProgress };
    let configuration = &settings.configuration;
    let lifecycle = &configuration.settings.lifecycle;
    let vitals = store.vitals(&load).map_err(|error| unread(&error))?;
    let (policy, retention) = (&configuration.policy, &lifecycle.retention);
    let tiers = Tiers::of_vitals(&store, &vitals, &load, policy, retention)
        .map_err(|error| unread(&error))?;
    let runs =
        store.runs().map_err(|error| Failure::new("read the runs", &error, error.hint()))?.runs;
    let flags =
        store.open_flags().map_err(|error| Failure::new("read the flags", &error, error.hint()))?;
    let plans = store
        .plans()
        .map_err(|error| writing::session_failure("list the plans", &error))?
        .into_iter()
        .filter(|plan| waiting(plan) > (0, 0));
    let index = IndexState::of(db, &store, &load, printer)?;
    let unindexed = index.map_or(0, |index| index.unindexed(vitals.len() as u64));
    let since = due_state(&vitals, &runs, unindexed, &time_zone);
    let instants = vitals.iter().filter_map(|vitals| vitals.memory.created_at.instant());
    let mut created: Vec<Instant> = instants.collect();
    created.sort_unstable();
    Ok(Status {
        at,
        created,
        tiers,
        open_flags: flags.len() as u64,
        plans: plans.collect(),
        runs,
        index,
        due: due(&since, at, &lifecycle.due),
        since,
    })
}

/// Counts the actions of a plan that are proposed and approved.
fn waiting(plan: &PlanSummary) -> (u64, u64) {
    let count = |state| plan.states.get(&state).copied().unwrap_or_default();
    (count(ActionState::Proposed), count(ActionState::Approved))
}

impl Status {
    /// Returns it as a document.
    pub fn document(&self) -> StatusDocument<'_> {
        self.document_with(None)
    }

    /// Returns it as a document that lists the memories of a tier.
    fn document_with(&self, list: Option<Tier>) -> StatusDocument<'_> {
        let plans = self.plans.iter().map(|plan| {
            let (proposed, approved) = waiting(plan);
            WaitingPlan { plan_id: &plan.plan_id, saved_at: &plan.saved_at, proposed, approved }
        });
        StatusDocument {
            schema_version: 1,
            at: self.at.to_rfc3339(),
            live: self.tiers.assignments.len() as u64,
            tiers: self.tiers.counts(),
            tier_changes: self.tiers.transitions.len() as u64,
            list: list.map(|tier| tiers::list_document(&self.tiers, tier)),
            open_flags: self.open_flags,
            plans: plans.collect(),
            last_run: self.runs.last(),
            index: self.index,
            is_due: self.due.is_some(),
            reason: self.due,
            text: self.due.map(|reason| reason.to_string()),
            since: SinceDocument::from(&self.since),
        }
    }

    fn screen(&self, is_verbose: bool) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| text.push_str(&format!("{name:<9} {value}\n"));
        line("memories", &format!("{} live", self.tiers.assignments.len()));
        line("tiers", &self.tiers_line());
        line("flags", &format!("{} open", self.open_flags));
        line("plans", &self.plans_line());
        if is_verbose {
            for plan in &self.plans {
                line("", &plan_line(plan));
            }
        }
        line("last run", &self.runs.last().map_or_else(|| "none".to_owned(), run_line));
        line("index", &self.index.map_or_else(|| "none".to_owned(), index_line));
        line("next run", &self.next_line());
        if is_verbose {
            text.push('\n');
            text.push_str(&tiers::distribution(self.tiers.counts()));
            text.push_str(&tiers::changes(&self.tiers));
        }
        text
    }

    /// Stores the tiers that changed, and tells each change once.
    fn store_tiers(&self, db: &Path, settings: &Settings, printer: Printer) -> Result<(), Failure> {
        let tiers = &self.tiers;
        if !writing::may_write(settings, true, false, printer)
            || tiers.transitions.is_empty() && tiers.gone.is_empty()
        {
            return Ok(());
        }
        let session = writing::open_own_tables(db, settings)?;
        tiers
            .keep(&session, &self.at.to_naive_local(&settings.time_zone()?))
            .map_err(|error| writing::session_failure("store the tiers", &error))?;
        for transition in &tiers.transitions {
            printer.detail(&transition.to_string());
        }
        Ok(())
    }

    fn new_since(&self) -> String {
        let new = counted(self.since.new_memories, "new memory", "new memories");
        format!("{new} since the last run")
    }

    fn tiers_line(&self) -> String {
        let counts = self.tiers.counts();
        let parts = Tier::ALL.map(|tier| format!("{tier} {}", counts.of(tier)));
        parts.join(", ")
    }

    fn plans_line(&self) -> String {
        let (proposed, approved) = self
            .plans
            .iter()
            .map(waiting)
            .fold((0, 0), |sum, plan| (sum.0 + plan.0, sum.1 + plan.1));
        match self.plans.len() as u64 {
            0 => "none waits".to_owned(),
            count => format!(
                "{} {}: {proposed} proposed, {approved} approved actions",
                counted(count, "plan", "plans"),
                noun(count, "waits", "wait"),
            ),
        }
    }

    fn next_line(&self) -> String {
        match &self.due {
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
