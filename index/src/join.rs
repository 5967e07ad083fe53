//! Joins: every pair of rows with cosine ≥ t. [`join_pairs`] is exact and proven complete; [`join_pairs_by_graph`], for more
//! rows than that can compare, misses some and measures how many.
//!
//! The exact join, in the order in which modules depend on each other:
//! 1. `crate::distinct` refuses vectors without a direction and collapses bit-equal ones.
//! 2. `rerank` compares two rows by the canonical similarity, which alone decides.
//! 3. `prune` partitions code space into cells and leaves out rows of two cells that are too far apart in the direction
//!    from one to the other.
//! 4. `encode` turns rows into int8 codes with bounds and puts them together cell by cell.
//! 5. `plan` learns projection and cells from samples and chooses how many directions the first test takes, by a model
//!    of cost.
//! 6. `compare` takes every two blocks: pruning, a sign test of the first codes, another one of all codes, then `rerank`.
//!    [`crate::transform`] proves that none of this rejects a near pair.
//! 7. `pairs` runs the comparisons, keeps to the pair budget and sorts.
//!
//! Nothing of 3 to 6 can be seen in the answer. Where the threshold is too low for tests to reject anything, or rows are
//! few, every pair is reranked.
//!
//! `by_graph` builds an index of the distinct rows, and each of them asks it for its near rows. A pair counts whichever
//! of its rows found it. Recall is measured by an exact scan for the pairs of sampled rows.
//!
//! `tiles` cuts the exact join into tasks for inputs larger than memory and for more than one machine.

mod rerank;
mod prune;
mod encode;
mod plan;
mod compare;
mod pairs;
mod by_graph;
mod tiles;

#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};

use memfold_simd::{Kernels, Similarity};

pub use by_graph::{GraphJoin, JoinIndex, MeasuredRecall, join_pairs_by_graph};
pub use pairs::{PairStream, default_pair_budget, join_pairs};
pub use tiles::{
    Receipt, TILE_ROWS_MAX, TileError, TilePlan, TileRequest, TileSummary, TileTask,
    join_pairs_by_tiles,
};

use crate::graph::BuildGraphError;
use crate::{NoProgress, Pool, Progress, Row};

/// Two different rows and their canonical similarity; `left < right`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The smaller row.
    pub left: Row,
    /// The larger row.
    pub right: Row,
    /// Their canonical similarity.
    pub similarity: Similarity,
}

/// Options of a join; the answer depends on none of it.
#[derive(Clone, Copy)]
pub struct JoinOptions<'a> {
    /// The workers.
    pub pool: &'a Pool,
    /// The kernels, normally [`Kernels::active`].
    pub kernels: &'static Kernels,
    /// How many distinct pairs may be returned; `None`: 64 × distinct rows (at least 1,000,000).
    pub pair_budget: Option<u64>,
    /// A folder for pairs beyond the first 4,194,304 (16 bytes each), in a file without a name; `None`: they
    /// stay in memory.
    pub scratch_dir: Option<&'a Path>,
    /// Where progress goes.
    pub progress: &'a dyn Progress,
}

impl<'a> JoinOptions<'a> {
    /// The kernels of this processor, the usual budget, pairs in memory, no progress.
    #[must_use]
    pub fn new(pool: &'a Pool) -> Self {
        let kernels = Kernels::active();
        Self { pool, kernels, pair_budget: None, scratch_dir: None, progress: &NoProgress }
    }
}

impl JoinOptions<'_> {
    /// Ends a join whose caller asked to stop.
    fn check_cancelled(&self) -> Result<(), JoinError> {
        if self.progress.cancelled() { Err(JoinError::Cancelled) } else { Ok(()) }
    }
}

/// Counters of the work of a join.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JoinCounters {
    /// Directions of the first test; 0 where every pair was reranked.
    pub first_width: u32,
    /// Pairs of distinct rows.
    pub pairs_total: u64,
    /// Pairs that the first test looked at.
    pub pairs_tested: u64,
    /// Pairs that passed the first test.
    pub pairs_passed_first: u64,
    /// Pairs that were reranked; by a graph, pairs found from each side.
    pub pairs_judged: u64,
    /// Pairs that only one of both rows found, where each asked a graph.
    pub pairs_found_once: u64,
}

/// A [`PairStream`] taken into memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JoinedPairs {
    /// Pairs of distinct rows, sorted by (left, right).
    pub pairs: Vec<Pair>,
    /// Groups of two or more bit-equal rows: members ascending, groups by their smallest row.
    pub groups: Vec<Vec<Row>>,
    /// How many distinct rows there are.
    pub distinct_rows: u64,
    /// All logical pairs (inside groups, between groups, between distinct rows), counted arithmetically.
    pub logical_pairs: u64,
}

/// Why a join gave no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// A row holds NaN, an infinite value, or only zeros.
    #[error("row {row}: {reason}")]
    InvalidVector {
        /// The row.
        row: u32,
        /// The fault.
        reason: &'static str,
    },
    /// The threshold does not discriminate on these vectors.
    #[error("more than {budget} distinct pairs are at or above {threshold}")]
    PairBudget {
        /// Pairs allowed.
        budget: u64,
        /// The threshold asked for.
        threshold: f64,
        /// Share of sampled pairs at or above each tabulated similarity, ascending: `(similarity, share)`.
        histogram: Vec<(f64, f64)>,
    },
    /// The index that rows should ask cannot be built or asked.
    #[error("build the index: {reason}")]
    Index {
        /// Why.
        reason: String,
    },
    /// This program was built without the index.
    #[error("this memfold was built without the feature {feature}")]
    NotBuilt {
        /// The Cargo feature that adds it.
        feature: &'static str,
    },
    /// Pairs that memory should not hold could not be kept on disk.
    #[error("keep pairs in {}: {reason}", dir.display())]
    Scratch {
        /// The folder.
        dir: PathBuf,
        /// The error of the operating system.
        reason: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl From<BuildGraphError> for JoinError {
    fn from(error: BuildGraphError) -> Self {
        match error {
            BuildGraphError::InvalidVector { row, reason } => Self::InvalidVector { row, reason },
            BuildGraphError::Cancelled => Self::Cancelled,
            error => Self::Index { reason: error.to_string() },
        }
    }
}

impl JoinError {
    /// The index that rows should ask failed.
    fn index(error: impl std::fmt::Display) -> Self {
        Self::Index { reason: error.to_string() }
    }

    /// The scratch folder could not be written, or its file could not be mapped.
    pub(crate) fn scratch(dir: Option<&Path>) -> impl Fn(io::Error) -> Self {
        let dir = dir.unwrap_or_else(|| Path::new("memory"));
        move |error| Self::Scratch { dir: dir.to_owned(), reason: error.to_string() }
    }

    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::InvalidVector { .. } => {
                Some("embed this row again, or leave it out: it has no direction".into())
            }
            Self::PairBudget { threshold, histogram, .. } => {
                Some(raise_threshold(*threshold, histogram))
            }
            Self::Index { .. } => Some("the exact join needs no index: --method exact".into()),
            Self::NotBuilt { feature } => Some(format!(
                "build it with `cargo install --path tools/cli --locked --features {feature}`"
            )),
            Self::Scratch { .. } => {
                Some("free some space there, or set TMPDIR to a folder with more".into())
            }
            Self::Cancelled => None,
        }
    }
}

/// Names the lowest tabulated threshold that keeps few of the sampled pairs.
fn raise_threshold(threshold: f64, histogram: &[(f64, f64)]) -> String {
    let selective =
        histogram.iter().find(|&&(similarity, share)| similarity > threshold && share <= 1e-3);
    match selective {
        Some((similarity, share)) => format!(
            "raise the threshold: {:.3} % of sampled pairs are at or above {similarity}",
            share * 100.0
        ),
        None => "nearly all of these vectors point the same way: check the embedding model, \
                 or join smaller scopes"
            .into(),
    }
}
