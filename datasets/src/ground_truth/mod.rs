//! The right answers of a set of vectors, and how much of them an engine found.
//!
//! [`GroundTruth`] holds exact nearest neighbours and exact near pairs and is stored in one small file
//! beside the vectors, bound to them by a checksum. [`recall_at_k`] and [`pair_recall`] judge answers
//! by it: by similarity, so ties count whichever row was chosen, and with every id counted once.
//!
//! The file, integers and floats little-endian:
//!
//! ```text
//! 8   "MFTRUTH1"
//! 32  checksum of the vectors
//! 1   1 when nearest neighbours follow:
//!     32 checksum of the queries, u32 k, u32 queries,
//!     for each: u32 count, count × (u32 row, f64 similarity)
//! 1   1 when pairs follow:
//!     f64 threshold, u64 distinct rows, u64 logical pairs,
//!     u64 count, count × (u32 left, u32 right, f64 similarity),
//!     u64 groups, for each: u32 count, count × u32 row
//! 32  blake3 of everything before
//! ```

mod digest;
mod file;
mod recall;
mod truth;

#[cfg(test)]
mod tests;

pub use digest::VectorsDigest;
pub use file::TruthFileError;
pub use recall::{pair_recall, recall_at_k, with_similarities};
pub use truth::{GroundTruth, NearestTruth, PairTruth};
