//! Files of other programs as record batches, whatever their format.
//!
//! [`InputFile`] hides the format: [`ArrowFile`] and [`NpyFile`] lend their rows from a map,
//! [`crate::parquet::ParquetTable`] decodes them. A batch has at most [`crate::schema::BATCH_ROWS`]
//! rows, so whoever reads batch by batch needs bounded memory.

mod arrow;
mod cells;
mod error;
mod file;
mod messages;
mod npy;

pub(crate) use arrow::ArrowFile;
pub(crate) use cells::{CellKind, Cells, Texts};
pub use error::{InputError, ReadArrowError};
pub(crate) use file::InputFile;
pub(crate) use npy::NpyFile;

#[cfg(test)]
pub(crate) mod support;
#[cfg(test)]
mod tests;
