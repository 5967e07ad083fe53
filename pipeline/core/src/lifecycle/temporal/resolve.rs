//! [`resolve`]: from a text to the times it names, each a [`TimeReference`].

use std::ops::Range;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use serde::{Serialize, Serializer};

use super::calendar::When;
use super::reader::{At, Text};
use super::tokens;
use crate::time::{Instant, in_zone};

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
    let now = timestamp.to_zoned(zone.clone());
    let tokens = tokens::tokens(text);
    let mut read = Text { written: text, tokens: &tokens, today: now.date(), now, previous: None };
    let mut found = Vec::new();
    let mut index = 0;
    while index < tokens.len() {
        let at = At { text: &read, index };
        let Some((end, when)) = at.reference() else {
            index += 1;
            continue;
        };
        let span = tokens[index].span.start..tokens[end.index - 1].span.end;
        index = end.index;
        let (start, relation) = (when.start, at.relation());
        found.push(finish(when, span, relation, zone));
        read.previous = Some(start);
    }
    found
}

/// Turns local times into instants, and notes times that the clocks skip or show twice.
fn finish(when: When, span: Range<usize>, relation: Relation, zone: &TimeZone) -> TimeReference {
    let clocks = zone.to_ambiguous_timestamp(when.start).offset();
    let problem = match clocks {
        _ if when.exact.is_some() || when.grain >= Grain::PartOfDay => None,
        AmbiguousOffset::Unambiguous { .. } => None,
        AmbiguousOffset::Gap { .. } => Some("the clocks skip this time that day"),
        AmbiguousOffset::Fold { .. } => {
            Some("the clocks show this time twice that day; the first is taken")
        }
    };
    let when = problem.map_or(when.clone(), |note| when.doubt(Confidence::AMBIGUOUS, note));
    let When { start, end, grain, confidence, note, exact, .. } = when;
    let (first, last) = match exact {
        Some((first, last)) => (Instant::from(first), Instant::from(last)),
        None => (in_zone(start, zone), in_zone(end, zone)),
    };
    let interval =
        TimeInterval { start: first, end: last.max(first), civil_start: start, civil_end: end };
    TimeReference { span, interval, grain, relation, confidence, note }
}

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

    pub(super) fn min(self, other: Self) -> Self {
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

/// A stretch of time: instants, and the times on the clocks of the zone.
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
    /// The resolved span. For [`Relation`]s other than `Within` this is the named time itself.
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
