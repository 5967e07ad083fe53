//! Tiers of a store's memories, their relations, and whether a run is due.
//!
//! [`memfold_core::lifecycle`] decides, with pure functions; here their inputs are gathered from a
//! store. Tiers are derived: no row of the owner changes with them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::tz::TimeZone;
use memfold_core::lifecycle::{
    Confidence, DueState, Edge, EdgeType, RetentionInput, RetentionPolicy, Tier, TierAssignment,
    TierCounts, Transition, assign, references, superseded_by, transitions,
};
use memfold_core::lineage::Merge;
use memfold_core::memory::{Memory, MemoryId, Status};
use memfold_core::plan::protected_by;
use memfold_core::policy::{Configuration, Policy, ProtectionPolicy};
use memfold_core::runs::{RunKind, RunState, RunSummary};
use memfold_core::time::Instant;
use memfold_store::brain_db::Session;
use memfold_store::{BrainDb, LoadRequest, StoreError};
use tracing::info_span;

/// The time of an edge with an unreadable time.
const UNKNOWN_TIME: Instant = Instant(0);

/// The tiers of the live memories at a time, and the changes from the stored ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Tiers {
    /// Tier and reasons of each live memory.
    pub assignments: BTreeMap<MemoryId, TierAssignment>,
    /// Changes from the stored tiers, by id; memories without a stored one included.
    pub transitions: Vec<Transition>,
    /// Memories with a stored tier that are not live any more.
    pub gone: Vec<MemoryId>,
}

impl Tiers {
    /// Computes the tiers at the request's time.
    ///
    /// A memory is pinned if the policy protects it, except by age: that protection ends by itself.
    ///
    /// # Errors
    /// When the store cannot be read, or when cancelled.
    pub fn of(
        store: &BrainDb,
        load: &LoadRequest<'_>,
        configuration: &Configuration,
    ) -> Result<Self, StoreError> {
        let retention = &configuration.settings.lifecycle.retention;
        let memories = store.live_without_texts(load)?;
        Self::of_memories(store, &memories, load, &configuration.policy, retention)
    }

    /// Computes the tiers of live memories that were read, with or without their texts.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn of_memories(
        store: &BrainDb,
        memories: &[Memory],
        load: &LoadRequest<'_>,
        policy: &Policy,
        retention: &RetentionPolicy,
    ) -> Result<Self, StoreError> {
        let _span = info_span!("retention.compute", memories = memories.len() as i64).entered();
        let edges = store.edges(load.time_zone)?;
        let superseded = superseded_by(&edges);
        let summaries = store.summaries()?;
        let summaries: BTreeSet<&MemoryId> =
            summaries.iter().map(|summary| &summary.memory_id).collect();
        let policy = ageless(policy);
        let assigned = |memory: &Memory| {
            let input = RetentionInput {
                is_superseded: superseded.contains_key(&memory.id),
                is_pinned: protected_by(memory, false, &policy, load.now).is_some(),
                is_summary: summaries.contains(&memory.id),
                ..RetentionInput::of(memory)
            };
            (memory.id.clone(), assign(&input, load.now, retention))
        };
        let assignments: BTreeMap<_, _> = memories.iter().map(assigned).collect();
        let stored = store.assigned_tiers()?;
        let gone = stored.keys().filter(|id| !assignments.contains_key(*id)).cloned().collect();
        // A tier that cannot be read is as good as none.
        let stored = stored.into_iter().filter_map(|(id, tier)| Some((id, Tier::parse(&tier)?)));
        let transitions = transitions(&stored.collect(), &assignments);
        Ok(Self { assignments, transitions, gone })
    }

    /// Counts the memories of each tier.
    #[must_use]
    pub fn counts(&self) -> TierCounts {
        self.assignments.values().map(|assignment| assignment.tier).collect()
    }

    /// Stores the changed tiers, so that each transition is reported once. `at` is the time as the
    /// owner writes times.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn keep(&self, session: &Session, at: &str) -> Result<(), StoreError> {
        session.keep_tiers(&self.transitions, &self.gone, at)
    }
}

/// The policy without protection by age: a memory is not pinned for being new.
fn ageless(policy: &Policy) -> Policy {
    let protection =
        ProtectionPolicy { min_age_hours: f64::NEG_INFINITY, ..policy.protection.clone() };
    let mut policy = policy.clone();
    policy.protection = protection;
    policy
}

/// The memories of a store, archived ones included, and all edges between them.
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeMap {
    /// By id.
    pub memories: BTreeMap<MemoryId, Memory>,
    /// Recorded edges, merges as CONSOLIDATES, and REFERENCES of texts that name other ids.
    pub edges: Vec<Edge>,
}

impl EdgeMap {
    /// Reads a store and finds its edges.
    ///
    /// # Errors
    /// When the store cannot be read, or when cancelled.
    pub fn of(store: &BrainDb, load: &LoadRequest<'_>) -> Result<Self, StoreError> {
        let memories = store.memories(load)?;
        let mut edges = store.edges(load.time_zone)?;
        edges.extend(store.merges()?.into_iter().map(|merge| consolidates(merge, load.time_zone)));
        edges.extend(named_in_texts(&memories));
        let memories = memories.into_iter().map(|memory| (memory.id.clone(), memory)).collect();
        Ok(Self { memories, edges })
    }

    /// Tells whether a memory is in the store, or an edge names it.
    #[must_use]
    pub fn knows(&self, id: &MemoryId) -> bool {
        let names = |edge: &Edge| edge.source == *id || edge.target == *id;
        self.memories.contains_key(id) || self.edges.iter().any(names)
    }
}

fn consolidates(merge: Merge, time_zone: &TimeZone) -> Edge {
    let rule = merge.rule_id.map_or_else(String::new, |rule| format!(" by {rule}"));
    Edge {
        source: merge.survivor,
        target: merge.merged,
        edge_type: EdgeType::Consolidates,
        weight: merge.similarity.unwrap_or(1.0).clamp(0.0, 1.0),
        reason: format!("merged{rule}"),
        confidence: Confidence::High,
        run_id: merge.run_id,
        created_at: merge.at.and_then(|at| Instant::parse(&at, time_zone)).unwrap_or(UNKNOWN_TIME),
    }
}

/// Records of contradictions name memories without being about them, so they refer to nothing.
fn named_in_texts(memories: &[Memory]) -> Vec<Edge> {
    let known: HashSet<&str> = memories.iter().map(|memory| memory.id.as_str()).collect();
    let is_record = |memory: &&Memory| memory.status == Status::Record;
    let of = |memory: &Memory| -> Vec<Edge> {
        let named = references(&memory.content, |id| known.contains(id));
        let others = named.into_iter().filter(|id| *id != memory.id.as_str());
        others.map(|id| names_id(memory, id)).collect()
    };
    memories.iter().filter(|memory| !is_record(memory)).flat_map(of).collect()
}

fn names_id(memory: &Memory, id: &str) -> Edge {
    Edge {
        source: memory.id.clone(),
        target: MemoryId::new(id),
        edge_type: EdgeType::References,
        weight: 1.0,
        reason: "its text names the id".to_owned(),
        confidence: Confidence::High,
        run_id: None,
        created_at: memory.created_at.instant().unwrap_or(UNKNOWN_TIME),
    }
}

/// Says where a store stands since its last completed consolidation; `unindexed` is how many memories its index lacks.
///
/// A memory is new by its creation time. One without a readable time counts as old.
#[must_use]
pub(crate) fn due_state(
    memories: &[Memory],
    runs: &[RunSummary],
    unindexed: u64,
    time_zone: &TimeZone,
) -> DueState {
    let last_run =
        last_completed(runs).and_then(|run| Instant::parse(run.finished_at.as_deref()?, time_zone));
    let written = || memories.iter().filter_map(|memory| memory.created_at.instant());
    let new_memories = match last_run {
        Some(last) => written().filter(|at| *at > last).count(),
        None => memories.len(),
    };
    DueState {
        last_run,
        last_write: written().max(),
        new_memories: new_memories as u64,
        unindexed,
        is_session_end: false,
    }
}

fn last_completed(runs: &[RunSummary]) -> Option<&RunSummary> {
    let is_completed = |run: &&RunSummary| {
        run.kind == RunKind::Execute.name()
            && [RunState::Done.name(), RunState::Partial.name()].contains(&run.state.as_str())
    };
    runs.iter().rev().find(is_completed)
}
