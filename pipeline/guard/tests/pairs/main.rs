//! The guard on generated and hand-written pairs, through its public interface only.

mod families;
mod probes;
mod answers;
mod sets;
mod frozen;
mod fuzzed;
mod generate;

use std::sync::OnceLock;

use memfold_guard::{Guard, GuardPolicy, Judgement, Reading, Side, Verdict};

/// A text and the day on which it was remembered, where that is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Text {
    text: String,
    date: Option<String>,
}

/// Two texts; the older one comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    older: Text,
    newer: Text,
}

/// The shipped rules, without a user's lexicon.
fn guard() -> &'static Guard {
    static GUARD: OnceLock<Guard> = OnceLock::new();
    GUARD
        .get_or_init(|| Guard::new(&GuardPolicy::default()).expect("the built-in lexicon is valid"))
}

fn read(text: &Text) -> Reading {
    let day = text.date.as_deref().map(|date| {
        let parts: Vec<i32> = date.split('-').map(|part| part.parse().expect("a date")).collect();
        let [year, month, day] = parts[..] else { panic!("a date: {date}") };
        // Days apart, not days of the calendar.
        (year * 12 + month) * 31 + day
    });
    guard().read(&text.text).on_day(day)
}

fn judge(older: &Text, newer: &Text) -> Judgement {
    guard().judge(&read(older), &read(newer))
}

/// Tells whether either text may take the place of the other, in either order.
fn merges(pair: &Pair) -> bool {
    let either =
        |judgement: &Judgement| judgement.says_all(Side::Left) || judgement.says_all(Side::Right);
    either(&judge(&pair.older, &pair.newer)) || either(&judge(&pair.newer, &pair.older))
}

/// Returns the name of a verdict in the files of data.
fn verdict_name(verdict: Verdict) -> String {
    let name = format!("{verdict:?}").to_lowercase();
    if name == "contradictory" { "conflict".to_owned() } else { name }
}
