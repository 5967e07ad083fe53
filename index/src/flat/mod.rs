//! The scan tier: which rows are near this vector, by a scan of 64 int8 codes per row?
//!
//! A [`FlatIndex`] holds for each row the codes of its coordinates along the 64 principal directions of all rows, and
//! a bias: 72 bytes that every scan reads. Another 132, the codes along 128 further directions, are read where the
//! first let a row pass, which keeps k-nearest searches from the vectors. It lies in a file as it lies in memory: a
//! [`FlatView`] borrows both alike, in constant time.
//!
//! A [`FlatScan`] tests every row with one integer sign test, those that pass with a second, and reranks the rest by the
//! canonical similarity over the vectors themselves, which may lie in a mapped column. The tests let
//! everything near pass ([`transform`](crate::transform) has the proof), so answers are those of a plain
//! [`Scan`](crate::Scan), row for row and bit for bit, at a fraction of its reads.
//!
//! # The same bytes everywhere
//!
//! Directions are learned from the 4,096 distinct vectors of the smallest hashes, by canonical dot products and
//! f64 arithmetic that is neither fused nor reordered. So a flat index is a function of its rows, whatever the machine and
//! the number of threads.
//!
//! # In a file
//!
//! | section | numbers | count |
//! |---|---|---|
//! | prefix transform | f32: step, step of the fine codes, bound of the squared norm, `width` middles, `width` directions | 3 + width · (1 + dim), width ≤ 192 |
//! | prefix codes | i8: groups of 32 rows, 4 codes of each row side by side; then the fine codes, row after row | 2,048 for each group, 128 for each row |
//! | prefix norms | i32: groups of 32 biases for rows shifted to unsigned codes and 32 as they are; then squared lengths of fine codes, −1 where they do not count | 64 for each group, 1 for each row |
//!
//! The last group is padded with rows that never pass. Whoever damages these numbers gets answers with rows missing,
//! never wrong rows: each was reranked.

mod view;
mod query;

pub use query::{FlatScan, ScanMemory};
pub use view::{FlatIndex, FlatView};

#[cfg(test)]
mod tests;
