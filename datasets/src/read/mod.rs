//! Files of other programs as record batches, whatever their format.
//!
//! [`InputFile`] hides the format. [`ArrowFile`] and [`matrix`] (npy, fbin, npz, safetensors)
//! lend their rows from a map, [`vecs`] copies them out of one, [`jsonl`] and
//! [`crate::parquet::ParquetTable`] decode them. A batch has at most [`crate::schema::BATCH_ROWS`]
//! rows, so whoever reads batch by batch needs bounded memory.

pub(crate) mod format;
mod arrow;
pub mod npy;
mod matrix;
mod npz;
#[cfg_attr(not(feature = "hdf5"), path = "hdf5_not_built.rs")]
mod hdf5;
mod jsonl;
mod file;
mod error;
mod cells;
pub mod vector_file;
pub mod corpus;

pub(crate) use arrow::ArrowFile;
pub(crate) use cells::{CellKind, Cells, Texts};
#[cfg(test)]
pub(crate) use error::EXPECTED_FORMATS;
pub use error::ReadError;
pub(crate) use file::{Batches, InputFile, InputOptions};
pub(crate) use matrix::Layout;
pub(crate) use npz::{HEADER_BYTES_MAX, PREFIX_BYTES};

#[cfg(test)]
pub(crate) mod support;
#[cfg(test)]
mod tests;
