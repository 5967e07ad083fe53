//! How pairs become clusters.

use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How pairs become clusters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterPolicy {
    /// The linkage.
    pub linkage: Linkage,
    /// The largest cluster.
    pub max_cluster_size: Option<NonZeroUsize>,
    /// Category patterns (`private`, `user:*`): rows that differ in these never fold together.
    pub separate_by: Vec<String>,
    /// The largest connected component for the hierarchical linkages.
    pub max_component_rows: usize,
}

/// How units are linked into clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Linkage {
    /// Newest first; a unit joins the first cluster whose every member it is linked to.
    GreedyComplete,
    /// Agglomerative, largest distance.
    Complete,
    /// Agglomerative, mean distance.
    Average,
    /// Agglomerative, smallest distance.
    Single,
}
