//! Vectors from a file of any format that is read here.
//!
//! [`VectorFormat`] tells formats apart, [`VectorFile`] streams the vectors of any as f32.

mod format;
mod file;

pub use file::{VectorFile, VectorFileError};
pub use format::VectorFormat;
pub(crate) use format::{EXPECTED_FORMATS, UNKNOWN_FORMAT_HINT};

#[cfg(test)]
mod tests;
