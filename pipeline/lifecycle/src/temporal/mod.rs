//! Which time does a text name, and when was what a memory tells?
//!
//! [`resolve`] finds the times that an English text names and computes them from the moment it was
//! written, in the writer's zone: "yesterday" in a memory of 2025-03-02 is 2025-03-01.
//! [`answer()`] answers a question about time from memories, with the steps written out.
//!
//! Conventions, where people differ:
//!
//! * Weeks start on Monday; a weekend is Saturday and Sunday.
//! * "last week|month|quarter|year" is the whole calendar period before, "the last 3 weeks" the three
//!   weeks before the day of writing, "the next 3 weeks" those from the day after.
//! * "N days|weeks|months|years ago" is one day; its grain says how roughly it was meant.
//! * "last Friday" is the nearest one before, "this Friday" that of the week, "next Friday" that of
//!   the week after.
//! * Morning is 05:00 to 12:00, afternoon to 18:00, evening to 24:00, night 20:00 to 05:00.
//! * Ranges of days hold their last day; ranges of clock times end at the second time.
//! * A weekday, month or day without a year lies before the writing where the clause tells of the
//!   past, after it where it tells of the future. Where it shows neither, the confidence says so;
//!   taken is the nearest for a day with its month, else the one before: memories mostly report.
//!
//! Nothing is guessed in silence: a confidence below [`Confidence::CLEAR`] comes with a note.

mod tokens;
mod tense;
mod calendar;
mod grammar;
mod clock;
mod ranges;
mod answer;

pub use answer::{Answer, Candidate, answer, wants_time};

use std::ops::Range;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use memfold_model::time::{Instant, in_zone};
use serde::{Serialize, Serializer};

use grammar::Reader;

#[cfg(test)]
mod tests;

/// How sure a resolution is: 0 (nothing known) to 1 (written in full).
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Confidence(f32);

impl Confidence {
    /// Written in full: `2025-03-01`, "3 March 2025".
    pub const EXACT: Self = Self(1.0);
    /// Follows from the moment of writing alone: "yesterday", "last week".
    pub const CLEAR: Self = Self(0.9);
    /// The tense of the clause decides, or a convention that most writers share.
    pub const LIKELY: Self = Self(0.75);
    /// Meant roughly: "a few days ago".
    pub const ROUGH: Self = Self(0.6);
    /// Two readings are about as likely.
    pub const AMBIGUOUS: Self = Self(0.4);
    /// Nothing is known.
    pub const NONE: Self = Self(0.0);

    /// Returns the value, 0 to 1.
    #[must_use]
    pub const fn value(self) -> f32 {
        self.0
    }

    fn min(self, other: Self) -> Self {
        if other.0 < self.0 { other } else { self }
    }
}

/// How finely a time was named; coarser units compare greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "units of the calendar")]
pub enum Grain {
    Second,
    Minute,
    Hour,
    /// Morning, afternoon, evening, night.
    PartOfDay,
    Day,
    Weekend,
    Week,
    Month,
    Quarter,
    Year,
    Decade,
}

/// How the text ties itself to the named time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// In, on or at it.
    Within,
    /// From its start on, and still so when it was written ("since March").
    Since,
    /// Up to its end ("until Friday").
    Until,
    /// Not later than its end ("by Friday").
    By,
    /// Before its start.
    Before,
    /// After its end.
    After,
}

/// A stretch of time: instants, and what the clocks of the zone show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TimeInterval {
    /// First instant within.
    #[serde(serialize_with = "as_text")]
    pub start: Instant,
    /// First instant behind.
    #[serde(serialize_with = "as_text")]
    pub end: Instant,
    /// Local date and time of `start` as it was named, also where clocks skip it.
    pub civil_start: DateTime,
    /// Local date and time of `end`.
    pub civil_end: DateTime,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn as_text<S: Serializer>(instant: &Instant, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(instant)
}

/// A time that a text names.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimeReference {
    /// Bytes of the text that name it, without "since", "by" and the like.
    pub span: Range<usize>,
    /// What it comes to. For [`Relation`]s other than `Within` this is the named time itself.
    pub interval: TimeInterval,
    /// How finely it was named; "three weeks ago" is the interval of a day and of the grain week.
    pub grain: Grain,
    /// How the text ties itself to the named time.
    pub relation: Relation,
    /// How sure the resolution is.
    pub confidence: Confidence,
    /// Why it is not surer.
    pub note: Option<String>,
}

/// Finds the times that an English text names, in the text's order, without overlaps.
///
/// Relative times count from `created_at` in `zone`; see the module for the conventions. Linear in
/// the text's length. An instant outside jiff's range finds nothing.
///
/// # Examples
///
/// ```
/// use jiff::tz::TimeZone;
/// use memfold_lifecycle::temporal::resolve;
/// use memfold_model::time::Instant;
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
