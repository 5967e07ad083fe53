//! [`Judging`]: models decide about the proposals of a plan, write golden records and summaries,
//! and find superseded statements; all within the limits on answers.

mod duplicates;
#[cfg(feature = "local-models")]
pub mod nli;
mod written;

use std::collections::{BTreeMap, BTreeSet};

use memfold_core::Snapshot;
use memfold_core::detect::{DetectInput, Detection, newest_first};
use memfold_core::judge::ask::{Asking, Tally, request_count};
use memfold_core::judge::{
    Accepted, AnswerLimits, Asked, Group, Judge, Judgement, Member, Opinion, Outcome, Records,
    Refusal, Refused, ScoreThresholds, Task, Usage, Vote, accept_opinions, ask_all,
};
use memfold_core::memory::{Memory, MemoryId, MemoryIndex, Status};
use memfold_core::plan::{Action, ActionType, Evidence, Plan, ProtectedBy, Rationale, Risk};
use memfold_core::policy::{JudgeSettings, JudgeTask, MergePolicy, NliSettings, name_of};
use memfold_core::report::{Judged, Ruling};
use memfold_guard::Guard;
use memfold_guard::text::excerpt;
use memfold_index::JoinOptions;
use memfold_simd::Similarity;
use memfold_store::StoreError;
use memfold_store::brain_db::{BrainDb, KeptVote, Session, StoredSummary};
use tracing::info_span;

use crate::calibration::{Calibration, Decision};
use crate::error::MemfoldError;

/// The rule that stands in lineage and rationales.
pub(crate) const RULE: &str = "judge";
/// The rule of golden records.
pub const GOLDEN: &str = "golden";
/// The rule of summaries.
pub const SUMMARY: &str = "summary";
/// The rule of supersessions.
pub const SUPERSESSION: &str = "supersession";

/// A classifier cannot be read or run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the classifier in {folder} cannot be used: {reason}")]
pub struct ClassifierError {
    /// The folder.
    pub folder: String,
    /// Why.
    pub reason: String,
}

impl ClassifierError {
    /// Returns advice for the user.
    #[must_use]
    pub const fn hint(&self) -> &'static str {
        if cfg!(feature = "local-models") {
            "the folder must hold config.json, tokenizer.json and model.safetensors of a BERT, DeBERTa-v2 or \
             ModernBERT sequence classifier with the labels entailment and contradiction"
        } else {
            "build with --features local-models"
        }
    }
}

/// Returns the configured thresholds of judges that answer with probabilities.
#[must_use]
pub const fn thresholds(settings: &NliSettings) -> ScoreThresholds {
    let NliSettings { same_min, conflict_min, .. } = *settings;
    ScoreThresholds { same_min, conflict_min }
}

/// Reads the configured classifier; `None` where no folder is configured.
///
/// # Errors
/// When it cannot be read, or this program was built without the feature `local-models`.
pub fn classifier(settings: &NliSettings) -> Result<Option<Box<dyn Judge>>, ClassifierError> {
    let Some(folder) = settings.dir.as_deref() else { return Ok(None) };
    #[cfg(feature = "local-models")]
    {
        Ok(Some(Box::new(nli::NliJudge::read(folder, settings)?)))
    }
    #[cfg(not(feature = "local-models"))]
    {
        Err(ClassifierError {
            folder: folder.display().to_string(),
            reason: "this program was built without local models".to_owned(),
        })
    }
}

/// Memories in one batch of a classifier, about: enough that pairs of like length go together.
pub(crate) const CLASSIFIER_BATCH_SIZE: usize = 64;

/// Models that decide, and where their answers are kept.
pub struct Judging<'a> {
    /// The models to query.
    pub judge: &'a mut dyn Judge,
    /// Earlier answers, and the place for new ones.
    pub answers: &'a mut StoredAnswers,
    /// Tasks, votes, limits.
    pub settings: &'a JudgeSettings,
    /// Whether no model is queried: recorded answers only.
    pub recorded_only: bool,
    /// Called before the questions of a task are sent.
    pub announce: &'a dyn Fn(&Announcement),
    /// Called after each answer with the number of finished groups of a vote, their total, and the
    /// usage so far.
    pub progress: &'a dyn Fn(usize, usize, &Usage),
    /// Tells whether the caller wants to stop; answers so far are kept.
    pub cancelled: &'a dyn Fn() -> bool,
}

/// The questions of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement {
    /// The task.
    pub task: JudgeTask,
    /// Groups of memories.
    pub groups: usize,
    /// Memories in them.
    pub memories: usize,
    /// Requests for each vote, at most.
    pub requests: usize,
}

/// Answers as a store keeps them, and their outcomes.
#[derive(Default)]
pub struct StoredAnswers {
    known: BTreeMap<String, Vote>,
    /// The costs, by the day as the owner writes times.
    cost_by_day: BTreeMap<String, f64>,
    keep: Option<(Session, String)>,
    summaries: Vec<StoredSummary>,
    /// From which probability on the store's own decisions support merges, by judge.
    supported: BTreeMap<String, f64>,
    /// For open flags, the side that was saved again after the other one.
    asserted: BTreeMap<[MemoryId; 2], MemoryId>,
}

/// Characters of a naive time that are its date.
const DATE_CHARS: usize = 10;

impl StoredAnswers {
    /// Reads all stored answers.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn read(store: &BrainDb) -> Result<Self, StoreError> {
        let mut answers = Self { summaries: store.summaries()?, ..Self::default() };
        for KeptVote { vote, cost, at } in store.votes()? {
            let day = at.get(..DATE_CHARS).unwrap_or_default().to_owned();
            *answers.cost_by_day.entry(day).or_default() += cost;
            answers.known.extend(vote.map(|vote| (vote.key.clone(), vote)));
        }
        for flag in store.open_flags()? {
            if let Some((id, _)) = flag.asserted {
                answers.asserted.insert(flag.ids.map(MemoryId::new), MemoryId::new(id));
            }
        }
        Ok(answers)
    }

    /// Keeps further answers in the store, with the time as the owner writes times.
    #[must_use]
    pub(crate) fn keep_in(mut self, session: Session, at: String) -> Self {
        self.keep = Some((session, at));
        self
    }

    /// Lets judges merge as far as a person's decisions support it; without decisions a scoring judge merges nothing.
    #[must_use]
    pub fn supported_by(mut self, decisions: &BTreeMap<Option<String>, Vec<Decision>>) -> Self {
        for (judge, decisions) in decisions {
            let Calibration { is_supported, threshold, .. } = Calibration::of(decisions);
            if let (true, Some(judge), Some(threshold)) = (is_supported, judge, threshold) {
                self.supported.insert(judge.clone(), threshold);
            }
        }
        self
    }

    /// Returns from which probability on a judge may merge without a person.
    #[must_use]
    pub fn merges_from(&self, judge: &str) -> Option<f64> {
        self.supported.get(judge).copied()
    }

    /// Returns the costs so far of the day of a time, as the owner writes times.
    #[must_use]
    pub(crate) fn cost_of_day(&self, at: &str) -> f64 {
        at.get(..DATE_CHARS).and_then(|day| self.cost_by_day.get(day)).copied().unwrap_or(0.0)
    }
}

impl Records for StoredAnswers {
    type Error = StoreError;

    fn find(&self, key: &str) -> Result<Option<Vote>, StoreError> {
        Ok(self.known.get(key).cloned())
    }

    fn keep(&mut self, judgements: &[Judgement]) -> Result<(), StoreError> {
        if let Some((session, at)) = &self.keep {
            session.keep_judgements(judgements, at)?;
        }
        for Judgement { vote, .. } in judgements {
            self.known.insert(vote.key.clone(), vote.clone());
        }
        Ok(())
    }
}

/// The inputs of a plan, as far as judging needs them.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) input: &'a DetectInput<'a>,
    pub(crate) options: &'a JoinOptions<'a>,
    /// The scope, and the memories whose vectors count.
    pub(crate) detection: &'a Detection,
    pub(crate) similarity: &'a dyn Fn(MemoryIndex, MemoryIndex) -> Option<Similarity>,
    /// Protected memories.
    pub(crate) protected: &'a [(MemoryIndex, ProtectedBy)],
}

impl<'a> Ground<'a> {
    const fn snapshot(&self) -> &'a Snapshot {
        self.input.snapshot
    }

    const fn merge(&self) -> &'a MergePolicy {
        &self.input.policy.merge
    }

    const fn guard(&self) -> &'a Guard {
        self.input.guard
    }
}

/// Sends the questions that the configuration enables; decisions of a judge become part of the
/// plan. Refused and unanswered proposals stay proposals, with the reason. Returns the outcome of
/// each.
pub(crate) fn judge_plan(
    plan: &mut Plan,
    ground: Ground<'_>,
    judging: &mut Judging<'_>,
) -> Result<Judged, MemfoldError> {
    let mut stage = Stage::new(ground, judging);
    let mut tasks = stage.judging.settings.tasks.clone();
    tasks.sort_unstable();
    tasks.dedup();
    let _judge = info_span!("consolidation.judge", tasks = tasks.len() as i64).entered();
    for task in tasks {
        match task {
            JudgeTask::Duplicates => stage.duplicates(plan)?,
            JudgeTask::Golden => stage.golden(plan)?,
            JudgeTask::Summaries => {
                info_span!("consolidation.summarize").in_scope(|| stage.summaries(plan))?;
            }
            JudgeTask::Supersession => {
                info_span!("consolidation.supersession").in_scope(|| stage.supersession(plan))?;
            }
        }
    }
    let touching = plan.actions.iter().filter(|action| action.action != ActionType::Noop);
    let touched: BTreeSet<&MemoryId> = touching.flat_map(Action::rests_on).collect();
    plan.base_digests = touched
        .into_iter()
        .filter_map(|id| Some((id.clone(), stage.memory_of(id)?.base_digest.to_string())))
        .collect();
    Ok(stage.judged)
}

/// Judging under way.
struct Stage<'a, 'j, 's> {
    ground: Ground<'a>,
    judging: &'j mut Judging<'s>,
    places: BTreeMap<&'a MemoryId, MemoryIndex>,
    /// Memories that may still leave.
    merged_left: usize,
    /// Memories that an answer about duplicates merges: a further answer about one of them waits for the next run.
    merging: BTreeSet<MemoryId>,
    judged: Judged,
}

impl<'a, 'j, 's> Stage<'a, 'j, 's> {
    fn new(ground: Ground<'a>, judging: &'j mut Judging<'s>) -> Self {
        let memories = &ground.snapshot().memories;
        let live = memories.iter().filter(|memory| memory.status == Status::Live).count();
        let places = memories.iter().enumerate();
        Self {
            places: places.map(|(at, memory)| (&memory.id, MemoryIndex(at as u32))).collect(),
            merged_left: (live as f64 * judging.settings.loss.max_live_share_per_run) as usize,
            merging: BTreeSet::new(),
            judged: Judged::default(),
            ground,
            judging,
        }
    }

    fn memory_of(&self, id: &MemoryId) -> Option<&'a Memory> {
        self.places.get(id).map(|at| self.memory(*at))
    }

    fn memory(&self, at: MemoryIndex) -> &'a Memory {
        &self.ground.snapshot().memories[at.index()]
    }

    fn similarity(&self, one: &MemoryId, other: &MemoryId) -> Option<Similarity> {
        (self.ground.similarity)(*self.places.get(one)?, *self.places.get(other)?)
    }

    fn rules(&self, task: Task) -> AnswerLimits {
        let settings = self.judging.settings;
        AnswerLimits {
            replace_similarity_min: settings.replace_similarity_min,
            task,
            content_words_lost_max: settings.content_words_lost_max,
            confidence_min: settings.supersession_confidence_min,
        }
    }

    /// Makes a question of memories, newest first.
    fn group(&self, mut rows: Vec<MemoryIndex>) -> Group {
        rows.sort_by(|&a, &b| newest_first(self.memory(a), self.memory(b)));
        self.group_in_order(&rows)
    }

    fn group_in_order(&self, rows: &[MemoryIndex]) -> Group {
        let member = |memory: &Memory| Member {
            handle: String::new(),
            id: memory.id.clone(),
            text: memory.content.to_string(),
            categories: memory.categories.iter().map(ToString::to_string).collect(),
            importance: memory.importance,
            created: memory.created_at.instant().map(|at| at.to_rfc3339()).unwrap_or_default(),
            source: memory.root_source.to_string(),
        };
        Group::new(rows.iter().map(|&row| member(self.memory(row))).collect())
    }

    /// Asks about groups: recorded answers first, then models.
    fn ask(
        &mut self,
        groups: &[Group],
        task: JudgeTask,
        asked: Task,
        votes: usize,
    ) -> Result<Vec<Vec<Vote>>, MemfoldError> {
        let batch_size = self.judging.settings.batch_size;
        (self.judging.announce)(&Announcement {
            task,
            groups: groups.len(),
            memories: groups.iter().map(|group| group.memories.len()).sum(),
            requests: request_count(groups, batch_size),
        });
        let asking = Asking {
            batch_size,
            votes,
            task: asked,
            recorded_only: self.judging.recorded_only,
            cancelled: self.judging.cancelled,
            progress: self.judging.progress,
        };
        let judge = &mut *self.judging.judge;
        let Asked { votes, tally, is_cancelled } =
            ask_all(groups, judge, self.judging.answers, &asking)?;
        *self.judged.groups.entry(name_of(task)).or_default() += groups.len() as u64;
        self.count(tally);
        if is_cancelled { Err(MemfoldError::Cancelled) } else { Ok(votes) }
    }

    fn count(&mut self, tally: Tally) {
        let judged = &mut self.judged;
        judged.votes_recorded += tally.recorded;
        judged.votes_given += tally.answered;
        judged.votes_missing += tally.unanswered;
        judged.requests += tally.usage.requests;
        judged.prompt_tokens += tally.usage.prompt_tokens;
        judged.completion_tokens += tally.usage.completion_tokens;
        judged.cost += tally.usage.cost;
        for (reason, count) in tally.failures {
            *judged.failures.entry(reason).or_default() += count;
        }
    }

    /// The votes on a group that pass the limits, as far as memories may still leave.
    fn outcome(&mut self, group: &Group, votes: &[Vote], task: Task) -> Outcome {
        let mut outcome = {
            let similarity = |one: &Member, other: &Member| {
                self.similarity(&one.id, &other.id).map(Similarity::get)
            };
            accept_opinions(
                group,
                &said(votes),
                self.ground.guard(),
                &self.rules(task),
                &similarity,
            )
        };
        for found in std::mem::take(&mut outcome.accepted) {
            let handles =
                found.survivor.iter().flat_map(|kept| std::iter::once(kept).chain(&found.others));
            let merged: Vec<MemoryId> =
                handles.filter_map(|handle| Some(group.find(handle)?.id.clone())).collect();
            if let Some(taken) = merged.iter().find(|id| self.merging.contains(id)) {
                let reason = Refusal::MergedElsewhere { id: taken.to_string() };
                outcome.refused.push(refused(found, reason));
                continue;
            }
            let leaving = match (&found.survivor, &found.text) {
                (None, _) => 0,
                (Some(_), Some(_)) => found.others.len() + 1,
                (Some(_), None) => found.others.len(),
            };
            if leaving <= self.merged_left {
                self.merged_left -= leaving;
                self.merging.extend(merged);
                outcome.accepted.push(found);
            } else {
                outcome.refused.push(refused(found, Refusal::CapReached));
            }
        }
        outcome
    }

    /// Records the outcome for memories that a model was queried about.
    fn rule(&mut self, action: &str, ids: &[MemoryId], judge: &str, reason: &str) {
        self.judged.rulings.push(Ruling {
            action: action.to_owned(),
            ids: ids.iter().map(ToString::to_string).collect(),
            judge: judge.to_owned(),
            reason: excerpt(reason, REASON_CHARS),
        });
    }

    /// Records why an opinion was not followed; returns it as a reason.
    fn refuse(&mut self, group: &Group, refused: &Refused, judge: &str) -> String {
        let ids = ids(group, &refused.opinion.ids);
        let reason = refused.reason.to_string();
        self.rule("refused", &ids, judge, &reason);
        let kind = serde_json::to_value(&refused.reason).ok();
        let kind = kind.and_then(|kind| kind["kind"].as_str().map(str::to_owned));
        *self.judged.refusals.entry(kind.unwrap_or_default()).or_default() += 1;
        format!("{judge}: refused, {reason}")
    }

    /// Records that a group was left as it is: nobody answered, or the answer says so.
    fn leave(&mut self, group: &Group, votes: &[Vote]) {
        let ids: Vec<MemoryId> = group.memories.iter().map(|member| member.id.clone()).collect();
        let Some(vote) = votes.first() else {
            return self.rule("unanswered", &ids, "", "nobody answered");
        };
        let reason = vote.opinions.first().map_or("", |opinion| &opinion.reason);
        let (judge, reason) = (vote.judge.clone(), reason.to_owned());
        self.rule("skip", &ids, &judge, &reason);
    }
}

/// The opinions of each vote.
fn said(votes: &[Vote]) -> Vec<Vec<Opinion>> {
    votes.iter().map(|vote| vote.opinions.clone()).collect()
}

fn refused(found: Accepted, reason: Refusal) -> Refused {
    let ids = found.survivor.iter().chain(&found.others).cloned().collect();
    let opinion = Opinion {
        keep: found.survivor,
        text: found.text,
        reason: found.reason,
        ..Opinion::of(found.action, ids)
    };
    Refused { opinion, reason }
}

/// The memories that leave by the changes of a plan.
fn leaving(plan: &Plan) -> BTreeSet<MemoryId> {
    let changes = plan.actions.iter().filter(|action| action.action.is_change());
    changes.flat_map(|action| action.leaving_ids().cloned()).collect()
}

/// Characters of a model's words that are kept in plans and reports.
const REASON_CHARS: usize = 300;

/// An action that a model decided.
fn decided(
    action: ActionType,
    target_ids: Vec<MemoryId>,
    rule_id: &str,
    claim: &str,
    votes: &[Vote],
    reason: &str,
) -> Action {
    let judge = votes.first().map_or("", |vote| &vote.judge);
    let evidence = Evidence {
        decided_by: Some(judge.to_owned()),
        judgements: votes.iter().map(|vote| vote.key.clone()).collect(),
        ..Evidence::default()
    };
    let rationale =
        Rationale { evidence, ..Rationale::new(rule_id, reasons(judge, claim, reason)) };
    Action { risk: Risk::Reworded, ..Action::new(action, target_ids, rationale) }
}

fn reasons(judge: &str, claim: &str, reason: &str) -> Vec<String> {
    let mut reasons = vec![format!("{judge} {claim}")];
    if !reason.is_empty() {
        reasons.push(excerpt(reason, REASON_CHARS));
    }
    reasons
}

fn ids(group: &Group, handles: &[String]) -> Vec<MemoryId> {
    handles.iter().filter_map(|handle| Some(group.find(handle)?.id.clone())).collect()
}
