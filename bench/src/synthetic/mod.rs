//! Synthetic vectors with planted duplicates, the same on every machine.
//!
//! A [`VectorRecipe`] describes the wanted vectors, invented or [like](VectorRecipe::like) given
//! ones; [`VectorGenerator`] computes any row of it on its own: rows can be streamed in chunks, in
//! any order, with memory for the groups only. [`Likeness`] compares generated vectors with given
//! ones. [`Shuffle`] gives numbers an order without a table, [`templated`] gives each group of rows
//! a statement of its own.

mod recipe;
mod vectors;
mod background;
mod duplicates;
mod like;
mod covariance;
mod stream;
mod texts;

pub use like::{
    DUPLICATE_THRESHOLDS, DuplicateCounts, GroupSize, Likeness, NEIGHBOR_RANKS, Neighbors,
    QUANTILE_SHARES, SimilarityQuantiles,
};
pub use recipe::{GenerateError, VectorRecipe, VectorRecipeBuilder};
pub use stream::Shuffle;
pub use texts::templated;
pub use vectors::{GeneratedRow, VectorGenerator};
