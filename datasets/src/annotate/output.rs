//! What the annotated copy is written as.

use std::path::Path;

use super::error::AnnotateError;
use crate::table_file::TableFormat;
use crate::vector_file::VectorFormat;

/// Extensions that tell a format.
const EXTENSIONS: &str = ".parquet, .pq, .arrow, .ipc or .feather";

/// Returns the format that the name of the copy tells.
pub(super) fn format_of(path: &Path) -> Result<TableFormat, AnnotateError> {
    match VectorFormat::of_extension(path) {
        Some(VectorFormat::Columns) => Ok(TableFormat::Arrow),
        Some(VectorFormat::Parquet) => Ok(TableFormat::Parquet),
        _ => Err(AnnotateError::OutputFormat { path: path.into(), expected: EXTENSIONS }),
    }
}
