//! How near pairs are found.

use memfold_index::{GraphJoin, JoinIndex};
use memfold_simd::Similarity;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hash::similarity;

/// How near pairs are found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DetectPolicy {
    /// `auto`, `exact` or `graph`.
    pub method: JoinMethod,
    /// The index of `graph`. Left out of the configuration's hash where it is the default, as it was before there was a
    /// choice.
    #[serde(skip_serializing_if = "GraphIndex::is_default")]
    pub index: GraphIndex,
    /// The share of pairs that `graph` should find, from 0 to 1. Changes no plan, only what is said.
    #[serde(skip)]
    pub recall_target: f64,
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

/// The index that near pairs are searched by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GraphIndex {
    /// The graph of memfold.
    #[default]
    Memfold,
    /// The crate `hnsw_rs`, to compare with; built on one thread.
    HnswRs,
}

impl GraphIndex {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the configuration's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memfold => "memfold",
            Self::HnswRs => "hnsw_rs",
        }
    }

    /// Returns how vectors are joined by it.
    #[must_use]
    pub fn join(self) -> GraphJoin {
        let by = GraphJoin::default();
        match self {
            Self::Memfold => by,
            Self::HnswRs => GraphJoin { index: JoinIndex::HnswRs, ..by },
        }
    }
}

impl DetectPolicy {
    /// Returns how vectors are joined by a graph; `None`: exactly.
    #[must_use]
    pub fn graph_join(&self) -> Option<GraphJoin> {
        (self.method == JoinMethod::Graph).then(|| self.index.join())
    }
}
