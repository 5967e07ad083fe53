//! Where a store stands: tiers, flags, plans and runs, and whether a run is due.

use std::path::Path;

use memfold_core::lifecycle::{
    DueReason, DueState, Retention, Tier, TierAssignment, TierCounts, TierReason, due,
};
use memfold_core::memory::MemoryId;
use memfold_core::plan::{ActionState, PlanSummary};
use memfold_core::runs::RunSummary;
use memfold_core::time::Instant;
use memfold_index::NoProgress;
use memfold_store::{BrainDb, LoadRequest};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Failure, Listener, Settings, index_to_read, may_write, open_own_tables, open_store};
use crate::lifecycle::{Tiers, due_state};
use crate::lookup::{Freshness, StoreIndex, freshness};

/// `memfold status --json`
#[derive(Debug, Serialize, JsonSchema)]
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
#[derive(Debug, Serialize, JsonSchema)]
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
#[derive(Debug, Serialize, JsonSchema)]
struct WaitingPlan<'a> {
    plan_id: &'a str,
    saved_at: &'a str,
    /// Actions that nobody decided about.
    proposed: u64,
    /// Actions to apply.
    approved: u64,
}

/// How far an index reaches.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct IndexState {
    /// Rows in it, segments included.
    pub rows: u64,
    /// Vectors that came since; `null` where it no longer fits the store.
    pub newer: Option<u64>,
}

impl IndexState {
    /// Finds the index of a store; `None` where there is none, or it cannot be read.
    fn of(
        db: &Path,
        store: &BrainDb,
        load: &LoadRequest<'_>,
        listener: &dyn Listener,
    ) -> Result<Option<Self>, Failure> {
        let folder = index_to_read(db, None)?;
        let index = match StoreIndex::open(&folder) {
            Ok(Some(index)) => index,
            Ok(None) => return Ok(None),
            Err(error) => {
                listener.note(&format!("note: the index cannot be read: {error}"));
                return Ok(None);
            }
        };
        let found = freshness(store, &index, load)
            .map_err(|error| Failure::of(&format!("read {}", db.display()), &error))?;
        let rows = index.files().columns().len() as u64 + index.sealed_rows();
        let newer = match found {
            Freshness::Since { fresh_rows } => Some(fresh_rows),
            Freshness::Foreign => None,
        };
        Ok(Some(Self { rows, newer }))
    }

    /// Memories that lookups do not find by it: all where it does not fit.
    fn unindexed(self, live: u64) -> u64 {
        self.newer.unwrap_or(live)
    }
}

/// Where a store stands.
#[derive(Debug)]
pub struct Status {
    /// The time that it is about.
    pub at: Instant,
    /// Creation times of live memories, if known, ascending.
    pub created: Vec<Instant>,
    /// Every live memory with its tier.
    pub tiers: Tiers,
    /// Pairs that wait for a person.
    pub open_flags: u64,
    /// Saved plans with actions that nothing became of yet.
    pub plans: Vec<PlanSummary>,
    /// The runs, the first one first.
    pub runs: Vec<RunSummary>,
    /// The search index beside the store.
    pub index: Option<IndexState>,
    /// Where it stands since its last consolidation.
    pub since: DueState,
    /// Why a run is due; `None` where none is.
    pub due: Option<DueReason>,
}

/// A memory of a tier.
#[derive(Debug, Serialize, JsonSchema)]
struct ListedDocument<'a> {
    id: &'a MemoryId,
    retention: Retention,
    /// What made its tier.
    reasons: &'a [TierReason],
}

/// Reads where a store stands.
///
/// # Errors
/// When it cannot be read.
pub fn status(
    db: &Path,
    settings: &Settings,
    at: Instant,
    listener: &dyn Listener,
) -> Result<Status, Failure> {
    let time_zone = settings.time_zone()?;
    let store = open_store(db, settings)?;
    let load = LoadRequest { time_zone: &time_zone, now: at, progress: &NoProgress };
    let configuration = &settings.configuration;
    let lifecycle = &configuration.settings.lifecycle;
    let memories = store
        .live_without_texts(&load)
        .map_err(|error| Failure::of("read the memories", &error))?;
    let (policy, retention) = (&configuration.policy, &lifecycle.retention);
    let tiers = Tiers::of_memories(&store, &memories, &load, policy, retention)
        .map_err(|error| Failure::of("read the memories", &error))?;
    let runs = store.runs().map_err(|error| Failure::of("read the runs", &error))?.runs;
    let flags = store.open_flags().map_err(|error| Failure::of("read the flags", &error))?;
    let plans = store
        .plans()
        .map_err(|error| Failure::of("list the plans", &error))?
        .into_iter()
        .filter(|plan| waiting(plan) > (0, 0));
    let index = IndexState::of(db, &store, &load, listener)?;
    let unindexed = index.map_or(0, |index| index.unindexed(memories.len() as u64));
    let since = due_state(&memories, &runs, unindexed, &time_zone);
    let instants = memories.iter().filter_map(|memory| memory.created_at.instant());
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
        due: due(&since, at, lifecycle.new_memories_min),
        since,
    })
}

/// Counts the actions of a plan that are proposed and approved.
#[must_use]
pub fn waiting(plan: &PlanSummary) -> (u64, u64) {
    let count = |state| plan.states.get(&state).copied().unwrap_or_default();
    (count(ActionState::Proposed), count(ActionState::Approved))
}

impl Status {
    /// Says that a session has just ended: a run is due where anything is new.
    pub fn end_session(&mut self, settings: &Settings) {
        self.since.is_session_end = true;
        let new_memories_min = settings.configuration.settings.lifecycle.new_memories_min;
        self.due = due(&self.since, self.at, new_memories_min);
    }

    /// Returns it as a document, which lists the memories of a tier where one is wanted.
    #[must_use]
    pub fn document(&self, list: Option<Tier>) -> StatusDocument<'_> {
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
            list: list.map(|tier| list_document(&self.tiers, tier)),
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

    /// Stores the tiers that changed, and tells each change once.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn store_tiers(
        &self,
        db: &Path,
        settings: &Settings,
        listener: &dyn Listener,
    ) -> Result<(), Failure> {
        let tiers = &self.tiers;
        if !may_write(settings, true, false, listener)
            || tiers.transitions.is_empty() && tiers.gone.is_empty()
        {
            return Ok(());
        }
        let session = open_own_tables(db, settings)?;
        tiers
            .keep(&session, &self.at.to_naive_local(&settings.time_zone()?))
            .map_err(|error| Failure::of("store the tiers", &error))?;
        for transition in &tiers.transitions {
            listener.detail(&transition.to_string());
        }
        Ok(())
    }
}

/// The memories of a tier, most alive first, ties by id.
#[must_use]
pub fn memories_of_tier(tiers: &Tiers, wanted: Tier) -> Vec<(&MemoryId, &TierAssignment)> {
    let of_tier = tiers.assignments.iter().filter(|(_, assigned)| assigned.tier == wanted);
    let mut listed: Vec<_> = of_tier.collect();
    listed.sort_by(|(_, a), (_, b)| b.retention.overall.total_cmp(&a.retention.overall));
    listed
}

/// The memories of a tier as documents, most alive first.
fn list_document(tiers: &Tiers, tier: Tier) -> Vec<ListedDocument<'_>> {
    let listed = memories_of_tier(tiers, tier).into_iter();
    let listed = listed.map(|(id, TierAssignment { retention, reasons, .. })| ListedDocument {
        id,
        retention: *retention,
        reasons,
    });
    listed.collect()
}
