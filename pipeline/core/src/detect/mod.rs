//! Detection: which live memories are near or equal, and the verdicts of the guard on them.
//!
//! 1. `units` gathers each live row in scope with everything ever merged into it, by their newest row.
//! 2. `near` joins the vectors of each space ([`join_spaces`]); pairs of distinct vectors come out.
//! 3. `nodes` collapses rows that share vector, strict key and class; pairs of vectors become pairs of nodes.
//! 4. `judge` reads each text once and asks the guard about each pair: linked, apart or contradictory.
//! 5. `judge` lifts the `links` between nodes to links between units, but for pairs that a person keeps `apart`;
//!    equal texts are cliques without edges.
//! 6. The clustering groups units that are all linked: greedily, or by a hierarchical linkage.
//!
//! Costs grow with distinct texts, vectors and near pairs, not with the square of copies.

mod judge;
mod nodes;
mod series;
mod pipeline;
mod topics;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use memfold_index::{JoinError, MeasuredRecall};
use memfold_simd::Similarity;

pub use nodes::{newest_first, separating};
pub use pipeline::{BuiltIn, DetectInput, Joins, detect, join_spaces, join_threshold};
pub use topics::{TopicRules, Topics, topics};

use crate::memory::MemoryIndex;
use memfold_guard::Judgement;

/// Pairs that are less probable to say the same are not proposed.
pub(crate) const PROPOSE_PROBABILITY_MIN: f64 = 0.2;

/// A live row together with everything ever merged into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// The live row.
    pub live: MemoryIndex,
    /// Its merged rows, by id.
    pub merged_rows: Vec<MemoryIndex>,
}

/// Live memories that are all linked to each other, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// The members' live rows, by the newest row of their units (unreadable times last, then id bytes).
    pub members: Vec<MemoryIndex>,
    /// The smallest canonical similarity between two members that both have vectors of one space (bit-equal: 1);
    /// `None` where no two have.
    pub min_similarity: Option<Similarity>,
    /// Of a proposal: the smallest probability among its pairs that two say the same, in hundredths.
    pub probability: Option<f64>,
    /// Whether all members share one strict key.
    pub equal_text: bool,
}

/// Two live memories with texts that contradict each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Contradiction {
    /// The older memory.
    pub older: MemoryIndex,
    /// The newer memory.
    pub newer: MemoryIndex,
    /// Their canonical similarity.
    pub similarity: Similarity,
    /// The verdict of the guard: `left` is the older text.
    pub judgement: Judgement,
}

/// A pair worth a person's look, though nothing is planned for it.
#[derive(Debug, Clone, PartialEq)]
pub struct NearMiss {
    /// The older memory.
    pub older: MemoryIndex,
    /// The newer memory.
    pub newer: MemoryIndex,
    /// Their canonical similarity.
    pub similarity: Similarity,
    /// The verdict of the guard, where it kept them apart; `None`: just below the threshold.
    pub kept_apart: Option<Judgement>,
}

/// Everything that detection found; indices point into the snapshot's memories.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Detection {
    /// Live units in scope, by their newest row, descending.
    pub units: Vec<Unit>,
    /// Clusters of two or more, by their newest member.
    pub clusters: Vec<Cluster>,
    /// Groups of two to ten that may say the same for all that is known, whether proven or not.
    pub proposals: Vec<Cluster>,
    /// The worst contradictory pairs, highest score first, then newest first.
    pub contradictions: Vec<Contradiction>,
    /// The worst contradictory pairs of which a side was merged into another memory, in the same order.
    pub merged_contradictions: Vec<Contradiction>,
    /// How many contradictory pairs of live rows there are.
    pub contradiction_pairs: u64,
    /// Groups of two or more live rows of one strict key.
    pub duplicate_groups: u64,
    /// Logical pairs of live rows with vectors at or above the merge threshold.
    pub pairs: u64,
    /// How complete the pairs of distinct vectors behind `pairs` are, as measured; `None`: the join was exact.
    pub pair_recall: Option<MeasuredRecall>,
    /// Live rows that count as a series: compared with no other.
    pub series_rows: u64,
    /// Where that is above the merge threshold: the similarity from which rows were compared.
    pub compared_from: Option<Similarity>,
    /// Pairs at or above the merge threshold by verdict.
    pub verdicts: BTreeMap<&'static str, u64>,
    /// The nearest pairs below the threshold and the nearest ones that the guard kept apart, a few of each.
    pub near_misses: Vec<NearMiss>,
    /// Refused pairs, as many as [`DetectInput::refused_count`] asks for, drawn at random.
    pub refused: Vec<NearMiss>,
    /// Linked pairs if the threshold were lower or higher by so much: `(delta, pairs)`.
    pub sensitivity: Vec<(f64, u64)>,
    /// Live rows with a vector that stands under too many different texts.
    pub shared_vector_rows: Vec<MemoryIndex>,
    /// Live rows outside the scope of this run.
    pub out_of_scope: u64,
    /// Remarks for the report.
    pub notes: Vec<String>,
}

impl Detection {
    /// Keeps the clusters and proposals that some memories stand in, directly or through clusters that share a member;
    /// returns these memories and all members of the clusters kept with them.
    ///
    /// Contradictions stay: which of them speaks for a series depends on all.
    pub fn narrow(&mut self, around: &BTreeSet<MemoryIndex>) -> BTreeSet<MemoryIndex> {
        let mut kept = around.clone();
        let groups = || self.clusters.iter().chain(&self.proposals);
        let mut before = 0;
        while before != kept.len() {
            before = kept.len();
            for cluster in groups() {
                if cluster.members.iter().any(|member| kept.contains(member)) {
                    kept.extend(&cluster.members);
                }
            }
        }
        self.clusters.retain(|cluster| kept.contains(&cluster.members[0]));
        self.proposals.retain(|cluster| kept.contains(&cluster.members[0]));
        self.near_misses.retain(|pair| kept.contains(&pair.older) || kept.contains(&pair.newer));
        kept
    }

    /// Returns all contradictory pairs, the ones of live memories first.
    pub(crate) fn all_contradictions(&self) -> impl Iterator<Item = &Contradiction> {
        self.contradictions.iter().chain(&self.merged_contradictions)
    }
}

/// Why detection gave no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DetectError {
    /// The vectors of one model could not be joined.
    #[error("join the vectors of model {model} ({dim} dimensions): {error}")]
    Join {
        /// The model.
        model: String,
        /// Its dimension.
        dim: u32,
        /// Why.
        #[source]
        error: JoinError,
    },
    /// A connected component is too large for a linkage that needs all its distances.
    #[error(
        "{rows} memories are connected at this threshold, {linkage} linkage takes at most {rows_max}"
    )]
    Component {
        /// Rows in the component.
        rows: usize,
        /// Rows allowed.
        rows_max: usize,
        /// The linkage asked for.
        linkage: &'static str,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl DetectError {
    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Join { error, .. } => error.hint(),
            Self::Component { .. } => Some(
                "use the default linkage (--set cluster.linkage=greedy_complete), raise --threshold, \
                 or raise cluster.max_component_rows (memory grows with its square)"
                    .to_owned(),
            ),
            Self::Cancelled => None,
        }
    }
}
