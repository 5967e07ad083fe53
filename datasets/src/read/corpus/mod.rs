//! Vectors of several files as one matrix: [`Corpus`].
//!
//! Rows keep the place that they have over all files in the order of the arguments, their *ordinal*.
//! Rows without a usable vector are skipped and counted; the others, in order, are the rows of
//! the matrix. Where the files hold f32 vectors in pieces of one length they are mapped; otherwise vectors pass
//! through a file without a name, so that memory holds ids and order only.

mod load;
mod open;
mod vectors;

pub use open::{Corpus, CorpusOptions, Place};
pub use vectors::{SkipReason, SkippedRow, SkippedRows};

#[cfg(test)]
mod tests;
