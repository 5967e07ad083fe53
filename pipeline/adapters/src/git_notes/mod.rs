//! Memories in git notes, as git-notes-memory keeps them.
//!
//! Memories are read from `refs/notes/mem/<namespace>`, which is never written. What becomes of them is written
//! beside it: `refs/notes/mem-meta/<namespace>` (tier, accesses, what a memory was merged into),
//! `mem-summaries` (memories made of others), `mem-edges` and `mem-runs`. Plain git reads all of it, and its
//! `cat_sort_uniq` merges it, because a record is one line and the last one of a memory counts.
//!
//! `repository` knows git; `record`, `ids` and `line` the formats; `index_db` the owner's index; `ledger`
//! holds the lines that memfold wrote and `meta` says what they mean for a memory; `library` puts all together
//! for reading; `draft` turns units into lines and takes them out by `undo`, and `write` publishes them.

mod adapter;
mod draft;
mod ids;
mod index_db;
mod ledger;
mod library;
mod line;
mod meta;
mod record;
mod repository;
mod undo;
mod write;

#[cfg(test)]
mod tests;

pub use adapter::{GitNotes, KIND, is_one, open, root};
