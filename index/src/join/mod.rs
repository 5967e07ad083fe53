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
mod error;

#[cfg(test)]
mod by_graph_tests;
#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;

use memfold_simd::{Kernels, Similarity};

pub use by_graph::{GraphJoin, JoinIndex, MeasuredRecall, PairAudit, join_pairs_by_graph};
pub use error::JoinError;
pub use pairs::{PairStream, default_pair_budget, join_pairs};
pub use tiles::{
    Receipt, TILE_ROWS_MAX, TileError, TilePlan, TileRequest, TileSummary, TileTask,
    join_pairs_by_tiles,
};

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

/// What a join runs with; the answer depends on none of it.
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

/// What a join did to find its pairs.
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
    /// Pairs that were reranked; by a graph, those that rows found, from both sides.
    pub pairs_judged: u64,
    /// Pairs that only one of both rows found, where each asked a graph.
    pub pairs_found_once: u64,
}

impl JoinCounters {
    fn add(&mut self, other: &Self) {
        self.pairs_tested += other.pairs_tested;
        self.pairs_passed_first += other.pairs_passed_first;
        self.pairs_judged += other.pairs_judged;
    }
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
