//! [`Summary`]: the statements of several memories, with the memory that each statement rests on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::memory::{MemoryId, named};

/// A summary beside its text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The category that most of its sources have.
    pub topic: String,
    /// When its oldest source was created, RFC 3339; empty where no time is readable.
    pub start: String,
    /// When its newest source was created.
    pub end: String,
    /// Facts, each with the memories that state it.
    pub key_facts: Vec<KeyFact>,
    /// Decisions that its sources state.
    pub decisions: Vec<SummarizedDecision>,
    /// Facts that newer ones took the place of.
    pub superseded_facts: Vec<SupersededFact>,
    /// How good the model thinks it is.
    pub confidence: SummaryConfidence,
    /// sha256 of the ids and texts of its sources: another one means that it is out of date.
    pub members_hash: String,
    /// Earlier summaries of the same memories, which it takes the place of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaces: Vec<MemoryId>,
}

/// A fact and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyFact {
    /// The fact.
    pub fact: String,
    /// The memories that state it.
    pub source_ids: Vec<MemoryId>,
}

/// A decision with its reason and result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SummarizedDecision {
    /// What was decided.
    pub decision: String,
    /// Why; empty where no source says it.
    pub rationale: String,
    /// What came of it; empty where no source says it.
    pub outcome: String,
    /// How sure: high, medium or low.
    pub confidence: Confidence,
}

/// A fact that no longer holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SupersededFact {
    /// What held.
    pub original_fact: String,
    /// What holds in its place.
    pub superseded_by: String,
    /// The memory that states what held.
    pub source_memory_id: MemoryId,
}

named! {
    /// How sure a model is.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Confidence {
        /// Not very.
        Low = "low",
        /// Fairly.
        Medium = "medium",
        /// Quite.
        High = "high",
    }
}

/// How good a summary is, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SummaryConfidence {
    /// The weighted mean of the others: 0.25, 0.30, 0.20, 0.15 and 0.10 in their order.
    pub overall: f64,
    /// To what the agent does.
    pub relevance: f64,
    /// Whether it helps to act.
    pub actionability: f64,
    /// Whether it says what is not plain.
    pub novelty: f64,
    /// Whether it is exact.
    pub specificity: f64,
    /// Whether it hangs together.
    pub coherence: f64,
}

impl SummaryConfidence {
    /// Weighs five values, in the order of the fields; a value outside 0 to 1 is clamped, NaN counts as 0.
    #[must_use]
    pub fn weigh(parts: [f64; 5]) -> Self {
        const WEIGHTS: [f64; 5] = [0.25, 0.30, 0.20, 0.15, 0.10];
        let parts = parts.map(|part| if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) });
        let overall: f64 = parts.iter().zip(WEIGHTS).map(|(part, weight)| part * weight).sum();
        let [relevance, actionability, novelty, specificity, coherence] = parts;
        let overall = overall.min(1.0);
        Self { overall, relevance, actionability, novelty, specificity, coherence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidences_are_weighed_and_clamped() {
        let found = SummaryConfidence::weigh([1.0, 0.5, 0.0, 2.0, f64::NAN]);
        assert!((found.overall - (0.25 + 0.15 + 0.15)).abs() < 1e-12, "{found:?}");
        assert_eq!((found.specificity, found.coherence), (1.0, 0.0));
        assert!((SummaryConfidence::weigh([1.0; 5]).overall - 1.0).abs() < 1e-12);
    }
}
