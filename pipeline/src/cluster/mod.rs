//! Clustering: which units all say the same thing. Pure: graphs and distances in, groups out.
//!
//! [`greedy_complete`] works on a [`LinkGraph`] and needs memory in proportion to its edges;
//! [`agglomerate`] works on the distances of one connected component ([`components`]).

mod components;
mod greedy;
mod hierarchical;

pub use components::components;
pub use greedy::{LinkGraph, NO_CLIQUE, greedy_complete};
pub use hierarchical::{agglomerate, condensed_len};
