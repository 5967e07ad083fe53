//! Saved plans: what was planned, and what became of each action.

mod error;
mod read;
mod write;

#[cfg(test)]
mod tests;

pub use error::FindPlanError;
pub use write::ActionUpdate;

#[cfg(test)]
pub(crate) use read::load;
pub(crate) use read::{exists, find, list};
pub(crate) use write::{amend, note, save_actions, save_header, set_state, state};
