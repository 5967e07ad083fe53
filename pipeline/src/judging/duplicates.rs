//! Proposals: which of them say the same.

use std::collections::BTreeMap;

use memfold_core::judge::{Accepted, Group, OpinionKind, Task, Vote};
use memfold_core::memory::{Memory, MemoryId, MemoryIndex};
use memfold_core::plan::{Action, ActionType, Evidence, Plan, Rationale, Risk};
use memfold_core::policy::JudgeTask;
use memfold_simd::Similarity;

use super::{RULE, Stage, decided, ids, reasons};
use crate::error::MemfoldError;

/// Categories and importance that earlier merges of the plan give their survivors.
type Given = BTreeMap<MemoryId, (Option<Vec<String>>, Option<f64>)>;

impl Stage<'_, '_, '_> {
    /// Queries the judges about the proposals of a plan; decided ones become merges or noops.
    pub(super) fn duplicates(&mut self, plan: &mut Plan) -> Result<(), MemfoldError> {
        let questions: Vec<Vec<MemoryIndex>> =
            plan.actions.iter().filter_map(|action| self.question(action)).collect();
        let groups: Vec<Group> = questions.into_iter().map(|rows| self.group(rows)).collect();
        let settings = self.judging.settings;
        let task = Task::Duplicates { rewrite: settings.rewrite };
        let votes = self.ask(&groups, JudgeTask::Duplicates, task, settings.votes)?;
        let merges = plan.actions.iter().filter(|action| action.action == ActionType::Merge);
        let given = merges.filter_map(|action| {
            let given = (action.new_categories.clone(), action.new_importance);
            Some((action.canonical_id.clone()?, given))
        });
        let given: Given = given.collect();
        let mut actions = Vec::with_capacity(plan.actions.len());
        let mut asked = groups.iter().zip(&votes);
        for action in std::mem::take(&mut plan.actions) {
            if self.question(&action).is_none() {
                actions.push(action);
            } else if let Some((group, votes)) = asked.next() {
                actions.extend(self.decide(action, group, votes, &given));
            }
        }
        plan.actions = actions;
        order_by_probability(&mut plan.actions);
        self.merging.clear();
        Ok(())
    }

    /// The memories of a proposal, where all are known.
    fn question(&self, action: &Action) -> Option<Vec<MemoryIndex>> {
        let is_proposal = action.action == ActionType::ProposeMerge;
        let rows = action.target_ids.iter().map(|id| self.places.get(id).copied());
        is_proposal.then(|| rows.collect())?
    }

    /// Turns a proposal into the actions that the votes allow.
    fn decide(
        &mut self,
        mut proposal: Action,
        group: &Group,
        votes: &[Vote],
        given: &Given,
    ) -> Vec<Action> {
        self.judged.proposals += 1;
        let Some(first) = votes.first() else {
            self.judged.left += 1;
            self.leave(group, votes);
            return vec![proposal];
        };
        if let Some(probability) = probability(first) {
            let evidence = &mut proposal.rationale.evidence;
            evidence.probability = Some(probability);
            evidence.probability_by = Some(first.judge.clone());
            evidence.judgements = votes.iter().map(|vote| vote.key.clone()).collect();
            let merges_from = self.judging.answers.merges_from(&first.judge);
            if merges_from.is_none_or(|minimum| probability < minimum) {
                self.judged.left += 1;
                let ids = proposal.target_ids.clone();
                self.rule("order", &ids, &first.judge, &format!("probability {probability:.2}"));
                return vec![proposal];
            }
        }
        let rewrite = self.judging.settings.rewrite;
        let outcome = self.outcome(group, votes, Task::Duplicates { rewrite });
        let mut actions = Vec::new();
        for accepted in &outcome.accepted {
            actions.extend(self.merge(accepted, group, votes, given));
        }
        for refused in &outcome.refused {
            let reason = self.refuse(group, refused, &first.judge);
            proposal.rationale.reasons.push(reason);
        }
        if !actions.is_empty() {
            self.judged.merged += 1;
            return actions;
        }
        proposal.rationale.evidence.judgements =
            votes.iter().map(|vote| vote.key.clone()).collect();
        let all = |found: &&Accepted| {
            found.survivor.is_none() && found.others.len() == group.memories.len()
        };
        if let Some(kept) = outcome.accepted.iter().find(all) {
            self.judged.kept_separate += 1;
            self.rule("keep_separate", &proposal.target_ids, &first.judge, &kept.reason);
            return vec![kept_separate(proposal, &first.judge, &kept.reason)];
        }
        self.judged.left += 1;
        if outcome.refused.is_empty() {
            self.leave(group, votes);
        }
        vec![proposal]
    }

    fn merge(
        &mut self,
        accepted: &Accepted,
        group: &Group,
        votes: &[Vote],
        given: &Given,
    ) -> Option<Action> {
        let survivor = group.find(accepted.survivor.as_ref()?)?.id.clone();
        let mut target_ids = vec![survivor];
        target_ids.extend(ids(group, &accepted.others));
        let judge = votes.first().map_or("", |vote| &vote.judge);
        if let Some(text) = &accepted.text {
            self.rule("rewrite", &target_ids, judge, &accepted.reason);
            return self.written(
                ActionType::Rewrite,
                RULE,
                "rewrites",
                &target_ids,
                text,
                votes,
                &accepted.reason,
            );
        }
        let claim = if accepted.action == OpinionKind::Replace { "replaces" } else { "merges" };
        self.rule("merge", &target_ids, judge, &accepted.reason);
        let memories: Option<Vec<Memory>> =
            target_ids.iter().map(|id| Some(as_given(self.memory_of(id)?, given))).collect();
        let memories = memories?;
        let (kept, merged) = memories.split_first()?;
        let similarity =
            merged.iter().filter_map(|other| self.similarity(&kept.id, &other.id)).min();
        let merged: Vec<&Memory> = merged.iter().collect();
        let kind = ActionType::Merge;
        let Action { risk, rationale, .. } =
            decided(kind, target_ids, RULE, claim, votes, &accepted.reason);
        let merge = Action::merging(kind, kept, &merged, self.ground.merge(), rationale);
        let mut action = Action { risk, ..merge };
        action.rationale.evidence.similarity = similarity.map(Similarity::get);
        Some(action)
    }
}

/// The probability that a scoring judge gives, in hundredths; `None` for one that argues.
fn probability(vote: &Vote) -> Option<f64> {
    let said = vote.opinions.iter().filter_map(|opinion| opinion.probability);
    said.reduce(f64::min).map(|probability| (probability * 100.0).round() / 100.0)
}

/// Puts the proposals that a judge scored into the order of its probabilities, before the unscored
/// ones.
fn order_by_probability(actions: &mut [Action]) {
    let is_proposal = |action: &&Action| action.action == ActionType::ProposeMerge;
    let scored = |action: &Action| {
        let evidence = &action.rationale.evidence;
        evidence.probability.filter(|_| evidence.probability_by.is_some())
    };
    let mut proposals: Vec<Action> = actions.iter().filter(is_proposal).cloned().collect();
    if proposals.iter().any(|action| scored(action).is_some()) {
        proposals.sort_by(|a, b| scored(b).unwrap_or(-1.0).total_cmp(&scored(a).unwrap_or(-1.0)));
        let places = actions.iter_mut().filter(|action| action.action == ActionType::ProposeMerge);
        places.zip(proposals).for_each(|(place, proposal)| *place = proposal);
    }
}

/// A memory as the earlier merges of the plan leave it.
fn as_given(memory: &Memory, given: &Given) -> Memory {
    let mut memory = memory.clone();
    if let Some((categories, importance)) = given.get(&memory.id) {
        if let Some(categories) = categories {
            memory.categories = categories.iter().map(|name| name.as_str().into()).collect();
        }
        memory.importance = importance.unwrap_or(memory.importance);
    }
    memory
}

fn kept_separate(proposal: Action, judge: &str, reason: &str) -> Action {
    Action {
        action: ActionType::Noop,
        canonical_id: None,
        new_categories: None,
        new_importance: None,
        risk: Risk::Identical,
        rationale: Rationale {
            rule_id: RULE.to_owned(),
            reasons: reasons(judge, "keeps separate", reason),
            evidence: Evidence {
                decided_by: Some(judge.to_owned()),
                ..proposal.rationale.evidence
            },
            ..proposal.rationale
        },
        ..proposal
    }
}
