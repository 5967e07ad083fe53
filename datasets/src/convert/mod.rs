//! A file of vectors in another format: [`convert`].
//!
//! Tables (Arrow, Parquet, JSON Lines) keep every column; the other formats take the vectors alone.
//! Rows go from the one to the other batch by batch, and vectors whose type stays are never looked at
//! one by one, but for a pass that finds NaN and infinite values.

mod format;
mod component;
mod cells;
mod columns;
mod rebatch;
mod headers;
mod vectors;
mod json_lines;
mod output;
mod error;
mod run;

pub use component::ComponentType;
pub use error::{ConvertError, VectorFault};
pub use format::OutputFormat;
pub use run::{ConvertOptions, Converted, convert};

#[cfg(test)]
mod tests;
