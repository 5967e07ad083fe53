//! A judge that scores orders the proposals; it merges only as far as a person's decisions support its scores.

use std::collections::BTreeMap;

use memfold::calibration::Decision;
use memfold::judging::StoredAnswers;
use memfold_core::judge::{Group, Judge, JudgeError, Opinion, OpinionKind, Prompt, Reply, Usage};
use memfold_core::plan::{Action, ActionType, Plan};
use memfold_tests::{InMemoryStore, Run, memory, merges, turned_vector, unit_vector};

const DIM: usize = 64;
const JUDGE: &str = "scores";

/// Pairs in other words; of the last one the roles are exchanged.
const PAIRS: [[&str; 2]; 4] = [
    ["Invoices are sent on Friday mornings.", "Every Friday morning the invoices go out."],
    ["Backups are stored in Frankfurt.", "The backups are kept in Frankfurt."],
    ["Ask Lena before touching the router.", "Talk to Lena before you touch the router."],
    ["Marta introduced Tobias to the mayor.", "Tobias introduced Marta to the mayor."],
];

/// Gives each group the score of its first text, and says MERGE.
struct Scoring {
    scores: BTreeMap<&'static str, f64>,
    asked: usize,
}

impl Scoring {
    fn new(scores: [f64; 4]) -> Self {
        let scores = PAIRS.iter().zip(scores);
        let both = scores.flat_map(|(pair, score)| pair.map(|text| (text, score)));
        Self { scores: both.collect(), asked: 0 }
    }

    fn opinion(&self, group: &Group) -> Opinion {
        let handles: Vec<String> = group.memories.iter().map(|m| m.handle.clone()).collect();
        let longest = group.memories.iter().max_by_key(|m| (m.text.len(), &m.text)).unwrap();
        Opinion {
            keep: Some(longest.handle.clone()),
            probability: self.scores.get(group.memories[0].text.as_str()).copied(),
            ..Opinion::of(OpinionKind::Merge, handles)
        }
    }
}

impl Judge for Scoring {
    fn names(&self) -> Vec<String> {
        vec![JUDGE.to_owned()]
    }

    fn answer(&mut self, prompt: &Prompt, _: &dyn Fn() -> bool) -> Result<Reply, JudgeError> {
        self.asked += 1;
        let opinions = prompt.batch.groups.iter().map(|group| self.opinion(group)).collect();
        Ok(Reply { judge: JUDGE.to_owned(), opinions, usage: Usage::default() })
    }
}

/// The texts of pair `n` at a cosine of 0.93, far from the texts of other pairs, and memories that
/// are near none: in a small store a judge may merge none.
fn store() -> InMemoryStore {
    let paired = |(at, text): (usize, &&str)| {
        let (axis, turn) = (at / 2 * 2, if at % 2 == 0 { 0.0_f32 } else { 0.38 });
        memory(at, *text, &turned_vector(DIM, axis, turn))
    };
    let alone = |at: usize| {
        let text = format!("Shelf {at} holds parts for machine {at}.");
        memory(at, text, &unit_vector(DIM, at))
    };
    let texts = PAIRS.as_flattened();
    let paired = texts.iter().enumerate().map(paired);
    InMemoryStore::new(paired.chain((texts.len()..DIM).map(alone)).collect())
}

fn proposals(plan: &Plan) -> Vec<&Action> {
    plan.actions.iter().filter(|action| action.action == ActionType::ProposeMerge).collect()
}

fn judged(scores: [f64; 4], answers: &mut StoredAnswers) -> Plan {
    let run = Run::builtin().set("propose.min_similarity=0.8");
    let settings = run.configuration().settings.judge;
    run.judge_after(&store(), &mut Scoring::new(scores), &settings, answers).plan
}

/// Decisions that support merges from `threshold` on, and none below.
fn decisions(threshold: f64) -> BTreeMap<Option<String>, Vec<Decision>> {
    let decision = |at: usize| {
        let same = at.is_multiple_of(2);
        let probability = if same { threshold } else { threshold - 0.2 };
        Decision { subject: at.to_string(), probability, same }
    };
    BTreeMap::from([(Some(JUDGE.to_owned()), (0..600).map(decision).collect())])
}

#[test]
fn without_decisions_a_score_only_orders() {
    let plain = Run::builtin().plan(&store()).plan;
    let open = proposals(&plain).len();
    assert!(open >= 3, "{open}");
    let plan = judged([0.5, 0.99, 0.7, 0.98], &mut StoredAnswers::default());
    assert!(merges(&plan).is_empty());
    let scores: Vec<f64> =
        proposals(&plan).iter().filter_map(|a| a.rationale.evidence.probability).collect();
    assert_eq!(scores.len(), open);
    assert!(scores.is_sorted_by(|a, b| a >= b), "{scores:?}");
    assert!((scores[0] - 0.99).abs() < 1e-9, "{scores:?}");
    for proposal in proposals(&plan) {
        let evidence = &proposal.rationale.evidence;
        assert_eq!(evidence.probability_by.as_deref(), Some(JUDGE));
        assert!(!evidence.judgements.is_empty() && evidence.decided_by.is_none());
    }
    // Too few decisions support nothing.
    let few = decisions(0.8).into_iter().map(|(judge, all)| (judge, all[..100].to_vec())).collect();
    let plan = judged([0.5, 0.99, 0.7, 0.98], &mut StoredAnswers::default().supported_by(&few));
    assert!(merges(&plan).is_empty());
}

#[test]
fn decisions_let_a_score_merge_within_the_limits() {
    let mut answers = StoredAnswers::default().supported_by(&decisions(0.9));
    assert_eq!(answers.merges_from(JUDGE), Some(0.9));
    assert_eq!(answers.merges_from("another"), None);
    let plan = judged([0.95, 0.89, 0.95, 0.99], &mut answers);
    let merged: Vec<Vec<&str>> = merges(&plan);
    assert!(!merged.is_empty(), "{:?}", proposals(&plan));
    // The second is below the threshold; the fourth has exchanged roles, so its score does not
    // matter.
    let merges_any = |ids: [&str; 2]| merged.iter().flatten().any(|id| ids.contains(id));
    assert!(
        !merges_any(["m000002", "m000003"]) && !merges_any(["m000006", "m000007"]),
        "{merged:?}"
    );
    // Answered questions are not repeated.
    let run = Run::builtin();
    let mut judge = Scoring::new([0.95, 0.89, 0.95, 0.99]);
    let settings = run.configuration().settings.judge;
    let again = run.judge_after(&store(), &mut judge, &settings, &mut answers).plan;
    assert_eq!((judge.asked, merges(&again)), (0, merged));
}
