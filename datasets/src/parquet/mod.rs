//! Parquet: the exchange form of the columns, and tables of other programs.
//!
//! [`ParquetWriter`] writes the columns of [`crate::schema`] in row groups of
//! [`crate::schema::BATCH_ROWS`] rows. [`VectorFile`](crate::VectorFile) reads the vectors of any Parquet
//! file, [`ParquetText`] a column of texts. Files that are read often belong in [`crate::columns`].

mod file;
mod table;
mod write;

pub(crate) use file::MAGIC;
pub(crate) use table::ParquetTable;
pub use table::ParquetText;
pub use write::ParquetWriter;
pub(crate) use write::{ParquetOutput, key_values, plain_components};

#[cfg(test)]
mod tests;
