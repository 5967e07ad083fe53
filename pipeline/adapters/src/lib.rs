//! How do the stores of other systems become a `brain.db`, and back?
//!
//! Each adapter implements [`Origin`](memfold_store::origin::Origin): it reads records and writes changes. The mirror, plans and
//! undo are elsewhere. [`detect`] and [`open`] choose the adapter of a path.

mod kinds;
mod shared;
mod json;
pub mod mcp_memory;
pub mod markdown;
mod sqlite_file;
pub mod sqlite_table;
mod json_folder;
#[cfg(feature = "git")]
pub mod git_notes;
#[cfg(not(feature = "git"))]
#[path = "git_notes/not_built.rs"]
mod git_notes;
#[cfg(test)]
mod testing;

pub use kinds::{BRAIN_DB, detect, kind_names, open, root};
