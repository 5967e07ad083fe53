//! Mapped columns: Arrow IPC, uncompressed, 64-byte aligned, read without a copy.
//!
//! [`ColumnsWriter`] writes them in batches of [`crate::schema::BATCH_ROWS`] rows with bounded
//! memory; [`MappedColumns`] maps a finished file and lends its vectors as a
//! [`memfold_index::VectorMatrix`].

mod layout;
mod read;
mod write;

pub(crate) use layout::ALIGNMENT;
pub(crate) use layout::BlockSpan;
pub(crate) use read::{MAGIC, STREAM_START};
pub use read::{MappedColumns, MappedRecord, Records, TextColumn};
pub(crate) use write::{BatchBuilder, first_not_finite};
pub use write::{ColumnRecord, ColumnsWriter};

#[cfg(test)]
mod tests;
