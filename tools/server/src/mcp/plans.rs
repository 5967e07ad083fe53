//! Duplicates, plans and runs, as agents ask for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use memfold_core::lifecycle::TierCounts;
use memfold_core::memory::{MemoryId, Status};
use memfold_core::plan::{ActionState, ActionType, SavedAction, SavedPlan};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answers::{Planned, Rest, Said, brief, fitted, notes, shown, whole};
use super::tools::{ListParameters, behind};
use crate::service::{
    ApplyRequest, Job, LATEST, Problem, ProblemKind, RunRequest, ServedStore, Service, UndoRequest,
};

/// A run that takes longer goes on, and the agent asks with `status`.
const RUN_PATIENCE: Duration = Duration::from_secs(50);
/// Runs that `status` lists.
const RUNS_SHOWN: usize = 5;
/// Memories of a unit, and memories in conflict with one.
const UNIT_SHOWN: usize = 3;

/// A run that goes on.
#[derive(Debug, Serialize, JsonSchema)]
struct Pending {
    /// What memory_consolidate with action status calls it.
    run_id: String,
    state: &'static str,
}

/// Memories that say the same.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct DuplicatesResult {
    /// What to apply to merge them, with `plan_digest`.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan_digest: Option<String>,
    /// The state of the store that was read; a new plan sees later memories.
    #[serde(skip_serializing_if = "Option::is_none")]
    planned_for: Option<String>,
    /// The search goes on: ask again with this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pending: Option<Pending>,
    duplicates: Vec<Planned>,
    #[serde(flatten)]
    rest: Rest,
}

pub(super) async fn duplicates(
    service: Arc<Service>,
    asked: ListParameters,
) -> Result<DuplicatesResult, Problem> {
    let on = asked.store.as_deref();
    let known = service.on(on, |store| store.plan(LATEST).map(drop)).await;
    if let Err(problem) = known {
        if problem.kind != ProblemKind::NotFound {
            return Err(problem);
        }
        let job = service.on(on, |store| store.start_run(RunRequest::default())).await?;
        if let Some(pending) = not_over(&job).await? {
            return Ok(DuplicatesResult { pending: Some(pending), ..Default::default() });
        }
    }
    let after = asked.after.clone();
    let work = move |store: &Arc<ServedStore>| {
        let plan = store.plan(LATEST)?;
        let mut result = DuplicatesResult {
            plan_id: Some(plan.plan_id.clone()),
            plan_digest: Some(plan.plan_digest.clone()),
            planned_for: Some(plan.plan.now.clone()),
            ..DuplicatesResult::default()
        };
        let is_listed = |saved: &&SavedAction| {
            let kind = saved.effective().action;
            let is_open = matches!(saved.state, ActionState::Proposed | ActionState::Approved);
            is_open && matches!(kind, ActionType::Merge | ActionType::ProposeMerge)
        };
        let open: Vec<&SavedAction> = plan.actions.iter().filter(is_listed).collect();
        (result.duplicates, result.rest) = planned(store, &result, &open, after.as_deref(), true)?;
        Ok(result)
    };
    service.on(on, work).await
}

/// Actions of a plan after a given one, as far as there is room; with `must_live` only actions on
/// live memories.
fn planned(
    store: &ServedStore,
    answer: &impl Serialize,
    actions: &[&SavedAction],
    after: Option<&str>,
    must_live: bool,
) -> Result<(Vec<Planned>, Rest), Problem> {
    let labels: Vec<String> = actions.iter().map(|saved| saved.label()).collect();
    let start = behind(labels.iter().map(String::as_str), after);
    let mut actions = actions[start..].to_vec();
    let by_id = store.by_id(actions.iter().flat_map(|saved| Planned::targets(saved)))?;
    if must_live {
        let is_live = |id| by_id.get(id).is_some_and(|memory| memory.status == Status::Live);
        actions.retain(|saved| Planned::targets(saved).all(is_live));
    }
    let items = actions.iter().map(|saved| (saved.label(), Planned::of(saved, &by_id)));
    Ok(fitted(answer, actions.len(), items))
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    /// Make a plan; changes no memory.
    Plan,
    /// Apply a plan.
    Apply,
    /// Report on the store, or on a run.
    Status,
    /// Undo a run.
    Undo,
    /// Explain the history of a memory.
    Explain,
}

/// Plan, apply, watch and undo.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConsolidateParameters {
    /// What to do.
    action: Action,
    /// `apply`: the plan, as `plan` named it.
    #[serde(default)]
    plan_id: Option<String>,
    /// `apply`: the digest that `plan` returned.
    #[serde(default)]
    plan_digest: Option<String>,
    /// `apply`: only these actions: labels (`a3`), or `identical`.
    #[serde(default)]
    only: Vec<String>,
    /// `undo`, `status`: the run.
    #[serde(default)]
    run_id: Option<String>,
    /// `explain`: the memory.
    #[serde(default)]
    memory_id: Option<String>,
    /// `plan`: go on behind this action of the plan.
    #[serde(default)]
    after: Option<String>,
    /// The store; by default the first one.
    #[serde(default)]
    store: Option<String>,
}

/// What a consolidation is about: the fields of its action.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(super) struct ConsolidateResult {
    /// `plan`: the argument of `apply`.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan_id: Option<String>,
    /// `plan`: the argument of `apply`.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan_digest: Option<String>,
    /// `plan`: actions by type.
    #[serde(skip_serializing_if = "Option::is_none")]
    planned: Option<BTreeMap<&'static str, u64>>,
    /// The run: the argument of `undo`.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    /// Of the run: `queued` or `running` (ask with action status), `done`, `partial`, `interrupted` or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    /// Of the run: units that were applied, or undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<u64>,
    /// Of the run: units that were left as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<u64>,
    /// Of the run: why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// `status` of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StoreStatus>,
    /// `explain`
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Explained>,
    /// `plan`, `apply`: the actions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    actions: Vec<Planned>,
    /// `undo`: the undone units.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    undone: Vec<UndoneUnit>,
    #[serde(flatten)]
    rest: Rest,
}

/// Where a store stands.
#[derive(Debug, Serialize, JsonSchema)]
struct StoreStatus {
    /// Live memories.
    live: u64,
    tiers: TierCounts,
    open_conflicts: u64,
    /// Why a run is due; `null` where none is.
    due: Option<String>,
    may_write: bool,
    /// The last runs, the latest first.
    runs: Vec<RunLine>,
}

/// A run.
#[derive(Debug, Serialize, JsonSchema)]
struct RunLine {
    run_id: String,
    kind: String,
    state: String,
    started_at: String,
    applied: u64,
    /// Units of it that were undone.
    undone: u64,
}

/// What became of a memory.
#[derive(Debug, Serialize, JsonSchema)]
struct Explained {
    id: String,
    /// `live`, `merged`, `archived`, `expired`, `gone` or `unknown`.
    status: &'static str,
    text: Option<String>,
    created_at: Option<String>,
    categories: Vec<String>,
    /// The live memory that says it now.
    live_id: Option<String>,
    live_text: Option<String>,
    /// The run that merged it.
    merged_by_run: Option<String>,
    /// What was merged into it.
    merged: Vec<Said>,
    /// How many more were merged into it.
    merged_more: u64,
    /// Memories that contradict it, undecided.
    conflicts_with: Vec<String>,
}

/// A unit that was undone, or was not.
#[derive(Debug, Serialize, JsonSchema)]
struct UndoneUnit {
    /// What it had done, by label and type: `a3 merge`.
    what: String,
    memories: Vec<Said>,
    /// Why it was not undone; empty where it was.
    kept_because: Vec<String>,
}

pub(super) async fn consolidate(
    service: Arc<Service>,
    asked: ConsolidateParameters,
) -> Result<ConsolidateResult, Problem> {
    let store = asked.store.clone();
    let on = store.as_deref();
    match asked.action {
        Action::Plan => plan(&service, asked).await,
        Action::Apply => apply(&service, asked).await,
        Action::Undo => {
            let run = asked.run_id.ok_or_else(|| {
                Problem::unprocessable("undo needs run_id")
                    .with_hint("apply returns it, and action status lists the last runs")
            })?;
            let undo =
                move |store: &Arc<ServedStore>| store.start_undo(&run, UndoRequest::default());
            let job = service.on(on, undo).await?;
            if let Some(pending) = not_over(&job).await? {
                return Ok(ConsolidateResult::pending(pending));
            }
            service.on(on, move |store| undone(store, &job)).await
        }
        Action::Status => match asked.run_id {
            Some(run) => service.on(on, move |store| status_of_run(store, &run)).await,
            None => service.on(on, |store| status(store)).await,
        },
        Action::Explain => {
            let id =
                asked.memory_id.ok_or_else(|| Problem::unprocessable("explain needs memory_id"))?;
            service.on(on, move |store| explain(store, &id)).await
        }
    }
}

impl ConsolidateResult {
    fn pending(pending: Pending) -> Self {
        let (run_id, state) = (Some(pending.run_id), Some(pending.state.to_owned()));
        Self { run_id, state, ..Self::default() }
    }

    /// The results of a run, in numbers.
    fn of_job(job: &Job) -> Self {
        let document = job.document();
        let count =
            |name: &str| document.result.as_ref()?.pointer(&format!("/executed/{name}"))?.as_u64();
        Self {
            applied: count("applied"),
            skipped: count("stale").map(|stale| stale + count("failed").unwrap_or(0)),
            // Until it ends a job goes by its own id; one that wrote nothing left no run to name.
            run_id: document
                .run_id
                .clone()
                .or_else(|| document.finished_at.is_none().then_some(document.id)),
            state: Some(document.state.name().to_owned()),
            problem: document.problem.map(|problem| shown(&problem.detail)),
            ..Self::default()
        }
    }
}

/// The units in the result of a job.
fn units<T: DeserializeOwned>(job: &Job) -> Vec<T> {
    let result = job.document().result.unwrap_or_default();
    let units = result.get("units").and_then(Value::as_array).cloned().unwrap_or_default();
    units.into_iter().filter_map(|unit| serde_json::from_value(unit).ok()).collect()
}

async fn plan(
    service: &Service,
    asked: ConsolidateParameters,
) -> Result<ConsolidateResult, Problem> {
    let on = asked.store.as_deref();
    if asked.after.is_none() {
        let start = |store: &Arc<ServedStore>| {
            let save_plan = store.may_write().is_ok();
            store.start_run(RunRequest { save_plan, ..RunRequest::default() })
        };
        let job = service.on(on, start).await?;
        if let Some(pending) = not_over(&job).await? {
            return Ok(ConsolidateResult::pending(pending));
        }
    }
    let work = move |store: &Arc<ServedStore>| {
        let plan = store.plan(LATEST)?;
        let mut counts = BTreeMap::new();
        for saved in plan.changes() {
            *counts.entry(saved.effective().action.name()).or_default() += 1;
        }
        let mut result = ConsolidateResult {
            plan_id: Some(plan.plan_id.clone()),
            plan_digest: Some(plan.plan_digest.clone()),
            planned: Some(counts),
            ..ConsolidateResult::default()
        };
        let changes: Vec<&SavedAction> = plan.changes().collect();
        let after = asked.after.as_deref();
        (result.actions, result.rest) = planned(store, &result, &changes, after, false)?;
        Ok(result)
    };
    service.on(on, work).await
}

/// A unit as the document of an apply tells it.
#[derive(Debug, Deserialize)]
struct AppliedUnit {
    actions: String,
    result: String,
    reason: Option<String>,
}

async fn apply(
    service: &Service,
    asked: ConsolidateParameters,
) -> Result<ConsolidateResult, Problem> {
    let on = asked.store.as_deref();
    let (id, digest) = asked.plan_id.zip(asked.plan_digest).ok_or_else(|| {
        Problem::new(ProblemKind::DigestMissing, "apply needs plan_id and plan_digest")
            .with_hint("call it with action plan first, and look at what it returns")
    })?;
    let request = ApplyRequest { only: asked.only, ..ApplyRequest::default() };
    let start = move |store: &Arc<ServedStore>| {
        // Afterwards a plan that no store holds is gone.
        let plan = store.plan_with(&id, &digest)?;
        Ok((store.start_apply(&id, &digest, request)?, plan))
    };
    let (job, plan) = service.on(on, start).await?;
    if let Some(pending) = not_over(&job).await? {
        return Ok(ConsolidateResult::pending(pending));
    }
    service.on(on, move |store| applied(store, &job, &plan)).await
}

fn applied(store: &ServedStore, job: &Job, plan: &SavedPlan) -> Result<ConsolidateResult, Problem> {
    let mut result = ConsolidateResult::of_job(job);
    let mut became = BTreeMap::new();
    for unit in units::<AppliedUnit>(job) {
        for label in unit.actions.split_whitespace() {
            let state = match &*unit.result {
                "applied" => ActionState::Applied.name(),
                "stale" => ActionState::Stale.name(),
                _ => "failed",
            };
            became.insert(label.to_owned(), (state, unit.reason.clone()));
        }
    }
    let tried: Vec<&SavedAction> =
        plan.changes().filter(|saved| became.contains_key(&saved.label())).collect();
    let by_id = store.by_id(tried.iter().flat_map(|saved| Planned::targets(saved)))?;
    let items = tried.iter().map(|saved| {
        let (state, reason) = &became[&saved.label()];
        let item = Planned::of(saved, &by_id).with_state(state, reason.as_deref());
        (saved.label(), item)
    });
    (result.actions, result.rest) = fitted(&result, tried.len(), items);
    Ok(result)
}

/// A unit as the document of an undo tells it.
#[derive(Debug, Deserialize)]
struct RevertedUnit {
    what: String,
    ids: Vec<String>,
    conflicts: Vec<String>,
}

fn undone(store: &ServedStore, job: &Job) -> Result<ConsolidateResult, Problem> {
    let mut result = ConsolidateResult::of_job(job);
    let units: Vec<RevertedUnit> = units(job);
    let ids = |unit: &RevertedUnit| -> Vec<MemoryId> {
        unit.ids.iter().take(UNIT_SHOWN).map(|id| MemoryId::new(&**id)).collect()
    };
    let all: Vec<MemoryId> = units.iter().flat_map(ids).collect();
    let by_id = store.by_id(&all)?;
    let items = units.iter().enumerate().map(|(at, unit)| {
        let memories = ids(unit).iter().map(|id| Said::of(id, &by_id)).collect();
        let item =
            UndoneUnit { what: unit.what.clone(), memories, kept_because: notes(&unit.conflicts) };
        (at.to_string(), item)
    });
    (result.undone, result.rest) = fitted(&result, units.len(), items);
    Ok(result)
}

fn status_of_run(store: &ServedStore, run: &str) -> Result<ConsolidateResult, Problem> {
    if let Some(job) = store.job(run) {
        let document = job.document();
        let (plan_id, plan_digest) = (document.plan_id, document.plan_digest);
        return Ok(ConsolidateResult { plan_id, plan_digest, ..ConsolidateResult::of_job(&job) });
    }
    let run = store.run(run)?;
    Ok(ConsolidateResult {
        run_id: Some(run.run_id),
        state: Some(run.state),
        plan_id: run.plan_id,
        applied: Some(run.executed.applied),
        skipped: Some(run.executed.stale + run.executed.failed),
        ..ConsolidateResult::default()
    })
}

fn status(store: &ServedStore) -> Result<ConsolidateResult, Problem> {
    let status = store.status()?;
    let tiers = status.tiers.counts();
    let line = |run: &memfold_core::runs::RunSummary| RunLine {
        run_id: run.run_id.clone(),
        kind: run.kind.clone(),
        state: run.state.clone(),
        started_at: run.started_at.clone(),
        applied: run.executed.applied,
        undone: run.undone,
    };
    let status = StoreStatus {
        live: tiers.total(),
        tiers,
        open_conflicts: status.open_flags,
        due: status.due.map(|reason| reason.to_string()),
        may_write: store.may_write().is_ok(),
        runs: status.runs.iter().rev().take(RUNS_SHOWN).map(line).collect(),
    };
    Ok(ConsolidateResult { status: Some(status), ..ConsolidateResult::default() })
}

fn explain(store: &ServedStore, id: &str) -> Result<ConsolidateResult, Problem> {
    let explained = store.explain(id)?;
    let resolved = &explained.resolved;
    let tree = &explained.merged;
    let merged: Vec<&MemoryId> = tree.shown.iter().map(|b| &b.merge.merged).collect();
    let by_id = store.by_id([&resolved.id, resolved.last()].into_iter().chain(merged.clone()))?;
    let text = |id| by_id.get(id).map(|memory| &*memory.content);
    let live = resolved.live_id();
    let memory = explained.memory.as_ref();
    let open = explained.flags.shown.iter().filter(|flag| flag.state == "open");
    let categories = memory.map(|memory| &memory.categories[..]).unwrap_or_default();
    let mut memory = Explained {
        id: resolved.id.to_string(),
        status: match resolved.status {
            Status::Merged => "merged",
            Status::Moved if live.is_some() => "merged",
            Status::Moved => "archived",
            other => other.name(),
        },
        text: text(&resolved.id).map(whole),
        created_at: memory.and_then(|memory| memory.created_at.clone()),
        categories: categories.iter().take(8).map(|name| brief(name)).collect(),
        live_id: live.map(ToString::to_string),
        live_text: live.filter(|live| **live != resolved.id).and_then(text).map(shown),
        merged_by_run: resolved.merges.first().and_then(|merge| merge.run_id.clone()),
        conflicts_with: open.map(|flag| flag.other.to_string()).take(UNIT_SHOWN).collect(),
        merged: Vec::new(),
        merged_more: 0,
    };
    let items = merged.iter().map(|id| (id.to_string(), Said::of(id, &by_id)));
    let (merged, rest) = fitted(&memory, merged.len(), items);
    (memory.merged, memory.merged_more) = (merged, rest.more + tree.more);
    Ok(ConsolidateResult { memory: Some(memory), ..ConsolidateResult::default() })
}

/// Waits for a run; returns it where it goes on, and nothing where it is over and did not fail.
async fn not_over(job: &Job) -> Result<Option<Pending>, Problem> {
    if !job.wait(RUN_PATIENCE).await {
        return Ok(Some(Pending { run_id: job.id.clone(), state: job.state().name() }));
    }
    job.problem().map_or(Ok(None), Err)
}
