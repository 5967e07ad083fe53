//! The exact join cut into tasks that need neither all vectors nor each other.
//!
//! 1. [`TilePlan::make`] reads the input a few times in order: equal vectors collapse, `Plan` learns what the join of one
//!    piece would learn, and rows regroup into *tiles*, files of rows of near cells with all that tests need.
//! 2. Every two tiles are a [`TileTask`], unless (5) of [`crate::transform`] leaves no pair of their rows: a tile knows the
//!    largest key of the rows of each of its cells towards every other cell.
//! 3. [`TilePlan::run`] compares two tiles with the blocks and the cascade of [`super::join_pairs`] and leaves a file of sorted
//!    pairs and a [`Receipt`]. It reads two tiles and nothing else, and leaves the same bytes wherever and however often
//!    it runs.
//! 4. [`TilePlan::merge`] sorts the pairs of all tasks together: the [`super::PairStream`] of [`super::join_pairs`].
//!
//! [`join_pairs_by_tiles`] does all this on one machine and goes on where an earlier run in the same folder ended. The
//! folder's files are described in docs/scale.md.

mod build;
mod error;
mod plan;
mod task;

#[cfg(test)]
mod tests;

pub use error::TileError;
pub use plan::{TILE_ROWS_MAX, TilePlan, TileRequest, TileSummary, TileTask};
pub use task::{Receipt, join_pairs_by_tiles};
