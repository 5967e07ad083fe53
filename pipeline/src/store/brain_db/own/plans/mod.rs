//! Saved plans: what was planned, and what became of each action.

mod error;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use error::FindPlanError;
pub use write::ActionUpdate;

pub(crate) use read::{find, list, load};
pub(crate) use write::{amend, save, set_state, state};
