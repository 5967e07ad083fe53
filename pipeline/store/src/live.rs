//! [`LiveRow`]: a live memory while it is read, and who is shown it.

use std::io;

use memfold_model::memory::Memory;
use memfold_model::time::Instant;

/// A live memory while it is read.
#[derive(Debug, Clone, Copy)]
pub struct LiveRow<'a> {
    /// The store's row number.
    pub rowid: i64,
    /// The store's id.
    pub id: &'a str,
    /// What it says.
    pub content: &'a str,
    /// Categories in the store's order, without repeats.
    pub categories: &'a [Box<str>],
    /// Importance.
    pub importance: f64,
    /// How often it was read.
    pub access_count: i64,
    /// When it was made; `None` where unreadable.
    pub created_at: Option<Instant>,
    /// Where it came from, as stored.
    pub source: &'a str,
    /// The first source, before any consolidation.
    pub root_source: &'a str,
}

impl<'a> From<&'a Memory> for LiveRow<'a> {
    fn from(memory: &'a Memory) -> Self {
        Self {
            rowid: memory.rowid,
            id: memory.id.as_str(),
            content: &memory.content,
            categories: &memory.categories,
            importance: memory.importance,
            access_count: memory.access_count,
            created_at: memory.created_at.instant(),
            source: &memory.source,
            root_source: &memory.root_source,
        }
    }
}

/// Is shown the live memories of a store, one by one; the thread that shows them need not be the one that reads.
pub trait LiveVisitor: Send {
    /// Is told which store it is, before the first row; a second time where everything is shown again, because the store
    /// changed under the reader or turned out to be another than it seemed.
    ///
    /// # Errors
    /// When the visitor cannot go on.
    fn begin(&mut self, store_id: &str) -> io::Result<()>;

    /// Is shown a memory with the model and the components of its vector, where it has a valid one (finite, not zero,
    /// −0 made +0) that was made for its text.
    ///
    /// # Errors
    /// When the visitor cannot go on.
    fn visit(&mut self, row: &LiveRow<'_>, vector: Option<(&str, &[f32])>) -> io::Result<()>;
}
