//! int8 codes of vectors that are the same bytes on every machine.
//!
//! 1. [`Coding`]: unit vectors, less their mean, in steps of one length for all coordinates. It is learned from a
//!    sample that only depends on the set of vectors, with sums of integers.
//! 2. [`CodeRows`]: codes and their squared norms, as slices; distances are integers.
//! 3. [`Members`]: which rows stand behind a code: vectors of one code are one *node* of a graph.
//!
//! Codes only propose. Nothing about them is proven; see [`crate::transform`] for codes with bounds.

mod coding;

pub use coding::{CodeRows, Members, MembersView, NodeCodes};
pub use coding::{Coding, DamagedCoding};

pub(crate) use coding::hash_codes;
pub(crate) use coding::{Pages, squared_distance};
