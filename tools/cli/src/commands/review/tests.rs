//! Screens and walks over plans of a few memories.

use std::collections::{BTreeMap, VecDeque};

use console::measure_text_width;
use memfold::execute::Selection;
use memfold_core::memory::{
    BaseDigest, CreatedAt, Embedding, Memory, MemoryId, SpaceIndex, Status,
};
use memfold_core::plan::{
    Action, ActionState, ActionType, Evidence, ONE_SAYS_MORE, Plan, Rationale, Risk, SavedAction,
    SavedPlan,
};
use memfold_core::policy::Policy;
use memfold_core::time::Instant;
use memfold_guard::Guard;
use memfold_index::Row;

use crate::commands::review::card::Material;
use crate::commands::review::walk::{Answer, Dialogue, ReviewStore, Tally, Walk};
use crate::failure::Failure;

const NOW: Instant = Instant(1_780_000_000_000_000);

fn memory(id: &str, content: &str, age_days: i64) -> Memory {
    Memory {
        rowid: 0,
        id: MemoryId::new(id),
        content: content.into(),
        categories: vec!["coding".into()],
        importance: 1.0,
        access_count: 2,
        created_at: CreatedAt::At(Instant(NOW.0 - age_days * 86_400_000_000)),
        expires_at: None,
        last_accessed: None,
        source: "agent".into(),
        root_source: "agent".into(),
        status: Status::Live,
        merged_into: None,
        embedding: Embedding::Vector { space: SpaceIndex(0), row: Row(0) },
        base_digest: BaseDigest([7; 32]),
    }
}

fn action(action: ActionType, risk: Risk, ids: &[&str]) -> Action {
    let ids = ids.iter().map(|id| MemoryId::new(*id)).collect();
    let rule = "R2-near-duplicate-merge";
    let evidence = Evidence { similarity: Some(0.9712), ..Evidence::default() };
    let reasons = vec!["similarity >= 0.95".to_owned()];
    let rationale = Rationale { evidence, ..Rationale::new(rule, reasons) };
    Action { risk, ..Action::new(action, ids, rationale) }
}

fn merge(ids: &[&str]) -> Action {
    action(ActionType::Merge, Risk::Reworded, ids)
}

/// Memories, the plan about them, and the outcome of a review.
struct Table {
    memories: Vec<Memory>,
    actions: Vec<Action>,
    policy: Policy,
    /// The store refuses the answer of this number.
    refused: Option<usize>,
}

#[derive(Default)]
struct Told {
    tally: Tally,
    screens: Vec<String>,
    shown: Vec<String>,
    written: Vec<String>,
}

struct Script {
    answers: VecDeque<Answer>,
    screens: Vec<String>,
    shown: Vec<String>,
}

impl Dialogue for Script {
    fn ask(&mut self, screen: &str) -> Result<Answer, Failure> {
        self.screens.push(screen.to_owned());
        Ok(self.answers.pop_front().unwrap_or(Answer::End))
    }

    fn show(&mut self, text: &str) -> Result<(), Failure> {
        self.shown.push(text.to_owned());
        Ok(())
    }
}

/// Answers in the order in which they were written.
#[derive(Default)]
struct Notebook {
    written: Vec<String>,
    refused: Option<usize>,
}

impl Notebook {
    fn write(&mut self, what: &str, action: &SavedAction) -> Result<(), Failure> {
        if self.refused == Some(self.written.len()) {
            self.refused = None;
            let message = "the store is locked".to_owned();
            return Err(Failure { kind: memfold::ops::FailureKind::Failed, message, hint: None });
        }
        self.written.push(format!("{what} {}", action.label()));
        Ok(())
    }
}

impl ReviewStore for Notebook {
    fn approve(&mut self, action: &SavedAction) -> Result<(), Failure> {
        self.write("yes", action)
    }

    fn reject(&mut self, action: &SavedAction) -> Result<(), Failure> {
        self.write("no", action)
    }

    fn keep_both(&mut self, action: &SavedAction) -> Result<(), Failure> {
        self.write("keep", action)
    }

    fn amend(&mut self, action: &SavedAction, amended: Option<&Action>) -> Result<(), Failure> {
        let survivor = amended.map_or("as planned".to_owned(), |to| to.target_ids[0].to_string());
        self.write(&format!("amend to {survivor}:"), action)
    }

    fn take_back(&mut self, action: &SavedAction) -> Result<(), Failure> {
        self.write("back", action)
    }
}

impl Table {
    fn new(memories: Vec<Memory>, actions: Vec<Action>) -> Self {
        Self { memories, actions, policy: Policy::builtin(), refused: None }
    }

    /// A merge of three equal texts.
    fn of_equals() -> Self {
        let text = "The kiln is fired on Mondays.";
        let memories = vec![memory("m3", text, 2), memory("m2", text, 3), memory("m1", text, 9)];
        Self::new(memories, vec![merge(&["m3", "m2", "m1"])])
    }

    fn plan(&self) -> SavedPlan {
        let ids = self.actions.iter().flat_map(|action| action.target_ids.clone());
        let plan = Plan {
            schema_version: 1,
            store_id: "store".to_owned(),
            config_hash: String::new(),
            engine_version: String::new(),
            now: String::new(),
            overrides: serde_json::Map::new(),
            actions: self.actions.clone(),
            base_digests: ids.map(|id| (id, BaseDigest([7; 32]).to_string())).collect(),
        };
        let saved = |(position, action): (usize, &Action)| SavedAction {
            position,
            action: action.clone(),
            amended: None,
            state: ActionState::Proposed,
            access_count: None,
            run_id: None,
            unit: None,
            note: None,
        };
        SavedPlan {
            plan_id: "p1".to_owned(),
            plan_digest: String::new(),
            saved_at: String::new(),
            actions: self.actions.iter().enumerate().map(saved).collect(),
            plan,
        }
    }

    fn answer(&self, answers: &str) -> Told {
        self.answer_about(self.plan(), answers.chars().map(Answer::Key).collect())
    }

    fn answer_about(&self, plan: SavedPlan, answers: VecDeque<Answer>) -> Told {
        let memories = self.memories.iter().map(|memory| (memory.id.clone(), memory.clone()));
        let guard = Guard::new(&self.policy.guard).unwrap();
        let material = Material {
            memories: memories.collect::<BTreeMap<_, _>>(),
            policy: &self.policy,
            guard: &guard,
            now: NOW,
        };
        let mut script = Script { answers, screens: Vec::new(), shown: Vec::new() };
        let mut notebook = Notebook { refused: self.refused, ..Notebook::default() };
        let tally = Walk::new(&material, plan, &Selection::default())
            .run(&mut script, &mut notebook)
            .unwrap();
        let Script { screens, shown, .. } = script;
        for screen in &screens {
            assert_fits(screen);
        }
        Told { tally, screens, shown, written: notebook.written }
    }
}

#[track_caller]
fn assert_fits(screen: &str) {
    assert!(screen.lines().count() <= 24, "{} lines:\n{screen}", screen.lines().count());
    let widest = screen.lines().map(measure_text_width).max();
    assert!(widest <= Some(80), "{widest:?} columns:\n{screen}");
}

#[test]
fn a_reworded_merge() {
    let mut survivor = memory("m2", "Backups run nightly at 02:00 and are kept for 30 days.", 2);
    survivor.importance = 1.5;
    let older = memory("m1", "Backups run every night at 02:00, kept for 30 days.", 40);
    let mut merge = merge(&["m2", "m1"]);
    merge.new_categories = Some(vec!["coding".to_owned(), "sop".to_owned()]);
    merge.new_importance = Some(2.0);
    merge.rationale.evidence.differences = vec!["lacks \"every\" of m1".to_owned()];
    insta::assert_snapshot!(Table::new(vec![survivor, older], vec![merge]).answer("").screens[0]);
}

#[test]
fn a_merge_of_many_long_texts() {
    let text = |what: &str| format!("{what} {}", "of a long story that goes on and on ".repeat(40));
    let ids = ["m9", "m8", "m7", "m6", "m5", "m4", "m3", "m2", "m1"];
    let memories: Vec<_> =
        ids.iter().zip(2..).map(|(id, age)| memory(id, &text(id), age)).collect();
    let table = Table::new(memories, vec![merge(&ids)]);
    let told = table.answer("v");
    insta::assert_snapshot!(told.screens[0]);
    assert_eq!(told.shown.len(), 1);
    for id in ids {
        assert!(told.shown[0].contains(&format!("{id} · ")), "{id}");
    }
}

#[test]
fn a_contradiction() {
    let memories = vec![memory("m1", "The port is 8080.", 9), memory("m2", "The port is 9090.", 2)];
    let mut flag = action(ActionType::FlagContradiction, Risk::Identical, &["m1", "m2"]);
    flag.rationale.score = Some(0.82);
    flag.rationale.evidence.differences = vec!["number \"8080\" / \"9090\"".to_owned()];
    insta::assert_snapshot!(Table::new(memories, vec![flag]).answer("").screens[0]);
}

#[test]
fn a_promotion() {
    let mut promote = action(ActionType::Promote, Risk::Identical, &["m1"]);
    promote.new_importance = Some(2.5);
    promote.rationale.evidence.similarity = None;
    let table = Table::new(vec![memory("m1", "Deploy with care.", 9)], vec![promote]);
    let told = table.answer("k");
    insta::assert_snapshot!(told.screens[0]);
    assert!(told.screens[1].contains("nothing to keep apart"), "{}", told.screens[1]);
    assert!(told.written.is_empty());
}

#[test]
fn every_screen_fits() {
    let nasty =
        ["水".repeat(900), "\u{1b}[2J\u{202e}".repeat(90), "x".repeat(3_000), String::new()];
    for count in 1..12 {
        for text in &nasty {
            let name = |at: usize| format!("{}{at}", "a very long id, ".repeat(at));
            let names: Vec<String> = (0..=count).map(name).collect();
            let memories = names.iter().map(|id| memory(id, &format!("{id}{text}"), 1)).collect();
            let ids: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut merge = merge(&ids);
            merge.rationale.rule_id = "rule ".repeat(30);
            merge.rationale.evidence.differences = vec![format!("lacks {text}"); count];
            merge.new_categories = Some(names.clone());
            // Answers that are refused add a message.
            Table::new(memories, vec![merge]).answer("su!s");
        }
    }
}

#[test]
fn secrets_and_escapes_are_not_shown() {
    let text = "password: hunter2 \u{1b}[31m";
    let memories = vec![memory("m2", text, 2), memory("m1", &format!("the {text}"), 3)];
    let told = Table::new(memories, vec![merge(&["m2", "m1"])]).answer("v");
    for screen in told.screens.iter().chain(&told.shown) {
        assert!(!screen.contains("hunter2") && !screen.contains('\u{1b}'), "{screen}");
        assert!(screen.contains("[masked]") && screen.contains("\\u{1b}"), "{screen}");
    }
}

#[test]
fn what_needs_most_attention_comes_first_and_noops_do_not_come() {
    let memories = vec![memory("m1", "x", 1), memory("m2", "x", 2)];
    let ids = ["m1", "m2"];
    let mut table = Table::new(
        memories,
        vec![
            action(ActionType::Merge, Risk::Identical, &ids),
            action(ActionType::Noop, Risk::Reworded, &ids),
            action(ActionType::Merge, Risk::Trivial, &ids),
            action(ActionType::Merge, Risk::Reworded, &ids),
            action(ActionType::Merge, Risk::Reworded, &ids),
        ],
    );
    table.policy.guard.enabled = false;
    let mut plan = table.plan();
    plan.actions[4].state = ActionState::Approved;
    let told = table.answer_about(plan, "ynk".chars().map(Answer::Key).collect());
    assert_eq!(told.written, ["yes a4", "no a3", "keep a1"]);
    let expected = Tally { approved: 1, rejected: 1, kept_both: 1, ..Tally::default() };
    assert_eq!((told.tally, told.screens.len()), (expected, 3));
    assert!(told.screens[1].starts_with("2 of 3 · a3 merge · trivial"), "{}", told.screens[1]);
}

#[test]
fn proposals_in_which_one_only_says_more_are_answered_at_once() {
    let propose = |ids: &[&str], reason: &str| {
        let mut action = action(ActionType::ProposeMerge, Risk::Reworded, ids);
        action.rationale.reasons = vec![reason.to_owned()];
        action.rationale.evidence.probability = Some(0.91);
        action
    };
    let open = propose(&["m3", "m2"], "not proven");
    let more = propose(&["m3", "m1"], ONE_SAYS_MORE);
    let table = Table { actions: vec![open, more.clone(), more], ..Table::of_equals() };
    let told = table.answer("aa");
    assert!(told.screens[0].contains("In 2 questions from here"), "{}", told.screens[0]);
    assert!(told.screens[0].contains("very likely the same"), "{}", told.screens[0]);
    // In the last question each says something: the key is not a valid answer.
    assert_eq!(told.written, ["yes a2", "yes a3"]);
    assert_eq!((told.tally.approved, told.tally.undecided), (2, 1));
    assert_eq!(table.answer("auq").written, ["yes a2", "yes a3", "back a3"]);
}

#[test]
fn answers_are_taken_back_one_by_one() {
    let table =
        Table { actions: vec![merge(&["m3", "m2"]), merge(&["m3", "m1"])], ..Table::of_equals() };
    let told = table.answer("uykuun");
    assert!(told.screens[1].contains("there is nothing to take back"), "{}", told.screens[1]);
    // The last question was answered, so the walk ended before it could be undone.
    assert_eq!(told.written, ["yes a1", "keep a2"]);
    let told = table.answer("yunkq");
    assert_eq!(told.written, ["yes a1", "back a1", "no a1", "keep a2"]);
    assert_eq!((told.tally.approved, told.tally.rejected, told.tally.kept_both), (0, 1, 1));
}

#[test]
fn whoever_quits_keeps_what_was_answered() {
    let table =
        Table { actions: vec![merge(&["m3", "m2"]), merge(&["m3", "m1"])], ..Table::of_equals() };
    for answers in ["yq", "y"] {
        let told = table.answer(answers);
        assert_eq!(told.written, ["yes a1"]);
        assert_eq!((told.tally.approved, told.tally.undecided), (1, 1));
    }
    let told = table.answer_about(table.plan(), [Answer::Interrupt].into());
    assert!(told.tally.interrupted && told.tally.undecided == 2);
}

#[test]
fn what_is_no_answer_is_said() {
    let table = Table::of_equals();
    let answers = [Answer::Other("yes please".to_owned()), Answer::Key('x'), Answer::Key('?')];
    let told = table.answer_about(table.plan(), answers.into());
    assert!(told.screens[1].contains("\"yes please\" is no answer"), "{}", told.screens[1]);
    assert!(told.screens[2].contains("\"x\" is no answer"), "{}", told.screens[2]);
    assert!(told.shown[0].contains("keep both"));
    assert!(told.written.is_empty());
}

#[test]
fn survivors_are_swapped_in_turn() {
    let told = Table::of_equals().answer("sssy");
    assert_eq!(
        told.written,
        ["amend to m2: a1", "amend to m1: a1", "amend to as planned: a1", "yes a1"]
    );
    insta::assert_snapshot!(told.screens[1]);
    assert!(!told.screens[3].contains("amended"), "{}", told.screens[3]);
}

/// `u` after `s` took the answer before back and left the swap.
#[test]
fn swaps_and_answers_are_taken_back_in_turn() {
    let told = Table::of_equals().answer("ssuuu");
    let amendments = ["m2", "m1", "m2", "as planned"].map(|to| format!("amend to {to}: a1"));
    assert_eq!(told.written, amendments);
    assert!(!told.screens[4].contains("amended"), "{}", told.screens[4]);
    assert!(told.screens[5].contains("there is nothing to take back"), "{}", told.screens[5]);
    let table =
        Table { actions: vec![merge(&["m3", "m2"]), merge(&["m3", "m1"])], ..Table::of_equals() };
    let told = table.answer("sysuuuq");
    let expected = [
        "amend to m2: a1",
        "yes a1",
        "amend to m1: a2",
        "amend to as planned: a2",
        "back a1",
        "amend to as planned: a1",
    ];
    assert_eq!(told.written, expected);
    assert_eq!((told.tally.approved, told.tally.undecided), (0, 2));
}

#[test]
fn a_swap_that_would_lose_something_is_refused() {
    let mut table = Table::of_equals();
    for memory in &mut table.memories[1..] {
        memory.embedding = Embedding::Missing;
    }
    let told = table.answer("s");
    assert!(
        told.screens[1].contains("no swap: memory m2 has no valid vector"),
        "{}",
        told.screens[1]
    );
    let mut table = Table::of_equals();
    let promote = action(ActionType::Promote, Risk::Identical, &["m3"]);
    table.actions.push(promote);
    let told = table.answer("s");
    assert!(told.screens[1].contains("no swap: a2 rests on this survivor"), "{}", told.screens[1]);
    assert!(told.written.is_empty());
}

#[test]
fn memories_that_changed_or_went_are_named() {
    let mut table = Table::of_equals();
    table.memories[1].base_digest = BaseDigest([8; 32]);
    table.memories.pop();
    let told = table.answer("s");
    insta::assert_snapshot!(told.screens[0]);
    assert!(told.screens[1].contains("no swap: m2 was changed since"), "{}", told.screens[1]);
}

#[test]
fn an_answer_that_was_not_written_is_asked_again() {
    let table = Table { refused: Some(0), ..Table::of_equals() };
    let told = table.answer("yy");
    assert!(told.screens[1].contains("the store is locked"), "{}", told.screens[1]);
    assert_eq!((told.written, told.tally.approved), (vec!["yes a1".to_owned()], 1));
}
