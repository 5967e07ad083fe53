//! int8 codes of vectors that are the same bytes on every machine.
//!
//! 1. [`Coding`]: unit vectors, turned so that they differ most in their first coordinates (`rotation`), less their
//!    mean, in steps of one length for all coordinates. It is learned from a sample that only depends on the set of
//!    vectors.
//! 2. [`CodeRows`]: codes and their squared norms, as slices, for building; `SplitRows`: the first codes of all rows,
//!    then the others, for searching. Distances are integers.
//! 3. [`Members`]: which rows stand behind a code: vectors of one code are one *node* of a graph.
//!
//! Codes only propose. Nothing about them is proven; see [`crate::transform`] for codes with bounds.

mod coding;
mod rotation;
mod rows;

pub use coding::Coding;
pub use rows::{CodeRows, Members, NodeCodes};
pub(crate) use rows::{Pages, SplitRows, split};
