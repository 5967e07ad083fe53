//! Which vectors are near this one, and which pairs are near each other?
//!
//! `memfold-index` searches vectors exactly: [`join_pairs`] finds every pair of rows at or above a cosine threshold and is proven
//! complete (or, by a graph, measures how many it misses), [`Scan`] finds a query's nearest rows, [`flat`] finds the same rows
//! faster, and [`graph`] finds them among many, nearly always. Vectors are borrowed through [`VectorMatrix`], often straight
//! from a [`Mapped`] file. Everything here is deterministic: the same rows give the same answer on any number of threads and
//! at every ISA level.

mod join;
mod scan;
pub mod flat;
pub mod graph;
mod codes;
mod transform;
pub mod file;
pub mod index_file;
mod components;
mod pool;
#[cfg(feature = "hnsw_rs")]
pub mod hnsw_rs;

mod distinct;
mod neighbor;
mod sample;
mod external_sort;
mod vectors;

#[cfg(test)]
mod testing;

pub use components::component_firsts;
pub use external_sort::{ExternalSort, Sorted};
pub use file::{MapError, Mapped};
pub use flat::{FlatIndex, FlatScan, FlatView};
pub use join::{
    GraphJoin, JoinCounters, JoinError, JoinIndex, JoinOptions, JoinedPairs, MeasuredRecall, Pair,
    PairStream, Receipt, TILE_ROWS_MAX, TileError, TilePlan, TileRequest, TileSummary, TileTask,
    default_pair_budget, join_pairs, join_pairs_by_graph, join_pairs_by_tiles,
};
pub(crate) use neighbor::BestNeighbors;
pub use neighbor::{GraphSearcher, Nearest, Neighbor};
pub use pool::{NoProgress, Pool, Progress, StartPoolError};
pub use scan::{Scan, query_norm};
pub use vectors::{Damaged, Row, VectorError, VectorMatrix};
