//! Files that are written from files that were read: [`convert`] writes one in another format,
//! [`results`] the results of a comparison, [`TextRowsWriter`] memories with their texts, and
//! [`annotate`] a copy of a file with the results beside its rows.

mod files;
mod lines;
pub mod results;
pub mod annotate;
pub mod convert;

pub(crate) use files::{
    ENCODED_ROWS, TableEncoding, TableFile, TableWriter, plain_components, zstd_properties,
};
pub use lines::TextRowsWriter;
pub(crate) use lines::{JsonColumn, is_held};
