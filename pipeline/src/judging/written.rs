//! Golden records, summaries and supersessions.

use std::collections::{BTreeMap, BTreeSet};

use memfold_core::decisions::{SingleAction, content_hash, share};
use memfold_core::detect::{TopicRules, newest_first, topics};
use memfold_core::judge::{
    AcceptedSummary, Group, SaidDecision, Task, Vote, accept_summary, accept_supersession,
};
use memfold_core::memory::{Memory, MemoryId, MemoryIndex, Status};
use memfold_core::plan::{Action, ActionType, Plan, merged_values};
use memfold_core::policy::JudgeTask;
use memfold_core::summary::{
    Confidence, KeyFact, SummarizedDecision, Summary, SummaryConfidence, SupersededFact,
};
use memfold_simd::Similarity;
use sha2::{Digest as _, Sha256};

use super::{GOLDEN, SUMMARY, SUPERSESSION, Stage, decided, ids, leaving, said};
use crate::error::MemfoldError;

/// Memories of one golden record: fewer are pairs for `duplicates`, more become unreadable.
const GOLDEN_MEMBERS: (usize, usize) = (3, 10);
/// Memories of one summary.
const SUMMARY_MEMBERS: (usize, usize) = (3, 20);
/// The category of summaries.
const SUMMARY_CATEGORY: &str = "summary";
/// A summary matters as much as the memories it summarises, but is never protected for it.
const SUMMARY_IMPORTANCE_MAX: f64 = 2.0;
/// Percentage of a summary's sources that an earlier one must share to be replaced by it.
const REPLACED_PERCENT_MIN: usize = 50;
const ID_DIGITS: usize = 12;

impl Stage<'_, '_, '_> {
    /// Asks for one memory that stands for related ones.
    pub(super) fn golden(&mut self, plan: &mut Plan) -> Result<(), MemfoldError> {
        let touching = plan.actions.iter().filter(|action| action.action.is_change());
        let touched: BTreeSet<MemoryId> =
            touching.flat_map(|action| action.rests_on().cloned()).collect();
        let open_flags = self.ground.snapshot().decisions.open_flags.iter();
        let flagged: BTreeSet<&MemoryId> = open_flags.flat_map(|(a, b)| [a, b]).collect();
        let protected: BTreeSet<MemoryIndex> =
            self.ground.protected.iter().map(|(row, _)| *row).collect();
        let settings = self.judging.settings;
        let rules = TopicRules {
            similarity_min: settings.golden_similarity_min,
            is_complete: true,
            members: GOLDEN_MEMBERS,
        };
        let free = self.free(|stage, row| {
            let memory = stage.memory(row);
            let decisions = &stage.ground.snapshot().decisions;
            let is_taken_back = decisions.undone.contains_key(&memory.id)
                && !decisions.reworded.contains(&memory.id);
            !touched.contains(&memory.id)
                && !flagged.contains(&memory.id)
                && !protected.contains(&row)
                && !is_taken_back
        });
        let mut found = topics(self.ground.input, &free, rules, self.ground.options)?.groups;
        found.retain(|rows| !self.are_apart(rows));
        let groups: Vec<Group> = found.into_iter().map(|rows| self.group(rows)).collect();
        let votes = self.ask(&groups, JudgeTask::Golden, Task::Golden, settings.votes)?;
        for (group, votes) in groups.iter().zip(&votes) {
            let actions = self.golden_records(group, votes);
            plan.actions.extend(actions);
        }
        Ok(())
    }

    fn golden_records(&mut self, group: &Group, votes: &[Vote]) -> Vec<Action> {
        let Some(first) = votes.first() else {
            self.leave(group, votes);
            return Vec::new();
        };
        let outcome = self.outcome(group, votes, Task::Golden);
        let mut actions = Vec::new();
        for accepted in &outcome.accepted {
            let (Some(survivor), Some(text)) = (&accepted.survivor, &accepted.text) else {
                continue;
            };
            let mut sources = ids(group, std::slice::from_ref(survivor));
            sources.extend(ids(group, &accepted.others));
            self.rule("rewrite", &sources, &first.judge, &accepted.reason);
            actions.extend(self.written(
                ActionType::Rewrite,
                GOLDEN,
                "writes a golden record",
                &sources,
                text,
                votes,
                &accepted.reason,
            ));
        }
        for refused in &outcome.refused {
            self.refuse(group, refused, &first.judge);
        }
        if actions.is_empty() && outcome.refused.is_empty() {
            self.leave(group, votes);
        }
        actions
    }

    /// Asks for summaries of groups that have none that is up to date.
    pub(super) fn summaries(&mut self, plan: &mut Plan) -> Result<(), MemfoldError> {
        let leaving = leaving(plan);
        let rules = TopicRules {
            similarity_min: self.judging.settings.summary_similarity_min,
            is_complete: false,
            members: SUMMARY_MEMBERS,
        };
        let free = self.free(|stage, row| !leaving.contains(&stage.memory(row).id));
        let found = topics(self.ground.input, &free, rules, self.ground.options)?;
        self.judged.left_out += found.left_out;
        let known: BTreeSet<String> = self
            .judging
            .answers
            .summaries
            .iter()
            .map(|summary| summary.summary.members_hash.clone())
            .collect();
        let mut groups = Vec::new();
        for rows in found.groups {
            let is_declined = rows.iter().all(|&row| self.declines(row, SingleAction::Summarize));
            let group = self.group(rows);
            if !is_declined && !known.contains(&members_hash(&group)) {
                groups.push(group);
            }
        }
        // Nothing leaves by a summary: one answer is enough.
        let votes = self.ask(&groups, JudgeTask::Summaries, Task::Summaries, 1)?;
        for (group, votes) in groups.iter().zip(&votes) {
            let action = self.summary(group, votes);
            plan.actions.extend(action);
        }
        Ok(())
    }

    fn summary(&mut self, group: &Group, votes: &[Vote]) -> Option<Action> {
        let first = votes.first();
        let said = first.map_or(&[][..], |vote| &vote.opinions);
        let accepted = match accept_summary(group, said, self.ground.guard()) {
            Ok(Some(accepted)) => accepted,
            Ok(None) => {
                self.leave(group, votes);
                return None;
            }
            Err(refused) => {
                self.refuse(group, &refused, first.map_or("", |vote| &vote.judge));
                return None;
            }
        };
        self.judged.statements_dropped += accepted.dropped as u64;
        let sources = ids(group, &accepted.ids);
        let judge = first.map_or("", |vote| &vote.judge);
        self.rule("summarize", &sources, judge, &accepted.reason);
        let mut action = self.written(
            ActionType::Summarize,
            SUMMARY,
            "summarises",
            &sources,
            &accepted.text,
            votes,
            &accepted.reason,
        )?;
        let summary = self.details(group, &accepted, &sources);
        action.new_categories = Some(vec![SUMMARY_CATEGORY.to_owned(), summary.topic.clone()]);
        action.new_importance =
            action.new_importance.map(|importance| importance.min(SUMMARY_IMPORTANCE_MAX));
        action.summary = Some(Box::new(summary));
        Some(action)
    }

    fn details(&self, group: &Group, accepted: &AcceptedSummary, sources: &[MemoryId]) -> Summary {
        let said = &accepted.said;
        let memories: Vec<&Memory> = sources.iter().filter_map(|id| self.memory_of(id)).collect();
        let times: Vec<_> =
            memories.iter().filter_map(|memory| memory.created_at.instant()).collect();
        let time = |at: Option<&memfold_core::time::Instant>| {
            at.map_or_else(String::new, |at| at.to_rfc3339())
        };
        let fact = |fact: &memfold_core::judge::SaidFact| KeyFact {
            fact: fact.fact.trim().to_owned(),
            source_ids: ids(group, &fact.ids),
        };
        let superseded = said.superseded_facts.iter().filter_map(|fact| {
            Some(SupersededFact {
                original_fact: fact.original_fact.trim().to_owned(),
                superseded_by: fact.superseded_by.trim().to_owned(),
                source_memory_id: group.find(&fact.id)?.id.clone(),
            })
        });
        let parts = said.confidence;
        Summary {
            topic: topic(&memories),
            start: time(times.iter().min()),
            end: time(times.iter().max()),
            key_facts: said.key_facts.iter().map(fact).collect(),
            decisions: said.decisions.iter().map(decision).collect(),
            superseded_facts: superseded.collect(),
            confidence: SummaryConfidence::weigh([
                parts.relevance,
                parts.actionability,
                parts.novelty,
                parts.specificity,
                parts.coherence,
            ]),
            members_hash: members_hash(group),
            replaces: self.replaced(sources),
        }
    }

    /// Earlier summaries of about the same memories.
    fn replaced(&self, sources: &[MemoryId]) -> Vec<MemoryId> {
        let sources: BTreeSet<&MemoryId> = sources.iter().collect();
        let is_replaced = |earlier: &&memfold_store::brain_db::StoredSummary| {
            let common = earlier.sources.iter().filter(|id| sources.contains(id)).count();
            let is_live = self
                .memory_of(&earlier.memory_id)
                .is_some_and(|memory| memory.status == Status::Live);
            is_live && common * 100 >= earlier.sources.len() * REPLACED_PERCENT_MIN
        };
        let earlier = self.judging.answers.summaries.iter().filter(is_replaced);
        earlier.map(|summary| summary.memory_id.clone()).collect()
    }

    /// Asks which memories of pairs no longer hold.
    pub(super) fn supersession(&mut self, plan: &mut Plan) -> Result<(), MemfoldError> {
        let pairs = self.pairs(plan);
        let groups: Vec<Group> = pairs.iter().map(|(pair, _)| self.group_in_order(pair)).collect();
        let votes = self.judging.settings.votes;
        let votes = self.ask(&groups, JudgeTask::Supersession, Task::Supersession, votes)?;
        let rules = self.rules(Task::Supersession);
        let mut replaced: BTreeMap<usize, Action> = BTreeMap::new();
        for (((_, at), group), votes) in pairs.iter().zip(&groups).zip(&votes) {
            let judge = votes.first().map_or(String::new(), |vote| vote.judge.clone());
            let (said, reason) =
                match accept_supersession(group, &said(votes), self.ground.guard(), &rules) {
                    Ok(Some(said)) => said,
                    Ok(None) => {
                        self.leave(group, votes);
                        continue;
                    }
                    Err(refused) => {
                        self.refuse(group, &refused, &judge);
                        continue;
                    }
                };
            let pair: Vec<MemoryId> =
                group.memories.iter().map(|member| member.id.clone()).collect();
            self.rule("supersede", &pair, &judge, &reason);
            let similarity = self.similarity(&pair[0], &pair[1]);
            let claim = format!("says that it holds in the other's place ({})", said.kind.name());
            let mut action =
                decided(ActionType::Supersede, pair, SUPERSESSION, &claim, votes, &reason);
            action.rationale.evidence.similarity = similarity.map(Similarity::get);
            match at {
                Some(at) => {
                    replaced.insert(*at, action);
                }
                None => plan.actions.push(action),
            }
        }
        for (at, mut action) in replaced {
            let old = &plan.actions[at].rationale;
            action.rationale.score = old.score;
            let evidence = &mut action.rationale.evidence;
            evidence.contradiction_signals.clone_from(&old.evidence.contradiction_signals);
            evidence.differences.clone_from(&old.evidence.differences);
            plan.actions[at] = action;
        }
        Ok(())
    }

    /// Pairs of which the older memory may no longer hold, newer first, each once: flags of the plan and proposals of two (with
    /// their place in it), then open flags.
    fn pairs(&self, plan: &Plan) -> Vec<([MemoryIndex; 2], Option<usize>)> {
        let leaving = leaving(plan);
        let planned = plan.actions.iter().enumerate().filter_map(|(at, action)| {
            let is_pair =
                matches!(action.action, ActionType::FlagContradiction | ActionType::ProposeMerge);
            match &action.target_ids[..] {
                [a, b] if is_pair => Some(([a, b], Some(at))),
                _ => None,
            }
        });
        let units = self.ground.detection.units.iter();
        let in_scope: BTreeSet<&MemoryId> = units.map(|unit| &self.memory(unit.live).id).collect();
        let open = self.ground.snapshot().decisions.open_flags.iter();
        let open = open.filter(|(a, b)| in_scope.contains(a) && in_scope.contains(b));
        let open = open.map(|(a, b)| ([a, b], None));
        let mut seen = BTreeSet::new();
        let mut pairs = Vec::new();
        for ([a, b], at) in planned.chain(open) {
            let key = if a < b { [a, b] } else { [b, a] };
            if leaving.contains(a) || leaving.contains(b) || !seen.insert(key) {
                continue;
            }
            pairs.extend(self.in_order(key).map(|pair| (pair, at)));
        }
        pairs
    }

    /// A pair with the newer statement first; `None` where that is unknown, or a person said that
    /// both hold.
    fn in_order(&self, [a, b]: [&MemoryId; 2]) -> Option<[MemoryIndex; 2]> {
        let (&x, &y) = (self.places.get(a)?, self.places.get(b)?);
        let (one, other) = (self.memory(x), self.memory(y));
        let times = (one.created_at.instant()?, other.created_at.instant()?);
        let is_live = |memory: &Memory| memory.status == Status::Live;
        let is_declined = [x, y].iter().all(|&row| self.declines(row, SingleAction::Supersede));
        let decisions = &self.ground.snapshot().decisions;
        if !is_live(one) || !is_live(other) || is_declined || decisions.keep_both.are_apart(a, b) {
            return None;
        }
        if let Some(asserted) = self.judging.answers.asserted.get(&[a.clone(), b.clone()]) {
            return Some(if asserted == a { [x, y] } else { [y, x] });
        }
        if times.0 == times.1 {
            return None;
        }
        Some(if newest_first(one, other).is_lt() { [x, y] } else { [y, x] })
    }

    /// Live memories in scope with a vector that are not summaries and pass a test.
    fn free(&self, test: impl Fn(&Self, MemoryIndex) -> bool) -> Vec<MemoryIndex> {
        let summaries: BTreeSet<&MemoryId> =
            self.judging.answers.summaries.iter().map(|summary| &summary.memory_id).collect();
        let detection = self.ground.detection;
        let shared: BTreeSet<MemoryIndex> = detection.shared_vector_rows.iter().copied().collect();
        let in_scope = detection.units.iter().map(|unit| unit.live);
        in_scope
            .filter(|&row| {
                let memory = self.memory(row);
                memory.embedding.vector().is_some()
                    && !shared.contains(&row)
                    && !summaries.contains(&memory.id)
                    && test(self, row)
            })
            .collect()
    }

    /// Whether a person keeps two of some memories apart.
    fn are_apart(&self, rows: &[MemoryIndex]) -> bool {
        let keep_both = &self.ground.snapshot().decisions.keep_both;
        let groups: Vec<Vec<u32>> = rows
            .iter()
            .map(|&row| keep_both.separating_groups_of(&self.memory(row).id).collect())
            .collect();
        let apart =
            |(at, one): (usize, &Vec<u32>)| groups[at + 1..].iter().any(|other| share(one, other));
        groups.iter().enumerate().any(apart)
    }

    fn declines(&self, row: MemoryIndex, action: SingleAction) -> bool {
        let declined = &self.ground.snapshot().decisions.declined;
        declined.contains(&(self.memory(row).id.clone(), action))
    }

    /// A new memory with a model's text.
    pub(super) fn written(
        &self,
        kind: ActionType,
        rule: &str,
        claim: &str,
        sources: &[MemoryId],
        text: &str,
        votes: &[Vote],
        reason: &str,
    ) -> Option<Action> {
        let mut memories: Vec<&Memory> =
            sources.iter().map(|id| self.memory_of(id)).collect::<Option<_>>()?;
        memories.sort_by(|a, b| newest_first(a, b));
        let (first, others) = memories.split_first()?;
        let after = merged_values(first, others.iter().copied(), self.ground.merge());
        let similarity =
            others.iter().filter_map(|other| self.similarity(&first.id, &other.id)).min();
        let targets: Vec<MemoryId> = memories.iter().map(|memory| memory.id.clone()).collect();
        let mut action = decided(kind, targets, rule, claim, votes, reason);
        action.canonical_id = Some(self.free_id(kind, sources, text));
        action.new_content = Some(text.to_owned());
        action.new_categories = Some(after.categories.iter().map(ToString::to_string).collect());
        action.new_importance = Some(after.importance);
        action.rationale.evidence.similarity = similarity.map(Similarity::get);
        Some(action)
    }

    /// An id in the owner's manner that no memory has: the same for the same sources and text.
    fn free_id(&self, kind: ActionType, sources: &[MemoryId], text: &str) -> MemoryId {
        let mut seed = format!("{}\0{text}", kind.name());
        for source in sources {
            seed.push('\0');
            seed.push_str(source.as_str());
        }
        loop {
            let digest = blake3::hash(seed.as_bytes()).to_hex();
            let id = MemoryId::new(format!("stm_{}", &digest[..ID_DIGITS]));
            if !self.places.contains_key(&id) {
                return id;
            }
            seed.push('+');
        }
    }
}

fn decision(said: &SaidDecision) -> SummarizedDecision {
    SummarizedDecision {
        decision: said.decision.trim().to_owned(),
        rationale: said.rationale.trim().to_owned(),
        outcome: said.outcome.trim().to_owned(),
        confidence: said.confidence.unwrap_or(Confidence::Low),
    }
}

/// The category that most of some memories have; of several the first in order.
fn topic(memories: &[&Memory]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for category in memories.iter().flat_map(|memory| &memory.categories) {
        *counts.entry(category).or_default() += 1;
    }
    let most = counts.values().max().copied().unwrap_or_default();
    let topic = counts.into_iter().find(|(_, count)| *count == most);
    topic.map_or("general", |(category, _)| category).to_owned()
}

/// sha256 of the ids and texts of members, in the order of the ids.
fn members_hash(group: &Group) -> String {
    let mut members: Vec<_> = group.memories.iter().collect();
    members.sort_by(|a, b| a.id.cmp(&b.id));
    let mut hash = Sha256::new();
    for member in members {
        hash.update(member.id.as_str());
        hash.update([0]);
        hash.update(content_hash(&member.text));
        hash.update([0]);
    }
    hash.finalize().iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"))
}
