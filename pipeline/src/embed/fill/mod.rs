//! Memories without an embedding get one: found in one pass, embedded outside of any transaction, inserted in short ones.
//!
//! Only rows are inserted, into the owner's `embeddings`, for memories that still have none; nothing is replaced, so
//! there is nothing to take back. Any number of processes may do this at once.

mod coverage;
mod error;
mod place;
mod worker;
mod run;

pub use coverage::{Coverage, Pending, Unembedded, unembedded};
pub use error::FillError;
pub use place::check_space;
pub use run::{Fill, Filled, Refusal, fill};
