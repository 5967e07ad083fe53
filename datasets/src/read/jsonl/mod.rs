//! JSON lines: an object on each line, its fields as columns.
//!
//! The types of the columns are learnt in a first pass over the whole file ([`learn`]), batches are
//! decoded in a second ([`decode`]). Lines are taken apart by `serde_json` itself, because errors
//! name the line, vectors are parsed straight to f32, and nested values stay as they were written.

mod file;
mod learn;

pub(crate) use file::JsonlFile;
