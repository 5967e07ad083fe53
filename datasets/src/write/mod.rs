//! Files that are written from files that were read: [`convert`] writes one in another format,
//! [`results`] what a comparison found, [`TextRowsWriter`] memories with their texts, [`annotate`] a copy of a file with what was found beside its rows.

use std::path::Path;

mod files;
mod json_lines;
mod text_rows;
pub mod results;
pub mod annotate;
pub mod convert;

pub(crate) use files::{ENCODED_ROWS, TableFile, TableFormat, key_values, plain_components};
pub(crate) use json_lines::JsonColumn;
pub use text_rows::TextRowsWriter;

/// Tells whether two paths lead to one file; a file that does not exist yet is not an input.
fn is_same_file(path: &Path, other: &Path) -> bool {
    let resolved = path.canonicalize().and_then(|path| Ok((path, other.canonicalize()?)));
    resolved.is_ok_and(|(path, other)| path == other)
}
