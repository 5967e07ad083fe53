//! [`TimeReference`]: a time that a text names.

use std::ops::Range;

use crate::time::Instant;
use jiff::civil::DateTime;
use serde::{Serialize, Serializer};

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
