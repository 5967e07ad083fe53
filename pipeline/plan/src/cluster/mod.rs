//! Clustering: which units all say the same thing. Pure: graphs and distances in, groups out.
//!
//! [`greedy_complete`] works on a [`LinkGraph`] and needs memory in proportion to its edges;
//! [`greedy_complete_streamed`] works on links that stream by and needs memory for the vertices alone;
//! [`agglomerate`] works on the distances of one connected component ([`components`]).

mod components;
mod greedy;
mod hierarchical;
mod stream;

pub use components::components;
pub use greedy::{LinkGraph, NO_CLIQUE, greedy_complete};
pub use hierarchical::{agglomerate, condensed_len};
pub use stream::{Link, greedy_complete_streamed};
