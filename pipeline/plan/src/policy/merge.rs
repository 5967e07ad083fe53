//! How merges are made.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How merges are made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MergePolicy {
    /// Who survives.
    pub canonical: Canonical,
    /// What happens to the others.
    pub absorbed: Absorbed,
    /// What becomes of the categories.
    pub categories: CategoryMerge,
    /// Importance never rises above this by a merge or promotion.
    pub importance_cap: f64,
}

/// Who survives a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Canonical {
    /// The newest with a valid, fresh embedding.
    Newest,
    /// The one with most specifics and words; newest among equals.
    MostInformative,
}

/// What happens to absorbed memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Absorbed {
    /// They stay in the table, marked and no longer found by full-text search.
    Archive,
    /// They move to `memfold_archive` with embedding and search entry; where a foreign key or a trigger of the owner
    /// would change other tables along with them, they are archived.
    Move,
}

/// What becomes of categories in a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CategoryMerge {
    /// The survivor's, then new ones in cluster order.
    Union,
    /// The survivor's only.
    Survivor,
}
