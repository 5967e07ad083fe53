//! Which vectors are near this one, and which pairs are near each other?
//!
//! `memfold-index` searches vectors exactly: [`join`] finds every pair of rows at or above a cosine threshold and is proven
//! complete (or, by a graph, measures what it misses), [`scan`] finds a query's nearest rows, [`flat`] finds the same rows
//! faster, and [`graph`] finds them among many, nearly always. Vectors are borrowed through [`VectorMatrix`], often straight
//! from a [`Mapped`] file. Everything here is deterministic: the same rows give the same answer on any number of threads and
//! at every ISA level.

pub mod join;
pub mod scan;
pub mod flat;
pub mod graph;
pub mod codes;
pub mod transform;
pub mod file;
pub mod index_file;
pub mod components;
pub mod pool;
#[cfg(feature = "hnsw_rs")]
pub mod hnsw_rs;

mod damaged;
mod distinct;
mod kmeans;
mod nearest;
mod neighbor;
mod sample;
mod external_sort;
mod vectors;

pub use damaged::Damaged;
pub use external_sort::{ExternalSort, Sorted};
pub use file::{MapError, Mapped};
pub use flat::{FlatIndex, FlatScan, FlatView};
pub use join::{
    GraphJoin, JoinCounters, JoinError, JoinIndex, JoinOptions, JoinedPairs, MeasuredRecall, Pair,
    PairAudit, PairStream, Receipt, TILE_ROWS_MAX, TileError, TilePlan, TileRequest, TileSummary,
    TileTask, default_pair_budget, join_pairs, join_pairs_by_graph, join_pairs_by_tiles,
};
pub use nearest::{GraphSearcher, Nearest};
pub use neighbor::{BestNeighbors, Neighbor};
pub use pool::{NoProgress, Pool, Progress, StartPoolError};
pub use scan::{Scan, VectorError};
pub use vectors::{Row, VectorMatrix};
