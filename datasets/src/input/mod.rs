//! Files of other programs as record batches, whatever their format.
//!
//! [`InputFile`] hides the format. [`ArrowFile`] and [`matrix`] (npy, fbin, npz, safetensors)
//! lend their rows from a map, [`vecs`] copies them out of one, [`jsonl`] and
//! [`crate::parquet::ParquetTable`] decode them. A batch has at most [`crate::schema::BATCH_ROWS`]
//! rows, so whoever reads batch by batch needs bounded memory.

mod arrow;
mod messages;
mod components;
mod matrix;
mod npy;
mod bins;
mod vecs;
mod pick;
mod npz;
mod safetensors;
mod hdf5;
mod jsonl;
mod file;
mod error;
mod cells;

pub(crate) use arrow::ArrowFile;
pub(crate) use cells::{CellKind, Cells, Texts};
pub(crate) use components::{Components, ElementType};
pub use error::{InputError, ReadArrowError, ReadMatrixError};
pub(crate) use file::{Batches, InputFile, InputOptions};
pub use jsonl::ReadJsonlError;
pub(crate) use matrix::Layout;
pub(crate) use safetensors::{HEADER_BYTES_MAX, PREFIX_BYTES};

#[cfg(test)]
pub(crate) mod support;
#[cfg(test)]
mod tests;
