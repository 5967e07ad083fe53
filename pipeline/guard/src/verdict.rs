//! The verdict interface: what the guard says of two texts, and why.

use std::ops::Range;

/// What two texts are to each other, from safe to unsafe to merge.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// They say the same.
    Compatible,
    /// One says what the other lacks, without conflict.
    Complementary,
    /// They speak of different things or events.
    Different,
    /// They say opposite things of the same.
    Contradictory,
}

impl Verdict {
    /// Returns the name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Compatible => "compatible",
            Self::Complementary => "complementary",
            Self::Different => "different",
            Self::Contradictory => "contradictory",
        }
    }

    /// Tells whether texts of this verdict may be linked.
    #[must_use]
    pub const fn links(self) -> bool {
        matches!(self, Self::Compatible | Self::Complementary)
    }
}

/// What kind of thing differs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DifferenceKind {
    /// A number, with its unit.
    Number,
    /// A calendar date.
    Date,
    /// A time of day.
    Time,
    /// A version.
    Version,
    /// An id, hash, `#n`, port or other enumerator.
    Identifier,
    /// A URL, e-mail address or path.
    Locator,
    /// A code identifier.
    Code,
    /// A quoted string.
    Quote,
    /// A name.
    Name,
    /// An amount of money.
    Currency,
    /// One is negated.
    Negation,
    /// A modal flips (must / must not, always / never).
    Modality,
    /// Two words with opposite meaning.
    Antonym,
    /// Two members of a class that exclude each other.
    Exclusive,
    /// The same names or numbers in other places.
    Role,
    /// A word on each side that is not known to mean the same.
    UnknownWord,
}

/// One difference, with the bytes of each text that show it (`None`: nothing there).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Difference {
    /// What kind.
    pub kind: DifferenceKind,
    /// Byte range in the first text.
    pub left: Option<Range<usize>>,
    /// Byte range in the second text.
    pub right: Option<Range<usize>>,
    /// What stands there in the first text.
    pub left_text: String,
    /// What stands there in the second text.
    pub right_text: String,
}

/// A typed sign of contradiction and its weight in the score.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Signal {
    /// What kind of difference gave the sign.
    pub kind: DifferenceKind,
    /// Its share of the score, in (0, 1].
    pub weight: f64,
}

/// What the guard says of two texts.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// How contradictory, in \[0, 1\].
    pub contradiction_score: f64,
    /// The signs of contradiction, heaviest first.
    pub signals: Vec<Signal>,
    /// All differences, in the order of the first text.
    pub differences: Vec<Difference>,
}

/// Whether a survivor's text carries everything that a row's text says.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Absorption {
    /// Whether the row may be folded into the survivor.
    pub absorbable: bool,
    /// Specifics of the row (numbers, dates, names …) that the survivor lacks.
    pub lacking_specifics: Vec<String>,
    /// Content words of the row that the survivor lacks.
    pub lacking_words: Vec<String>,
    /// Share of the row's content words that the survivor lacks, in \[0, 1\].
    pub lacking_share: f64,
    /// Shingle containment of the row's full text in the survivor's, where either is longer than the embedder's window.
    pub containment: Option<f64>,
}
