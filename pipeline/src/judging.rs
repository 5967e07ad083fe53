//! [`Judging`]: models decide about the proposals of a plan, on a leash.

use std::collections::BTreeMap;

use memfold_guard::Guard;
use memfold_judge::ask::{Asking, Recorded, request_count};
use memfold_judge::{
    Accepted, Asked, Group, Judge, Judgement, LeashRules, Member, Opinion, OpinionKind, Outcome,
    Records, Refusal, Usage, Vote, ask_all, leash,
};
use memfold_model::memory::{Memory, MemoryId, MemoryIndex};
use memfold_plan::detect::newest_first;
use memfold_plan::plan::{Action, ActionType, Evidence, Plan, Rationale, Risk, Values};
use memfold_plan::policy::{JudgeSettings, MergePolicy};
use memfold_plan::report::{Judged, Ruling};
use memfold_simd::Similarity;
use memfold_store::brain_db::{BrainDb, Session, SessionError, StoredJudgement};
use memfold_store::{LoadStoreError, Snapshot};

use crate::MemfoldError;

/// The rule that stands in lineage and rationales.
pub const RULE: &str = "judge";

/// Models that decide about proposals, and where their answers are kept.
pub struct Judging<'a> {
    /// Who is asked.
    pub judge: &'a mut dyn Judge,
    /// What was said before, and where new answers go.
    pub answers: &'a mut StoredAnswers,
    /// Votes, limits.
    pub settings: &'a JudgeSettings,
    /// Whether nobody is asked: recorded answers only.
    pub recorded_only: bool,
    /// Is told what will be asked, before anything is: groups, memories and requests of the first vote.
    pub announce: &'a dyn Fn(usize, usize, usize),
    /// Is told after each answer how many groups of a vote are done, of how many, and what it took so far.
    pub progress: &'a dyn Fn(usize, usize, &Usage),
    /// Tells whether the caller wants to stop; what was answered is kept.
    pub cancelled: &'a dyn Fn() -> bool,
}

/// Answers as a store keeps them.
#[derive(Default)]
pub struct StoredAnswers {
    known: BTreeMap<String, Recorded>,
    /// What was spent, by the day as the owner writes times.
    cost_by_day: BTreeMap<String, f64>,
    keep: Option<(Session, String)>,
}

/// Characters of a naive time that are its date.
const DATE_CHARS: usize = 10;

impl StoredAnswers {
    /// Reads what was ever answered.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn read(store: &BrainDb) -> Result<Self, LoadStoreError> {
        let mut answers = Self::default();
        for (stored, at) in store.judgements()? {
            let day = at.get(..DATE_CHARS).unwrap_or_default().to_owned();
            *answers.cost_by_day.entry(day).or_default() += stored.cost;
            if let Ok(opinions) = serde_json::from_str::<Vec<Opinion>>(&stored.opinions) {
                let recorded = Recorded { judge: stored.judge, opinions };
                answers.known.insert(stored.key, recorded);
            }
        }
        Ok(answers)
    }

    /// Keeps further answers in the store, with the time as the owner writes times.
    #[must_use]
    pub fn keep_in(mut self, session: Session, at: String) -> Self {
        self.keep = Some((session, at));
        self
    }

    /// Returns what the day of a time, as the owner writes times, has cost so far.
    #[must_use]
    pub fn cost_of_day(&self, at: &str) -> f64 {
        at.get(..DATE_CHARS).and_then(|day| self.cost_by_day.get(day)).copied().unwrap_or(0.0)
    }
}

impl Records for StoredAnswers {
    type Error = SessionError;

    fn find(&self, key: &str) -> Result<Option<Recorded>, SessionError> {
        Ok(self.known.get(key).cloned())
    }

    fn keep(&mut self, judgements: &[Judgement]) -> Result<(), SessionError> {
        if let Some((session, at)) = &self.keep {
            let stored: Vec<StoredJudgement> = judgements.iter().map(stored).collect();
            session.keep_judgements(&stored, at)?;
        }
        for Judgement { key, judge, opinions, .. } in judgements {
            let recorded = Recorded { judge: judge.clone(), opinions: opinions.clone() };
            self.known.insert(key.clone(), recorded);
        }
        Ok(())
    }
}

fn stored(judgement: &Judgement) -> StoredJudgement {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    let usage = &judgement.usage;
    StoredJudgement {
        key: judgement.key.clone(),
        judge: judgement.judge.clone(),
        memories: judgement.memories.iter().map(ToString::to_string).collect(),
        opinions: serde_json::to_string(&judgement.opinions).unwrap_or_default(),
        requests: count(usage.requests),
        prompt_tokens: count(usage.prompt_tokens),
        completion_tokens: count(usage.completion_tokens),
        cost: usage.cost,
        latency_ms: count(usage.latency_ms),
    }
}

/// What a plan rests on, as far as judging needs it.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) guard: &'a Guard,
    pub(crate) merge: &'a MergePolicy,
    pub(crate) similarity: &'a dyn Fn(MemoryIndex, MemoryIndex) -> Option<Similarity>,
}

/// Asks about the proposals of a plan; those that a judge decided become merges or noops. What is refused or not answered stays
/// a proposal, with the reason. Returns what became of each.
pub(crate) fn judge_proposals(
    plan: &mut Plan,
    ground: Ground<'_>,
    judging: &mut Judging<'_>,
) -> Result<Judged, MemfoldError> {
    let places = places(ground.snapshot);
    let proposals = plan.actions.iter().filter(|action| is_question(action, &places));
    let groups: Vec<Group> = proposals.map(|action| group(action, ground, &places)).collect();
    let memories = groups.iter().map(|group| group.memories.len()).sum();
    let requests = request_count(&groups, judging.settings.batch_size);
    (judging.announce)(groups.len(), memories, requests);
    let asking = Asking {
        batch_size: judging.settings.batch_size,
        votes: judging.settings.votes,
        rewrite: false,
        recorded_only: judging.recorded_only,
        cancelled: judging.cancelled,
        progress: judging.progress,
    };
    let asked = ask_all(&groups, &mut *judging.judge, judging.answers, &asking)?;
    if asked.is_cancelled {
        return Err(MemfoldError::Cancelled);
    }
    let mut decider = Decider::new(plan, ground, &places, judging.settings);
    let mut actions = Vec::with_capacity(plan.actions.len());
    let mut questions = groups.iter().zip(&asked.votes);
    for action in std::mem::take(&mut plan.actions) {
        if !is_question(&action, &places) {
            actions.push(action);
            continue;
        }
        if let Some((group, votes)) = questions.next() {
            actions.extend(decider.decide(action, group, votes));
        }
    }
    let judged = decider.figures(&asked);
    plan.actions = actions;
    let touched: std::collections::BTreeSet<MemoryId> = plan
        .actions
        .iter()
        .filter(|action| action.action != ActionType::Noop)
        .flat_map(|action| action.target_ids.iter().cloned())
        .collect();
    plan.base_digests.retain(|id, _| touched.contains(id));
    Ok(judged)
}

type Places<'a> = BTreeMap<&'a MemoryId, MemoryIndex>;

fn places(snapshot: &Snapshot) -> Places<'_> {
    snapshot
        .memories
        .iter()
        .enumerate()
        .map(|(at, memory)| (&memory.id, MemoryIndex(at as u32)))
        .collect()
}

/// A proposal whose memories are all known.
fn is_question(action: &Action, places: &Places<'_>) -> bool {
    action.action == ActionType::ProposeMerge
        && action.target_ids.iter().all(|id| places.contains_key(id))
}

fn group(action: &Action, ground: Ground<'_>, places: &Places<'_>) -> Group {
    let memories = &ground.snapshot.memories;
    let known = action.target_ids.iter().filter_map(|id| places.get(id));
    let mut members: Vec<&Memory> = known.map(|at| &memories[at.index()]).collect();
    members.sort_by(|a, b| newest_first(a, b));
    let member = |memory: &Memory| Member {
        handle: String::new(),
        id: memory.id.clone(),
        text: memory.content.to_string(),
        categories: memory.categories.iter().map(ToString::to_string).collect(),
        importance: memory.importance,
        created: memory.created_at.instant().map(|at| at.to_rfc3339()).unwrap_or_default(),
        source: memory.root_source.to_string(),
    };
    Group::new(members.into_iter().map(member).collect())
}

/// Turns votes into actions.
struct Decider<'a> {
    ground: Ground<'a>,
    places: &'a Places<'a>,
    rules: LeashRules,
    /// What earlier merges of the plan give their survivors.
    given: BTreeMap<MemoryId, (Option<Vec<String>>, Option<f64>)>,
    /// Memories that may still leave.
    absorbed_left: usize,
    judged: Judged,
}

impl<'a> Decider<'a> {
    fn new(
        plan: &Plan,
        ground: Ground<'a>,
        places: &'a Places<'a>,
        settings: &JudgeSettings,
    ) -> Self {
        let merges = plan.actions.iter().filter(|action| action.action == ActionType::Merge);
        let live = ground.snapshot.memories.iter();
        let live = live.filter(|memory| memory.standing == memfold_model::memory::Standing::Live);
        Self {
            ground,
            places,
            rules: LeashRules {
                replace_similarity_min: settings.replace_similarity_min,
                rewrite: false,
                content_words_lost_max: 0.0,
            },
            given: merges
                .filter_map(|action| {
                    let given = (action.new_categories.clone(), action.new_importance);
                    Some((action.canonical_id.clone()?, given))
                })
                .collect(),
            absorbed_left: (live.count() as f64 * settings.live_share_max) as usize,
            judged: Judged::default(),
        }
    }

    /// What becomes of a proposal.
    fn decide(&mut self, mut proposal: Action, group: &Group, votes: &[Vote]) -> Vec<Action> {
        self.judged.proposals += 1;
        let Some(first) = votes.first() else {
            self.judged.left += 1;
            self.rule("unanswered", &proposal.target_ids, ("", "nobody answered"));
            return vec![proposal];
        };
        let said: Vec<Vec<Opinion>> = votes.iter().map(|vote| vote.opinions.clone()).collect();
        let outcome = self.outcome(group, &said);
        let keys: Vec<String> = votes.iter().map(|vote| vote.key.clone()).collect();
        let mut actions = Vec::new();
        for accepted in &outcome.accepted {
            if let Some(merge) = self.merge(accepted, group, (first, &keys)) {
                actions.push(merge);
            }
        }
        for refused in &outcome.refused {
            let ids = ids(group, &refused.opinion.ids);
            let reason = refused.reason.to_string();
            self.rule("refused", &ids, (&first.judge, &reason));
            *self.judged.refusals.entry(kind_of(&refused.reason)).or_default() += 1;
            proposal.rationale.reasons.push(format!("{}: refused, {reason}", first.judge));
        }
        if !actions.is_empty() {
            self.judged.merged += 1;
            return actions;
        }
        proposal.rationale.evidence.judgements = keys;
        let all = |found: &&Accepted| {
            found.survivor.is_none() && found.others.len() == group.memories.len()
        };
        if let Some(kept) = outcome.accepted.iter().find(all) {
            self.judged.kept_separate += 1;
            self.rule("keep_separate", &proposal.target_ids, (&first.judge, &kept.reason));
            return vec![kept_separate(proposal, &first.judge, &kept.reason)];
        }
        self.judged.left += 1;
        if outcome.refused.is_empty() {
            let reason = first.opinions.first().map_or("", |opinion| &opinion.reason);
            self.rule("skip", &proposal.target_ids, (&first.judge, reason));
        }
        vec![proposal]
    }

    /// What the leash lets pass, as far as memories may still leave.
    fn outcome(&mut self, group: &Group, said: &[Vec<Opinion>]) -> Outcome {
        let index = |member: &Member| self.places.get(&member.id).copied();
        let similarity = |one: &Member, other: &Member| {
            (self.ground.similarity)(index(one)?, index(other)?).map(Similarity::get)
        };
        let mut outcome = leash(group, said, self.ground.guard, &self.rules, &similarity);
        let (mut kept, accepted) = (Vec::new(), std::mem::take(&mut outcome.accepted));
        for found in accepted {
            let leaving = if found.survivor.is_some() { found.others.len() } else { 0 };
            if leaving > self.absorbed_left {
                let opinion = Opinion {
                    action: found.action,
                    ids: found.survivor.iter().chain(&found.others).cloned().collect(),
                    keep: found.survivor.clone(),
                    text: found.text.clone(),
                    reason: found.reason.clone(),
                };
                let reason = Refusal::CapReached;
                outcome.refused.push(memfold_judge::Refused { opinion, reason });
                continue;
            }
            self.absorbed_left -= leaving;
            kept.push(found);
        }
        outcome.accepted = kept;
        outcome
    }

    fn merge(
        &mut self,
        accepted: &Accepted,
        group: &Group,
        (vote, keys): (&Vote, &[String]),
    ) -> Option<Action> {
        let memory = |handle: &String| {
            let at = self.places.get(&group.find(handle)?.id)?;
            Some((*at, &self.ground.snapshot.memories[at.index()]))
        };
        let (at, kept) = memory(accepted.survivor.as_ref()?)?;
        let others: Vec<(MemoryIndex, &Memory)> =
            accepted.others.iter().filter_map(memory).collect();
        let (survivor, absorbed) = (self.as_given(kept), others.iter());
        let absorbed: Vec<Memory> = absorbed.map(|(_, memory)| self.as_given(memory)).collect();
        let values = Values::merged(&survivor, &absorbed, self.ground.merge);
        let similarity =
            others.iter().filter_map(|(other, _)| (self.ground.similarity)(at, *other));
        let target_ids: Vec<MemoryId> = std::iter::once(kept.id.clone())
            .chain(others.iter().map(|(_, memory)| memory.id.clone()))
            .collect();
        let deed = if accepted.action == OpinionKind::Replace { "replaces" } else { "merges" };
        self.rule("merge", &target_ids, (&vote.judge, &accepted.reason));
        Some(Action {
            action: ActionType::Merge,
            canonical_id: Some(kept.id.clone()),
            target_ids,
            survivor_protected: false,
            new_content: None,
            new_categories: values.new_categories(&survivor),
            new_importance: values.new_importance(&survivor),
            risk: Risk::Reworded,
            rationale: Rationale {
                rule_id: RULE.to_owned(),
                score: None,
                reasons: reasons(&vote.judge, deed, &accepted.reason),
                evidence: Evidence {
                    similarity: similarity.min().map(Similarity::get),
                    decided_by: Some(vote.judge.clone()),
                    judgements: keys.to_vec(),
                    ..Evidence::default()
                },
            },
        })
    }

    /// A memory as the earlier merges of the plan leave it.
    fn as_given(&self, memory: &Memory) -> Memory {
        let mut memory = memory.clone();
        if let Some((categories, importance)) = self.given.get(&memory.id) {
            if let Some(categories) = categories {
                memory.categories = categories.iter().map(|name| name.as_str().into()).collect();
            }
            memory.importance = importance.unwrap_or(memory.importance);
        }
        memory
    }

    fn rule(&mut self, action: &str, ids: &[MemoryId], (judge, reason): (&str, &str)) {
        self.judged.rulings.push(Ruling {
            action: action.to_owned(),
            ids: ids.iter().map(ToString::to_string).collect(),
            judge: judge.to_owned(),
            reason: memfold_model::text::excerpt(reason, REASON_CHARS),
        });
    }

    fn figures(self, asked: &Asked) -> Judged {
        let tally = &asked.tally;
        Judged {
            votes_recorded: tally.recorded,
            votes_given: tally.answered,
            votes_missing: tally.unanswered,
            failures: tally.failures.clone(),
            requests: tally.usage.requests,
            prompt_tokens: tally.usage.prompt_tokens,
            completion_tokens: tally.usage.completion_tokens,
            cost: tally.usage.cost,
            ..self.judged
        }
    }
}

/// Characters of a model's words that are kept in plans and reports.
const REASON_CHARS: usize = 300;

fn reasons(judge: &str, deed: &str, reason: &str) -> Vec<String> {
    let mut reasons = vec![format!("{judge} {deed}")];
    if !reason.is_empty() {
        reasons.push(memfold_model::text::excerpt(reason, REASON_CHARS));
    }
    reasons
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

fn ids(group: &Group, handles: &[String]) -> Vec<MemoryId> {
    handles.iter().filter_map(|handle| Some(group.find(handle)?.id.clone())).collect()
}

/// The name of a refusal's kind.
fn kind_of(refusal: &Refusal) -> String {
    let kind = serde_json::to_value(refusal).ok();
    kind.and_then(|kind| kind["kind"].as_str().map(str::to_owned)).unwrap_or_default()
}
