//! Synthetic vectors with planted duplicates, the same on every machine.
//!
//! A [`VectorRecipe`] says what is wanted, invented or [like](VectorRecipe::like) given vectors;
//! [`VectorGenerator`] computes any row of it on its own: rows can be streamed in chunks, in any order,
//! with memory for the groups only.

mod background;
mod like;
mod linear;
mod purpose;
mod random;
mod recipe;
mod vectors;

pub use like::LikeError;
pub use recipe::{RecipeError, VectorRecipe, VectorRecipeBuilder};
pub use vectors::{GeneratedRow, VectorGenerator};
