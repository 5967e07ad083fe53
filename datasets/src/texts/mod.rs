//! Files of texts: somebody's own memories in JSON, CSV, plain text, Parquet or Arrow.
//!
//! [`TextFile::read`] finds the form of a file by its content and reads its records;
//! [`TextFile::write`] writes the same file again without some of them, all others byte for byte.
//! Exports of other systems are recognised by one table of [`SHAPES`].

mod shapes;
mod record;
mod file;
mod json;
mod csv_rows;
mod tables;

pub use file::{SkippedRecord, TextFile, TextForm};
pub use record::{IMPORTANCE_TOP, TextRecord};
pub use shapes::{SCOPES, SHAPES, Shape, TextFields, TextRole};

#[cfg(test)]
mod tests;
