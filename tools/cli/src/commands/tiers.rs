//! `memfold tiers`: how alive memories are, and what changed since tiers were last stored.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{self, Args, ValueEnum};
use jiff::tz::TimeZone;
use memfold::lifecycle::Tiers;
use memfold_index::NoProgress;
use memfold_lifecycle::{Retention, Tier, TierAssignment, TierCounts, TierReason, Transition};
use memfold_model::memory::MemoryId;
use memfold_model::text::excerpt;
use memfold_model::time::Instant;
use memfold_plan::report::Mode;
use memfold_store::{LoadRequest, LoadStoreError};
use serde::Serialize;

use crate::args::{GlobalArgs, WritingArgs};
use crate::context::open_store;
use crate::failure::{Exit, Failure};
use crate::printer::{Printer, documents, table};
use crate::settings::{self, Settings};
use crate::writing::{self, counted};

/// Characters of an id that are shown.
const ID_CHARS: usize = 40;

/// Columns of a bar that stands for all memories.
const BAR_COLUMNS: u64 = 40;

documents! { "tiers" => TiersDocument<'_> }

/// `memfold tiers`
#[derive(Debug, Args)]
pub(crate) struct TiersArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    pub(crate) db: PathBuf,
    /// List the memories of a tier
    #[arg(long, value_name = "TIER")]
    pub(crate) list: Option<TierName>,
    /// Show the tiers of another time (RFC 3339) instead; never stored
    #[arg(long, value_name = "TIME", conflicts_with = "execute")]
    pub(crate) at: Option<String>,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
}

/// A tier as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TierName {
    /// Offered unasked
    Hot,
    /// Found by default
    Warm,
    /// Found by a deep search
    Cold,
    /// Found by an exhaustive search only
    Archived,
}

impl From<TierName> for Tier {
    fn from(name: TierName) -> Self {
        match name {
            TierName::Hot => Self::Hot,
            TierName::Warm => Self::Warm,
            TierName::Cold => Self::Cold,
            TierName::Archived => Self::Archived,
        }
    }
}

/// `memfold tiers --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TiersDocument<'a> {
    schema_version: u32,
    mode: Mode,
    /// The time that the tiers are those of, RFC 3339.
    at: String,
    /// Live memories by tier.
    tiers: TierCounts,
    /// What differs from the stored tiers, by id.
    transitions: &'a [Transition],
    /// Memories with a stored tier that are not live any more; the tier goes.
    gone: &'a [MemoryId],
    /// The memories of the tier to list, most alive first; `null` where none was asked for.
    list: Option<Vec<ListedDocument<'a>>>,
}

/// A memory of a tier.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ListedDocument<'a> {
    id: &'a MemoryId,
    retention: Retention,
    /// What made its tier.
    reasons: &'a [TierReason],
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &TiersArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    let time_zone = settings.time_zone()?;
    let at = time(args, &time_zone)?;
    let tiers = compute(args, (&settings, &time_zone, at))?;
    let wanted = (args.writing.execute, args.writing.dry_run);
    let writes = writing::may_write(&settings, wanted, printer);
    if writes && !(tiers.transitions.is_empty() && tiers.gone.is_empty()) {
        let session = writing::open_own_tables(&args.db, &settings)?;
        tiers
            .keep(&session, &at.to_naive_local(&time_zone))
            .map_err(|error| writing::session_failure("store the tiers", &error))?;
    }
    for transition in &tiers.transitions {
        printer.detail(&transition.to_string());
    }
    if global.json {
        printer.document(&document(&tiers, (args.list, Mode::of(writes), at)))?;
    } else {
        printer.data(&screen(&tiers, args, writes))?;
        if !writes && args.at.is_none() {
            printer.note("dry run: nothing was written to the store");
        }
    }
    Ok(Exit::Done)
}

fn time(args: &TiersArgs, time_zone: &TimeZone) -> Result<Instant, Failure> {
    let Some(text) = &args.at else {
        return settings::now(args.writing.now.as_deref(), time_zone);
    };
    Instant::parse(text, time_zone).ok_or_else(|| {
        Failure::usage(
            format!("--at {text:?} is no time"),
            "use RFC 3339, such as 2027-06-30T12:00:00Z",
        )
    })
}

fn compute(
    args: &TiersArgs,
    (settings, time_zone, now): (&Settings, &TimeZone, Instant),
) -> Result<Tiers, Failure> {
    let store = open_store(&args.db, settings)?;
    let configuration = &settings.configuration;
    let load = LoadRequest { time_zone, now, progress: &NoProgress };
    let policies = (&configuration.policy, &configuration.settings.lifecycle.retention);
    Tiers::of(&store, &load, policies).map_err(|error| unread(&error))
}

/// Says why the memories of a store cannot be read.
pub(crate) fn unread(error: &LoadStoreError) -> Failure {
    Failure::new("read the memories", error, error.hint())
}

/// The memories of a tier, most alive first, ties by id.
fn listed(tiers: &Tiers, wanted: Tier) -> Vec<(&MemoryId, &TierAssignment)> {
    let of_tier = tiers.assignments.iter().filter(|(_, assigned)| assigned.tier == wanted);
    let mut listed: Vec<_> = of_tier.collect();
    listed.sort_by(|(_, a), (_, b)| b.retention.overall.total_cmp(&a.retention.overall));
    listed
}

fn document(
    tiers: &Tiers,
    (list, mode, at): (Option<TierName>, Mode, Instant),
) -> TiersDocument<'_> {
    let list =
        list.map(|name| {
            let listed = listed(tiers, name.into()).into_iter();
            let listed = listed.map(|(id, TierAssignment { retention, reasons, .. })| {
                ListedDocument { id, retention: *retention, reasons }
            });
            listed.collect()
        });
    TiersDocument {
        schema_version: 1,
        mode,
        at: at.to_rfc3339(),
        tiers: tiers.counts(),
        transitions: &tiers.transitions,
        gone: &tiers.gone,
        list,
    }
}

fn screen(tiers: &Tiers, args: &TiersArgs, is_stored: bool) -> String {
    let counts = tiers.counts();
    if counts.total() == 0 {
        return "no memory is live\n".to_owned();
    }
    let mut text = match args.list {
        Some(name) => list_text(tiers, name.into()),
        None => distribution(counts),
    };
    if args.at.is_none() {
        text.push_str(&changes(tiers, is_stored));
    }
    text
}

fn distribution(counts: TierCounts) -> String {
    let total = counts.total();
    let rows = Tier::ALL.into_iter().map(|tier| {
        let count = counts.of(tier);
        // At least one column stands for a memory.
        let columns = (count * BAR_COLUMNS / total).max(u64::from(count > 0));
        let share = format!("{:.1} %", 100.0 * count as f64 / total as f64);
        vec![tier.to_string(), count.to_string(), share, "█".repeat(columns as usize)]
    });
    table(&["tier", "memories", "share", ""], rows.collect())
}

fn list_text(tiers: &Tiers, tier: Tier) -> String {
    let listed = listed(tiers, tier);
    if listed.is_empty() {
        return format!("no memory is {tier}\n");
    }
    let rows = listed.into_iter().map(|(id, TierAssignment { retention, reasons, .. })| {
        let score = |value: f64| format!("{value:.3}");
        // The first reason is always retention itself.
        let further: Vec<&str> = reasons.iter().skip(1).map(|reason| reason.as_str()).collect();
        vec![
            excerpt(id.as_str(), ID_CHARS),
            score(retention.overall),
            score(retention.recency),
            score(retention.activation),
            score(retention.importance),
            further.join("; "),
        ]
    });
    table(&["id", "retention", "recency", "activation", "importance", "why"], rows.collect())
}

/// Counts what differs from the stored tiers.
fn changes(tiers: &Tiers, is_stored: bool) -> String {
    let mut kinds: BTreeMap<(Option<Tier>, Tier), u64> = BTreeMap::new();
    for transition in &tiers.transitions {
        *kinds.entry((transition.from, transition.to.tier)).or_default() += 1;
    }
    if kinds.is_empty() {
        return "no tier has changed since tiers were last stored\n".to_owned();
    }
    let parts: Vec<String> = kinds
        .into_iter()
        .map(|((from, to), count)| {
            let from = from.map_or("new", Tier::as_str);
            format!("{from} to {to} {count}")
        })
        .collect();
    let changes = counted(tiers.transitions.len() as u64, "change", "changes");
    let end = if is_stored { "stored" } else { "to store with --execute" };
    format!("{changes} {end}: {}\n", parts.join(", "))
}
