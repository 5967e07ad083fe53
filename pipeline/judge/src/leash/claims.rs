//! What a new text claims, clause by clause: all its words may stand in its sources and yet say something else.

use std::collections::BTreeSet;

use memfold_guard::{Guard, Side, Verdict};

use super::Refusal;
use crate::question::Member;

/// Where a clause ends.
const ENDS: [&str; 20] = [
    ". ",
    "; ",
    ": ",
    "! ",
    "? ",
    "\n",
    ", ",
    " (",
    ") ",
    " but ",
    " and ",
    " because ",
    " so that ",
    " who ",
    " which ",
    " while ",
    "。",
    "；",
    "，",
    " und ",
];
/// Words of a clause that is looked at.
const WORDS_MIN: usize = 2;

/// Finds a clause of a new text that no source says, while a source says the opposite, another value in its place, or the same
/// words in another order. Cost: a judgement of the guard for each clause of the text and of the sources.
pub(super) fn conflict(guard: &Guard, text: &str, members: &[&Member]) -> Option<Refusal> {
    let sources: Vec<(&Member, Vec<&str>)> =
        members.iter().map(|member| (*member, clauses(&member.text))).collect();
    if let Some(refusal) = renamed_number(text, members) {
        return Some(refusal);
    }
    clauses(text).into_iter().find_map(|clause| {
        let reading = guard.read(clause);
        let pairs =
            || sources.iter().flat_map(|(member, own)| own.iter().map(move |s| (*member, *s)));
        let is_said = |(_, source): (&Member, &str)| {
            guard.judge(&reading, &guard.read(source)).says_all(Side::Right)
        };
        if pairs().any(is_said) {
            return None;
        }
        pairs().find_map(|(member, source)| {
            let judgement = guard.judge(&guard.read(source), &reading);
            let (one, other) = (member.handle.clone(), "text".to_owned());
            if judgement.verdict == Verdict::Contradictory {
                Some(Refusal::Contradictory { one, other })
            } else if judgement.update || is_reordered(source, clause) {
                Some(Refusal::Different { one, other })
            } else {
                None
            }
        })
    })
}

/// The clauses of a text, without what joins them.
fn clauses(text: &str) -> Vec<&str> {
    let mut found = vec![text];
    for end in ENDS {
        found = found.into_iter().flat_map(|part| part.split(end)).collect();
    }
    let trimmed = found.into_iter().map(|part| {
        let part =
            part.trim_matches(|char: char| char.is_whitespace() || ".;:!?,()".contains(char));
        let joins = ["and ", "but ", "who ", "which ", "that ", "because ", "so "];
        joins.iter().find_map(|join| part.strip_prefix(join)).unwrap_or(part)
    });
    trimmed.filter(|part| part.split_whitespace().count() >= WORDS_MIN).collect()
}

/// Tells whether two clauses have the same words in another order.
fn is_reordered(a: &str, b: &str) -> bool {
    let words = |text: &str| -> Vec<String> { text.split_whitespace().map(word).collect() };
    let (a, b) = (words(a), words(b));
    let sorted = |words: &[String]| {
        let mut sorted = words.to_vec();
        sorted.sort_unstable();
        sorted
    };
    a != b && sorted(&a) == sorted(&b)
}

fn word(text: &str) -> String {
    text.trim_matches(|char: char| !char.is_alphanumeric()).to_lowercase()
}

/// A number that follows a word which it follows in no source, while another number does.
fn renamed_number(text: &str, members: &[&Member]) -> Option<Refusal> {
    let known: Vec<(&Member, BTreeSet<(String, String)>)> =
        members.iter().map(|member| (*member, named_numbers(&member.text))).collect();
    named_numbers(text).into_iter().find_map(|(name, number)| {
        let is_known = known.iter().any(|(_, own)| own.contains(&(name.clone(), number.clone())));
        let other = || known.iter().find(|(_, own)| own.iter().any(|(other, _)| *other == name));
        let (member, _) = if is_known { None } else { other() }?;
        Some(Refusal::Different { one: member.handle.clone(), other: "text".to_owned() })
    })
}

/// Each number with the word before it, such as `port` and `8080`.
fn named_numbers(text: &str) -> BTreeSet<(String, String)> {
    let words: Vec<String> = text.split_whitespace().map(word).collect();
    let is_number = |text: &str| text.starts_with(|char: char| char.is_ascii_digit());
    let is_name = |text: &str| text.chars().count() > 2 && text.chars().all(char::is_alphabetic);
    let pairs = words.windows(2).filter(|pair| is_name(&pair[0]) && is_number(&pair[1]));
    pairs.map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}
