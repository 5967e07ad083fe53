//! How similar are two vectors?
//!
//! One answer decides: the [canonical similarity](canonical), a cosine in f64 with the same bits on
//! every processor. Everything else here is faster and only *proposes*:
//!
//! | kernel | type | contract |
//! |---|---|---|
//! | [`Kernels::dot`] | f32 → f64 | same bits on every level |
//! | [`Kernels::dot_i8`] | i8 → i32 | exact |
//! | [`Kernels::dots_i8`] | i8 → i32 | the same, one vector with many |
//! | [`Kernels::squared_distances`] | i8 → i32 | exact, one vector to picked ones of many |
//! | [`Kernels::hits`] | i8 → (row, column) | exact sign test of a block against a panel |
//! | [`Kernels::scored_hits`] | i8 → (row, column, score) | the same with scores |
//! | [`Kernels::dot_f32`] | f32 → f32 | last bits depend on the level |
//! | [`Kernels::products_f32`] | f32 → f32 | the same, many vectors with a panel of others |
//!
//! A [`Level`] names the instruction sets a processor has; a table of [`Kernels`] for it can only
//! be had after detection. Only `arch` contains `unsafe`.
//!
//! ```
//! use memfold_simd::canonical;
//!
//! let similarity = canonical::similarity(&[1.0, 2.0], &[2.0, 4.0]).unwrap();
//! assert_eq!(similarity.get(), 1.0);
//! assert!(canonical::similarity(&[1.0, 2.0], &[0.0, 0.0]).is_none());
//! ```

pub mod similarity;

pub mod canonical;
pub mod level;

pub mod float_panel;
pub mod kernels;
pub mod panel;

mod arch;
mod portable;

#[cfg(test)]
mod tests;

pub use float_panel::FloatPanel;
pub use kernels::Kernels;
pub use level::{Level, RequestLevelError};
pub use panel::{CodeRows, ColumnPanel, Columns, Hit, RowBlock, ScoredHit};
pub use similarity::Similarity;
