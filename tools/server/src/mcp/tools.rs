//! The eight tools: their descriptions, their parameters and answers, and their functions.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use memfold::ops::SettledDocument;
use memfold::quick_check::{Check, Decision, Saved};
use memfold::settle::Settlement;
use memfold_core::memory::{Memory, MemoryId};
use rmcp::ErrorData;
use rmcp::handler::server::tool::schema_for_type;
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::{Instrument as _, info_span};

use super::answers::{Conflict, Rest, Said, Similar, brief, few, fitted, notes, refused, shown};
use super::plans::{consolidate, duplicates};
use super::{Agent, AgentTool};
use crate::service::{
    Incoming, Problem, ProblemKind, RecallMode, RecallRequest, SaveAnswer, ServedStore, Service,
};

/// Instructions for an agent when it connects.
const INSTRUCTIONS: &str = "\
Memories of this agent. memory_session_context returns what a session should start with, \
memory_recall answers a question, memory_save saves a fact once and says whether it was known, \
replaced an older wording or contradicts a memory; memory_resolve settles such a conflict. To clean \
up: memory_consolidate with action plan returns what would be done and its digest; action apply does \
it, given that digest; action undo undoes a run. Nothing is merged that differs in a fact.";

/// Conflicts of a save, and memories that it replaced.
const SAVED_SHOWN: usize = 2;

/// The effects of a tool.
struct Hints {
    reads_only: bool,
    destroys: bool,
    idempotent: bool,
}

const READS: Hints = Hints { reads_only: true, destroys: false, idempotent: true };

/// Makes a tool with the schemas of its parameters and of its answer.
fn tool<P, A, F>(
    service: &Arc<Service>,
    name: &'static str,
    title: &'static str,
    description: &'static str,
    hints: Hints,
    call: fn(Arc<Service>, P) -> F,
) -> AgentTool
where
    P: DeserializeOwned + JsonSchema + Any + Send,
    A: Serialize + JsonSchema + Any,
    F: Future<Output = Result<A, Problem>> + Send + 'static,
{
    let annotations = ToolAnnotations::with_title(title)
        .read_only(hints.reads_only)
        .destructive(hints.destroys)
        .idempotent(hints.idempotent)
        .open_world(false);
    let tool = Tool::new(name, description, schema_for_type::<P>())
        .with_title(title)
        .with_output_schema::<A>()
        .with_annotations(annotations);
    let service = Arc::clone(service);
    let call = move |arguments: JsonObject| {
        let service = Arc::clone(&service);
        let work = async move {
            let answer = answer(Arc::clone(&service), call, arguments).await;
            service.metrics.tool(name, answer.is_err());
            answer.map_or_else(
                |problem| CallToolResult::error(vec![ContentBlock::text(refused(&problem))]),
                result,
            )
        };
        let work: futures_util::future::BoxFuture<'static, CallToolResult> =
            Box::pin(work.instrument(info_span!("mcp.tool", tool = name)));
        work
    };
    AgentTool { tool, call: Box::new(call) }
}

async fn answer<P: DeserializeOwned, A: Serialize, F: Future<Output = Result<A, Problem>>>(
    service: Arc<Service>,
    call: fn(Arc<Service>, P) -> F,
    arguments: JsonObject,
) -> Result<Value, Problem> {
    let asked = serde_json::from_value(Value::Object(arguments))
        .map_err(|error| Problem::unprocessable(format!("the arguments do not fit: {error}")))?;
    serde_json::to_value(call(service, asked).await?)
        .map_err(|error| Problem::new(ProblemKind::Failed, error.to_string()))
}

fn result(document: Value) -> CallToolResult {
    // A block for a prompt, which escapes would lengthen.
    let text = document["context"].as_str().map(ContentBlock::text);
    let mut result = CallToolResult::structured(document);
    if let Some(text) = text {
        result.content = vec![text];
    }
    result
}

/// Returns the tools, in the order in which an agent needs them.
#[expect(clippy::too_many_lines, reason = "one table of all tools")]
pub(crate) fn agent(service: &Arc<Service>) -> Agent {
    let tools = [
        tool(
            service,
            "memory_save",
            "Save a memory",
            "Saves a memory after checking it against the others: inserts it, counts it as one that \
             is there, lets it replace an older wording, or flags a conflict. Says which and why.",
            Hints { reads_only: false, destroys: false, idempotent: true },
            save,
        ),
        tool(
            service,
            "memory_recall",
            "Recall memories",
            "Finds the memories that answer a question, with conflicts that are open and what \
             replaced them.",
            READS,
            recall,
        ),
        tool(
            service,
            "memory_check",
            "Check a memory",
            "Says what saving a memory would do, with the memories alike. Writes nothing.",
            READS,
            check,
        ),
        tool(
            service,
            "memory_duplicates",
            "List duplicates",
            "Lists memories of the latest plan that say the same: merges that are proven, and \
             proposals that are not.",
            READS,
            duplicates,
        ),
        tool(
            service,
            "memory_conflicts",
            "List conflicts",
            "Lists pairs of memories that contradict each other and need a decision.",
            READS,
            conflicts,
        ),
        tool(
            service,
            "memory_consolidate",
            "Consolidate memories",
            "Merges duplicates without losing a fact. action plan: what would be done, and its \
             digest. apply: do it, given plan_id and plan_digest. status: the store, or the run \
             run_id. undo: undo the run run_id. explain: what became of memory_id.",
            Hints { reads_only: false, destroys: true, idempotent: true },
            consolidate,
        ),
        tool(
            service,
            "memory_resolve",
            "Resolve a conflict",
            "Settles a conflict that memory_conflicts lists: keep both, merge, or say which one \
             holds. Can be undone.",
            Hints { reads_only: false, destroys: true, idempotent: false },
            resolve,
        ),
        tool(
            service,
            "memory_session_context",
            "Start a session",
            "Returns the block of memories that a session starts with, at most 2,000 tokens.",
            READS,
            context,
        ),
    ];
    let unknown =
        |name: &str| Err(ErrorData::invalid_params(format!("there is no tool {name:?}"), None));
    Agent { instructions: Some(INSTRUCTIONS), tools: tools.into(), unknown }
}

/// A memory to save.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SaveParameters {
    /// What the memory says: one fact, understood without the conversation.
    text: String,
    /// Its categories.
    #[serde(default)]
    categories: Vec<String>,
    /// Whose memory it is: memories of two users are never merged.
    #[serde(default)]
    user_id: Option<String>,
    /// How important it is, 0 to 3; by default 1.
    #[serde(default)]
    importance: Option<f64>,
    /// The store; by default the first one.
    #[serde(default)]
    store: Option<String>,
}

/// What a save did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Did {
    /// It is a new memory.
    Inserted,
    /// It is there already: no new memory.
    CountedAsSame,
    /// It replaced a memory that says no more than it does.
    ReplacedOlderWording,
    /// It contradicts a memory: both stay until somebody decides.
    FlaggedConflict,
    /// It is a new memory, like one that it was not proven to be the same as.
    InsertedBesideSimilar,
}

/// What a save did, and why.
#[derive(Debug, Serialize, JsonSchema)]
struct SaveResult {
    did: Did,
    /// The same in a sentence, and the possible next steps.
    summary: String,
    /// The memory that says it now.
    id: String,
    /// What that memory says.
    text: Option<String>,
    reason: String,
    /// The run by which it can be undone.
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    /// The memories that it replaced.
    replaced: Vec<Said>,
    /// Decisions that are open about it.
    conflicts: Vec<Conflict>,
    notes: Vec<String>,
    /// Memories alike.
    similar: Vec<Similar>,
    #[serde(flatten)]
    rest: Rest,
}

async fn save(service: Arc<Service>, asked: SaveParameters) -> Result<SaveResult, Problem> {
    let SaveParameters { text, categories, user_id, importance, store } = asked;
    let request =
        Incoming { text: Some(text), categories, user_id, importance, ..Incoming::default() };
    service
        .on(store.as_deref(), move |store| match store.save(request, None)? {
            SaveAnswer::Now(saved) => SaveResult::of(&saved, store),
            SaveAnswer::Before(_) => Err(Problem::new(ProblemKind::Failed, "the save has no name")),
        })
        .await
}

impl SaveResult {
    fn of(saved: &Saved, store: &ServedStore) -> Result<Self, Problem> {
        let check = &saved.check;
        let by_id = store.by_id(said_of(check).chain(&saved.replaced).chain([&saved.id]))?;
        let is_flagged = matches!(check.decision, Decision::InsertAndFlag | Decision::TouchAndFlag);
        let open = if is_flagged { store.flags()? } else { Vec::new() };
        let open = open.iter().filter(|pair| pair.ids.iter().any(|id| *id == saved.id.as_str()));
        let conflicts: Vec<Conflict> =
            open.take(SAVED_SHOWN).map(|pair| Conflict::of(pair, store)).collect();
        let did = match check.decision {
            Decision::Insert => Did::Inserted,
            Decision::Touch => Did::CountedAsSame,
            Decision::Replace => Did::ReplacedOlderWording,
            Decision::TouchAndFlag => Did::FlaggedConflict,
            Decision::InsertAndFlag if conflicts.iter().any(Conflict::is_contradiction) => {
                Did::FlaggedConflict
            }
            Decision::InsertAndFlag => Did::InsertedBesideSimilar,
        };
        let summary = match did {
            Did::Inserted => "saved as a new memory",
            Did::CountedAsSame => {
                "known already: counted as the same memory, nothing new was saved"
            }
            Did::ReplacedOlderWording => "saved in the place of an older wording; undo with run_id",
            Did::FlaggedConflict => {
                "it contradicts what is known: both stay until memory_resolve settles the key"
            }
            Did::InsertedBesideSimilar => {
                "saved; it is like another memory, and whether they say the same is open: settle \
                 the key with memory_resolve, or leave it to a later run"
            }
        };
        let replaced = saved.replaced.iter().take(SAVED_SHOWN).map(|id| Said::of(id, &by_id));
        let mut result = Self {
            did,
            summary: summary.to_owned(),
            id: saved.id.to_string(),
            text: by_id.get(&saved.id).map(|memory| &*memory.content).map(shown),
            reason: shown(&check.reason),
            run_id: saved.run_id.clone(),
            replaced: replaced.collect(),
            conflicts,
            notes: notes(&check.notes),
            similar: Vec::new(),
            rest: Rest::default(),
        };
        (result.similar, result.rest) = similar(&result, check, &by_id, 0);
        Ok(result)
    }
}

fn said_of(check: &Check) -> impl Iterator<Item = &MemoryId> {
    check.matches.iter().map(|found| &found.id)
}

fn similar(
    answer: &impl Serialize,
    check: &Check,
    by_id: &BTreeMap<MemoryId, Memory>,
    start: usize,
) -> (Vec<Similar>, Rest) {
    let found = check.matches.iter().skip(start).map(|found| {
        let item = Similar {
            memory: Said::of(&found.id, by_id),
            similarity: found.similarity,
            verdict: found.verdict.map(|verdict| verdict.name()),
            differences: few(&found.differences),
        };
        (found.id.to_string(), item)
    });
    fitted(answer, check.matches.len() - start, found)
}

/// A question.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RecallParameters {
    /// What is asked, in words.
    query: String,
    /// How far to look: `standard`, `deep` (old memories too) or `exhaustive` (merged ones too).
    #[serde(default)]
    mode: RecallMode,
    /// Memories at most, up to 100; by default 10.
    #[serde(default)]
    limit: Option<usize>,
    /// Only memories of all these categories.
    #[serde(default)]
    categories: Vec<String>,
    /// Only memories of this user.
    #[serde(default)]
    user_id: Option<String>,
    /// Go on behind this memory: `next_after` of the answer before.
    #[serde(default)]
    after: Option<String>,
    /// The store; by default the first one.
    #[serde(default)]
    store: Option<String>,
}

/// Memories that a recall returns at most.
const RECALLED_MAX: usize = 100;

/// A memory that was recalled.
#[derive(Debug, Serialize, JsonSchema)]
struct RecalledItem {
    id: String,
    text: String,
    created_at: Option<String>,
    categories: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    similarity: Option<f64>,
    /// It no longer holds: this memory does.
    #[serde(skip_serializing_if = "Option::is_none")]
    superseded_by: Option<String>,
    /// It is not live: this memory says it now.
    #[serde(skip_serializing_if = "Option::is_none")]
    merged_into: Option<String>,
    /// Memories that contradict it, undecided; memory_conflicts has the keys.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conflicts_with: Vec<String>,
}

/// A time that was worked out.
#[derive(Debug, Serialize, JsonSchema)]
struct TimeAnswer {
    answer: Option<String>,
    /// From 0 to 1.
    confidence: f32,
    /// The steps, as sentences.
    steps: Vec<String>,
}

/// What was recalled.
#[derive(Debug, Serialize, JsonSchema)]
struct RecallResult {
    /// The time that the question asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<TimeAnswer>,
    notes: Vec<String>,
    /// The best first.
    memories: Vec<RecalledItem>,
    #[serde(flatten)]
    rest: Rest,
}

async fn recall(service: Arc<Service>, asked: RecallParameters) -> Result<RecallResult, Problem> {
    let RecallParameters { query, mode, limit, categories, user_id, after, store } = asked;
    if limit.is_some_and(|limit| limit > RECALLED_MAX) {
        return Err(Problem::unprocessable(format!("the limit is above {RECALLED_MAX}")));
    }
    // Continued reading was counted before.
    let no_count = after.is_some();
    let request = RecallRequest {
        query,
        mode,
        limit,
        categories,
        user_id,
        no_count,
        ..RecallRequest::default()
    };
    let work = move |store: &Arc<ServedStore>| {
        let found = store.recall(&request)?;
        let open = store.flags()?;
        let conflicting = |id: &str| -> Vec<String> {
            let of = open.iter().filter(|pair| pair.ids.iter().any(|side| side == id));
            of.flat_map(|pair| &pair.ids).filter(|side| *side != id).take(3).cloned().collect()
        };
        let live = found.recalled.memories.iter().map(|found| RecalledItem {
            id: found.memory.id.to_string(),
            text: shown(&found.memory.content),
            created_at: found.memory.created_at.instant().map(|at| at.to_rfc3339()),
            categories: found.memory.categories.iter().take(8).map(|name| brief(name)).collect(),
            similarity: found.similarity.map(|similarity| similarity.get()),
            superseded_by: found.superseded_by.as_ref().map(ToString::to_string),
            merged_into: None,
            conflicts_with: conflicting(found.memory.id.as_str()),
        });
        let merged = found.recalled.archived.iter().map(|found| RecalledItem {
            id: found.id.to_string(),
            text: shown(&found.text),
            created_at: None,
            categories: Vec::new(),
            similarity: None,
            superseded_by: None,
            merged_into: found.survivor.as_ref().map(ToString::to_string),
            conflicts_with: Vec::new(),
        });
        let all: Vec<RecalledItem> = live.chain(merged).collect();
        let start = behind(all.iter().map(|item| &*item.id), after.as_deref());
        let time = found.answer.map(|answer| TimeAnswer {
            answer: answer.answer,
            confidence: answer.confidence.value(),
            steps: answer.chain.iter().map(|step| shown(step)).collect(),
        });
        let told = notes(&found.recalled.notes);
        let mut result =
            RecallResult { time, notes: told, memories: Vec::new(), rest: Rest::default() };
        let total = all.len() - start;
        let items = all.into_iter().skip(start).map(|item| (item.id.clone(), item));
        (result.memories, result.rest) = fitted(&result, total, items);
        Ok(result)
    };
    service.on(store.as_deref(), work).await
}

/// The place behind an id; the first where it is not among them.
pub(super) fn behind<'i>(mut ids: impl Iterator<Item = &'i str>, after: Option<&str>) -> usize {
    after.and_then(|after| ids.position(|id| id == after)).map_or(0, |at| at + 1)
}

/// A memory that could be saved.
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
    /// Go on behind this memory: `next_after` of the answer before.
    #[serde(default)]
    after: Option<String>,
    /// The store; by default the first one.
    #[serde(default)]
    store: Option<String>,
}

/// What saving would do.
#[derive(Debug, Serialize, JsonSchema)]
struct CheckResult {
    /// `insert`, `touch`, `touch_and_flag`, `replace` or `insert_and_flag`.
    decision: &'static str,
    /// The same in a sentence.
    summary: String,
    reason: String,
    /// Whether everything was compared that could be.
    checked: bool,
    notes: Vec<String>,
    /// Memories alike, the nearest first.
    similar: Vec<Similar>,
    #[serde(flatten)]
    rest: Rest,
}

async fn check(service: Arc<Service>, asked: CheckParameters) -> Result<CheckResult, Problem> {
    let CheckParameters { text, categories, user_id, after, store } = asked;
    let request = Incoming { text: Some(text), categories, user_id, ..Incoming::default() };
    let work = move |store: &Arc<ServedStore>| {
        let check = store.check(request)?;
        let by_id = store.by_id(said_of(&check))?;
        let summary = match check.decision {
            Decision::Insert => "not known: saving it adds a memory",
            Decision::Touch => "known already: saving it adds nothing",
            Decision::Replace => "saving it replaces an older wording",
            Decision::TouchAndFlag => {
                "known already, but something newer contradicts it: saving it flags a conflict"
            }
            Decision::InsertAndFlag => {
                "saving it adds a memory and flags the pair, because the two may be the same or \
                 contradict each other"
            }
        };
        let mut result = CheckResult {
            decision: check.decision.name(),
            summary: summary.to_owned(),
            reason: shown(&check.reason),
            checked: check.checked,
            notes: notes(&check.notes),
            similar: Vec::new(),
            rest: Rest::default(),
        };
        let start = behind(said_of(&check).map(MemoryId::as_str), after.as_deref());
        (result.similar, result.rest) = similar(&result, &check, &by_id, start);
        Ok(result)
    };
    service.on(store.as_deref(), work).await
}

/// Which part of a list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ListParameters {
    /// Go on behind this one: `next_after` of the answer before.
    pub(super) after: Option<String>,
    /// The store; by default the first one.
    pub(super) store: Option<String>,
}

/// Conflicts that need a decision.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct ConflictsResult {
    /// How many are open.
    open: usize,
    /// Contradictions of the latest plan that are not in the list before that plan is applied.
    in_plan_only: usize,
    conflicts: Vec<Conflict>,
    #[serde(flatten)]
    rest: Rest,
}

async fn conflicts(
    service: Arc<Service>,
    asked: ListParameters,
) -> Result<ConflictsResult, Problem> {
    let work = move |store: &Arc<ServedStore>| {
        let pairs = store.flags()?;
        let mut result = ConflictsResult {
            open: pairs.len(),
            in_plan_only: store.unflagged()?,
            ..ConflictsResult::default()
        };
        let start = behind(pairs.iter().map(|pair| &*pair.key), asked.after.as_deref());
        let items = pairs[start..].iter().map(|pair| (pair.key.clone(), Conflict::of(pair, store)));
        (result.conflicts, result.rest) = fitted(&result, pairs.len() - start, items);
        Ok(result)
    };
    service.on(asked.store.as_deref(), work).await
}

/// A conflict, and a decision.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ResolveParameters {
    /// The conflict, as memory_conflicts or memory_save names it.
    key: String,
    /// How it is settled.
    settlement: Settlement,
    /// The store; by default the first one.
    #[serde(default)]
    store: Option<String>,
}

/// A conflict that was settled.
#[derive(Debug, Serialize, JsonSchema)]
struct ResolveResult {
    /// The run: memory_consolidate with action undo undoes it.
    run_id: String,
    newer: Said,
    older: Said,
    /// What a person should know of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// How many conflicts are still open.
    open: usize,
}

async fn resolve(
    service: Arc<Service>,
    asked: ResolveParameters,
) -> Result<ResolveResult, Problem> {
    let ResolveParameters { key, settlement, store } = asked;
    let work = move |store: &Arc<ServedStore>| {
        let SettledDocument { run_id, settled, .. } = store.settle(&key, settlement)?;
        let by_id = store.by_id([&settled.newer, &settled.older])?;
        Ok(ResolveResult {
            run_id: run_id.unwrap_or_default(),
            newer: Said::of(&settled.newer, &by_id),
            older: Said::of(&settled.older, &by_id),
            note: settled.note.as_ref().and_then(|note| notes(std::slice::from_ref(note)).pop()),
            open: store.flags()?.len(),
        })
    };
    service.on(store.as_deref(), work).await
}

/// Where a session starts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ContextParameters {
    /// The working directory: memories about it come first.
    directory: String,
    /// The git branch.
    branch: String,
    /// The store; by default the first one.
    store: Option<String>,
}

/// What a session starts with.
#[derive(Debug, Serialize, JsonSchema)]
struct ContextResult {
    /// The block; empty where there is nothing to show.
    context: String,
}

async fn context(
    service: Arc<Service>,
    asked: ContextParameters,
) -> Result<ContextResult, Problem> {
    let ContextParameters { directory, branch, store } = asked;
    let work = move |store: &Arc<ServedStore>| store.session_context(&directory, &branch);
    Ok(ContextResult { context: service.on(store.as_deref(), work).await? })
}
