//! Near-duplicates of a corpus: pairs become clusters, each with the row that stays. No store involved.
//!
//! [`dedup`] reads the answer of [`memfold_index::join_pairs`], or of the join by a graph, once for
//! all thresholds: it counts and digests the pairs ([`PairsDigest`] says how), puts their links
//! into processing order, clusters, and names survivors. Bit-equal rows stand as one vertex and are
//! counted arithmetically. Memory follows the rows; pairs beyond a bound go to a scratch folder.
//! [`each_logical_pair`] writes the pairs out, groups expanded. [`JoinForecast`] estimates the cost
//! of the join by tiles of more rows.
//!
//! The processing order is the order of keeping ([`KeepOrder`]), so with greedy complete linkage every member is at or
//! above the threshold to its survivor. Where the most central member stays, that holds because all members are.
//!
//! ```
//! use memfold_index::{JoinOptions, Pool, VectorMatrix, join_pairs};
//! use memfold::dedup::{ClusterLinkage, DedupRequest, Keep, KeepOrder, dedup};
//! use memfold_simd::Similarity;
//!
//! let values = [1.0, 0.0, 0.0, 1.0, 0.99, 0.1, 1.0, 0.0];
//! let matrix = VectorMatrix::from_slice(&values, 2)?;
//! let threshold = Similarity::new(0.95).ok_or("not a cosine")?;
//! let pool = Pool::new(None)?;
//! let options = JoinOptions::new(&pool);
//! let pairs = join_pairs(&matrix, threshold, &options)?;
//! let clusterings = dedup(&pairs, &DedupRequest {
//!     matrix: &matrix,
//!     ordinal: &|row| row.0.into(),
//!     keep: &Keep::Best(KeepOrder::by_row(matrix.len())),
//!     linkage: ClusterLinkage::GreedyComplete,
//!     thresholds: &[threshold],
//!     options: &options,
//! })?;
//! assert_eq!(clusterings[0].clusters().count(), 1); // rows 0, 2 and 3
//! assert_eq!(clusterings[0].duplicate_rows(), 2); // row 0 stays
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod run;
mod clusters;
mod forecast;

#[cfg(test)]
mod tests;

pub use clusters::{Clustering, KeepOrder, Member, each_logical_pair};
pub use forecast::{JoinForecast, SampledJoin};
pub use run::{
    ClusterLinkage, DedupCounters, DedupError, DedupFigures, DedupReport, DedupRequest,
    DedupSeconds, DedupTiles, Keep, PairsDigest, dedup,
};
