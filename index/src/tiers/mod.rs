//! `index.mfi`: everything that lookups among the same rows read, in one file.
//!
//! [`Tiers`] are built: a slab always, which scans read, and a graph where there are so many rows that walking it pays.
//! [`TierViews`] are the same where they lie in a mapped file, opened in constant time. [`TextKeys`] say which rows may hold a text.
//!
//! The file is a function of the vectors in their order, the text keys, the options and the identity that the caller gives it;
//! its sections are described by [`slab`](crate::slab), [`graph`](crate::graph) and [`TextKeys`]. Its parameters are numbers
//! of 32 bits: the version of the slab's builder, the codes of its first and of its second test, and, with a graph, the
//! version of the graph's builder and [`GraphOptions`](crate::graph::GraphOptions).

mod build;
mod text_keys;
mod parameters;
mod file;

pub use build::{BuildTiersError, GraphOutcome, Tiers};
pub use file::{OpenTiersError, TierViews};
pub use text_keys::{TEXT_KEYS, TextKeys};

#[cfg(test)]
mod tests;
