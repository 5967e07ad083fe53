//! Of the texts of `rewrites.txt`: how many wrong ones pass as merge, golden record, summary or key fact, and how many right ones.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::memory::MemoryId;
use memfold_guard::GuardPolicy;

use super::statements::is_proven_fact;
use super::*;
use crate::judge::opinion::SaidFact;

/// Of wrong texts so many in a hundred may pass.
const WRONG_PERCENT_MAX: usize = 2;
/// Of right texts so many in a hundred must pass.
const RIGHT_PERCENT_MIN: usize = 60;

/// Sources, texts that say what they say, and texts that do not, with their kind.
#[derive(Default)]
struct Case {
    sources: Vec<&'static str>,
    right: Vec<&'static str>,
    wrong: Vec<(&'static str, &'static str)>,
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for block in include_str!("rewrites.txt").split("\n\n") {
        let mut case = Case::default();
        for line in block.lines().filter(|line| !line.starts_with('#')) {
            match line.split_at(2) {
                ("= ", text) => case.sources.push(text),
                ("+ ", text) => case.right.push(text),
                ("- ", text) => case.wrong.push(text.split_once(' ').unwrap()),
                _ => panic!("{line}"),
            }
        }
        if !case.sources.is_empty() {
            cases.push(case);
        }
    }
    cases
}

pub(super) fn group(texts: &[&str]) -> Group {
    let member = |text: &&str| Member {
        handle: String::new(),
        id: MemoryId::new(*text),
        text: (*text).to_owned(),
        categories: vec![],
        importance: 1.0,
        created: String::new(),
        source: "agent".to_owned(),
    };
    Group::new(texts.iter().map(member).collect())
}

/// Duplicates are asked about where the guard keeps no two of them apart.
fn may_be_asked(guard: &Guard, sources: &[&str]) -> bool {
    sources.iter().enumerate().all(|(at, one)| {
        let others = sources[at + 1..].iter();
        let mut verdicts = others.map(|other| guard.judge(&guard.read(one), &guard.read(other)));
        verdicts.all(|judgement| could_be_same(&judgement))
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    Merge,
    Golden,
    Summary,
    KeyFact,
}

/// Why a text is refused; `None` where it passes.
fn refusal(guard: &Guard, group: &Group, text: &str, wanted: Use) -> Option<String> {
    let ids: Vec<String> = group.memories.iter().map(|member| member.handle.clone()).collect();
    let said = |action| Opinion { text: Some(text.to_owned()), ..Opinion::of(action, ids.clone()) };
    let task = match wanted {
        Use::Golden => Task::Golden,
        _ => Task::Duplicates { rewrite: true },
    };
    match wanted {
        Use::Merge | Use::Golden => {
            let limits = AnswerLimits {
                replace_similarity_min: 0.9,
                task,
                content_words_lost_max: 0.25,
                confidence_min: Confidence::High,
            };
            let votes = [vec![said(OpinionKind::Merge)]];
            let outcome = accept_opinions(group, &votes, guard, &limits, &|_, _| None);
            outcome.refused.first().map(|refused| refused.reason.to_string())
        }
        Use::Summary => {
            let summary = accept_summary(group, &[said(OpinionKind::Summarize)], guard);
            summary.err().map(|refused| refused.reason.to_string())
        }
        Use::KeyFact => {
            let proves = |id: &String| {
                let fact = SaidFact { fact: text.to_owned(), ids: vec![id.clone()] };
                is_proven_fact(guard, &fact, group)
            };
            (!ids.iter().any(proves)).then(|| "no source proves it".to_owned())
        }
    }
}

#[test]
fn wrong_rewrites_are_refused_and_right_ones_pass() {
    let guard = Guard::new(&GuardPolicy::default()).unwrap();
    let cases = cases();
    let mut failures = Vec::new();
    let mut table = String::new();
    for wanted in [Use::Merge, Use::Golden, Use::Summary, Use::KeyFact] {
        let (mut right, mut right_passed) = (0, 0);
        let mut kinds: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for case in &cases {
            let group = group(&case.sources);
            if wanted == Use::Merge && !may_be_asked(&guard, &case.sources) {
                continue;
            }
            for text in &case.right {
                // A summary that repeats one memory is none.
                if wanted == Use::Summary && case.sources.contains(text) {
                    continue;
                }
                right += 1;
                match refusal(&guard, &group, text, wanted) {
                    None => right_passed += 1,
                    Some(reason) => {
                        writeln!(table, "  {wanted:?} refused: {text} [{reason}]").unwrap()
                    }
                }
            }
            for (kind, text) in &case.wrong {
                // A summary need not say everything.
                if *kind == "lossy" && matches!(wanted, Use::Summary | Use::KeyFact) {
                    continue;
                }
                let passes = refusal(&guard, &group, text, wanted).is_none();
                let counts = kinds.entry(kind).or_default();
                *counts = (counts.0 + usize::from(passes), counts.1 + 1);
                if passes {
                    writeln!(table, "  {wanted:?} passed: {kind}: {text}").unwrap();
                }
            }
        }
        let wrong: usize = kinds.values().map(|(_, all)| all).sum();
        let wrong_passed: usize = kinds.values().map(|(passed, _)| passed).sum();
        writeln!(
            table,
            "{wanted:?}: {wrong_passed} of {wrong} wrong, {right_passed} of {right} right pass"
        )
        .unwrap();
        if wrong_passed * 100 > WRONG_PERCENT_MAX * wrong {
            failures.push(format!("{wanted:?} lets wrong texts pass"));
        }
        // A key fact rests on one memory: texts about several have no proof.
        if right_passed * 100 < RIGHT_PERCENT_MIN * right && wanted != Use::KeyFact {
            failures.push(format!("{wanted:?} refuses right texts"));
        }
    }
    assert!(failures.is_empty(), "{failures:?}\n{table}");
}

#[test]
fn the_texts_are_many_and_of_many_kinds() {
    let cases = cases();
    let kinds: BTreeSet<&str> =
        cases.iter().flat_map(|case| &case.wrong).map(|(kind, _)| *kind).collect();
    assert!(kinds.len() > 20, "{kinds:?}");
    assert!(cases.iter().map(|case| case.wrong.len()).sum::<usize>() >= 150);
    assert!(cases.iter().map(|case| case.right.len()).sum::<usize>() >= 60);
}
