//! [`JudgeBench`]: which answers pass the limits on labelled pairs, and the models' answers.

use std::collections::BTreeMap;

use memfold_core::judge::ask::Asking;
use memfold_core::judge::{
    AnswerLimits, Group, Judge, Judgement, Member, Opinion, OpinionKind, Records, Task, Usage,
    Vote, accept_opinions, ask_all,
};
use memfold_core::memory::MemoryId;
use memfold_core::policy::JudgeSettings;
use memfold_guard::{Guard, Side};
use serde::Serialize;

use super::pairs::{Label, LabelledPair};

/// Counts, for pairs with a label, merges by proof, merges that a judge could make, and merges that
/// models make.
pub(super) struct JudgeBench<'a> {
    guard: &'a Guard,
    settings: &'a JudgeSettings,
    /// From which similarity on a run proposes.
    similarity_min: f64,
    labels: BTreeMap<Label, Counts>,
    /// The pairs that models are queried about.
    questions: Vec<(Label, Group)>,
}

/// How many pairs with a label came out how.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    /// How many pairs have it.
    pub(super) pairs: u64,
    /// Further pairs that stand so far apart that nothing is proposed.
    pub(super) far: u64,
    /// Of these, merged by proof: no judge is queried.
    pub(super) proven: u64,
    /// Of these, called contradictory or different by the guard: no judge is queried, and none
    /// would be followed.
    pub(super) refused_by_guard: u64,
    /// Of these, merged if a judge answers MERGE for every pair it is queried about, the proven
    /// ones included: for duplicates the result of a perfect judge, for other labels the damage of
    /// a careless one.
    pub(super) merged_if_said: u64,
    #[serde(skip)]
    models: JudgedByModels,
}

/// The outcomes of the pairs with one label.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct JudgedPairs {
    /// The label.
    pub(super) label: String,
    #[serde(flatten)]
    pub(super) counts: Counts,
    /// `merged_if_said` ÷ `pairs`.
    pub(super) merged_if_said_share: f64,
    /// The results of the configured models; absent where none are configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) models: Option<JudgedByModels>,
}

/// The models' decisions on the pairs they were queried about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct JudgedByModels {
    /// Pairs that merge now.
    pub(super) merged: u64,
    /// Pairs that are kept separate.
    pub(super) kept_separate: u64,
    /// Pairs that are left for a person: skipped, refused, not answered.
    pub(super) left: u64,
}

/// The results of a bench of judges.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct JudgeBenchReport {
    /// The format of this report.
    pub(super) schema_version: u32,
    /// How many pairs were read.
    pub(super) pairs: u64,
    /// By label.
    pub(super) labels: Vec<JudgedPairs>,
    /// The usage of the models; absent where none are configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<Usage>,
    /// Why models did not answer, with how often.
    pub(super) failures: BTreeMap<String, u64>,
}

impl<'a> JudgeBench<'a> {
    /// Begins with no pair.
    pub(super) const fn new(
        guard: &'a Guard,
        settings: &'a JudgeSettings,
        similarity_min: f64,
    ) -> Self {
        Self { guard, settings, similarity_min, labels: BTreeMap::new(), questions: Vec::new() }
    }

    /// Counts a pair, *b* as the newer text. A pair with a stated similarity below the proposals'
    /// minimum only counts as far.
    pub(super) fn push(&mut self, pair: LabelledPair) {
        if pair.similarity.is_some_and(|similarity| similarity < self.similarity_min) {
            self.labels.entry(pair.label).or_default().far += 1;
            return;
        }
        let judgement = self.guard.judge(&self.guard.read(&pair.a), &self.guard.read(&pair.b));
        let counts = self.labels.entry(pair.label.clone()).or_default();
        counts.pairs += 1;
        if judgement.says_all(Side::Right) {
            counts.proven += 1;
            counts.merged_if_said += 1;
            return;
        }
        if !judgement.could_be_same {
            counts.refused_by_guard += 1;
            return;
        }
        let group = group(&pair);
        let said = Opinion {
            keep: Some("m1".to_owned()),
            ..Opinion::of(OpinionKind::Merge, vec!["m1".to_owned(), "m2".to_owned()])
        };
        counts.merged_if_said +=
            u64::from(merges(&outcome(self.guard, self.settings, &group, &[vec![said]])));
        self.questions.push((pair.label, group));
    }

    /// Returns the figures; with a judge it is queried about every pair that the guard leaves
    /// undecided.
    pub(super) fn report(
        mut self,
        judge: Option<(&mut dyn Judge, &Asking<'_>)>,
    ) -> JudgeBenchReport {
        let (mut usage, mut failures) = (None, BTreeMap::new());
        let has_judge = judge.is_some();
        if let Some((judge, asking)) = judge {
            let (labels, groups): (Vec<Label>, Vec<Group>) =
                std::mem::take(&mut self.questions).into_iter().unzip();
            let Ok(asked) = ask_all(&groups, judge, &mut Unkept, asking);
            for ((label, group), votes) in labels.iter().zip(&groups).zip(&asked.votes) {
                let said: Vec<Vec<Opinion>> =
                    votes.iter().map(|vote| vote.opinions.clone()).collect();
                let outcome = outcome(self.guard, self.settings, group, &said);
                let models = &mut self.labels.entry(label.clone()).or_default().models;
                *match (merges(&outcome), outcome.accepted.is_empty()) {
                    (true, _) => &mut models.merged,
                    (false, true) => &mut models.left,
                    (false, false) => &mut models.kept_separate,
                } += 1;
            }
            usage = Some(asked.tally.usage);
            failures = asked.tally.failures;
        }
        let pairs = self.labels.values().map(|counts| counts.pairs).sum();
        let judged = |(label, counts): (Label, Counts)| JudgedPairs {
            label: label.to_string(),
            merged_if_said_share: counts.merged_if_said as f64 / counts.pairs.max(1) as f64,
            models: has_judge.then_some(counts.models),
            counts,
        };
        let labels = self.labels.into_iter().map(judged).collect();
        JudgeBenchReport { schema_version: 1, pairs, labels, usage, failures }
    }
}

fn outcome(
    guard: &Guard,
    settings: &JudgeSettings,
    group: &Group,
    votes: &[Vec<Opinion>],
) -> memfold_core::judge::Outcome {
    let rules = AnswerLimits {
        replace_similarity_min: settings.replace_similarity_min,
        task: Task::Duplicates { rewrite: false },
        content_words_lost_max: settings.content_words_lost_max,
        confidence_min: settings.supersession_confidence_min,
    };
    accept_opinions(group, votes, guard, &rules, &|_, _| None)
}

fn merges(outcome: &memfold_core::judge::Outcome) -> bool {
    outcome.accepted.iter().any(|accepted| accepted.survivor.is_some())
}

/// The newer text first, as in a plan.
fn group(pair: &LabelledPair) -> Group {
    let member = |(id, text): (&str, &String)| Member {
        handle: String::new(),
        id: MemoryId::new(id),
        text: text.clone(),
        categories: Vec::new(),
        importance: 1.0,
        created: String::new(),
        source: String::new(),
    };
    Group::new([("b", &pair.b), ("a", &pair.a)].map(member).to_vec())
}

/// Keeps no answer.
struct Unkept;

impl Records for Unkept {
    type Error = std::convert::Infallible;

    fn find(&self, _key: &str) -> Result<Option<Vote>, Self::Error> {
        Ok(None)
    }

    fn keep(&mut self, _judgements: &[Judgement]) -> Result<(), Self::Error> {
        Ok(())
    }
}
