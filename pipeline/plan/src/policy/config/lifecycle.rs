//! The section `lifecycle`: how retention and tiers are computed, and when a run is due.

use memfold_lifecycle::{
    ARCHIVE_BELOW, DuePolicy, HALF_LIFE_DAYS, NEW_MEMORIES_MIN, RetentionPolicy, WARM_MIN,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::Node;
use super::error::ConfigError;
use super::validate::not_above;
use crate::policy::LifecycleSettings;

/// How retention and tiers are computed, and when a run is due; docs/lifecycle.md has the formula.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LifecycleConfig {
    /// Days in which recency halves, at most 100,000.
    #[schemars(range(max = 100_000.0), extend("exclusiveMinimum" = 0.0))]
    pub half_life_days: f64,
    /// Retention below which a memory is ARCHIVED, from 0 to 1; 0: none is.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub archive_below: f64,
    /// When a run is due.
    pub due: DueConfig,
}

/// When `memfold status --exit-code` says that a run is due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DueConfig {
    /// From this many new memories on.
    #[schemars(range(min = 1))]
    pub new_memories_min: u64,
}

// The built-in values are those of memfold-lifecycle, with their reasons.
impl Default for LifecycleConfig {
    fn default() -> Self {
        Self {
            half_life_days: HALF_LIFE_DAYS,
            archive_below: ARCHIVE_BELOW,
            due: DueConfig::default(),
        }
    }
}

impl Default for DueConfig {
    fn default() -> Self {
        Self { new_memories_min: NEW_MEMORIES_MIN }
    }
}

/// Makes the settings of the section.
pub(super) fn lifecycle(
    merged: &Node,
    config: &LifecycleConfig,
) -> Result<LifecycleSettings, ConfigError> {
    not_above(
        merged,
        "lifecycle.archive_below",
        Some(config.archive_below),
        "the retention of WARM",
        Some(WARM_MIN),
    )?;
    let retention = RetentionPolicy {
        half_life_days: config.half_life_days,
        archive_below: config.archive_below,
        ..RetentionPolicy::default()
    };
    let retention = retention.validated().expect("the schema and the bounds were checked");
    let due = DuePolicy { new_memories_min: config.due.new_memories_min, ..DuePolicy::default() };
    Ok(LifecycleSettings { retention, due })
}
