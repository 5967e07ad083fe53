//! The committed sample: memories written for this project, with their real vectors.
//!
//! `datasets/sample/README.md` lists the cases planted in them.

use crate::npy;

const MEMORIES: &str = include_str!("../sample/memories.jsonl");
const VECTORS: &[u8] = include_bytes!("../sample/vectors.npy");

/// The time that the sample is made for: rules about age fit it as its README says.
pub const NOW: &str = "2026-06-30T12:00:00Z";

/// The model of the vectors.
pub const MODEL: &str = "all-MiniLM-L6-v2";

/// The sample.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The memories, oldest first.
    pub memories: Vec<SampleMemory>,
    /// Components of each vector.
    pub dim: usize,
    vectors: Vec<f32>,
}

/// One memory of the sample.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleMemory {
    /// The id, `stm_` and 12 hex digits.
    pub id: Box<str>,
    /// The text.
    pub content: Box<str>,
    /// Categories.
    pub categories: Vec<Box<str>>,
    /// Importance, 0.5 to 3.
    pub importance: f64,
    /// How often it was read.
    pub access_count: i64,
    /// When it was made, in one of a real store's spellings; naive times are UTC.
    pub created_at: Box<str>,
    /// When it was changed.
    pub updated_at: Option<Box<str>>,
    /// When it stops to count.
    pub expires_at: Option<Box<str>>,
    /// Where it came from.
    pub source: Box<str>,
    /// Whether it has a vector of its present wording.
    pub embedding: SampleEmbedding,
    /// The older wording that a stale vector belongs to.
    #[serde(default)]
    pub embedded_text: Option<Box<str>>,
    /// The planted group.
    pub group: Option<Box<str>>,
    /// The purpose of the row.
    pub kind: SampleKind,
    /// Its special feature.
    #[serde(default)]
    pub note: Option<Box<str>>,
}

/// Whether a memory of the sample has a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleEmbedding {
    /// A vector of the present wording.
    Ok,
    /// No vector.
    Missing,
    /// A vector of an older wording.
    Stale,
}

/// The purpose of a memory in the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleKind {
    /// The same text again.
    Exact,
    /// The same fact in other words; the newest has every specific.
    Paraphrase,
    /// An older text holds a fact that the newest lacks.
    RicherOlder,
    /// One attribute, two values; or opposite polarity.
    Contradiction,
    /// Looks alike and is another fact.
    Different,
    /// Protected by category, importance, source or age.
    Protected,
    /// Old, never read, unimportant.
    Stale,
    /// A rule that is read often.
    Promote,
    /// Archived before.
    Archived,
    /// Expired.
    Expired,
    /// Nothing like it in the store.
    Single,
}

impl Sample {
    /// Returns the vector of memory `i`; `None` where it has none.
    ///
    /// # Panics
    /// When `i` is not smaller than the number of memories.
    #[must_use]
    pub fn vector(&self, i: usize) -> Option<&[f32]> {
        let missing = self.memories[i].embedding == SampleEmbedding::Missing;
        (!missing).then(|| &self.vectors[i * self.dim..(i + 1) * self.dim])
    }
}

/// Reads the sample.
///
/// # Panics
/// Never: the files are part of this library, and a test reads them.
#[must_use]
pub fn memories() -> Sample {
    let memories = MEMORIES
        .lines()
        .map(|line| serde_json::from_str(line).expect("a test reads every line"))
        .collect();
    let (dim, vectors) = npy::vectors_of(VECTORS).expect("a test reads the file");
    Sample { memories, dim, vectors }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_with_an_embedding_has_a_unit_vector() {
        let sample = memories();
        assert!(sample.memories.len() >= 300);
        assert_eq!(sample.vectors.len(), sample.memories.len() * sample.dim);
        for i in 0..sample.memories.len() {
            if let Some(vector) = sample.vector(i) {
                let norm = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>();
                assert!((norm - 1.0).abs() < 1e-5, "{}: {norm}", sample.memories[i].id);
            }
        }
    }

    #[test]
    fn ids_are_distinct_and_every_kind_is_there() {
        let sample = memories();
        let ids: std::collections::BTreeSet<_> = sample.memories.iter().map(|m| &m.id).collect();
        assert_eq!(ids.len(), sample.memories.len());
        let kinds: std::collections::BTreeSet<_> = sample.memories.iter().map(|m| m.kind).collect();
        assert_eq!(kinds.len(), 11);
    }
}
