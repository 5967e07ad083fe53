//! The six tools: their descriptions, their parameters, and what they do.

use std::sync::Arc;
use std::time::Duration;

use memfold_model::memory::MemoryId;
use memfold_plan::plan::{ActionState, ActionType, SavedAction, SavedPlan};
use rmcp::handler::server::tool::schema_for_type;
use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answers::{object, shown, with_list};
use crate::service::{
    ApplyRequest, Job, MemoryRequest, Problem, ProblemKind, RunRequest, ServedStore, Service,
    SettledAs, UndoRequest,
};

/// A run that takes longer goes on, and the agent asks with `status`.
const RUN_PATIENCE: Duration = Duration::from_secs(50);

const CHECK: &str = "memory_check";
const DUPLICATES: &str = "memory_duplicates";
const CONFLICTS: &str = "memory_conflicts";
const CONSOLIDATE: &str = "memory_consolidate";
const RESOLVE: &str = "memory_resolve";
const CONTEXT: &str = "memory_session_context";

/// Is this known already? Writes nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CheckParameters {
    /// What the memory would say.
    text: String,
    /// Its categories.
    #[serde(default)]
    categories: Vec<String>,
    /// Whose memory it is.
    #[serde(default)]
    user_id: Option<String>,
    /// The store; by default the first one.
    #[serde(default)]
    store: Option<String>,
}

/// Which of the waiting duplicates or conflicts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ListParameters {
    /// Go on behind this one: `next_after` of the answer before.
    after: Option<String>,
    /// The store; by default the first one.
    store: Option<String>,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    /// Make a plan; changes no memory.
    Plan,
    /// Carry out a plan.
    Apply,
    /// Say where the store, or a run, stands.
    Status,
    /// Take back what a run did.
    Undo,
    /// Say what became of a memory.
    Explain,
}

/// Plan, apply, watch and undo.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ConsolidateParameters {
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

/// Settle a conflict, or find what a memory was merged into.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ResolveParameters {
    /// The conflict, as memory_conflicts names it.
    key: Option<String>,
    /// How it is settled.
    settlement: Option<SettledAs>,
    /// Or a memory: under which id it lives on.
    memory_id: Option<String>,
    /// The store; by default the first one.
    store: Option<String>,
}

/// Where a session starts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ContextParameters {
    /// The working directory: what concerns it comes first.
    directory: String,
    /// The git branch.
    branch: String,
    /// The store; by default the first one.
    store: Option<String>,
}

/// The tools, in the order in which an agent needs them.
pub(super) fn list() -> Vec<Tool> {
    let read = || ToolAnnotations::new().read_only(true).open_world(false);
    let write = |destructive, idempotent| {
        let hints = ToolAnnotations::new().read_only(false).open_world(false);
        hints.destructive(destructive).idempotent(idempotent)
    };
    vec![
        Tool::new(
            CHECK,
            "Tells whether a memory is known already: insert, touch, replace or insert_and_flag, \
             with the memories alike. Writes nothing.",
            schema_for_type::<CheckParameters>(),
        )
        .with_annotations(read()),
        Tool::new(
            DUPLICATES,
            "Lists the groups of memories that say the same and wait, from the latest plan: merges \
             that are proven and proposals that are not.",
            schema_for_type::<ListParameters>(),
        )
        .with_annotations(read()),
        Tool::new(
            CONFLICTS,
            "Lists pairs of memories that contradict each other and wait for a decision.",
            schema_for_type::<ListParameters>(),
        )
        .with_annotations(read()),
        Tool::new(
            CONSOLIDATE,
            "Finds duplicates and merges them without losing a fact. action plan: what would be \
             done, with a digest. apply: carry a plan out, given its digest. status: where the \
             store or a run stands. undo: take a run back. explain: what became of a memory.",
            schema_for_type::<ConsolidateParameters>(),
        )
        // What is applied can be undone.
        .with_annotations(write(true, true)),
        Tool::new(
            RESOLVE,
            "Settles a conflict (key and settlement), or tells under which id a memory lives on \
             (memory_id).",
            schema_for_type::<ResolveParameters>(),
        )
        .with_annotations(write(true, false)),
        Tool::new(
            CONTEXT,
            "Returns the block of memories that a session starts with, at most 2,000 tokens.",
            schema_for_type::<ContextParameters>(),
        )
        .with_annotations(read()),
    ]
}

pub(super) fn is_known(name: &str) -> bool {
    [CHECK, DUPLICATES, CONFLICTS, CONSOLIDATE, RESOLVE, CONTEXT].contains(&name)
}

/// Calls a tool.
pub(super) async fn call(
    service: &Arc<Service>,
    name: &str,
    arguments: JsonObject,
) -> Result<Value, Problem> {
    match name {
        CHECK => check(service, parse(arguments)?).await,
        DUPLICATES => duplicates(service, parse(arguments)?).await,
        CONFLICTS => conflicts(service, parse(arguments)?).await,
        CONSOLIDATE => consolidate(service, parse(arguments)?).await,
        RESOLVE => resolve(service, parse(arguments)?).await,
        _ => context(service, parse(arguments)?).await,
    }
}

fn parse<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, Problem> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        Problem::unprocessable(format!("the arguments are not what is expected: {error}"))
    })
}

async fn check(service: &Service, asked: CheckParameters) -> Result<Value, Problem> {
    let CheckParameters { text, categories, user_id, store } = asked;
    let request =
        MemoryRequest { text: Some(text), categories, user_id, ..MemoryRequest::default() };
    let metrics = Arc::clone(&service.metrics);
    let check = service.on(store.as_deref(), move |store| {
        let check = store.check(request)?;
        metrics.checked(&store.name, "check", &check);
        Ok(check)
    });
    let check = check.await?;
    let answer = object(json!({
        "decision": check.decision.name(),
        "reason": shown(&check.reason),
        "checked": check.checked,
        "coverage": check.coverage,
        "matches_total": check.matches_total,
        "notes": check.notes.iter().map(|note| shown(note)).collect::<Vec<_>>(),
    }));
    let matches = check.matches.iter().map(|found| {
        let item = json!({
            "id": found.id.as_str(),
            "similarity": found.similarity,
            "verdict": found.verdict,
            "differences": found.differences.iter().take(3).map(|d| shown(d)).collect::<Vec<_>>(),
        });
        (found.id.to_string(), item)
    });
    Ok(with_list(answer, "matches", matches))
}

async fn duplicates(service: &Service, asked: ListParameters) -> Result<Value, Problem> {
    let store = service.store(asked.store.as_deref())?;
    let known = service.on(asked.store.as_deref(), |store| store.plan("latest")).await;
    let plan = match known {
        Err(problem) if problem.kind == ProblemKind::NotFound => {
            let job = service
                .on(asked.store.as_deref(), |store| store.start_run(RunRequest::default()))
                .await?;
            if let Some(answer) = not_over(&job).await? {
                return Ok(answer);
            }
            store.plan("latest")?
        }
        known => known?,
    };
    let is_listed = |action: &&SavedAction| {
        matches!(action.effective().action, ActionType::Merge | ActionType::ProposeMerge)
            && matches!(
                action.state,
                ActionState::Proposed | ActionState::Approved | ActionState::Stale
            )
    };
    let actions = plan.actions.iter().filter(is_listed);
    Ok(with_list(plan_head(&plan), "duplicates", behind(actions, asked.after.as_deref())))
}

fn plan_head(plan: &SavedPlan) -> serde_json::Map<String, Value> {
    object(json!({
        "plan_id": plan.plan_id,
        "plan_digest": plan.plan_digest,
        "planned_for": plan.plan.now,
    }))
}

/// The actions behind one, as items.
fn behind<'p>(
    actions: impl Iterator<Item = &'p SavedAction>,
    after: Option<&str>,
) -> impl Iterator<Item = (String, Value)> {
    let after = after.and_then(|label| label.strip_prefix('a')?.parse::<usize>().ok());
    let actions = actions.filter(move |action| after.is_none_or(|after| action.position >= after));
    actions.map(|saved| (saved.label(), action_item(saved)))
}

fn action_item(saved: &SavedAction) -> Value {
    let action = saved.effective();
    let evidence = &action.rationale.evidence;
    json!({
        "action": saved.label(),
        "type": action.action.name(),
        "risk": action.risk.name(),
        "state": saved.state.name(),
        "ids": action.target_ids.iter().take(8).map(MemoryId::as_str).collect::<Vec<_>>(),
        "memories": action.target_ids.len(),
        "similarity": evidence.similarity,
        "differences": evidence.differences.iter().take(2).map(|d| shown(d)).collect::<Vec<_>>(),
    })
}

async fn conflicts(service: &Service, asked: ListParameters) -> Result<Value, Problem> {
    let pairs = service.on(asked.store.as_deref(), |store| store.flags()).await?;
    let total = pairs.len();
    let start = asked.after.and_then(|after| pairs.iter().position(|pair| pair.key == after));
    let pairs = pairs.iter().skip(start.map_or(0, |at| at + 1)).map(|pair| {
        let item = json!({
            "key": pair.key,
            "kind": pair.kind.name(),
            "ids": pair.ids,
            "texts": pair.texts.iter().map(|t| t.as_deref().map(shown)).collect::<Vec<_>>(),
            "created_at": pair.created_at,
            "score": pair.score,
        });
        (pair.key.clone(), item)
    });
    Ok(with_list(object(json!({ "conflicts_total": total })), "conflicts", pairs))
}

async fn consolidate(service: &Service, asked: ConsolidateParameters) -> Result<Value, Problem> {
    let name = asked.store.clone();
    let on = name.as_deref();
    match asked.action {
        Action::Plan => plan(service, &asked).await,
        Action::Apply => {
            let (plan, digest) = asked.plan_id.zip(asked.plan_digest).ok_or_else(|| {
                Problem::new(ProblemKind::DigestMissing, "apply needs plan_id and plan_digest")
                    .with_hint("call it with action plan first, and look at what it returns")
            })?;
            let request = ApplyRequest { only: asked.only, ..ApplyRequest::default() };
            let job = service.on(on, move |store| store.start_apply(&plan, &digest, request));
            let job = job.await?;
            ended(&job).await
        }
        Action::Undo => {
            let run = asked.run_id.ok_or_else(|| {
                Problem::unprocessable("undo needs run_id")
                    .with_hint("apply returns it, and action status lists the last runs")
            })?;
            let undo =
                move |store: &Arc<ServedStore>| store.start_undo(&run, UndoRequest::default());
            let job = service.on(on, undo).await?;
            ended(&job).await
        }
        Action::Status => match asked.run_id {
            Some(run) => status_of_run(service, on, run).await,
            None => status(service, on).await,
        },
        Action::Explain => {
            let id =
                asked.memory_id.ok_or_else(|| Problem::unprocessable("explain needs memory_id"))?;
            let explained = service.on(on, move |store| store.explain(&id)).await?;
            let explained = serde_json::to_value(&explained).unwrap_or_default();
            Ok(shortened(explained))
        }
    }
}

async fn plan(service: &Service, asked: &ConsolidateParameters) -> Result<Value, Problem> {
    let on = asked.store.as_deref();
    let store = service.store(on)?;
    if asked.after.is_none() {
        let request = RunRequest { save_plan: store.may_write().is_ok(), ..Default::default() };
        let job = service.on(on, move |store| store.start_run(request)).await?;
        if let Some(answer) = not_over(&job).await? {
            return Ok(answer);
        }
    }
    let plan = service.on(on, |store| store.plan("latest")).await?;
    let mut head = plan_head(&plan);
    let mut counts = serde_json::Map::new();
    for action in plan.changes() {
        let name = action.effective().action.name();
        let count = counts.get(name).and_then(Value::as_u64).unwrap_or(0) + 1;
        counts.insert(name.to_owned(), count.into());
    }
    head.insert("planned".to_owned(), counts.into());
    Ok(with_list(head, "actions", behind(plan.changes(), asked.after.as_deref())))
}

/// What to tell where a run goes on; nothing where it is over and did not fail.
async fn not_over(job: &Job) -> Result<Option<Value>, Problem> {
    if !job.wait(RUN_PATIENCE).await {
        return Ok(Some(json!({
            "run_id": job.id,
            "state": job.state().name(),
            "hint": "ask again with action status and this run_id",
        })));
    }
    job.problem().map_or(Ok(None), Err)
}

/// Waits for the end of a run, and tells what it did.
async fn ended(job: &Job) -> Result<Value, Problem> {
    if let Some(answer) = not_over(job).await? {
        return Ok(answer);
    }
    let document = job.document();
    let result = document.result.unwrap_or_default();
    let head = object(json!({
        "run_id": document.run_id,
        "state": document.state.name(),
        "executed": result.get("executed"),
        "remaining": result.get("remaining"),
    }));
    let units = result.get("units").and_then(Value::as_array).cloned().unwrap_or_default();
    let units = units.into_iter().enumerate().map(|(at, unit)| (at.to_string(), shortened(unit)));
    Ok(with_list(head, "units", units))
}

async fn status_of_run(service: &Service, on: Option<&str>, run: String) -> Result<Value, Problem> {
    let store = service.store(on)?;
    if let Some(job) = store.job(&run) {
        let document = job.document();
        return Ok(json!({
            "run_id": document.run_id.unwrap_or(document.id),
            "state": document.state.name(),
            "stage": document.stage,
            "plan_id": document.plan_id,
            "plan_digest": document.plan_digest,
            "problem": document.problem.map(|problem| shown(&problem.detail)),
        }));
    }
    let summary = service.on(on, move |store| store.run(&run)).await?;
    Ok(shortened(serde_json::to_value(summary).unwrap_or_default()))
}

async fn status(service: &Service, on: Option<&str>) -> Result<Value, Problem> {
    let status = service.on(on, |store| {
        let status = store.status()?;
        let runs = store.runs()?.runs;
        let document = serde_json::to_value(status.document()).unwrap_or_default();
        Ok((document, runs))
    });
    let (status, runs) = status.await?;
    let runs = runs.iter().rev().take(5).map(|run| {
        let item = json!({
            "run_id": run.run_id, "kind": run.kind, "state": run.state,
            "started_at": run.started_at, "applied": run.executed.applied, "undone": run.undone,
        });
        (run.run_id.clone(), item)
    });
    let mut head = serde_json::Map::new();
    for name in ["live", "tiers", "open_flags", "is_due", "reason", "new_memories"] {
        head.insert(name.to_owned(), status.get(name).cloned().unwrap_or_default());
    }
    head.insert("may_write".to_owned(), service.store(on)?.may_write().is_ok().into());
    Ok(with_list(head, "runs", runs))
}

async fn resolve(service: &Service, asked: ResolveParameters) -> Result<Value, Problem> {
    let on = asked.store.as_deref();
    match (asked.key, asked.settlement, asked.memory_id) {
        (Some(key), Some(settlement), None) => {
            let settled = service.on(on, move |store| store.settle(&key, settlement)).await?;
            let (run_id, settled) = settled;
            let settled = serde_json::to_value(&settled).unwrap_or_default();
            Ok(json!({ "run_id": run_id, "settled": shortened(settled) }))
        }
        (None, None, Some(id)) => {
            let resolved = service.on(on, move |store| store.resolve(&id)).await?;
            let live = resolved.live_id().map(MemoryId::as_str);
            Ok(json!({ "memory_id": resolved.id.as_str(), "live_id": live,
                       "last": resolved.last().as_str(), "end": resolved.end }))
        }
        _ => Err(Problem::unprocessable("give key and settlement, or memory_id")
            .with_hint("memory_conflicts lists the keys")),
    }
}

async fn context(service: &Service, asked: ContextParameters) -> Result<Value, Problem> {
    let ContextParameters { directory, branch, store } = asked;
    let block =
        service.on(store.as_deref(), move |store| store.session_context(&directory, &branch));
    Ok(block.await?.into())
}

/// Longest list within an answer.
const ITEMS_SHOWN: usize = 5;

/// Shortens texts and lists within a value.
fn shortened(value: Value) -> Value {
    match value {
        Value::String(text) => shown(&text).into(),
        Value::Array(items) => items.into_iter().take(ITEMS_SHOWN).map(shortened).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (name, shortened(value))).collect()
        }
        other => other,
    }
}
