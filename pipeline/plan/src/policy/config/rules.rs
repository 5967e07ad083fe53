//! Rules as people write them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::keys::texts;
use crate::policy::rule::{ARCHIVE, CONTRADICTION, EXACT_DUPLICATE, NEAR_DUPLICATE, PROMOTE};
use crate::policy::{Absorbed, Canonical, Trigger, defaults};

/// A rule: when it fires and what it does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleConfig {
    /// Its name, unique: letters, digits, `-` and `_`.
    pub id: String,
    /// Whether it counts.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// What runs it.
    pub trigger: Trigger,
    /// Conditions; all must hold.
    #[serde(default)]
    pub when: WhenConfig,
    /// What it does.
    pub then: ThenConfig,
}

/// Conditions of a rule; all must hold, and null is none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WhenConfig {
    /// The cluster's smallest pairwise similarity is at least this, from -1 to 1; with `detect.exact_text`, or all members
    /// have the same text.
    #[schemars(range(min = -1.0, max = 1.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_similarity: Option<f64>,
    /// Only texts that the guard proves to say the same; where one says more, the rule does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proven_same: Option<bool>,
    /// The cluster has at least so many members.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_cluster_size: Option<usize>,
    /// At least so old, in days. A time that cannot be read fires no age rule.
    #[schemars(range(min = 0.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_age_days: Option<f64>,
    /// Read at least so often.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_access_count: Option<i64>,
    /// Read at most so often.
    #[schemars(range(min = 0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_access_count: Option<i64>,
    /// Importance is at least this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_importance: Option<f64>,
    /// Importance is at most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_importance: Option<f64>,
    /// Has any of these categories; empty: no condition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories_any: Vec<String>,
    /// Has none of these categories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories_none: Vec<String>,
    /// Has all of these categories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories_all: Vec<String>,
    /// Jaccard index of the categories to the survivor's is at least this, from 0 to 1. Attributes (`type:…`, `scope:…`)
    /// are left out.
    #[schemars(range(min = 0.0, max = 1.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag_overlap_min: Option<f64>,
    /// Not read for so many days, at least; what was never read counts from its creation.
    #[schemars(range(min = 0.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_idle_days: Option<f64>,
    /// All members have the same value of each of these attributes, or none has one: `[type, subtype, scope]` compares
    /// the categories `type:…`, `subtype:…` and `scope:…`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same: Vec<String>,
}

/// What a rule does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThenConfig {
    /// The action.
    pub action: Action,
    /// Settings of the action.
    #[serde(default, skip_serializing_if = "ParamsConfig::is_empty")]
    pub params: ParamsConfig,
}

/// The action of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Folds a cluster.
    Merge,
    /// Raises importance by 0.5, to 3.0 at most.
    Promote,
    /// Archives a memory.
    Archive,
    /// Puts a shorter text made of its own sentences in the place of one of more than 5,000 characters, which is archived.
    Summarize,
    /// Copies an agent's memory to its team, and a team's to everybody, once.
    PromoteScope,
    /// Flags a contradictory pair.
    FlagContradiction,
    /// Leaves alone, with this rule as the reason.
    Noop,
}

/// Settings of a rule's action.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ParamsConfig {
    /// `merge`: who survives; null: the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical: Option<Canonical>,
    /// `merge`: what happens to the others; null: as `merge.absorbed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absorbed: Option<Absorbed>,
}

impl Action {
    /// Returns the name as written.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Merge => "merge",
            Self::Promote => "promote",
            Self::Archive => "archive",
            Self::Summarize => "summarize",
            Self::PromoteScope => "promote_scope",
            Self::FlagContradiction => "flag_contradiction",
            Self::Noop => "noop",
        }
    }
}

impl ParamsConfig {
    /// Returns whether nothing is set.
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns the built-in rules, in order.
pub(super) fn builtin_rules() -> Vec<RuleConfig> {
    let merging = |min_similarity| WhenConfig {
        min_similarity: Some(min_similarity),
        min_cluster_size: Some(defaults::MERGE_CLUSTER_SIZE_MIN),
        ..WhenConfig::default()
    };
    let exact = WhenConfig {
        proven_same: Some(defaults::PROVEN_SAME),
        ..merging(defaults::EXACT_DUPLICATE_SIMILARITY)
    };
    let near = merging(defaults::NEAR_DUPLICATE_SIMILARITY);
    let promoting = WhenConfig {
        min_access_count: Some(defaults::PROMOTE_ACCESS_COUNT_MIN),
        min_importance: Some(defaults::PROMOTE_IMPORTANCE_MIN),
        categories_any: texts(&defaults::PROMOTE_CATEGORIES),
        ..WhenConfig::default()
    };
    let archiving = WhenConfig {
        min_age_days: Some(defaults::ARCHIVE_AGE_DAYS),
        max_access_count: Some(defaults::ARCHIVE_ACCESS_COUNT_MAX),
        max_importance: Some(defaults::ARCHIVE_IMPORTANCE_MAX),
        ..WhenConfig::default()
    };
    let mut archive = rule(ARCHIVE, Trigger::Weekly, archiving, Action::Archive);
    archive.enabled = defaults::ARCHIVE_ENABLED;
    let promote = rule(PROMOTE, Trigger::Weekly, promoting, Action::Promote);
    vec![
        rule(EXACT_DUPLICATE, Trigger::OnSimilarity, exact, Action::Merge),
        rule(NEAR_DUPLICATE, Trigger::OnSimilarity, near, Action::Merge),
        promote,
        archive,
        rule(
            CONTRADICTION,
            Trigger::OnContradiction,
            WhenConfig::default(),
            Action::FlagContradiction,
        ),
    ]
}

fn rule(id: &str, trigger: Trigger, when: WhenConfig, action: Action) -> RuleConfig {
    let then = ThenConfig { action, params: ParamsConfig::default() };
    RuleConfig { id: id.into(), enabled: true, trigger, when, then }
}

const fn yes() -> bool {
    true
}
