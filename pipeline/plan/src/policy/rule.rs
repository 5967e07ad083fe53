//! Rules: when they fire and what they do.

use memfold_model::time::Instant;
use memfold_simd::Similarity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use super::sections::{Absorbed, Canonical};

/// Merges what is equal but for spelling.
pub(crate) const EXACT_DUPLICATE: &str = "R1-exact-duplicate-merge";
/// Merges what says the same; `threshold` sets its `min_similarity`.
pub(crate) const NEAR_DUPLICATE: &str = "R2-near-duplicate-merge";
/// Raises procedures that proved their worth.
pub(crate) const PROMOTE: &str = "R3-promote-high-value-procedural";
/// Archives what nobody reads.
pub const ARCHIVE: &str = "R4-archive-low-utility";
/// Flags contradictions.
pub const CONTRADICTION: &str = "R5-flag-contradiction";

/// A rule: when it fires and what it does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rule {
    /// Its id, unique.
    pub id: String,
    /// What runs it.
    pub trigger: Trigger,
    /// Conditions; all must hold.
    pub when: Conditions,
    /// What it does.
    pub then: RuleAction,
}

/// What runs a rule.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Every day.
    Daily,
    /// Every week.
    Weekly,
    /// When a session ends.
    SessionEnd,
    /// When an index overflows.
    IndexOverflow,
    /// By hand.
    Manual,
    /// On similar memories, in every run.
    OnSimilarity,
    /// On contradictory memories, in every run.
    OnContradiction,
}

/// Conditions of a rule; `None` or empty: no condition.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Conditions {
    /// Smallest pairwise similarity of the cluster, at least.
    #[serde(serialize_with = "optional_similarity")]
    pub min_similarity: Option<Similarity>,
    /// Only texts that the guard proves to say the same; where one says more the rule does not hold.
    pub proven_same: bool,
    /// Members, at least.
    pub min_cluster_size: Option<usize>,
    /// Age in days, at least.
    pub min_age_days: Option<f64>,
    /// Access count, at least.
    pub min_access_count: Option<i64>,
    /// Access count, at most.
    pub max_access_count: Option<i64>,
    /// Importance, at least.
    pub min_importance: Option<f64>,
    /// Importance, at most.
    pub max_importance: Option<f64>,
    /// Has any of these categories.
    pub categories_any: Vec<String>,
    /// Has none of these categories.
    pub categories_none: Vec<String>,
    /// Has all of these categories.
    pub categories_all: Vec<String>,
    /// Jaccard of categories to the survivor, attributes left out, at least.
    pub tag_overlap_min: Option<f64>,
    // What follows is left out of the configuration's hash where it is not set, as it was before it existed.
    /// Not read for so many days, at least; what was never read counts from its creation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_idle_days: Option<f64>,
    /// All members have the same value of each of these attributes, or none has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same: Vec<String>,
}

/// What a rule does.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum RuleAction {
    /// Fold a cluster. Overrides of the merge policy where given.
    Merge {
        /// Who survives.
        canonical: Option<Canonical>,
        /// What happens to the others.
        absorbed: Option<Absorbed>,
    },
    /// Raise importance.
    Promote,
    /// Archive a memory.
    Archive,
    /// Put a shorter text made of its own sentences in the place of a long one.
    Summarize,
    /// Copy a memory to a wider scope, once.
    PromoteScope,
    /// Flag a contradictory pair.
    FlagContradiction,
    /// Leave alone, with this rule as the reason.
    Noop,
}

impl Trigger {
    /// Returns the name as written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Daily => "daily",
            Self::Weekly => "weekly",
            Self::SessionEnd => "session_end",
            Self::IndexOverflow => "index_overflow",
            Self::Manual => "manual",
            Self::OnSimilarity => "on_similarity",
            Self::OnContradiction => "on_contradiction",
        }
    }

    /// Returns whether rules of this trigger run in every run.
    #[must_use]
    pub(crate) const fn is_always(self) -> bool {
        matches!(self, Self::OnSimilarity | Self::OnContradiction)
    }
}

/// Serializes a similarity as its number.
pub(super) fn similarity<S: Serializer>(value: &Similarity, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(value.get())
}

/// Serializes a similarity as its number, or null.
pub(super) fn optional_similarity<S: Serializer>(
    value: &Option<Similarity>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => to.serialize_some(&value.get()),
        None => to.serialize_none(),
    }
}

/// Serializes an instant as its microseconds, or null.
pub(super) fn instant<S: Serializer>(value: &Option<Instant>, to: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(Instant(microseconds)) => to.serialize_some(microseconds),
        None => to.serialize_none(),
    }
}
