//! How a memory is judged when it is saved.

use std::time::Duration;

use memfold_simd::Similarity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a memory is judged when it is saved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuickCheckPolicy {
    /// A mergeable match at or above this similarity is replaced.
    pub auto_dedup_threshold: Similarity,
    /// A match at or above this similarity is flagged.
    pub flag_threshold: Similarity,
    /// Among which memories a match is looked for.
    pub scope: CheckScope,
    /// How long a check may take.
    pub time_limit: Duration,
}

/// Among which memories a match is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckScope {
    /// All.
    All,
    /// Those with one of the new memory's categories, or without any where it has none.
    Category,
    /// Those of the same root source.
    Source,
}
