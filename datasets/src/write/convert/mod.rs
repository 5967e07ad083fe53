//! A file of vectors in another format: [`convert`].
//!
//! Tables (Arrow, Parquet, JSON Lines) keep every column; the other formats take the vectors alone.
//! Rows go from the one to the other batch by batch, and vectors whose type stays are never looked at
//! one by one, but for a pass that finds NaN and infinite values.

mod component;
mod json_lines;
mod output;
mod run;
mod error;

pub use crate::read::format::VectorFormat;
pub use component::ComponentType;
pub use error::{VectorFault, WriteError};
pub use run::{ConvertOptions, Converted, convert};

#[cfg(test)]
mod tests;
