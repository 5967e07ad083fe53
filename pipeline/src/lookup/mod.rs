//! Lookups: which live memories are near this vector, answered from an index beside the store and from the store itself.
//!
//! [`build_index`] derives a generation from a store: its vectors in the order of ids as mapped
//! columns, flat index and graph over them, and an [`Origin`] that says how far into the store it
//! reaches. [`StoreIndex`] opens the live one in constant time. [`search`] queries it, then the
//! store's newer rows, and trusts neither: every match is read again from the store, in one read
//! transaction, and judged by the vector that it has now. So a row that was merged, archived,
//! deleted or replaced since is never returned, and one that was saved a moment ago is.
//! [`seal_fresh`] makes a segment of newer rows, so that they need not be compared one by one. The
//! only row that an index can hide is an old one with a vector that another program overwrote in
//! place, until the next build.
//!
//! Without an index, or with one that is of no use, every vector of the store is read: slower, and complete.
//!
//! [`corpus`] does the same for files of vectors, which change only as a whole.

mod error;
mod build;
mod fresh;
mod files;
mod search;
mod near;
mod inspect;
pub mod corpus;

pub use build::{BuildIndex, BuiltIndex, TierChoice, build_index};
pub use error::{IndexError, SearchError};
pub use files::{IndexFiles, IndexTier, ORIGIN_FILE, Origin};
pub use fresh::{FreshSegment, KeptIndex, StoreIndex};
pub use inspect::{Freshness, IndexDifference, Thoroughness, VerifiedIndex, freshness, verify};
pub use search::Query;

pub(crate) use files::text_hash;
pub use fresh::{SealFresh, Sealed, seal_fresh};
pub(crate) use near::{NearRows, near_ids, near_rows};
pub use search::{Match, Matches, Searched, Wanted, search, search_all};
pub(crate) use search::{near_vector, search_by_words};
