//! [`said_again`]: what is to be done with a text that is in the store already.
//!
//! A repetition is only counted. But a text that was superseded, or that something newer speaks against, is news when it is
//! said again: of the pair, it is the newer statement now. Counted alone, that would be lost.

use super::Incoming;
use super::decide::{Choice, Decided, differing, same};
use super::weigh::{Equal, Match, Weighed};
use memfold_guard::{Difference, DifferenceKind, Verdict};
use memfold_model::decisions::content_hash;
use memfold_model::memory::Memory;
use memfold_plan::detect::newest_first;
use memfold_store::brain_db::FlagKind;

/// So many texts, or more, that differ in values alone are a series of events: none of them updates another.
const SERIES_MIN: usize = 4;

/// Decides on a text that is in the store already.
pub(super) fn said_again(weighed: &Weighed, equal: &Equal, incoming: &Incoming) -> Decided {
    let touch = || Decided { choice: Choice::Touch { at: 0 }, reason: same(equal) };
    if is_retry(equal, incoming) {
        return touch();
    }
    let text = incoming.text.as_deref().unwrap_or_default();
    if let Equal::Folded { into, superseded, .. } = equal {
        let at = weighed.matches.iter().position(|found| found.memory.id == into.id);
        let speaks_against = |at: &usize| *superseded || contradicts(&weighed.matches[*at]);
        if let Some(at) = at.filter(speaks_against) {
            let reason = match superseded {
                true => format!("{}: said again, it stands against it", same(equal)),
                false => format!("{}, but which contradicts it", same(equal)),
            };
            return Decided { choice: Choice::Flag { at, kind: FlagKind::Contradiction }, reason };
        }
    }
    let Some(against) = newest_opponent(weighed, equal, text) else { return touch() };
    let found = &weighed.matches[against];
    let relation = if contradicts(found) { "contradicts" } else { "differs from" };
    let reason = format!(
        "{}, said again after {}, which is newer and {relation} it{}",
        same(equal),
        found.memory.id,
        differing(found)
    );
    let choice = match equal {
        Equal::Live(_) | Equal::Folded { .. } => Choice::TouchAndFlag { against },
        Equal::Archived { .. } => Choice::Flag { at: against, kind: FlagKind::Contradiction },
    };
    Decided { choice, reason }
}

/// Tells whether a save under an id is only repeated.
fn is_retry(equal: &Equal, incoming: &Incoming) -> bool {
    let Some(id) = incoming.id.as_deref() else { return false };
    equal.memory().id.as_str() == id
        || matches!(equal, Equal::Folded { ghost, .. } if ghost.as_str() == id)
}

/// Returns the newest match that speaks against a memory that is said again, and is newer than it.
fn newest_opponent(weighed: &Weighed, equal: &Equal, text: &str) -> Option<usize> {
    let memory = equal.memory();
    let in_values = |found: &&Match| differs_in_values(found);
    // The new text is one of the series.
    let is_series = weighed.matches.iter().filter(in_values).count() + 1 >= SERIES_MIN;
    let says_otherwise = |found: &Match| {
        let is_event = is_series && differs_in_values(found);
        !is_event && (contradicts(found) || differs_in_one_place(found, text))
    };
    let speaks_against = |found: &Match| {
        let is_flagged = weighed.flags.iter().any(|flag| flag.other == found.memory.id);
        let apart = weighed.kept_apart.get(&found.memory.id);
        let is_apart = apart.is_some_and(|hash| match hash {
            Some(hash) => *hash == content_hash(&found.memory.content),
            None => true,
        });
        found.memory.id != memory.id
            && (is_flagged || !is_apart && says_otherwise(found))
            && is_newer(weighed, &found.memory, memory)
    };
    let opponents = weighed.matches.iter().enumerate().filter(|(_, found)| speaks_against(found));
    let newest = opponents.min_by(|(_, a), (_, b)| newest_first(&a.memory, &b.memory));
    newest.map(|(at, _)| at)
}

/// Tells which one of a pair was said last: what an open flag says, else the rows' own times.
fn is_newer(weighed: &Weighed, other: &Memory, memory: &Memory) -> bool {
    let flag = weighed.flags.iter().find(|flag| flag.other == other.id);
    match flag.and_then(|flag| flag.asserted.as_ref()) {
        Some((asserted, _)) => *asserted == other.id,
        None => newest_first(other, memory).is_lt(),
    }
}

fn contradicts(found: &Match) -> bool {
    found.judgement.as_ref().is_some_and(|j| j.verdict == Verdict::Contradictory)
}

/// Tells whether a match says something else in values alone, as the members of a series do.
fn differs_in_values(found: &Match) -> bool {
    let differences = found.judgement.as_ref().map_or(&[][..], |judgement| &judgement.differences);
    !differences.is_empty() && differences.iter().all(|difference| is_value(difference.kind))
}

/// Tells whether a match is the new text with another value in one place: a number, version, date, time or amount.
fn differs_in_one_place(found: &Match, text: &str) -> bool {
    let Some(judgement) = &found.judgement else { return false };
    let [difference] = &judgement.differences[..] else { return false };
    judgement.verdict == Verdict::Different
        && is_value(difference.kind)
        && around(difference, &found.memory.content, text).is_some_and(|(old, new)| old == new)
}

const fn is_value(kind: DifferenceKind) -> bool {
    use DifferenceKind::{Currency, Date, Number, Time, Version};
    matches!(kind, Number | Version | Date | Time | Currency)
}

/// Returns what stands around a difference in both texts, without white space.
fn around(difference: &Difference, left: &str, right: &str) -> Option<(String, String)> {
    let without = |text: &str, span: &std::ops::Range<usize>| {
        let (before, after) = (text.get(..span.start)?, text.get(span.end..)?);
        let kept = before.chars().chain(['\0']).chain(after.chars());
        Some(kept.filter(|char| !char.is_whitespace()).collect::<String>())
    };
    Some((without(left, difference.left.as_ref()?)?, without(right, difference.right.as_ref()?)?))
}
