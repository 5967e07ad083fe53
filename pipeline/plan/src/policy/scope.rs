//! Which live memories take part, and how many contradictions are flagged.

use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hash::instant;
use memfold_model::time::Instant;

/// Which live memories take part.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Scope {
    /// Any of these categories; empty: all.
    pub categories: Vec<String>,
    /// Created at or after.
    #[serde(serialize_with = "instant")]
    pub since: Option<Instant>,
    /// Created before.
    #[serde(serialize_with = "instant")]
    pub until: Option<Instant>,
    /// Root sources starting with any of these; empty: all.
    pub sources: Vec<String>,
    /// Only the newest so many, archived ones counted.
    pub newest: Option<NonZeroUsize>,
}

/// Caps on contradiction flags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FlagPolicy {
    /// Flags that wait for a person at once.
    pub max_per_run: usize,
    /// Flags that wait per memory.
    pub max_per_memory: usize,
    /// Where flags are written.
    pub write_to: FlagTarget,
}

/// Where flags are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlagTarget {
    /// Into `memfold_flags` only.
    Table,
    /// Also as rows of `stm`, as the owner's own consolidator does: its agent reads them as memories.
    Stm,
}
