//! [`JudgeBench`]: which answers pass the limits on labelled pairs, and what models answer.

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

use super::{Label, LabelledPair};

/// Counts, for pairs with a label, what merges by proof, what a judge could merge, and what models do merge.
pub(crate) struct JudgeBench<'a> {
    guard: &'a Guard,
    settings: &'a JudgeSettings,
    /// From which similarity on a run proposes.
    similarity_min: f64,
    labels: BTreeMap<Label, Counts>,
    /// The pairs that models are asked about.
    questions: Vec<(Label, Group)>,
}

#[derive(Debug, Default)]
struct Counts {
    pairs: u64,
    far: u64,
    proven: u64,
    refused_by_guard: u64,
    merged_if_said: u64,
    merged: u64,
    kept_separate: u64,
    left: u64,
}

/// What became of the pairs with one label.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct JudgedPairs {
    /// The label.
    pub(crate) label: String,
    /// How many pairs have it.
    pub(crate) pairs: u64,
    /// Further pairs that stand so far apart that nothing is proposed.
    pub(crate) far: u64,
    /// Of these, merged by proof: no judge is asked.
    pub(crate) proven: u64,
    /// Of these, called contradictory or different by the guard: no judge is asked, and none would be followed.
    pub(crate) refused_by_guard: u64,
    /// Of these, merged if a judge says MERGE of every pair it is asked about, the proven ones included: of duplicates what a
    /// perfect judge achieves, of others what a careless one destroys.
    pub(crate) merged_if_said: u64,
    /// `merged_if_said` ÷ `pairs`.
    pub(crate) merged_if_said_share: f64,
    /// What the configured models do; absent where none are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) models: Option<JudgedByModels>,
}

/// What models did with the pairs they were asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct JudgedByModels {
    /// Pairs that merge now.
    pub(crate) merged: u64,
    /// Pairs that are kept separate.
    pub(crate) kept_separate: u64,
    /// Pairs that are left for a person: skipped, refused, not answered.
    pub(crate) left: u64,
}

/// What a bench of judges found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct JudgeBenchReport {
    /// The format of this report.
    pub(crate) schema_version: u32,
    /// How many pairs were read.
    pub(crate) pairs: u64,
    /// By label.
    pub(crate) labels: Vec<JudgedPairs>,
    /// What the models' answers took; absent where none are configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) usage: Option<Usage>,
    /// Why models did not answer, with how often.
    pub(crate) failures: BTreeMap<String, u64>,
}

impl<'a> JudgeBench<'a> {
    /// Begins with no pair.
    #[must_use]
    pub(crate) const fn new(
        guard: &'a Guard,
        settings: &'a JudgeSettings,
        similarity_min: f64,
    ) -> Self {
        Self { guard, settings, similarity_min, labels: BTreeMap::new(), questions: Vec::new() }
    }

    /// Counts a pair, *b* as the newer text. One whose stated similarity is below that of proposals is counted as such only.
    pub(crate) fn push(&mut self, pair: LabelledPair) {
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

    /// Returns the figures; with a judge it is asked about every pair that the guard leaves undecided.
    #[must_use]
    pub(crate) fn report(
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
                let counts = self.labels.entry(label.clone()).or_default();
                if merges(&outcome) {
                    counts.merged += 1;
                } else if outcome.accepted.is_empty() {
                    counts.left += 1;
                } else {
                    counts.kept_separate += 1;
                }
            }
            usage = Some(asked.tally.usage);
            failures = asked.tally.failures;
        }
        let pairs = self.labels.values().map(|counts| counts.pairs).sum();
        let judged = |(label, counts): (Label, Counts)| JudgedPairs {
            label: label.to_string(),
            pairs: counts.pairs,
            far: counts.far,
            proven: counts.proven,
            refused_by_guard: counts.refused_by_guard,
            merged_if_said: counts.merged_if_said,
            merged_if_said_share: counts.merged_if_said as f64 / counts.pairs.max(1) as f64,
            models: has_judge.then_some(JudgedByModels {
                merged: counts.merged,
                kept_separate: counts.kept_separate,
                left: counts.left,
            }),
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
