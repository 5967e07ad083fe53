//! The crate `hnsw_rs` as a backend: an HNSW that many know, to choose and to compare with. It is not the graph of
//! [`crate::graph`]: built on one thread, held in memory at 2 to 4 KB for each row beside a copy of its vector, and
//! approximate.
//!
//! Version 0.3.5 has faults that callers must keep away from. What this module does about each:
//!
//! | fault | here |
//! |---|---|
//! | NaN in a distance panics | rows and queries without a direction are refused before it sees them |
//! | a distance below zero panics, as rounding makes one of equal vectors | its distances are replaced by our own: 1 − dot of unit vectors in f64, never below 0, never NaN |
//! | M above 256 ends the process, 256 becomes 0, 1 gives infinite levels | 2 to 255 |
//! | beams are allocated as they are asked for | beams are cut at the number of points |
//! | parallel insertion loses points and comes out differently each time | insertion is serial, in row order; its levels come from a generator with a fixed seed |
//! | equal vectors fill each other's lists of links, and hide what lies behind | rows of one direction are one point |
//! | ties come in the order of heaps; distances are f32 | answers are judged by the canonical similarity and put in order |
//! | no range search | the beam grows until it reaches beyond the range |
//! | dropping it uses the global thread pool | it is dropped in a pool of one thread of ours |
//! | its files are neither checked nor portable, and reading them may end the process | none are written or read |
//! | it writes to standard output when levels are scaled, options refused or layers dumped | none of these is called |
//!
//! It may still miss rows, also at the widest beam: points that no link leads to are not found.

mod index;

pub use index::{BuildHnswRsError, HnswRsIndex, HnswRsOptions};

#[cfg(test)]
mod tests;
