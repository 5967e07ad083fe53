//! Executing: a plan's actions become changes of the store, one short transaction for each unit, and back.
//!
//! A [`unit`](ExecutionUnit) holds the changes of one memory: a merge and further actions on its
//! survivor, or one action alone. It is applied whole or not at all. At its start every row must be
//! as the plan saw it (the base digests); a unit with a changed row is left alone as *stale*.
//! Counters move by differences, so that accesses since the plan stay counted.
//!
//! [`execute`] runs units, [`undo`] undoes them; both are runs, with a journal of their own.

mod select;
mod units;
mod request;
mod apply;
mod undo;
mod review;

pub(crate) use apply::execute_watched;
pub use apply::{execute, preview};
pub(crate) use request::RunWatcher;
pub use request::{
    CHANGE_SHARE_MAX, ExecuteError, ExecuteRequest, Execution, Review, UnitOutcome, UnitResult,
    WriteRules, forbidden_by,
};
pub use review::{KeepBothRequest, keep_both};
pub(crate) use units::{carry_out_alone, changes_of, rejudge_flags, unreadable, write_unit};

pub use select::{Pick, PickError, Selection};
pub use undo::{Undo, UndoOutcome, UndoRequest, UndoTarget, preview_undo, undo};
pub use units::{Blocked, ExecutionUnit};
