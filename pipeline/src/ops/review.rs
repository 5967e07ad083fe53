//! Decisions of people about plans and flagged pairs, and the memories of a question.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::path::Path;

use jiff::tz::TimeZone;
use memfold_core::memory::{Memory, MemoryId};
use memfold_core::plan::{Action, ActionState, SavedAction, SavedPlan};
use memfold_core::report::{Mode, run_id};
use memfold_guard::Guard;
use memfold_index::NoProgress;
use memfold_store::brain_db::{OpenPair, Session};
use memfold_store::{LoadRequest, MemoryStore, NoVectors, StoreError};
use schemars::JsonSchema;
use serde::Serialize;

use super::store::run_upkeep;
use super::{
    Failure, Listener, Settings, StorePath, UndoRequest, now, open_own_tables, open_session,
    open_store, planning_failure, undo, with_run_context,
};
use crate::consolidate::consolidate;
use crate::execute::{KeepBothRequest, UndoTarget, keep_both};
use crate::machine;
use crate::settle::{SettleRules, Settled, Settlement, preview_settlement, settle};
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
    /// `contradiction`, `update`, or `near` where a save did not merge them.
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
    pub run_id: Option<String>,
    /// The pair.
    pub settled: Settled,
}

impl<'a> FlagsDocument<'a> {
    /// Takes the pairs that wait.
    #[must_use]
    pub fn of(pairs: &'a [OpenPair], time_zone: &TimeZone) -> Self {
        let flags = pairs.iter().map(|pair| FlagDocument::of(pair, time_zone)).collect();
        Self { schema_version: 1, flags }
    }
}

/// Settles a flagged pair as a person decided, as a run that can be undone, or returns the expected
/// result. `at` is the time of the writes, in place of the clock's.
///
/// # Errors
/// When the pair does not wait, cannot be settled so, or the store cannot be written.
pub fn settle_pair(
    store: &Path,
    settings: &Settings,
    guard: &Guard,
    key: &str,
    settlement: Settlement,
    at: Option<&str>,
    writes: bool,
) -> Result<SettledDocument, Failure> {
    let rules = SettleRules { policy: &settings.configuration.policy, guard };
    let what = "settle the pair";
    let (run_id, settled) = if writes {
        let name = format!("flags {key}");
        let (run_id, settled) = run_upkeep(store, settings, at, &name, what, |session, run| {
            settle(session, key, settlement, rules, run)
        })?;
        (Some(run_id), settled)
    } else {
        let time_zone = &settings.time_zone()?;
        let load = LoadRequest { time_zone, now: now(at, time_zone)?, progress: &NoProgress };
        let settled =
            preview_settlement(&open_store(store, settings)?, key, settlement, rules, &load);
        (None, settled.map_err(|error| Failure::of(what, &error))?)
    };
    Ok(SettledDocument { schema_version: 1, mode: Mode::of(writes), run_id, settled })
}

/// Records the decisions of a person about the actions of a plan, each in a transaction of its own.
#[derive(Debug)]
pub struct Reviewer<'a> {
    store: &'a Path,
    settings: &'a Settings,
    /// The plan.
    pub plan_id: String,
    store_id: String,
    /// The time of the answers, in place of the clock's.
    at: Option<&'a str>,
    time_zone: TimeZone,
}

impl<'a> Reviewer<'a> {
    /// Makes the store ready for answers about a plan, which is saved first where no store holds it.
    ///
    /// # Errors
    /// When the store cannot be written, or has tables of a later version.
    pub fn begin(
        store: &'a Path,
        settings: &'a Settings,
        plan: &SavedPlan,
        at: Option<&'a str>,
    ) -> Result<Self, Failure> {
        let (plan_id, store_id) = (plan.plan_id.clone(), plan.plan.store_id.clone());
        let time_zone = settings.time_zone()?;
        let now = now(at, &time_zone)?.to_naive_local(&time_zone);
        let reviewer = Self { store, settings, plan_id, store_id, at, time_zone };
        reviewer.beside_runs(|session| {
            session.prepare(&now)?;
            if plan.saved_at.is_empty() {
                session.save_plan(&plan.plan, &BTreeMap::new(), &now)?;
            }
            Ok(())
        })?;
        Ok(reviewer)
    }

    /// Writes to memfold's own tables, also while others are at work.
    fn beside_runs(
        &self,
        write: impl FnOnce(&Session) -> Result<(), StoreError>,
    ) -> Result<(), Failure> {
        let session = open_own_tables(self.store, self.settings)?;
        write(&session).map_err(|error| unwritten(&error))
    }

    /// Puts actions, by position, into a state.
    ///
    /// # Errors
    /// When one was applied meanwhile, or the store cannot be written.
    pub fn decide(&self, positions: &[usize], state: ActionState) -> Result<(), Failure> {
        self.beside_runs(|session| session.decide(&self.plan_id, positions, state))
    }

    /// Changes an action; without another one it is as planned again.
    ///
    /// # Errors
    /// As [`Self::decide`].
    pub fn amend(&self, action: &SavedAction, amended: Option<&Action>) -> Result<(), Failure> {
        self.beside_runs(|session| session.amend(&self.plan_id, action.position, amended))
    }

    /// Rejects an action and keeps its memories apart from now on; returns the run, which can be
    /// undone.
    ///
    /// # Errors
    /// As [`Self::decide`], and when another run holds the store.
    pub fn keep_both(&self, action: &SavedAction) -> Result<String, Failure> {
        let session = open_session(self.store, self.settings)?;
        let now = now(self.at, &self.time_zone)?;
        let request = KeepBothRequest {
            plan_id: &self.plan_id,
            action,
            run_id: &run_id(&self.store_id, now, &action.label()),
            at: &now.to_naive_local(&self.time_zone),
            holder: &machine::holder(),
        };
        keep_both(&session, &request).map_err(|error| unwritten(&error))
    }

    /// Undoes a run of [`Self::keep_both`].
    ///
    /// # Errors
    /// When it cannot be undone.
    pub fn undo(&self, run: &str, listener: &dyn Listener) -> Result<(), Failure> {
        let target = UndoTarget::Run(run.to_owned());
        let request = UndoRequest { remerge_ok: true, ..UndoRequest::default() };
        let undone = undo(self.store, self.settings, &target, &request, self.at, listener)?;
        if undone.executed.applied == 1 {
            return Ok(());
        }
        let conflicts = undone.outcomes.into_iter().flat_map(|outcome| outcome.conflicts);
        let conflicts = conflicts.collect::<Vec<_>>().join("; ");
        let message = format!("failed to take the answer back: {conflicts}");
        Err(Failure { hint: None, ..Failure::plain(message, "") })
    }
}

fn unwritten(error: &StoreError) -> Failure {
    Failure::of("write the answer", error)
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
