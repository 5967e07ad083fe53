//! [`resolve`]: from a text to the times it names.

use std::ops::Range;

use crate::time::{Instant, in_zone};
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::calendar;
use super::grammar::Reader;
use super::reference::{Confidence, Grain, Relation, TimeInterval, TimeReference};
use super::tokens;

/// Finds the times that an English text names, in the text's order, without overlaps.
///
/// Relative times count from `created_at` in `zone`; see the module for the conventions. Linear in
/// the text's length. An instant outside jiff's range finds nothing.
///
/// # Examples
///
/// ```
/// use jiff::tz::TimeZone;
/// use memfold_core::lifecycle::temporal::resolve;
/// use memfold_core::time::Instant;
///
/// let zone = TimeZone::UTC;
/// let written = Instant::parse("2025-03-02T09:00:00Z", &zone).unwrap();
/// let found = resolve("We switched to SQLite yesterday.", written, &zone);
/// assert_eq!(found[0].interval.civil_start.date().to_string(), "2025-03-01");
/// ```
#[must_use]
pub fn resolve(text: &str, created_at: Instant, zone: &TimeZone) -> Vec<TimeReference> {
    let Ok(timestamp) = Timestamp::from_microsecond(created_at.0) else { return Vec::new() };
    let tokens = tokens::tokens(text);
    let mut reader = Reader::new(text, &tokens, timestamp.to_zoned(zone.clone()));
    let mut found = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        match reader.reference(index) {
            Some((start, next, when)) => {
                reader.previous = Some(when.start);
                let span = tokens[start].span.start..tokens[next - 1].span.end;
                let relation = reader.relation(start);
                found.push(finish(when, span, relation, zone));
                index = next;
            }
            None => index += 1,
        }
    }
    found
}

/// Turns local times into instants, and notes what the clocks skip or show twice.
fn finish(
    when: calendar::When,
    span: Range<usize>,
    relation: Relation,
    zone: &TimeZone,
) -> TimeReference {
    let calendar::When { start, end, grain, mut confidence, mut note, exact } = when;
    let (first, last) = match exact {
        Some((first, last)) => (Instant::from(first), Instant::from(last)),
        None => (in_zone(start, zone), in_zone(end, zone)),
    };
    if exact.is_none() && grain < Grain::PartOfDay {
        let ambiguous = zone.to_ambiguous_timestamp(start).offset();
        let problem = match ambiguous {
            jiff::tz::AmbiguousOffset::Unambiguous { .. } => None,
            jiff::tz::AmbiguousOffset::Gap { .. } => Some("the clocks skip this time that day"),
            jiff::tz::AmbiguousOffset::Fold { .. } => {
                Some("the clocks show this time twice that day; the first is taken")
            }
        };
        if let Some(problem) = problem {
            confidence = confidence.min(Confidence::AMBIGUOUS);
            note.get_or_insert_with(|| problem.to_owned());
        }
    }
    let interval =
        TimeInterval { start: first, end: last.max(first), civil_start: start, civil_end: end };
    TimeReference { span, interval, grain, relation, confidence, note }
}
