//! How near pairs are found.

use memfold_simd::Similarity;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hash::similarity;

/// How near pairs are found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DetectPolicy {
    /// `auto`, `exact` or `graph`.
    pub method: JoinMethod,
    /// Whether equal strict keys link rows without looking at vectors.
    pub exact_text: bool,
    /// Contradictions are looked for at or above this similarity.
    #[serde(serialize_with = "similarity")]
    pub contradiction_similarity: Similarity,
    /// Pairs scoring at least this are flagged, in (0, 1].
    pub contradiction_threshold: f64,
    /// Distinct pairs that may be found; `None`: 64 × distinct rows.
    pub pair_budget: Option<u64>,
    /// One vector under this many different texts, or more, is an embedder's fault.
    pub shared_vector_texts_max: usize,
}

/// How near pairs are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JoinMethod {
    /// Exact as far as it is fastest.
    Auto,
    /// The exact join.
    Exact,
    /// The graph, with measured recall.
    Graph,
}
