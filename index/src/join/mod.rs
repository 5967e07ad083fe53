//! The exact join: every pair of rows with cosine ≥ t, proven complete.
//!
//! 1. `distinct` refuses vectors without a direction and collapses bit-equal ones.
//! 2. `plan` learns a projection from a sample and chooses how many of its directions the first test
//!    takes, by a model of cost.
//! 3. `cascade` encodes rows in blocks and compares every two blocks: a sign test of int8 codes over the
//!    first directions, another one over all directions, then `verdict`. [`crate::transform`] proves that
//!    no test rejects a near pair.
//! 4. `verdict` decides by the canonical similarity alone.
//! 5. `collect` runs the comparisons in waves, keeps to the pair budget and sorts.
//!
//! Nothing of 2 and 3 can be seen in the answer. Where the threshold is too low for tests to reject
//! anything, or rows are few, every pair is judged.

mod cascade;
mod collect;
mod distinct;
mod error;
mod plan;
mod run;
mod verdict;

#[cfg(test)]
mod tests;

use memfold_simd::{Kernels, Similarity};

pub use error::JoinError;
pub use run::join_pairs;

use crate::{Pool, Progress, Row};

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
    /// Where progress goes.
    pub progress: &'a dyn Progress,
}

/// All pairs at or above a threshold, with bit-equal vectors collapsed.
///
/// A *distinct* row is the smallest row of a group of bit-equal vectors. `pairs` joins distinct rows
/// only; the pairs inside and between groups follow from `groups`.
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
