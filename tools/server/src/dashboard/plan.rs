//! Plans: every action with its texts, the differences, and a person's decisions.

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use memfold_core::memory::{Memory, MemoryId, Status};
use memfold_core::plan::{
    Action, ActionState, ActionType, Risk, SavedAction, SavedPlan, probability_in_words,
};
use memfold_guard::{Step, StepKind};
use serde::Deserialize;

use super::shell::{
    Fields, PieceView, Refused, Shell, pieces, place, shown, similarity, text, then,
};
use crate::http::{App, Query};
use crate::service::{
    ApplyRequest, Decision, DecisionsRequest, PlanDecision, Problem, ProblemKind, ServedStore,
};

/// Actions on a page.
const ACTIONS_SHOWN: usize = 25;
/// Memories of an action that are displayed beside the first.
const OTHERS_SHOWN: usize = 8;
/// Characters of a text on this page; the memory's own page shows more.
const TEXT_CHARS: usize = 1_200;
/// Steps of a proof that are displayed.
const STEPS_SHOWN: usize = 40;

/// Which plan, and which of its actions.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct PlanQuery {
    store: Option<String>,
    #[serde(default)]
    id: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    risk: String,
    #[serde(default)]
    state: String,
    #[serde(default)]
    page: usize,
}

/// A choice of a filter.
struct Choice {
    name: &'static str,
    words: String,
    is_chosen: bool,
}

struct StepView {
    kind: &'static str,
    left: String,
    right: String,
}

/// A memory of an action.
struct MemoryText {
    id: MemoryId,
    /// Where it stands, in words; empty where it is live.
    whereabouts: String,
    text: Option<String>,
}

/// A memory beside the first one: the steps from its text to the first one's.
struct Other {
    memory: MemoryText,
    pieces: Vec<PieceView>,
    steps: Vec<StepView>,
    verdict: Option<&'static str>,
}

struct ActionView {
    label: String,
    words: &'static str,
    risk: &'static str,
    state: ActionState,
    similarity: String,
    /// Of a proposal: how probable it is that its memories say the same, in words.
    probability: &'static str,
    reasons: Vec<String>,
    differences: Vec<String>,
    decided_by: Option<String>,
    note: Option<String>,
    new_text: Option<String>,
    first: Option<MemoryText>,
    others: Vec<Other>,
    more: usize,
    is_open: bool,
    is_merge: bool,
}

#[derive(Template)]
#[template(path = "plan.html")]
struct PlanPage {
    shell: Shell,
    plan_id: String,
    digest: String,
    made: String,
    is_saved: bool,
    actions: Vec<ActionView>,
    found: usize,
    total: usize,
    approved: usize,
    identical: usize,
    undone: usize,
    kinds: Vec<Choice>,
    risks: Vec<Choice>,
    states: Vec<Choice>,
    here: String,
    before: Option<String>,
    after: Option<String>,
    pages: (usize, usize),
}

struct PlanLine {
    place: String,
    id: String,
    made: String,
    types: String,
    states: String,
}

#[derive(Template)]
#[template(path = "plans.html")]
struct PlansPage {
    shell: Shell,
    plans: Vec<PlanLine>,
}

/// The list of plans.
pub(super) async fn latest(
    State(app): State<App>,
    Query(query): Query<PlanQuery>,
) -> Result<Response, Refused> {
    let of = app.clone();
    let work = move |store: &Arc<ServedStore>| {
        let shell = Shell::of(&of, store, "Plan");
        let line = |plan: memfold_core::plan::PlanSummary| PlanLine {
            place: shell.about("/ui/plan", "id", &plan.plan_id),
            types: counted(plan.types.iter().map(|(kind, count)| (words(*kind), *count))),
            states: counted(plan.states.iter().map(|(state, count)| (state.name(), *count))),
            id: plan.plan_id,
            made: plan.now,
        };
        let plans = store.plans()?.into_iter().map(line).collect();
        Ok(PlansPage { shell: shell.clone(), plans })
    };
    Ok(shown(&app.service.on(query.store.as_deref(), work).await?))
}

/// One plan, or the proposals of the latest one.
pub(super) async fn page(
    State(app): State<App>,
    Query(query): Query<PlanQuery>,
) -> Result<Response, Refused> {
    let (of, wanted) = (app.clone(), query.clone());
    let work = move |store: &Arc<ServedStore>| {
        let is_proposals = wanted.kind == ActionType::ProposeMerge.name();
        let shell = Shell::of(&of, store, if is_proposals { "Proposals" } else { "Plan" });
        let id = if wanted.id.is_empty() { "latest" } else { &wanted.id };
        match store.plan(id) {
            Ok(plan) => Ok(shown(&plan_page(store, shell, &plan, &wanted)?)),
            Err(problem) if problem.kind == ProblemKind::NotFound && wanted.id.is_empty() => {
                Ok(shown(&PlansPage { shell, plans: Vec::new() }))
            }
            Err(problem) => Err(problem),
        }
    };
    Ok(app.service.on(query.store.as_deref(), work).await?)
}

fn plan_page(
    store: &ServedStore,
    shell: Shell,
    plan: &SavedPlan,
    query: &PlanQuery,
) -> Result<PlanPage, Problem> {
    let is_meant = |saved: &&SavedAction| {
        let action = saved.effective();
        saved.is_change()
            && (query.kind.is_empty() || action.action.name() == query.kind)
            && (query.risk.is_empty() || action.risk.name() == query.risk)
            && (query.state.is_empty() || saved.state.name() == query.state)
    };
    let found: Vec<&SavedAction> = plan.actions.iter().filter(is_meant).collect();
    let last = found.len().saturating_sub(1) / ACTIONS_SHOWN;
    let page = query.page.min(last);
    let listed = found.iter().skip(page * ACTIONS_SHOWN).take(ACTIONS_SHOWN);
    let listed: Vec<&SavedAction> = listed.copied().collect();
    let targets =
        listed.iter().flat_map(|saved| saved.effective().target_ids.iter().take(OTHERS_SHOWN + 1));
    let fates = store.fates(targets)?;
    let at = |page: usize| shell.to(&query.place(&plan.plan_id, page));
    let count =
        |is: &dyn Fn(&SavedAction) -> bool| plan.changes().filter(|saved| is(saved)).count();
    let is_identical = |saved: &SavedAction| {
        let action = saved.effective();
        (action.action, action.risk, saved.state)
            == (ActionType::Merge, Risk::Identical, ActionState::Proposed)
    };
    Ok(PlanPage {
        plan_id: plan.plan_id.clone(),
        digest: plan.plan_digest.clone(),
        made: plan.plan.now.clone(),
        is_saved: !plan.saved_at.is_empty(),
        actions: listed.iter().map(|saved| ActionView::of(store, saved, &fates)).collect(),
        found: found.len(),
        total: plan.changes().count(),
        approved: count(&|saved| saved.state == ActionState::Approved),
        identical: count(&is_identical),
        undone: count(&|saved| saved.state == ActionState::Undone),
        kinds: choices(plan, &query.kind, |saved| {
            let kind = saved.effective().action;
            (kind.name(), words(kind))
        }),
        risks: choices(plan, &query.risk, |saved| same(saved.effective().risk.name())),
        states: choices(plan, &query.state, |saved| same(saved.state.name())),
        here: query.place(&plan.plan_id, page),
        before: page.checked_sub(1).map(at),
        after: (page < last).then(|| at(page + 1)),
        pages: (page + 1, last + 1),
        shell,
    })
}

const fn same(name: &'static str) -> (&'static str, &'static str) {
    (name, name)
}

/// The filters for the actions of a plan, with counts.
fn choices(
    plan: &SavedPlan,
    chosen: &str,
    of: impl Fn(&SavedAction) -> (&'static str, &'static str),
) -> Vec<Choice> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for saved in plan.changes() {
        *counts.entry(of(saved)).or_default() += 1;
    }
    let choice = |((name, words), count): (&(&'static str, &'static str), &usize)| Choice {
        name,
        words: format!("{words} ({count})"),
        is_chosen: *name == chosen,
    };
    counts.iter().map(choice).collect()
}

impl PlanQuery {
    /// The path of a page of a plan, without the store.
    fn place(&self, plan: &str, page: usize) -> String {
        let page = page.to_string();
        let page = if page == "0" { "" } else { &page };
        let pairs = [
            ("id", plan),
            ("kind", &self.kind),
            ("risk", &self.risk),
            ("state", &self.state),
            ("page", page),
        ];
        let pairs: Vec<_> = pairs.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        place("/ui/plan", &pairs)
    }
}

impl MemoryText {
    fn of(id: &MemoryId, memory: Option<&Memory>) -> Self {
        let whereabouts = match memory.map(|memory| (memory.status, &memory.merged_into)) {
            Some((Status::Live, _)) => String::new(),
            Some((_, Some(survivor))) => format!("merged into {}", text(survivor.as_str(), 40)),
            Some((_, None)) => "archived".to_owned(),
            None => "not live any more".to_owned(),
        };
        let text = memory.map(|memory| text(&memory.content, TEXT_CHARS));
        Self { id: id.clone(), whereabouts, text }
    }
}

impl Other {
    /// `to`: the text that stays or is new.
    fn of(store: &ServedStore, memory: MemoryText, to: Option<&str>) -> Self {
        let (mut parts, mut steps, mut verdict) = (Vec::new(), Vec::new(), None);
        if let (Some(from), Some(to)) = (memory.text.as_deref(), to) {
            parts = pieces(from, to);
            let judgement = store.guard.judge(&store.guard.read(from), &store.guard.read(to));
            verdict = Some(judgement.verdict.name());
            let shown = judgement
                .steps
                .iter()
                .filter(|step| step.kind != StepKind::Equal)
                .take(STEPS_SHOWN);
            let step = |step: &Step| StepView {
                kind: step_words(step.kind),
                left: from.get(step.left.clone()).unwrap_or_default().to_owned(),
                right: to.get(step.right.clone()).unwrap_or_default().to_owned(),
            };
            steps = shown.map(step).collect();
        }
        Self { memory, pieces: parts, steps, verdict }
    }
}

impl ActionView {
    fn of(store: &ServedStore, saved: &SavedAction, fates: &BTreeMap<MemoryId, Memory>) -> Self {
        let action: &Action = saved.effective();
        let kind = action.action;
        let new_text = action.new_content.as_deref().map(|new| text(new, TEXT_CHARS));
        let memory = |id: &MemoryId| MemoryText::of(id, fates.get(id));
        let mut ids = action.target_ids.iter();
        // Where a text is new, all memories are compared with it.
        let first = if new_text.is_none() { ids.next().map(memory) } else { None };
        let to = new_text.as_deref().or_else(|| first.as_ref()?.text.as_deref());
        let others = ids.clone().take(OTHERS_SHOWN).map(|id| Other::of(store, memory(id), to));
        let evidence = &action.rationale.evidence;
        let is_merge = matches!(kind, ActionType::Merge | ActionType::ProposeMerge);
        Self {
            label: saved.label(),
            words: words(kind),
            risk: action.risk.name(),
            state: saved.state,
            similarity: similarity(evidence.similarity),
            probability: evidence.probability.map_or("", probability_in_words),
            reasons: action.rationale.reasons.iter().map(|reason| text(reason, 400)).collect(),
            differences: evidence.differences.iter().map(|what| text(what, 200)).collect(),
            decided_by: evidence.decided_by.as_deref().map(|name| text(name, 80)),
            // An undone action keeps the note, for a person who allows it again.
            note: saved
                .note
                .as_deref()
                .filter(|_| saved.state != ActionState::Undone)
                .map(|note| text(note, 300)),
            others: others.collect(),
            more: ids.len().saturating_sub(OTHERS_SHOWN),
            is_open: matches!(
                saved.state,
                ActionState::Proposed | ActionState::Approved | ActionState::Rejected
            ),
            is_merge,
            new_text,
            first,
        }
    }
}

/// Describes the kind of an action in words.
pub(super) const fn words(kind: ActionType) -> &'static str {
    match kind {
        ActionType::Merge => "Merge",
        ActionType::Promote => "Raise importance",
        ActionType::Archive => "Archive",
        ActionType::FlagContradiction => "Flag a conflict",
        ActionType::Rewrite => "Rewrite",
        ActionType::Summarize => "Summarize",
        ActionType::Supersede => "Supersede",
        ActionType::ProposeMerge => "Proposed merge",
        ActionType::Noop => "Leave alone",
    }
}

const fn step_words(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Equal => "equal",
        StepKind::Notation => "spelling",
        StepKind::Quantity => "same value",
        StepKind::Inflection => "form of one word",
        StepKind::Abbreviation => "short form",
        StepKind::Filler => "says nothing",
        StepKind::Move => "other order",
        StepKind::Addition => "only one says it",
        StepKind::Conflict => "cannot both hold",
        StepKind::Substitution => "other words",
    }
}

pub(super) fn counted<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> String {
    let parts: Vec<String> = counts.map(|(name, count)| format!("{name} {count}")).collect();
    parts.join(", ")
}

/// A decision of a form.
#[derive(Debug, Deserialize)]
pub(super) struct DecideFields {
    store: String,
    id: String,
    action: String,
    decision: Decision,
    /// The page to return to.
    #[serde(default)]
    here: String,
}

pub(super) async fn decide(
    State(app): State<App>,
    Fields(fields): Fields<DecideFields>,
) -> Result<Response, Refused> {
    let decision = PlanDecision { action: fields.action.clone(), decision: fields.decision };
    let request = DecisionsRequest { decisions: vec![decision] };
    let id = fields.id;
    let of = app.clone();
    let work = move |store: &Arc<ServedStore>| {
        store.decide(&id, &request)?;
        Ok(Shell::of(&of, store, "Plan"))
    };
    let shell = app.service.on(Some(&fields.store), work).await?;
    // Only to a page of ours.
    let here = if fields.here.starts_with("/ui/plan?") { &fields.here } else { "/ui/plan" };
    Ok(then(&format!("{}#{}", shell.to(here), fields.action)))
}

/// Applies the actions that a person approved, if the plan is the one that they saw.
#[derive(Debug, Deserialize)]
pub(super) struct ApplyFields {
    store: String,
    id: String,
    digest: String,
}

pub(super) async fn apply(
    State(app): State<App>,
    Fields(fields): Fields<ApplyFields>,
) -> Result<Response, Refused> {
    let of = app.clone();
    let (id, digest) = (fields.id, fields.digest);
    let work = move |store: &Arc<ServedStore>| {
        let is_approved = |saved: &SavedAction| saved.state == ActionState::Approved;
        if !store.plan_with(&id, &digest)?.actions.iter().any(is_approved) {
            // Without an approval `apply` would carry out all that is proposed.
            return Err(Problem::new(ProblemKind::Conflict, "no action of the plan is approved")
                .with_hint("approve those that shall be done"));
        }
        let job = store.start_apply(&id, &digest, ApplyRequest::default())?;
        Ok(Shell::of(&of, store, "Runs").about("/ui/job", "id", &job.id))
    };
    Ok(then(&app.service.on(Some(&fields.store), work).await?))
}
