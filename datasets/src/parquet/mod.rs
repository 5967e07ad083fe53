//! Parquet: the exchange form of the columns, and vectors and texts of other people's files.
//!
//! [`ParquetWriter`] writes the columns of [`crate::schema`] in row groups of
//! [`crate::schema::BATCH_ROWS`] rows. [`ParquetVectors`] streams the vector column of any Parquet
//! file, [`ParquetText`] a text column. Files are never mapped: what is read often belongs in
//! [`crate::columns`].

mod file;
mod batches;
mod write;

pub(crate) use batches::{DECODE_ROWS, ParquetTable, TypesFrom};
pub use batches::{ParquetText, ParquetVectors};
pub(crate) use file::{MAGIC, column_list};
pub use write::ParquetWriter;
pub(crate) use write::{ParquetOutput, key_values, plain_components};

#[cfg(test)]
mod tests;
