//! Plans and people's decisions about them; contradictory pairs, and how they are settled.

use std::collections::BTreeMap;
use std::sync::Arc;

use memfold::lifecycle::Tiers;
use memfold::ops::{self, Reviewer, SettledDocument, Status, named_by, with_merged};
use memfold::settle::Settlement;
use memfold_core::lifecycle::{TierAssignment, TierCounts};
use memfold_core::lineage::Explanation;
use memfold_core::memory::MemoryId;
use memfold_core::plan::{
    ActionState, ActionType, PlanSummary, Risk, SavedAction, SavedPlan, SwapInput, swap_survivor,
};
use memfold_core::runs::RunSummary;
use memfold_core::time::Instant;
use memfold_store::brain_db::OpenPair;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::problem::{Problem, ProblemKind};
use super::runs::check_digest;
use super::store::{ServedStore, StoreVersion, locked};

/// The name of the plan that was made last.
pub(crate) const LATEST: &str = "latest";
/// How long a survey stays valid, in microseconds.
const SURVEY_MICROS: i64 = 60_000_000;

/// What a person decides about an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Decision {
    /// It shall be done.
    Approve,
    /// It shall not be done.
    Reject,
    /// Undecided again.
    Undecide,
    /// Rejected, and no later run merges these memories while their texts stay.
    KeepBoth,
    /// Another memory of the merge survives it.
    Swap,
}

/// A decision about one action, or all merges of a risk.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanDecision {
    /// The action's label, for example `a3`, or `identical` for all merges of identical texts; approving
    /// these leaves out rejected ones.
    pub(crate) action: String,
    /// What is decided.
    pub(crate) decision: Decision,
}

/// Decisions about a plan.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecisionsRequest {
    /// They are written down one after the other.
    pub(crate) decisions: Vec<PlanDecision>,
}

/// A pair to settle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettleRequest {
    /// How.
    pub(crate) settlement: Settlement,
}

/// Merges of which nothing is proven, for a person to decide.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ProposalsDocument {
    /// Version of this format.
    pub(crate) schema_version: u32,
    /// The plan that they stand in; `null` where there is no plan.
    pub(crate) plan_id: Option<String>,
    /// Its digest.
    pub(crate) plan_digest: Option<String>,
    /// The most probable first.
    pub(crate) proposals: Vec<Proposal>,
}

/// A merge of which nothing is proven.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Proposal {
    /// The action's label.
    pub(crate) action: String,
    /// What a person decided.
    pub(crate) state: ActionState,
    /// The memories, the survivor first.
    pub(crate) ids: Vec<String>,
    /// The smallest similarity among them.
    pub(crate) similarity: Option<f64>,
    /// How probable it is that they say the same, in hundredths.
    pub(crate) probability: Option<f64>,
    /// What differs, in words.
    pub(crate) differences: Vec<String>,
    /// Why it is proposed, and the answer of a model.
    pub(crate) reasons: Vec<String>,
    /// The model that decided, where one did.
    pub(crate) decided_by: Option<String>,
}

impl ServedStore {
    /// Lists the plans of the store, and the plans that only this server holds.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn plans(&self) -> Result<Vec<PlanSummary>, Problem> {
        let mut plans: Vec<_> = self.kept_plans().iter().rev().map(|plan| summary(plan)).collect();
        let saved = self.db.plans()?;
        plans.retain(|kept| saved.iter().all(|saved| saved.plan_id != kept.plan_id));
        plans.extend(saved);
        Ok(plans)
    }

    /// Finds a plan by its id, how that begins, or `latest`.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn plan(&self, wanted: &str) -> Result<SavedPlan, Problem> {
        let kept = self.kept_plans();
        let known = match wanted {
            LATEST => kept.last(),
            _ => kept.iter().find(|plan| plan.plan_id == wanted),
        };
        match (self.db.plan(wanted), known) {
            (Ok(saved), Some(known)) if wanted == LATEST && saved.plan.now < known.plan.now => {
                Ok((**known).clone())
            }
            (Ok(saved), _) => Ok(saved),
            (Err(_), Some(known)) => Ok((**known).clone()),
            (Err(error), None) => {
                let problem = Problem::from(error);
                Err(match problem.kind {
                    ProblemKind::NotFound => problem.with_hint("GET /v1/plans lists them"),
                    _ => problem,
                })
            }
        }
    }

    /// Finds a plan by its id and the digest that the caller knows.
    ///
    /// # Errors
    /// When there is none, or its digest is another one.
    pub(crate) fn plan_with(&self, wanted: &str, digest: &str) -> Result<SavedPlan, Problem> {
        let plan = self.plan(wanted)?;
        check_digest(&plan, digest)?;
        Ok(plan)
    }

    /// Writes decisions down; a plan that only this server holds is saved first.
    ///
    /// # Errors
    /// When writing is not allowed, the action does not exist, or it was applied meanwhile.
    pub(crate) fn decide(
        &self,
        plan: &str,
        request: &DecisionsRequest,
    ) -> Result<SavedPlan, Problem> {
        self.may_write()?;
        let plan = self.plan(plan)?;
        let reviewer = Reviewer::begin(&self.path, &self.settings, &plan, None)?;
        if plan.saved_at.is_empty() {
            self.drop_plan(&plan.plan_id);
        }
        for decision in &request.decisions {
            let plan = self.db.plan(&plan.plan_id)?;
            self.decide_on(&reviewer, &plan, decision)?;
        }
        Ok(self.db.plan(&plan.plan_id)?)
    }

    fn decide_on(
        &self,
        reviewer: &Reviewer<'_>,
        plan: &SavedPlan,
        decision: &PlanDecision,
    ) -> Result<(), Problem> {
        let actions = named(plan, decision)?;
        let mut each = actions.iter();
        let state = match decision.decision {
            Decision::Approve => ActionState::Approved,
            Decision::Reject => ActionState::Rejected,
            Decision::Undecide => ActionState::Proposed,
            Decision::KeepBoth => {
                return each.try_for_each(|action| Ok(reviewer.keep_both(action).map(drop)?));
            }
            Decision::Swap => {
                return each.try_for_each(|action| self.swap(reviewer, plan, action));
            }
        };
        let positions: Vec<usize> = each.map(|action| action.position).collect();
        Ok(reviewer.decide(&positions, state)?)
    }

    fn swap(
        &self,
        reviewer: &Reviewer<'_>,
        plan: &SavedPlan,
        saved: &SavedAction,
    ) -> Result<(), Problem> {
        let now = self.now();
        let memories = with_merged(&self.db, named_by(plan), &self.load(now))?;
        let swapped = swap_survivor(&SwapInput {
            action: saved.effective(),
            memories: &memories,
            policy: &self.settings.configuration.policy,
            guard: &self.guard,
        })
        .map_err(|refusal| Problem::new(ProblemKind::Conflict, format!("no swap: {refusal}")))?;
        let is_as_planned = swapped.target_ids == saved.action.target_ids;
        Ok(reviewer.amend(saved, (!is_as_planned).then_some(&swapped))?)
    }

    /// Returns the contradictory pairs that wait for a person.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn flags(&self) -> Result<Vec<OpenPair>, Problem> {
        Ok(self.db.open_flags()?)
    }

    /// Counts the contradictions of the latest plan that no run has flagged yet.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn unflagged(&self) -> Result<usize, Problem> {
        let is_new = |saved: &&SavedAction| {
            let is_open = matches!(saved.state, ActionState::Proposed | ActionState::Approved);
            is_open && saved.effective().action == ActionType::FlagContradiction
        };
        Ok(self.latest()?.map_or(0, |plan| plan.actions.iter().filter(is_new).count()))
    }

    fn latest(&self) -> Result<Option<SavedPlan>, Problem> {
        match self.plan(LATEST) {
            Ok(plan) => Ok(Some(plan)),
            Err(problem) if problem.kind == ProblemKind::NotFound => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// Settles a pair; returns the run, which can be undone.
    ///
    /// # Errors
    /// When writing is not allowed, or the pair does not wait or cannot be settled so.
    pub(crate) fn settle(
        &self,
        key: &str,
        settlement: Settlement,
    ) -> Result<SettledDocument, Problem> {
        self.may_write()?;
        self.pull()?;
        let (settings, guard) = (&self.settings, &self.guard);
        let settled = ops::settle_pair(&self.path, settings, guard, key, settlement, None, true)?;
        self.publish()?;
        Ok(settled)
    }

    /// Returns the merges of the latest plan of which nothing is proven.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn proposals(&self) -> Result<ProposalsDocument, Problem> {
        let plan = self.latest()?;
        let actions = plan.iter().flat_map(|plan| &plan.actions);
        let proposed =
            actions.filter(|action| action.effective().action == ActionType::ProposeMerge);
        Ok(ProposalsDocument {
            schema_version: 1,
            plan_id: plan.as_ref().map(|plan| plan.plan_id.clone()),
            plan_digest: plan.as_ref().map(|plan| plan.plan_digest.clone()),
            proposals: proposed.map(Proposal::of).collect(),
        })
    }

    /// Returns where the store stands.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn status(&self) -> Result<Status, Problem> {
        Ok(ops::status(&self.path, &self.settings, self.now(), &self.printer)?)
    }

    /// Returns the tiers of the live memories.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn tiers(
        &self,
        now: Instant,
    ) -> Result<BTreeMap<MemoryId, TierAssignment>, Problem> {
        Ok(Tiers::of(&self.db, &self.load(now), &self.settings.configuration)?.assignments)
    }

    /// Returns the facts of the whole store for pages and gauges. This reads all of it, so it
    /// happens once a minute, unless the store changed meanwhile and the answer must be current.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn survey(&self, is_of_now: bool) -> Result<Arc<Survey>, Problem> {
        let (now, path) = (self.now(), self.path.display());
        let version = StoreVersion::of(&self.path).map_err(|error| {
            let detail = format!("the store {path} cannot be read: {error}");
            Problem::new(ProblemKind::Failed, detail)
        })?;
        let mut last = locked(&self.surveyed);
        if let Some(survey) = &*last {
            let age = now.0 - survey.at.0;
            if (0..SURVEY_MICROS).contains(&age) && (!is_of_now || survey.version == version) {
                return Ok(Arc::clone(survey));
            }
        }
        let status = self.status()?;
        let survey = Arc::new(Survey {
            at: now,
            version,
            tiers: status.tiers.counts(),
            open_flags: status.open_flags,
            plans_waiting: status.plans.len(),
            due: status.due.as_ref().map(ToString::to_string),
            last_run: status.runs.into_iter().next_back(),
            created: status.created.iter().map(|at| at.0).collect(),
        });
        *last = Some(Arc::clone(&survey));
        Ok(survey)
    }

    /// Returns the status and history of a memory.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn explain(&self, id: &str) -> Result<Explanation, Problem> {
        Ok(self.db.explain_memory(&MemoryId::new(id), &self.time_zone, self.now())?)
    }
}

/// Facts of a whole store for display.
#[derive(Debug)]
pub(crate) struct Survey {
    at: Instant,
    version: StoreVersion,
    /// Live memories by tier.
    pub(crate) tiers: TierCounts,
    /// Pairs that wait for a person.
    pub(crate) open_flags: u64,
    /// Saved plans with actions that nothing became of yet.
    pub(crate) plans_waiting: usize,
    /// Why a run is due.
    pub(crate) due: Option<String>,
    /// The run that wrote last.
    pub(crate) last_run: Option<RunSummary>,
    /// When live memories were created, where that is known: microseconds since 1970, ascending.
    pub(crate) created: Vec<i64>,
}

impl Proposal {
    fn of(saved: &SavedAction) -> Self {
        let action = saved.effective();
        let evidence = &action.rationale.evidence;
        Self {
            action: saved.label(),
            state: saved.state,
            ids: action.target_ids.iter().map(ToString::to_string).collect(),
            similarity: evidence.similarity,
            probability: evidence.probability,
            differences: evidence.differences.clone(),
            reasons: action.rationale.reasons.clone(),
            decided_by: evidence.decided_by.clone(),
        }
    }
}

/// The actions that a decision is about.
fn named<'p>(
    plan: &'p SavedPlan,
    decision: &PlanDecision,
) -> Result<Vec<&'p SavedAction>, Problem> {
    let word = &*decision.action;
    if word == "identical" {
        // Who approves all that are identical does not overrule a person who rejected one of them.
        let is_overruled = decision.decision != Decision::Approve;
        let is_meant = |saved: &&SavedAction| {
            let action = saved.effective();
            let is_open = match saved.state {
                ActionState::Proposed | ActionState::Approved => true,
                ActionState::Rejected => is_overruled,
                _ => false,
            };
            action.action == ActionType::Merge && action.risk == Risk::Identical && is_open
        };
        return Ok(plan.actions.iter().filter(is_meant).collect());
    }
    let found = plan.changes().find(|action| action.label() == word);
    found.map(|action| vec![action]).ok_or_else(|| {
        Problem::not_found(format!("plan {} has no action {word:?}", plan.plan_id))
            .with_hint("GET /v1/plans/{id} lists them")
    })
}

fn summary(plan: &SavedPlan) -> PlanSummary {
    let mut summary = PlanSummary {
        plan_id: plan.plan_id.clone(),
        saved_at: plan.saved_at.clone(),
        now: plan.plan.now.clone(),
        plan_digest: plan.plan_digest.clone(),
        types: Default::default(),
        states: Default::default(),
    };
    for action in &plan.actions {
        *summary.types.entry(action.effective().action).or_default() += 1;
        if action.is_change() {
            *summary.states.entry(action.state).or_default() += 1;
        }
    }
    summary
}
