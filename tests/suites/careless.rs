//! The limits on answers hold against a judge that merges every pair, and let a right one work.

use memfold_core::judge::{
    AnswerLimits, Group, Member, Opinion, OpinionKind, Task, accept_opinions,
};
use memfold_core::memory::MemoryId;
use memfold_core::policy::ConfigLoader;
use memfold_guard::{Guard, Side};
use memfold_tests::Run;
use serde_json::Value;

/// Pairs of one wording; in pairs labelled `false` two people or things have exchanged their roles.
const ROLES: &str = include_str!("../../pipeline/guard/tests_data/roles.jsonl");

fn group(older: &str, newer: &str) -> Group {
    let member = |text: &str| Member {
        handle: String::new(),
        id: MemoryId::new(text),
        text: text.to_owned(),
        categories: Vec::new(),
        importance: 1.0,
        created: String::new(),
        source: String::new(),
    };
    Group::new(vec![member(newer), member(older)])
}

/// Whether a pair merges if a judge says MERGE and keeps the longer text.
fn merges(guard: &Guard, older: &str, newer: &str) -> bool {
    let judgement = guard.judge(&guard.read(older), &guard.read(newer));
    if judgement.says_all(Side::Right) {
        return true;
    }
    let keep = if newer.len() >= older.len() { "m1" } else { "m2" };
    let said = Opinion {
        keep: Some(keep.to_owned()),
        ..Opinion::of(OpinionKind::Merge, vec!["m1".to_owned(), "m2".to_owned()])
    };
    let settings = ConfigLoader::new().load().unwrap().settings.judge;
    let limits = AnswerLimits {
        replace_similarity_min: settings.replace_similarity_min,
        task: Task::Duplicates { rewrite: false },
        content_words_lost_max: settings.content_words_lost_max,
        confidence_min: settings.supersession_confidence_min,
    };
    let votes = [vec![said]];
    let outcome = accept_opinions(&group(older, newer), &votes, guard, &limits, &|_, _| Some(0.95));
    judgement.could_be_same && outcome.accepted.iter().any(|found| found.survivor.is_some())
}

/// For pairs with some labels: how many merge, and their total.
fn merged(guard: &Guard, lines: &str, is_wanted: impl Fn(&Value) -> bool) -> [usize; 2] {
    let pairs = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let pairs: Vec<Value> = pairs.filter(|pair| is_wanted(pair)).collect();
    let text = |pair: &Value, side: &str| pair[side].as_str().unwrap().to_owned();
    let passes = |pair: &&Value| merges(guard, &text(pair, "a"), &text(pair, "b"));
    [pairs.iter().filter(passes).count(), pairs.len()]
}

#[test]
#[expect(clippy::print_stderr, reason = "the figures are said")]
fn exchanged_roles_rarely_merge_whatever_a_judge_says() {
    let guard = Guard::new(&Run::builtin().policy().guard).unwrap();
    let [wrong, swapped] = merged(&guard, ROLES, |pair| pair["label"] == false);
    assert!(swapped >= 150 && wrong * 20 <= swapped, "{wrong} of {swapped} exchanged roles merge");
    // Merges that a right judge can make of them: reworded roles are mostly left to a person.
    let [right, all] = merged(&guard, ROLES, |pair| pair["label"] == true);
    eprintln!("exchanged roles {wrong} of {swapped}, the same in other words {right} of {all}");
    assert!(right * 3 >= all, "{right} of {all} pairs that say the same merge");
}

/// `MEMFOLD_DATA` names a folder with real_pairs_dev.jsonl, which is not part of this repository.
#[test]
#[expect(clippy::print_stderr, reason = "the figures are said")]
fn real_pairs_stay_apart_where_they_are_unrelated() {
    let Some(folder) = std::env::var_os("MEMFOLD_DATA").map(std::path::PathBuf::from) else {
        return eprintln!("skipped: MEMFOLD_DATA names no folder with real_pairs_dev.jsonl");
    };
    let lines = std::fs::read_to_string(folder.join("real_pairs_dev.jsonl")).unwrap();
    let guard = Guard::new(&Run::builtin().policy().guard).unwrap();
    let near = |pair: &Value| pair["cosine"].as_f64().is_none_or(|cosine| cosine >= 0.8);
    let [wrong, all] = merged(&guard, &lines, |pair| pair["label"] == "unrelated" && near(pair));
    let [right, same] = merged(&guard, &lines, |pair| pair["label"] == "same" && near(pair));
    let figures = format!("unrelated {wrong} of {all}, same {right} of {same}");
    eprintln!("{figures}");
    assert!(all > 0 && wrong * 8 <= all, "{figures}");
}
