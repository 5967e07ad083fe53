//! The exact join cut into tasks that need neither all vectors nor each other.
//!
//! 1. [`TilePlan::make`] reads the input a few times in order: equal vectors collapse, the planner learns what the join of one
//!    piece would learn, and rows regroup into *tiles*, files of rows of near cells with all that tests need.
//! 2. Every two tiles are a [`TileTask`], unless (5) of [`crate::transform`] leaves no pair of their rows: a tile knows the
//!    largest key of the rows of each of its cells towards every other cell.
//! 3. [`TilePlan::run`] compares two tiles with the blocks and the cascade of [`super::join_pairs`] and leaves a file of sorted
//!    pairs and a [`Receipt`]. It reads two tiles and nothing else, and leaves the same bytes wherever and however often
//!    it runs.
//! 4. [`TilePlan::merge`] sorts the pairs of all tasks together: the [`super::PairStream`] of [`super::join_pairs`].
//!
//! [`join_pairs_by_tiles`] does all this on one machine and goes on where an earlier run in the same folder ended. The
//! folder holds:
//!
//! ```text
//! memfold-tiles.lock            held by a run; marks the folder as one of memfold's
//! plan.mfi                      threshold, cells, tiles with their fingerprints, tasks, equal rows; written last
//! tiles/000017.mfi              a tile
//! pairs/000003-000017.pairs     left, right (u32), similarity (f64), little-endian, sorted; none without pairs
//! receipts/000003-000017        text: pairs, tests, passed_first, judged, and the blake3 of the pairs
//! partial/                      files being written; renamed when whole
//! ```

mod plan;
mod build;
mod task;

#[cfg(test)]
mod tests;

pub use plan::{TILE_ROWS_MAX, TileError, TilePlan, TileRequest, TileSummary, TileTask};
pub use task::{Receipt, join_pairs_by_tiles};
