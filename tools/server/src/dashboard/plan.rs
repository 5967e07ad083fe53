//! Plans: every action with its texts, the differences, and a person's decisions.

use std::collections::BTreeMap;

use askama::Template;
use memfold_core::memory::{Memory, MemoryId, Status};
use memfold_core::plan::{
    Action, ActionState, ActionType, PlanSummary, Risk, SavedAction, SavedPlan,
    probability_in_words,
};
use memfold_core::report::{Piece, PieceKind, word_diff};
use memfold_guard::text::excerpt;
use memfold_guard::{Step, StepKind};
use serde::Deserialize;

use super::shell::{Fields, Page, Shell, place, shown};
use crate::http::{On, Query};
use crate::service::{
    ApplyRequest, Decision, DecisionsRequest, LATEST, PlanDecision, Problem, ProblemKind,
    ServedStore,
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
#[serde(default)]
pub(super) struct PlanQuery {
    id: String,
    kind: String,
    risk: String,
    state: String,
    page: usize,
}

/// Values that actions can be filtered by: name, words, and how many have it.
type Choices = Vec<(&'static str, &'static str, usize)>;

/// A memory of an action.
struct MemoryText {
    id: MemoryId,
    /// Where it stands, in words; empty where it is live.
    status: String,
    text: Option<String>,
}

/// A memory beside the first one: the steps from its text to the first one's.
struct Other {
    memory: MemoryText,
    pieces: Vec<Piece>,
    /// Kinds in words, and both sides.
    steps: Vec<(&'static str, String, String)>,
    verdict: Option<&'static str>,
}

struct ActionView {
    saved: SavedAction,
    new_text: Option<String>,
    first: Option<MemoryText>,
    others: Vec<Other>,
    more: usize,
}

#[derive(Template)]
#[template(path = "plan.html")]
struct PlanPage {
    shell: Shell,
    plan: SavedPlan,
    query: PlanQuery,
    actions: Vec<ActionView>,
    found: usize,
    kinds: Choices,
    risks: Choices,
    states: Choices,
    /// The page, from 0, and the last one.
    pages: (usize, usize),
}

#[derive(Template)]
#[template(path = "plans.html")]
struct PlansPage {
    shell: Shell,
    plans: Vec<PlanSummary>,
}

/// The list of plans.
pub(super) async fn latest(on: On) -> Page {
    on.page("Plan", |store, shell| Ok(PlansPage { shell, plans: store.plans()? })).await
}

/// The actions of a plan by type, in words.
fn types(plan: &PlanSummary) -> String {
    let types = plan.types.iter().map(|(kind, count)| format!("{} {count}", words(*kind)));
    types.collect::<Vec<_>>().join(", ")
}

/// One plan, or the proposals of the latest one.
pub(super) async fn page(on: On, Query(query): Query<PlanQuery>) -> Page {
    let is_proposals = query.kind == ActionType::ProposeMerge.name();
    let app = on.app.clone();
    let work = on.work(move |store| {
        let shell = Shell::of(&app, store, if is_proposals { "Proposals" } else { "Plan" });
        let id = if query.id.is_empty() { LATEST } else { &query.id };
        match store.plan(id) {
            Ok(plan) => Ok(shown(&PlanPage::of(store, shell, plan, query)?)),
            Err(problem) if problem.kind == ProblemKind::NotFound && query.id.is_empty() => {
                Ok(shown(&PlansPage { shell, plans: Vec::new() }))
            }
            Err(problem) => Err(problem),
        }
    });
    Ok(work.await?)
}

impl PlanPage {
    fn of(
        store: &ServedStore,
        shell: Shell,
        plan: SavedPlan,
        query: PlanQuery,
    ) -> Result<Self, Problem> {
        let is_meant = |saved: &&SavedAction| {
            let action = saved.effective();
            (query.kind.is_empty() || action.action.name() == query.kind)
                && (query.risk.is_empty() || action.risk.name() == query.risk)
                && (query.state.is_empty() || saved.state.name() == query.state)
        };
        let found: Vec<&SavedAction> = plan.changes().filter(is_meant).collect();
        let last = found.len().saturating_sub(1) / ACTIONS_SHOWN;
        let page = query.page.min(last);
        let listed = found.iter().skip(page * ACTIONS_SHOWN).take(ACTIONS_SHOWN);
        let targets = listed
            .clone()
            .flat_map(|saved| saved.effective().target_ids.iter().take(OTHERS_SHOWN + 1));
        let by_id = store.by_id(targets)?;
        Ok(Self {
            actions: listed.map(|saved| ActionView::of(store, saved, &by_id)).collect(),
            found: found.len(),
            kinds: choices(&plan, |saved| {
                let kind = saved.effective().action;
                (kind.name(), words(kind))
            }),
            risks: choices(&plan, |saved| same(saved.effective().risk.name())),
            states: choices(&plan, |saved| same(saved.state.name())),
            pages: (page, last),
            shell,
            plan,
            query,
        })
    }

    /// The path of this page, without the store.
    fn here(&self) -> String {
        self.query.place(&self.plan.plan_id, self.pages.0)
    }

    /// How many merges of identical texts wait for a decision.
    fn identical(&self) -> usize {
        let is_identical = |saved: &&SavedAction| {
            let action = saved.effective();
            (action.action, action.risk, saved.state)
                == (ActionType::Merge, Risk::Identical, ActionState::Proposed)
        };
        self.plan.changes().filter(is_identical).count()
    }
}

const fn same(name: &'static str) -> (&'static str, &'static str) {
    (name, name)
}

/// The filters for the actions of a plan, with counts.
fn choices(plan: &SavedPlan, of: impl Fn(&SavedAction) -> (&'static str, &'static str)) -> Choices {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for saved in plan.changes() {
        *counts.entry(of(saved)).or_default() += 1;
    }
    counts.into_iter().map(|((name, words), count)| (name, words, count)).collect()
}

impl PlanQuery {
    /// The path of a page of a plan, without the store.
    fn place(&self, plan: &str, page: usize) -> String {
        let page = if page == 0 { String::new() } else { page.to_string() };
        let pairs = [
            ("id", plan),
            ("kind", &self.kind),
            ("risk", &self.risk),
            ("state", &self.state),
            ("page", &page),
        ];
        place("/ui/plan", &pairs)
    }
}

impl MemoryText {
    fn of(id: &MemoryId, memory: Option<&Memory>) -> Self {
        let status = match memory.map(|memory| (memory.status, &memory.merged_into)) {
            Some((Status::Live, _)) => String::new(),
            Some((_, Some(survivor))) => format!("merged into {}", excerpt(survivor.as_str(), 40)),
            Some((_, None)) => "archived".to_owned(),
            None => "not live any more".to_owned(),
        };
        let text = memory.map(|memory| excerpt(&memory.content, TEXT_CHARS));
        Self { id: id.clone(), status, text }
    }
}

impl Other {
    /// `to`: the text that stays or is new.
    fn of(store: &ServedStore, memory: MemoryText, to: Option<&str>) -> Self {
        let (mut pieces, mut steps, mut verdict) = (Vec::new(), Vec::new(), None);
        if let (Some(from), Some(to)) = (memory.text.as_deref(), to) {
            pieces = word_diff(from, to);
            let judgement = store.guard.judge(&store.guard.read(from), &store.guard.read(to));
            verdict = Some(judgement.verdict.name());
            let shown = judgement.steps.iter().filter(|step| step.kind != StepKind::Equal);
            let step = |step: &Step| {
                let left = from.get(step.left.clone()).unwrap_or_default().to_owned();
                let right = to.get(step.right.clone()).unwrap_or_default().to_owned();
                (step_words(step.kind), left, right)
            };
            steps = shown.take(STEPS_SHOWN).map(step).collect();
        }
        Self { memory, pieces, steps, verdict }
    }
}

impl ActionView {
    fn of(store: &ServedStore, saved: &SavedAction, by_id: &BTreeMap<MemoryId, Memory>) -> Self {
        let action: &Action = saved.effective();
        let new_text = action.new_content.as_deref().map(|new| excerpt(new, TEXT_CHARS));
        let memory = |id: &MemoryId| MemoryText::of(id, by_id.get(id));
        let mut ids = action.target_ids.iter();
        // Where a text is new, all memories are compared with it.
        let first = if new_text.is_none() { ids.next().map(memory) } else { None };
        let to = new_text.as_deref().or_else(|| first.as_ref()?.text.as_deref());
        let others = ids.clone().take(OTHERS_SHOWN).map(|id| Other::of(store, memory(id), to));
        Self {
            others: others.collect(),
            more: ids.len().saturating_sub(OTHERS_SHOWN),
            saved: saved.clone(),
            new_text,
            first,
        }
    }

    fn is_open(&self) -> bool {
        use ActionState::{Approved, Proposed, Rejected};
        matches!(self.saved.state, Proposed | Approved | Rejected)
    }

    /// How probable it is that the memories of a proposal say the same, in words.
    fn probability(&self) -> Option<&'static str> {
        self.saved.effective().rationale.evidence.probability.map(probability_in_words)
    }

    fn words(&self) -> &'static str {
        words(self.saved.effective().action)
    }

    /// An undone action keeps the note, for a person who allows it again.
    fn note(&self) -> Option<&str> {
        self.saved.note.as_deref().filter(|_| self.saved.state != ActionState::Undone)
    }

    fn is_merge(&self) -> bool {
        let kind = self.saved.effective().action;
        matches!(kind, ActionType::Merge | ActionType::ProposeMerge)
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

/// A decision of a form.
#[derive(Debug, Deserialize)]
pub(super) struct DecideFields {
    id: String,
    action: String,
    decision: Decision,
    /// The page to return to.
    #[serde(default)]
    here: String,
}

pub(super) async fn decide(Fields(on, fields): Fields<DecideFields>) -> Page {
    let DecideFields { id, action, decision, here } = fields;
    on.then(move |store, shell| {
        let decision = PlanDecision { action: action.clone(), decision };
        store.decide(&id, &DecisionsRequest { decisions: vec![decision] })?;
        // Only to a page of ours.
        let here = if here.starts_with("/ui/plan?") { &here } else { "/ui/plan" };
        Ok(format!("{}#{action}", shell.to(here)))
    })
    .await
}

/// Applies the actions that a person approved, if the plan is the one that they saw.
#[derive(Debug, Deserialize)]
pub(super) struct ApplyFields {
    id: String,
    digest: String,
}

pub(super) async fn apply(Fields(on, fields): Fields<ApplyFields>) -> Page {
    let ApplyFields { id, digest } = fields;
    on.then(move |store, shell| {
        let is_approved = |saved: &SavedAction| saved.state == ActionState::Approved;
        if !store.plan_with(&id, &digest)?.actions.iter().any(is_approved) {
            // Without an approval `apply` would carry out all that is proposed.
            return Err(Problem::new(ProblemKind::Conflict, "no action of the plan is approved")
                .with_hint("approve those that shall be done"));
        }
        let job = store.start_apply(&id, &digest, ApplyRequest::default())?;
        Ok(shell.about("/ui/job", "id", &job.id))
    })
    .await
}
