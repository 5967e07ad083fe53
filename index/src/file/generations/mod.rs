//! Generations: a folder in which a new state appears whole or not at all.
//!
//! ```text
//! MANIFEST                       names the live generation; replaced by rename
//! LOCK                           held by the one process that writes a generation
//! gen-000042/index.mfi           the files of a generation, never changed
//! gen-000042/columns.arrow
//! gen-000042/fresh-0001.mfi      sealed fresh rows, numbered without gaps
//! gen-000042/LOCK                held by the one process that seals fresh rows
//! gen-000041/                    the generation before, for readers that have just read MANIFEST
//! gen-000043.pending/            being written, or left behind by a writer that died
//! ```
//!
//! Publishing: files, made durable; their folder, made durable and renamed; the folder above; MANIFEST,
//! written aside, made durable and renamed; the folder above again. The last rename is the moment at which the
//! new generation is live. Whatever stops a writer before leaves names that no MANIFEST holds; the next writer,
//! who alone has the lock, removes them. Readers take no lock and write nothing: they read MANIFEST and map the files
//! it names; where one is gone, MANIFEST has changed, and they read it again.
//!
//! Fresh rows need no MANIFEST: a segment is written aside, made durable and renamed to the next
//! number, where every process finds it with one attempt to open it.
//!
//! All of it is derived: the folder can be deleted at any time.

mod disk;
mod manifest;
mod read;
mod write;
mod error;

pub use disk::{COLUMNS_FILE, FileMode, INDEX_FILE, SEARCHED_FILE};
pub use error::GenerationError;
pub use read::{Generation, Generations};
pub use write::{FreshWriter, GenerationWriter};

#[cfg(test)]
mod tests;
