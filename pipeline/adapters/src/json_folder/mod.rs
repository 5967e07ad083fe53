//! JSON memory folders: `global/`, `teams/<team>/`, `agents/<agent>/`, … with files of memories, an
//! `_index.json` for each scope, `archive/` and `ops/consolidation-log.json`.
//!
//! Reading is tolerant: an entry of any of three shapes with an id of any form, its content a text or an
//! object; under `entries`, `memories`, `log`, `decisions` or `events`, in a bare list, or as a file of its own. What cannot be
//! understood is told with its place. Folders and files whose names begin with a dot, `ops/` and `schemas/` hold no
//! memories.
//!
//! Writing changes the members that are other and keeps every other byte. A memory that leaves goes to
//! `archive/<its path>`; the copy there is written and synced before the memory goes. After a crash in between it
//! stands in both places and counts as live, and writing the same units again ends what was begun.

mod json;
mod edit;
mod text;
mod entry;
mod files;
mod folder;
mod index_file;
mod log;
mod write;
mod steps;
mod origin;

pub use origin::{INDEX_ENTRIES_MAX, JsonFolder, JsonFolderOptions, KIND};

#[cfg(test)]
mod tests;
