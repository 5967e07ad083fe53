//! The same for files of vectors: which rows are near this vector?
//!
//! [`build_corpus_index`] reads a file as [`dedup`](crate::dedup) does and publishes a generation
//! of its rows: in the order of ids, then of the bytes of vectors, then as in the file. So
//! `index.mfi` depends on the set of rows alone; where a row stands in the file is a matter of the
//! columns. A file has no rows that come later: it is the indexed file, which [`FileVersion`] checks
//! without reading it, or the index is of no use. [`search_rows`] therefore trusts the vectors of
//! the columns, and reads the file only where there is no index.

mod build;
mod rows;
mod search;

pub use build::{BuildCorpusIndex, build_corpus_index};
pub use rows::{
    CorpusColumns, CorpusIndex, CorpusOrigin, FileVersion, SearchedRows, verify_corpus_index,
};
pub use search::{RowMatch, RowQuery, search_rows, search_rows_all};

#[cfg(test)]
mod tests;
