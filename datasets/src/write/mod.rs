//! Files that are written from files that were read: [`convert`] writes one in another format,
//! [`results`] what a comparison found, [`annotate`] a copy of a file with what was found beside its rows.

pub(crate) mod table_file;
pub mod results;
pub mod annotate;
pub mod convert;
