//! Files of other programs as record batches, in any format.
//!
//! [`open`] gives a [`Source`]: its columns, and its rows in batches. [`matrix`] reads bare vectors
//! (npy, fbin, fvecs and their like, and [`arrays`] of npz, safetensors and HDF5 files), [`arrow`]
//! and [`crate::parquet`] tables, [`jsonl`] JSON lines. A batch has at most
//! [`BATCH_ROWS`](crate::schema::BATCH_ROWS) rows, so reading batch by batch takes bounded memory.
//! A [`Corpus`](crate::Corpus) is made of sources.

mod source;
mod matrix;
mod arrays;
#[cfg(feature = "hdf5")]
mod hdf5;
pub(crate) mod arrow;
mod jsonl;
mod cells;
pub mod corpus;

pub(crate) use arrow::ArrowFile;
pub(crate) use cells::{CellKind, Cells, Texts};
pub(crate) use matrix::Layout;
pub use source::VectorFormat;
pub(crate) use source::{
    Batches, DECODE_ROWS, Opened, Source, SourceOptions, find_column, first_lengths, open,
    vector_column, vectors_of,
};

#[cfg(test)]
pub(crate) mod support;
#[cfg(test)]
mod tests;
