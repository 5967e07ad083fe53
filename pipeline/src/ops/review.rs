//! Decisions of people: flagged pairs, and the memories of a question.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use jiff::tz::TimeZone;
use memfold_core::memory::{Memory, MemoryId};
use memfold_core::plan::{ActionState, SavedPlan};
use memfold_core::report::Mode;
use memfold_store::brain_db::OpenPair;
use memfold_store::{LoadRequest, MemoryStore, NoVectors, StoreError};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Failure, Listener, Settings, StorePath, now, open_own_tables, open_store, planning_failure,
    with_run_context,
};
use crate::consolidate::consolidate;
use crate::settle::Settled;
use crate::texts::{answered, policy_of_texts};

/// `memfold review STORE --flags --json`
#[derive(Debug, Serialize, JsonSchema)]
pub struct FlagsDocument<'a> {
    schema_version: u32,
    flags: Vec<FlagDocument<'a>>,
}

/// A pair that waits for a person.
#[derive(Debug, Serialize, JsonSchema)]
struct FlagDocument<'a> {
    /// The name of the pair: 16 hex digits.
    key: &'a str,
    /// `contradiction`, `update`, or `near` where a save did not fold them.
    kind: &'static str,
    /// The memories, smaller id first.
    ids: &'a [String; 2],
    /// Their texts as they are; `null` where a memory is gone or its text is no text.
    texts: &'a [Option<String>; 2],
    /// When they were created, as the store spells it; `null` where a memory is gone.
    created_at: &'a [Option<String>; 2],
    /// The newer of the two; `null` where a memory is gone.
    newer: Option<&'a str>,
    similarity: Option<f64>,
    /// How contradictory, from 0 to 1.
    score: Option<f64>,
    /// When they were flagged, as the owner writes times.
    at: &'a str,
    /// The memory that was saved again after the other one was: it is the newer statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    asserted_id: Option<&'a str>,
    /// When that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    asserted_at: Option<&'a str>,
}

/// `memfold review STORE KEY --newer --json`, of one pair
#[derive(Debug, Serialize, JsonSchema)]
pub struct SettledDocument {
    schema_version: u32,
    mode: Mode,
    /// `null` for a dry run.
    run_id: Option<String>,
    settled: Settled,
}

impl<'a> FlagsDocument<'a> {
    /// Takes the pairs that wait.
    #[must_use]
    pub fn of(pairs: &'a [OpenPair], time_zone: &TimeZone) -> Self {
        let flags = pairs.iter().map(|pair| FlagDocument::of(pair, time_zone)).collect();
        Self { schema_version: 1, flags }
    }
}

impl SettledDocument {
    /// Takes a pair that was settled by a run, or would be.
    #[must_use]
    pub fn new(run_id: Option<String>, settled: Settled) -> Self {
        Self { schema_version: 1, mode: Mode::of(run_id.is_some()), run_id, settled }
    }
}

impl<'a> FlagDocument<'a> {
    fn of(pair: &'a OpenPair, time_zone: &TimeZone) -> Self {
        let OpenPair { key, kind, ids, texts, created_at, similarity, score, at, asserted } = pair;
        let newer = pair.newer(time_zone).map(|side| &*ids[side]);
        let (kind, similarity, score) = (kind.name(), *similarity, *score);
        let asserted = asserted.as_ref();
        Self {
            key,
            kind,
            ids,
            texts,
            created_at,
            newer,
            similarity,
            score,
            at,
            asserted_id: asserted.map(|(id, _)| id.as_str()),
            asserted_at: asserted.map(|(_, at)| at.as_str()),
        }
    }
}

/// Returns the memories that the changes of a plan name.
#[must_use]
pub fn named_by(plan: &SavedPlan) -> BTreeSet<MemoryId> {
    plan.changes().flat_map(|saved| saved.action.target_ids.iter().cloned()).collect()
}

/// Reads some memories and all that was once merged into them.
///
/// # Errors
/// When the store cannot be read.
pub fn with_merged(
    store: &dyn MemoryStore,
    mut named: BTreeSet<MemoryId>,
    request: &LoadRequest<'_>,
) -> Result<BTreeMap<MemoryId, Memory>, StoreError> {
    let snapshot = store.load(request, &mut NoVectors::default())?;
    let is_new = |memory: &&Memory, named: &BTreeSet<MemoryId>| {
        let is_named = |survivor: &MemoryId| named.contains(survivor);
        memory.merged_into.as_ref().is_some_and(is_named) && !named.contains(&memory.id)
    };
    loop {
        let merged = snapshot.memories.iter().filter(|memory| is_new(memory, &named));
        let merged: Vec<MemoryId> = merged.map(|memory| memory.id.clone()).collect();
        if merged.is_empty() {
            break;
        }
        named.extend(merged);
    }
    let memories = snapshot.memories.into_iter().filter(|memory| named.contains(&memory.id));
    Ok(memories.map(|memory| (memory.id.clone(), memory)).collect())
}

/// Plans over the mirror of a file of texts and saves the plan there; returns its id. Earlier answers
/// are applied again.
///
/// # Errors
/// When the mirror cannot be read or written.
pub fn plan_texts(
    mirror: &StorePath,
    settings: &Settings,
    at: Option<&str>,
    threads: Option<NonZeroUsize>,
    listener: &dyn Listener,
) -> Result<String, Failure> {
    let store = open_store(mirror, settings)?;
    let failed = |error: StoreError| Failure::of("save the plan", &error);
    let before = answered(&store).map_err(failed)?;
    let policy = policy_of_texts(&settings.configuration.policy);
    let outcome = with_run_context(settings, at, threads, listener, |guard, context| {
        consolidate(&store, &policy, guard, context)
            .map_err(|error| planning_failure(mirror, &error))
    })?;
    let session = open_own_tables(mirror, settings)?;
    let time_zone = settings.time_zone()?;
    let at = now(at, &time_zone)?.to_naive_local(&time_zone);
    let save = || -> Result<String, StoreError> {
        session.prepare(&at)?;
        let name = session.save_plan(&outcome.plan, &outcome.access_counts, &at)?;
        let before: BTreeMap<_, _> =
            before.iter().map(|answer| (&answer.effective().target_ids, answer.state)).collect();
        for state in [ActionState::Approved, ActionState::Rejected] {
            let actions = outcome.plan.actions.iter().zip(0..);
            let again =
                actions.filter(|(action, _)| before.get(&action.target_ids) == Some(&state));
            let positions: Vec<usize> = again.map(|(_, position)| position).collect();
            session.decide(&name, &positions, state)?;
        }
        Ok(name)
    };
    save().map_err(failed)
}
