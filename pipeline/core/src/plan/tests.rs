//! Decisions on hand-made detections.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::fixture::{Fixture, NOW, row};
use super::{Action, ActionType, Risk, plan_digest};
use crate::decisions::{FlaggedPairs, SingleAction};
use crate::memory::{CreatedAt, Embedding, Memory, MemoryId};
use crate::policy::{Canonical, RuleAction};
use crate::report::{read_plan, write_plan};
use crate::time::Instant;

fn with(mut memory: Memory, change: impl FnOnce(&mut Memory)) -> Memory {
    change(&mut memory);
    memory
}

fn category(memory: Memory, category: &str) -> Memory {
    with(memory, |m| m.categories.push(category.into()))
}

fn merge_of(fixture: &Fixture) -> Action {
    let actions = fixture.decide().plan.actions;
    actions.into_iter().find(|action| action.action == ActionType::Merge).unwrap()
}

#[test]
fn the_newest_with_a_vector_survives() {
    let memories = || {
        vec![
            with(row("a", "x y", 2), |m| m.embedding = Embedding::Missing),
            row("b", "x y", 3),
            row("c", "x", 4),
        ]
    };
    let fixture = Fixture::new(memories()).cluster(&["a", "b", "c"]);
    assert_eq!(fixture.actions(), ["merge b<a<c R2"]);
    let mut informative = Fixture::new(vec![row("a", "x", 2), row("b", "x", 3), row("c", "x", 4)]);
    let canonical = Some(Canonical::MostInformative);
    for rule in &mut informative.policy.rules {
        if rule.then.action == RuleAction::Merge {
            rule.then.params.canonical = canonical;
        }
    }
    assert_eq!(informative.cluster(&["a", "b", "c"]).actions(), ["merge a<b<c R1"]);
}

#[test]
fn the_first_rule_that_holds_for_all_wins() {
    let fixture = |older, similarity| {
        let memories = vec![row("a", "x y", 2), row("b", older, 3)];
        Fixture::new(memories).cluster(&["a", "b"]).at(similarity)
    };
    assert_eq!(fixture("y x", 0.86).actions(), ["merge a<b R1"]);
    assert_eq!(fixture("y x", 0.84).actions(), ["noop a cluster", "noop b similarity"]);
    assert_eq!(fixture("x", 0.96).actions(), ["merge a<b R2"]);
    assert_eq!(fixture("x", 0.94).actions(), ["noop a cluster", "noop b R2"]);
    let equal = Fixture::new(vec![row("a", "x", 2), row("b", " x ", 3)]).cluster(&["a", "b"]);
    assert_eq!(equal.at(0.5).actions(), ["merge a<b R1"]);
}

#[test]
fn what_the_survivor_lacks_is_tried_among_itself() {
    let memories = vec![row("a", "x", 2), row("b", "x y z", 3), row("c", "x y", 4)];
    let fixture = Fixture::new(memories).cluster(&["a", "b", "c"]);
    assert_eq!(fixture.actions(), ["merge b<a<c R2"], "the fuller text survives");
    let memories = vec![row("a", "x y", 2), row("b", "x z", 3), row("c", "z x", 4)];
    let fixture = Fixture::new(memories).cluster(&["a", "b", "c"]);
    assert_eq!(fixture.actions(), ["merge b<c R1", "noop a cluster"]);
    let different = Fixture::new(vec![row("a", "x A", 2), row("b", "x B", 3)]);
    assert_eq!(different.cluster(&["a", "b"]).actions(), ["noop a cluster", "noop b guard"]);
}

#[test]
fn protected_rows_never_change() {
    type Protect = fn(Memory) -> Memory;
    let cases: [(&str, Protect); 6] = [
        ("category", |m| category(m, "Decisions")),
        ("below", |m| category(m, "decisions/storage")),
        ("source", |m| with(m, |m| m.root_source = "user:ann".into())),
        ("importance", |m| with(m, |m| m.importance = 3.0)),
        ("age", |m| with(m, |m| m.created_at = row("", "", 0).created_at)),
        ("future", |m| with(m, |m| m.created_at = row("", "", -9).created_at)),
    ];
    for (name, protect) in cases {
        let memories = vec![protect(row("a", "x", 2)), row("b", "x y", 3), row("c", "x", 4)];
        let fixture = Fixture::new(memories).cluster(&["a", "b", "c"]);
        let merge = merge_of(&fixture);
        assert_eq!(merge.target_ids, ["a", "c"].map(MemoryId::new), "{name}");
        assert!(merge.survivor_protected && merge.new_categories.is_none(), "{name}");
        assert_eq!(fixture.actions()[1..], ["noop b protection"], "{name}");
    }
}

/// Exact copies of a protected memory stayed for ever where they were filed under another category.
#[test]
fn an_exact_copy_merges_into_a_protected_row_unless_more_than_its_categories_would_go() {
    let memories = vec![
        category(row("a", "x", 2), "pinned"),
        category(row("b", "x", 3), "sop"),
        with(row("c", "x", 4), |m| m.importance = 2.0),
    ];
    let fixture = Fixture::new(memories).cluster(&["a", "b", "c"]);
    assert_eq!(fixture.actions(), ["merge a<b R1", "noop c protection"]);
    let merge = merge_of(&fixture);
    assert!(merge.survivor_protected && merge.new_categories.is_none());
    assert_eq!(merge.new_importance, None);
}

#[test]
fn a_merge_keeps_the_most() {
    let memories = vec![
        category(row("a", "x y", 2), "one"),
        with(category(category(row("b", "x", 3), "two"), "one"), |m| m.importance = 2.5),
    ];
    let merge = merge_of(&Fixture::new(memories).cluster(&["a", "b"]));
    assert_eq!(merge.new_categories.unwrap(), ["one", "two"]);
    assert_eq!(merge.new_importance, Some(2.5));
    assert_eq!(merge.risk, Risk::Reworded);
}

#[test]
fn unreadable_times_neither_survive_nor_age() {
    let unreadable = |id, text| {
        with(row(id, text, 0), |m| {
            m.created_at = CreatedAt::Unreadable("?".into());
            m.access_count = 0;
        })
    };
    let merging = Fixture::new(vec![unreadable("a", "x"), row("b", "x y", 3)]).cluster(&["a", "b"]);
    assert_eq!(merging.actions(), ["merge b<a R2"]);
    let alone = Fixture::new(vec![unreadable("a", "x"), row("b", "y", 3), row("c", "z", 3)]);
    assert!(alone.actions().is_empty());
}

#[test]
fn promotions_read_the_largest_count_once() {
    let procedure = |id, text, age, reads| {
        with(category(row(id, text, age), "SOP"), |m| {
            m.importance = 2.0;
            m.access_count = reads;
        })
    };
    let merged = |reads| {
        Fixture::new(vec![procedure("a", "x y", 2, 3), procedure("b", "x", 3, reads)])
            .cluster(&["a", "b"])
    };
    assert_eq!(merged(3).actions(), ["merge a<b R2"]);
    assert_eq!(merged(5).actions(), ["merge a<b R2", "promote a R3"]);

    // The night after: the survivor holds the sum, its merged row its own share.
    let merged_row = with(procedure("b", "x", 3, 3), |m| m.merge_into("a"));
    assert!(Fixture::new(vec![procedure("a", "x y", 2, 6), merged_row]).actions().is_empty());

    let mut again = Fixture::new(vec![procedure("a", "x", 2, 9)]);
    assert_eq!(again.actions(), ["promote a R3"]);
    again.snapshot.decisions.promoted_at_access.insert(MemoryId::new("a"), 5);
    assert!(again.actions().is_empty());
    again.snapshot.memories[0].access_count = 10;
    assert_eq!(again.actions(), ["promote a R3"]);
    again.snapshot.memories[0].importance = 3.0;
    assert!(again.actions().is_empty(), "at the cap nothing changes");
    assert!(again.decide().protected.is_empty(), "our own raise does not protect");
}

#[test]
fn what_a_person_took_back_is_not_planned_again() {
    let declined = |fixture: &mut Fixture, id, action| {
        fixture.snapshot.decisions.declined.insert((MemoryId::new(id), action));
    };
    let old = || category(with(row("a", "old note", 31), |m| m.access_count = 0), "c");
    let mut archival = Fixture::new(vec![old(), row("b", "b", 40)]).archiving();
    declined(&mut archival, "a", SingleAction::Promote);
    assert_eq!(archival.actions(), ["archive a R4"]);
    declined(&mut archival, "a", SingleAction::Archive);
    assert_eq!(archival.actions(), ["noop a R4"]);
    let reasons = archival.decide().plan.actions[0].rationale.reasons.clone();
    assert_eq!(reasons.last().unwrap(), "a person took this back");
    archival.snapshot.memories[0].access_count = 1;
    assert!(archival.actions().is_empty(), "the rule does not fire");

    let procedure = |id, text, age| {
        with(category(row(id, text, age), "sop"), |m| (m.importance, m.access_count) = (2.0, 5))
    };
    let mut promotion = Fixture::new(vec![procedure("a", "x y", 2), procedure("b", "x", 3)]);
    declined(&mut promotion, "b", SingleAction::Promote);
    assert_eq!(promotion.actions(), ["promote a R3", "noop b R3"]);
    // A memory that takes b in says all that b says.
    let merged = promotion.cluster(&["a", "b"]);
    assert_eq!(merged.actions(), ["merge a<b R2"]);
}

#[test]
fn archival_needs_a_counter_that_says_something() {
    let unread = |id, age| with(row(id, id, age), |m| m.access_count = 0);
    let fixture = Fixture::new(vec![category(unread("a", 31), "c"), row("b", "b", 40)]);
    assert!(fixture.actions().is_empty(), "it is off by default");
    let fixture = fixture.archiving();
    let decided = fixture.decide();
    assert_eq!(fixture.actions(), ["archive a R4"]);
    assert_eq!(
        decided.plan.actions[0].new_categories.as_deref().unwrap(),
        ["archived", "archive/c"]
    );
    let silent = Fixture::new(vec![unread("a", 31), unread("b", 31)]).archiving();
    assert!(silent.actions().is_empty());
    assert!(silent.decide().notes[0].contains("2 of 2 memories have access_count 0"));
}

#[test]
fn flags_keep_to_their_caps() {
    let memories: Vec<_> = ["a", "b", "c", "d", "e"].map(|id| row(id, id, 5)).into();
    let mut fixture = Fixture::new(memories);
    fixture.contradictions =
        vec![("a", "b", 0.9), ("a", "c", 0.8), ("a", "d", 0.7), ("a", "e", 0.95), ("d", "e", 0.1)];
    let decided = fixture.decide();
    assert_eq!(decided.plan.count(ActionType::FlagContradiction), 4);
    assert_eq!(decided.plan.actions[0].target_ids[1].as_str(), "e");
    assert_eq!(decided.flags_deferred, 1);
    assert_eq!(decided.deferred_patterns["number"], 1);
}

#[test]
fn one_flag_speaks_for_a_series() {
    let ids = ["a", "b", "c", "d", "x", "y", "z"];
    let mut fixture = Fixture::new(ids.map(|id| row(id, id, 5)).into());
    let three = vec![("x", "y", 0.9), ("x", "z", 0.9), ("y", "z", 0.9)];
    let mut four = vec![("a", "b", 0.9), ("a", "c", 0.95), ("a", "d", 0.9)];
    four.extend([("b", "c", 0.9), ("b", "d", 0.9), ("c", "d", 0.9)]);
    fixture.contradictions = [four, three].concat();
    let decided = fixture.decide();
    let flags: Vec<String> = decided
        .plan
        .actions
        .iter()
        .map(|action| action.target_ids.iter().map(|id| id.as_str()).collect())
        .collect();
    assert_eq!(flags, ["ac", "xy", "xz", "yz"], "three values may be one thing told three times");
    let reasons = &decided.plan.actions[0].rationale.reasons;
    assert_eq!(reasons.last().unwrap(), "speaks for 4 memories that differ in the same way");
    assert_eq!(decided.flags_deferred, 5);
    assert_eq!(decided.deferred_patterns["number (series)"], 5);
    fixture.snapshot.decisions.flagged.insert(MemoryId::new("c"), MemoryId::new("d"));
    let again = fixture.decide();
    assert_eq!(again.plan.count(ActionType::FlagContradiction), 3, "it was spoken for before");
}

#[test]
fn texts_that_differ_in_values_alone_are_a_series_though_not_all_are_near() {
    let texts = ["The size is 30", "The size is 40", "The size is 50", "The size is 60"];
    let ids = ["a", "b", "c", "d", "e", "f"];
    let others = ["The limit is 5", "The limit is 6"];
    let rows = ids.iter().zip(texts.into_iter().chain(others));
    let mut fixture = Fixture::new(rows.map(|(id, text)| row(id, text, 5)).collect());
    fixture.contradictions =
        vec![("a", "b", 0.9), ("b", "c", 0.9), ("c", "d", 0.9), ("e", "f", 0.8)];
    let mut detection = fixture.detection();
    let guard = memfold_guard::Guard::new(&fixture.policy.guard).unwrap();
    let reading =
        |at: crate::memory::MemoryIndex| guard.read(&fixture.snapshot.memories[at.index()].content);
    for found in &mut detection.contradictions {
        found.judgement = guard.judge(&reading(found.older), &reading(found.newer));
    }
    let decided = fixture.decide_on(&detection);
    let last = |action: &super::Action| action.rationale.reasons.last().unwrap().clone();
    let reasons: Vec<String> = decided.plan.actions.iter().map(last).collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert_eq!(reasons[0], "speaks for 4 memories that differ in the same way");
    assert_eq!(decided.flags_deferred, 2);
}

#[test]
fn a_pair_is_flagged_once() {
    let flagged = |fixture: &mut Fixture, a, b| {
        fixture.snapshot.decisions.flagged.insert(MemoryId::new(a), MemoryId::new(b));
    };
    let memories: Vec<_> = ["a", "b", "c", "d", "e"].map(|id| row(id, id, 5)).into();
    let mut fixture = Fixture::new(memories);
    fixture.contradictions =
        vec![("a", "b", 0.9), ("a", "c", 0.8), ("a", "d", 0.75), ("a", "e", 0.7)];
    flagged(&mut fixture, "c", "a");
    let decided = fixture.decide();
    let others: Vec<_> =
        decided.plan.actions.iter().map(|action| action.target_ids[1].as_str()).collect();
    assert_eq!(others, ["b", "d", "e"], "what was flagged takes no room");
    assert_eq!(decided.flags_deferred, 0);

    let memories = vec![row("a", "x y", 2), row("b", "x", 3), row("c", "z", 4)];
    let mut moved = Fixture::new(memories).cluster(&["a", "b"]);
    moved.contradictions = vec![("c", "b", 0.9)];
    flagged(&mut moved, "b", "c");
    assert_eq!(moved.actions(), ["merge a<b R2"], "these texts were flagged");
}

/// The newer and true memory was archived by a rule, its flag closed itself, and the outdated one stayed.
#[test]
fn no_rule_touches_a_side_of_a_flag() {
    let unread = |id, text, age| with(row(id, text, age), |m| m.access_count = 0);
    let memories = vec![unread("a", "x", 31), unread("b", "y", 32), row("c", "z", 40)];
    let mut planned = Fixture::new(memories).archiving();
    assert_eq!(planned.actions(), ["archive a R4", "archive b R4"]);
    planned.contradictions = vec![("b", "a", 0.9)];
    let held = ["flag_contradiction b<a R5", "noop a R4", "noop b R4"];
    assert_eq!(planned.actions(), held);
    let reasons = &planned.decide().plan.actions[1].rationale.reasons;
    assert_eq!(reasons.last().unwrap(), "in a conflict that waits for a person");

    // The flag of an earlier run waits. A newer copy does not merge the flagged memory, which merges its own copies.
    for (left, right, actions) in [
        ("b", "c", &["noop a cluster", "noop b flag", "noop c flag"][..]),
        ("b", "e", &["merge a<c R1", "noop b flag"]),
        ("a", "e", &["merge a<b<c R1"]),
    ] {
        let memories = vec![row("a", "x", 2), row("b", "x", 3), row("c", "x", 4), row("e", "y", 5)];
        let mut open = Fixture::new(memories).cluster(&["a", "b", "c"]);
        open.snapshot.decisions.open_flags.insert(MemoryId::new(left), MemoryId::new(right));
        assert_eq!(open.actions(), actions, "{left} {right}");
    }
}

/// Each run flagged as many as the caps allow, whatever waited already.
#[test]
fn flags_that_wait_take_room() {
    let memories: Vec<_> = ["a", "b", "c", "d", "e"].map(|id| row(id, id, 5)).into();
    let mut fixture = Fixture::new(memories);
    fixture.contradictions =
        vec![("a", "b", 0.9), ("a", "c", 0.8), ("a", "d", 0.75), ("a", "e", 0.7)];
    for partner in ["b", "c", "d"] {
        let decisions = &mut fixture.snapshot.decisions;
        let pair = || (MemoryId::new("a"), MemoryId::new(partner));
        decisions.flagged.insert(pair().0, pair().1);
        decisions.counted_flags.insert(pair().0, pair().1);
    }
    let decided = fixture.decide();
    assert_eq!((decided.plan.changes(), decided.flags_deferred), (0, 1));
    fixture.snapshot.decisions.counted_flags = FlaggedPairs::default();
    assert_eq!(fixture.actions(), ["flag_contradiction a<e R5"], "the others were settled");
}

/// After a whole run was undone, the next one archived and promoted the merged memories.
#[test]
fn undone_merges_only_take_later_rows() {
    let unread = |id, age| with(row(id, "x", age), |m| m.access_count = 0);
    let memories = vec![unread("new", 2), unread("a", 31), unread("b", 32), row("c", "y", 40)];
    let mut fixture = Fixture::new(memories).cluster(&["new", "a", "b"]).archiving();
    assert_eq!(fixture.actions(), ["merge new<a<b R1"]);
    let undone = ["a", "b"].map(MemoryId::new);
    let at = |days: i64| Instant(NOW.0 - days * 86_400_000_000);
    fixture.snapshot.decisions.keep_both.insert_undone_group(undone.clone());
    for id in undone {
        fixture.snapshot.decisions.undone.insert(id, at(5));
    }
    assert_eq!(fixture.actions(), ["merge new<a R1", "noop b decision", "noop b R4"]);
    fixture.snapshot.decisions.undone.insert(MemoryId::new("a"), at(1));
    fixture.snapshot.decisions.undone.insert(MemoryId::new("b"), at(1));
    let all = fixture.actions();
    assert!(all.iter().all(|status| status.starts_with("noop")), "{all:?}");
}

#[test]
fn a_flag_speaks_of_survivors_once() {
    let memories = vec![row("a", "x y", 2), row("b", "x", 3), row("c", "z", 4)];
    let mut fixture = Fixture::new(memories).cluster(&["a", "b"]);
    fixture.contradictions = vec![("c", "b", 0.9), ("c", "a", 0.9)];
    assert_eq!(fixture.actions(), ["merge a<b R2", "flag_contradiction c<a R5"]);
}

#[test]
fn pairs_in_conflict_or_kept_apart_do_not_merge() {
    let memories = || vec![row("a", "x y", 2), row("b", "x", 3), row("c", "x", 4)];
    let mut contradictory = Fixture::new(memories()).cluster(&["a", "b", "c"]);
    contradictory.policy.guard.enabled = false;
    contradictory.contradictions = vec![("b", "a", 0.9)];
    let actions = contradictory.actions();
    assert_eq!(actions, ["merge a<c R2", "flag_contradiction b<a R5", "noop b guard"]);
    let mut apart = Fixture::new(memories()).cluster(&["a", "b", "c"]);
    apart.snapshot.decisions.keep_both.insert_group(["a", "b"].map(MemoryId::new));
    assert_eq!(apart.actions(), ["merge a<c R2", "noop b decision"]);
}

#[test]
fn members_of_a_kept_group_do_not_merge() {
    let memories =
        || vec![row("a", "x y", 2), row("b", "x", 3), row("c", "x", 4), row("d", "x", 5)];
    let mut apart = Fixture::new(memories()).cluster(&["a", "b", "c", "d"]);
    apart.snapshot.decisions.keep_both.insert_group(["b", "c"].map(MemoryId::new));
    assert_eq!(apart.actions(), ["merge a<b<d R2", "noop c decision"]);

    // A merged row's decision holds for its unit.
    let mut with_merged_rows = memories();
    with_merged_rows.push(with(row("e", "x", 6), |m| m.merge_into("a")));
    with_merged_rows.push(with(row("f", "x", 7), |m| m.merge_into("b")));
    let mut of_merged = Fixture::new(with_merged_rows).cluster(&["a", "b", "c", "d"]);
    of_merged.snapshot.decisions.keep_both.insert_group(["e", "f"].map(MemoryId::new));
    assert_eq!(of_merged.actions(), ["merge a<c<d R2", "noop b decision"]);
}

#[test]
fn a_noop_rule_leaves_its_rows_alone() {
    let memories = vec![category(row("a", "x", 2), "keep"), category(row("b", "x", 3), "keep")];
    let mut fixture = Fixture::new(memories).cluster(&["a", "b"]);
    let mut rule = fixture.policy.rules[0].clone();
    rule.id = "R0-keep".into();
    rule.then.action = RuleAction::Noop;
    rule.when.categories_any = vec!["keep".into()];
    fixture.policy.rules.insert(0, rule);
    assert_eq!(fixture.actions(), ["noop a cluster", "noop b R0"]);
}

fn sample() -> Fixture {
    let memories = vec![
        row("a", "deploy port 8080", 2),
        row("b", "deploy  port 8080", 3),
        row("c", "tests pass now", 4),
        row("d", "tests pass", 5),
        category(row("e", "we chose SQLite", 6), "decisions"),
        with(row("f", "old note", 50), |m| m.access_count = 0),
    ];
    let mut fixture = Fixture::new(memories).cluster(&["a", "b"]).cluster(&["c", "d"]);
    fixture.contradictions = vec![("d", "e", 0.8)];
    fixture
}

#[test]
fn plan_json() {
    let mut plan = sample().decide().plan;
    plan.engine_version = "[version]".into();
    insta::assert_json_snapshot!(plan);
}

#[test]
fn plan_files_are_read_back_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plan.json");
    let plan = sample().decide().plan;
    write_plan(&path, &plan).unwrap();
    assert_eq!(read_plan(&path).unwrap(), plan);
    std::fs::write(&path, "{\"schema_version\": 9}").unwrap();
    let error = read_plan(&path).unwrap_err();
    assert!(error.to_string().ends_with("expected schema_version 1, found 9"), "{error}");
    assert!(error.hint().is_some());
}

proptest! {
    #[test]
    fn the_digest_does_not_see_the_order_of_rows(order in Just((0..6).collect::<Vec<usize>>()).prop_shuffle()) {
        let expected = plan_digest(&sample().decide().plan);
        let mut shuffled = sample();
        let memories = shuffled.snapshot.memories.clone();
        shuffled.snapshot.memories = order.into_iter().map(|at| memories[at].clone()).collect();
        prop_assert_eq!(plan_digest(&shuffled.decide().plan), expected);
    }

    #[test]
    fn a_row_has_one_action(
        rows in prop::collection::vec(("[xyzAB]( [xyzAB]){0,2}", 0_i64..60, 0_i64..7, 0_u8..4), 2..9),
        similarity in prop::sample::select(vec![0.94, 0.96, 0.99]),
    ) {
        const IDS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let memories = rows.iter().zip(IDS).map(|((text, age, reads, kind), id)| {
            with(row(id, text, *age), |m| {
                m.access_count = *reads;
                match kind {
                    1 => m.embedding = Embedding::Missing,
                    2 => { m.categories.push("sop".into()); m.importance = 2.0; }
                    3 => m.categories.push("pinned".into()),
                    _ => {}
                }
            })
        });
        let memories: Vec<_> = memories.collect();
        let ids: Vec<&str> = IDS[..memories.len()].to_vec();
        let fixture = Fixture::new(memories).cluster(&ids).at(similarity);
        let decided = fixture.decide();
        let (mut merged, mut single) = (BTreeSet::new(), BTreeSet::new());
        let protected: BTreeSet<_> =
            decided.protected.iter().map(|(at, _)| fixture.snapshot.memories[at.index()].id.clone()).collect();
        for action in &decided.plan.actions {
            for id in action.merged_ids() {
                prop_assert!(!protected.contains(id), "{} was merged", id);
            }
            for id in &action.target_ids {
                let first_time = match action.action {
                    ActionType::Merge | ActionType::Noop => merged.insert(id.clone()),
                    _ => single.insert(id.clone()),
                };
                prop_assert!(first_time, "{} has two actions", id);
            }
        }
        prop_assert_eq!(merged.len(), fixture.snapshot.memories.len());
        for id in decided.plan.actions.iter().flat_map(Action::merged_ids) {
            prop_assert!(!single.contains(id));
        }
    }
}
