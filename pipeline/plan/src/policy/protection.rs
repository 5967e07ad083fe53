//! What is never changed or absorbed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is never changed or absorbed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProtectionPolicy {
    /// Whether anything is protected.
    pub enabled: bool,
    /// Protecting categories and tags (compared case-insensitively).
    pub categories: Vec<String>,
    /// Ids that are never touched (`strict`: the reserved ids of other memory systems).
    pub ids: Vec<String>,
    /// Protecting root-source prefixes (`manual`, `user`).
    pub sources: Vec<String>,
    /// Importance from which a row is protected.
    pub importance_min: f64,
    /// Younger rows are protected, in hours.
    pub min_age_hours: f64,
    /// Access count from which a row is protected (`strict`), if any.
    pub access_count_min: Option<i64>,
}

/// How much is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// What a person marked, wrote or decided, what is critical, and the last day's work.
    Default,
    /// That, the last 7 days, what is read often, and whatever other memory systems mark as core,
    /// critical or a decision.
    Strict,
}
