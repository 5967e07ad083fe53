//! The section `lifecycle`: how retention and tiers are computed, and when a run is due.

use memfold_lifecycle::{
    ACTIVATION_CAP, ACTIVATION_WEIGHT, ARCHIVE_BELOW, CATEGORY_IMPORTANCE, DuePolicy,
    HALF_LIFE_DAYS, HOT_MIN, IDLE_MINUTES, IMPORTANCE_WEIGHT, INTERVAL_HOURS, NEW_MEMORIES_MIN,
    PINNED_IMPORTANCE_MIN, RECENCY_WEIGHT, RetentionPolicy, RetentionPolicyError,
    SUPERSEDED_FACTOR, UNINDEXED_MAX, WARM_MIN,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::{Node, Source};
use super::error::ConfigError;
use super::validate::{not_above, place};
use crate::policy::LifecycleSettings;

/// How retention and tiers are computed, and when a run is due; docs/lifecycle.md has the formula.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LifecycleConfig {
    /// Days in which recency halves, at most 100,000.
    #[schemars(range(max = 100_000.0), extend("exclusiveMinimum" = 0.0))]
    pub half_life_days: f64,
    /// How much each part of retention weighs.
    pub weights: RetentionWeightsConfig,
    /// Reads from which on activation is 1.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub activation_cap: u32,
    /// The factor of a superseded memory, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub superseded_factor: f64,
    /// Retention from which on a memory is HOT, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub hot_min: f64,
    /// Retention from which on a memory is WARM, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub warm_min: f64,
    /// Retention below which a memory is ARCHIVED, from 0 to 1; 0: none is.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub archive_below: f64,
    /// Importance from which on a memory counts as pinned: it is never below WARM.
    #[schemars(range(min = 0.0))]
    pub pinned_importance_min: f64,
    /// Importance by category, case and a plural `s` aside. Other memories count by their own importance.
    pub category_importance: Vec<CategoryImportanceConfig>,
    /// When a run is due.
    pub due: DueConfig,
}

/// How much each part of retention weighs. The three add up to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionWeightsConfig {
    /// The time since creation or last access, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub recency: f64,
    /// The reads, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub activation: f64,
    /// The category, or the importance of the row, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub importance: f64,
}

/// The importance of a category.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CategoryImportanceConfig {
    /// The category.
    pub category: String,
    /// How important its memories are, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub importance: f64,
}

/// When `memfold status --exit-code` says that a run is due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DueConfig {
    /// From this many new memories on.
    #[schemars(range(min = 1))]
    pub new_memories_min: u64,
    /// So many hours after the last run.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub interval_hours: u32,
    /// With more memories outside of the index than this.
    pub unindexed_max: u64,
    /// After so many minutes without a new memory, where one is new.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub idle_minutes: u32,
}

// The built-in values are those of memfold-lifecycle, with their reasons.
impl Default for LifecycleConfig {
    fn default() -> Self {
        let table = CATEGORY_IMPORTANCE.iter().map(|(category, importance)| {
            CategoryImportanceConfig { category: (*category).to_owned(), importance: *importance }
        });
        Self {
            half_life_days: HALF_LIFE_DAYS,
            weights: RetentionWeightsConfig::default(),
            activation_cap: ACTIVATION_CAP,
            superseded_factor: SUPERSEDED_FACTOR,
            hot_min: HOT_MIN,
            warm_min: WARM_MIN,
            archive_below: ARCHIVE_BELOW,
            pinned_importance_min: PINNED_IMPORTANCE_MIN,
            category_importance: table.collect(),
            due: DueConfig::default(),
        }
    }
}

impl Default for RetentionWeightsConfig {
    fn default() -> Self {
        Self {
            recency: RECENCY_WEIGHT,
            activation: ACTIVATION_WEIGHT,
            importance: IMPORTANCE_WEIGHT,
        }
    }
}

impl Default for DueConfig {
    fn default() -> Self {
        Self {
            new_memories_min: NEW_MEMORIES_MIN,
            interval_hours: INTERVAL_HOURS,
            unindexed_max: UNINDEXED_MAX,
            idle_minutes: IDLE_MINUTES,
        }
    }
}

/// Makes the settings of the section.
pub(super) fn lifecycle(
    merged: &Node,
    config: &LifecycleConfig,
) -> Result<LifecycleSettings, ConfigError> {
    let (archive_below, warm_min, hot_min) =
        (config.archive_below, config.warm_min, config.hot_min);
    let bounds = [
        ("lifecycle.archive_below", Some(archive_below)),
        ("lifecycle.warm_min", Some(warm_min)),
        ("lifecycle.hot_min", Some(hot_min)),
    ];
    not_above(merged, bounds[0], bounds[1])?;
    not_above(merged, bounds[1], bounds[2])?;
    let table = &config.category_importance;
    let retention = RetentionPolicy {
        half_life_days: config.half_life_days,
        recency_weight: config.weights.recency,
        activation_weight: config.weights.activation,
        importance_weight: config.weights.importance,
        activation_cap: config.activation_cap,
        superseded_factor: config.superseded_factor,
        hot_min,
        warm_min,
        archive_below,
        pinned_importance_min: config.pinned_importance_min,
        category_importance: table.iter().map(|at| (at.category.clone(), at.importance)).collect(),
    };
    let retention = retention.validated().map_err(|error| unusable(merged, &error))?;
    let due = DuePolicy {
        new_memories_min: config.due.new_memories_min,
        interval_hours: config.due.interval_hours,
        unindexed_max: config.due.unindexed_max,
        idle_minutes: config.due.idle_minutes,
    };
    Ok(LifecycleSettings { retention, due })
}

/// What the schema cannot say of retention: that the weights add up to 1.
fn unusable(merged: &Node, error: &RetentionPolicyError) -> ConfigError {
    let (key, advice) = match error {
        RetentionPolicyError::Weights { .. } => {
            ("lifecycle.weights", Some("set all three: recency, activation and importance"))
        }
        _ => ("lifecycle", None),
    };
    let found = match error {
        // Sums of decimals have a tail.
        RetentionPolicyError::Weights { found } => format!("a sum of {found:.6}"),
        other => other.to_string(),
    };
    ConfigError::WrongValue {
        key: key.into(),
        place: lifecycle_place(merged),
        expected: "weights that add up to 1".into(),
        found: found.into(),
        advice: advice.map(Into::into),
    }
}

/// The layer that set one of the weights.
fn lifecycle_place(merged: &Node) -> Source {
    let keys = ["recency", "activation", "importance"];
    let places = keys.map(|key| place(merged, &format!("lifecycle.weights.{key}")));
    places.into_iter().find(|place| *place != Source::BuiltIn).unwrap_or(Source::BuiltIn)
}
