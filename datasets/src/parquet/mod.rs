//! Parquet: the exchange form of the columns, and vectors and texts of other people's files.
//!
//! [`ParquetWriter`] writes the columns of [`crate::schema`] in row groups of
//! [`crate::schema::BATCH_ROWS`] rows. [`ParquetVectors`] streams the vector column of any Parquet
//! file, [`ParquetText`] a text column. Files are never mapped: what is read often belongs in
//! [`crate::columns`].

mod error;
mod file;
mod footer;
mod batches;
mod output;
mod text;
mod vectors;
mod write;

pub(crate) use batches::{DECODE_ROWS, ParquetTable, TypesFrom};
pub use error::ReadParquetError;
pub(crate) use file::{MAGIC, column_list};
pub use output::WriteTableError;
pub(crate) use output::{ParquetOutput, key_values, plain_components};
pub use text::ParquetText;
pub use vectors::ParquetVectors;
pub use write::ParquetWriter;

#[cfg(test)]
mod tests;
