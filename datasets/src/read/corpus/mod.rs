//! Vectors of several files as one matrix: [`Corpus`].
//!
//! Rows keep the place that they have over all files in the order of the arguments, their *ordinal*.
//! Rows without a usable vector are skipped and counted; the others, in order, are the rows of the
//! matrix. Vectors are copied, small corpora to memory and large ones to a file without a name: what
//! other programs do to the files meanwhile does not change them.

mod open;
mod load;
mod skipped;

pub use open::{Corpus, CorpusOptions, Place};
pub use skipped::{SkipReason, SkippedRow, SkippedRows};

#[cfg(test)]
mod tests;
