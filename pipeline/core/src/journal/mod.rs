//! The journal: what a run changed, exactly as it was before, and how to take it back.
//!
//! A [`Change`] is one reversible step on a row of the store. Executing writes changes down beside the rows, in
//! the same transaction; [`revert`] turns them into the changes that undo them, given the rows as they
//! are now. An undo is made of changes like any other run, so it can be undone itself.
//!
//! Everything here is plain data: nothing reads a store or a clock.

mod change;
mod revert;

pub use change::{
    Change, ColumnChange, JournalEntry, Op, Record, RowImage, RowKey, Table, cells_from_json,
    cells_to_json,
};
pub use revert::{Conflict, CurrentRows, REFERENCE, RevertOptions, revert};
