//! The input with its clusters beside it: [`annotate`].
//!
//! Every row and column of the files is read again, batch by batch, and written with four more
//! columns, also the rows that the corpus skipped.

mod columns;
mod error;
mod output;
mod run;
mod schema;

pub use columns::{COLUMN_NAMES, Membership};
pub use error::AnnotateError;
pub use run::{annotate, check};

#[cfg(test)]
mod tests;
